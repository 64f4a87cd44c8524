//! Reads responses in the plainest way, on its own: a mistake in `wire` must not be able to vouch
//! for itself.

/// A response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) status_line: String,
    /// Names in small letters.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// The value of the only field of that name.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name));
        let first = values.next();
        assert!(values.next().is_none(), "{name} is repeated in {self:?}");
        first.map(|(_, value)| value.as_str())
    }
}

/// Takes the first response from `bytes`, to a request of this method. `None` if it is not
/// complete.
pub(crate) fn take(bytes: &mut &[u8], method: &str) -> Option<Response> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).expect("a head in ASCII");
    let mut lines = head.split("\r\n");
    let status_line = lines.next().expect("a status line").to_owned();
    let status = match status_line.split(' ').collect::<Vec<_>>()[..] {
        ["HTTP/1.1", status, _, ..] if status.len() == 3 => status.parse().expect("a status"),
        _ => panic!("not a status line: {status_line:?}"),
    };
    let fields: Vec<(String, String)> = lines
        .map(|line| {
            let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("not a field: {line:?}"));
            (name.to_ascii_lowercase(), value.to_owned())
        })
        .collect();
    let mut response = Response { status, status_line, fields, body: Vec::new() };
    let has_body = method != "HEAD" && status != 204 && status != 304;
    if has_body && response.field("transfer-encoding") == Some("chunked") {
        let mut rest = &bytes[end + 4..];
        response.body = take_chunks(&mut rest)?;
        *bytes = rest;
        return Some(response);
    }
    let length =
        if has_body { response.field("content-length").expect("a length").parse().expect("a number") } else { 0 };
    response.body = bytes[end + 4..].get(..length)?.to_vec();
    *bytes = &bytes[end + 4 + length..];
    Some(response)
}

/// Takes a body in the chunked coding from `bytes`. `None` if it is not complete.
fn take_chunks(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line_end = bytes.windows(2).position(|window| window == b"\r\n")?;
        let size = std::str::from_utf8(&bytes[..line_end]).expect("a size in ASCII");
        let size = usize::from_str_radix(size, 16).expect("a size");
        let chunk = bytes[line_end + 2..].get(..size + 2)?;
        assert!(chunk.ends_with(b"\r\n"), "a chunk that does not end");
        body.extend_from_slice(&chunk[..size]);
        *bytes = &bytes[line_end + 2 + size + 2..];
        if size == 0 {
            return Some(body);
        }
    }
}

/// All responses in `bytes`, which has to end with the last of them. Requests were of these
/// methods; when there are more responses than methods, they were of the last one.
pub(crate) fn take_all(mut bytes: &[u8], methods: &[&str]) -> Vec<Response> {
    let mut responses = Vec::new();
    while !bytes.is_empty() {
        let method = methods[responses.len().min(methods.len() - 1)];
        let response = take(&mut bytes, method);
        responses.push(response.unwrap_or_else(|| panic!("half a response: {}", bytes.escape_ascii())));
    }
    responses
}

/// Splits a multipart body: the range that each part states, and its bytes.
pub(crate) fn multipart(response: &Response) -> Vec<(String, Vec<u8>)> {
    let boundary = response.field("Content-Type").unwrap().strip_prefix("multipart/byteranges; boundary=").unwrap();
    let mut rest = [b"\r\n", response.body.as_slice()].concat();
    let mut parts = Vec::new();
    loop {
        let delimiter = format!("\r\n--{boundary}");
        rest = rest.strip_prefix(delimiter.as_bytes()).expect("a delimiter").to_vec();
        if rest == b"--\r\n" {
            return parts;
        }
        let head_end = rest.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let head = std::str::from_utf8(&rest[2..head_end]).unwrap().to_owned();
        let (content_type, content_range) = head.split_once("\r\n").unwrap();
        assert_eq!(content_type, "Content-Type: application/octet-stream");
        let end = rest.windows(delimiter.len()).position(|window| window == delimiter.as_bytes()).unwrap();
        let content_range = content_range.strip_prefix("Content-Range: ").unwrap();
        parts.push((content_range.to_owned(), rest[head_end + 4..end].to_vec()));
        rest.drain(..end);
    }
}
