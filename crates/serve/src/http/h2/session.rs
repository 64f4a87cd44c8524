//! The HTTP/2 session: reads frames, has responses made, and passes them on in batches.
//!
//! A session reads until the input or the batch is at its end; while a batch is being sent, input
//! is kept, bounded, and beyond the bound the client is held back. Responses to requests that
//! arrived together form one batch, and behind them go DATA frames of the bodies under way, in the
//! order of their priorities. A request whose object is not ready waits with its fields and is
//! processed again later. A stream counts until its work has stopped, whatever became of it.

use std::mem;
use std::rc::Rc;

use thalweg_reactor::BufferPool;
use thalweg_sys::Instant;
use thalweg_wire::h2::{
    Config, Connection, ErrorCode, Event, HeadFields, RequestFault, Role, Settings, WINDOW_INITIAL,
};
use thalweg_wire::hpack::{FieldList, ListBounds};
use thalweg_wire::{BodyFraming, Method, RequestHead};

use super::batch::Batch;
use super::stream::{StreamWork, WaitingRequest};
use crate::http::response::LATE_ORIGIN;
use crate::http::services::Services;
use crate::session::{self, Activity, Next, Ready};

/// Streams of a client at once.
const STREAMS_MAX: u32 = 128;

/// The response to a request whose body is longer than this is sent at once.
const BODY_BYTES_MAX: u64 = 64 << 10;

/// Requests of a client whose bodies are read before the response, and bytes of their fields, which
/// are kept until then. Few bytes can refer to long fields (RFC 7541, 7.3), so that a client could
/// have a hundred times of what it sends kept; responses to requests beyond are sent at once.
const READING_MAX: u32 = 16;
const READING_FIELD_BYTES_MAX: usize = 4 << 10;

/// A client is held back when it has sent this much ahead of its responses.
const UNREAD_BYTES_MAX: usize = 16 << 10;

/// All of the response to a connection that there is no room for: SETTINGS, and GOAWAY
/// (ENHANCE_YOUR_CALM) behind stream 0, so that a client knows that nothing was processed.
pub(crate) const NO_ROOM: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0b";

/// An HTTP/2 session.
pub(crate) struct Session {
    pub(super) connection: Connection<StreamWork>,
    stage: Stage,
    /// A batch is being sent.
    is_sending: bool,
    /// The client will send no more.
    ended: bool,
    /// Streams whose requests have a body that is still coming in.
    pub(super) reading: u32,
    requests: u32,
    /// Our SETTINGS, until they are sent.
    greeting: Vec<u8>,
    /// Input that came while a batch was being sent, and is not read yet.
    unread: Option<Rc<Vec<u8>>>,
    /// When the client was last given credit for the time that had passed.
    credited: Instant,
    /// Since when bodies wait for a window, and bytes of bodies sent since then.
    pub(super) starved: Option<(Instant, u64)>,
}

/// How far the end of the connection has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Stage {
    /// It goes on.
    Open,
    /// GOAWAY has been sent: it ends with the streams that there are.
    Ending,
    /// It ends when what is being sent has gone.
    Over,
}

impl session::Session for Session {
    type Services<'s> = Services<'s>;

    #[inline]
    fn on_received(&mut self, input: &[u8], services: &mut Services<'_>) -> Next {
        if self.is_sending || self.unread.is_some() {
            if self.stage != Stage::Over {
                self.keep(input, services.buffers);
            }
            return Next::Wait;
        }
        let mut batch = self.begin(services);
        let read = self.read(input, &mut batch, services);
        if read < input.len() {
            self.keep(&input[read..], services.buffers);
        }
        self.finish(batch, services)
    }

    #[inline]
    fn on_sent(&mut self, services: &mut Services<'_>) -> Next {
        self.is_sending = false;
        if self.stage == Stage::Over {
            return if self.ended { Next::Close } else { Next::Linger };
        }
        if self.unread.is_some() && !services.budget.is_left() {
            return Next::WaitForBudget;
        }
        self.go_on(services)
    }

