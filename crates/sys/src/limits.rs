//! Limits of this process that decide how many connections it can hold.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A limit as the kernel keeps it: what holds now, and how far this process may raise it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DescriptorLimit {
    /// What holds now.
    pub soft: u64,
    /// What it can be raised to without privileges.
    pub hard: u64,
}

/// How many descriptors this process may have open.
pub fn descriptors() -> DescriptorLimit {
    let limit = getrlimit(Resource::Nofile);
    DescriptorLimit { soft: limit.current.unwrap_or(u64::MAX), hard: limit.maximum.unwrap_or(u64::MAX) }
}

/// Raises the soft limit to `wanted`, or as far as the hard limit allows; returns what holds then.
///
/// # Errors
/// The kernel refuses a limit that it has just named as possible, as a security policy might.
pub fn raise_descriptors(wanted: u64) -> io::Result<u64> {
    let DescriptorLimit { soft, hard } = descriptors();
    if soft >= wanted {
        return Ok(soft);
    }
    let raised = wanted.min(hard);
    setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: getrlimit(Resource::Nofile).maximum })?;
    Ok(raised)
}
