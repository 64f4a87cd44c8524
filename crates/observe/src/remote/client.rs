//! The pulling side: a thread that fetches samples from an observer on another host once a second,
//! over one kept connection that it opens again if it is lost.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use thalweg_sys::affinity::pin_to;
use thalweg_wire::{Bounds, FieldSlots, RequestKind, ResponseEvent, ResponseReader};

use super::token::Token;
use super::{HostReply, PATH_BYTES_MAX, SAMPLES_PER_REPLY_MAX, SamplesReply};
use crate::clock::Clock;
use crate::facts::HostFacts;
use crate::sample::Sample;

/// The time for each step of an exchange.
const PATIENCE: Duration = Duration::from_secs(3);
/// The time between two pulls.
const INTERVAL: Duration = Duration::from_secs(1);
/// A longer response is none of an observer's.
const REPLY_BYTES_MAX: usize = 64 << 20;
/// Pulls of which the one with the shortest exchange sets the clock.
const OFFSETS_KEPT: usize = 60;

/// The reasons why an observer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// The name has no address.
    #[error("{address:?} is no address of an observer ({reason}); expected HOST:PORT")]
    Address {
        /// The address as given.
        address: String,
        /// The resolver's error.
        reason: String,
    },
    /// The connection could not be made, or was lost.
    #[error("no observer answers at {address}: {source}; is `thalweg observe --listen` running there?")]
    Connection {
        /// The address as given.
        address: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The token is missing or wrong.
    #[error("the observer at {address} refuses the token; give the one that it was started with")]
    Token {
        /// The address as given.
        address: String,
    },
    /// Another program answers there, or another version.
    #[error("{address} does not answer like an observer: {reason}")]
    Reply {
        /// The address as given.
        address: String,
        /// The fault.
        reason: String,
    },
}

/// How far the observer's clock is ahead of this host's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClockOffset {
    /// Seconds to add to a time of this host.
    pub seconds: f64,
    /// The greatest error of that: half of the exchange that it was taken from.
    pub error_s: f64,
}

/// A thread that pulls samples; dropping it ends it.
#[derive(Debug)]
pub struct RemoteObserver {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    clock: Clock,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    facts: HostFacts,
    /// Samples with the times of this host's clock.
    samples: Vec<Sample>,
    offsets: Vec<ClockOffset>,
    /// The reason why the last pull has failed.
    lost: Option<String>,
    stop: bool,
    cut: bool,
}

