//! HTTP/1.0 and HTTP/1.1: one response after the other, in the order of the requests.

use std::io::Write as _;
use std::time::Duration;

use thalweg_measure::Outcome;
use thalweg_wire::encode::{FieldBlock, HeadWriter};
use thalweg_wire::{
    Bounds, FieldSlots, MessageBytes, RequestKind, ResponseError, ResponseEvent, ResponseReader, Version,
};

use super::interface::{Encoder, End, Protocol, ProtocolSettings, Responses, Step, StreamId};
use super::violation::Violation;
use crate::request::{RequestError, RequestView, Template, Templates};

/// A connection's HTTP/1: the reader of its responses.
#[derive(Debug)]
pub struct Http1 {
    reader: ResponseReader,
}

impl Protocol for Http1 {
    type Encoder = Http1Encoder;

    const MULTIPLEXED: bool = false;

    fn new(settings: ProtocolSettings) -> Self {
        let bounds = if settings.is_lenient { Bounds::lenient_responses() } else { Bounds::responses() };
        Self { reader: ResponseReader::new(bounds) }
    }

    #[inline]
    fn capacity(&self, pipeline: u32) -> u32 {
        pipeline
    }

    #[inline]
    fn begin(&mut self, _stream: StreamId, kind: RequestKind) {
        self.reader.expect(kind);
    }

    #[inline]
    fn write(
        &mut self,
        _stream: StreamId,
        _encoder: &Http1Encoder,
        out: &mut Vec<u8>,
        encode: impl FnOnce(&mut Vec<u8>) -> usize,
    ) -> usize {
        encode(out)
    }

    #[inline(always)]
    fn read(
        &mut self,
        oldest: Option<StreamId>,
        _encoder: &Http1Encoder,
        input: &[u8],
        responses: &mut impl Responses,
    ) -> Step {
        let mut step = Step { consumed: 0, content_bytes: 0, stream: oldest, end: None };
        let Some(stream) = oldest else { return Step { end: Some(End::Violated { at: 0 }), ..step } };
        loop {
            let mut slots = FieldSlots::new();
            let progress = match self.reader.read(&input[step.consumed..], &mut slots) {
                Ok(progress) => progress,
                Err(error) => {
                    step.end = Some(match outcome_of(error) {
                        Outcome::ProtocolError => End::Violated { at: step.consumed },
                        other => End::Broken(other),
                    });
                    step.consumed = input.len();
                    return step;
                }
            };
            step.consumed += progress.consumed;
            match progress.event {
                None => return step,
                Some(ResponseEvent::Informational(head)) => responses.interim(stream, head.status),
                Some(ResponseEvent::Head(head)) => {
                    responses.head(stream, head.status, head.keep_alive(), || head.fields.iter());
                }
                Some(ResponseEvent::Body(bytes)) => {
                    step.content_bytes += bytes.len() as u64;
                    responses.content(stream, bytes);
                }
                Some(ResponseEvent::End(bytes)) => {
                    step.end = Some(End::Whole(bytes));
                    return step;
                }
            }
        }
    }

    fn finish(&mut self) -> Result<MessageBytes, Outcome> {
        self.reader.finish().map(Option::unwrap_or_default).map_err(outcome_of)
    }

    #[inline]
    fn cancel(&mut self, _stream: StreamId) -> bool {
        false
    }

    #[inline]
    fn has_output(&self) -> bool {
        false
    }

    #[inline]
    fn idle_time(&self) -> Option<Duration> {
        self.reader.idle_seconds().map(|seconds| Duration::from_secs(seconds.into()))
    }

    #[inline]
    fn is_idle(&self) -> bool {
        // The end of the connection is a fault of the reader's already.
        self.reader.idle() || self.reader.fault() == Some(ResponseError::ClosedIdle)
    }

    fn take_violation(&mut self, rest: &[u8]) -> Option<Violation> {
        let fault = self.reader.fault()?;
        Some(Violation::of_response(fault, self.reader.bounds(), [self.reader.head_so_far(), rest]))
    }

    #[inline]
    fn write_output(&mut self, _out: &mut Vec<u8>) -> usize {
        0
    }
}

/// The outcome of a refused or incomplete response. A connection that the server closes without a
/// byte of a response counts as reset: for the request it makes no difference in which way the
/// server hung up.
fn outcome_of(error: ResponseError) -> Outcome {
    match error {
        ResponseError::ClosedIdle => Outcome::Reset,
        ResponseError::TruncatedHead | ResponseError::TruncatedBody { .. } | ResponseError::TruncatedChunks { .. } => {
            Outcome::Truncated
        }
        ResponseError::Head(_)
        | ResponseError::Framing(_)
        | ResponseError::Chunk(_)
        | ResponseError::Unsolicited
        | ResponseError::UnaskedSwitch
        | ResponseError::TooManyInformational => Outcome::ProtocolError,
    }
}

