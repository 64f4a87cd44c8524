//! Requests made ready before the run: the bytes as they go out, so that offering one costs no formatting.

use std::rc::Rc;

use thalweg_wire::encode::{EncodeError, HeadWriter};
use thalweg_wire::{RequestKind, Version};

use crate::plan::Check;

/// A request as it goes out.
#[derive(Clone, Debug)]
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
    // HTTP/1.0 closes unless asked not to, HTTP/1.1 the other way round.
    let (kept, closed) = match text.version {
        Version::Http10 => (Some("keep-alive"), None),
        _ => (None, Some("close")),
    };
    let kind = if text.method == "HEAD" { RequestKind::Head } else { RequestKind::Other };
    Ok(PreparedRequest {
        bytes: encode(text, kept)?,
        last_bytes: encode(text, closed)?,
        body_bytes: text.body.len(),
        kind,
        check: None,
    })
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
    /// What makes a response good where the request does not say.
    check: Check,
}

struct Shared {
    usual: Encoded,
    last: Encoded,
    kind: RequestKind,
    check: Option<Check>,
}

/// A request's bytes.
pub(crate) struct Encoded {
    pub(crate) bytes: Rc<Vec<u8>>,
    pub(crate) body_bytes: usize,
}

impl Requests {
    pub(crate) fn new(prepared: &[PreparedRequest], check: &Check) -> Self {
        let share = |request: &PreparedRequest| {
            let encoded = |bytes: &Vec<u8>| Encoded { bytes: Rc::new(bytes.clone()), body_bytes: request.body_bytes };
            Shared {
                usual: encoded(&request.bytes),
                last: encoded(&request.last_bytes),
                kind: request.kind,
                check: request.check.clone(),
            }
        };
        Self { list: prepared.iter().map(share).collect(), check: check.clone() }
    }

    pub(crate) fn bytes(&self, index: u32, last: bool) -> &Encoded {
        let request = &self.list[index as usize];
        if last { &request.last } else { &request.usual }
    }

    pub(crate) fn kind(&self, index: u32) -> RequestKind {
        self.list[index as usize].kind
    }

    pub(crate) fn check(&self, index: u32) -> &Check {
        self.list[index as usize].check.as_ref().unwrap_or(&self.check)
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