impl RemoteObserver {
    /// Connects to the observer at `address` (`HOST:PORT`) and begins to pull from CPUs `cpus`, or
    /// any if there are none.
    ///
    /// # Errors
    /// It cannot be reached, refuses the token, or is no observer.
    pub fn start(address: &str, token: Option<Token>, cpus: Vec<usize>) -> Result<Self, PullError> {
        let clock = Clock::start();
        let mut puller = Puller { address: address.to_owned(), token, connection: None, clock };
        let (reply, offset): (HostReply, _) = puller.get("/host")?;
        let state = State { facts: reply.host, offsets: vec![offset], ..State::default() };
        // Samples from before the start are not of interest.
        let mut position = Position { last: 0, started_s: 0.0 };
        loop {
            let (reply, _): (SamplesReply, _) = puller.get(&format!("/samples?since={}", position.last))?;
            position.move_behind(&reply);
            if reply.samples.len() < SAMPLES_PER_REPLY_MAX {
                break;
            }
        }
        let shared = Arc::new(Shared { clock, state: Mutex::new(state), changed: Condvar::new() });
        let theirs = Arc::clone(&shared);
        let body = move || {
            if !cpus.is_empty() {
                // Another CPU does as well, if these have gone.
                let _ = pin_to(&cpus);
            }
            run(&theirs, puller, position);
        };
        let thread = thread::Builder::new().name("observer".to_owned()).spawn(body);
        let thread = thread.map_err(|source| PullError::Connection { address: address.to_owned(), source })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The observed host.
    pub fn facts(&self) -> HostFacts {
        self.shared.lock().facts.clone()
    }

    /// The time by this host's clock, which is that of the samples, too.
    pub fn unix_s(&self) -> f64 {
        self.shared.clock.unix_s()
    }

    /// The samples after the one of that number. Their times are those of this host's clock.
    pub fn since(&self, number: u64) -> Vec<Sample> {
        let state = self.shared.lock();
        let first = state.samples.partition_point(|sample| sample.number <= number);
        state.samples[first..].to_vec()
    }

    /// The difference of the clocks, from the shortest of the last exchanges.
    pub fn clock_offset(&self) -> ClockOffset {
        best(&self.shared.lock().offsets)
    }

    /// The reason why the observer is lost at present.
    pub fn lost(&self) -> Option<String> {
        self.shared.lock().lost.clone()
    }

    /// Has the observer end its current interval, so that samples begin and end with an event; does
    /// not wait.
    pub fn cut(&self) {
        self.shared.lock().cut = true;
        self.shared.changed.notify_all();
    }

    /// Waits until there is a sample whose interval ends at `unix_s` or later; whether there is.
    /// Does not wait for an observer that is lost.
    pub fn wait_for(&self, unix_s: f64, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut state = self.shared.lock();
        loop {
            // A sample may seem to end earlier by the error of the clocks' difference.
            let error_s = best(&state.offsets).error_s;
            if state.samples.last().is_some_and(|sample| sample.unix_s + error_s >= unix_s) {
                return true;
            }
            let left = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
            let Some(left) = left.filter(|_| state.lost.is_none()) else { return false };
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }
}

impl Drop for RemoteObserver {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic has been printed already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is valid after each of its steps.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn best(offsets: &[ClockOffset]) -> ClockOffset {
    offsets.iter().copied().min_by(|a, b| a.error_s.total_cmp(&b.error_s)).unwrap_or_default()
}

/// How much of an observer's samples is known.
#[derive(Clone, Copy, Debug)]
struct Position {
    /// The number of the last one.
    last: u64,
    /// When that observer was started.
    started_s: f64,
}

impl Position {
    fn move_behind(&mut self, reply: &SamplesReply) {
        self.last = reply.samples.last().map_or(self.last, |sample| sample.number);
        self.started_s = reply.started_s;
    }
}

fn run(shared: &Shared, mut puller: Puller, mut position: Position) {
    /// Samples after which an observer knows what it cannot see.
    const SAMPLES_OF_NEW: u64 = 3;
    /// A requested sample is fetched this long after its request.
    const AFTER_CUT: Duration = Duration::from_millis(30);
    let mut wait = INTERVAL;
    // The observer learns from its first samples what it cannot see.
    let mut is_new = true;
    while let Some(cut) = wait_for_work(shared, wait) {
        let target = format!("/samples?since={}{}", position.last, if cut { "&cut" } else { "" });
        let pulled = puller.get::<SamplesReply>(&target);
        let facts = is_new.then(|| puller.get::<HostReply>("/host").ok()).flatten();
        let mut state = shared.lock();
        if let Some((reply, _)) = facts {
            state.facts = reply.host;
        }
        wait = match pulled {
            // It was started again and counts from 1: what its predecessor had is lost.
            Ok((reply, _)) if reply.started_s != position.started_s => {
                position = Position { last: 0, started_s: reply.started_s };
                is_new = true;
                Duration::ZERO
            }
            Ok((reply, offset)) => {
                position.move_behind(&reply);
                let more = reply.samples.len() == SAMPLES_PER_REPLY_MAX;
                state.keep(reply.samples, offset);
                is_new &= position.last < SAMPLES_OF_NEW;
                match (more, cut) {
                    (true, _) => Duration::ZERO,
                    (false, true) => AFTER_CUT,
                    (false, false) => INTERVAL,
                }
            }
            Err(error) => {
                state.lost = Some(error.to_string());
                INTERVAL
            }
        };
        drop(state);
        shared.changed.notify_all();
    }
}

impl State {
    /// Keeps samples, with the times of this host's clock and numbers of our own.
    fn keep(&mut self, samples: Vec<Sample>, offset: ClockOffset) {
        self.lost = None;
        if self.offsets.len() == OFFSETS_KEPT {
            self.offsets.remove(0);
        }
        self.offsets.push(offset);
        let ahead_s = best(&self.offsets).seconds;
        for sample in samples {
            let number = self.samples.len() as u64 + 1;
            self.samples.push(Sample { number, unix_s: sample.unix_s - ahead_s, ..sample });
        }
    }
}

/// Waits for that long, or until a cut is requested; whether one is. `None` at the end.
fn wait_for_work(shared: &Shared, wait: Duration) -> Option<bool> {
    let due = Instant::now() + wait;
    let mut state = shared.lock();
    loop {
        if state.stop {
            return None;
        }
        let left = due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
        match left {
            Some(left) if !state.cut => {
                state = shared.changed.wait_timeout(state, left).unwrap_or_else(|poisoned| poisoned.into_inner()).0;
            }
            _ => return Some(std::mem::take(&mut state.cut)),
        }
    }
}

/// The request for a body that no path check reads to its end.
pub fn path_request(address: &str, token: Option<&Token>) -> Vec<u8> {
    let token = token.map_or_else(String::new, |token| format!("Authorization: {}\r\n", token.field()));
    format!("GET /path?bytes={PATH_BYTES_MAX} HTTP/1.1\r\nHost: {address}\r\n{token}\r\n").into_bytes()
}

/// One connection to an observer.
#[derive(Debug)]
struct Puller {
    address: String,
    token: Option<Token>,
    connection: Option<TcpStream>,
    clock: Clock,
}

/// A response's body, and when the exchange began and ended.
struct Exchange {
    status: u16,
    body: Vec<u8>,
    begun_s: f64,
    ended_s: f64,
}

/// A response that says what time it is at the observer's.
trait Timed {
    fn now_s(&self) -> f64;
}

impl Timed for HostReply {
    fn now_s(&self) -> f64 {
        self.now_s
    }
}

impl Timed for SamplesReply {
    fn now_s(&self) -> f64 {
        self.now_s
    }
}

impl Puller {
    fn get<T: Timed + serde::de::DeserializeOwned>(&mut self, target: &str) -> Result<(T, ClockOffset), PullError> {
        let kept = self.connection.is_some();
        let exchange = match self.exchange(target) {
            // The observer may have closed a connection that was idle for long.
            Err(_) if kept => self.exchange(target),
            exchange => exchange,
        }?;
        let reason = |reason: String| PullError::Reply { address: self.address.clone(), reason };
        match exchange.status {
            200 => {}
            401 => return Err(PullError::Token { address: self.address.clone() }),
            status => return Err(reason(format!("status {status}"))),
        }
        let reply: T = serde_json::from_slice(&exchange.body).map_err(|error| reason(error.to_string()))?;
        let middle_s = f64::midpoint(exchange.begun_s, exchange.ended_s);
        let offset =
            ClockOffset { seconds: reply.now_s() - middle_s, error_s: (exchange.ended_s - exchange.begun_s) / 2.0 };
        Ok((reply, offset))
    }

    /// Sends one request and reads its response; the connection is kept if that worked.
    fn exchange(&mut self, target: &str) -> Result<Exchange, PullError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let address = self.address.clone();
        let authorization =
            self.token.as_ref().map_or_else(String::new, |token| format!("Authorization: {}\r\n", token.field()));
        let request = format!("GET {target} HTTP/1.1\r\nHost: {address}\r\n{authorization}\r\n");
        let begun_s = self.clock.unix_s();
        let failed = |source| PullError::Connection { address: address.clone(), source };
        connection.write_all(request.as_bytes()).map_err(failed)?;
        let (status, body) = read_response(&mut connection).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => PullError::Reply { address: address.clone(), reason: error.to_string() },
            _ => failed(error),
        })?;
        let ended_s = self.clock.unix_s();
        self.connection = Some(connection);
        Ok(Exchange { status, body, begun_s, ended_s })
    }