/// Puts requests together from heads that were encoded once per template.
#[derive(Debug)]
pub struct Http1Encoder {
    heads: Vec<Head>,
}

/// The encoded parts of the requests of a template.
#[derive(Debug)]
struct Head {
    /// Before the target: the method.
    start: Vec<u8>,
    /// Behind the target: the version, and the fields of all requests.
    front: Vec<u8>,
    /// Behind the request's own fields, for a call that is followed by others on its connection,
    /// and for the last one.
    usual: Vec<u8>,
    last: Vec<u8>,
    /// A body's length is written, since none is given.
    counts_body: bool,
}

impl Encoder for Http1Encoder {
    fn new(templates: &Templates, _is_tls: bool) -> Self {
        let head = |template| head(templates, template).expect("templates are validated");
        Self { heads: templates.list().iter().map(head).collect() }
    }

    fn write(&self, request: &RequestView<'_>, last: bool, out: &mut Vec<u8>) {
        let head = &self.heads[request.template];
        out.extend_from_slice(&head.start);
        out.extend_from_slice(request.target);
        out.extend_from_slice(&head.front);
        for (name, value) in request.fields {
            for part in [name, b": ", value, b"\r\n"] {
                out.extend_from_slice(part);
            }
        }
        out.extend_from_slice(if last { &head.last } else { &head.usual });
        if !request.body.is_empty() && head.counts_body {
            // Writing to memory cannot fail.
            let _ = write!(out, "Content-Length: {}\r\n", request.body.len());
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(request.body);
    }
}

fn head(templates: &Templates, template: &Template) -> Result<Head, RequestError> {
    let replaces = |field| templates.replaces(template, field);
    let method = template.method();
    let mut front = Vec::new();
    let mut head = HeadWriter::request(&mut front, method, b"/", templates.version())?;
    if !replaces("Host") {
        head.field("Host", templates.authority().as_bytes())?;
    }
    if !replaces("User-Agent") {
        head.field("User-Agent", concat!("thalweg/", env!("CARGO_PKG_VERSION")).as_bytes())?;
    }
    for (name, value) in templates.fields_of(template) {
        head.field(name, value.as_bytes())?;
    }
    head.end();
    // Without the method, the target that stands in for all of them, and the empty line.
    let start = front.drain(..method.len() + 1).collect();
    front.remove(0);
    front.truncate(front.len() - 2);
    let (kept, closed) = connection_options(templates.version());
    let tail = |option: Option<&str>| {
        let mut block = FieldBlock::new();
        if let Some(option) = option.filter(|_| !replaces("Connection")) {
            block.field("Connection", option.as_bytes())?;
        }
        Ok::<_, RequestError>(block.as_bytes().to_vec())
    };
    Ok(Head { start, front, usual: tail(kept)?, last: tail(closed)?, counts_body: !replaces("Content-Length") })
}

/// The values of `Connection` on a call that is followed by others on its connection, and on the
/// last one: the server closes after that, so that its side keeps the closed connection's state
/// (TIME_WAIT) and the client's ports are free again at once. HTTP/1.0 closes unless the client
/// requests otherwise, HTTP/1.1 the other way round.
fn connection_options(version: Version) -> (Option<&'static str>, Option<&'static str>) {
    match version {
        Version::Http10 => (Some("keep-alive"), None),
        _ => (None, Some("close")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{PackedRequests, RequestParts, RequestText, template};

    const AGENT: &str = concat!("User-Agent: thalweg/", env!("CARGO_PKG_VERSION"), "\r\n");

    fn fields(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// A request's bytes, and those as the last call of a connection.
    fn encoded(requests: &PackedRequests, number: u32) -> [Vec<u8>; 2] {
        let encoder = Http1Encoder::new(requests.templates(), false);
        [false, true].map(|last| {
            let mut bytes = Vec::new();
            encoder.write(&requests.get(number).0, last, &mut bytes);
            bytes
        })
    }

    /// The same, written field by field.
    fn written(text: &RequestText<'_>) -> [Vec<u8>; 2] {
        let (kept, closed) = connection_options(text.version);
        [kept, closed].map(|connection| {
            let given = |name: &str| text.fields.iter().any(|(field, _)| field.eq_ignore_ascii_case(name));
            let mut bytes = Vec::new();
            let mut head = HeadWriter::request(&mut bytes, text.method, text.target.as_bytes(), text.version).unwrap();
            if !given("host") {
                head.field("Host", text.authority.as_bytes()).unwrap();
            }
            if !given("user-agent") {
                head.field("User-Agent", concat!("thalweg/", env!("CARGO_PKG_VERSION")).as_bytes()).unwrap();
            }
            for (name, value) in text.fields {
                head.field(name, value.as_bytes()).unwrap();
            }
            if let Some(connection) = connection.filter(|_| !given("connection")) {
                head.field("Connection", connection.as_bytes()).unwrap();
            }
            if !text.body.is_empty() && !given("content-length") {
                head.field_number("Content-Length", text.body.len() as u64).unwrap();
            }
            head.end();
            bytes.extend_from_slice(text.body);
            bytes
        })
    }

    #[test]
    fn requests_are_encoded_as_they_would_be_written_field_by_field() {
        let common: [&[(&str, &str)]; 4] =
            [&[], &[("X", "1")], &[("hOST", "h2"), ("Accept", "*/*")], &[("Connection", "x")]];
        let own: [&[(&str, &str)]; 5] = [
            &[],
            &[("Cookie", "a=b")],
            &[("Host", "h3")],
            &[("content-length", "7"), ("user-agent", "me")],
            &[("connection", "y")],
        ];
        for version in [Version::Http10, Version::Http11] {
            for common in common.map(fields) {
                let mut packed = PackedRequests::new("h:1", version, &common, b"");
                let mut expected = Vec::new();
                for own in own.map(fields) {
                    for (method, target, body) in [
                        ("GET", "/a", &b""[..]),
                        ("HEAD", "/", b""),
                        ("POST", "/b?c", b"content 12"),
                        ("GET", "*", b"x"),
                    ] {
                        packed.push(&RequestParts { method, target, fields: &own, body }, None, None).unwrap();
                        let all = [common.clone(), own.clone()].concat();
                        let text = RequestText { method, authority: "h:1", target, version, fields: &all, body };
                        expected.push(written(&text));
                    }
                }
                let packed = packed.finish(None);
                for (number, expected) in expected.iter().enumerate() {
                    let number = number as u32;
                    assert_eq!(&encoded(&packed, number), expected);
                    let (request, _) = packed.get(number);
                    let kind = packed.templates().list()[request.template].kind();
                    assert_eq!(kind == RequestKind::Head, expected[0].starts_with(b"HEAD "));
                }
            }
        }
    }

    fn check(method: &str, target: &str, fields: &[(&str, &str)], body: &[u8], expected: Result<&str, ()>) {
        check_version(Version::Http11, method, target, fields, body, expected, None);
    }

    fn check_version(
        version: Version,
        method: &str,
        target: &str,
        own: &[(&str, &str)],
        body: &[u8],
        expected: Result<&str, ()>,
        expected_last: Option<&str>,
    ) {
        let own = fields(own);
        let valid = template(&RequestText { method, authority: "host:1", target, version, fields: &own, body });
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(AGENT, "");
        let encoded = valid.map(|template| {
            let list = crate::request::RequestList::from([template]);
            encoded(list.packed(), 0).map(|bytes| text(&bytes))
        });
        assert_eq!(encoded.as_ref().map(|[usual, _]| usual.as_str()).map_err(|_| ()), expected);
        if let Some(last) = expected_last {
            assert_eq!(encoded.unwrap()[1], last);
        }
    }

    #[test]
    fn requests_are_what_was_asked_for() {
        check("GET", "/a?b", &[], b"", Ok("GET /a?b HTTP/1.1\r\nHost: host:1\r\n\r\n"));
        let own = [("host", "x"), ("User-Agent", "y")];
        check("GET", "/", &own, b"", Ok("GET / HTTP/1.1\r\nhost: x\r\nUser-Agent: y\r\n\r\n"));
        check("PUT", "/", &[], b"hi", Ok("PUT / HTTP/1.1\r\nHost: host:1\r\nContent-Length: 2\r\n\r\nhi"));
    }

    #[test]
    fn the_last_call_on_a_connection_says_so() {
        let (usual, last) = (
            "GET / HTTP/1.0\r\nHost: host:1\r\nConnection: keep-alive\r\n\r\n",
            "GET / HTTP/1.0\r\nHost: host:1\r\n\r\n",
        );
        check_version(Version::Http10, "GET", "/", &[], b"", Ok(usual), Some(last));
        let (usual, last) =
            ("GET / HTTP/1.1\r\nHost: host:1\r\n\r\n", "GET / HTTP/1.1\r\nHost: host:1\r\nConnection: close\r\n\r\n");
        check_version(Version::Http11, "GET", "/", &[], b"", Ok(usual), Some(last));
    }

    #[test]
    fn nothing_can_be_smuggled_into_a_request() {
        check("GE T", "/", &[], b"", Err(()));
        check("GET", "/ HTTP/1.1\r\nX: y", &[], b"", Err(()));
        check("GET", "/", &[("X", "a\r\nY: b")], b"", Err(()));
    }
}
