//! The HTTP/1 session: reads requests, has responses made in their order, and passes them on in
//! batches.
//!
//! A session reads until there is something to send; while that is under way, input is kept,
//! bounded, and beyond the bound the client is held back. Small responses to requests that arrived
//! together form one batch. An idle session holds no buffer. A request whose object is not ready
//! waits with a copy of its head and is processed again later.

use std::rc::Rc;

use memchr::memmem;
use thalweg_reactor::BufferPool;
use thalweg_wire::{BodyFraming, FieldSlots, Progress, RequestEvent, RequestHead, RequestReader, Version};

use crate::content::blocking_pool::JobKind;
use crate::http::h1::head::Persistence;
use crate::http::h1::services::Services;
use crate::http::h1::streamed::{Streamed, StreamedBody};
use crate::http::h1::waiting::{Wait, WaitingRequest, gather_content};
use crate::http::respond::{Answer, Outcomes};
use crate::http::response::{LATE_ORIGIN, ResponseBytes, Summary};
use crate::http::services::Bounds;
use crate::session::{self, Activity, Next, Ready};

/// Larger request bodies are not read: the response is sent at once and is the connection's last.
const BODY_BYTES_MAX: u64 = 64 << 10;

/// A client is held back when it has sent this much ahead of its responses.
const UNREAD_BYTES_MAX: usize = 16 << 10;

/// An HTTP/1 session.
pub(crate) struct Session {
    phase: Phase,
    /// The client will send no more.
    ended: bool,
    /// The client has announced that its latest request is the last.
    is_clients_last: bool,
    holds_input: bool,
    requests: u32,
    reader: RequestReader,
    /// Input that came while a response was under way, and is not read yet.
    unread: Option<Rc<Vec<u8>>>,
    /// The rest of the response under way, if it is still coming in.
    stream: Option<Box<StreamedBody>>,
    /// The request that is processed again when its object is ready, or its content was read.
    waiting: Option<Box<WaitingRequest>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Waits for a request, or for the rest of one.
    Reading,
    /// A response is under way, or the request waits for its object.
    Responding,
    /// The last response is under way.
    RespondingLast {
        /// The client has sent, or may still send, input that is not read.
        linger: bool,
    },
}

impl session::Session for Session {
    type Services<'s> = Services<'s>;

    #[inline]
    fn on_received(&mut self, input: &[u8], services: &mut Services<'_>) -> Next {
        match self.phase {
            Phase::Reading => {
                let read = self.read(input, services);
                if read < input.len() {
                    self.keep(&input[read..], services.batch.pool());
                }
                self.after_reading(services)
            }
            Phase::Responding => {
                self.keep(input, services.batch.pool());
                Next::Wait
            }
            Phase::RespondingLast { .. } => {
                // It is never read. Its arrival shows that the client has not seen the end of the
                // response yet.
                self.phase = Phase::RespondingLast { linger: true };
                self.holds_input = true;
                Next::Wait
            }
        }
    }

    #[inline]
    fn on_sent(&mut self, services: &mut Services<'_>) -> Next {
        if self.stream.is_some() {
            return self.send_stream(services);
        }
        match self.phase {
            Phase::RespondingLast { linger: true } if !self.ended => Next::Linger,
            Phase::Responding => match self.waits_for() {
                None if self.unread.is_some() && !services.budget.is_left() => Next::WaitForBudget,
                None | Some(Wait::Content) => {
                    self.phase = Phase::Reading;
                    self.read_unread(services);
                    self.after_reading(services)
                }
                Some(Wait::Answer) => Next::Wait,
                Some(Wait::Turn) => self.answer_again(services),
            },
            Phase::Reading | Phase::RespondingLast { .. } => Next::Close,
        }
    }

