//! From records to the lines of an access log: Common, Combined, and JSON.
//!
//! Whatever a client has sent, a line is one line and its quotes close where they should. In Common
//! and Combined that is done as nginx does it: a quote, a backslash, and all that is not visible
//! ASCII become `\xHH`, which `formats::access_log` undoes. In JSON text that is no UTF-8 gets the
//! replacement character in the places where it is wrong.

use std::io::Write;
use std::net::IpAddr;

use thalweg_wire::date::{self, IMF_FIXDATE_BYTES};
use thalweg_wire::encode::push_decimal;

use crate::config::LogFormat;
use crate::telemetry::record::Record;
use crate::telemetry::timestamp::rfc3339;

/// Writes lines. Times are written once a second, not once a line.
pub(crate) struct Lines {
    format: LogFormat,
    second: i64,
    time: Vec<u8>,
}

impl Lines {
    /// Lines of a format.
    pub(crate) fn new(format: LogFormat) -> Self {
        let mut lines = Self { format, second: 0, time: Vec::new() };
        lines.set_time(0);
        lines
    }

    /// Writes the line of a record, with its line feed; the mount by its label.
    pub(crate) fn push(&mut self, out: &mut Vec<u8>, record: &Record<'_>, mount: &str) {
        if record.second != self.second {
            self.set_time(record.second);
        }
        match self.format {
            LogFormat::Common => self.push_common(out, record),
            LogFormat::Combined => {
                self.push_common(out, record);
                for text in [record.request.and_then(|it| it.referer), record.request.and_then(|it| it.agent)] {
                    out.extend_from_slice(b" \"");
                    push_escaped(out, text.unwrap_or(b"-"));
                    out.push(b'"');
                }
            }
            LogFormat::Json => self.push_json(out, record, mount),
        }
        out.push(b'\n');
    }

    fn push_common(&self, out: &mut Vec<u8>, record: &Record<'_>) {
        push_client(out, record);
        out.extend_from_slice(b" - - [");
        out.extend_from_slice(&self.time);
        out.extend_from_slice(b"] \"");
        match &record.request {
            Some(request) => {
                push_escaped(out, request.method);
                out.push(b' ');
                push_escaped(out, request.target);
                out.push(b' ');
                out.extend_from_slice(request.version.name().as_bytes());
            }
            None => out.push(b'-'),
        }
        out.extend_from_slice(b"\" ");
        push_decimal(out, u64::from(record.status));
        out.push(b' ');
        push_decimal(out, record.end.body_bytes);
    }

    fn push_json(&self, out: &mut Vec<u8>, record: &Record<'_>, mount: &str) {
        out.extend_from_slice(b"{\"time\":\"");
        out.extend_from_slice(&self.time);
        out.extend_from_slice(b"\",\"client\":\"");
        push_client(out, record);
        out.push(b'"');
        if let Some(request) = &record.request {
            push_member(out, "method", Some(request.method));
            push_member(out, "target", Some(request.target));
            push_member(out, "version", Some(request.version.name().as_bytes()));
            push_member(out, "host", request.host);
        }
        for (name, number) in [
            ("status", u64::from(record.status)),
            ("bytes", record.end.body_bytes),
            ("duration_us", record.end.duration_us),
        ] {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
            push_decimal(out, number);
        }
        push_member(out, "tls", record.tls.map(|version| version.name().as_bytes()));
        let hex = record.certificate.map(|digest| digest.map(|byte| format!("{byte:02x}")).concat());
        push_member(out, "certificate", hex.as_deref().map(str::as_bytes));
        out.extend_from_slice(b",\"complete\":");
        out.extend_from_slice(if record.end.is_complete { b"true" } else { b"false" });
        push_member(out, "mount", Some(mount.as_bytes()));
        push_member(out, "referer", record.request.and_then(|request| request.referer));
        push_member(out, "agent", record.request.and_then(|request| request.agent));
        out.push(b'}');
    }

    fn set_time(&mut self, second: i64) {
        self.second = second;
        self.time = match self.format {
            LogFormat::Common | LogFormat::Combined => clf_time(second).to_vec(),
            LogFormat::Json => rfc3339(second).into_bytes(),
        };
    }
}

const CLF_TIME_BYTES: usize = b"10/Oct/2000:13:55:36 +0000".len();

/// A time such as `10/Oct/2000:13:55:36 +0000`. Always UTC: a log that jumps twice a year is no
/// help.
fn clf_time(second: i64) -> [u8; CLF_TIME_BYTES] {
    let text: [u8; IMF_FIXDATE_BYTES] = date::imf_fixdate(second);
    let mut time = *b"00/Jan/1970:00:00:00 +0000";
    time[..2].copy_from_slice(&text[5..7]);
    time[3..6].copy_from_slice(&text[8..11]);
    time[7..11].copy_from_slice(&text[12..16]);
    time[12..20].copy_from_slice(&text[17..25]);
    time
}

fn push_client(out: &mut Vec<u8>, record: &Record<'_>) {
    match record.client_address() {
        // Without what formatting costs: nearly every line has one.
        Some(IpAddr::V4(address)) => {
            for (index, octet) in address.octets().into_iter().enumerate() {
                if index > 0 {
                    out.push(b'.');
                }
                push_decimal(out, u64::from(octet));
            }
        }
        Some(address) => write!(out, "{address}").expect("a vector takes everything"),
        None => out.extend_from_slice(b"unix:"),
    }
}

