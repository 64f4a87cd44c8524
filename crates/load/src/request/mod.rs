//! Requests made ready before the run: the bytes as they go out, so that offering one costs no formatting; or, where there are many,
//! what they are put together from when they are sent (`packed`). What a load thread has of them is in `offered`.

use std::sync::Arc;

use thalweg_wire::encode::{EncodeError, HeadWriter};
use thalweg_wire::{RequestKind, Version};

use crate::input::check::Check;

mod offered;
mod packed;

pub(crate) use offered::Requests;
pub use packed::{PackError, PackedRequests, RequestParts};
pub(crate) use packed::{RequestView, Templates};

/// The requests of a plan.
#[derive(Clone, Debug)]
pub enum RequestList {
    /// A few, as they go out.
    Prepared(Arc<[PreparedRequest]>),
    /// Any number.
    Packed(Arc<PackedRequests>),
}

impl RequestList {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Prepared(list) => list.len(),
            Self::Packed(list) => list.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl FromIterator<PreparedRequest> for RequestList {
    fn from_iter<T: IntoIterator<Item = PreparedRequest>>(requests: T) -> Self {
        Self::Prepared(requests.into_iter().collect())
    }
}

impl<const N: usize> From<[PreparedRequest; N]> for RequestList {
    fn from(requests: [PreparedRequest; N]) -> Self {
        Self::Prepared(requests.into())
    }
}

impl From<Vec<PreparedRequest>> for RequestList {
    fn from(requests: Vec<PreparedRequest>) -> Self {
        Self::Prepared(requests.into())
    }
}

impl From<PackedRequests> for RequestList {
    fn from(requests: PackedRequests) -> Self {
        Self::Packed(Arc::new(requests))
    }
}

/// A request as it goes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedRequest {
    /// Head and body.
    pub bytes: Vec<u8>,
    /// The same for the last call on a connection: the server closes after it, so that its side keeps the closed connection's
    /// state (TIME_WAIT) and the client's ports are free again at once.
    pub last_bytes: Vec<u8>,
    /// How many of the bytes are the body, in both forms.
    pub body_bytes: usize,
    /// What its response's length depends on.
    pub kind: RequestKind,
    /// What makes its response good, if not what the plan says.
    pub check: Option<Check>,
}

/// Why a request cannot be made.
pub type RequestError = EncodeError;

/// What a request says, before it is made ready.
#[derive(Clone, Copy, Debug)]
pub struct RequestText<'a> {
    /// The method.
    pub method: &'a str,
    /// Host and port, for the `Host` field.
    pub authority: &'a str,
    /// Path and query, or another form of target.
    pub target: &'a str,
    /// The version to speak.
    pub version: Version,
    /// Further fields. One that is called `Host`, `User-Agent`, `Content-Length` or `Connection` replaces the usual one.
    pub fields: &'a [(String, String)],
    /// The body; empty for none.
    pub body: &'a [u8],
}

/// Makes a request ready.
///
/// # Errors
/// A method, target or field that could not be read back as what was meant, such as one with a line break.
pub fn prepare(text: &RequestText<'_>) -> Result<PreparedRequest, RequestError> {
    let (kept, closed) = connection_options(text.version);
    let kind = if text.method == "HEAD" { RequestKind::Head } else { RequestKind::Other };
    Ok(PreparedRequest {
        bytes: encode(text, kept)?,
        last_bytes: encode(text, closed)?,
        body_bytes: text.body.len(),
        kind,
        check: None,
    })
}

/// What `Connection` says on a call that is followed by others on its connection, and on the last one. HTTP/1.0 closes unless asked not
/// to, HTTP/1.1 the other way round.
fn connection_options(version: Version) -> (Option<&'static str>, Option<&'static str>) {
    match version {
        Version::Http10 => (Some("keep-alive"), None),
        _ => (None, Some("close")),
    }
}

fn encode(text: &RequestText<'_>, connection: Option<&str>) -> Result<Vec<u8>, RequestError> {
    let given = |name: &str| text.fields.iter().any(|(field, _)| field.eq_ignore_ascii_case(name));
    let mut bytes = Vec::new();
    let mut head = HeadWriter::request(&mut bytes, text.method, text.target.as_bytes(), text.version)?;
    if !given("host") {
        head.field("Host", text.authority.as_bytes())?;
    }
    if !given("user-agent") {
        head.field("User-Agent", concat!("thalweg/", env!("CARGO_PKG_VERSION")).as_bytes())?;
    }
    for (name, value) in text.fields {
        head.field(name, value.as_bytes())?;
    }
    if let Some(connection) = connection.filter(|_| !given("connection")) {
        head.field("Connection", connection.as_bytes())?;
    }
    if !text.body.is_empty() && !given("content-length") {
        head.field_number("Content-Length", text.body.len() as u64)?;
    }
    head.end();
    bytes.extend_from_slice(text.body);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGENT: &str = concat!("User-Agent: thalweg/", env!("CARGO_PKG_VERSION"), "\r\n");

    fn check(method: &str, target: &str, fields: &[(&str, &str)], body: &[u8], expected: Result<&str, ()>) {
        check_version(Version::Http11, method, target, fields, body, expected, None);
    }

    fn check_version(
        version: Version,
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
        body: &[u8],
        expected: Result<&str, ()>,
        expected_last: Option<&str>,
    ) {
        let fields: Vec<_> = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let made = prepare(&RequestText { method, authority: "host:1", target, version, fields: &fields, body });
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(AGENT, "");
        assert_eq!(made.as_ref().map(|request| text(&request.bytes)).map_err(|_| ()).as_deref(), expected.as_deref());
        if let Some(last) = expected_last {
            assert_eq!(text(&made.unwrap().last_bytes), last);
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
