//! Access logs made into load: when to ask for what, at the log's own times.
//!
//! Lines come one by one, so a log of any size is read with the memory of its entries: 16 bytes each, beside the distinct
//! requests. Opening, unpacking and cutting the file into lines is the caller's; the formats are `wire`'s and `json`'s.

mod json;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::fmt::Write as _;

use thalweg_wire::Method;
use thalweg_wire::log::{LogLine, LoggedRequest};
use thalweg_wire::target::Target;

use crate::input::{InputError, LINE_BYTES_MAX, Line, excerpt};
use crate::request::PreparedRequest;

/// Most entries of a log: 4 GiB of them.
pub const TRACE_ENTRIES_MAX: usize = 1 << 28;

/// What a log makes of load.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The distinct requests, in the order in which they first occur.
    pub requests: Vec<PreparedRequest>,
    /// In the order of their times; never empty. The first is due at once.
    pub entries: Vec<TraceEntry>,
    /// What could not be replayed.
    pub skipped: Skipped,
    /// The second of the first entry, since 1970-01-01 00:00:00 UTC.
    pub start_unix_s: i64,
}

/// One request of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// When it is due, from the start of the replay.
    pub offset_ns: u64,
    /// Its place in [`Trace::requests`].
    pub request: u32,
    /// Its place in the log among the entries, which keeps the order of those of one second.
    pub(crate) order: u32,
}

/// How many lines of a log could not be replayed, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// The request line was none.
    pub malformed: u64,
    /// The method has a body as a rule, which is not in the log, or is none that is asked of a server.
    pub method: u64,
    /// The target cannot be sent.
    pub target: u64,
}

impl Skipped {
    /// How many there are.
    pub fn total(&self) -> u64 {
        self.malformed + self.method + self.target
    }

    /// Each count with its reason in words.
    pub fn reasons(&self) -> [(u64, &'static str); 3] {
        [
            (self.malformed, "malformed requests"),
            (self.method, "methods whose body is not in the log"),
            (self.target, "targets that cannot be sent"),
        ]
    }
}

/// Reads a log line by line.
#[derive(Debug)]
pub struct TraceReader {
    file: String,
    lines: usize,
    /// Their offsets are biased seconds until the end is reached.
    entries: Vec<TraceEntry>,
    /// Distinct requests, as method and target with a blank between.
    known: HashMap<Box<str>, Known>,
    skipped: Skipped,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    request: u32,
    line: u32,
}

/// Keeps the seconds of all years that a log can have positive.
const BIAS_S: i64 = 1 << 40;

impl TraceReader {
    /// A reader of the file that is called `file` in messages.
    pub fn new(file: &str) -> Self {
        Self {
            file: file.to_owned(),
            lines: 0,
            entries: Vec::new(),
            known: HashMap::new(),
            skipped: Skipped::default(),
        }
    }

    /// Takes the next line, with or without its line feed. Empty lines are passed over.
    ///
    /// # Errors
    /// It is no log line, or the log is too long.
    pub fn push(&mut self, line: &[u8]) -> Result<(), InputError> {
        self.lines += 1;
        let bytes = line.trim_ascii_end();
        let line = Line { file: &self.file, number: self.lines, bytes };
        if bytes.is_empty() {
            return Ok(());
        }
        if bytes.len() > LINE_BYTES_MAX {
            return Err(line.error(0, format!("the line has {} bytes; at most {LINE_BYTES_MAX} are read", bytes.len())));
        }
        let logged = Logged::read(line)?;
        let Some(text) = replayable(logged.request, &mut self.skipped) else {
            return Ok(());
        };
        if self.entries.len() == TRACE_ENTRIES_MAX {
            return Err(line.error(0, format!("the log has more than {TRACE_ENTRIES_MAX} requests")));
        }
        let number = u32::try_from(self.lines).unwrap_or(u32::MAX);
        let order = self.entries.len() as u32;
        // Most requests are known, and cost no copy of their text.
        let request = match self.known.get(text.as_str()) {
            Some(known) => known.request,
            None => {
                let request = self.known.len() as u32;
                self.known.insert(text.into(), Known { request, line: number });
                request
            }
        };
        let offset_ns = u64::try_from(logged.time_unix_s + BIAS_S).expect("years have four digits");
        self.entries.push(TraceEntry { offset_ns, request, order });
        Ok(())
    }