    fn on_ready(&mut self, ready: Ready, is_sending: bool, services: &mut Services<'_>) -> Next {
        match (ready, &mut self.waiting) {
            (Ready::Job { outcome, .. }, Some(waiting)) => {
                waiting.outcomes.add(waiting.job, outcome);
                waiting.wait = Wait::Turn;
            }
            (Ready::Answer { answer, .. }, Some(waiting)) => {
                waiting.answer = Some(answer);
                waiting.wait = Wait::Turn;
            }
            // The body has ended meanwhile.
            (Ready::Body, _) if self.stream.is_none() => return Next::Wait,
            // The request was given up.
            _ => {}
        }
        match self.stream {
            _ if is_sending => Next::Wait,
            Some(_) => self.send_stream(services),
            None => self.answer_again(services),
        }
    }

    fn on_ended(&mut self) -> Next {
        self.ended = true;
        match self.phase {
            Phase::Reading => Next::Close,
            // Earlier requests still get their responses.
            Phase::Responding | Phase::RespondingLast { .. } => Next::Wait,
        }
    }

    #[cold]
    fn on_deadline(&mut self, is_sending: bool, services: &mut Services<'_>) -> Next {
        let status = match self.phase {
            // A disk that does not respond.
            Phase::Responding if self.waiting.take().is_some() && !is_sending => 503,
            // An origin that has stopped delivering: the client must not take the received part for
            // the whole.
            _ if self.stream.is_some() && !is_sending => {
                return Next::Fail(LATE_ORIGIN.into());
            }
            // The response to a request whose body is late has gone already.
            Phase::Reading if !self.reader.idle() && !self.reader.in_body() => 408,
            Phase::Reading if self.waiting.take().is_some() => 408,
            Phase::Reading => return Next::Close,
            Phase::Responding | Phase::RespondingLast { .. } => return Next::Reset,
        };
        self.refuse(status, services);
        self.after_reading(services)
    }

    #[inline]
    fn activity(&self) -> Activity {
        match self.phase {
            Phase::Reading if self.reader.idle() => Activity::Idle { requests: self.requests },
            Phase::Reading => Activity::Reading { in_body: self.reader.in_body() },
            Phase::Responding => Activity::Responding { may_end: false },
            Phase::RespondingLast { .. } if self.stream.is_some() => Activity::Responding { may_end: false },
            // A close with unread input, which a client that is still sending can cause, discards
            // the bytes that wait to be sent, unless the server's direction is shut down before.
            Phase::RespondingLast { linger } => Activity::Responding { may_end: linger || self.is_clients_last },
        }
    }

    #[inline]
    fn holds_input(&self) -> bool {
        self.holds_input
    }

    fn on_draining(&mut self, _services: &mut Services<'_>) -> Next {
        Next::Close
    }

    fn keep_input(&mut self, input: &[u8], services: &mut Services<'_>) -> bool {
        // An end of a head that is cut is found from two bytes before the cut.
        let from = self.unread.as_ref().map_or(0, |bytes| bytes.len().saturating_sub(2));
        let kept = keep(&mut self.unread, input, services.batch.pool());
        let new = self.unread.as_ref().map_or(&[][..], |bytes| &bytes[from..]);
        // Whether it is well-formed is found when it is read.
        let is_whole = memmem::find(new, b"\n\r\n").or_else(|| memmem::find(new, b"\n\n")).is_some();
        is_whole || kept as u64 > u64::from(services.bounds.wire.head_bytes_max)
    }

    fn answer_kept(&mut self, is_only: bool, services: &mut Services<'_>) -> Next {
        if is_only {
            self.requests = u32::MAX;
        }
        self.read_unread(services);
        let is_answered = !services.batch.is_empty() || self.waiting.is_some();
        // Empty lines, and no request behind them.
        if is_only && !is_answered { Next::Close } else { self.after_reading(services) }
    }

    fn drop_input(&mut self) {
        self.phase = Phase::RespondingLast { linger: true };
        self.unread = None;
        self.waiting = None;
        self.stream = None;
    }
}

