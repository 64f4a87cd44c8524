//! Requests made ready before the run: the bytes as they go out, so that offering one costs no formatting.

use std::rc::Rc;

use thalweg_wire::encode::{EncodeError, HeadWriter};
use thalweg_wire::{RequestKind, Version};

/// A request as it goes out.
#[derive(Clone, Debug)]
pub struct PreparedRequest {
    /// Head and body.
    pub bytes: Vec<u8>,
    /// The same for the last call on a connection: it asks the server to close, so that the server's side keeps the closed
    /// connection's state (TIME_WAIT) and the client's ports are free again at once.
    pub last_bytes: Vec<u8>,
    /// What its response's length depends on.
    pub kind: RequestKind,
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
    let kept = match text.version {
        Version::Http10 => Some("keep-alive"),
        _ => None,
    };
    let kind = if text.method == "HEAD" { RequestKind::Head } else { RequestKind::Other };
    Ok(PreparedRequest { bytes: encode(text, kept)?, last_bytes: encode(text, Some("close"))?, kind })
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

/// The requests as one thread shares them among its connections.
pub(crate) struct Requests {
    list: Vec<Shared>,
}

struct Shared {
    bytes: Rc<Vec<u8>>,
    last_bytes: Rc<Vec<u8>>,
    kind: RequestKind,
}

impl Requests {
    pub(crate) fn new(prepared: &[PreparedRequest]) -> Self {
        let share = |request: &PreparedRequest| Shared {
            bytes: Rc::new(request.bytes.clone()),
            last_bytes: Rc::new(request.last_bytes.clone()),
            kind: request.kind,
        };
        Self { list: prepared.iter().map(share).collect() }
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn bytes(&self, index: usize, last: bool) -> &Rc<Vec<u8>> {
        let request = &self.list[index];
        if last { &request.last_bytes } else { &request.bytes }
    }

    pub(crate) fn kind(&self, index: usize) -> RequestKind {
        self.list[index].kind
    }
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
            "GET / HTTP/1.0\r\nHost: host:1\r\nConnection: close\r\n\r\n",
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