    /// Makes the trace, `speed` times as fast as it was logged. `prepare` is asked once for each distinct method and target.
    ///
    /// # Errors
    /// `prepare` refused a request, or nothing can be replayed.
    ///
    /// # Panics
    /// The speed is not positive and finite.
    pub fn finish<E: fmt::Display>(
        self,
        speed: f64,
        mut prepare: impl FnMut(&str, &str) -> Result<PreparedRequest, E>,
    ) -> Result<Trace, InputError> {
        let Self { file, lines, mut entries, known, skipped } = self;
        let mut texts: Vec<_> = known.into_iter().collect();
        texts.sort_unstable_by_key(|(_, known)| known.request);
        let make = |(text, known): (Box<str>, Known)| {
            let (method, target) = text.split_once(' ').expect("there is a blank behind the method");
            prepare(method, target).map_err(|error| {
                let what = format!("{}: {error}", excerpt(text.as_bytes()));
                InputError::new(&file, known.line as usize, 1, what)
            })
        };
        let requests = texts.into_iter().map(make).collect::<Result<Vec<_>, _>>()?;
        entries.shrink_to_fit();
        let Some(start_unix_s) = schedule(&mut entries, speed) else {
            let mut what = "the log holds no request that can be replayed".to_owned();
            for (count, reason) in skipped.reasons().iter().filter(|(count, _)| *count > 0) {
                let _ = write!(what, "; {reason}: {count}");
            }
            return Err(InputError::new(&file, lines.max(1), 1, what));
        };
        Ok(Trace { requests, entries, skipped, start_unix_s })
    }
}

/// Reads a whole log; see [`TraceReader`].
///
/// # Errors
/// The first line that is wrong, or that nothing can be replayed.
pub fn read_trace<E: fmt::Display>(
    file: &str,
    text: &[u8],
    speed: f64,
    prepare: impl FnMut(&str, &str) -> Result<PreparedRequest, E>,
) -> Result<Trace, InputError> {
    let mut reader = TraceReader::new(file);
    text.split(|&byte| byte == b'\n').try_for_each(|line| reader.push(line))?;
    reader.finish(speed, prepare)
}

/// What a line says that is replayed.
struct Logged<'a> {
    time_unix_s: i64,
    /// Method and target as they came; `None` for what was no request.
    request: Option<(Cow<'a, str>, Cow<'a, [u8]>)>,
}

impl<'a> Logged<'a> {
    fn read(line: Line<'a>) -> Result<Self, InputError> {
        if json::is_json(line.bytes) {
            return json::parse(line.bytes).map_err(|json::Fault { at, what }| {
                line.error(at, format!("this is no line of an access log in JSON as thalweg serve writes it: {what}"))
            });
        }
        let logged = LogLine::parse(line.bytes).map_err(|fault| {
            line.error(fault.at, format!("this is no line of an access log in common or combined format: {fault}"))
        })?;
        let request = match logged.request {
            LoggedRequest::Line { method, target, .. } => Some((Cow::Borrowed(method), target.decode())),
            LoggedRequest::Malformed(_) => None,
        };
        Ok(Self { time_unix_s: logged.time_unix_s, request })
    }
}

/// Method and target of a request that can be asked again; otherwise counts why not.
fn replayable(request: Option<(Cow<'_, str>, Cow<'_, [u8]>)>, skipped: &mut Skipped) -> Option<String> {
    let Some((method, target)) = request else {
        skipped.malformed += 1;
        return None;
    };
    if !matches!(&*method, "GET" | "HEAD" | "OPTIONS" | "DELETE") {
        skipped.method += 1;
        return None;
    }
    let mut text = String::with_capacity(method.len() + 1 + target.len());
    text.push_str(&method);
    text.push(' ');
    let sendable = push_target(&mut text, &target);
    let is_target = Target::parse(Method::from_name(&method), &text.as_bytes()[method.len() + 1..]).is_ok();
    if !sendable || !is_target {
        skipped.target += 1;
        return None;
    }
    Some(text)
}

/// Writes a target as it can be sent: bytes beyond ASCII, which some clients send as they are, percent-encoded as others do. Tells
/// whether there is nothing else in the way.
fn push_target(text: &mut String, target: &[u8]) -> bool {
    for &byte in target {
        match byte {
            b'!'..=b'~' => text.push(char::from(byte)),
            0x80.. => write!(text, "%{byte:02X}").expect("a string takes everything"),
            _ => return false,
        }
    }
    true
}

