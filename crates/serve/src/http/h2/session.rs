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
    Config, Connection, ErrorCode, Event, HEAD_LEN, HeadFields, PAYLOAD_MAX_INITIAL, Priority, Role, Settings,
    WINDOW_INITIAL,
};
use thalweg_wire::hpack::FieldList;
use thalweg_wire::{BodyFraming, RequestHead};

use super::batch::Batch;
use super::body::{Available, BodyRest};
use super::response::ResponseEncoder;
use super::stream::{SendingBody, StreamWork, WaitingRequest};
use crate::content::origin::Outcome;
use crate::http::respond::{Answer, Outcomes};
use crate::http::response::{ResponseBytes, Summary};
use crate::http::services::Services;
use crate::session::{self, Activity, Next, Ready};

/// Streams of a client at once.
const STREAMS_MAX: u32 = 128;

/// The response to a request whose body is longer than this is sent at once.
const BODY_BYTES_MAX: u64 = 64 << 10;

/// A client is held back when it has sent this much ahead of its responses.
const UNREAD_BYTES_MAX: usize = 16 << 10;

/// All of the response to a connection that there is no room for: SETTINGS, and GOAWAY
/// (ENHANCE_YOUR_CALM) behind stream 0, so that a client knows that nothing was processed.
pub(crate) const NO_ROOM: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0b";

/// An HTTP/2 session.
pub(crate) struct Session {
    connection: Connection<StreamWork>,
    stage: Stage,
    /// A batch is being sent.
    is_sending: bool,
    /// The client will send no more.
    ended: bool,
    /// Streams whose requests have a body that is still coming in.
    reading: u32,
    requests: u32,
    /// Our SETTINGS, until they are sent.
    greeting: Vec<u8>,
    /// Input that came while a batch was being sent, and is not read yet.
    unread: Option<Rc<Vec<u8>>>,
    /// When the client was last given credit for the time that had passed.
    credited: Instant,
    /// Since when bodies wait for a window, and bytes of bodies sent since then.
    starved: Option<(Instant, u64)>,
}