/// Writes text so that it stays between its quotes.
fn push_escaped(out: &mut Vec<u8>, mut text: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    // Nearly every text is plain, and a check without an early exit is vectorized.
    if text.iter().fold(true, |is, &byte| is & is_plain(byte)) {
        return out.extend_from_slice(text);
    }
    while let Some(at) = text.iter().position(|&byte| !is_plain(byte)) {
        out.extend_from_slice(&text[..at]);
        let byte = usize::from(text[at]);
        out.extend_from_slice(&[b'\\', b'x', DIGITS[byte >> 4], DIGITS[byte & 15]]);
        text = &text[at + 1..];
    }
    out.extend_from_slice(text);
}

/// Writes a member of an object behind others, unless it has no value.
fn push_member(out: &mut Vec<u8>, name: &str, value: Option<&[u8]>) {
    let Some(value) = value else { return };
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    serde_json::to_writer(out, &*String::from_utf8_lossy(value)).expect("a vector takes everything");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use thalweg_formats::access_log::{LogLine, LoggedRequest};

    use super::*;
    use crate::telemetry::record::Request;
    use crate::telemetry::record::{End, client_of};

    const THEN: i64 = 971_211_336;

    fn request<'a>() -> Request<'a> {
        Request {
            method: b"GET",
            target: b"/a.iso",
            version: thalweg_wire::Version::Http11,
            host: Some(b"example.org"),
            referer: None,
            agent: Some(b"wget \"1\""),
        }
    }

    fn record(request: Option<Request<'_>>) -> Record<'_> {
        let end = End { body_bytes: 2326, duration_us: 1500, is_complete: true, is_download: true };
        Record {
            client: client_of(Some([127, 0, 0, 1].into())),
            second: THEN,
            request,
            tls: None,
            certificate: None,
            status: 200,
            mount: 0,
            end,
        }
    }

    fn line(format: LogFormat, record: &Record<'_>) -> String {
        let mut out = Vec::new();
        Lines::new(format).push(&mut out, record, "/pub/");
        String::from_utf8(out).expect("a log is text")
    }

    #[test]
    fn each_format() {
        let common = r#"127.0.0.1 - - [10/Oct/2000:20:55:36 +0000] "GET /a.iso HTTP/1.1" 200 2326"#;
        assert_eq!(line(LogFormat::Common, &record(Some(request()))), format!("{common}\n"));
        let combined = format!("{common} \"-\" \"wget \\x221\\x22\"\n");
        assert_eq!(line(LogFormat::Combined, &record(Some(request()))), combined);
        let json = r#"{"time":"2000-10-10T20:55:36Z","client":"127.0.0.1","method":"GET","target":"/a.iso","version":"HTTP/1.1","host":"example.org","status":200,"bytes":2326,"duration_us":1500,"complete":true,"mount":"/pub/","agent":"wget \"1\""}"#;
        assert_eq!(line(LogFormat::Json, &record(Some(request()))), format!("{json}\n"));
    }

    #[test]
    fn a_line_without_a_request_has_a_dash() {
        let refused = Record { status: 400, client: client_of(None), ..record(None) };
        assert_eq!(line(LogFormat::Common, &refused), "unix: - - [10/Oct/2000:20:55:36 +0000] \"-\" 400 2326\n");
        let json: serde_json::Value = serde_json::from_str(&line(LogFormat::Json, &refused)).unwrap();
        assert_eq!((json["client"].as_str(), json.get("target")), (Some("unix:"), None));
    }

    #[test]
    fn the_time_of_a_line_is_its_own() {
        let mut lines = Lines::new(LogFormat::Json);
        let mut out = Vec::new();
        for second in [THEN, THEN, THEN + 1, THEN, 0] {
            lines.push(&mut out, &Record { second, ..record(None) }, "");
        }
        let times = out.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).map(|line| {
            let value: serde_json::Value = serde_json::from_slice(line).unwrap();
            value["time"].as_str().unwrap()[17..].to_owned()
        });
        assert_eq!(times.collect::<Vec<_>>(), ["36Z", "36Z", "37Z", "36Z", "00Z"]);
    }

    proptest! {
        #[test]
        fn lines_are_read_back_whatever_was_sent(
            target in proptest::collection::vec(0x21u8..=0xff, 1..40).prop_filter("no DEL", |target| !target.contains(&0x7f)),
            referer in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40)),
            agent in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40)),
            status in 200u16..600,
            body_bytes in any::<u64>(),
            second in 0i64..date::SECOND_MAX,
            client in any::<u128>(),
        ) {
            let request = Request { target: &target, referer: referer.as_deref(), agent: agent.as_deref(), ..request() };
            let end = End { body_bytes, ..End::default() };
            let record = Record { client: client.to_be_bytes().into(), second, status, end, ..record(Some(request)) };
            let text = line(LogFormat::Combined, &record);
            prop_assert_eq!(text.matches('\n').count(), 1);
            let read = LogLine::parse(text.as_bytes()).unwrap();
            let present = |text: Option<&[u8]>| text.filter(|text| !matches!(*text, b"" | b"-")).map(<[u8]>::to_vec);
            prop_assert_eq!(read.referer.map(|text| text.decode().into_owned()), present(record.request.unwrap().referer));
            prop_assert_eq!(read.agent.map(|text| text.decode().into_owned()), present(record.request.unwrap().agent));
            prop_assert_eq!((read.time_unix_s, read.status, read.bytes), (second, Some(status), body_bytes));
            let LoggedRequest::Line { method, target: logged, version } = read.request else {
                panic!("{text}: no request");
            };
            prop_assert_eq!((method, version), ("GET", Some("HTTP/1.1")));
            prop_assert_eq!(logged.decode().into_owned(), target.clone());
            let json: serde_json::Value = serde_json::from_str(&line(LogFormat::Json, &record)).unwrap();
            prop_assert_eq!(json["target"].as_str().unwrap(), &*String::from_utf8_lossy(&target));
        }
    }
}