/// Sorts the entries by their biased seconds and makes offsets of them; gives the first one's second.
///
/// A log's times are whole seconds. The entries of one second are spread evenly over it, in the order of the log: all at its
/// beginning would be a burst that never was.
fn schedule(entries: &mut [TraceEntry], speed: f64) -> Option<i64> {
    assert!(speed > 0.0 && speed.is_finite(), "the speed is a positive number");
    // A stable sort would need half the memory again.
    if !entries.is_sorted_by_key(|entry| entry.offset_ns) {
        entries.sort_unstable_by_key(|entry| (entry.offset_ns, entry.order));
    }
    let first = entries.first()?.offset_ns;
    for second in entries.chunk_by_mut(|one, next| one.offset_ns == next.offset_ns) {
        let (count, elapsed_s) = (second.len() as u128, u128::from(second[0].offset_ns - first));
        for (entry, index) in second.iter_mut().zip(0u128..) {
            let logged_ns = elapsed_s * 1_000_000_000 + index * 1_000_000_000 / count;
            // Exact at the log's own speed up to 2^53 ns, 104 days.
            entry.offset_ns = (logged_ns as f64 / speed).round() as u64;
        }
    }
    Some(first as i64 - BIAS_S)
}

#[cfg(test)]
mod tests {
    use thalweg_wire::Version;

    use super::*;
    use crate::request::{RequestError, RequestText, prepare};

    fn make(method: &str, target: &str) -> Result<PreparedRequest, RequestError> {
        prepare(&RequestText { method, authority: "h", target, version: Version::Http11, fields: &[], body: b"" })
    }

    /// A log with a line for each second of the minute and request.
    fn log(lines: &[(u32, &str)]) -> String {
        let line = |(second, request): &(u32, &str)| {
            format!("::1 - - [10/Oct/2000:20:55:{second:02} +0000] \"{request}\" 200 1 \"-\" \"-\"\n")
        };
        lines.iter().map(line).collect()
    }

