//! The result document, `thalweg.result/1`: what every command that measures leaves behind.
//!
//! It is a contract with scripts: fields are added, never renamed or removed. Units stand in the
//! names; times are in microseconds where they describe requests and in seconds where they describe
//! runs, rates are per second, sizes are bytes.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_load::{LogSummary, SkipCounts};
use thalweg_measure::limit::{Limit, Statistic};
use thalweg_measure::search::EndReason;
pub use thalweg_measure::trial::{Bytes, Connections, Rates, Sample, SessionsSummary};
use thalweg_measure::{
    Causes, Counts, IntervalSummary, LoopKind, Outcomes, StatusClasses, StatusCodes, Summary, Verdict,
};

/// The value of [`Document::schema`].
pub const SCHEMA: &str = "thalweg.result/1";

/// One result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The command.
    pub kind: Kind,
    /// Names this result among all others.
    pub id: String,
    /// When it began, RFC 3339, UTC.
    pub started: String,
    /// The plan, with every default filled in.
    pub plan: PlanDocument,
    /// SHA-256 of the plan's canonical JSON, so that two results can be recognised as results of
    /// the same plan.
    pub plan_sha256: String,
    /// Seed of everything that is random in the run.
    pub seed: u64,
    /// Version of Thalweg.
    pub version: String,
    /// The machine that measured.
    pub host: HostDocument,
    /// The verdict on the whole.
    pub verdict: Verdict,
    /// Why the verdict is what it is, one sentence each.
    pub reasons: Vec<String>,
    /// Every trial in the order in which it was run, invalid ones too.
    pub trials: Vec<Trial>,
    /// The bounds that a search found.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub find: Option<Find>,
    /// The log that was replayed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub log: Option<LogDocument>,
}

/// A log that was replayed: what of it, and what not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogDocument {
    /// Requests that were replayed.
    pub requests: u64,
    /// Lines that were left out.
    pub skipped: SkippedLines,
    /// Requests so far behind later ones in the log that they were replayed later than at their
    /// logged times.
    pub displaced: u64,
}

/// Lines of a log that were left out, in all and by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkippedLines {
    /// All of them.
    pub total: u64,
    /// The request was none, such as a TLS handshake.
    pub malformed: u64,
    /// The method is one whose body is not in the log.
    pub method: u64,
    /// The target cannot be sent.
    pub target: u64,
}

impl From<LogSummary> for LogDocument {
    fn from(log: LogSummary) -> Self {
        let SkipCounts { malformed, method, target } = log.skipped;
        let skipped = SkippedLines { total: log.skipped.total(), malformed, method, target };
        Self { requests: log.requests, skipped, displaced: log.displaced }
    }
}

/// Which command made the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// One trial.
    Run,
    /// A capacity search.
    Find,
    /// An access log at its own times.
    Replay,
}

/// The plan of a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanDocument {
    /// The command line.
    pub command: Vec<String>,
    /// The target as it was given.
    pub target: String,
    /// The address that it resolved to.
    pub address: String,
    /// The load in one line for people, for example
    /// `open loop, 5000/s, 64 connections, keep-alive`.
    pub load: String,
    /// The limits that PASS means, for example `p99<50ms`.
    pub limits: Vec<String>,
    /// Every other setting by its option's name.
    pub settings: BTreeMap<String, String>,
}

impl PlanDocument {
    /// The tightest limit on a figure of the response time.
    pub fn bound_on(&self, figure: Statistic) -> Option<Duration> {
        let limits = self.limits.iter().filter_map(|limit| limit.parse::<Limit>().ok());
        limits.filter_map(|limit| limit.bound_on(figure)).min()
    }
}

/// The machine that measured: the facts needed to repeat the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostDocument {
    /// Its name.
    pub name: String,
    /// Kernel and release.
    pub kernel: String,
    /// Machine architecture.
    pub machine: String,
    /// Model of the CPU.
    pub cpu_model: String,
    /// CPUs online.
    pub cpus: usize,
    /// CPUs that the load ran on.
    pub load_cpus: Vec<usize>,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The kernel's clock source.
    pub clock_source: String,
    /// Descriptors that the process could open.
    pub descriptors: u64,
    /// Kernel settings that bear on the result.
    pub sysctls: BTreeMap<String, String>,
    /// Client and server shared this machine.
    pub shared_with_target: bool,
}

impl Trial {
    /// Whether the trial is held against the limits. Calibration and probe are not: one measures
    /// the client, the other is a hint.
    pub fn is_judged(&self) -> bool {
        !matches!(self.phase.as_str(), "calibrate" | "probe")
    }
}

