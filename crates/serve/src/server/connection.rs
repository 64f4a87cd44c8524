//! One connection: reads requests, has them answered in order, sends the responses, and ends well.
//!
//! A connection reads until there is something to send; while that is under way, what comes in is kept aside, bounded, and
//! beyond the bound the client is held back. Requests that came together are answered together as far as their
//! responses are small. An idle connection holds no buffer.
//!
//! What a disk has to be waited for is done [aside](crate::content::blocking_pool): a request then waits with a copy of its head and is answered
//! again, and a download waits before each part that is not in memory.
//!
//! A client that is still sending when the last response leaves would get a reset from a plain close, and might never read
//! that response. Such a connection lingers: our direction is finished, the client's is drained for a while.

mod outside;
mod sending;
mod share;
mod times;

use std::mem;
use std::rc::Rc;

use thalweg_reactor::BufferPool;
use thalweg_sys::{Driver, FileSpan, Instant, SendBuf, SocketId};
use thalweg_wire::{BodyFraming, FieldSlots, Progress, RequestEvent, RequestHead, RequestReader, Version};

use crate::content::blocking_pool::{BlockingPool, JobKind, JobsDone};
use crate::content::local::readahead::Readahead;
use crate::content::local::residency::Residency;
use crate::http::h1::head::Persistence;
use crate::http::multipart::Segments;
use crate::http::respond::{Answer, Outbox, Outgoing, Responder};
use crate::shaping::shaper::{Shaper, ShapingState};
use crate::telemetry::accounting::{AnsweredRequest, RequestRecords, ResponseBytes};

pub(crate) use self::outside::Admission;
pub(crate) use self::share::Share;
pub(crate) use self::times::Times;

/// Larger request bodies are not read: the response is sent at once and is the connection's last.
const BODY_BYTES_MAX: u64 = 64 << 10;

/// A client is held back when it has sent this much ahead of its responses.
const UNREAD_BYTES_MAX: usize = 16 << 10;

/// A client that sends more than this after its last response does not mean to read it.
const LINGER_BYTES_MAX: u32 = 1 << 20;

/// One connection.
pub(crate) struct Connection {
    pub(crate) socket: SocketId,
    /// When the client must have done what the phase waits for.
    pub(crate) deadline: Instant,
    phase: Phase,
    /// The client will send no more.
    ended: bool,
    /// It has said that its latest request is the last.
    is_clients_last: bool,
    paused: bool,
    /// The driver has a send of this connection's.
    is_sending: bool,
    /// The client has taken parts of files fast, and what the kernel takes is not bounded.
    is_fast: bool,
    /// Whether it has one of the places.
    pub(crate) admission: Admission,
    /// It got its place while others were waiting for one, and has to show sooner that it takes what it asked for.
    is_late: bool,
    /// It waits for its next share of the loop's work.
    is_listed: bool,
    /// Whose rate what is being sent counts for.
    mount: u16,
    requests: u32,
    reader: RequestReader,
    /// What came in while a response was under way, and is not read yet.
    unread: Option<Rc<Vec<u8>>>,
    /// The buffer that is being sent, if it goes back to the pool.
    sending: Option<Rc<Vec<u8>>>,
    /// Bytes that the driver was handed and has not reported as sent.
    sending_bytes: u64,
    /// Bytes that the client had not taken when that was looked at last, and those that were sent since then.
    untaken_bytes: u64,
    /// What is to be sent of a file when those have gone.
    rest: Option<FileSpan>,
    /// What is to be sent behind that.
    segments: Option<Box<Segments>>,
    /// The request that is answered when something was done aside.
    waiting: Option<Box<WaitingRequest>>,
    /// What is known of a download whose file is not all in memory.
    readahead: Option<Box<Readahead>>,
    /// What the books have to be told when the responses have gone.
    under_way: Option<Box<RequestRecords>>,
    /// What limits by client and by rate need, if there are any.
    pub(crate) shaping_state: Option<Box<ShapingState>>,
}

