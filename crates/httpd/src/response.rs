//! A response as a handler makes it, and its encoding for the request that it answers.

use std::borrow::Cow;
use std::rc::Rc;

use thalweg_sys::SendBuf;
use thalweg_wire::encode::{EncodeError, FieldBlock, HeadWriter};
use thalweg_wire::{Method, RequestHead, Version};

/// A response: status, fields and body, or a prepared message.
#[derive(Clone, Debug)]
pub struct Response(Content);

#[derive(Clone, Debug)]
enum Content {
    /// Head and body as they are sent.
    Message(SendBuf),
    /// Bytes behind which the connection ends.
    CutShort(SendBuf),
    Reset,
    /// A body of `bytes` bytes, made of one piece again and again.
    Repeated {
        piece: Rc<Vec<u8>>,
        bytes: u64,
    },
    Parts {
        status: u16,
        fields: FieldBlock,
        body: Cow<'static, [u8]>,
    },
}

impl Response {
    /// A response without fields and body.
    ///
    /// # Panics
    /// The status is interim (1xx) or out of range.
    #[must_use]
    pub fn new(status: u16) -> Self {
        assert!((200..=999).contains(&status), "{status} is the status of no final response");
        Self(Content::Parts { status, fields: FieldBlock::new(), body: Cow::Borrowed(&[]) })
    }

    /// A whole message, head and body, that is sent as it is: nothing is encoded or copied per
    /// request. The caller has framed it for every request that it answers.
    #[must_use]
    pub const fn prepared(message: Rc<Vec<u8>>) -> Self {
        Self(Content::Message(SendBuf::Shared(message)))
    }

    /// Bytes that are sent as they are and end the connection, whatever they promise: a fault to
    /// test clients with.
    #[must_use]
    pub const fn cut_short(message: Rc<Vec<u8>>) -> Self {
        Self(Content::CutShort(SendBuf::Shared(message)))
    }

    /// No response: the connection is reset in its place, a fault to test clients with.
    #[must_use]
    pub const fn reset() -> Self {
        Self(Content::Reset)
    }

    /// A body of `bytes` bytes that takes the memory of `piece`, which is sent again and again: for
    /// measuring a path. The time for a response applies to each piece.
    ///
    /// # Panics
    /// The piece is empty or larger than a part of a buffer can be.
    #[must_use]
    pub fn repeated(piece: Rc<Vec<u8>>, bytes: u64) -> Self {
        assert!(!piece.is_empty() && u32::try_from(piece.len()).is_ok(), "a piece of {} bytes", piece.len());
        Self(Content::Repeated { piece, bytes })
    }

    /// Adds a field. The server adds Content-Length and, where it matters, Connection.
    ///
    /// # Panics
    /// The name or the value cannot be a field's, or the message is prepared: a handler makes its
    /// fields of trusted text.
    #[must_use]
    pub fn field(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let Content::Parts { fields, .. } = &mut self.0 else { panic!("a prepared message has its fields") };
        fields.field(name, value.as_ref()).expect("a valid field");
        self
    }

    /// Sets the body, whose bytes are not sent in response to HEAD.
    ///
    /// # Panics
    /// The message is prepared.
    #[must_use]
    pub fn body(mut self, bytes: impl Into<Bytes>) -> Self {
        let Content::Parts { body, .. } = &mut self.0 else { panic!("a prepared message has its body") };
        *body = bytes.into().0;
        self
    }

    /// The response in the form in which it is sent.
    pub(crate) fn encode(self, framing: Framing) -> Outgoing {
        match self.0 {
            Content::Message(message) => Outgoing::Message(message),
            Content::CutShort(message) => Outgoing::Last(message),
            Content::Reset => Outgoing::Reset,
            Content::Repeated { piece, bytes } => {
                let fields = FieldBlock::new();
                let head = encode_head(200, &fields, bytes, 0, framing).expect("200 is a status");
                let left = if framing.is_head { 0 } else { bytes };
                Outgoing::Repeated(SendBuf::Owned(head), Repetition { piece, left })
            }
            Content::Parts { status, fields, body } => {
                let message = encode(status, &fields, &body, framing);
                Outgoing::Message(SendBuf::Owned(message.expect("status and names are valid")))
            }
        }
    }
}

/// A response as it leaves.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Message(SendBuf),
    /// Bytes behind which the connection ends.
    Last(SendBuf),
    Reset,
    /// A head, and the body behind it.
    Repeated(SendBuf, Repetition),
}

/// The rest of a body that is one piece again and again.
#[derive(Debug)]
pub(crate) struct Repetition {
    piece: Rc<Vec<u8>>,
    left: u64,
}

impl Repetition {
    /// The next bytes; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<SendBuf> {
        let bytes = self.left.min(self.piece.len() as u64);
        self.left -= bytes;
        (bytes > 0).then(|| SendBuf::Part { bytes: Rc::clone(&self.piece), start: 0, end: bytes as u32 })
    }
}

/// The properties of a request that the form of its response depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Framing {
    is_http10: bool,
    is_head: bool,
    /// The response ends the connection.
    closes: bool,
}

impl Framing {
    pub(crate) fn of(request: &RequestHead<'_>, closes: bool) -> Self {
        Self { is_http10: request.version == Version::Http10, is_head: request.method == Method::Head, closes }
    }

    /// For bytes that are no request.
    pub(crate) const fn of_no_request() -> Self {
        Self { is_http10: false, is_head: false, closes: true }
    }
}

/// The bytes of a body: text or bytes, constant or made for one response.
#[derive(Clone, Debug)]
pub struct Bytes(Cow<'static, [u8]>);

impl From<&'static str> for Bytes {
    fn from(text: &'static str) -> Self {
        Self(Cow::Borrowed(text.as_bytes()))
    }
}

impl From<&'static [u8]> for Bytes {
    fn from(bytes: &'static [u8]) -> Self {
        Self(Cow::Borrowed(bytes))
    }
}

impl From<String> for Bytes {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text.into_bytes()))
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Cow::Owned(bytes))
    }
}

fn encode(status: u16, fields: &FieldBlock, body: &[u8], framing: Framing) -> Result<Vec<u8>, EncodeError> {
    let mut message = encode_head(status, fields, body.len() as u64, body.len(), framing)?;
    if has_content(status) && !framing.is_head {
        message.extend_from_slice(body);
    }
    Ok(message)
}

/// The head, with room for `room` bytes behind it.
fn encode_head(
    status: u16,
    fields: &FieldBlock,
    body_bytes: u64,
    room: usize,
    framing: Framing,
) -> Result<Vec<u8>, EncodeError> {
    let mut message = Vec::with_capacity(128 + fields.as_bytes().len() + room);
    let mut head = HeadWriter::response(&mut message, Version::Http11, status)?;
    head.block(fields);
    if has_content(status) {
        head.field_number("Content-Length", body_bytes)?;
    }
    if framing.closes {
        head.field("Connection", b"close")?;
    } else if framing.is_http10 {
        head.field("Connection", b"keep-alive")?;
    }
    head.end();
    Ok(message)
}

/// Neither status has content, and a 204 has no Content-Length (RFC 9110, 8.6).
const fn has_content(status: u16) -> bool {
    status != 204 && status != 304
}
