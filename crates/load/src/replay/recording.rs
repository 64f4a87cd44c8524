//! Recordings: access logs as load, each request at the time that the log says.
//!
//! A log is read twice, each time line by line with bounded memory. First as a whole
//! ([`Recording::scan`]), which finds its errors, the number of its requests and their length in
//! time; then while they are sent ([`Feeder`](super::Feeder)). Opening and unpacking the file is
//! the caller's; the formats are read by `thalweg_formats` and `json`.

use std::borrow::Cow;
use std::fmt;
use std::fmt::Write as _;
use std::io::{self, BufRead};
use std::sync::Arc;

use thalweg_formats::access_log::{LogLine, LoggedRequest, VIRTUAL_HOST, push_sendable};
use thalweg_wire::target::Target;
use thalweg_wire::{Method, Version};

use super::entry::LogEntry;
use super::json;
use super::order::{OrderedRequest, Window};
use crate::input::check::{CheckId, CheckTable};
use crate::input::text::{InputError, Line, Lines, ReadError};
use crate::request::Templates;

/// The methods that are replayed, by number: those of requests without bodies.
const METHODS: [&str; 4] = ["GET", "HEAD", "OPTIONS", "DELETE"];

/// Opens a log, as often as it is read.
pub type OpenLog = Box<dyn Fn() -> io::Result<Box<dyn BufRead + Send>> + Send + Sync>;

/// A log as load.
pub struct Recording {
    file: String,
    open: OpenLog,
    speed: f64,
    templates: Templates,
    table: Option<Arc<CheckTable>>,
    summary: LogSummary,
    /// How many lines were read.
    lines: usize,
    /// When the last request is due, from the start.
    last_ns: u64,
    /// Seconds of which requests came behind those that were given out together: how many there are
    /// in all. In ascending order.
    crowded: Vec<(i64, u64)>,
}

/// A request that has come off the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedRequest<'a> {
    pub(crate) template: usize,
    pub(crate) target: &'a [u8],
    pub(crate) check: Option<CheckId>,
}

/// The summary of a log that was read once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSummary {
    /// Requests that are replayed; never zero.
    pub requests: u64,
    /// Lines that are not.
    pub skipped: SkipCounts,
    /// Requests so far behind later ones in the log that they are replayed later than it says.
    pub displaced: u64,
    /// The second of the first request, since 1970-01-01 00:00:00 UTC.
    pub start_unix_s: i64,
}

/// How many lines of a log could not be replayed, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkipCounts {
    /// The request line was none.
    pub malformed: u64,
    /// The method has a body as a rule, which is not in the log, or is no method of a request to an
    /// origin server.
    pub method: u64,
    /// The target cannot be sent.
    pub target: u64,
}

impl SkipCounts {
    /// How many there are.
    pub fn total(&self) -> u64 {
        self.malformed + self.method + self.target
    }

    /// Each count with its reason in words.
    pub fn reasons(&self) -> [(u64, &'static str); 3] {
        [
            (self.malformed, "malformed requests"),
            (self.method, "methods with a body that is not in the log"),
            (self.target, "invalid targets"),
        ]
    }
}

/// The common parts of all requests of a replay.
#[derive(Clone, Copy, Debug)]
pub struct ReplayHead<'a> {
    /// Host and port, for the `Host` field.
    pub authority: &'a str,
    /// The version to speak.
    pub version: Version,
    /// Further fields.
    pub fields: &'a [(String, String)],
}

