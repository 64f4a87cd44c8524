//! A protocol that names its streams, run by the same engine: several calls under way on one
//! connection, responses in any order.
//!
//! The toy protocol has frames of a wire number, a kind and a length in front of what they carry. A
//! client's requests have odd numbers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use thalweg_load::protocol::{Encoder, End, Protocol, ProtocolSettings, Responses, Step, StreamId};
use thalweg_load::{
    Engine, Extent, LoopPlan, Plan, Progress, RequestTemplate, RequestView, RunFigures, StartBarrier, Templates,
};
use thalweg_measure::Outcome;
use thalweg_reactor::sim::{Sim, SimConfig};
use thalweg_reactor::{App, LoopControl, run};
use thalweg_sys::driver::{Completion, Driver, DriverKind, Listen, SendBuf};
use thalweg_sys::{Instant, SocketId};
use thalweg_wire::{MessageBytes, RequestKind};

use crate::world::{plan, request};
use crate::{MS, SECOND, with_seeds};

const HEAD_BYTES: usize = 9;
const REQUEST: u8 = 0;
const RESPONSE: u8 = 1;
const RESET: u8 = 2;
/// The client acknowledges a ping of the server.
const PING: u8 = 3;
const ACKNOWLEDGEMENT: u8 = 4;

fn frame(out: &mut Vec<u8>, number: u32, kind: u8, carried: &[u8]) {
    out.extend_from_slice(&number.to_le_bytes());
    out.push(kind);
    out.extend_from_slice(&(carried.len() as u32).to_le_bytes());
    out.extend_from_slice(carried);
}

/// The first frame of some bytes, if it is whole.
fn split(bytes: &[u8]) -> Option<(u32, u8, &[u8])> {
    let head: &[u8; HEAD_BYTES] = bytes.first_chunk()?;
    let number = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    let length = u32::from_le_bytes([head[5], head[6], head[7], head[8]]) as usize;
    Some((number, head[4], bytes[HEAD_BYTES..].get(..length)?))
}

/// The client's side of a connection.
struct Toy {
    next_number: u32,
    streams: BTreeMap<u32, StreamId>,
    partial: Vec<u8>,
    acknowledgements: u32,
}

/// A request is its target.
struct ToyEncoder;

impl Encoder for ToyEncoder {
    fn new(_templates: &Templates, _is_tls: bool) -> Self {
        Self
    }

    fn write(&self, request: &RequestView<'_>, _last: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(request.target);
    }
}

impl Protocol for Toy {
    type Encoder = ToyEncoder;

    const MULTIPLEXED: bool = true;

    fn new(_settings: ProtocolSettings) -> Self {
        Self { next_number: 1, streams: BTreeMap::new(), partial: Vec::new(), acknowledgements: 0 }
    }

    fn capacity(&self, pipeline: u32) -> u32 {
        pipeline.min(16)
    }

    fn begin(&mut self, _stream: StreamId, _kind: RequestKind) {}

    fn write(
        &mut self,
        stream: StreamId,
        _encoder: &ToyEncoder,
        out: &mut Vec<u8>,
        encode: impl FnOnce(&mut Vec<u8>) -> usize,
    ) -> usize {
        let mut request = Vec::new();
        let body_bytes = encode(&mut request);
        self.streams.insert(self.next_number, stream);
        frame(out, self.next_number, REQUEST, &request);
        self.next_number += 2;
        body_bytes
    }

    fn read(
        &mut self,
        _oldest: Option<StreamId>,
        _encoder: &ToyEncoder,
        input: &[u8],
        responses: &mut impl Responses,
    ) -> Step {
        let before = self.partial.len();
        self.partial.extend_from_slice(input);
        let none = |consumed| Step { consumed, content_bytes: 0, stream: None, end: None };
        let Some((number, kind, carried)) = split(&self.partial) else { return none(input.len()) };
        let bytes = HEAD_BYTES + carried.len();
        let (consumed, content_bytes) = (bytes - before, carried.len() as u64);
        let step = match (kind, self.streams.remove(&number)) {
            (PING, _) => {
                self.acknowledgements += 1;
                none(consumed)
            }
            (RESPONSE, Some(stream)) => {
                responses.head(stream, 200, true, || [("server", &b"toy"[..])].into_iter());
                responses.content(stream, carried);
                let whole = MessageBytes { header: HEAD_BYTES as u64, body: content_bytes, framing: 0 };
                Step { consumed, content_bytes, stream: Some(stream), end: Some(End::Whole(whole)) }
            }
            (RESET, Some(stream)) => {
                Step { consumed, content_bytes: 0, stream: Some(stream), end: Some(End::Reset(Outcome::Reset)) }
            }
            // Of a stream that was given up.
            (_, None) => none(consumed),
            _ => Step { end: Some(End::Broken(Outcome::ProtocolError)), ..none(consumed) },
        };
        self.partial.clear();
        step
    }