    fn on_ready(&mut self, ready: Ready, is_sending: bool, services: &mut Services<'_>) -> Next {
        match ready {
            Ready::Job { stream, outcome } => self.note_ready(stream, outcome, services),
            Ready::Answer { stream, answer } => self.note_answer(stream, answer),
            Ready::Body => self.offer_streams(),
        }
        if is_sending { Next::Wait } else { self.go_on(services) }
    }

    fn on_ended(&mut self) -> Next {
        self.ended = true;
        let is_under_way = self.connection.stream_count() > 0 && self.starved.is_none();
        if self.is_sending || self.unread.is_some() || is_under_way {
            return Next::Wait;
        }
        Next::Close
    }

    #[cold]
    fn on_deadline(&mut self, is_sending: bool, services: &mut Services<'_>) -> Next {
        if is_sending || self.stage == Stage::Over {
            return Next::Reset;
        }
        let mut batch = self.begin(services);
        // Disks that do not respond, and origins that have stopped delivering.
        let mut given_up = self.refuse_waiting(503, &mut batch, services);
        if self.starved.is_none() {
            given_up += self.reset_streams(LATE_ORIGIN, &mut batch, services);
        }
        if given_up == 0 {
            let reason = match self.activity() {
                Activity::Idle { .. } => (ErrorCode::NO_ERROR, "idle"),
                Activity::Reading { .. } => (ErrorCode::NO_ERROR, "the request did not come in time"),
                Activity::Responding { .. } => (ErrorCode::ENHANCE_YOUR_CALM, "no window came for the responses"),
            };
            self.go_away(Stage::Over, reason, &mut batch, services);
        }
        self.finish(batch, services)
    }

    #[inline]
    fn activity(&self) -> Activity {
        let streams = self.connection.stream_count() as u32;
        if self.is_sending || streams > self.reading {
            Activity::Responding { may_end: false }
        } else if streams > 0 {
            Activity::Reading { in_body: true }
        } else if self.connection.is_between_frames() && self.unread.is_none() {
            Activity::Idle { requests: self.requests }
        } else {
            Activity::Reading { in_body: false }
        }
    }

    #[inline]
    fn holds_input(&self) -> bool {
        self.unread.as_ref().is_some_and(|unread| unread.len() > UNREAD_BYTES_MAX)
    }

    #[cold]
    fn on_draining(&mut self, services: &mut Services<'_>) -> Next {
        // `finish` says GOAWAY.
        self.go_on(services)
    }

    fn keep_input(&mut self, input: &[u8], services: &mut Services<'_>) -> bool {
        self.keep(input, services.buffers);
        true
    }

    fn answer_kept(&mut self, is_only: bool, services: &mut Services<'_>) -> Next {
        if is_only {
            self.requests = u32::MAX;
        }
        self.go_on(services)
    }

    fn drop_input(&mut self) {
        (self.stage, self.is_sending, self.unread) = (Stage::Over, true, None);
    }
}

impl Session {
    /// A session that has read nothing.
    pub(crate) fn new(services: &Services<'_>) -> Self {
        let bounds = &services.bounds.wire;
        let list = ListBounds { charge_max: bounds.head_bytes_max as usize, fields_max: bounds.fields_max as usize };
        let config = Config {
            settings: Settings {
                enable_push: false,
                concurrent_streams_max: STREAMS_MAX,
                header_list_max: list.list_size_max(),
                no_old_priorities: true,
                ..Settings::INITIAL
            },
            connection_window: WINDOW_INITIAL,
            list,
        };
        let mut greeting = Vec::new();
        Self {
            connection: Connection::new(Role::Server, config, &mut greeting),
            stage: Stage::Open,
            is_sending: false,
            ended: false,
            reading: 0,
            requests: 0,
            greeting,
            unread: None,
            credited: services.now,
            starved: None,
        }
    }