impl Session {
    /// A session that has read nothing.
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            phase: Phase::Reading,
            ended: false,
            is_clients_last: false,
            holds_input: false,
            requests: 0,
            reader: RequestReader::new(bounds.wire),
            unread: None,
            stream: None,
            waiting: None,
        }
    }

    /// Whether no byte of a request has been read.
    #[inline]
    pub(crate) fn is_new(&self) -> bool {
        self.requests == 0 && self.phase == Phase::Reading && self.reader.idle()
    }

    /// Input that is kept and not read yet.
    pub(crate) fn unread(&mut self) -> &mut Option<Rc<Vec<u8>>> {
        &mut self.unread
    }

    /// The event that the request waits for, if one waits.
    #[inline]
    fn waits_for(&self) -> Option<Wait> {
        self.waiting.as_ref().map(|waiting| waiting.wait)
    }

    /// Keeps input behind what is unread.
    fn keep(&mut self, input: &[u8], buffers: &mut BufferPool) {
        if keep(&mut self.unread, input, buffers) > UNREAD_BYTES_MAX {
            self.holds_input = true;
        }
    }

    /// Reads requests from the input that was kept; the part that is not read is kept on.
    #[inline]
    fn read_unread(&mut self, services: &mut Services<'_>) {
        match self.unread.take() {
            Some(unread) => self.read_kept(unread, services),
            None if self.reader.idle() => {}
            // A request that waited for its object was read up to the end of its head. Without a
            // body it ends there, and the connection is idle.
            None => _ = self.read(&[], services),
        }
    }

    #[inline(never)]
    fn read_kept(&mut self, mut unread: Rc<Vec<u8>>, services: &mut Services<'_>) {
        let read = self.read(&unread, services);
        if read < unread.len() {
            Rc::make_mut(&mut unread).drain(..read);
            self.unread = Some(unread);
        } else {
            services.batch.pool().put(unread);
        }
    }

    /// Answers requests until the input, the room for responses or the loop's work budget is used
    /// up; the first in any case. The number of bytes read.
    #[inline]
    fn read(&mut self, input: &[u8], services: &mut Services<'_>) -> usize {
        let mut read = 0;
        loop {
            let mut slots = FieldSlots::new();
            let progress = match self.reader.read(&input[read..], &mut slots) {
                Ok(progress) => progress,
                Err(error) => return self.refuse_rest(error.status(), input, services),
            };
            read += progress.consumed;
            match progress.event {
                Some(RequestEvent::Head(head)) => {
                    self.requests = self.requests.saturating_add(1);
                    if has_body(&head)
                        && let Some(bytes_max) = services.responder.wanted_content(&head)
                    {
                        match gather_content(&head, bytes_max, services) {
                            Ok(gathering) => self.waiting = Some(gathering),
                            Err(status) => return self.refuse_rest(status, input, services),
                        }
                        continue;
                    }
                    let begins_at = services.batch.len();
                    services.batch.begin(&head, persistence(&head, is_body_read(&head), self.requests, services));
                    let context = services.context();
                    let Services { responder, batch, .. } = services;
                    let answer = responder.answer(&head, services.tls_port, Outcomes::default(), context, batch);
                    let summary = match answer {
                        Answer::Encoded(summary) => summary,
                        Answer::Pending => {
                            self.waiting = Some(Box::new(WaitingRequest::new(&head, JobKind::Open)));
                            return read;
                        }
                        Answer::After(job) if !services.blocking.is_overloaded() => {
                            self.waiting = Some(Box::new(WaitingRequest::new(&head, job.kind())));
                            services.blocking.submit(services.waiter(), *job);
                            return read;
                        }
                        Answer::After(_) => responder.shed(&head, context.peer, batch),
                    };
                    record(services, Some(&head), summary, begins_at);
                    self.stream = take_stream(services);
                    if services.batch.persistence == Persistence::Close {
                        self.is_clients_last = !head.keep_alive();
                        self.phase = Phase::RespondingLast { linger: has_body(&head) || read < input.len() };
                        return input.len();
                    }
                }
                Some(RequestEvent::Body(bytes)) => {
                    let content = self.waiting.as_mut().and_then(|gathering| gathering.content.as_mut());
                    if let Some(Err(status)) = content.map(|content| content.push(bytes)) {
                        self.waiting = None;
                        return self.refuse_rest(status, input, services);
                    }
                }
                Some(RequestEvent::End) if let Some(waiting) = &mut self.waiting => {
                    // It is answered behind what is in the batch.
                    waiting.wait = Wait::Turn;
                    return read;
                }
                Some(RequestEvent::End) if read == input.len() => return read,
                Some(RequestEvent::End)
                    if !services.budget.take_request(services.batch.is_full() || self.stream.is_some()) =>
                {
                    return read;
                }
                Some(RequestEvent::End) => {}
                None => return read,
            }
        }
    }

    /// Returns the batch to send, or the event that the session waits for.
    #[inline]
    fn after_reading(&mut self, services: &mut Services<'_>) -> Next {
        if !services.batch.is_empty() {
            if self.phase == Phase::Reading {
                self.phase = Phase::Responding;
            }
            if self.stream.is_some()
                && let Err(reason) = self.begin_stream(services)
            {
                return Next::Fail(reason);
            }
            if self.is_clients_last && self.phase == (Phase::RespondingLast { linger: false }) {
                // Nothing is to come, and a receive that is not begun need not be cancelled.
                self.holds_input = true;
            }
            return Next::Send(services.batch.take_payload());
        }
        if let Some(wait) = self.waits_for().filter(|wait| *wait != Wait::Content) {
            self.phase = Phase::Responding;
            return if wait == Wait::Answer { Next::Wait } else { self.answer_again(services) };
        }
        let is_idle = self.reader.idle();
        if self.ended || (is_idle && services.is_draining) {
            return Next::Close;
        }
        if is_idle && self.reader.retained_bytes() > 0 {
            self.reader = RequestReader::new(services.bounds.wire);
        }
        self.holds_input = false;
        Next::Wait
    }

    /// Answers the request that has waited, or lets it wait for the next job.
    fn answer_again(&mut self, services: &mut Services<'_>) -> Next {
        let Some(mut waiting) = self.waiting.take_if(|waiting| waiting.wait == Wait::Turn) else { return Next::Wait };
        let mut reader = RequestReader::new(services.bounds.wire);
        let mut slots = FieldSlots::new();
        let progress = reader.read(&waiting.head, &mut slots);
        let Ok(Progress { event: Some(RequestEvent::Head(head)), .. }) = progress else {
            unreachable!("a head that was read is read again")
        };
        let is_read = waiting.has_content || is_body_read(&head);
        services.batch.begin(&head, persistence(&head, is_read, self.requests, services));
        let context = services.context();
        let Services { responder, batch, .. } = services;
        responder.bring(waiting.answer.take(), waiting.content.take());
        match responder.answer(&head, services.tls_port, waiting.outcomes, context, batch) {
            Answer::Pending => {
                waiting.wait = Wait::Answer;
                self.waiting = Some(waiting);
            }
            Answer::After(job) => {
                waiting.job = job.kind();
                waiting.wait = Wait::Answer;
                services.blocking.submit(services.waiter(), *job);
                self.waiting = Some(waiting);
            }
            Answer::Encoded(summary) => {
                record(services, Some(&head), summary, 0);
                self.stream = take_stream(services);
                if services.batch.persistence == Persistence::Close {
                    let is_unread = has_body(&head) && !waiting.has_content;
                    self.phase = Phase::RespondingLast { linger: is_unread || self.unread.is_some() };
                    self.unread = None;
                }
            }
        }
        self.after_reading(services)
    }

    /// Puts what has come in of a body behind its head.
    ///
    /// # Errors
    /// The reason why the rest cannot be delivered.
    #[cold]
    fn begin_stream(&mut self, services: &mut Services<'_>) -> Result<(), Rc<str>> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let before = services.batch.len();
        let (body_bytes, is_last) = match stream.put(&mut services.batch, services.socket) {
            Streamed::More { body_bytes } => (body_bytes, false),
            Streamed::End { body_bytes } => (body_bytes, true),
            Streamed::Failed(reason) => return Err(reason),
        };
        services.recorder.extend(0, services.batch.len() - before, body_bytes, is_last);
        if is_last {
            self.stream = None;
        }
        Ok(())
    }

    /// Sends what has come in of the response under way, or waits for more.
    #[cold]
    fn send_stream(&mut self, services: &mut Services<'_>) -> Next {
        let Some(stream) = &mut self.stream else { return Next::Wait };
        let (body_bytes, is_last) = match stream.put(&mut services.batch, services.socket) {
            Streamed::More { body_bytes } => (body_bytes, false),
            Streamed::End { body_bytes } => (body_bytes, true),
            Streamed::Failed(reason) => return Next::Fail(reason),
        };
        services.recorder.extend(0, services.batch.len(), body_bytes, is_last);
        if is_last {
            self.stream = None;
        }
        match services.batch.is_empty() {
            false => Next::Send(services.batch.take_payload()),
            true if is_last => session::Session::on_sent(self, services),
            true => Next::Wait,
        }
    }

    /// Refuses, and reads no more: all of the input counts as read.
    #[cold]
    fn refuse_rest(&mut self, status: u16, input: &[u8], services: &mut Services<'_>) -> usize {
        self.refuse(status, services);
        input.len()
    }

    /// Answers something that is not, or not any longer, a request that can be understood. The
    /// connection cannot go on.
    #[cold]
    fn refuse(&mut self, status: u16, services: &mut Services<'_>) {
        let begins_at = services.batch.len();
        services.batch.persistence = Persistence::Close;
        let summary = services.responder.refuse(status, services.peer, &mut services.batch);
        record(services, None, summary, begins_at);
        self.phase = Phase::RespondingLast { linger: true };
    }
}

