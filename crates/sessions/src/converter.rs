//! The conversion: lines in, sessions out.

use thalweg_formats::access_log::{LogFault, LogLine, LoggedRequest, VIRTUAL_HOST, push_sendable};
use thalweg_formats::log_format::{LogFormat, LogReader};
use thalweg_wire::Method;
use thalweg_wire::target::Target;

use crate::method::LoggedMethod;
use crate::open::OpenSessions;
use crate::order::Order;
pub use crate::order::Sink;
use crate::settings::{Client, GAP_S_MAX, Settings};
use crate::summary::{DropCounts, Summary};
use crate::text::{fits, write_session};

/// Makes sessions of the lines of a log.
#[derive(Debug)]
pub struct Converter {
    settings: Settings,
    /// There but while a line of it is looked at.
    reader: Option<Box<LogReader>>,
    open: OpenSessions,
    order: Order,
    /// The latest time in the log so far.
    clock_unix_s: i64,
    /// Lines so far behind that time, without another one between them.
    late_lines: u32,
    begun: u64,
    summary: Summary,
    client: Vec<u8>,
    target: String,
    text: Vec<u8>,
}

/// Requests of a session at most; a client that never pauses would have one session otherwise, and
/// memory for all of it.
const CALLS_MAX: usize = 10_000;

/// Bytes of the buffer for one session's text that are kept for the next one.
const TEXT_BYTES_KEPT: usize = 1 << 20;

/// So many lines one after the other that are further back than a gap are no stragglers: the log
/// goes on at an earlier time.
const LATE_LINES_MAX: u32 = 100;

/// The count of the reason for which a request is dropped.
type Reason = fn(&mut DropCounts) -> &mut u64;

