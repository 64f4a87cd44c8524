//! Random operations on many connections, with a model that knows which bytes each side has to see.

use std::collections::BTreeMap;
use std::rc::Rc;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_sys::driver::{Connect, Driver, FileSpan, ReceiveMode};
use thalweg_sys::{File, SocketId};

use crate::contract::flow::file_of;
use crate::contract::stage::{LOOPBACK_V4, ON_DEMAND_WINDOW_BYTES, Open, Stage, assert_same, pattern};

const SEEDS: u64 = 3;
const CONNECTIONS: usize = 24;
const STEPS: usize = 1500;
const FILE_BYTES: usize = 300_000;

/// How a connection introduces itself: its number.
const GREETING_BYTES: usize = 8;

/// The bytes from one side of one connection to the other: the greeting (of a client), then pieces
/// of patterns.
#[derive(Default)]
struct Stream {
    /// Bytes that were given to the driver and not yet seen at the other end.
    unseen: Vec<u8>,
    /// Its sender has ended it.
    complete: bool,
    /// An end was closed early, so that the rest may be missing.
    cut: bool,
}

struct Soak<D> {
    stage: Stage<D>,
    random: Pcg64Mcg,
    listener: SocketId,
    addr: std::net::SocketAddr,
    file: Rc<File>,
    /// `streams[number]`: from the client and from the server.
    streams: Vec<[Stream; 2]>,
    /// Which connection and side (0 client, 1 server) an open socket is.
    roles: BTreeMap<SocketId, (usize, usize)>,
    /// Accepted, not yet introduced.
    strangers: Vec<SocketId>,
    paused: Vec<SocketId>,
}

pub(crate) fn random_operations_keep_every_byte_in_order<D: Driver>(open: Open<'_, D>) {
    let (_directory, file) = file_of(FILE_BYTES);
    for seed in 0..SEEDS {
        let mut stage = open(2 * CONNECTIONS + 16);
        let (listener, addr) = stage.listen(LOOPBACK_V4);
        let mut soak = Soak {
            stage,
            random: Pcg64Mcg::seed_from_u64(seed),
            listener,
            addr,
            file: Rc::clone(&file),
            streams: Vec::new(),
            roles: BTreeMap::new(),
            strangers: Vec::new(),
            paused: Vec::new(),
        };
        for step in 0..STEPS {
            soak.step();
            let soon = soak.stage.driver.now().plus_ns(if step % 7 == 0 { 200_000 } else { 0 });
            soak.stage.wait(Some(soon));
            while soak.stage.witness_next() {
                // Owners act on completions while further ones are pending.
                if soak.random.random_bool(0.2) {
                    soak.step();
                }
            }
            soak.check();
        }
        soak.wind_up();
    }
}

impl<D: Driver> Soak<D> {
    fn step(&mut self) {
        let sockets: Vec<SocketId> = self.roles.keys().copied().collect();
        if sockets.is_empty() || (sockets.len() < CONNECTIONS && self.random.random_bool(0.2)) {
            self.open();
            return;
        }
        let socket = sockets[self.random.random_range(0..sockets.len())];
        let state = self.stage.socket(socket);
        let broken = !state.connected || state.failed.is_some();
        match self.random.random_range(0..100) {
            _ if state.on_demand && state.connected && !state.is_over() && state.asked == 0 => self.ask(socket),
            0..60 if !broken && !state.sending && !state.finished => self.send(socket),
            60..72 if !broken && !state.on_demand => {
                self.stage.driver.pause(socket);
                self.paused.push(socket);
            }
            72..92 => {
                if let Some(socket) = self.paused.pop() {
                    self.stage.driver.resume(socket);
                }
            }
            92..97 if !broken && !state.finished => self.finish(socket),
            97.. => self.close(socket),
            _ => {}
        }
    }

    fn open(&mut self) {
        let number = self.streams.len();
        self.streams.push(Default::default());
        let on_demand = self.random.random_bool(0.3);
        let receive_mode = if on_demand {
            ReceiveMode::OnDemand { window_bytes: ON_DEMAND_WINDOW_BYTES }
        } else {
            ReceiveMode::Continuous
        };
        let to = Connect { receive_mode, ..Connect::tcp(self.addr) };
        let client = self.stage.try_connect(&to).expect("the connect can be attempted");
        self.roles.insert(client, (number, 0));
    }

    /// Requests between a byte and more than a receive buffer on a socket that receives on demand.
    fn ask(&mut self, socket: SocketId) {
        let magnitude = self.random.random_range(0..18);
        let bytes_max = self.random.random_range(1..=1u32 << magnitude);
        self.stage.ask(socket, bytes_max);
    }