/// A request that cannot be answered yet.
struct WaitingRequest {
    /// Its head, to be read once more.
    head: Vec<u8>,
    done: JobsDone,
    /// Something is under way aside. If not, it is over, and earlier responses are still being sent.
    is_under_way: bool,
}

/// What a connection is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Has no place, and waits for a whole request.
    Arriving,
    /// Waits for a request, or for the rest of one.
    Reading,
    /// A response is under way, or the request waits for something that is done aside.
    Sending,
    /// The last response is under way.
    SendingLast {
        /// The client has sent, or may still send, what nobody reads.
        linger: bool,
    },
    /// Drains what the client still sends, until it ends.
    Lingering {
        /// How much more it may be.
        bytes_left: u32,
    },
}

/// What becomes of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Fate {
    /// It stays.
    Stays,
    /// It is to be closed.
    Over,
    /// It is to be closed, and what the client has not taken by now is not kept for it.
    Abandoned,
    /// It has no place and has sent a whole request.
    Asks,
    /// It has no place, and its response, which is [held](Shared::held), takes long enough to need one.
    Queues,
    /// It has waited for a place in vain.
    Refused,
}

/// What all connections of a core share.
pub(crate) struct Shared {
    pub(crate) times: Times,
    pub(crate) responder: Responder,
    pub(crate) blocking: BlockingPool,
    pub(crate) residency: Residency,
    pub(crate) pool: BufferPool,
    /// There if anything is limited by client or by rate.
    pub(crate) shaper: Option<Shaper>,
    /// No further request is waited for on any connection.
    pub(crate) draining: bool,
    /// What connections may do beyond the first thing in this turn, and who waits for the next one.
    pub(crate) share: Share,
    /// The response of a connection that [queues](Fate::Queues) for a place.
    pub(crate) held: Option<Box<Outgoing>>,
}

/// What holds for all that is done at one time.
#[derive(Clone, Copy)]
struct Present<'s> {
    times: &'s Times,
    draining: bool,
    now: Instant,
}

impl WaitingRequest {
    /// For a request that waits for its first job.
    #[cold]
    fn new(request: &RequestHead<'_>, reason: JobKind) -> Self {
        let mut head = Vec::with_capacity(512);
        let version = if request.version == Version::Http10 { " HTTP/1.0\r\n" } else { " HTTP/1.1\r\n" };
        for part in [request.method.name().as_bytes(), b" ", request.target, version.as_bytes()] {
            head.extend_from_slice(part);
        }
        for (name, value) in request.fields.iter() {
            for part in [name.as_bytes(), b":", value, b"\r\n"] {
                head.extend_from_slice(part);
            }
        }
        head.extend_from_slice(b"\r\n");
        Self { head, done: JobsDone::NOTHING.and(reason), is_under_way: true }
    }
}

impl Connection {
    /// A connection that was just accepted.
    pub(crate) fn new(
        socket: SocketId,
        shaping_state: Option<Box<ShapingState>>,
        shared: &Shared,
        now: Instant,
    ) -> Self {
        Self {
            socket,
            deadline: now.plus_ns(shared.times.head_ns),
            phase: Phase::Reading,
            ended: false,
            is_clients_last: false,
            paused: false,
            is_sending: false,
            is_fast: false,
            admission: Admission::Placed,
            is_late: false,
            is_listed: false,
            mount: 0,
            requests: 0,
            reader: RequestReader::new(shared.times.wire),
            unread: None,
            sending: None,
            sending_bytes: 0,
            untaken_bytes: 0,
            rest: None,
            segments: None,
            waiting: None,
            readahead: None,
            under_way: None,
            shaping_state,
        }
    }

    /// What is under way, which is not written down by this connection any more.
    pub(crate) fn take_records(&mut self) -> Option<Box<RequestRecords>> {
        self.under_way.take()
    }

