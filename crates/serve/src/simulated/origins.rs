//! Simulated remote origins: one that delivers by a script, and one behind a socket.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use thalweg_reactor::sim::Sim;
use thalweg_sys::driver::Listen;
use thalweg_sys::{Completion, Driver, Instant, SendBuf, SocketId};

use crate::content::object::{Digests, Metadata, Object};
use crate::content::policy::ResponsePolicy;
use crate::content::refusal::Refusal;
use crate::content::remote::{
    Fetches, Joined, OriginAction, OriginConnection, OriginEvent, RemoteOpening, RemoteOrigin,
};
use crate::content::stream::{Stream, StreamWriter, Wakes};

/// Bytes that a stream keeps for its readers.
pub(super) const WINDOW_BYTES: usize = 64 << 10;

/// How often a full window is looked at.
const LOOK_NS: u64 = 1_000_000;

/// The address on which the simulated upstream server listens.
pub(super) const UPSTREAM: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// How an origin delivers an object.
#[derive(Clone)]
pub(super) struct Delivery {
    /// The head comes so long after the request; `None`: never.
    pub(super) head_after_ns: Option<u64>,
    /// The head states the length.
    pub(super) tells_length: bool,
    pub(super) pieces: Vec<Vec<u8>>,
    /// The time between two pieces.
    pub(super) every_ns: u64,
    pub(super) ending: Ending,
}

/// How a delivery ends after its pieces.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Complete,
    /// The origin fails.
    Failure,
    /// Nothing more comes.
    Silence,
}

/// Observations of an origin for the tests.
#[derive(Default)]
pub(super) struct Observations {
    /// Fetches that were begun.
    pub(super) fetches: Cell<u64>,
    /// The most bytes that a stream kept.
    pub(super) kept_bytes_max: Cell<usize>,
}

/// Delivers objects by script. A name without a delivery is refused, after a while.
pub(super) struct ScriptedOrigin {
    deliveries: HashMap<&'static str, Delivery>,
    fetches: Fetches,
    wakes: Wakes,
    under_way: Vec<UnderWay>,
    observations: Rc<Observations>,
}

struct UnderWay {
    name: Box<[u8]>,
    delivery: Delivery,
    pieces: VecDeque<Vec<u8>>,
    writer: Option<StreamWriter>,
    next_at: Instant,
}

impl ScriptedOrigin {
    pub(super) fn new(
        deliveries: impl IntoIterator<Item = (&'static str, Delivery)>,
        wakes: Wakes,
        observations: Rc<Observations>,
    ) -> Self {
        let fetches = Fetches::new(wakes.clone());
        Self { deliveries: deliveries.into_iter().collect(), fetches, wakes, under_way: Vec::new(), observations }
    }
}

/// An object whose body is a stream.
fn object(stream: Stream) -> Object {
    let metadata = Metadata {
        tag: b"tag".to_vec(),
        last_modified: None,
        content_type: "application/octet-stream".into(),
        coding: None,
        varies: false,
        digests: Digests::default(),
        policy: Arc::new(ResponsePolicy::default()),
    };
    Object::in_stream(metadata, stream)
}

impl RemoteOrigin for ScriptedOrigin {
    fn open(&mut self, name: &[u8], waiter: SocketId, now: Instant) -> RemoteOpening<'_> {
        match self.fetches.join(name, waiter, now) {
            Joined::First => {}
            Joined::Waiting => return RemoteOpening::Pending,
            Joined::Object(object) => return RemoteOpening::Object(object),
            Joined::Refused(refusal) => return RemoteOpening::Refused(refusal),
        }
        self.observations.fetches.update(|fetches| fetches + 1);
        let delivery = self.deliveries.get(std::str::from_utf8(name).unwrap()).cloned();
        let head_after_ns = delivery.as_ref().map_or(Some(1), |delivery| delivery.head_after_ns);
        if let Some(ns) = head_after_ns {
            let none = Delivery {
                head_after_ns,
                tells_length: false,
                pieces: Vec::new(),
                every_ns: 0,
                ending: Ending::Failure,
            };
            let delivery = delivery.unwrap_or(none);
            let pieces = delivery.pieces.clone().into();
            self.under_way.push(UnderWay {
                name: name.into(),
                delivery,
                pieces,
                writer: None,
                next_at: now.plus_ns(ns),
            });
        }
        RemoteOpening::Pending
    }

    fn on_event(&mut self, _: OriginConnection, event: OriginEvent<'_>, _: Instant) {
        panic!("{event:?} without a connection");
    }

    fn on_iteration(&mut self, now: Instant) {
        let Self { under_way, fetches, wakes, observations, .. } = self;
        under_way.retain_mut(|fetch| !fetch.go_on(fetches, wakes, observations, now));
        fetches.forget_old(now);
    }