    /// Replays a log and compares when what is asked for.
    fn check(lines: &[(u32, &str)], speed: f64, expected: &[(u64, &str)]) {
        let trace = read_trace("log", log(lines).as_bytes(), speed, make).unwrap();
        let first_line = |entry: &TraceEntry| {
            let bytes = &trace.requests[entry.request as usize].bytes;
            String::from_utf8_lossy(bytes).split(" HTTP/").next().unwrap_or_default().to_owned()
        };
        let shown: Vec<_> =
            trace.entries.iter().map(|entry| (entry.offset_ns / 1_000_000, first_line(entry))).collect();
        let expected: Vec<_> = expected.iter().map(|(at, request)| (*at, (*request).to_owned())).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_second_s_requests_are_spread_over_it() {
        let lines = [
            (0, "GET /a HTTP/1.1"),
            (2, "GET /b HTTP/1.1"),
            (2, "HEAD /a HTTP/1.0"),
            (2, "GET /a HTTP/2.0"),
            (2, "GET /c"),
            (3, "GET /d HTTP/1.1"),
        ];
        let expected =
            [(0, "GET /a"), (2000, "GET /b"), (2250, "HEAD /a"), (2500, "GET /a"), (2750, "GET /c"), (3000, "GET /d")];
        check(&lines, 1.0, &expected);
        check(&lines, 2.0, &expected.map(|(at, request)| (at / 2, request)));
        check(&lines, 0.1, &expected.map(|(at, request)| (at * 10, request)));
    }

    #[test]
    fn lines_out_of_order_are_sorted_and_keep_theirs_within_a_second() {
        let lines = [(5, "GET /a HTTP/1.1"), (4, "GET /b HTTP/1.1"), (5, "GET /c HTTP/1.1"), (4, "GET /d HTTP/1.1")];
        check(&lines, 1.0, &[(0, "GET /b"), (500, "GET /d"), (1000, "GET /a"), (1500, "GET /c")]);
    }

    #[test]
    fn what_cannot_be_replayed_is_counted_by_reason() {
        let lines = [
            (0, "POST /a HTTP/1.1"),
            (0, "PRI * HTTP/2.0"),
            (0, "-"),
            (0, r"\x16\x03"),
            (0, r"GET /\n HTTP/1.1"),
            (0, "GET /a#b HTTP/1.1"),
            (0, "GET a HTTP/1.1"),
            (1, r"GET /\xc3\xa4\x22 HTTP/1.1"),
            (2, "OPTIONS * HTTP/1.1"),
            (3, "DELETE http://h/b HTTP/1.1"),
        ];
        check(&lines, 1.0, &[(0, "GET /%C3%A4\""), (1000, "OPTIONS *"), (2000, "DELETE http://h/b")]);
        let trace = read_trace("log", log(&lines).as_bytes(), 1.0, make).unwrap();
        assert_eq!(trace.skipped, Skipped { malformed: 2, method: 2, target: 3 });
        assert_eq!((trace.skipped.total(), trace.start_unix_s), (7, 971_211_301));
    }

    #[test]
    fn formats_may_change_within_a_log() {
        let json =
            r#"{"time":"2000-10-10T20:55:37Z","client":"::1","method":"GET","target":"/b","status":200,"bytes":1}"#;
        let no_request = r#"{"time":"2000-10-10T20:55:37Z","client":"::1","status":503,"bytes":97}"#;
        let text = format!("{}{json}\n{no_request}\n", log(&[(36, "GET /a HTTP/1.1")]));
        let trace = read_trace("log", text.as_bytes(), 1.0, make).unwrap();
        assert_eq!((trace.requests.len(), trace.entries[1].offset_ns, trace.skipped.malformed), (2, 1_000_000_000, 1));
    }

    fn check_refused(text: &str, expected: &str) {
        assert_eq!(read_trace("log", text.as_bytes(), 1.0, make).unwrap_err().to_string(), expected);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let none = "the log holds no request that can be replayed";
        check_refused("\n", &format!("log:2:1: {none}"));
        check_refused(
            &log(&[(0, "-"), (0, "-"), (1, "PUT / HTTP/1.1")]),
            &format!("log:4:1: {none}; malformed requests: 2; methods whose body is not in the log: 1"),
        );
        let text = log(&[(0, "GET /a HTTP/1.1")]) + "\nh ä - [x] \"GET / HTTP/1.1\" 200 1\n";
        let format = "this is no line of an access log in common or combined format";
        check_refused(&text, &format!("log:3:7: {format}: expected a time such as [10/Oct/2000:13:55:36 -0700]"));
        let format = "this is no line of an access log in JSON as thalweg serve writes it";
        check_refused("\n{\"client\":3}\n", &format!("log:2:12: {format}: missing field `time`"));
        let error =
            read_trace("log", log(&[(0, "-"), (0, "GET /a HTTP/1.1")]).as_bytes(), 1.0, |_, _| Err("no")).unwrap_err();
        assert_eq!(error.to_string(), "log:2:1: \"GET /a\": no");
        let mut reader = TraceReader::new("log");
        assert!(reader.push(&vec![b'x'; LINE_BYTES_MAX + 1]).unwrap_err().what.contains("at most"));
    }

    #[test]
    fn entries_are_small_and_equal_requests_are_one() {
        assert_eq!(size_of::<TraceEntry>(), 16);
        let mut reader = TraceReader::new("log");
        for index in 0..100_000 {
            reader
                .push(log(&[(index % 60, ["GET /a HTTP/1.1", "GET /b HTTP/1.1"][index as usize % 2])]).as_bytes())
                .unwrap();
        }
        let trace = reader.finish(1.0, make).unwrap();
        assert_eq!((trace.entries.len(), trace.entries.capacity(), trace.requests.len()), (100_000, 100_000, 2));
        assert!(trace.entries.is_sorted_by_key(|entry| entry.offset_ns));
        // Of a second's entries, the log's order: all even seconds have the one request, all odd ones the other.
        assert!(trace.entries.iter().all(|entry| u64::from(entry.request) == entry.offset_ns / 1_000_000_000 % 2));
    }

    #[test]
    fn the_widest_span_of_years_does_not_overflow() {
        let line = |year| format!("h - - [01/Jan/{year}:00:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n");
        let trace = read_trace("log", (line("9999") + &line("0001")).as_bytes(), 1.0, make).unwrap();
        assert_eq!((trace.start_unix_s, trace.entries[1].offset_ns), (-62_135_596_800, u64::MAX));
    }
}
