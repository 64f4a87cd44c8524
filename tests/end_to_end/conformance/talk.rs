//! A client that sends bytes and reads what comes back in the plainest way, with nothing of the
//! server's own code.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use super::case::find;

/// Longer than any server here takes for a response.
const PATIENCE: Duration = Duration::from_secs(30);

/// The wait for the end of a connection before a request checks whether it is still open.
const GLANCE: Duration = Duration::from_millis(200);

/// The request that shows whether a connection is kept.
pub(crate) const PROBE: &str = "GET /probe.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
/// The content of that file.
pub(crate) const PROBE_BODY: &[u8] = b"probe";

/// A response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// As they came.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// A connection, and what came on it.
pub(crate) struct Conversation {
    stream: TcpStream,
    /// All that came.
    pub(crate) received: Vec<u8>,
    /// How much of it belongs to responses that were taken.
    taken: usize,
    ended: bool,
}

impl Response {
    /// The values of a field, one per line.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let lines = self.fields.iter().filter(|(has, _)| has.eq_ignore_ascii_case(name));
        lines.map(|(_, value)| value.as_str()).collect()
    }

    /// The value of a field that is there once.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        match self.all(name)[..] {
            [value] => Some(value),
            _ => None,
        }
    }
}

impl Conversation {
    pub(crate) fn begin(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("a server that listens accepts");
        stream.set_nodelay(true).expect("a socket has no delay");
        Self { stream, received: Vec::new(), taken: 0, ended: false }
    }

    /// A server may close before it has read all, so that a failure is none.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Finishes our direction.
    pub(crate) fn finish(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Takes the next response, which has a body unless its status excludes one or `bodiless` is
    /// set. `None` if the connection has ended before its end.
    pub(crate) fn response(&mut self, bodiless: bool) -> Result<Option<Response>, String> {
        loop {
            if let Some((response, bytes)) = parse(&self.received[self.taken..], bodiless, self.ended)? {
                self.taken += bytes;
                return Ok(Some(response));
            }
            if self.ended {
                return Ok(None);
            }
            if !self.read(PATIENCE) {
                return Err(format!("no whole response within {PATIENCE:?}"));
            }
        }
    }

    /// Finds out whether the connection is still open, and takes what else comes on it. If it has
    /// to be closed, its end is waited for a while: a request on a closed connection can cost what
    /// came before.
    pub(crate) fn end(&mut self, closes: bool) -> Result<(bool, Vec<Response>), String> {
        while closes && !self.ended && self.read(GLANCE) {}
        let probed = !self.ended;
        if probed {
            self.send(PROBE.as_bytes());
        }
        let mut others = Vec::new();
        while let Some(response) = self.response(false)? {
            others.push(response);
        }
        let rest = &self.received[self.taken..];
        if !rest.is_empty() {
            return Err(format!("half a response at the end: {}", rest.escape_ascii()));
        }
        let kept = probed && others.pop_if(|last| last.status == 200 && last.body == PROBE_BODY).is_some();
        Ok((kept, others))
    }

    /// Reads what is there. Whether something came, if only the end.
    fn read(&mut self, patience: Duration) -> bool {
        self.stream.set_read_timeout(Some(patience)).expect("a socket has a timeout");
        let mut part = [0; 65536];
        match self.stream.read(&mut part) {
            Ok(0) => self.ended = true,
            Ok(bytes) => self.received.extend_from_slice(&part[..bytes]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return false,
            // Reset: that is an end too.
            Err(_) => self.ended = true,
        }
        true
    }
}

/// The first response in `bytes`, and its length.
fn parse(bytes: &[u8], bodiless: bool, ended: bool) -> Result<Option<(Response, usize)>, String> {
    let Some(end) = find(bytes, b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| "a head that is no text".to_owned())?;
    let mut lines = head.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let status = status_line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.split(' ').next()?.parse::<u16>().ok());
    let status =
        status.filter(|status| (100..600).contains(status)).ok_or(format!("no status line: {status_line:?}"))?;
    let mut fields = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':').ok_or_else(|| format!("no field: {line:?}"))?;
        if name.is_empty() || name.contains([' ', '\t']) || value.contains(['\r', '\n', '\0']) {
            return Err(format!("no field: {line:?}"));
        }
        fields.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
    }
    let mut response = Response { status, fields, body: Vec::new() };
    let start = end + 4;
    let behind = &bytes[start..];
    let length = if bodiless || status < 200 || matches!(status, 204 | 304) {
        0
    } else if response.field("Transfer-Encoding") == Some("chunked") {
        let Some((body, length)) = unchunk(behind)? else { return Ok(None) };
        response.body = body;
        return Ok(Some((response, start + length)));
    } else if let Some(length) = response.field("Content-Length") {
        length.parse().map_err(|_| format!("a length that is none: {length:?}"))?
    } else if ended {
        behind.len()
    } else {
        return Ok(None);
    };
    let Some(body) = behind.get(..length) else { return Ok(None) };
    response.body = body.to_vec();
    Ok(Some((response, start + length)))
}

fn unchunk(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, String> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let Some(line) = find(&bytes[at..], b"\r\n") else { return Ok(None) };
        let size = String::from_utf8_lossy(&bytes[at..at + line]).into_owned();
        let size = usize::from_str_radix(&size, 16).map_err(|_| format!("not a chunk: {size:?}"))?;
        at += line + 2;
        let Some(chunk) = bytes.get(at..at + size + 2) else { return Ok(None) };
        at += size + 2;
        if size == 0 {
            return Ok(Some((body, at)));
        }
        body.extend_from_slice(&chunk[..size]);
    }
}

/// The parts of a `multipart/byteranges` (RFC 9110, 14.6): the range of each, and what is in it.
pub(crate) fn parts(response: &Response) -> Result<Vec<(String, Vec<u8>)>, String> {
    let media_type = response.field("Content-Type").unwrap_or_default();
    let boundary = media_type.strip_prefix("multipart/byteranges; boundary=").ok_or("not multipart/byteranges")?;
    let boundary = boundary.trim_matches('"');
    if boundary.is_empty() || boundary.len() > 70 {
        return Err(format!("a boundary that is none: {boundary:?}"));
    }
    let mut parts = Vec::new();
    // Bytes before the first delimiter are to be ignored; some servers begin with a line end.
    let first = format!("--{boundary}\r\n");
    let begin = find(&response.body, first.as_bytes()).ok_or("no first delimiter")?;
    let mut rest = &response.body[begin + first.len()..];
    loop {
        let end = find(rest, b"\r\n\r\n").ok_or("a part without a head")?;
        let head = String::from_utf8_lossy(&rest[..end]).to_lowercase();
        let value = |name: &str| {
            head.split("\r\n").find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
        };
        let range = value("content-range:").ok_or("a part without Content-Range")?;
        value("content-type:").ok_or("a part without Content-Type")?;
        rest = &rest[end + 4..];
        let delimiter = format!("\r\n--{boundary}");
        let end = find(rest, delimiter.as_bytes()).ok_or("a part without an end")?;
        parts.push((range.strip_prefix("bytes ").unwrap_or_default().to_owned(), rest[..end].to_vec()));
        rest = &rest[end + delimiter.len()..];
        match rest {
            b"--\r\n" | b"--" => return Ok(parts),
            _ => rest = rest.strip_prefix(b"\r\n").ok_or("what is behind a delimiter?")?,
        }
    }
}