impl Recording {
    /// Reads a log as a whole, which is called `file` in messages, to be replayed `speed` times as
    /// fast as it was logged. With a table, a response must be what that says of its target.
    ///
    /// # Errors
    /// The first line that is none of a log, that nothing can be replayed, a check of a target that
    /// is never requested, or that the log cannot be read.
    ///
    /// # Panics
    /// The speed is not positive and finite.
    pub fn scan(
        file: &str,
        open: OpenLog,
        speed: f64,
        head: &ReplayHead<'_>,
        mut table: Option<CheckTable>,
    ) -> Result<Self, ReadError> {
        assert!(speed > 0.0 && speed.is_finite(), "the speed is a positive number");
        let mut templates = Templates::new(head.authority, head.version, head.fields);
        for (number, method) in METHODS.into_iter().enumerate() {
            let made = templates.number(method, &[]);
            assert_eq!(made.map_err(|error| InputError::new(file, 1, 1, error.to_string()))?, number);
        }
        let (mut summary, mut crowded) = (LogSummary::default(), Vec::<(i64, u64)>::new());
        let mut last = None;
        let (mut skipped, mut lines) = (SkipCounts::default(), usize::MAX);
        let displaced = walk(file, open()?, &mut skipped, &mut lines, &mut |placed: OrderedRequest<'_>| {
            if summary.requests == 0 {
                summary.start_unix_s = placed.second;
            }
            summary.requests += 1;
            table.iter_mut().for_each(|table| {
                table.find(placed.target);
            });
            if placed.index >= placed.count {
                match crowded.last_mut().filter(|(second, _)| *second == placed.second) {
                    Some((_, count)) => *count = placed.index + 1,
                    None => crowded.push((placed.second, placed.index + 1)),
                }
            }
            last = Some((placed.second, placed.index));
            Ok::<_, ReadError>(())
        })?;
        let Some((second, index)) = last else {
            let mut what = "the log contains no request that can be replayed".to_owned();
            for (count, reason) in skipped.reasons().iter().filter(|(count, _)| *count > 0) {
                let _ = write!(what, "; {reason}: {count}");
            }
            return Err(InputError::new(file, lines.max(1), 1, what).into());
        };
        table.as_ref().map_or(Ok(()), CheckTable::ensure_all_asked)?;
        let last_ns = offset_ns(second - summary.start_unix_s, index, index + 1, speed);
        let summary = LogSummary { skipped, displaced, ..summary };
        let table = table.map(Arc::new);
        Ok(Self { file: file.to_owned(), open, speed, templates, table, summary, lines, last_ns, crowded })
    }

    /// The summary of the log.
    pub fn summary(&self) -> &LogSummary {
        &self.summary
    }

    /// How many requests there are.
    pub(crate) fn requests(&self) -> u64 {
        self.summary.requests
    }

    /// How long the replay is: a mean gap follows the last request as it follows the others. One
    /// request alone has its second.
    pub(crate) fn length_ns(&self) -> u64 {
        match self.requests() - 1 {
            0 => offset_ns(1, 0, 1, self.speed),
            gaps => self.last_ns.saturating_add(self.last_ns / gaps),
        }
        .max(1)
    }

    pub(crate) fn templates(&self) -> &Templates {
        &self.templates
    }

    pub(crate) fn table(&self) -> Option<&Arc<CheckTable>> {
        self.table.as_ref()
    }

    /// Reads the log again and gives out each request with the time at which it is due, from the
    /// start and in ascending order, as nanoseconds; until `give` wants no more.
    ///
    /// # Errors
    /// The log cannot be read again as it was.
    pub(crate) fn play(&self, mut give: impl FnMut(u64, RecordedRequest<'_>) -> bool) -> Result<(), ReadError> {
        let (mut crowded, mut left, mut lines) = (self.crowded.iter().peekable(), self.requests(), self.lines);
        let mut give_placed = |placed: OrderedRequest<'_>| {
            while crowded.next_if(|(second, _)| *second < placed.second).is_some() {}
            let known = crowded.peek().filter(|(second, _)| *second == placed.second);
            let count = known.map_or(placed.count, |(_, count)| *count);
            let elapsed_s = placed.second - self.summary.start_unix_s;
            let offset_ns = offset_ns(elapsed_s, placed.index, count, self.speed);
            let check = self.table.as_ref().and_then(|table| table.get(placed.target));
            if left == 0 {
                // The file holds another log by now, which is longer.
                return Err(Stop::Enough);
            }
            left -= 1;
            let request = RecordedRequest { template: usize::from(placed.method), target: placed.target, check };
            if give(offset_ns, request) { Ok(()) } else { Err(Stop::Enough) }
        };
        let walked = (self.open)().map_err(|error| Stop::Read(error.into())).and_then(|source| {
            walk(&self.file, source, &mut SkipCounts::default(), &mut lines, &mut give_placed).map(drop)
        });
        match walked {
            Ok(()) if left > 0 => {
                let what = format!("the log changed during the replay: {left} of its requests are missing now");
                Err(io::Error::other(what).into())
            }
            Ok(()) | Err(Stop::Enough) => Ok(()),
            Err(Stop::Read(error)) => Err(error),
        }
    }

    /// All requests: when each is due, in nanoseconds from the start, its method and its target.
    ///
    /// # Errors
    /// The log cannot be read again as it was.
    pub fn for_each(&self, mut give: impl FnMut(u64, &str, &str)) -> Result<(), ReadError> {
        self.play(|offset_ns, request| {
            let target = std::str::from_utf8(request.target).expect("a target is ASCII");
            give(offset_ns, METHODS[request.template], target);
            true
        })
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording").field("file", &self.file).field("summary", &self.summary).finish_non_exhaustive()
    }
}

