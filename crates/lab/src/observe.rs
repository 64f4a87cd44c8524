//! The observation of this host during a trial: its CPUs, and the server's processes if they run
//! here.
//!
//! The observer sees the target only where client and server share a host. It reads counters before
//! and after the trial, none during it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use thalweg_sys::proc::{
    CpuBusy, CpuTime, TcpCounters, cgroup_throttled_ns, cpus_busy, listeners, process_cpu, process_name, tcp_counters,
};

use crate::document::ServerObservation;

/// The processes that serve a port on this host.
#[derive(Clone, Debug)]
pub struct LocalServer {
    pids: Vec<u32>,
    name: String,
}

impl LocalServer {
    /// Finds the processes; `None` if there are none that this user may see.
    pub fn on_port(port: u16) -> Option<Self> {
        let pids = listeners(port);
        let names: BTreeSet<String> = pids.iter().filter_map(|&pid| process_name(pid)).collect();
        (!pids.is_empty()).then(|| Self { pids, name: names.into_iter().collect::<Vec<_>>().join(", ") })
    }

    /// Whether that process is one of them.
    pub fn has(&self, pid: u32) -> bool {
        self.pids.contains(&pid)
    }

    /// The name of the program.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The numbers of its processes.
    pub fn pids(&self) -> &[u32] {
        &self.pids
    }

    fn cpu(&self) -> CpuTime {
        let times = self.pids.iter().filter_map(|&pid| process_cpu(pid));
        times.fold(CpuTime::default(), |sum, time| CpuTime {
            user_ns: sum.user_ns + time.user_ns,
            system_ns: sum.system_ns + time.system_ns,
        })
    }
}

/// The counters of this host at one time.
#[derive(Debug)]
pub struct HostSnapshot {
    at: Instant,
    cpus: Vec<CpuBusy>,
    server: CpuTime,
    tcp: Option<TcpCounters>,
    throttled_ns: Option<u64>,
}

/// The activity of this host during a trial.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The server's side of it.
    pub server: ServerObservation,
    /// Nanoseconds in which the quota of this process's control group kept it from running.
    pub throttled_ns: u64,
}

impl HostSnapshot {
    /// Reads the counters.
    pub fn now(server: Option<&LocalServer>) -> Self {
        Self {
            at: Instant::now(),
            cpus: cpus_busy(),
            server: server.map_or_else(CpuTime::default, LocalServer::cpu),
            tcp: tcp_counters(),
            throttled_ns: cgroup_throttled_ns(),
        }
    }

    /// The activity since this snapshot. CPUs of `load_cpus` are left out: they are the client's.
    pub fn since(&self, server: Option<&LocalServer>, load_cpus: &[usize]) -> Observation {
        let elapsed = self.at.elapsed().max(Duration::from_millis(1)).as_nanos() as f64;
        let used = server.map_or_else(CpuTime::default, LocalServer::cpu).since(self.server);
        let cpus_now = cpus_busy();
        let pairs = || cpus_now.iter().zip(&self.cpus);
        let cpus: BTreeMap<usize, f64> = pairs()
            .filter(|(now, _)| !load_cpus.contains(&now.cpu))
            .map(|(now, before)| (now.cpu, share(now, before)))
            .collect();
        let stolen_ns: u64 = pairs().map(|(now, before)| now.stolen_ns.saturating_sub(before.stolen_ns)).sum();
        let tcp = tcp_counters().zip(self.tcp);
        let (retransmitted, overflows) = tcp.map_or((0.0, 0), |(now, before)| {
            let sent = now.segments_out.saturating_sub(before.segments_out).max(1);
            let again = now.retransmitted.saturating_sub(before.retransmitted);
            (again as f64 / sent as f64, now.listen_overflows.saturating_sub(before.listen_overflows))
        });
        let throttled_ns =
            cgroup_throttled_ns().zip(self.throttled_ns).map_or(0, |(now, then)| now.saturating_sub(then));
        Observation {
            server: ServerObservation {
                process: server.map_or_else(String::new, |server| server.name.clone()),
                cpu_cores: used.total_ns() as f64 / elapsed,
                cpus_busy: cpus,
                stolen: stolen_ns as f64 / (elapsed * cpus_now.len().max(1) as f64),
                retransmitted,
                listen_overflows: overflows,
            },
            throttled_ns,
        }
    }
}

fn share(now: &CpuBusy, before: &CpuBusy) -> f64 {
    let busy = now.busy_ns.saturating_sub(before.busy_ns) as f64;
    let idle = now.idle_ns.saturating_sub(before.idle_ns) as f64;
    if busy + idle > 0.0 { busy / (busy + idle) } else { 0.0 }
}
