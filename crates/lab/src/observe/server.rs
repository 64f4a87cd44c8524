//! The target's processes on this host.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_sys::proc::{listeners, process_name};
use thalweg_sys::process_group;

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

    /// The CPU time that each of its processes has used so far, in nanoseconds.
    pub fn cpu_ns(&self) -> BTreeMap<u32, u64> {
        self.pids.iter().filter_map(|pid| Some((*pid, process_group::cpu_ns(*pid)?))).collect()
    }

    /// The numbers of its processes.
    pub fn pids(&self) -> &[u32] {
        &self.pids
    }
}