/// How far the end of the connection has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Stage {
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
            Ready::Origin => {
                for (_, work) in self.connection.owners() {
                    if let StreamWork::Waiting(waiting) = work
                        && waiting.job.is_none()
                    {
                        waiting.is_ready = true;
                    }
                }
                self.offer_streams();
            }
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
        // Disks that do not respond.
        if self.refuse_waiting(503, &mut batch, services) == 0 {
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
        let config = Config {
            settings: Settings {
                enable_push: false,
                concurrent_streams_max: STREAMS_MAX,
                header_list_max: services.bounds.wire.head_bytes_max,
                no_old_priorities: true,
                ..Settings::INITIAL
            },
            connection_window: WINDOW_INITIAL,
            block_bytes_max: services.bounds.wire.head_bytes_max,
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
                    self.on_data((stream, ends), bytes.len() as u32, batch, services);
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
            Err(_) => return self.reset(stream, ErrorCode::PROTOCOL_ERROR, batch, services),
        };
        match head.body {
            BodyFraming::None => {}
            BodyFraming::Length(bytes) if bytes > BODY_BYTES_MAX => {}
            body => {
                let length = if let BodyFraming::Length(bytes) = body { Some(bytes) } else { None };
                self.connection.expect_body(stream, length);
                self.reading += 1;
                return self.set_work(stream, StreamWork::Reading(WaitingRequest::new(fields, None)));
            }
        }
        self.answer(stream, &head, None, Some(fields), batch, services);
    }

    /// Bytes of a request's body, which nobody wants.
    fn on_data(&mut self, (stream, ends): (u32, bool), bytes: u32, batch: &mut Batch, services: &mut Services<'_>) {
        let before = batch.out().len();
        self.connection.consume(stream, bytes, batch.out());
        services.recorder.skip((batch.out().len() - before) as u64);
        let Some(StreamWork::Reading(waiting)) = self.connection.owner(stream) else { return };
        waiting.body_bytes += u64::from(bytes);
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
    fn reset(&mut self, stream: u32, code: ErrorCode, batch: &mut Batch, services: &mut Services<'_>) {
        let before = batch.out().len();
        self.connection.reset(stream, code, batch.out());
        services.recorder.skip((batch.out().len() - before) as u64);
        self.on_reset(stream, batch, services);
    }

    #[inline]
    fn release(&mut self, stream: u32, batch: &mut Batch, services: &mut Services<'_>) {
        let out = batch.out();
        let before = out.len();
        self.connection.release(stream, out);
        let written = out.len() - before;
        if written > 0 {
            services.recorder.skip(written as u64);
        }
    }

    /// The work on a stream that is open.
    fn work(&mut self, stream: u32) -> &mut StreamWork {
        self.connection.owner(stream).expect("a stream is there until it is released")
    }

    fn set_work(&mut self, stream: u32, work: StreamWork) {
        *self.work(stream) = work;
    }

    /// Answers a request whose body has come in.
    #[cold]
    fn answer_read(&mut self, stream: u32, batch: &mut Batch, services: &mut Services<'_>) {
        if let StreamWork::Reading(waiting) = mem::take(self.work(stream)) {
            self.reading -= 1;
            self.answer_kept_request(stream, waiting, batch, services);
        }
    }

    /// Answers the requests whose jobs are done.
    fn answer_waiting(&mut self, batch: &mut Batch, services: &mut Services<'_>) {
        if self.connection.stream_count() == 0 {
            return;
        }
        let is_ready = |work: &StreamWork| matches!(work, StreamWork::Waiting(waiting) if waiting.is_ready);
        while !batch.is_full() {
            let next = self.connection.owners().find(|(_, work)| is_ready(work)).map(|(stream, _)| stream);
            let Some(stream) = next else { return };
            if let StreamWork::Waiting(waiting) = mem::take(self.work(stream)) {
                self.answer_kept_request(stream, waiting, batch, services);
            }
        }
    }

    #[cold]
    fn answer_kept_request(
        &mut self,
        stream: u32,
        waiting: Box<WaitingRequest>,
        batch: &mut Batch,
        services: &mut Services<'_>,
    ) {
        let fields = waiting.fields.clone();
        let mut room = HeadFields::new();
        let head = room.request(&fields, false).expect("a head that was read is read again");
        self.answer(stream, &head, Some(waiting), None, batch, services);
    }

    /// Answers a request, or has it wait: one that has `waited`, or one of these fields.
    #[inline]
    fn answer(
        &mut self,
        stream: u32,
        head: &RequestHead<'_>,
        waited: Option<Box<WaitingRequest>>,
        fields: Option<&FieldList>,
        batch: &mut Batch,
        services: &mut Services<'_>,
    ) {
        let outcomes = waited.as_ref().map_or(Outcomes::default(), |waiting| waiting.outcomes);
        let waiter = services.waiter(stream);
        let Services { responder, blocking, scratch, socket, now, .. } = services;
        let mut encoder = ResponseEncoder::new(&mut self.connection, stream, batch, scratch);
        let job = match responder.respond(head, outcomes, (*socket, *now), &mut encoder) {
            Answer::Encoded(summary) => {
                let sent = encoder.into_parts();
                return self.sent_head(sent, head, summary, batch, services);
            }
            Answer::Pending => None,
            Answer::After(_) if blocking.is_overloaded() => {
                let summary = responder.shed(head, &mut encoder);
                let sent = encoder.into_parts();
                return self.sent_head(sent, head, summary, batch, services);
            }
            Answer::After(job) => {
                let kind = job.kind();
                blocking.submit(waiter, *job);
                Some(kind)
            }
        };
        let mut waiting = match (waited, fields) {
            (Some(waiting), _) => waiting,
            (None, fields) => WaitingRequest::new(fields.unwrap_or(&FieldList::default()), job),
        };
        (waiting.job, waiting.is_ready) = (job, false);
        self.set_work(stream, StreamWork::Waiting(waiting));
    }

    /// The head of a response is in the batch, and perhaps its body.
    #[inline]
    fn sent_head(
        &mut self,
        (stream, rest, bytes): (u32, Option<BodyRest>, ResponseBytes),
        head: &RequestHead<'_>,
        summary: Summary,
        batch: &mut Batch,
        services: &mut Services<'_>,
    ) {
        services.recorder.record(stream, Some(head), summary, &|| bytes);
        match rest {
            None => self.release(stream, batch, services),
            Some(rest) => {
                if let Some(priority) = head.header("priority") {
                    self.connection.set_priority(stream, Priority::read(priority));
                }
                self.set_work(stream, StreamWork::Sending(Box::new(SendingBody { rest, mount: summary.mount })));
                self.connection.set_wants_to_send(stream, true);
            }
        }
    }

    /// Answers a request that is not understood, or not any longer waited for.
    #[cold]
    fn refuse(&mut self, stream: u32, status: u16, batch: &mut Batch, services: &mut Services<'_>) {
        let mut encoder = ResponseEncoder::new(&mut self.connection, stream, batch, services.scratch);
        let summary = services.responder.refuse(status, &mut encoder);
        let (_, rest, bytes) = encoder.into_parts();
        services.recorder.record(stream, None, summary, &|| bytes);
        match rest {
            None => self.release(stream, batch, services),
            Some(rest) => {
                self.set_work(stream, StreamWork::Sending(Box::new(SendingBody { rest, mount: summary.mount })));
                self.connection.set_wants_to_send(stream, true);
            }
        }
    }

    /// Answers all requests that wait for a job with this status. Returns how many.
    fn refuse_waiting(&mut self, status: u16, batch: &mut Batch, services: &mut Services<'_>) -> usize {
        let waiting = self.connection.owners().filter(|(_, work)| matches!(work, StreamWork::Waiting(_)));
        let waiting: Vec<u32> = waiting.map(|(stream, _)| stream).collect();
        for &stream in &waiting {
            self.refuse(stream, status, batch, services);
        }
        waiting.len()
    }

    /// Notes that the job of a request is done.
    fn note_ready(&mut self, stream: u32, outcome: Outcome, services: &mut Services<'_>) {
        match self.connection.owner(stream) {
            Some(StreamWork::Waiting(waiting)) => {
                if let Some(kind) = waiting.job {
                    waiting.outcomes.add(kind, outcome);
                }
                waiting.is_ready = true;
            }
            Some(StreamWork::Dead) => {
                // A stream that was reset has nothing to say at its release.
                self.connection.release(stream, &mut services.scratch.block);
            }
            _ => {}
        }
    }

    /// Lets the bodies send for which bytes may have come.
    fn offer_streams(&mut self) {
        let is_stream = |work: &StreamWork| matches!(work, StreamWork::Sending(sending) if sending.rest.is_stream());
        let streams = self.connection.owners().filter(|(_, work)| is_stream(work)).map(|(stream, _)| stream);
        for stream in streams.collect::<Vec<_>>() {
            self.connection.set_wants_to_send(stream, true);
        }
    }

    /// Puts DATA frames of the bodies under way behind the rest, by priority and in turn.
    fn put_bodies(&mut self, batch: &mut Batch, services: &mut Services<'_>) {
        while !batch.is_full() {
            let Some(stream) = self.connection.next_sender() else { return };
            let StreamWork::Sending(mut sending) = mem::take(self.work(stream)) else { return };
            // A payload counts for the rate of one mount.
            if batch.mount.is_some_and(|mount| mount != sending.mount) {
                return self.set_work(stream, StreamWork::Sending(sending));
            }
            match sending.rest.available(services.socket) {
                Available::Bytes { bytes, is_last } => {
                    batch.mount = Some(sending.mount);
                    let window = u64::from(self.connection.sendable(stream).min(PAYLOAD_MAX_INITIAL));
                    let sent = bytes.min(window);
                    let ends = is_last && sent == bytes;
                    let head = self.connection.data(stream, sent as u32, ends);
                    batch.out().extend_from_slice(&head);
                    sending.rest.put(sent, batch);
                    services.recorder.extend(stream, HEAD_LEN as u64 + sent, sent, ends);
                    if let Some((_, progress)) = &mut self.starved {
                        *progress += sent;
                    }
                    self.set_work(stream, StreamWork::Sending(sending));
                    if ends {
                        self.release(stream, batch, services);
                    }
                }
                Available::Pending => {
                    self.connection.set_wants_to_send(stream, false);
                    self.set_work(stream, StreamWork::Sending(sending));
                }
                Available::Failed => {
                    self.set_work(stream, StreamWork::Sending(sending));
                    self.reset(stream, ErrorCode::INTERNAL_ERROR, batch, services);
                }
            }
        }
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

    /// Notes whether bodies wait for a window. A client that opens its windows so slowly that it
    /// takes less than the least rate for as long as it may stall is disconnected.
    fn note_starvation(&mut self, batch: &mut Batch, services: &mut Services<'_>) {
        let is_starved = self.connection.is_starved();
        match self.starved {
            _ if !is_starved => self.starved = None,
            None => self.starved = Some((services.now, 0)),
            Some((since, bytes)) => {
                let elapsed_ns = services.now.ns_since(since);
                if bytes.saturating_mul(services.bounds.ns_per_byte) >= elapsed_ns {
                    self.starved = Some((services.now, 0));
                } else if elapsed_ns >= services.bounds.stall_ns {
                    let reason = (ErrorCode::ENHANCE_YOUR_CALM, "windows open too slowly");
                    self.go_away(Stage::Over, reason, batch, services);
                }
            }
        }
    }

    /// Announces the end of the connection.
    #[cold]
    fn go_away(
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