    fn finish(&mut self) -> Result<MessageBytes, Outcome> {
        Err(Outcome::Reset)
    }

    fn cancel(&mut self, stream: StreamId) -> bool {
        self.streams.retain(|_, other| *other != stream);
        true
    }

    fn has_output(&self) -> bool {
        self.acknowledgements > 0
    }

    fn write_output(&mut self, out: &mut Vec<u8>) -> usize {
        (0..std::mem::take(&mut self.acknowledgements)).for_each(|_| frame(out, 0, ACKNOWLEDGEMENT, b""));
        0
    }
}

/// Responds to request *n* after as many milliseconds as the script says, or never; to the numbers
/// in `resets` with a reset.
struct ToyServer {
    delay_ms: fn(u64) -> Option<u64>,
    resets: fn(u64) -> bool,
    inputs: BTreeMap<SocketId, (Vec<u8>, bool, Vec<u8>)>,
    /// By when they are due: the connection, and the frame.
    due: BTreeMap<(Instant, u64), (SocketId, Vec<u8>)>,
    order: Vec<u64>,
    requests: u64,
    acknowledged: u64,
    under_way: BTreeMap<SocketId, usize>,
    under_way_max: usize,
}

impl ToyServer {
    fn take_requests(&mut self, sim: &mut Sim, socket: SocketId) {
        let Some((input, ..)) = self.inputs.get_mut(&socket) else { return };
        while let Some((number, kind, carried)) = split(input) {
            let bytes = HEAD_BYTES + carried.len();
            if kind == ACKNOWLEDGEMENT {
                self.acknowledged += 1;
            } else {
                assert_eq!((kind, number % 2), (REQUEST, 1));
                let target = std::str::from_utf8(carried).expect("targets are ASCII");
                let request: u64 = target.trim_start_matches('/').parse().expect("targets are numbers");
                self.requests += 1;
                let under_way = self.under_way.entry(socket).or_default();
                *under_way += 1;
                self.under_way_max = self.under_way_max.max(*under_way);
                if let Some(ms) = (self.delay_ms)(request) {
                    let mut out = Vec::new();
                    frame(&mut out, 0, PING, b"");
                    let kind = if (self.resets)(request) { RESET } else { RESPONSE };
                    frame(&mut out, number, kind, format!("content of {request}").as_bytes());
                    self.due.insert((sim.now().plus_ns(ms * MS), request), (socket, out));
                }
            }
            input.drain(..bytes);
        }
    }

    fn send_due(&mut self, sim: &mut Sim) -> Option<Instant> {
        while let Some((&(at, request), _)) = self.due.first_key_value() {
            if at > sim.now() {
                return Some(at);
            }
            let (socket, frames) = self.due.remove(&(at, request)).expect("it is there");
            if let Some((_, _, output)) = self.inputs.get_mut(&socket) {
                output.extend_from_slice(&frames);
                self.order.push(request);
                *self.under_way.get_mut(&socket).expect("it has requests") -= 1;
                self.flush(sim, socket);
            }
        }
        None
    }

    fn flush(&mut self, sim: &mut Sim, socket: SocketId) {
        let Some((_, sending, output)) = self.inputs.get_mut(&socket) else { return };
        if !*sending && !output.is_empty() {
            *sending = true;
            sim.send(socket, SendBuf::Owned(std::mem::take(output)));
        }
    }
}

struct Both {
    engine: Engine<Toy>,
    server: ToyServer,
    give_up_at: Instant,
}

impl App<Sim> for Both {
    fn on_completion(&mut self, sim: &mut Sim, completion: Completion) {
        let server = &mut self.server;
        let is_servers = completion.subject().is_some_and(|socket| server.inputs.contains_key(&socket));
        match completion {
            Completion::Accepted { socket, .. } => {
                server.inputs.insert(socket, Default::default());
            }
            Completion::Received { socket } if is_servers => {
                let bytes = sim.received().to_vec();
                server.inputs.get_mut(&socket).expect("it is the server's").0.extend_from_slice(&bytes);
                server.take_requests(sim, socket);
            }
            Completion::Sent { socket } if is_servers => {
                server.inputs.get_mut(&socket).expect("it is the server's").1 = false;
                server.flush(sim, socket);
            }
            Completion::Ended { socket } | Completion::Failed { socket, .. } if is_servers => {
                server.inputs.remove(&socket);
                sim.close(socket);
            }
            other => self.engine.on_completion(sim, other),
        }
    }