    fn keep(&mut self, input: &[u8], buffers: &mut BufferPool) {
        let unread = self.unread.get_or_insert_with(|| buffers.take());
        Rc::make_mut(unread).extend_from_slice(input);
    }

    /// Begins a batch.
    #[inline]
    fn begin(&mut self, services: &mut Services<'_>) -> Batch {
        const SECOND_NS: u64 = 1_000_000_000;
        let mut batch = Batch::new(services.buffers);
        if !self.greeting.is_empty() {
            batch.out().append(&mut self.greeting);
            self.greeting = Vec::new();
            services.recorder.skip(batch.len());
        }
        let seconds = services.now.ns_since(self.credited) / SECOND_NS;
        if seconds > 0 {
            self.credited = self.credited.plus_ns(seconds * SECOND_NS);
            self.connection.earn_time(u32::try_from(seconds).unwrap_or(u32::MAX));
        }
        batch
    }

    /// Goes on with requests that have waited, and with input that was kept.
    fn go_on(&mut self, services: &mut Services<'_>) -> Next {
        let mut batch = self.begin(services);
        self.answer_waiting(&mut batch, services);
        if let Some(mut unread) = self.unread.take() {
            let read = self.read(&unread, &mut batch, services);
            if read < unread.len() {
                Rc::make_mut(&mut unread).drain(..read);
                self.unread = Some(unread);
            } else {
                services.buffers.put(unread);
            }
        }
        self.finish(batch, services)
    }

    /// Reads frames until the input, the room for responses or the loop's work budget is used up.
    /// The number of bytes read.
    fn read(&mut self, input: &[u8], batch: &mut Batch, services: &mut Services<'_>) -> usize {
        let mut fields = mem::take(&mut services.scratch.fields);
        let read = self.read_frames(input, &mut fields, batch, services);
        services.scratch.fields = fields;
        read
    }

    #[inline]
    fn read_frames(
        &mut self,
        input: &[u8],
        fields: &mut FieldList,
        batch: &mut Batch,
        services: &mut Services<'_>,
    ) -> usize {
        let mut read = 0;
        loop {
            let before = batch.out().len();
            let progress = self.connection.read(&input[read..], fields, batch.out());
            let written = batch.out().len() - before;
            if written > 0 {
                services.recorder.skip(written as u64);
            }
            let Ok(progress) = progress else {
                self.end(Stage::Over, services);
                return input.len();
            };
            read += progress.consumed;
            match progress.event {
                None => return read,
                Some(Event::Headers { stream, fields, ends }) => {
                    self.on_headers((stream, ends), fields, batch, services);
                    if !services.budget.take_request(batch.is_full()) {
                        return read;
                    }
                }
                Some(Event::Data { stream, bytes, ends }) => {
                    self.on_data((stream, ends), bytes, batch, services);
                }
                Some(Event::Reset { stream, .. }) => self.on_reset(stream, batch, services),
                Some(Event::GoAway { .. }) => self.stage = self.stage.max(Stage::Ending),
                Some(Event::WindowOpened | Event::Settings | Event::Pong(_)) => {}
            }
            if self.stage == Stage::Over {
                return input.len();
            }
        }
    }

