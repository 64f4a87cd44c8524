//! Recordings: access logs as load, each request at the time that the log says.
//!
//! A log is read twice, each time line by line with bounded memory. First as a whole
//! ([`Recording::scan`]), which finds its errors, the number of its requests and their length in
//! time; then while they are sent ([`Feeder`](super::Feeder)). Opening and unpacking the file is
//! the caller's; the formats are read by `thalweg_formats`.

use std::fmt;
use std::fmt::Write as _;
use std::io::{self, BufRead};
use std::sync::Arc;
use std::time::Duration;

use thalweg_formats::access_log::{LogFault, LoggedRequest, VIRTUAL_HOST, push_sendable};
use thalweg_formats::log_format::{self, Detected, LogFormat, LogReader};
use thalweg_wire::target::Target;
use thalweg_wire::{Method, Version};

use super::clock::{self, Clock};
use super::order::{Logged, OrderedRequest, Window};
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
    orders: ReplayOrders,
    detected: Option<Detected>,
    bad_lines: Vec<String>,
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

/// How a log is read and replayed.
#[derive(Clone, Debug)]
pub struct ReplayOrders {
    /// So many times as fast as it was logged.
    pub speed: f64,
    /// The format; `None`: found by the first lines.
    pub format: Option<LogFormat>,
    /// Longer pauses between two requests are shortened to this, in time of the log.
    pub gap_max: Option<Duration>,
    /// Every line has to be one of the format.
    pub strict: bool,
}

impl ReplayOrders {
    /// All at the speed given, and in whichever format it is.
    pub fn at_speed(speed: f64) -> Self {
        Self { speed, format: None, gap_max: None, strict: false }
    }
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
    /// Pauses that were shortened, and by how long in all.
    pub pauses_shortened: u64,
    /// How long they were beyond that.
    pub shortened: Duration,
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
    /// It was meant for a proxy: a whole URL in the place of a path, or CONNECT.
    pub proxy: u64,
    /// The line is none of the log's format.
    pub format: u64,
}

impl SkipCounts {
    /// How many there are.
    pub fn total(&self) -> u64 {
        self.malformed + self.method + self.target + self.proxy + self.format
    }

