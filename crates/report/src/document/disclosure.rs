//! The facts of the measuring host and program that an independent party needs beside the plan, to
//! repeat a measurement.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The measuring program and its host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Disclosure {
    /// SHA-256 of the program file; empty if it could not be read.
    pub program_sha256: String,
    /// Kind of build and machine that it was made for, such as `release x86_64-linux`.
    pub build: String,
    /// The kernel's own description of its build.
    pub kernel_build: String,
    /// Frequency governors of the CPUs; empty where the host shows none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub governors: Vec<String>,
    /// Network interfaces that are up.
    pub interfaces: Vec<Interface>,
    /// Resource limits of the process (getrlimit(2)), soft and hard.
    pub limits: BTreeMap<String, String>,
    /// Control group of the process, with its CPU limit (`cpu.max`) if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_group: Option<String>,
    /// Variables of the environment that bear on the program, none with secrets.
    pub environment: BTreeMap<String, String>,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its speed in Mbit/s; `null` where it has none of its own, as a loopback.
    pub speed_mbit: Option<u64>,
    /// Its largest packet in bytes.
    pub mtu: Option<u64>,
    /// The kernel's driver; `null` where it is the kernel itself.
    pub driver: Option<String>,
}