    fn connect(&self) -> Result<TcpStream, PullError> {
        let unresolved = |reason: String| PullError::Address { address: self.address.clone(), reason };
        let addresses: Vec<SocketAddr> =
            self.address.to_socket_addrs().map_err(|error| unresolved(error.to_string()))?.collect();
        let mut last = None;
        for address in &addresses {
            match TcpStream::connect_timeout(address, PATIENCE) {
                Ok(connection) => {
                    let set = connection.set_read_timeout(Some(PATIENCE));
                    let set = set.and_then(|()| connection.set_write_timeout(Some(PATIENCE)));
                    let set = set.and_then(|()| connection.set_nodelay(true));
                    return set
                        .map(|()| connection)
                        .map_err(|source| PullError::Connection { address: self.address.clone(), source });
                }
                Err(error) => last = Some(error),
            }
        }
        match last {
            Some(source) => Err(PullError::Connection { address: self.address.clone(), source }),
            None => Err(unresolved("the name has no address".to_owned())),
        }
    }
}

fn read_response(connection: &mut TcpStream) -> io::Result<(u16, Vec<u8>)> {
    let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
    let mut reader = ResponseReader::new(Bounds::responses());
    reader.expect(RequestKind::Other);
    let mut buffer = vec![0; 64 << 10];
    let (mut status, mut body) = (0, Vec::new());
    loop {
        let received = connection.read(&mut buffer)?;
        if received == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut input = &buffer[..received];
        loop {
            let mut slots = FieldSlots::new();
            let progress = reader.read(input, &mut slots).map_err(|error| invalid(error.to_string()))?;
            input = &input[progress.consumed..];
            match progress.event {
                Some(ResponseEvent::Head(head)) => status = head.status,
                Some(ResponseEvent::Body(bytes)) if body.len() + bytes.len() > REPLY_BYTES_MAX => {
                    return Err(invalid("the response is too long".to_owned()));
                }
                Some(ResponseEvent::Body(bytes)) => body.extend_from_slice(bytes),
                Some(ResponseEvent::Informational(_)) => {}
                Some(ResponseEvent::End(_)) => return Ok((status, body)),
                None => break,
            }
        }
    }
}