    /// Each count with its reason in words.
    pub fn reasons(&self) -> [(u64, &'static str); 5] {
        [
            (self.malformed, "malformed requests"),
            (self.method, "methods with a body that is not in the log"),
            (self.target, "invalid targets"),
            (self.proxy, "requests to a proxy"),
            (self.format, "lines of another format"),
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
    /// Reads a log as a whole, which is called `file` in messages. With a table, a response must be
    /// what that says of its target. Lines of another format than the log's are left out.
    ///
    /// # Errors
    /// That nothing can be replayed, a check of a target that is never requested, or that the log
    /// cannot be read; if every line has to be one, the first that is none.
    ///
    /// # Panics
    /// The speed is not positive and finite.
    pub fn scan(
        file: &str,
        open: OpenLog,
        orders: &ReplayOrders,
        head: &ReplayHead<'_>,
        mut table: Option<CheckTable>,
    ) -> Result<Self, ReadError> {
        assert!(orders.speed > 0.0 && orders.speed.is_finite(), "the speed is a positive number");
        let mut templates = Templates::new(head.authority, head.version, head.fields);
        for (number, method) in METHODS.into_iter().enumerate() {
            let made = templates.number(method, &[]);
            assert_eq!(made.map_err(|error| InputError::new(file, 1, 1, error.to_string()))?, number);
        }
        let (format, detected) = match &orders.format {
            Some(format) => (format.clone(), None),
            None => detect(file, open()?).map(|detected| (detected.format.clone(), Some(detected)))?,
        };
        let (mut summary, mut crowded) = (LogSummary::default(), Vec::<(i64, u64)>::new());
        let (mut clock, mut last) = (Clock::new(orders.gap_max), None);
        let mut walk = Walk::new(file, &format, orders.strict);
        let displaced = walk.all(open()?, usize::MAX, &mut |placed: OrderedRequest<'_>| {
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
            last = Some((clock, OrderedRequest { target: b"", ..placed }));
            clock.due_ns(&placed, placed.count);
            Ok::<_, ReadError>(())
        })?;
        let Walk { lines, skipped, bad_lines, .. } = walk;
        let Some((mut before, request)) = last else {
            return Err(nothing_to_replay(file, lines, &skipped, bad_lines));
        };
        table.as_ref().map_or(Ok(()), CheckTable::ensure_all_asked)?;
        // By now it is known how many requests its second has.
        let last_ns = clock::at_speed(before.due_ns(&request, request.index + 1), orders.speed);
        let (pauses_shortened, shortened) = clock.shortened();
        let summary = LogSummary { skipped, displaced, pauses_shortened, shortened, ..summary };
        Ok(Self {
            file: file.to_owned(),
            open,
            orders: ReplayOrders { format: Some(format), ..orders.clone() },
            detected,
            bad_lines,
            templates,
            table: table.map(Arc::new),
            summary,
            lines,
            last_ns,
            crowded,
        })
    }

    /// The format of the log, if it was found by its first lines.
    pub fn detected(&self) -> Option<&Detected> {
        self.detected.as_ref()
    }

    /// The name of the log's format.
    pub fn format(&self) -> String {
        self.orders.format.as_ref().map_or_else(String::new, ToString::to_string)
    }

    /// The first lines that are none of the log's format, each with its place and fault.
    pub fn bad_lines(&self) -> &[String] {
        &self.bad_lines
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
            0 => clock::at_speed(1_000_000_000, self.orders.speed),
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
        let (mut crowded, mut left) = (self.crowded.iter().peekable(), self.requests());
        let mut clock = Clock::new(self.orders.gap_max);
        let mut give_placed = |placed: OrderedRequest<'_>| {
            while crowded.next_if(|(second, _)| *second < placed.second).is_some() {}
            let known = crowded.peek().filter(|(second, _)| *second == placed.second);
            let count = known.map_or(placed.count, |(_, count)| *count);
            let offset_ns = clock::at_speed(clock.due_ns(&placed, count), self.orders.speed);
            let check = self.table.as_ref().and_then(|table| table.get(placed.target));
            if left == 0 {
                // The file holds another log by now, which is longer.
                return Err(Stop::Enough);
            }
            left -= 1;
            let request = RecordedRequest { template: usize::from(placed.method), target: placed.target, check };
            if give(offset_ns, request) { Ok(()) } else { Err(Stop::Enough) }
        };
        let format = self.orders.format.as_ref().expect("a log that was scanned has a format");
        let walked = (self.open)().map_err(|error| Stop::Read(error.into())).and_then(|source| {
            Walk::new(&self.file, format, false).all(source, self.lines, &mut give_placed).map(drop)
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

/// The format of a log by its first lines.
fn detect(file: &str, source: Box<dyn BufRead + Send>) -> Result<Detected, ReadError> {
    const LINES: usize = 200;
    const BYTES_MAX: usize = 4 << 20;
    let mut lines = Lines::new(file, source);
    let (mut first, mut bytes) = (Vec::new(), 0);
    // A line that is too long is found later on, with its place.
    while first.len() < LINES && bytes < BYTES_MAX {
        match lines.next() {
            Ok(Some(line)) => {
                bytes += line.bytes.len();
                first.push(line.bytes.to_vec());
            }
            Ok(None) | Err(ReadError::Input(_)) => break,
            Err(error) => return Err(error),
        }
    }
    let first: Vec<&[u8]> = first.iter().map(Vec::as_slice).collect();
    Ok(log_format::detect(&first))
}

/// A way through a log.
struct Walk<'a> {
    file: &'a str,
    reader: LogReader,
    strict: bool,
    skipped: SkipCounts,
    /// The first lines of another format.
    bad_lines: Vec<String>,
    /// Lines that were read.
    lines: usize,
}

/// Lines of another format that are kept.
const BAD_LINES_MAX: usize = 5;

impl<'a> Walk<'a> {
    fn new(file: &'a str, format: &LogFormat, strict: bool) -> Self {
        let reader = LogReader::new(format.clone());
        Self { file, reader, strict, skipped: SkipCounts::default(), bad_lines: Vec::new(), lines: 0 }
    }

    /// Reads so many lines of a log at most, and gives their requests out in their order. How many
    /// came too late for their place.
    fn all<E: From<ReadError>>(
        &mut self,
        source: Box<dyn BufRead + Send>,
        lines_max: usize,
        give: &mut impl FnMut(OrderedRequest<'_>) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut lines = Lines::new(self.file, source);
        let (mut window, mut target) = (Window::default(), String::new());
        // A log that is being written has grown when it is read again.
        while self.lines < lines_max
            && let Some(line) = lines.next()?
        {
            self.lines = line.number;
            let line = Line { bytes: line.bytes.trim_ascii_end(), ..line };
            if line.bytes.is_empty() {
                continue;
            }
            let logged = match self.reader.read(line.bytes) {
                Ok(Some(logged)) => logged,
                Ok(None) => continue,
                Err(fault) => {
                    let error = fault_of(line, &fault, self.reader.format());
                    if self.strict {
                        return Err(ReadError::from(error).into());
                    }
                    self.skipped.format += 1;
                    if self.bad_lines.len() < BAD_LINES_MAX {
                        self.bad_lines.push(error.to_string());
                    }
                    continue;
                }
            };
            if let Some(method) = replayable(&logged.request, &mut self.skipped, &mut target) {
                let (second, fraction_ns) = (logged.time_unix_s, logged.fraction_ns);
                window.push(Logged { second, fraction_ns, method, target: target.as_bytes() }, give)?;
            }
        }
        window.finish(give)?;
        Ok(window.displaced())
    }
}

/// The error of a log without a request: its first line that is none, if there is one.
fn nothing_to_replay(file: &str, lines: usize, skipped: &SkipCounts, bad_lines: Vec<String>) -> ReadError {
    let mut what = "the log contains no request that can be replayed".to_owned();
    for (count, reason) in skipped.reasons().iter().filter(|(count, _)| *count > 0) {
        let _ = write!(what, "; {reason}: {count}");
    }
    if let Some(first) = bad_lines.first() {
        let _ = write!(what, "; the first one: {first}");
    }
    InputError::new(file, lines.max(1), 1, what).into()
}

/// The error of a line that is none of the log's format.
fn fault_of(line: Line<'_>, fault: &LogFault, format: &LogFormat) -> InputError {
    let advice = if *fault == VIRTUAL_HOST { "; --log-format vhost_combined reads such lines" } else { "" };
    line.error(fault.at, format!("not a line of an access log in {format} format: {fault}{advice}"))
}

/// The method's number, and the target written in place of `text`, of a request that can be
/// repeated; otherwise counts the reason.
fn replayable(request: &LoggedRequest<'_>, skipped: &mut SkipCounts, text: &mut String) -> Option<u8> {
    let LoggedRequest::Line { method, target, .. } = request else {
        skipped.malformed += 1;
        return None;
    };
    let Some(number) = METHODS.iter().position(|known| known == method) else {
        *(if *method == "CONNECT" { &mut skipped.proxy } else { &mut skipped.method }) += 1;
        return None;
    };
    text.clear();
    let is_sendable = push_sendable(text, &target.decode());
    match Target::parse(Method::from_name(method), text.as_bytes()) {
        Ok(Target::Origin { .. } | Target::Asterisk) if is_sendable => Some(number as u8),
        Ok(Target::Absolute { .. }) if is_sendable => {
            skipped.proxy += 1;
            None
        }
        _ => {
            skipped.target += 1;
            None
        }
    }
}

#[cfg(test)]
mod tests;
