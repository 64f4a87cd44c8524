//! More attackers than connection slots: other clients still get responses, and clients with modems
//! finish their downloads.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::mem;

use thalweg_sys::ReceiveMode;

use super::*;

const PLACES: usize = 200;
const ATTACKERS: usize = 3 * PLACES;

/// Bytes that a modem of 33.6 kbit/s receives at a time, and the interval between them.
const MODEM_BYTES: u32 = 420;
const MODEM_EVERY_NS: u64 = SECOND_NS / 10;

const GET_A: &[u8] = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
const GET_LARGE: &[u8] = b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n";

/// The behaviour of a client. The first four are attackers, which reconnect at once when they are
/// closed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Role {
    /// Requests a large file and does not read. It sends a byte now and then, because it would not
    /// notice a reset otherwise.
    Deaf,
    Silent,
    /// Sends the head of a request byte by byte and does not end it.
    Halting,
    /// Asks for one small thing and stays.
    Idle,
    /// Asks for one small thing on a connection of its own, and again some time later.
    Small,
    /// The same on a connection that it keeps, if it may.
    Kept,
    /// Downloads a large file slowly and steadily.
    Modem,
}

const ATTACKS: [Role; 4] = [Role::Deaf, Role::Silent, Role::Halting, Role::Idle];

struct Actor {
    role: Role,
    sending: bool,
    connected: bool,
    /// The time since which it waits for a response.
    asked: Option<Instant>,
    received: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    Come(usize),
    Act(SocketId),
}

#[derive(Default, Debug)]
struct Tally {
    answered: usize,
    refused: usize,
    modems_lost: usize,
}

struct Siege {
    service: Service,
    actors: HashMap<SocketId, Actor>,
    roles: Vec<Role>,
    alarms: BinaryHeap<Reverse<(Instant, Alarm)>>,
    tally: Tally,
    /// From then on it counts how others fare.
    counts_from: Instant,
    end: Instant,
}

impl Siege {
    fn come(&mut self, driver: &mut Sim, role: Role) {
        let receive_mode =
            if role == Role::Modem { ReceiveMode::OnDemand { window_bytes: 4096 } } else { ReceiveMode::Continuous };
        let socket = driver.connect(&Connect { receive_mode, ..Connect::tcp(SERVER) }).unwrap();
        let asked = matches!(role, Role::Small | Role::Kept).then(|| driver.now());
        self.actors.insert(socket, Actor { role, sending: false, connected: false, asked, received: Vec::new() });
    }

    fn set(&mut self, at: Instant, alarm: Alarm) {
        self.alarms.push(Reverse((at, alarm)));
    }

    fn send(&mut self, driver: &mut Sim, socket: SocketId, bytes: &[u8]) {
        let actor = self.actors.get_mut(&socket).unwrap();
        if !actor.sending {
            actor.sending = true;
            driver.send(socket, SendBuf::Owned(bytes.to_vec()));
        }
    }

    /// Does what comes next for a connection: its first thing, or what its alarm was for.
    fn act(&mut self, driver: &mut Sim, socket: SocketId) {
        let Some(actor) = self.actors.get_mut(&socket) else { return };
        let (is_first, now) = (!mem::replace(&mut actor.connected, true), driver.now());
        match (actor.role, is_first) {
            (Role::Silent, _) | (Role::Idle | Role::Small, false) => {}
            (Role::Deaf, true) => {
                driver.pause(socket);
                self.send(driver, socket, GET_LARGE);
                self.set(now.plus_ns(SECOND_NS / 10), Alarm::Act(socket));
            }
            (Role::Halting, true) => {
                self.send(driver, socket, b"GET /a HTTP/1.1\r\nX: ");
                self.set(now.plus_ns(SECOND_NS / 10), Alarm::Act(socket));
            }
            (Role::Deaf | Role::Halting, false) => {
                self.send(driver, socket, b"x");
                self.set(now.plus_ns(SECOND_NS / 10), Alarm::Act(socket));
            }
            (Role::Idle | Role::Small | Role::Kept, _) => {
                actor.asked = Some(now);
                self.send(driver, socket, GET_A);
            }
            (Role::Modem, _) => {
                if is_first {
                    self.send(driver, socket, GET_LARGE);
                }
                driver.receive(socket, MODEM_BYTES);
            }
        }
    }

    /// An honest request has come to its end.
    fn count(&mut self, now: Instant, is_answered: bool) {
        if now >= self.counts_from {
            *(if is_answered { &mut self.tally.answered } else { &mut self.tally.refused }) += 1;
        }
    }

    fn on_received(&mut self, driver: &mut Sim, socket: SocketId) {
        let now = driver.now();
        let actor = self.actors.get_mut(&socket).unwrap();
        actor.received.extend_from_slice(driver.received());
        match actor.role {
            Role::Modem => return self.set(now.plus_ns(MODEM_EVERY_NS), Alarm::Act(socket)),
            Role::Small | Role::Kept => {}
            _ => return,
        }
        let Some(response) = naive::take(&mut &actor.received[..], "GET") else { return };
        actor.received.clear();
        let is_kept = actor.role == Role::Kept && response.field("connection").is_none();
        actor.asked = None;
        self.count(now, response.status == 200);
        if is_kept {
            self.set(now.plus_ns(SECOND_NS / 5), Alarm::Act(socket));
        } else {
            driver.close(socket);
            self.over(driver, socket);
        }
    }

    /// A connection has gone.
    fn over(&mut self, driver: &mut Sim, socket: SocketId) {
        let now = driver.now();
        let Actor { role, asked, .. } = self.actors.remove(&socket).unwrap();
        if asked.is_some() && matches!(role, Role::Small | Role::Kept) {
            self.count(now, false);
        }
        match role {
            Role::Modem => self.tally.modems_lost += 1,
            Role::Small | Role::Kept => {
                self.roles.push(role);
                self.set(now.plus_ns(SECOND_NS / 20), Alarm::Come(self.roles.len() - 1));
            }
            _ => self.come(driver, role),
        }
    }
}

