//! The loop over the simulation, and what the simulation promises beyond the contract of a driver:
//! repeatable runs, faults on request, and an error instead of a hang.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::net::SocketAddr;

use thalweg_reactor::sim::{Sim, SimConfig};
use thalweg_reactor::{App, LoopControl, run};
use thalweg_sys::driver::{Completion, Connect, Driver, Listen, SendBuf};
use thalweg_sys::{Fault, Instant, SocketId};

const MS: u64 = 1_000_000;

/// Clients that send requests one after the other, a server that responds to each with as many
/// bytes, and a log of all events. Both sides retry after every failure, until the time is up.
struct Chatter {
    addr: SocketAddr,
    clients: usize,
    until: Instant,
    question: Vec<u8>,
    conversations: BTreeMap<SocketId, Conversation>,
    answered: usize,
    faults: usize,
    log: String,
}

#[derive(Default)]
struct Conversation {
    is_client: bool,
    received: usize,
    asked_at: Instant,
    unsent: usize,
    sending: bool,
}

impl Chatter {
    fn new(sim: &mut Sim, clients: usize, question_bytes: usize, for_ns: u64) -> Self {
        let listener = sim.listen(Listen::Address("10.0.0.1:80".parse().unwrap())).unwrap();
        let addr = sim.local_addr(listener).unwrap();
        Self {
            addr,
            clients,
            until: sim.now().plus_ns(for_ns),
            question: vec![b'?'; question_bytes],
            conversations: BTreeMap::new(),
            answered: 0,
            faults: 0,
            log: String::new(),
        }
    }

    fn run(mut self, sim: &mut Sim) -> Self {
        sim.wake_at(self.until);
        run(sim, &mut self).unwrap();
        self
    }

    fn say(&mut self, sim: &mut Sim, socket: SocketId) {
        let state = self.conversations.get_mut(&socket).unwrap();
        if state.unsent > 0 && !state.sending {
            state.sending = true;
            let bytes = std::mem::take(&mut state.unsent);
            sim.send(socket, SendBuf::Owned(vec![b'!'; bytes]));
        }
    }

    fn ask(&mut self, sim: &mut Sim, socket: SocketId) {
        let state = self.conversations.get_mut(&socket).unwrap();
        state.asked_at = sim.now();
        state.unsent += self.question.len();
        self.say(sim, socket);
    }

    fn on_received(&mut self, sim: &mut Sim, socket: SocketId) {
        let bytes = sim.received().len();
        let state = self.conversations.get_mut(&socket).unwrap();
        state.received += bytes;
        if !state.is_client {
            state.unsent += bytes;
            self.say(sim, socket);
        } else if state.received == self.question.len() {
            state.received = 0;
            self.answered += 1;
            let took = sim.now() - state.asked_at;
            writeln!(self.log, "{:?} answered after {took:?}", sim.now()).unwrap();
        }
    }

    fn close(&mut self, sim: &mut Sim, socket: SocketId) {
        self.conversations.remove(&socket).unwrap();
        sim.close(socket);
    }
}

impl App<Sim> for Chatter {
    fn on_completion(&mut self, sim: &mut Sim, completion: Completion) {
        writeln!(self.log, "{:?} {completion:?} {}", sim.now(), sim.received().len()).unwrap();
        match completion {
            Completion::Accepted { socket, .. } => {
                self.conversations.insert(socket, Conversation::default());
            }
            Completion::AcceptFailed { listener, error } => {
                assert_eq!(Fault::of(&error), Fault::NoDescriptor);
                self.faults += 1;
                sim.resume_accept(listener);
            }
            Completion::Connected { socket } => self.ask(sim, socket),
            Completion::Received { socket } => {
                self.on_received(sim, socket);
                let state = &self.conversations[&socket];
                if state.is_client && state.received == 0 {
                    self.ask(sim, socket);
                }
            }
            Completion::Sent { socket } => {
                self.conversations.get_mut(&socket).unwrap().sending = false;
                self.say(sim, socket);
            }
            Completion::Ended { socket } => self.close(sim, socket),
            Completion::Failed { socket, error } => {
                assert!(matches!(Fault::of(&error), Fault::Reset | Fault::Refused), "{error}");
                self.faults += 1;
                self.close(sim, socket);
            }
            Completion::Woken => {}
        }
    }

    fn on_iteration(&mut self, sim: &mut Sim, now: Instant) -> LoopControl {
        if now >= self.until {
            return LoopControl::Stop;
        }
        // Answers that never come are what timeouts are for.
        let late = |state: &Conversation| state.is_client && now.ns_since(state.asked_at) > 1000 * MS;
        let silent: Vec<SocketId> =
            self.conversations.iter().filter(|(_, state)| late(state)).map(|(&id, _)| id).collect();
        for socket in silent {
            self.faults += 1;
            self.close(sim, socket);
        }
        while self.conversations.values().filter(|state| state.is_client).count() < self.clients {
            match sim.connect(&Connect::tcp(self.addr)) {
                Ok(socket) => {
                    let state = Conversation { is_client: true, asked_at: now, ..Conversation::default() };
                    self.conversations.insert(socket, state);
                }
                Err(error) => {
                    assert!(matches!(Fault::of(&error), Fault::NoDescriptor | Fault::NoAddress), "{error}");
                    self.faults += 1;
                }
            }
        }
        LoopControl::WaitUntil(Some(now.plus_ns(100 * MS)))
    }
}