    /// A request, or the trailers of one.
    #[inline]
    fn on_headers(
        &mut self,
        (stream, ends): (u32, bool),
        fields: &FieldList,
        batch: &mut Batch,
        services: &mut Services<'_>,
    ) {
        let mut room = HeadFields::new();
        match self.connection.owner(stream) {
            Some(StreamWork::New) => {}
            Some(StreamWork::Reading(_)) if room.trailers(fields).is_ok() => {
                return self.answer_read(stream, batch, services);
            }
            Some(StreamWork::Reading(_)) => return self.reset(stream, ErrorCode::PROTOCOL_ERROR, batch, services),
            // Those of a request that was answered before its end.
            _ => return,
        }
        self.requests = self.requests.saturating_add(1);
        if fields.is_too_large() {
            return self.refuse(stream, 431, batch, services);
        }
        let head = match room.request(fields, ends) {
            Ok(head) => head,
            Err(RequestFault::Host(_)) => return self.refuse(stream, 400, batch, services),
            Err(RequestFault::Malformed(_)) => return self.reset(stream, ErrorCode::PROTOCOL_ERROR, batch, services),
        };
        if is_line_too_long(&head, services) {
            return self.refuse(stream, 414, batch, services);
        }
        if !matches!(head.body, BodyFraming::None)
            && let Some(bytes_max) = services.responder.wanted_content(&head)
        {
            return self.gather_content((stream, bytes_max), &head, fields, batch, services);
        }
        match head.body {
            BodyFraming::None => {}
            BodyFraming::Length(bytes) if bytes > BODY_BYTES_MAX => {}
            // The client sends nothing before there is a tunnel (RFC 9113, 8.5).
            _ if head.method == Method::Connect => {}
            _ if !self.may_read_body(fields) => {}
            body => {
                let length = if let BodyFraming::Length(bytes) = body { Some(bytes) } else { None };
                self.connection.expect_body(stream, length);
                self.reading += 1;
                return self.set_work(stream, StreamWork::Reading(WaitingRequest::new(fields, None)));
            }
        }
        self.answer(stream, &head, None, Some(fields), batch, services);
    }

    /// Begins to gather the content of a request, which is forwarded.
    #[cold]
    fn gather_content(
        &mut self,
        (stream, bytes_max): (u32, usize),
        head: &RequestHead<'_>,
        fields: &FieldList,
        batch: &mut Batch,
        services: &mut Services<'_>,
    ) {
        let length = if let BodyFraming::Length(bytes) = head.body { Some(bytes) } else { None };
        if length.is_some_and(|bytes| bytes > bytes_max as u64) {
            return self.refuse(stream, 413, batch, services);
        }
        if !self.may_read_body(fields) {
            return self.refuse(stream, 503, batch, services);
        }
        let mut waiting = WaitingRequest::new(fields, None);
        waiting.content = services.responder.begin_content(bytes_max);
        self.connection.expect_body(stream, length);
        self.reading += 1;
        self.set_work(stream, StreamWork::Reading(waiting));
    }

    /// Whether a request with these fields may wait until its body has come.
    #[cold]
    fn may_read_body(&mut self, fields: &FieldList) -> bool {
        let kept = self.connection.owners().map(|(_, work)| match work {
            StreamWork::Reading(waiting) => waiting.fields.byte_len(),
            _ => 0,
        });
        self.reading < READING_MAX && kept.sum::<usize>() + fields.byte_len() <= READING_FIELD_BYTES_MAX
    }

    /// Bytes of a request's body, which nobody wants unless they are forwarded.
    fn on_data(&mut self, (stream, ends): (u32, bool), bytes: &[u8], batch: &mut Batch, services: &mut Services<'_>) {
        let before = batch.out().len();
        self.connection.consume(stream, bytes.len() as u32, batch.out());
        services.recorder.skip((batch.out().len() - before) as u64);
        let Some(StreamWork::Reading(waiting)) = self.connection.owner(stream) else { return };
        if let Some(content) = &mut waiting.content {
            return match content.push(bytes) {
                Ok(()) if ends => self.answer_read(stream, batch, services),
                Ok(()) => {}
                Err(status) => {
                    self.reading -= 1;
                    self.refuse(stream, status, batch, services);
                }
            };
        }
        waiting.body_bytes += bytes.len() as u64;
        if ends || waiting.body_bytes > BODY_BYTES_MAX {
            self.answer_read(stream, batch, services);
        }
    }

