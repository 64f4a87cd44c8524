//! The responses of a yardstick, encoded once.

use std::rc::Rc;

use thalweg_httpd::Response;
use thalweg_wire::encode::HeadWriter;
use thalweg_wire::{Method, RequestHead, Version};

use crate::faults::Fault;

/// The byte that bodies consist of.
const BODY_BYTE: u8 = b'x';
/// The byte that stands in the middle of a wrong body.
const WRONG_BYTE: u8 = b'?';

/// The form in which a request is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// As usual, with a message that is encoded already.
    Prepared,
    /// With a message of its own: to HEAD, to HTTP/1.0, and before the end of a connection.
    Encoded,
}

impl Form {
    pub(super) fn of(request: &RequestHead<'_>) -> Self {
        let is_usual = request.method != Method::Head && request.version == Version::Http11 && request.keep_alive();
        if is_usual { Self::Prepared } else { Self::Encoded }
    }
}

/// The responses.
#[derive(Debug)]
pub(super) struct Messages {
    good: Message,
    wrong_body: Message,
    error: Message,
    refusal: Message,
    truncated: Rc<Vec<u8>>,
}

impl Messages {
    pub(super) fn new(body_bytes: usize, retry_after_s: Option<u64>) -> Self {
        let body = vec![BODY_BYTE; body_bytes];
        let mut wrong = body.clone();
        if let Some(middle) = wrong.get_mut(body_bytes / 2) {
            *middle = WRONG_BYTE;
        }
        let good = Message::new(200, None, body);
        let head_bytes = good.bytes.len() - body_bytes;
        let truncated = Rc::new(good.bytes[..head_bytes + body_bytes / 2].to_vec());
        Self {
            truncated,
            good,
            wrong_body: Message::new(200, None, wrong),
            error: Message::new(500, None, b"the yardstick fails here on purpose\n".to_vec()),
            refusal: Message::new(503, retry_after_s, b"the yardstick's queue is full\n".to_vec()),
        }
    }

    /// The response to a request that was served.
    pub(super) fn served(&self, fault: Option<Fault>, form: Form) -> Response {
        match fault {
            None => self.good.response(form),
            Some(Fault::WrongBody) => self.wrong_body.response(form),
            Some(Fault::Error) => self.error.response(form),
            Some(Fault::Truncated) => Response::cut_short(Rc::clone(&self.truncated)),
            Some(Fault::Reset) => Response::reset(),
        }
    }

    /// The response to a request for which the queue has no room.
    pub(super) fn refusal(&self, form: Form) -> Response {
        self.refusal.response(form)
    }
}

/// One response in both forms.
#[derive(Debug)]
struct Message {
    status: u16,
    retry_after_s: Option<u64>,
    body: Vec<u8>,
    bytes: Rc<Vec<u8>>,
}

const SERVER: &str = "thalweg-yardstick";
const CONTENT_TYPE: &str = "text/plain";

impl Message {
    fn new(status: u16, retry_after_s: Option<u64>, body: Vec<u8>) -> Self {
        let mut bytes = Vec::new();
        let mut head = HeadWriter::response(&mut bytes, Version::Http11, status).expect("a final status");
        head.field("Server", SERVER.as_bytes()).expect("a valid field");
        head.field("Content-Type", CONTENT_TYPE.as_bytes()).expect("a valid field");
        if let Some(seconds) = retry_after_s {
            head.field_number("Retry-After", seconds).expect("a valid field");
        }
        head.field_number("Content-Length", body.len() as u64).expect("a valid field");
        head.end();
        bytes.extend_from_slice(&body);
        Self { status, retry_after_s, body, bytes: Rc::new(bytes) }
    }

    fn response(&self, form: Form) -> Response {
        if form == Form::Prepared {
            return Response::prepared(Rc::clone(&self.bytes));
        }
        let response = Response::new(self.status).field("Server", SERVER).field("Content-Type", CONTENT_TYPE);
        let response = match self.retry_after_s {
            Some(seconds) => response.field("Retry-After", seconds.to_string()),
            None => response,
        };
        response.body(self.body.clone())
    }
}
