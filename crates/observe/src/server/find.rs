//! Finds the processes of the named server.

use std::collections::BTreeSet;
use std::fmt;

use thalweg_sys::diag;
use thalweg_sys::proc::{holders_of_sockets, listeners, process_ids, process_name, sockets_of};

/// The name by which a server is found; it may start, stop and start again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerName {
    /// The processes that listen on a TCP port.
    Port(u16),
    /// One process.
    Pid(u32),
    /// The processes with that name, as `ps` shows it in its column COMMAND.
    Process(String),
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(port) => write!(f, "port {port}"),
            Self::Pid(pid) => write!(f, "pid {pid}"),
            Self::Process(name) => write!(f, "process {name}"),
        }
    }
}

/// A server, found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) pids: Vec<u32>,
    /// The TCP ports that it listens on.
    pub(super) ports: Vec<u16>,
}

/// Ports that are looked at; a server with more is no web server.
const PORTS_MAX: usize = 4;
/// The kernel cuts the name of a process to this length.
const NAME_BYTES_MAX: usize = 15;

/// Looks up the processes.
pub(super) fn find(name: &ServerName) -> Found {
    let mut pids = match name {
        ServerName::Port(port) => return Found { pids: sorted(listeners(*port)), ports: vec![*port] },
        ServerName::Pid(pid) => vec![*pid],
        ServerName::Process(name) => {
            let cut = name.get(..NAME_BYTES_MAX).unwrap_or(name);
            let named = |pid: &u32| process_name(*pid).is_some_and(|process| process == cut);
            process_ids().into_iter().filter(named).collect()
        }
    };
    let listening = diag::listening(0).unwrap_or_default();
    let held: BTreeSet<u32> = pids.iter().take(PORTS_MAX).flat_map(|pid| sockets_of(*pid)).collect();
    let own = listening.iter().filter(|socket| held.contains(&socket.inode));
    let ports: BTreeSet<u16> = own.clone().map(|socket| socket.address.port()).collect();
    if let ServerName::Pid(_) = name {
        // The workers of a named master hold its sockets.
        let inodes: Vec<u32> = own.map(|socket| socket.inode).collect();
        pids.extend(holders_of_sockets(&inodes));
        pids = sorted(pids);
    }
    Found { pids: sorted(pids), ports: ports.into_iter().take(PORTS_MAX).collect() }
}

fn sorted(mut pids: Vec<u32>) -> Vec<u32> {
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// The names of processes as one.
pub(super) fn names_of<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: BTreeSet<&str> = names.collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}