fn chat(config: SimConfig) -> Chatter {
    let mut sim = Sim::new(SimConfig { latency_ns: 2 * MS, ..config });
    Chatter::new(&mut sim, 10, 3000, 5_000 * MS).run(&mut sim)
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for config in [SimConfig::calm, SimConfig::rough, SimConfig::hostile] {
        let (first, second) = (chat(config(7)), chat(config(7)));
        assert!(first.answered > 100, "only {} answers", first.answered);
        assert!(first.log == second.log, "two runs of one seed differ");
    }
    assert!(chat(SimConfig::rough(7)).log != chat(SimConfig::rough(8)).log, "the seed makes no difference");
}

#[test]
fn only_a_hostile_network_breaks_connections() {
    assert_eq!(chat(SimConfig::calm(1)).faults, 0);
    assert_eq!(chat(SimConfig::rough(1)).faults, 0);
    let hostile: Vec<Chatter> = (1..=5).map(|seed| chat(SimConfig::hostile(seed))).collect();
    for fault in ["Failed { socket", "AcceptFailed", "Refused", "reset"] {
        assert!(hostile.iter().any(|chatter| chatter.log.contains(fault)), "no {fault} in a hostile network");
    }
    assert!(hostile.iter().all(|chatter| chatter.faults > 10 && chatter.answered > 100));
}

#[test]
fn a_calm_round_trip_takes_two_latencies() {
    let config = SimConfig { latency_ns: 3 * MS, ..SimConfig::calm(1) };
    let mut sim = Sim::new(config);
    let chatter = Chatter::new(&mut sim, 1, 10, 1_000 * MS).run(&mut sim);
    assert!(chatter.answered > 100);
    assert_eq!(chatter.log.matches("answered after 6ms").count(), chatter.answered);
}

#[test]
fn bandwidth_limits_what_arrives() {
    let config = SimConfig { bandwidth: Some(1_000_000), socket_buffer_bytes: 1 << 20, ..SimConfig::calm(1) };
    let mut sim = Sim::new(config);
    let chatter = Chatter::new(&mut sim, 1, 100_000, 10_000 * MS).run(&mut sim);
    // Both directions run at a megabyte a second, and the response to the first 64 KiB is under way
    // while the others still arrive: 166 ms each.
    assert!((58..=60).contains(&chatter.answered), "{} answers", chatter.answered);
}

#[test]
fn a_stalled_server_answers_when_the_stall_is_over() {
    let mut sim = Sim::new(SimConfig::calm(1));
    let chatter = Chatter::new(&mut sim, 4, 100, 1_000 * MS);
    let (from, until) = (sim.now().plus_ns(100 * MS), sim.now().plus_ns(600 * MS));
    sim.stall(chatter.addr, from, until);
    let chatter = chatter.run(&mut sim);
    assert_eq!(chatter.faults, 0);
    let slow = chatter.log.lines().filter(|line| line.contains("answered after 5")).count();
    assert_eq!(slow, 4, "each client waits for the whole stall once");
}

/// A connection from both sides, both of them idle.
fn pair(sim: &mut Sim, addr: &str) -> (SocketId, SocketId) {
    let addr: SocketAddr = addr.parse().unwrap();
    sim.listen(Listen::Address(addr)).unwrap();
    let client = sim.connect(&Connect::tcp(addr)).unwrap();
    let (mut server, mut connected) = (None, false);
    while server.is_none() || !connected {
        sim.wait(None).unwrap();
        while let Some(completion) = sim.next() {
            match completion {
                Completion::Accepted { socket, .. } => server = Some(socket),
                Completion::Connected { .. } => connected = true,
                other => panic!("{other:?}"),
            }
        }
    }
    (client, server.unwrap())
}

#[test]
fn a_reset_on_request_reaches_both_sides() {
    let mut sim = Sim::new(SimConfig::calm(1));
    let (client, server) = pair(&mut sim, "10.0.0.1:80");
    sim.reset(server);
    for expected in [server, client] {
        sim.wait(None).unwrap();
        match sim.next() {
            Some(Completion::Failed { socket, error }) => {
                assert_eq!(socket, expected);
                assert_eq!(Fault::of(&error), Fault::Reset);
            }
            other => panic!("{other:?}"),
        }
    }
    sim.close(client);
    sim.close(server);
    assert_eq!(sim.sockets_open(), 1);
}