    /// Whether nothing is under way after a request was answered, so that it can be closed without a loss.
    pub(crate) fn is_idle_again(&self) -> bool {
        self.phase == Phase::Reading && self.reader.idle() && self.requests > 0
    }

    /// Whether it has been idle for so long that it has to make room now.
    pub(crate) fn is_idle_too_long(&self, times: &Times, now: Instant) -> bool {
        let short_ns = times.idle_ns.saturating_sub(times.idle_ns_now);
        short_ns > 0 && self.is_idle_again() && self.deadline.minus_ns(short_ns) <= now
    }

    /// Bytes have come in.
    #[inline]
    pub(crate) fn on_received<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared) -> Fate {
        match self.phase {
            Phase::Reading => {
                let input = driver.received();
                let was_idle = self.reader.idle();
                let mut outbox = Outbox::new(&mut shared.pool);
                let present = Present { times: &shared.times, draining: shared.draining, now: driver.now() };
                let (responder, blocking) = (&mut shared.responder, &mut shared.blocking);
                let read = self.read(input, responder, blocking, &mut shared.share, present, &mut outbox);
                let outgoing = outbox.into_outgoing();
                if read < input.len() && keep(&mut self.unread, &input[read..], &mut shared.pool) > UNREAD_BYTES_MAX {
                    self.pause(driver);
                }
                self.go_on(driver, shared, outgoing, was_idle)
            }
            Phase::Arriving => self.on_arriving(driver, shared),
            Phase::Sending => {
                let kept = keep(&mut self.unread, driver.received(), &mut shared.pool);
                if kept > UNREAD_BYTES_MAX {
                    self.pause(driver);
                }
                Fate::Stays
            }
            Phase::SendingLast { .. } => {
                // Nobody will read it. Its arrival says that the client has not seen the end of this yet.
                self.phase = Phase::SendingLast { linger: true };
                self.pause(driver);
                Fate::Stays
            }
            Phase::Lingering { bytes_left } => {
                let received = u32::try_from(driver.received().len()).unwrap_or(u32::MAX);
                match bytes_left.checked_sub(received) {
                    Some(bytes_left) => {
                        self.phase = Phase::Lingering { bytes_left };
                        Fate::Stays
                    }
                    None => Fate::Over,
                }
            }
        }
    }

    /// The driver has sent what it was given.
    #[inline]
    pub(crate) fn on_sent<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared) -> Fate {
        self.is_sending = false;
        let sent_bytes = mem::take(&mut self.sending_bytes);
        shared.responder.totals.bytes += sent_bytes;
        if let Some(accounting) = &mut shared.responder.accounting {
            accounting.on_sent(&mut self.under_way, sent_bytes, driver.now());
        }
        let held = self.shaping_state.as_mut().and_then(|shaping_state| shaping_state.held.take());
        if held.is_none()
            && let Some(buffer) = self.sending.take()
        {
            shared.pool.put(buffer);
        }
        if held.is_some() || self.rest.is_some() {
            let rest = self.rest.take();
            if rest.is_some() {
                self.judge_speed(driver, sent_bytes);
            }
            self.send(driver, shared, held.unwrap_or(SendBuf::empty()), rest);
            return Fate::Stays;
        }
        if self.segments.is_some() {
            return self.send_segment(driver, shared);
        }
        self.after_sending(driver, shared)
    }

    /// All that was to be sent has gone.
    #[inline]
    fn after_sending<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared) -> Fate {
        match self.phase {
            Phase::SendingLast { linger: true } if !self.ended => {
                driver.finish(self.socket);
                self.phase = Phase::Lingering { bytes_left: LINGER_BYTES_MAX };
                self.deadline = driver.now().plus_ns(shared.times.linger_ns);
                self.resume(driver);
                Fate::Stays
            }
            Phase::Sending => match &self.waiting {
                None if self.unread.is_some() && !shared.share.is_left() => self.wait_for_share(shared),
                None => {
                    self.phase = Phase::Reading;
                    self.readahead = None;
                    self.read_unread(driver, shared)
                }
                Some(waiting) if waiting.is_under_way => {
                    self.deadline = driver.now().plus_ns(shared.times.stall_ns);
                    Fate::Stays
                }
                Some(_) => self.answer_again(driver, shared),
            },
            _ => Fate::Over,
        }
    }

    /// What was asked for is done aside.
    pub(crate) fn on_job_done<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared) -> Fate {
        let earlier_ones_go_first = self.is_sending || self.waits_for_grant();
        if let Some(waiting) = &mut self.waiting {
            waiting.is_under_way = false;
            return if earlier_ones_go_first { Fate::Stays } else { self.answer_again(driver, shared) };
        }
        if let Some(rest) = self.rest.take_if(|_| !earlier_ones_go_first) {
            self.deadline = driver.now().plus_ns(shared.times.stall_ns);
            self.send(driver, shared, SendBuf::empty(), Some(rest));
        }
        Fate::Stays
    }

    /// Answers the request that has waited, or lets it wait for the next thing.
    fn answer_again<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared) -> Fate {
        let Some(mut waiting) = self.waiting.take() else { return Fate::Stays };
        let mut outbox = Outbox::new(&mut shared.pool);
        let present = Present { times: &shared.times, draining: shared.draining, now: driver.now() };
        let mut reader = RequestReader::new(shared.times.wire);
        let mut slots = FieldSlots::new();
        let progress = reader.read(&waiting.head, &mut slots);
        let Ok(Progress { event: Some(RequestEvent::Head(head)), .. }) = progress else {
            unreachable!("a head that was read is read again")
        };
        let (answer, persistence) =
            answer(&head, self.requests, waiting.done, &mut shared.responder, present, &mut outbox);
        if let Answer::After(job) = answer {
            waiting.done = waiting.done.and(job.reason);
            waiting.is_under_way = true;
            shared.blocking.ask(self.socket, *job);
            self.waiting = Some(waiting);
        } else {
            note(&mut self.under_way, self.socket, Some(&head), &mut shared.responder, present.now, &outbox);
            if persistence == Persistence::Close {
                self.phase = Phase::SendingLast { linger: has_body(&head) || self.unread.is_some() };
                self.unread = None;
            }
        }
        let outgoing = outbox.into_outgoing();
        self.go_on_or_queue(driver, shared, outgoing)
    }

    /// The client will send no more. What it has asked for before is still answered.
    pub(crate) fn on_ended(&mut self) -> Fate {
        self.ended = true;
        match self.phase {
            Phase::Arriving | Phase::Reading | Phase::Lingering { .. } => Fate::Over,
            Phase::Sending | Phase::SendingLast { .. } => Fate::Stays,
        }
    }

    /// The deadline has passed.
    #[cold]
    pub(crate) fn on_deadline<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared) -> Fate {
        let status = match self.phase {
            // A disk that does not answer.
            Phase::Sending if self.waiting.take().is_some() && !self.is_sending => 503,
            // The response to a request whose body is late has gone already.
            Phase::Reading if !self.reader.idle() && !self.reader.in_body() => 408,
            Phase::Reading | Phase::Lingering { .. } => return Fate::Over,
            Phase::Arriving => return Fate::Refused,
            Phase::SendingLast { .. } if self.admission == Admission::Queued => return Fate::Refused,
            Phase::Sending | Phase::SendingLast { .. } => return Fate::Abandoned,
        };
        let mut outbox = Outbox::new(&mut shared.pool);
        shared.responder.refuse(status, &mut outbox);
        note(&mut self.under_way, self.socket, None, &mut shared.responder, driver.now(), &outbox);
        self.phase = Phase::SendingLast { linger: true };
        let outgoing = outbox.into_outgoing();
        self.go_on(driver, shared, outgoing, false)
    }

    /// Reads what was kept aside while a response was under way.
    #[inline]
    fn read_unread<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared) -> Fate {
        let Some(unread) = self.unread.take() else { return self.go_on(driver, shared, Outgoing::NOTHING, true) };
        let outgoing = self.read_kept(driver.now(), shared, unread);
        self.go_on(driver, shared, outgoing, true)
    }

    /// Answers what was kept aside; what is not read of it is kept on.
    #[inline(never)]
    fn read_kept(&mut self, now: Instant, shared: &mut Shared, mut unread: Rc<Vec<u8>>) -> Outgoing {
        let mut outbox = Outbox::new(&mut shared.pool);
        let present = Present { times: &shared.times, draining: shared.draining, now };
        let (responder, blocking) = (&mut shared.responder, &mut shared.blocking);
        let read = self.read(&unread, responder, blocking, &mut shared.share, present, &mut outbox);
        let outgoing = outbox.into_outgoing();
        if read < unread.len() {
            Rc::make_mut(&mut unread).drain(..read);
            self.unread = Some(unread);
        } else {
            shared.pool.put(unread);
        }
        outgoing
    }

    /// Answers requests until the input, the room for responses or the share of this turn is used up; the first in any case. How
    /// many bytes were read.
    #[inline]
    fn read(
        &mut self,
        input: &[u8],
        responder: &mut Responder,
        blocking: &mut BlockingPool,
        share: &mut Share,
        present: Present<'_>,
        out: &mut Outbox<'_>,
    ) -> usize {
        let mut read = 0;
        loop {
            let mut slots = FieldSlots::new();
            let progress = match self.reader.read(&input[read..], &mut slots) {
                Ok(progress) => progress,
                Err(error) => {
                    responder.refuse(error.status(), out);
                    note(&mut self.under_way, self.socket, None, responder, present.now, out);
                    self.phase = Phase::SendingLast { linger: true };
                    return input.len();
                }
            };
            read += progress.consumed;
            match progress.event {
                Some(RequestEvent::Head(head)) => {
                    self.requests = self.requests.saturating_add(1);
                    let (answer, persistence) =
                        answer(&head, self.requests, JobsDone::NOTHING, responder, present, out);
                    if let Answer::After(job) = answer {
                        if !blocking.is_overloaded() {
                            self.waiting = Some(Box::new(WaitingRequest::new(&head, job.reason)));
                            blocking.ask(self.socket, *job);
                            return read;
                        }
                        responder.turn_away(&head, persistence, out);
                    }
                    if responder.accounting.is_some() {
                        note(&mut self.under_way, self.socket, Some(&head), responder, present.now, out);
                    }
                    if persistence == Persistence::Close {
                        self.is_clients_last = !head.keep_alive();
                        self.phase = Phase::SendingLast { linger: has_body(&head) || read < input.len() };
                        return input.len();
                    }
                }
                Some(RequestEvent::Body(_)) => {}
                Some(RequestEvent::End) if read == input.len() => return read,
                Some(RequestEvent::End) if !share.take(out) => return read,
                Some(RequestEvent::End) => {}
                None => return read,
            }
        }
    }

    /// After reading: sends what was gathered, or waits for more.
    #[inline]
    fn go_on<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared, outgoing: Outgoing, was_idle: bool) -> Fate {
        let now = driver.now();
        if let Some(bytes) = outgoing.bytes {
            if self.phase == Phase::Reading {
                self.phase = Phase::Sending;
            }
            if !outgoing.is_shared {
                self.sending = Some(Rc::clone(&bytes));
            }
            self.mount = outgoing.mount;
            self.deadline = now.plus_ns(shared.times.stall_ns);
            self.segments = outgoing.segments;
            if self.is_clients_last && self.phase == (Phase::SendingLast { linger: false }) {
                // Nothing is to come, and a receive that is not begun need not be cancelled.
                self.pause(driver);
            }
            self.send(driver, shared, SendBuf::Shared(bytes), outgoing.file);
            return Fate::Stays;
        }
        if self.waiting.is_some() {
            self.phase = Phase::Sending;
            self.deadline = now.plus_ns(shared.times.stall_ns);
            return Fate::Stays;
        }
        let is_idle = self.reader.idle();
        if self.ended || (is_idle && shared.draining) {
            return Fate::Over;
        }
        if is_idle {
            self.deadline = now.plus_ns(shared.times.idle_ns);
            if self.reader.retained_bytes() > 0 {
                self.reader = RequestReader::new(shared.times.wire);
            }
        } else if was_idle {
            let in_body = self.reader.in_body();
            let time_ns = if in_body { shared.times.stall_ns } else { shared.times.head_ns };
            self.deadline = now.plus_ns(time_ns);
        }
        self.resume(driver);
        Fate::Stays
    }

    fn pause<D: Driver>(&mut self, driver: &mut D) {
        if !self.paused {
            self.paused = true;
            driver.pause(self.socket);
        }
    }

    fn resume<D: Driver>(&mut self, driver: &mut D) {
        if self.paused {
            self.paused = false;
            driver.resume(self.socket);
        }
    }
}