    fn next_action(&mut self) -> Option<OriginAction> {
        None
    }

    fn due(&self) -> Option<Instant> {
        self.under_way.iter().map(|fetch| fetch.next_at).min()
    }
}

impl UnderWay {
    /// Delivers what is due. Whether the fetch is over.
    fn go_on(&mut self, fetches: &mut Fetches, wakes: &Wakes, observations: &Observations, now: Instant) -> bool {
        while self.next_at <= now {
            self.next_at = now.plus_ns(self.delivery.every_ns.max(1));
            let Some(writer) = &mut self.writer else {
                if self.delivery.pieces.is_empty() && self.delivery.ending == Ending::Failure {
                    fetches.refuse(&self.name, Refusal::NotFound, now);
                    return true;
                }
                let bytes: usize = self.delivery.pieces.iter().map(Vec::len).sum();
                // A failing object is shorter than its declared length.
                let missing = u64::from(self.delivery.ending != Ending::Complete);
                let length = self.delivery.tells_length.then_some(bytes as u64 + missing);
                let (writer, stream) = Stream::new(length, WINDOW_BYTES, wakes.clone());
                fetches.complete(&self.name, object(stream));
                self.writer = Some(writer);
                continue;
            };
            match self.pieces.front() {
                Some(piece) if writer.room() < piece.len() => {
                    self.next_at = now.plus_ns(LOOK_NS);
                    return false;
                }
                Some(_) => writer.write(self.pieces.pop_front().unwrap()),
                None if self.delivery.ending == Ending::Silence => {
                    self.next_at = now.plus_ns(3_600_000_000_000);
                    return false;
                }
                None => {
                    let writer = self.writer.take().unwrap();
                    match self.delivery.ending {
                        Ending::Complete => writer.finish(),
                        _ => writer.fail("the simulated origin has failed"),
                    }
                    return true;
                }
            }
            let kept = WINDOW_BYTES - writer.room();
            observations.kept_bytes_max.set(observations.kept_bytes_max.get().max(kept));
        }
        false
    }
}

/// Fetches objects from an [`UpstreamServer`], over a connection for each: the name and a line feed
/// there; the length or `?`, or `!` for none, a line feed and the body back, until the end.
pub(super) struct SocketOrigin {
    fetches: Fetches,
    wakes: Wakes,
    connections: HashMap<OriginConnection, Upstream>,
    actions: VecDeque<OriginAction>,
    next: u32,
}

struct Upstream {
    name: Box<[u8]>,
    head: Vec<u8>,
    body: Option<StreamWriter>,
    is_held: bool,
}

impl SocketOrigin {
    pub(super) fn new(wakes: Wakes) -> Self {
        let fetches = Fetches::new(wakes.clone());
        Self { fetches, wakes, connections: HashMap::new(), actions: VecDeque::new(), next: 0 }
    }

    fn read(&mut self, connection: OriginConnection, bytes: &[u8], now: Instant) {
        let Some(upstream) = self.connections.get_mut(&connection) else { return };
        let mut bytes = bytes;
        if upstream.body.is_none() {
            upstream.head.extend_from_slice(bytes);
            let Some(end) = upstream.head.iter().position(|&byte| byte == b'\n') else { return };
            let body = upstream.head.split_off(end + 1);
            let length = match &upstream.head[..end] {
                b"!" => {
                    self.fetches.refuse(&upstream.name, Refusal::NotFound, now);
                    return self.close(connection);
                }
                b"?" => None,
                number => Some(std::str::from_utf8(number).unwrap().parse().unwrap()),
            };
            let (mut writer, stream) = Stream::new(length, WINDOW_BYTES, self.wakes.clone());
            self.fetches.complete(&upstream.name, object(stream));
            writer.write(body);
            upstream.body = Some(writer);
            bytes = &[];
        }
        let Some(writer) = &mut upstream.body else { return };
        writer.write(bytes.to_vec());
        if writer.room() == 0 && !upstream.is_held {
            upstream.is_held = true;
            self.actions.push_back(OriginAction::Hold(connection, true));
        }
    }

    fn close(&mut self, connection: OriginConnection) {
        self.connections.remove(&connection);
        self.actions.push_back(OriginAction::Close(connection));
    }
}