    fn send(&mut self, socket: SocketId) {
        let (number, side) = self.roles[&socket];
        let stream = &mut self.streams[number][side];
        let magnitude = self.random.random_range(0..18);
        let len = self.random.random_range(0..=1usize << magnitude);
        let mut head = Vec::new();
        if side == 0 && !self.stage.socket(socket).send_begun_ever() {
            head.extend((number as u64).to_le_bytes());
        }
        if self.random.random_bool(0.3) {
            head.extend(pattern(number as u64, 7, 50));
            let offset = self.random.random_range(0..=(FILE_BYTES - len)) as u64;
            stream.unseen.extend(&head);
            stream.unseen.extend(pattern(9, offset, len));
            self.stage.send_file(socket, &head, FileSpan { file: Rc::clone(&self.file), offset, len: len as u64 });
        } else {
            head.extend(pattern(number as u64, 11, len));
            stream.unseen.extend(&head);
            self.stage.send(socket, head);
        }
    }

    fn finish(&mut self, socket: SocketId) {
        let (number, side) = self.roles[&socket];
        if side == 0 && !self.stage.socket(socket).send_begun_ever() {
            return;
        }
        self.streams[number][side].complete = true;
        self.stage.finish(socket);
    }

    fn close(&mut self, socket: SocketId) {
        let (number, _) = self.roles.remove(&socket).expect("a socket with a role");
        let state = self.stage.socket(socket);
        let in_good_order = state.ended && state.finished && !state.sending && state.failed.is_none();
        if !in_good_order {
            // Bytes for this end are discarded; bytes from it may be dropped before the kernel has
            // them, or by a reset.
            self.streams[number].iter_mut().for_each(|stream| stream.cut = true);
        }
        self.paused.retain(|&paused| paused != socket);
        self.stage.close(socket);
    }

    /// Holds what was received against what was sent.
    fn check(&mut self) {
        while let Some(socket) = self.stage.accepted(self.listener) {
            self.strangers.push(socket);
        }
        let mut strangers = std::mem::take(&mut self.strangers);
        strangers.retain(|&socket| !self.introduce(socket));
        self.strangers = strangers;
        let sockets: Vec<(SocketId, (usize, usize))> =
            self.roles.iter().map(|(&socket, &role)| (socket, role)).collect();
        for (socket, (number, side)) in sockets {
            let seen = self.stage.take_received(socket);
            let stream = &mut self.streams[number][1 - side];
            assert!(seen.len() <= stream.unseen.len(), "connection {number}: bytes that nobody has sent");
            assert_same(&seen, &stream.unseen[..seen.len()]);
            stream.unseen.drain(..seen.len());
            let state = self.stage.socket(socket);
            if state.ended && !stream.cut {
                assert!(stream.complete, "connection {number} ended, but its sender did not end it");
                assert_eq!(stream.unseen.len(), 0, "connection {number} ended before its last bytes");
            }
            if let Some(error) = &state.failed {
                assert!(stream.cut, "connection {number} failed without cause: {error}");
            }
        }
    }

    /// Finds out which connection an accepted socket is; whether it needs no more looking after.
    fn introduce(&mut self, socket: SocketId) -> bool {
        let state = self.stage.socket(socket);
        if state.received.len() >= GREETING_BYTES {
            let greeting = state.received[..GREETING_BYTES].try_into().expect("eight bytes");
            self.roles.insert(socket, (u64::from_le_bytes(greeting) as usize, 1));
            return true;
        }
        if state.is_over() {
            self.stage.close(socket);
            return true;
        }
        false
    }

    /// Lets everything run to its end in good order.
    fn wind_up(&mut self) {
        for socket in std::mem::take(&mut self.paused) {
            self.stage.driver.resume(socket);
        }
        let deadline = self.stage.driver.now().plus_ns(60_000_000_000);
        loop {
            let sockets: Vec<SocketId> = self.roles.keys().copied().collect();
            for &socket in &sockets {
                let state = self.stage.socket(socket);
                let over = state.failed.is_some() || (state.ended && state.finished && !state.sending);
                if over {
                    self.close(socket);
                    continue;
                }
                let asks = state.on_demand && state.connected && state.asked == 0 && !state.is_over();
                if state.connected && !state.sending && !state.finished {
                    self.send(socket);
                    self.finish(socket);
                }
                if asks {
                    self.ask(socket);
                }
            }
            if self.roles.is_empty() && self.strangers.is_empty() {
                return;
            }
            assert!(self.stage.driver.now() < deadline, "connections hang at the end: {}", self.describe());
            self.stage.iterate(Some(deadline));
            self.check();
        }
    }

    fn describe(&self) -> String {
        let hanging = self.roles.iter().map(|(&socket, &(number, side))| {
            let state = self.stage.socket(socket);
            let unseen = self.streams[number][1 - side].unseen.len();
            format!("{socket:?} of connection {number}, side {side}, {unseen} bytes to come: {state:?}\n")
        });
        hanging.collect()
    }
}