/// Persistence of the connection after the response to its request number `requests`.
#[inline]
fn persistence(head: &RequestHead<'_>, is_read: bool, requests: u32, services: &Services<'_>) -> Persistence {
    let is_last = services.is_draining || !is_read || requests >= services.bounds.requests_max;
    match head.version {
        _ if is_last || !head.keep_alive() => Persistence::Close,
        Version::Http11 | Version::Http2 => Persistence::Default,
        Version::Http10 => Persistence::KeepAlive,
    }
}

/// Has the response recorded that was encoded last and begins at a byte of the batch.
#[inline]
fn record(services: &mut Services<'_>, request: Option<&RequestHead<'_>>, summary: Summary, begins_at: u64) {
    services.batch.mount = summary.mount;
    let batch = &services.batch;
    services.recorder.record(0, request, summary, &|| {
        let bytes = batch.len() - begins_at;
        ResponseBytes { bytes, body_bytes: bytes - batch.head_bytes(begins_at), is_open: batch.has_stream() }
    });
}

/// The body of the response that was encoded last, if its bytes come in later.
#[inline]
fn take_stream(services: &mut Services<'_>) -> Option<Box<StreamedBody>> {
    let stream = services.batch.take_stream()?;
    Some(Box::new(StreamedBody::new(stream, services.batch.mount)))
}

/// Whether the body of a request, whatever it is for, is read to its end. A client that sent
/// `Expect: 100-continue` gets the final response instead, and may send the body or not: the start
/// of the next request would be ambiguous.
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

/// Keeps bytes for later. The number of bytes kept now.
fn keep(unread: &mut Option<Rc<Vec<u8>>>, bytes: &[u8], buffers: &mut BufferPool) -> usize {
    let kept = Rc::make_mut(unread.get_or_insert_with(|| buffers.take()));
    kept.extend_from_slice(bytes);
    kept.len()
}
