//! Finds the named server on this host and reads the accounts of its processes, threads, sockets
//! and control group.
//!
//! Finding the processes of a port means reading the descriptors of all processes. That is done
//! when a process or a listening socket has come or gone, and now and then, never every second.

mod connections;
mod find;
mod group;
mod process;
mod threads;

use std::time::Duration;

use thalweg_sys::diag;

use crate::pace::Pace;
use crate::sample::{Listener, Server, ServerFigures};
use connections::Connections;
use group::GroupFiles;
use process::Process;
use threads::Threads;

pub use find::ServerName;

/// The time after which the processes are looked up again although nothing seems to have changed:
/// a server may have forked.
const LOOK_UP: Duration = Duration::from_secs(10);
/// The time between two look-ups if something has.
const LOOK_UP_LEAST: Duration = Duration::from_millis(500);
/// Processes that are followed; a server with more has the others left out, and `processes` says
/// how many were found.
const PROCESSES_MAX: usize = 256;

/// The named server.
#[derive(Debug)]
pub(crate) struct ServerReader {
    name: ServerName,
    ports: Vec<u16>,
    processes: Vec<Process>,
    found: usize,
    threads: Threads,
    connections: Connections,
    group: Option<GroupFiles>,
    /// The listening sockets, by inode, when the processes were looked up.
    inodes: Vec<u32>,
    changed: bool,
    look_up: Pace,
    regular: Pace,
}

impl ServerReader {
    pub(crate) fn new(name: ServerName) -> Self {
        Self {
            name,
            ports: Vec::new(),
            processes: Vec::new(),
            found: 0,
            threads: Threads::new(),
            connections: Connections::new(),
            group: None,
            inodes: Vec::new(),
            changed: true,
            look_up: Pace::at_most_every(LOOK_UP_LEAST),
            regular: Pace::at_most_every(LOOK_UP),
        }
    }

    /// Reads the accounts; `None` while the server does not run. Counters are those since the last
    /// reading.
    pub(crate) fn read(&mut self, buffer: &mut Vec<u8>) -> Option<Server> {
        let mut listeners = self.listeners();
        if self.look_up.is_due() && (self.changed || self.regular.is_due()) {
            self.find(buffer);
            if listeners.is_empty() {
                listeners = self.listeners();
            }
        }
        let mut figures = ServerFigures { processes: self.found as u64, ..ServerFigures::default() };
        let mut descriptor_use: f64 = 0.0;
        let before = self.processes.len();
        self.processes.retain_mut(|process| match process.read(buffer) {
            Some(read) => {
                process::add(&mut figures, &read);
                descriptor_use = descriptor_use.max(read.descriptor_use());
                true
            }
            None => false,
        });
        self.changed |= self.processes.len() < before;
        figures.processes -= (before - self.processes.len()) as u64;
        if self.processes.is_empty() {
            self.changed = true;
            return None;
        }
        let threads = self.threads.read(&self.processes, &mut figures, buffer);
        Some(Server {
            name: find::names_of(self.processes.iter().map(Process::name)),
            figures,
            descriptor_use,
            scheduling: threads.scheduling,
            busiest: threads.busiest,
            connections: self.connections.read(&self.ports),
            group: self.group.as_mut().and_then(|group| group.read(buffer)),
            listeners,
        })
    }

    /// Follows fewer threads, because the last sample has cost too much.
    pub(crate) fn follow_less(&mut self) {
        self.threads.follow_less();
    }

    /// The reason why waits for locks are not counted, once it is known.
    pub(crate) fn futex_refusal(&self) -> Option<&str> {
        self.threads.futex_refusal()
    }

    fn find(&mut self, buffer: &mut Vec<u8>) {
        let Self { name, processes, look_up, regular, .. } = self;
        let found = regular.run(|| look_up.run(|| find::find(name)));
        processes.retain(|process| found.pids.contains(&process.pid()));
        for pid in found.pids.iter().take(PROCESSES_MAX) {
            if !processes.iter().any(|process| process.pid() == *pid) {
                processes.extend(Process::open(*pid, buffer));
            }
        }
        self.group = match (self.group.take(), processes.first()) {
            (Some(group), Some(process)) if group.pid() == process.pid() => Some(group),
            (_, process) => process.and_then(|process| GroupFiles::open(process.pid())),
        };
        self.found = found.pids.len().min(PROCESSES_MAX);
        self.ports = found.ports;
        self.changed = false;
    }

    /// The listening sockets, as the kernel has them now. Other ones than before mean that the
    /// server was restarted.
    fn listeners(&mut self) -> Vec<Listener> {
        let mut inodes = Vec::new();
        let mut listeners: Vec<Listener> = Vec::new();
        let ports = if let ServerName::Port(port) = &self.name { std::slice::from_ref(port) } else { &self.ports[..] };
        for socket in ports.iter().filter_map(|port| diag::listening(*port).ok()).flatten() {
            inodes.push(socket.inode);
            let address = socket.address.to_string();
            // Sockets that share an address (SO_REUSEPORT) have a queue each.
            match listeners.iter_mut().find(|known| known.address == address) {
                Some(known) => {
                    known.waiting += socket.waiting;
                    known.backlog += socket.backlog;
                }
                None => listeners.push(Listener { address, waiting: socket.waiting, backlog: socket.backlog }),
            }
        }
        inodes.sort_unstable();
        self.changed |= inodes != self.inodes;
        self.inodes = inodes;
        listeners
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_first_reading_examines_the_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let clients: Vec<_> = (0..3).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
        let server = ServerReader::new(ServerName::Port(port)).read(&mut Vec::new()).unwrap();
        assert_eq!(server.connections.unwrap().examined, clients.len() as u64);
    }
}