impl App<Sim> for Siege {
    fn on_completion(&mut self, driver: &mut Sim, completion: Completion) {
        let Some(socket) = completion.subject().filter(|socket| self.actors.contains_key(socket)) else {
            return self.service.on_completion(driver, completion);
        };
        match completion {
            Completion::Connected { .. } => self.act(driver, socket),
            Completion::Received { .. } => self.on_received(driver, socket),
            Completion::Sent { .. } => self.actors.get_mut(&socket).unwrap().sending = false,
            Completion::Ended { .. } | Completion::Failed { .. } => {
                driver.close(socket);
                self.over(driver, socket);
            }
            other => panic!("{other:?} is not for a client"),
        }
    }

    fn on_iteration(&mut self, driver: &mut Sim, now: Instant) -> LoopControl {
        while let Some(&Reverse((_, alarm))) = self.alarms.peek().filter(|Reverse((at, _))| *at <= now) {
            self.alarms.pop();
            match alarm {
                Alarm::Come(number) => self.come(driver, self.roles[number]),
                Alarm::Act(socket) => self.act(driver, socket),
            }
        }
        if now >= self.end {
            return LoopControl::Stop;
        }
        let LoopControl::WaitUntil(until) = self.service.on_iteration(driver, now) else { return LoopControl::Stop };
        let alarm = self.alarms.peek().map(|Reverse((at, _))| *at);
        LoopControl::WaitUntil(until.into_iter().chain(alarm).chain([self.end]).min())
    }
}

/// Besieges a server for some seconds. How others have fared after the first two, and what the
/// server has done.
fn besiege(seed: u64, seconds: u64, roles: impl IntoIterator<Item = (Role, usize, u64)>) -> (Tally, Totals) {
    let folder = folder();
    let latency_ns = 5_000_000;
    let mut driver = Sim::new(SimConfig {
        latency_ns,
        jitter_ns: 1_000_000,
        socket_buffer_bytes: 64 << 10,
        ..SimConfig::calm(seed)
    });
    let limits = Limits { connections_max: PLACES, ..Limits::default() };
    let (World { service, .. }, published) = world(&mut driver, &limits, folder.path(), Vec::new());
    let start = driver.now();
    let mut siege = Siege {
        service,
        actors: HashMap::new(),
        roles: Vec::new(),
        alarms: BinaryHeap::new(),
        tally: Tally::default(),
        counts_from: start.plus_ns(2 * SECOND_NS),
        end: start.plus_ns(seconds * SECOND_NS),
    };
    for (role, count, ms) in roles {
        for number in 0..count as u64 {
            siege.roles.push(role);
            // Not all in one moment.
            let at = start.plus_ns(ms * 1_000_000 + number * 100_000);
            siege.set(at, Alarm::Come(siege.roles.len() - 1));
        }
    }
    run(&mut driver, &mut siege).unwrap();
    let now = driver.now();
    let waiting = siege.actors.values().filter_map(|actor| actor.asked.filter(|_| actor.role != Role::Idle));
    siege.tally.refused += waiting.filter(|asked| now.ns_since(*asked) > SECOND_NS).count();
    (siege.tally, published[0].totals())
}

/// Modems are there first; the others come together with the attackers.
fn honest() -> Vec<(Role, usize, u64)> {
    vec![(Role::Modem, 20, 0), (Role::Small, 10, 100), (Role::Kept, 10, 100)]
}

#[track_caller]
fn check_siege(attackers: &[(Role, usize)]) {
    for seed in 0..3 {
        let attack = attackers.iter().map(|&(role, count)| (role, count, 100));
        let (tally, totals) = besiege(seed, 12, honest().into_iter().chain(attack));
        let asked = tally.answered + tally.refused;
        assert!(asked > 1000, "{attackers:?}, seed {seed}: {tally:?}");
        assert!(tally.refused * 20 <= asked, "{attackers:?}, seed {seed}: {tally:?}, {totals:?}");
        assert_eq!(tally.modems_lost, 0, "{attackers:?}, seed {seed}: {totals:?}");
    }
}

#[test]
fn clients_that_never_read_do_not_keep_others_out() {
    check_siege(&[(Role::Deaf, ATTACKERS)]);
}

#[test]
fn clients_that_send_nothing_do_not_keep_others_out() {
    check_siege(&[(Role::Silent, ATTACKERS)]);
}

#[test]
fn clients_that_never_end_their_heads_do_not_keep_others_out() {
    check_siege(&[(Role::Halting, ATTACKERS)]);
}

#[test]
fn clients_that_ask_once_and_stay_do_not_keep_others_out() {
    check_siege(&[(Role::Idle, ATTACKERS)]);
}

#[test]
fn attackers_of_all_kinds_together_do_not_keep_others_out() {
    check_siege(&ATTACKS.map(|role| (role, ATTACKERS / ATTACKS.len())));
}

#[test]
fn attackers_that_do_not_read_or_stay_do_not_keep_others_out() {
    check_siege(&[(Role::Deaf, ATTACKERS / 2), (Role::Idle, ATTACKERS / 2)]);
}

#[test]
fn a_download_that_begins_beside_clients_that_never_read_gets_its_turn() {
    let others = [(Role::Deaf, ATTACKERS, 0), (Role::Modem, 20, 3000)];
    let (tally, totals) = besiege(1, 60, others);
    assert_eq!(tally.modems_lost, 0, "{totals:?}");
    assert!(totals.evicted > PLACES as u64, "{totals:?}");
}