/// One load at one level for one length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// Its purpose: `run`, `calibrate`, `probe`, `bracket`, `narrow`, `confirm` or `recover`.
    pub phase: String,
    /// Seconds from the start of the document to the start of the trial.
    pub at_s: f64,
    /// Whether arrivals waited for responses.
    #[serde(rename = "loop")]
    pub loop_kind: LoopKind,
    /// Requests per second that the schedule called for; `null` in a closed loop.
    pub offered_rate: Option<f64>,
    /// Measured length without the warm-up.
    pub seconds: f64,
    /// From the start of the measured part to the end of the last request offered in it, seconds;
    /// at least `seconds`. Counts, outcomes and bytes are of this span, `rates` are of the measured
    /// part.
    #[serde(default)]
    pub span_s: f64,
    /// The verdict on this trial alone.
    pub verdict: Verdict,
    /// Why, one sentence each.
    pub reasons: Vec<String>,
    /// Offered, sent, completed and good requests.
    pub counts: Counts,
    /// How each offered request ended.
    #[schemars(with = "BTreeMap<String, u64>")]
    pub outcomes: Outcomes,
    /// Failures by cause, in more detail than by outcome.
    #[serde(default)]
    pub causes: Causes,
    /// Responses by class of status.
    pub status: StatusClasses,
    /// Responses by status code, those that came.
    #[schemars(with = "BTreeMap<String, u64>")]
    #[serde(default)]
    pub status_codes: StatusCodes,
    /// Events per second of measured length.
    pub rates: Rates,
    /// Bytes on the wire above TCP.
    pub bytes: Bytes,
    /// Last byte minus intended time: the headline figure.
    pub response_time_us: Summary,
    /// Last byte minus sent.
    pub service_time_us: Summary,
    /// Sent minus the moment at which it could have been sent, which is the intended time or, where
    /// the request had to wait for a connection, the end of that wait: the client's own lateness.
    pub lag_us: Summary,
    /// The wait for a connection that the target kept busy, from when the client saw that the
    /// request was due.
    pub queue_us: Summary,
    /// Establishing a connection.
    pub connect_us: Summary,
    /// First byte of the response minus sent.
    pub first_byte_us: Summary,
    /// Last byte of the response minus its first.
    #[serde(default)]
    pub transfer_us: Summary,
    /// From the attempt to connect to the close, of connections that carried at least one whole
    /// response.
    #[serde(default)]
    pub connection_lifetime_us: Summary,
    /// Connections.
    pub connections: Connections,
    /// Thousands of bits per second at which each connection's responses arrived, of the
    /// connections that received any.
    #[serde(default)]
    pub kbit_per_connection: Summary,
    /// Sessions, where the load is made of some.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sessions: Option<SessionsSummary>,
    /// The first good response, as a sample of the target's responses.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sample: Option<Sample>,
    /// The measuring client itself.
    pub client: Client,
    /// Width of each interval in seconds; the last one may be filled in part.
    #[serde(default)]
    pub interval_s: f64,
    /// The course of the trial.
    pub intervals: Vec<IntervalSummary>,
    /// The target's processes during the trial, where they run on this host.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server: Option<ServerObservation>,
}

/// The measuring client itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Client {
    /// `uring` or `epoll`.
    pub driver: String,
    /// How many CPUs there was load from.
    pub cores: usize,
    /// Those CPUs.
    pub cpus: Vec<usize>,
    /// CPU time in user space, seconds, all load threads.
    pub cpu_user_s: f64,
    /// CPU time in the kernel, seconds, all load threads.
    pub cpu_sys_s: f64,
    /// Share of the busiest load CPU that its threads used, 0 to 1.
    pub busiest_core: f64,
    /// How long before an arrival a load thread stopped sleeping, so as to be on time.
    #[serde(default)]
    pub wakes_early_us: f64,
    /// Seconds in which a load thread was ready to run and was not run, nor another one on its CPU.
    pub run_queue_wait_s: f64,
}

/// The observation of a target on this host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Find {
    /// Highest rate that passed, in requests per second; `null` if none did. Of a target that has
    /// collapsed and not recovered it is the highest from before that; then `overload` says so.
    pub lower_bound: Option<f64>,
    /// Lowest rate that failed; `null` if the client's ceiling came first. Of a target that has
    /// collapsed and not recovered it is the rate under which that happened.
    pub upper_bound: Option<f64>,
    /// Whether the lower bound was judged by trials of the final length.
    #[serde(default)]
    pub lower_confirmed: bool,
    /// Whether the upper bound was.
    #[serde(default)]
    pub upper_confirmed: bool,
    /// An interval for the capacity with 95 % coverage. A single search has none, only its bracket,
    /// and says `null`.
    pub interval95: Option<[f64; 2]>,
    /// Why the search ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ended: Option<EndReason>,
    /// The effect of an overload on the target, if it was seen to change it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub overload: Option<Overload>,
    /// The bottleneck: the cause that kept the rate from rising.
    pub limit: LimitedBy,
    /// The evidence for it.
    pub evidence: Vec<String>,
    /// The client's own ceiling against the built-in sink, requests per second.
    pub client_ceiling: Option<f64>,
    /// Notes on the result: a label such as a bracket wider than requested.
    pub notes: Vec<String>,
}

impl Find {
    /// Whether what was found is a lower bound only, since the client's ceiling came before the
    /// target's.
    pub fn is_lower_bound(&self) -> bool {
        self.lower_bound.is_some() && self.upper_bound.is_none()
    }

    /// The collapse that the target has not recovered from.
    pub fn collapsed(&self) -> Option<&Overload> {
        self.overload.as_ref().filter(|overload| !overload.recovered)
    }
}

/// An overload that has changed the target: it failed afterwards at rates that it had carried
/// before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overload {
    /// The kind of change.
    pub shape: OverloadShape,
    /// Whether it has recovered.
    pub recovered: bool,
    /// How long that took, seconds, from the end of the last trial before the looks to the end of
    /// the look that passed.
    pub recovery_s: Option<f64>,
    /// The highest rate that passed before.
    pub held_rate: f64,
    /// The rate of the overload.
    pub overload_rate: f64,
    /// The lowest rate that failed after it.
    pub failed_rate: f64,
    /// How long the target was given, seconds.
    pub waited_s: f64,
    /// Looks that failed meanwhile: short trials at a rate well below the one that had passed.
    pub failed_looks: u32,
    /// How often the target has collapsed during the search. The figures are those of the longest
    /// recovery.
    pub times: u32,
}

/// The change of a target under an overload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OverloadShape {
    /// It carries less afterwards than it did before.
    Collapse,
}

/// The cause that keeps the rate from rising.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LimitedBy {
    /// The target.
    Server,
    /// The measuring client.
    Client,
    /// The path between them.
    Network,
    /// The evidence is not sufficient.
    Undetermined,
}
