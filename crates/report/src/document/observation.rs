//! The observed host in the result document: the course of a command, and the summary of a trial.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thalweg_observe::{HostFacts, Series};

/// The target's host as its observer saw it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Observation {
    /// The observer's address; absent where client and target share this host.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub observer: Option<String>,
    /// The host.
    pub host: HostFacts,
    /// Seconds that the observer's clock was ahead of the client's; times here are the client's.
    pub clock_offset_s: f64,
    /// The greatest error of that, in seconds.
    pub clock_error_s: f64,
    /// CPU time that the observation took on the observed host, as a share of one CPU.
    pub cost: f64,
    /// The times in which the observer was lost.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub lost: Vec<LostObserver>,
    /// The course; `t` counts from the start of the command.
    pub series: Series,
}

/// A time in which there was no sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LostObserver {
    /// Its beginning, in seconds from the start of the command.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
}

/// The observation of the target's host during a trial.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ServerObservation {
    /// Name of the processes that listen on the target's port.
    pub process: String,
    /// Their CPU time per second of the trial, in CPUs.
    pub cpu_cores: f64,
    /// Use of each CPU that the load did not run on, 0 to 1.
    pub cpus_busy: BTreeMap<usize, f64>,
    /// Share of the host's CPU time that its hypervisor gave to other guests, 0 to 1.
    #[serde(default)]
    pub stolen: f64,
    /// Segments sent again, per segment sent, on the whole host.
    pub retransmitted: f64,
    /// Connections dropped because a listener's queue was full, on the whole host.
    pub listen_overflows: u64,
    /// Further figures of the host.
    #[serde(default)]
    pub figures: HostFigures,
}

/// Figures of the target's host during a trial. Those that its kernel does not show are absent;
/// docs/observing.md says where each comes from.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostFigures {
    /// The length of the observation in seconds: the trial with its warm-up and drain.
    pub seconds: f64,
    /// CPU time of all CPUs by kind, as shares: `user`, `nice`, `system`, `irq`, `softirq`,
    /// `steal`, `iowait`.
    pub cpu: BTreeMap<String, f64>,
    /// Threads that ran or could run, on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<f64>,
    /// Context switches per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_switches: Option<f64>,
    /// Share of the time in which some thread waited for a resource: `cpu`, `memory`, `io`.
    pub pressure: BTreeMap<String, f64>,
    /// Share of the time in which the busiest disk had a request, with its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busiest_disk: Option<(String, f64)>,
    /// Network interfaces that carried something.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfaceUse>,
    /// Connections that a listener dropped for any reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen_drops: Option<u64>,
    /// SYN cookies sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub syncookies: Option<u64>,
    /// The server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerFigures>,
    /// CPU time of the observer, as a share of one CPU.
    pub observer_cpu: f64,
}

/// The use of a network interface.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InterfaceUse {
    /// Its name.
    pub name: String,
    /// Bits received per second.
    pub rx_bits: f64,
    /// Bits sent per second.
    pub tx_bits: f64,
    /// Packets dropped, in either direction.
    pub dropped: u64,
    /// Its speed in bits per second, where its driver states one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub speed_bits: Option<f64>,
}

/// The server's processes during a trial.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServerFigures {
    /// Processes, at most.
    pub processes: u64,
    /// Threads, at most.
    pub threads: u64,
    /// Open descriptors, at most.
    pub descriptors: u64,
    /// The lowest of their limits on descriptors.
    pub descriptors_limit: u64,
    /// The share of its descriptors that the process closest to its limit had open, at most.
    pub descriptor_use: f64,
    /// Resident memory in bytes, on average.
    pub resident_bytes: f64,
    /// The busiest thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busiest_thread: Option<BusiestThread>,
    /// Time in which threads of the server could have run and waited for a CPU, per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_queue_wait: Option<f64>,
    /// Waits of the busiest threads for locks, per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub futex_waits: Option<f64>,
    /// Connections that waited to be accepted, at most.
    pub accept_queue: u64,
    /// How many may wait.
    pub accept_backlog: u64,
    /// The connections that were examined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<ConnectionSummary>,
    /// CPUs that the quota of its control group allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota_cpus: Option<f64>,
    /// Seconds in which that quota kept it from running.
    pub throttled_s: f64,
}

/// The busiest thread of the server.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct BusiestThread {
    /// Its name.
    pub name: String,
    /// Its CPU time per second.
    pub cpu: f64,
    /// Its wait for a CPU per second.
    pub run_queue_wait: f64,
}

/// The server's connections, as its kernel sees them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ConnectionSummary {
    /// How many were examined.
    pub examined: u64,
    /// Whether there were more.
    pub is_sample: bool,
    /// Median of the round-trip times.
    pub rtt_p50_us: f64,
    /// Their 99th percentile.
    pub rtt_p99_us: f64,
    /// Segments sent again, per segment sent.
    pub retransmitted: f64,
    /// Share of the sending time in which the client's receive window was full.
    pub rwnd_limited: f64,
    /// Share of the sending time in which the own send buffer was full.
    pub sndbuf_limited: f64,
}
