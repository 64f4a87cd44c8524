//! The parts that any format has of a line, and the line that they make.

use std::net::IpAddr;

use thalweg_wire::is_token_byte;

use super::time::Moment;
use crate::access_log::{Escaped, LogFault, LogLine, LoggedRequest};

/// A part of a line that means something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Address or name of the client, perhaps with a port.
    Client,
    /// X-Forwarded-For, whose first address is the client where there is one.
    Forwarded,
    /// A request line.
    Request,
    /// A method.
    Method,
    /// Path and query, or a whole URL.
    Target,
    /// A path.
    Path,
    /// A query, with its question mark or without.
    Query,
    /// A status.
    Status,
    /// The bytes of the answer.
    Bytes,
    /// The host that was asked.
    Host,
    /// The page that led here.
    Referer,
    /// The client's program.
    Agent,
}

const PARTS: usize = 12;

/// Parts of a line, and its time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Parts<'a> {
    pub(super) parts: [Option<&'a [u8]>; PARTS],
    pub(super) moment: Option<Moment>,
    /// They have no escapes of a server in them.
    pub(super) is_plain: bool,
    /// Targets are logged as whole URLs, whatever the client has sent.
    pub(super) has_urls: bool,
}

impl<'a> Parts<'a> {
    /// Sets a part; a dash stands for none.
    pub(super) fn set(&mut self, part: Part, text: &'a [u8]) {
        self.parts[part as usize] = Some(text);
    }

    fn get(&self, part: Part) -> Option<&'a [u8]> {
        self.parts[part as usize].filter(|text| !matches!(*text, b"-" | b""))
    }

    fn text(&self, text: &'a [u8]) -> Escaped<'a> {
        if self.is_plain { Escaped::plain(text) } else { Escaped::new(text) }
    }

    /// The line that they make. `scratch` takes a target that is logged in two parts.
    ///
    /// # Errors
    /// There is no time, or the status is none.
    pub(super) fn into_line(self, scratch: &'a mut Vec<u8>) -> Result<LogLine<'a>, LogFault> {
        let (time_unix_s, fraction_ns) = self.moment.ok_or(LogFault { at: 0, expected: "a time" })?;
        let forwarded = self.get(Part::Forwarded).map(|list| list.split(|byte| *byte == b',').next().unwrap_or(list));
        let client = forwarded.map(<[u8]>::trim_ascii).or_else(|| self.get(Part::Client)).unwrap_or(b"-");
        let status = self.get(Part::Status).map(|text| number(text).and_then(|number| u16::try_from(number).ok()));
        let status = match status {
            Some(None) => return Err(LogFault { at: 0, expected: "a status of three digits" }),
            status => status.flatten(),
        };
        let (request, url_host) = self.request(scratch);
        Ok(LogLine {
            host: without_port(client),
            user: None,
            time_unix_s,
            fraction_ns,
            virtual_host: self.get(Part::Host).map(without_port).or(url_host),
            request,
            status: status.filter(|status| *status > 0),
            bytes: self.get(Part::Bytes).and_then(number).unwrap_or(0),
            referer: self.get(Part::Referer).map(|text| self.text(text)),
            agent: self.get(Part::Agent).map(|text| self.text(text)),
        })
    }

    /// The request, and the host of its URL.
    fn request(&self, scratch: &'a mut Vec<u8>) -> (LoggedRequest<'a>, Option<&'a [u8]>) {
        let read = match (self.get(Part::Request), self.get(Part::Method)) {
            (Some(line), _) => LoggedRequest::parse(self.text(line)),
            (None, Some(method)) => self.request_of(method, scratch),
            (None, None) => LoggedRequest::Malformed(self.text(b"")),
        };
        let LoggedRequest::Line { method, target, version } = read else { return (read, None) };
        let split = if self.has_urls { split_url(target.raw()) } else { None };
        match split {
            Some((host, path)) => (LoggedRequest::Line { method, target: self.text(path), version }, Some(host)),
            None => (read, None),
        }
    }

    fn request_of(&self, method: &'a [u8], scratch: &'a mut Vec<u8>) -> LoggedRequest<'a> {
        let malformed = LoggedRequest::Malformed(self.text(method));
        let target = match (self.get(Part::Target), self.get(Part::Path), self.get(Part::Query)) {
            (Some(target), ..) => target,
            (None, Some(path), None) => path,
            (None, Some(path), Some(query)) => {
                scratch.clear();
                scratch.extend_from_slice(path);
                if !query.starts_with(b"?") {
                    scratch.push(b'?');
                }
                scratch.extend_from_slice(query);
                scratch
            }
            (None, None, _) => return malformed,
        };
        let name = std::str::from_utf8(method).ok().filter(|method| method.bytes().all(is_token_byte));
        match name {
            Some(method) if !target.contains(&b' ') => {
                LoggedRequest::Line { method, target: self.text(target), version: None }
            }
            _ => malformed,
        }
    }
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Host, and path with query, of a URL; `None` for what is none.
pub(super) fn split_url(target: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest =
        [&b"http://"[..], b"https://", b"ws://", b"wss://"].iter().find_map(|scheme| target.strip_prefix(*scheme))?;
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    // A query without a path is rare, and no target begins so.
    (!path.starts_with(b"?")).then_some((without_port(host), if path.is_empty() { b"/" } else { path }))
}

/// An address or a name without a port behind it, and without the brackets of an IPv6 address.
pub(super) fn without_port(text: &[u8]) -> &[u8] {
    let is_address = |text: &[u8]| std::str::from_utf8(text).is_ok_and(|text| text.parse::<IpAddr>().is_ok());
    if let Some(inner) = text.strip_prefix(b"[") {
        let end = inner.iter().position(|byte| *byte == b']').unwrap_or(inner.len());
        return &inner[..end];
    }
    match text.iter().rposition(|byte| *byte == b':') {
        Some(colon) if text[colon + 1..].iter().all(u8::is_ascii_digit) && !is_address(text) => &text[..colon],
        _ => text,
    }
}
