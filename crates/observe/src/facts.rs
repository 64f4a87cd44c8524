//! The facts about an observed host that do not change from sample to sample.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A host, its observer, and what of it cannot be observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostFacts {
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
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Identifies this boot of the kernel: two observers with the same one are on one host.
    pub boot_id: String,
    /// Version of the observer.
    pub version: String,
    /// The time between two samples, in seconds.
    pub interval_s: f64,
    /// How the server was named: `port 80`, `process nginx`; empty if it was not.
    pub server: String,
    /// Figures that this host does not show, each with the reason.
    pub unavailable: Vec<String>,
}