/// Whether the body of a request, whatever it is for, is read to its end. A client that waits for leave to send one gets the
/// final response instead, and may send the body or not: nobody could tell where the next request begins.
fn is_body_read(head: &RequestHead<'_>) -> bool {
    match head.body {
        BodyFraming::None => true,
        BodyFraming::Length(bytes) => bytes <= BODY_BYTES_MAX && !head.expects_continue(),
        BodyFraming::Chunked | BodyFraming::UntilClose => false,
    }
}

fn has_body(head: &RequestHead<'_>) -> bool {
    !matches!(head.body, BodyFraming::None | BodyFraming::Length(0))
}

/// Answers a request, the so-and-so-many-th of its connection. What becomes of the connection then.
#[inline]
fn answer(
    head: &RequestHead<'_>,
    requests: u32,
    done: JobsDone,
    responder: &mut Responder,
    present: Present<'_>,
    out: &mut Outbox<'_>,
) -> (Answer, Persistence) {
    let is_last = present.draining || !is_body_read(head) || requests >= present.times.requests_max;
    let persistence = persistence(head, is_last);
    (responder.respond(head, persistence, done, present.now, out), persistence)
}

fn persistence(head: &RequestHead<'_>, is_last: bool) -> Persistence {
    match head.version {
        _ if is_last || !head.keep_alive() => Persistence::Close,
        Version::Http11 => Persistence::Default,
        Version::Http10 => Persistence::KeepAlive,
    }
}

/// Has the books note the response that was put into the outbox last. Not inlined: most servers keep no books.
#[inline(never)]
fn note(
    under_way: &mut Option<Box<RequestRecords>>,
    socket: SocketId,
    request: Option<&RequestHead<'_>>,
    responder: &mut Responder,
    now: Instant,
    out: &Outbox<'_>,
) {
    let Some(accounting) = &mut responder.accounting else { return };
    let (summary, second) = (responder.summary, responder.date_cache.second());
    let begins_at = under_way.as_ref().map_or(0, |records| records.ends_at());
    let body_bytes = out.len() - begins_at - out.head_bytes(begins_at);
    let size = ResponseBytes { ends_at: out.len(), body_bytes };
    accounting.record(under_way, &AnsweredRequest { socket, request, summary, now, second }, size);
}

/// Keeps bytes for later. How many are kept now.
fn keep(unread: &mut Option<Rc<Vec<u8>>>, bytes: &[u8], pool: &mut BufferPool) -> usize {
    let kept = Rc::make_mut(unread.get_or_insert_with(|| pool.take()));
    kept.extend_from_slice(bytes);
    kept.len()
}

// A hundred thousand idle connections hold this much each, and no buffer.
const _: () = assert!(size_of::<Connection>() <= 248);
