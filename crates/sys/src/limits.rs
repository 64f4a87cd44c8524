//! Limits of this process that decide how many connections it can hold.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::address::PortRange;
use crate::proc::sysctl;

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

/// The ports from which the kernel chooses by itself (`net.ipv4.ip_local_port_range`, also for IPv6); `None` where it does not tell.
/// Their number bounds the connections from one address to one peer, unless [`Connect::ports`](crate::Connect) names others.
pub fn ip_local_port_range() -> Option<PortRange> {
    let text = sysctl("net.ipv4.ip_local_port_range")?;
    let (first, last) = text.split_once(' ')?;
    PortRange::new(first.parse().ok()?, last.parse().ok()?)
}