    /// The stream is dead.
    #[cold]
    fn on_reset(&mut self, stream: u32, batch: &mut Batch, services: &mut Services<'_>) {
        match mem::replace(self.work(stream), StreamWork::Dead) {
            // It is released when its job is done.
            StreamWork::Waiting(waiting) if waiting.job.is_some() && !waiting.is_ready => return,
            StreamWork::Reading(_) => self.reading -= 1,
            StreamWork::Sending(_) => services.recorder.cut(stream),
            _ => {}
        }
        self.release(stream, batch, services);
    }

    /// Resets a stream for a fault of the client's, or of an origin's.
    #[cold]
    pub(super) fn reset(&mut self, stream: u32, code: ErrorCode, batch: &mut Batch, services: &mut Services<'_>) {
        let before = batch.out().len();
        self.connection.reset(stream, code, batch.out());
        services.recorder.skip((batch.out().len() - before) as u64);
        self.on_reset(stream, batch, services);
    }

    #[inline]
    pub(super) fn release(&mut self, stream: u32, batch: &mut Batch, services: &mut Services<'_>) {
        let out = batch.out();
        let before = out.len();
        self.connection.release(stream, out);
        let written = out.len() - before;
        if written > 0 {
            services.recorder.skip(written as u64);
        }
    }

    /// The work on a stream that is open.
    pub(super) fn work(&mut self, stream: u32) -> &mut StreamWork {
        self.connection.owner(stream).expect("a stream is there until it is released")
    }

    pub(super) fn set_work(&mut self, stream: u32, work: StreamWork) {
        *self.work(stream) = work;
    }

    /// Fills the batch, and returns it to be sent, or the event that the session waits for.
    #[inline]
    fn finish(&mut self, mut batch: Batch, services: &mut Services<'_>) -> Next {
        if self.connection.stream_count() > 0 && self.stage != Stage::Over {
            self.put_bodies(&mut batch, services);
            self.note_starvation(&mut batch, services);
        }
        let is_last = services.is_draining || self.requests >= services.bounds.requests_max;
        if is_last && self.stage == Stage::Open {
            self.go_away(Stage::Ending, (ErrorCode::NO_ERROR, ""), &mut batch, services);
        }
        if self.stage == Stage::Ending && self.connection.stream_count() == 0 {
            self.stage = Stage::Over;
        }
        if !batch.is_empty() {
            self.is_sending = true;
            return Next::Send(batch.into_payload());
        }
        batch.discard(services.buffers);
        if self.stage == Stage::Over {
            return if self.ended { Next::Close } else { Next::Linger };
        }
        if self.unread.is_some() {
            return Next::WaitForBudget;
        }
        if self.connection.stream_count() == 0 {
            self.connection.shrink();
        }
        let is_stuck = self.connection.stream_count() == 0 || self.starved.is_some();
        if self.ended && is_stuck { Next::Close } else { Next::Wait }
    }

    /// Announces the end of the connection.
    #[cold]
    pub(super) fn go_away(
        &mut self,
        stage: Stage,
        (code, reason): (ErrorCode, &str),
        batch: &mut Batch,
        services: &mut Services<'_>,
    ) {
        let before = batch.out().len();
        self.connection.go_away(code, reason, batch.out());
        services.recorder.skip((batch.out().len() - before) as u64);
        self.end(stage, services);
    }

    /// Begins the end of the connection. If it is over at once, so are its responses.
    #[cold]
    fn end(&mut self, stage: Stage, services: &mut Services<'_>) {
        self.stage = stage;
        if stage == Stage::Over {
            self.unread = None;
            for (stream, work) in self.connection.owners() {
                if let StreamWork::Sending(_) = work {
                    services.recorder.cut(stream);
                }
            }
        }
    }
}

/// Whether the request line would be too long for HTTP/1, which has two spaces, a version and CRLF
/// in it.
#[inline]
fn is_line_too_long(head: &RequestHead<'_>, services: &Services<'_>) -> bool {
    head.method.name().len() + head.target.len() + 12 > services.bounds.wire.start_line_bytes_max as usize
}
