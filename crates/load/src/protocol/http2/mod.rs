//! HTTP/2 (RFC 9113): many calls at once on a connection, each on a stream of its own.
//!
//! Frames, flow control and header compression are `wire`'s. Owned here: the calls that streams
//! belong to, bodies of requests that wait for a window, and the end of streams that the server
//! has refused. The server is trusted with large windows, so that it is what is measured.

mod encoder;
mod heads;
mod tally;

use thalweg_measure::Outcome;
use thalweg_measure::trial::{RuleOf, TrialFigures};
use thalweg_wire::h2::{Config, Connection, ErrorCode, Event, HeadFields, Role, Settings};
use thalweg_wire::hpack::{FieldList, ListBounds};
use thalweg_wire::{BodyFraming, FIELDS_MAX, MessageBytes, Progress, RequestKind, ResponseHead};

use self::encoder::Form;
use self::heads::Heads;
use self::tally::Tally;
use super::interface::{End, Protocol, ProtocolSettings, Responses, Step, StreamId};
use super::violation::Violation;

pub use self::encoder::Http2Encoder;

/// Streams on a connection whose server has not said yet how many it takes. A request that waits
/// for the connection may leave with the preface (RFC 9113, 3.4); some servers end the connection
/// for more streams than they will allow.
const STREAMS_UNTIL_SETTINGS: u32 = 1;

/// Bounds of a response's header block.
const HEAD_BOUNDS: ListBounds = ListBounds { charge_max: 64 << 10, fields_max: FIELDS_MAX };

/// The causes of protocol errors that `wire` does not name.
const NOT_HTTP2: &str = "no HTTP/2: the server's first bytes are no SETTINGS frame";
const UNFIT_HEAD: &str =
    "a head that cannot stand there: 101, an interim one at the end, or content-length without content";

/// A connection's HTTP/2. It begins with its first use, since not every connection is made.
#[derive(Debug)]
pub struct Http2 {
    receive_window: u32,
    live: Option<Box<Live>>,
}

#[derive(Debug)]
struct Live {
    connection: Connection<Owner>,
    heads: Heads,
    /// Frames that the protocol calls for.
    output: Vec<u8>,
    /// Bodies of requests that wait for a window.
    bodies: Vec<Body>,
    /// Calls that have ended without a frame on their stream.
    ended: Vec<(StreamId, Outcome)>,
    /// Bytes that were read since the latest event, and belong to the next one.
    read_ahead: u64,
    has_settings: bool,
    /// The server has named or raised its limit on streams.
    limits_noted: bool,
    /// The violation that was found last.
    violation: Option<Box<Violation>>,
    tally: Tally,
}

/// The call that a stream carries.
#[derive(Debug, Default)]
struct Owner {
    call: Option<StreamId>,
    of_head: bool,
    has_head: bool,
    bytes: MessageBytes,
}

/// The rest of a request's body.
#[derive(Debug)]
struct Body {
    stream: u32,
    bytes: Vec<u8>,
    sent: usize,
}

impl Protocol for Http2 {
    type Encoder = Http2Encoder;

    const MULTIPLEXED: bool = true;

    fn new(settings: ProtocolSettings) -> Self {
        Self { receive_window: settings.receive_window, live: None }
    }

    #[inline]
    fn capacity(&self, pipeline: u32) -> u32 {
        let Some(live) = &self.live else { return STREAMS_UNTIL_SETTINGS };
        if live.connection.is_ending() {
            return 0;
        }
        let allowed = if live.has_settings { live.connection.streams_max() as u32 } else { STREAMS_UNTIL_SETTINGS };
        pipeline.min(allowed)
    }

    #[inline]
    fn begin(&mut self, _stream: StreamId, _kind: RequestKind) {}

    fn write(
        &mut self,
        stream: StreamId,
        encoder: &Http2Encoder,
        out: &mut Vec<u8>,
        encode: impl FnOnce(&mut Vec<u8>) -> usize,
    ) -> usize {
        let live = self.live();
        let (mut form, mut block) = encoder.take_scratch();
        encode(&mut form);
        let body_bytes = live.write(stream, encoder, &form, &mut block, out);
        encoder.return_scratch((form, block));
        body_bytes
    }

    #[inline]
    fn read(
        &mut self,
        _oldest: Option<StreamId>,
        encoder: &Http2Encoder,
        input: &[u8],
        responses: &mut impl Responses,
    ) -> Step {
        encoder.with_list(|list| self.live().read(input, list, responses))
    }