/// Why a log was not read to its end.
enum Stop {
    Read(ReadError),
    /// No more requests are wanted.
    Enough,
}

impl From<ReadError> for Stop {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

/// Reads so many lines of a log at most, and gives their requests out in their order. How many came
/// too late for their place; `lines_read` becomes the number of lines that there were.
fn walk<E: From<ReadError>>(
    file: &str,
    source: Box<dyn BufRead + Send>,
    skipped: &mut SkipCounts,
    lines_read: &mut usize,
    give: &mut impl FnMut(OrderedRequest<'_>) -> Result<(), E>,
) -> Result<u64, E> {
    let mut lines = Lines::new(file, source);
    let (mut window, mut target) = (Window::default(), String::new());
    // A log that is being written has grown when it is read again.
    let lines_max = std::mem::take(lines_read);
    while *lines_read < lines_max
        && let Some(line) = lines.next()?
    {
        *lines_read = line.number;
        let line = Line { bytes: line.bytes.trim_ascii_end(), ..line };
        if line.bytes.is_empty() {
            continue;
        }
        let logged = read_entry(line).map_err(ReadError::from)?;
        if let Some(method) = replayable(logged.request, skipped, &mut target) {
            window.push(logged.time_unix_s, method, target.as_bytes(), give)?;
        }
    }
    window.finish(give)?;
    Ok(window.displaced())
}

/// When a request is due: a log's times are whole seconds, and the requests of one are spread
/// evenly over it, in the order of the log. All at its beginning would be a burst that never was.
fn offset_ns(elapsed_s: i64, index: u64, count: u64, speed: f64) -> u64 {
    const SECOND_NS: u128 = 1_000_000_000;
    let logged_ns =
        u128::from(elapsed_s.unsigned_abs()) * SECOND_NS + u128::from(index) * SECOND_NS / u128::from(count.max(1));
    // Exact at the log's own speed up to 2^53 ns, 104 days.
    (logged_ns as f64 / speed).round() as u64
}

/// Reads a line in whichever format it has.
fn read_entry(line: Line<'_>) -> Result<LogEntry<'_>, InputError> {
    if json::is_json(line.bytes) {
        return json::parse(line.bytes).map_err(|json::Fault { at, what }| {
            line.error(at, format!("not a line of an access log in the JSON format of thalweg serve: {what}"))
        });
    }
    let logged = LogLine::parse_without_virtual_host(line.bytes).map_err(|fault| {
        let advice = if fault == VIRTUAL_HOST { "; take it off each line, as by cut -d' ' -f2-" } else { "" };
        line.error(fault.at, format!("not a line of an access log in common or combined format: {fault}{advice}"))
    })?;
    let request = match logged.request {
        LoggedRequest::Line { method, target, .. } => Some((Cow::Borrowed(method), target.decode())),
        LoggedRequest::Malformed(_) => None,
    };
    Ok(LogEntry { time_unix_s: logged.time_unix_s, request })
}

/// The method's number, and the target written in place of `text`, of a request that can be
/// repeated; otherwise counts the reason.
fn replayable(
    request: Option<(Cow<'_, str>, Cow<'_, [u8]>)>,
    skipped: &mut SkipCounts,
    text: &mut String,
) -> Option<u8> {
    let Some((method, target)) = request else {
        skipped.malformed += 1;
        return None;
    };
    let Some(number) = METHODS.iter().position(|known| *known == method) else {
        skipped.method += 1;
        return None;
    };
    text.clear();
    if !push_sendable(text, &target) || Target::parse(Method::from_name(&method), text.as_bytes()).is_err() {
        skipped.target += 1;
        return None;
    }
    Some(number as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::text::LINE_BYTES_MAX;

    const HEAD: ReplayHead<'_> = ReplayHead { authority: "h", version: Version::Http11, fields: &[] };

    fn scan(text: impl Into<Vec<u8>>, speed: f64) -> Result<Recording, ReadError> {
        let text: Arc<[u8]> = text.into().into();
        Recording::scan("log", Box::new(move || Ok(Box::new(io::Cursor::new(text.clone())))), speed, &HEAD, None)
    }

    /// A log with a line for each second of the minute and request.
    fn log(lines: &[(u32, &str)]) -> String {
        let line = |(second, request): &(u32, &str)| {
            format!("::1 - - [10/Oct/2000:20:55:{second:02} +0000] \"{request}\" 200 1 \"-\" \"-\"\n")
        };
        lines.iter().map(line).collect()
    }

    fn played(recording: &Recording) -> Vec<(u64, String)> {
        let mut played = Vec::new();
        recording.for_each(|ns, method, target| played.push((ns, format!("{method} {target}")))).unwrap();
        played
    }

    /// Replays a log and compares its requests and their times.
    fn check(lines: &[(u32, &str)], speed: f64, expected: &[(u64, &str)]) {
        let shown: Vec<_> =
            played(&scan(log(lines), speed).unwrap()).into_iter().map(|(ns, what)| (ns / 1_000_000, what)).collect();
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
    fn lines_that_cannot_be_replayed_are_counted_by_reason() {
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
        let summary = *scan(log(&lines), 1.0).unwrap().summary();
        let skipped = SkipCounts { malformed: 2, method: 2, target: 3 };
        let expected = LogSummary { requests: 3, skipped, displaced: 0, start_unix_s: 971_211_301 };
        assert_eq!((summary, skipped.total()), (expected, 7));
    }

    #[test]
    fn formats_may_change_within_a_log() {
        let json =
            r#"{"time":"2000-10-10T20:55:37Z","client":"::1","method":"GET","target":"/b","status":200,"bytes":1}"#;
        let no_request = r#"{"time":"2000-10-10T20:55:37Z","client":"::1","status":503,"bytes":97}"#;
        let text = format!("{}{json}\n{no_request}\n", log(&[(36, "GET /a HTTP/1.1")]));
        let recording = scan(text, 1.0).unwrap();
        assert_eq!((played(&recording)[1].0, recording.summary().skipped.malformed), (1_000_000_000, 1));
    }

    fn check_refused(text: &str, expected: &str) {
        assert_eq!(scan(text, 1.0).unwrap_err().to_string(), expected);
    }

    #[test]
    fn errors_are_named_with_their_place() {
        let none = "the log contains no request that can be replayed";
        check_refused("\n\n", &format!("log:2:1: {none}"));
        check_refused(
            &log(&[(0, "-"), (0, "-"), (1, "PUT / HTTP/1.1")]),
            &format!("log:3:1: {none}; malformed requests: 2; methods with a body that is not in the log: 1"),
        );
        let text = log(&[(0, "GET /a HTTP/1.1")]) + "\nh ä - [x] \"GET / HTTP/1.1\" 200 1\n";
        let format = "not a line of an access log in common or combined format";
        check_refused(&text, &format!("log:3:7: {format}: expected a time such as [10/Oct/2000:13:55:36 -0700]"));
        let format = "not a line of an access log in the JSON format of thalweg serve";
        check_refused("\n{\"client\":3}\n", &format!("log:2:12: {format}: missing field `time`"));
        let error = scan(vec![b'x'; LINE_BYTES_MAX + 1], 1.0).unwrap_err();
        assert!(error.to_string().contains("more than"), "{error}");
    }

    #[test]
    fn one_request_alone_has_its_second() {
        for (speed, length_ns) in [(1.0, 1_000_000_000), (4.0, 250_000_000)] {
            assert_eq!(scan(log(&[(7, "GET /a HTTP/1.1")]), speed).unwrap().length_ns(), length_ns);
        }
        let several = scan(log(&[(7, "GET /a HTTP/1.1"), (7, "GET /b HTTP/1.1")]), 1.0).unwrap();
        assert_eq!(several.length_ns(), 1_000_000_000, "two of one second are half a second apart");
    }

    /// Verifies that requests lie where they belong although there are more of them in a second
    /// than are kept.
    #[test]
    fn a_second_of_any_number_of_requests_is_spread_evenly() {
        let count = 200_000;
        let mut text = log(&[(3, "GET /a HTTP/1.1")]).repeat(count);
        text.push_str(&log(&[(4, "GET /b HTTP/1.1"), (3, "GET /late HTTP/1.1")]));
        let recording = scan(text, 1.0).unwrap();
        let played = played(&recording);
        assert_eq!((played.len(), recording.summary().displaced), (count + 2, 0));
        for (index, (ns, _)) in played.iter().enumerate().take(count) {
            assert_eq!(*ns, index as u64 * 1_000_000_000 / (count as u64 + 1));
        }
        assert_eq!(played[count].1, "GET /late");
        assert_eq!(played[count + 1], (1_000_000_000, "GET /b".to_owned()));
    }

    #[test]
    fn a_log_that_is_shorter_when_it_is_read_again_is_an_error_and_a_longer_one_is_not() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        for (first, second, expected) in [(3, 2, None), (2, 3, Some(2))] {
            let texts = [first, second]
                .map(|count| Arc::<[u8]>::from(log(&[(7, "GET /a HTTP/1.1")]).repeat(count).into_bytes()));
            let opened = AtomicUsize::new(0);
            let open: OpenLog =
                Box::new(move || Ok(Box::new(io::Cursor::new(texts[opened.fetch_add(1, Ordering::Relaxed)].clone()))));
            let recording = Recording::scan("log", open, 1.0, &HEAD, None).unwrap();
            let mut count = 0;
            let result = recording.for_each(|_, _, _| count += 1);
            match expected {
                Some(expected) => assert_eq!((result.is_ok(), count), (true, expected)),
                None => assert!(result.unwrap_err().to_string().contains("1 of its requests")),
            }
        }
    }

    #[test]
    fn the_widest_span_of_years_does_not_overflow() {
        let line = |year| format!("h - - [01/Jan/{year}:00:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n");
        let recording = scan(line("9999") + &line("0001"), 1.0).unwrap();
        assert_eq!((recording.summary().start_unix_s, played(&recording)[1].0), (-62_135_596_800, u64::MAX));
    }
}