impl Converter {
    /// Begins.
    ///
    /// # Panics
    /// The gap is longer than [`GAP_S_MAX`].
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        assert!(settings.gap_s <= GAP_S_MAX, "gaps are at most a day");
        let is_behind_host = settings.filter.host.is_some() && settings.format == LogFormat::common();
        let format = if is_behind_host { LogFormat::behind_virtual_host() } else { settings.format.clone() };
        Self {
            settings,
            reader: Some(Box::new(LogReader::new(format))),
            open: OpenSessions::default(),
            order: Order::default(),
            clock_unix_s: i64::MIN,
            late_lines: 0,
            begun: 0,
            summary: Summary::default(),
            client: Vec::new(),
            target: String::new(),
            text: Vec::new(),
        }
    }

    /// Takes the next line, without its line feed, and gives out sessions that have ended. An empty
    /// line means nothing.
    ///
    /// # Errors
    /// It is no line of a log; it is counted, and the next one may follow.
    pub fn push(&mut self, line: &[u8], out: Sink<'_>) -> Result<(), LogFault> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let mut reader = self.reader.take().expect("only a panic keeps it");
        let pushed = self.push_read(reader.read(line), out);
        self.reader = Some(reader);
        pushed
    }

    /// Takes a line that was read; none says something about the log.
    fn push_read(&mut self, read: Result<Option<LogLine<'_>>, LogFault>, out: Sink<'_>) -> Result<(), LogFault> {
        let logged = match read {
            Ok(None) => return Ok(()),
            Ok(Some(logged)) => logged,
            Err(fault) => {
                self.summary.lines += 1;
                self.summary.bad_lines += 1;
                return Err(selectable(fault));
            }
        };
        self.summary.lines += 1;
        let is_late = self.advance(logged.time_unix_s, out);
        let taken = self.judge(&logged).and_then(|method| {
            if is_late {
                Err((|counts| &mut counts.late) as Reason)
            } else {
                self.take(logged.time_unix_s, method, out)
            }
        });
        if let Err(reason) = taken {
            *reason(&mut self.summary.dropped) += 1;
        }
        Ok(())
    }

    /// Counts a line that was too long to be read.
    pub fn skip_line(&mut self) {
        self.summary.lines += 1;
        self.summary.bad_lines += 1;
    }

    /// Whether further lines change nothing: there are as many sessions as wanted, and all have
    /// ended.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.settings.sessions_max.is_some_and(|max| self.begun >= max) && self.open.is_empty()
    }

    /// Ends all sessions at the end of the log, and returns the counts.
    pub fn finish(mut self, out: Sink<'_>) -> Summary {
        self.close_all(out);
        self.summary
    }

    /// Moves the time of the log on, and closes sessions whose clients were idle for a gap. Tells
    /// whether the line is so far behind that its session would be closed.
    fn advance(&mut self, unix_s: i64, out: Sink<'_>) -> bool {
        let gap_s = i64::from(self.settings.gap_s);
        let is_late = unix_s < self.clock_unix_s.saturating_sub(gap_s);
        self.late_lines = if is_late { self.late_lines + 1 } else { 0 };
        if self.late_lines > LATE_LINES_MAX {
            self.close_all(out);
            self.summary.steps_back += 1;
            (self.clock_unix_s, self.late_lines) = (unix_s, 0);
            return false;
        }
        if unix_s > self.clock_unix_s {
            self.clock_unix_s = unix_s;
            while let Some(place) = self.open.idlest()
                && unix_s - self.open.get(place).last_unix_s > gap_s
            {
                self.close(place, out);
            }
        }
        is_late
    }

    /// Whether a request is taken, with its client and target written in their places.
    fn judge(&mut self, logged: &LogLine<'_>) -> Result<LoggedMethod, Reason> {
        let filter = &self.settings.filter;
        let ensure = |holds: bool, reason: Reason| if holds { Ok(()) } else { Err(reason) };
        ensure(filter.takes_time(logged.time_unix_s), |counts| &mut counts.time)?;
        let host = logged.virtual_host;
        let is_host = |wanted: &String| host.is_some_and(|host| host.eq_ignore_ascii_case(wanted.as_bytes()));
        ensure(filter.host.as_ref().is_none_or(is_host), |counts| &mut counts.host)?;
        let LoggedRequest::Line { method: name, target, .. } = logged.request else {
            return Err(|counts| &mut counts.malformed);
        };
        let method = LoggedMethod::from_name(name).filter(|&method| filter.methods.contains(method));
        let method = method.ok_or((|counts| &mut counts.method) as Reason)?;
        let contents = self.settings.contents.as_ref();
        ensure(!method.has_body() || contents.is_some(), |counts| &mut counts.body)?;
        ensure(filter.takes_status(logged), |counts| &mut counts.status)?;
        self.target.clear();
        let is_sendable = push_sendable(&mut self.target, &target.decode()) && fits(&self.target, method, contents);
        ensure(is_sendable, |counts| &mut counts.target)?;
        match Target::parse(Method::from_name(name), self.target.as_bytes()) {
            Ok(Target::Origin { path, .. }) => {
                let path = std::str::from_utf8(path).expect("a target is ASCII");
                ensure(filter.takes_path(path), |counts| &mut counts.path)?;
            }
            _ => return Err(|counts| &mut counts.target),
        }
        self.client.clear();
        self.client.extend_from_slice(logged.host);
        if self.settings.client == Client::AddressAndAgent {
            self.client.push(b' ');
            self.client.extend_from_slice(logged.agent.map_or(b"", |agent| agent.raw()));
        }
        ensure(filter.takes_client(&self.client), |counts| &mut counts.sample)?;
        Ok(method)
    }

    /// Puts a request into its client's session.
    fn take(&mut self, unix_s: i64, method: LoggedMethod, out: Sink<'_>) -> Result<(), Reason> {
        let mut place = self.open.find(&self.client);
        if let Some(found) = place {
            let session = self.open.get(found);
            let is_long = session.calls >= CALLS_MAX;
            if is_long || unix_s - session.last_unix_s > i64::from(self.settings.gap_s) {
                self.summary.closed_for_length += u64::from(is_long);
                self.close(found, out);
                place = None;
            }
        }
        let place = match place {
            Some(place) => place,
            None if self.settings.sessions_max.is_some_and(|max| self.begun >= max) => {
                return Err(|counts| &mut counts.beyond);
            }
            None => {
                self.begun += 1;
                self.open.begin(&self.client, self.order.begin(), unix_s)
            }
        };
        self.open.add(place, unix_s, method, &self.target);
        while self.open.bytes() + self.order.bytes() > self.settings.memory_bytes {
            if self.order.release_early(out) {
                continue;
            }
            let Some(idlest) = self.open.idlest() else { break };
            self.summary.closed_for_memory += 1;
            self.close(idlest, out);
        }
        Ok(())
    }

    fn close(&mut self, place: u32, out: Sink<'_>) {
        let session = self.open.remove(place);
        let calls = session.ordered_calls();
        self.text.clear();
        self.text.shrink_to(TEXT_BYTES_KEPT);
        write_session(&calls, &self.settings, &mut self.text, &mut self.summary);
        let times = |call| Some(session.unix_s(call));
        let summary = &mut self.summary;
        summary.displaced += session.displaced;
        summary.first_unix_s = [summary.first_unix_s, calls.first().and_then(times)].into_iter().flatten().min();
        summary.last_unix_s = summary.last_unix_s.max(calls.last().and_then(times));
        let is_behind = self.order.end(session.number, &self.text, out);
        self.summary.out_of_order += u64::from(is_behind);
    }

    fn close_all(&mut self, out: Sink<'_>) {
        while let Some(place) = self.open.idlest() {
            self.close(place, out);
        }
    }
}

/// The fault with what can be done about a virtual host.
fn selectable(fault: LogFault) -> LogFault {
    let expected = "a client's address; this is a virtual host, which --host NAME selects";
    if fault == VIRTUAL_HOST { LogFault { expected, ..fault } } else { fault }
}

#[cfg(test)]
mod tests;