    fn finish(&mut self) -> Result<MessageBytes, Outcome> {
        let is_between = self.live.as_ref().is_none_or(|live| live.connection.is_between_frames());
        Err(if is_between { Outcome::Reset } else { Outcome::Truncated })
    }

    fn cancel(&mut self, stream: StreamId) -> bool {
        if let Some(live) = &mut self.live {
            let found = live.connection.owners().find(|(_, owner)| owner.call == Some(stream));
            if let Some((id, _)) = found {
                live.give_up(id, ErrorCode::CANCEL);
            }
            live.ended.retain(|(ended, _)| *ended != stream);
        }
        true
    }

    #[inline]
    fn has_output(&self) -> bool {
        self.live.as_ref().is_none_or(|live| !live.output.is_empty() || live.can_send_body())
    }

    fn write_output(&mut self, out: &mut Vec<u8>) -> usize {
        let live = self.live();
        out.append(&mut live.output);
        if live.bodies.is_empty() { 0 } else { live.send_bodies(out) }
    }

    #[inline]
    fn has_ended_calls(&self) -> bool {
        self.live.as_ref().is_some_and(|live| !live.ended.is_empty())
    }

    #[inline]
    fn is_ending(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.connection.is_ending())
    }

    #[inline]
    fn awaits_limits(&self) -> bool {
        self.live.as_ref().is_none_or(|live| !live.has_settings)
    }

    #[inline]
    fn takes_note_of_limits(&mut self) -> bool {
        self.live.as_mut().is_some_and(|live| std::mem::take(&mut live.limits_noted))
    }

    fn take_violation(&mut self, _rest: &[u8]) -> Option<Violation> {
        self.live.as_mut()?.violation.take().map(|violation| *violation)
    }

    fn record(&self, figures: &mut TrialFigures) {
        if let Some(live) = &self.live {
            live.tally.add_to(figures.streams.get_or_insert_default());
        }
    }
}

impl Http2 {
    #[inline]
    fn live(&mut self) -> &mut Live {
        self.live.get_or_insert_with(|| Box::new(Live::new(self.receive_window)))
    }
}

impl Live {
    fn new(receive_window: u32) -> Self {
        let settings = Settings {
            enable_push: false,
            initial_window: receive_window,
            no_old_priorities: true,
            header_list_max: HEAD_BOUNDS.list_size_max(),
            ..Settings::INITIAL
        };
        let config = Config { settings, connection_window: receive_window, list: HEAD_BOUNDS };
        let mut output = Vec::new();
        Self {
            connection: Connection::new(Role::Client, config, &mut output),
            heads: Heads::default(),
            output,
            bodies: Vec::new(),
            ended: Vec::new(),
            read_ahead: 0,
            has_settings: false,
            limits_noted: false,
            violation: None,
            tally: Tally::default(),
        }
    }