impl RemoteOrigin for SocketOrigin {
    fn open(&mut self, name: &[u8], waiter: SocketId, now: Instant) -> RemoteOpening<'_> {
        match self.fetches.join(name, waiter, now) {
            Joined::First => {}
            Joined::Waiting => return RemoteOpening::Pending,
            Joined::Object(object) => return RemoteOpening::Object(object),
            Joined::Refused(refusal) => return RemoteOpening::Refused(refusal),
        }
        let connection = OriginConnection(self.next);
        self.next += 1;
        let upstream = Upstream { name: name.into(), head: Vec::new(), body: None, is_held: false };
        self.connections.insert(connection, upstream);
        self.actions.push_back(OriginAction::Connect(connection, UPSTREAM));
        RemoteOpening::Pending
    }

    fn on_event(&mut self, connection: OriginConnection, event: OriginEvent<'_>, now: Instant) {
        match event {
            OriginEvent::Connected => {
                let Some(upstream) = self.connections.get(&connection) else { return };
                let request = [&*upstream.name, b"\n"].concat();
                self.actions.push_back(OriginAction::Send(connection, request));
            }
            OriginEvent::Sent => {}
            OriginEvent::Received(bytes) => self.read(connection, bytes, now),
            OriginEvent::Ended | OriginEvent::Failed => {
                let Some(upstream) = self.connections.remove(&connection) else { return };
                match upstream.body {
                    Some(writer) if matches!(event, OriginEvent::Ended) => writer.finish(),
                    Some(writer) => writer.fail("the upstream connection has broken"),
                    None => self.fetches.refuse(&upstream.name, Refusal::Failed, now),
                }
                if matches!(event, OriginEvent::Ended) {
                    self.actions.push_back(OriginAction::Close(connection));
                }
            }
        }
    }

    fn on_iteration(&mut self, now: Instant) {
        for (&connection, upstream) in &mut self.connections {
            let has_room = upstream.body.as_ref().is_some_and(|writer| writer.room() > WINDOW_BYTES / 2);
            if upstream.is_held && has_room {
                upstream.is_held = false;
                self.actions.push_back(OriginAction::Hold(connection, false));
            }
        }
        let unwanted = self
            .connections
            .iter()
            .filter(|(_, upstream)| upstream.body.as_ref().is_some_and(|writer| !writer.is_wanted()));
        for connection in unwanted.map(|(&connection, _)| connection).collect::<Vec<_>>() {
            self.close(connection);
        }
        self.fetches.forget_old(now);
    }

    fn next_action(&mut self) -> Option<OriginAction> {
        self.actions.pop_front()
    }

    fn due(&self) -> Option<Instant> {
        None
    }
}

/// The server that a [`SocketOrigin`] fetches from.
pub(super) struct UpstreamServer {
    listener: SocketId,
    requests: HashMap<SocketId, Vec<u8>>,
    /// Connections that are reset when they have been sent something.
    breaking: Vec<SocketId>,
    pub(super) accepted: Rc<RefCell<u64>>,
}

impl UpstreamServer {
    pub(super) fn new(driver: &mut Sim) -> Self {
        let listener = driver.listen(Listen::Address(UPSTREAM)).unwrap();
        Self { listener, requests: HashMap::new(), breaking: Vec::new(), accepted: Rc::default() }
    }

    /// Whether a completion was for it.
    pub(super) fn on_completion(&mut self, driver: &mut Sim, completion: &Completion) -> bool {
        match completion {
            Completion::Accepted { listener, socket } if *listener == self.listener => {
                *self.accepted.borrow_mut() += 1;
                self.requests.insert(*socket, Vec::new());
                return true;
            }
            _ => {}
        }
        let Some(socket) = completion.subject().filter(|socket| self.requests.contains_key(socket)) else {
            return false;
        };
        match completion {
            Completion::Received { .. } => {
                let request = self.requests.get_mut(&socket).unwrap();
                request.extend_from_slice(driver.received());
                let name = request.strip_suffix(b"\n").map(|name| String::from_utf8(name.to_vec()).unwrap());
                if let Some(name) = name {
                    let response = self.respond(socket, &name);
                    driver.send(socket, SendBuf::Owned(response));
                }
            }
            Completion::Sent { .. } if self.breaking.contains(&socket) => driver.reset(socket),
            Completion::Sent { .. } => driver.finish(socket),
            Completion::Ended { .. } | Completion::Failed { .. } => {
                self.requests.remove(&socket);
                driver.close(socket);
            }
            other => panic!("{other:?}"),
        }
        true
    }

    fn respond(&mut self, socket: SocketId, name: &str) -> Vec<u8> {
        match name {
            "known" => [format!("{}\n", body().len()).as_bytes(), &body()].concat(),
            "unknown" => [b"?\n", body().as_slice()].concat(),
            "breaks" => {
                self.breaking.push(socket);
                [format!("{}\n", body().len()).as_bytes(), &body()[..200_000]].concat()
            }
            _ => b"!\n".to_vec(),
        }
    }
}

/// The body of all objects behind a socket.
pub(super) fn body() -> Vec<u8> {
    (0..500_000u32).flat_map(u32::to_be_bytes).take(500_000).collect()
}