#[test]
fn bytes_that_nobody_has_read_are_answered_by_a_reset() {
    let mut sim = Sim::new(SimConfig::calm(1));
    let (client, server) = pair(&mut sim, "10.0.0.1:80");
    sim.pause(server);
    sim.send(client, SendBuf::Static(b"unread"));
    sim.send(server, SendBuf::Static(b"early answer"));
    let until = sim.now().plus_ns(MS);
    let mut told = Vec::new();
    let mut tell = |sim: &mut Sim| {
        sim.wait(Some(until)).unwrap();
        while let Some(completion) = sim.next() {
            told.push(format!("{completion:?}"));
        }
    };
    tell(&mut sim);
    tell(&mut sim);
    sim.close(server);
    tell(&mut sim);
    assert_eq!(sim.bytes_delivered(client), 12);
    let last = told.last().unwrap();
    assert!(last.starts_with(&format!("Failed {{ socket: {client:?}")) && last.contains("ConnectionReset"), "{told:?}");
}

#[test]
fn an_endless_trial_is_an_error() {
    let mut sim = Sim::new(SimConfig::calm(1));
    let (client, server) = pair(&mut sim, "10.0.0.1:80");
    sim.mute(client);
    sim.send(client, SendBuf::Owned(vec![0; 1_000_000]));
    let error = sim.wait(None).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Deadlock);
    assert!(error.to_string().contains("1 sends under way"), "{error}");
    // With a deadline it is an ordinary wait, and a wake-up ends it.
    let until = sim.now().plus_ns(MS);
    sim.wait(Some(until)).unwrap();
    assert_eq!((sim.now(), sim.next().is_none()), (until, true));
    sim.wake();
    sim.wait(None).unwrap();
    assert!(matches!(sim.next(), Some(Completion::Woken)));
    assert_eq!(sim.bytes_delivered(server), 0);
}

#[test]
fn a_paused_receiver_leaves_the_bytes_in_bounded_buffers() {
    let mut sim = Sim::new(SimConfig { socket_buffer_bytes: 10_000, ..SimConfig::calm(1) });
    let (client, server) = pair(&mut sim, "10.0.0.1:80");
    sim.pause(server);
    sim.send(client, SendBuf::Owned(vec![0; 25_000]));
    assert_eq!(sim.wait(None).unwrap_err().kind(), io::ErrorKind::Deadlock);
    sim.resume(server);
    let mut sent = false;
    while sim.bytes_delivered(server) < 25_000 {
        sim.wait(None).unwrap();
        while let Some(completion) = sim.next() {
            sent |= matches!(completion, Completion::Sent { .. });
            assert!(sim.received().len() <= 10_000, "more at once than the buffers hold");
        }
    }
    assert!(sent);
}

#[test]
fn a_full_backlog_makes_connects_wait_and_then_time_out() {
    let mut sim = Sim::new(SimConfig { backlog: 2, ..SimConfig::calm(1) });
    let addr: SocketAddr = "10.0.0.1:80".parse().unwrap();
    let listener = sim.listen(Listen::Address(addr)).unwrap();
    sim.pause(listener);
    let clients = [(); 3].map(|()| sim.connect(&Connect::tcp(addr)).unwrap());
    let (mut connected, mut timed_out) = (Vec::new(), Vec::new());
    while sim.wait(None).is_ok() {
        while let Some(completion) = sim.next() {
            match completion {
                Completion::Connected { socket } => connected.push(socket),
                Completion::Failed { socket, error } => {
                    assert_eq!(Fault::of(&error), Fault::TimedOut);
                    timed_out.push(socket);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!((connected, timed_out), (clients[..2].to_vec(), clients[2..].to_vec()));
}

#[test]
fn addresses_are_matched_as_a_host_does() {
    let mut sim = Sim::new(SimConfig::calm(1));
    let any = sim.listen(Listen::Address("0.0.0.0:0".parse().unwrap())).unwrap();
    let port = sim.local_addr(any).unwrap().port();
    let in_use = sim.listen(Listen::Address(SocketAddr::new("0.0.0.0".parse().unwrap(), port))).unwrap_err();
    assert_eq!(Fault::of(&in_use), Fault::NoAddress);
    let peer = SocketAddr::new("10.1.2.3".parse().unwrap(), port);
    let client = sim.connect(&Connect { source: Some("10.9.9.9".parse().unwrap()), ..Connect::tcp(peer) }).unwrap();
    let mut server = None;
    while server.is_none() {
        sim.wait(None).unwrap();
        while let Some(completion) = sim.next() {
            if let Completion::Accepted { socket, .. } = completion {
                server = Some(socket);
            }
        }
    }
    let server = server.unwrap();
    assert_eq!(sim.local_addr(server).unwrap(), peer);
    assert_eq!(sim.peer_addr(server).unwrap(), sim.local_addr(client).unwrap());
    assert_eq!(sim.peer_addr(server).unwrap().ip().to_string(), "10.9.9.9");
}