    /// Appends a request. Returns the bytes of its body that the windows allow now.
    fn write(
        &mut self,
        call: StreamId,
        encoder: &Http2Encoder,
        form: &[u8],
        block: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> usize {
        let form = Form::read(form);
        let head = encoder.head(form.template);
        let owner = Owner { call: Some(call), of_head: head.kind == RequestKind::Head, ..Owner::default() };
        let Some(stream) = self.connection.open(owner) else {
            // The server has lowered its limit, or does not take any more, since the call began.
            self.ended.push((call, Outcome::NotProcessed));
            return 0;
        };
        self.tally.record_open(self.connection.stream_count() as u32);
        self.heads.write(form.template, head, form.block, block);
        self.connection.headers(stream, block, form.body.is_empty(), out);
        let sent = self.send_body(stream, form.body, out);
        if sent < form.body.len() {
            self.bodies.push(Body { stream, bytes: form.body[sent..].to_vec(), sent: 0 });
        }
        sent
    }

    /// Appends as much of a body as the windows allow. Returns how much that is.
    fn send_body(&mut self, stream: u32, body: &[u8], out: &mut Vec<u8>) -> usize {
        let mut sent = 0;
        while sent < body.len() {
            let len = (self.connection.sendable(stream) as usize).min(body.len() - sent);
            if len == 0 {
                break;
            }
            let ends = sent + len == body.len();
            out.extend_from_slice(&self.connection.data(stream, len as u32, ends));
            out.extend_from_slice(&body[sent..sent + len]);
            sent += len;
        }
        sent
    }

    fn can_send_body(&self) -> bool {
        self.bodies.iter().any(|body| self.connection.sendable(body.stream) > 0)
    }

    fn send_bodies(&mut self, out: &mut Vec<u8>) -> usize {
        let mut total = 0;
        let mut bodies = std::mem::take(&mut self.bodies);
        bodies.retain_mut(|body| {
            let sent = self.send_body(body.stream, &body.bytes[body.sent..], out);
            body.sent += sent;
            total += sent;
            body.sent < body.bytes.len()
        });
        self.bodies = bodies;
        total
    }

    fn read(&mut self, input: &[u8], list: &mut FieldList, responses: &mut impl Responses) -> Step {
        let nothing = Step { consumed: 0, content_bytes: 0, stream: None, end: None };
        if let Some((call, outcome)) = self.ended.pop() {
            return Step { stream: Some(call), end: Some(End::Reset(outcome)), ..nothing };
        }
        let Progress { consumed, event } = match self.connection.read(input, list, &mut self.output) {
            Ok(progress) => progress,
            Err(fault) => {
                let is_first = self.violation.is_none() && !self.connection.has_begun();
                let cause = if is_first { NOT_HTTP2.to_owned() } else { fault.to_string() };
                self.note_violation(cause, RuleOf::Protocol, input);
                return Step { consumed: input.len(), end: Some(End::Violated { at: 0 }), ..nothing };
            }
        };
        let nothing = Step { consumed, ..nothing };
        let bytes = self.read_ahead + consumed as u64;
        self.read_ahead = if event.is_none() { bytes } else { 0 };
        match event {
            Some(Event::Headers { stream, fields, ends }) => {
                let (stream, end) = self.on_headers(stream, fields, ends, bytes, responses);
                Step { stream, end, ..nothing }
            }
            Some(Event::Data { stream, bytes: content, ends }) => {
                let content_bytes = content.len() as u64;
                let (stream, end) = self.on_data(stream, content, ends, bytes, responses);
                Step { content_bytes: if stream.is_some() { content_bytes } else { 0 }, stream, end, ..nothing }
            }
            Some(Event::Reset { stream, code, fault }) => {
                let call = self.connection.owner(stream).and_then(|owner| owner.call);
                if let Some(fault) = fault {
                    self.note_violation(fault.to_string(), RuleOf::Protocol, b"");
                }
                let outcome = self.on_reset(code, fault.is_some());
                self.forget(stream);
                Step { stream: call, end: call.map(|_| End::Reset(outcome)), ..nothing }
            }
            Some(Event::GoAway { last_stream, code }) => {
                self.tally.record_goaway(code, last_stream);
                self.refuse_above(last_stream);
                let is_over = self.connection.stream_count() == 0 && self.ended.is_empty();
                Step { end: is_over.then_some(End::Broken(Outcome::Reset)), ..nothing }
            }
            Some(Event::Settings) => {
                // Raised or not: what waits looks again.
                (self.has_settings, self.limits_noted) = (true, true);
                self.heads.limit(self.connection.remote().header_table_size as usize);
                nothing
            }
            Some(Event::WindowOpened | Event::Pong(_)) | None => nothing,
        }
    }

    fn on_headers(
        &mut self,
        stream: u32,
        fields: &FieldList,
        ends: bool,
        bytes: u64,
        responses: &mut impl Responses,
    ) -> (Option<StreamId>, Option<End>) {
        let Some(owner) = self.connection.owner(stream) else { return (None, None) };
        let Some(call) = owner.call else { return (None, None) };
        let is_trailers = owner.has_head;
        if is_trailers {
            owner.bytes.framing += bytes;
        } else {
            owner.bytes.header += bytes;
        }
        let mut room = HeadFields::new();
        let valid = if fields.is_too_large() {
            let ListBounds { charge_max, fields_max } = HEAD_BOUNDS;
            Err((format!("a head of more than {} KiB or {fields_max} fields", charge_max >> 10), RuleOf::Client))
        } else if is_trailers {
            room.trailers(fields).map(|_| ()).map_err(|fault| (fault.to_string(), RuleOf::Protocol))
        } else {
            match room.response(fields, ends) {
                Ok(head) if self.on_head(stream, call, &head, ends, responses) => Ok(()),
                Ok(_) => Err((UNFIT_HEAD.to_owned(), RuleOf::Protocol)),
                Err(fault) => Err((fault.to_string(), RuleOf::Protocol)),
            }
        };
        if let Err((cause, rule)) = valid {
            let begin: Vec<u8> = fields.iter().flat_map(|(name, value)| [name, b": ", value, b"\n"].concat()).collect();
            self.note_violation(cause, rule, &begin);
            self.give_up(stream, ErrorCode::PROTOCOL_ERROR);
            return (Some(call), Some(End::Reset(Outcome::ProtocolError)));
        }
        (Some(call), ends.then(|| self.end(stream)))
    }

    /// Takes the head of a response, interim or final. Returns whether it may come so.
    fn on_head(
        &mut self,
        stream: u32,
        call: StreamId,
        head: &ResponseHead<'_>,
        ends: bool,
        responses: &mut impl Responses,
    ) -> bool {
        if head.status < 200 {
            responses.interim(call, head.status);
            // There is no 101 in HTTP/2 (RFC 9113, 8.6), and the final head is still to come.
            return !ends && head.status != 101;
        }
        let Some(owner) = self.connection.owner(stream) else { return false };
        owner.has_head = true;
        let has_no_body = owner.of_head || matches!(head.status, 204 | 304);
        let length = match head.body {
            BodyFraming::Length(length) if !has_no_body => Some(length),
            _ if has_no_body => Some(0),
            _ => None,
        };
        self.connection.expect_body(stream, length);
        responses.head(call, head.status, true, || head.fields.iter());
        let announces_body = || head.fields.get("content-length").is_some_and(|length| length != b"0");
        !(ends && !has_no_body && announces_body())
    }

    fn on_data(
        &mut self,
        stream: u32,
        content: &[u8],
        ends: bool,
        bytes: u64,
        responses: &mut impl Responses,
    ) -> (Option<StreamId>, Option<End>) {
        let len = content.len() as u32;
        self.connection.consume(stream, len, &mut self.output);
        let Some(owner) = self.connection.owner(stream) else { return (None, None) };
        let Some(call) = owner.call else { return (None, None) };
        if !owner.has_head {
            self.note_violation("DATA before the head of the response".to_owned(), RuleOf::Protocol, content);
            self.give_up(stream, ErrorCode::PROTOCOL_ERROR);
            return (Some(call), Some(End::Reset(Outcome::ProtocolError)));
        }
        owner.bytes.body += u64::from(len);
        owner.bytes.framing += bytes.saturating_sub(u64::from(len));
        responses.content(call, content);
        (Some(call), ends.then(|| self.end(stream)))
    }

    /// Counts a stream that was reset, for a fault that was found here or by the server. Returns
    /// the outcome of its request.
    fn on_reset(&mut self, code: ErrorCode, is_fault_of_server: bool) -> Outcome {
        if is_fault_of_server {
            return Outcome::ProtocolError;
        }
        self.tally.record_reset(code);
        if code != ErrorCode::REFUSED_STREAM {
            return Outcome::Reset;
        }
        self.tally.record_refusal();
        Outcome::NotProcessed
    }

    /// Ends a stream whose response is whole.
    fn end(&mut self, stream: u32) -> End {
        let bytes = self.connection.owner(stream).map(|owner| owner.bytes).unwrap_or_default();
        self.forget(stream);
        End::Whole(bytes)
    }

    #[cold]
    fn note_violation(&mut self, cause: String, rule: RuleOf, bytes: &[u8]) {
        self.violation = Some(Box::new(Violation::new(cause, rule, [bytes, b""])));
    }

    /// Resets a stream.
    fn give_up(&mut self, stream: u32, code: ErrorCode) {
        self.connection.reset(stream, code, &mut self.output);
        self.forget(stream);
    }

    fn forget(&mut self, stream: u32) {
        self.connection.release(stream, &mut self.output);
        if !self.bodies.is_empty() {
            self.bodies.retain(|body| body.stream != stream);
        }
    }

    /// Ends the calls on streams that the server has not processed (RFC 9113, 6.8).
    fn refuse_above(&mut self, last_stream: u32) {
        let above = self.connection.owners().filter(|(stream, _)| *stream > last_stream);
        for call in above.filter_map(|(_, owner)| owner.call.take()) {
            self.tally.record_refusal();
            self.ended.push((call, Outcome::NotProcessed));
        }
    }
}