    fn on_iteration(&mut self, sim: &mut Sim, now: Instant) -> LoopControl {
        assert!(now < self.give_up_at, "the run does not end");
        let LoopControl::WaitUntil(engine) = self.engine.on_iteration(sim, now) else { return LoopControl::Stop };
        let server = self.server.send_due(sim);
        LoopControl::WaitUntil(engine.into_iter().chain(server).min())
    }
}

fn play(
    plan: Plan,
    network: SimConfig,
    delay_ms: fn(u64) -> Option<u64>,
    resets: fn(u64) -> bool,
) -> (RunFigures, ToyServer) {
    let mut sim = Sim::new(network);
    let began = sim.now();
    sim.listen(Listen::Address("10.0.0.1:80".parse().expect("an address"))).expect("the address is free");
    let (barrier, progress) = (Arc::new(StartBarrier::new(1)), Arc::new(Progress::new(1)));
    let engine = Engine::with_protocol(Arc::new(plan), 0, DriverKind::Simulated, began, barrier, progress);
    let server = ToyServer {
        delay_ms,
        resets,
        inputs: BTreeMap::new(),
        due: BTreeMap::new(),
        order: Vec::new(),
        requests: 0,
        acknowledged: 0,
        under_way: BTreeMap::new(),
        under_way_max: 0,
    };
    let mut both = Both { engine, server, give_up_at: began.plus_ns(100 * SECOND) };
    run(&mut sim, &mut both).expect("the simulation goes on");
    (both.engine.into_figures(), both.server)
}

/// A request whose response is good with any content.
fn any_response(number: u64) -> RequestTemplate {
    RequestTemplate { check: None, ..request("GET", number, b"") }
}

/// Requests at 1000/s over one connection, with so many streams.
fn streams(requests: u64, pipeline: u32) -> Plan {
    let plan = plan(LoopPlan::at_rate(1000.0), Extent::Requests(requests), requests);
    let patience = Duration::from_secs(10);
    let requests = (0..requests).map(any_response).collect();
    Plan { requests, connections: 1, pipeline, timeout: patience, drain: patience, ..plan }
}

#[test]
fn responses_end_their_own_calls_in_any_order() {
    let run = |seed| {
        let network =
            SimConfig { fragment_probability: if seed % 2 == 0 { 0.5 } else { 0.0 }, ..SimConfig::calm(seed) };
        // Those with even numbers overtake the others.
        let (figures, server) =
            play(streams(200, 8), network, |number| Some(if number % 2 == 0 { 1 } else { 5 }), |_| false);
        let trial = &figures.trial;
        assert_eq!(trial.counts.good, 200, "{:?}", trial.outcomes);
        assert_eq!(trial.connections.opened, 1);
        assert!(server.order.windows(2).any(|pair| pair[0] > pair[1]), "some overtake others");
        assert!(server.under_way_max > 2, "{} at once", server.under_way_max);
        let (first, last) = (trial.service_time.min(), trial.service_time.max());
        assert!((MS..2 * MS).contains(&first) && last > 5 * MS, "{first} to {last} ns: each has its own times");
    };
    with_seeds(0..4, run);
}

#[test]
fn a_connection_carries_no_more_streams_than_its_protocol_allows() {
    let (figures, server) = play(streams(100, 64), SimConfig::calm(1), |_| Some(100), |_| false);
    assert_eq!((figures.trial.counts.good, server.under_way_max), (100, 16));
}

#[test]
fn a_stream_that_is_reset_leaves_the_others_alone() {
    let (figures, _) = play(streams(100, 8), SimConfig::calm(1), |_| Some(3), |number| number % 10 == 0);
    let trial = &figures.trial;
    assert_eq!(trial.outcomes.count(Outcome::Reset), 10, "{:?}", trial.outcomes);
    assert_eq!((trial.connections.opened, trial.counts.good), (1, 90));
}

#[test]
fn a_stream_that_times_out_leaves_the_others_alone() {
    let plan = Plan { timeout: Duration::from_millis(200), ..streams(100, 8) };
    let (figures, _) = play(plan, SimConfig::calm(1), |number| (number != 7).then_some(2), |_| false);
    let trial = &figures.trial;
    assert_eq!(trial.outcomes.count(Outcome::Timeout), 1, "{:?}", trial.outcomes);
    assert_eq!((trial.connections.opened, trial.counts.good), (1, 99));
}

#[test]
fn bytes_of_the_protocol_itself_are_sent() {
    let (figures, server) = play(streams(50, 4), SimConfig::calm(1), |_| Some(2), |_| false);
    assert_eq!(figures.trial.counts.good, 50);
    // The last acknowledgements may be under way when the run ends.
    assert!((45..=50).contains(&server.acknowledged), "{} acknowledgements", server.acknowledged);
}
