//! The scripted server.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use thalweg_reactor::sim::Sim;
use thalweg_sys::driver::{Completion, Driver, Listen, SendBuf};
use thalweg_sys::{Instant, SocketId};

use crate::script::{Response, Step};

/// Which response a request gets, by its number.
pub(crate) type Script = Box<dyn Fn(u64) -> Response>;

/// A server that does with each request what its script says.
pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    pub(crate) records: Vec<Record>,
    /// The bytes in front of the first request of each connection.
    pub(crate) headers: Vec<Vec<u8>>,
    /// Most requests that were being responded to at once.
    pub(crate) busy_max: usize,
    listener: SocketId,
    script: Script,
    conversations: BTreeMap<SocketId, Conversation>,
    agenda: BTreeSet<(Instant, SocketId)>,
    accepted: u64,
}

/// A request that arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// The number in its target.
    pub(crate) number: u64,
    /// Which of the connections that were accepted it came over, from 0.
    pub(crate) connection: u64,
    pub(crate) response: Response,
    pub(crate) arrived: Instant,
    /// When the first and the last step of the response are due; none for silence.
    pub(crate) answered: Option<(Instant, Instant)>,
}

#[derive(Default)]
struct Conversation {
    number: u64,
    has_begun: bool,
    input: Vec<u8>,
    /// Bytes of a request's body that are still to come and of no interest.
    skip: usize,
    steps: VecDeque<(Instant, Step)>,
    sending: bool,
}

/// A request as far as this server understands it.
struct Request {
    number: u64,
    close: bool,
    head_bytes: usize,
    body_bytes: usize,
}

impl Server {
    pub(crate) fn open(sim: &mut Sim, addr: SocketAddr, script: Script) -> Self {
        let listener = sim.listen(Listen::Address(addr)).expect("the address is free");
        let (records, conversations, agenda) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        let headers = Vec::new();
        Self { addr, records, headers, busy_max: 0, listener, script, conversations, agenda, accepted: 0 }
    }

    /// Whether a completion is for the server.
    pub(crate) fn owns(&self, completion: &Completion) -> bool {
        match completion {
            Completion::Accepted { .. } | Completion::AcceptFailed { .. } => true,
            other => other.subject().is_some_and(|socket| self.conversations.contains_key(&socket)),
        }
    }

    pub(crate) fn on_completion(&mut self, sim: &mut Sim, completion: Completion) {
        match completion {
            Completion::Accepted { socket, .. } => {
                let conversation = Conversation { number: self.accepted, ..Conversation::default() };
                self.conversations.insert(socket, conversation);
                self.accepted += 1;
            }
            Completion::AcceptFailed { .. } => sim.resume_accept(self.listener),
            Completion::Received { socket } => {
                let conversation = self.conversations.get_mut(&socket).expect("received on a conversation");
                conversation.input.extend_from_slice(sim.received());
                self.proceed(sim, socket);
            }
            Completion::Sent { socket } => {
                self.conversations.get_mut(&socket).expect("sent on a conversation").sending = false;
                self.proceed(sim, socket);
            }
            Completion::Ended { socket } | Completion::Failed { socket, .. } => self.close(sim, socket),
            Completion::Connected { .. } | Completion::Woken => unreachable!("the server does not connect"),
        }
    }

    /// Runs the actions that are due; returns the time of the next one.
    pub(crate) fn on_turn(&mut self, sim: &mut Sim) -> Option<Instant> {
        while let Some(&(at, socket)) = self.agenda.first() {
            if at > sim.now() {
                return Some(at);
            }
            self.agenda.pop_first();
            self.proceed(sim, socket);
        }
        None
    }

    fn close(&mut self, sim: &mut Sim, socket: SocketId) {
        self.conversations.remove(&socket);
        sim.close(socket);
    }

    /// Goes on with a conversation: the step that is due, or the next request if there is no step
    /// left.
    fn proceed(&mut self, sim: &mut Sim, socket: SocketId) {
        let now = sim.now();
        while let Some(conversation) = self.conversations.get_mut(&socket)
            && !conversation.sending
        {
            match conversation.steps.pop_front() {
                Some((at, step)) if at > now => {
                    conversation.steps.push_front((at, step));
                    self.agenda.insert((at, socket));
                    return;
                }
                Some((_, Step::Send(bytes))) => {
                    conversation.sending = true;
                    sim.send(socket, SendBuf::Owned(bytes));
                }
                Some((_, Step::Close)) => self.close(sim, socket),
                Some((_, Step::Reset)) => sim.reset(socket),
                None if self.take_request(socket, now) => {}
                None => return,
            }
        }
    }

    /// Takes the next request, if it is there, and decides what to do about it.
    fn take_request(&mut self, socket: SocketId, now: Instant) -> bool {
        let Some(conversation) = self.conversations.get_mut(&socket) else { return false };
        let skipped = conversation.skip.min(conversation.input.len());
        conversation.input.drain(..skipped);
        conversation.skip -= skipped;
        if !conversation.has_begun
            && let Some(start) = conversation.input.windows(5).position(|five| matches!(five, b"GET /" | b"POST "))
        {
            conversation.has_begun = true;
            if start > 0 {
                self.headers.push(conversation.input.drain(..start).collect());
            }
        }
        let is_in_header = [&b"PROXY "[..], b"\r\n"].iter().any(|begin| conversation.input.starts_with(begin));
        if !conversation.has_begun && is_in_header {
            return false;
        }
        let Some(request) = split(&conversation.input) else { return false };
        let response = (self.script)(request.number);
        let bytes = request.head_bytes + request.body_bytes;
        if conversation.input.len() < bytes && response != Response::Early {
            return false;
        }
        let taken = conversation.input.len().min(bytes);
        conversation.input.drain(..taken);
        conversation.skip = bytes - taken;
        let mut at = now;
        for (ns, step) in response.steps(request.number, request.close) {
            at = at.plus_ns(ns);
            conversation.steps.push_back((at, step));
        }
        let first = conversation.steps.front().map(|&(first, _)| first);
        let answered = first.map(|first| (first, at));
        let (number, connection) = (request.number, conversation.number);
        self.records.push(Record { number, connection, response, arrived: now, answered });
        let busy = self.conversations.values().filter(|conversation| !conversation.steps.is_empty()).count();
        self.busy_max = self.busy_max.max(busy);
        true
    }
}

/// Finds the first request in `input`: `GET /17 HTTP/1.1`, fields, an empty line and a body of
/// announced length.
fn split(input: &[u8]) -> Option<Request> {
    let head_bytes = input.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&input[..head_bytes]).expect("the engine's heads are ASCII");
    let mut lines = head.lines();
    let target = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a request line");
    let number = target.trim_start_matches('/').parse().expect("targets are numbers");
    let (mut close, mut body_bytes) = (false, 0);
    for line in lines {
        close |= line == "Connection: close";
        if let Some(length) = line.strip_prefix("Content-Length: ") {
            body_bytes = length.parse().expect("a length is a number");
        }
    }
    Some(Request { number, close, head_bytes, body_bytes })
}
