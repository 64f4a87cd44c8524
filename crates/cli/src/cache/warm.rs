//! `thalweg cache warm`: asks a running server for objects, so that its cache has them. Bodies are
//! read and dropped.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use thalweg_origin::{GroupConfig, Limits, OriginConfig, OriginGroup, OriginKind, Request, Response, Trust};
use thalweg_units::display;
use tokio::runtime;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;
use url::Url;

use super::list::{Counted, Wanted, read_list};
use crate::configuration::server_url;
use crate::exit::{Exit, Failure, remark};
use crate::interrupt::Interrupt;
use crate::log_file::open_once;
use crate::options::CacheWarmOptions;
use crate::output::print;
use crate::terminal;

/// Objects that are read from the list before they are asked for.
const AHEAD_MAX: usize = 64;

/// Hosts that are asked for, each with connections of its own.
const HOSTS_MAX: usize = 256;

/// Failures that the result names; all of them are counted.
const FAILURES_MAX: usize = 100;

/// The interval at which a signal is noticed and the progress is shown.
const TICK: Duration = Duration::from_millis(100);

/// An object of the list, or the reason why a line names none.
type Line = Result<Wanted, String>;

/// Runs the command.
///
/// # Errors
/// An option is wrong, or the list cannot be read.
pub(super) fn warm(options: &CacheWarmOptions) -> Result<ExitCode, Failure> {
    let server = server_url(&options.server).map_err(Failure::usage)?;
    let trust = match &options.cacert {
        None => Trust::System,
        Some(path) => Trust::Pem(
            std::fs::read(path)
                .map_err(|error| Failure::usage(format!("cannot read the authorities {}: {error}", path.display())))?,
        ),
    };
    let interrupt = Interrupt::listen().map_err(Failure::unreachable)?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::unreachable)?;
    let (sender, receiver) = mpsc::channel(AHEAD_MAX);
    let reading = read_in_thread(options, sender)?;
    let work = Arc::new(Work {
        client: Client::new(server.clone(), trust, options.concurrency).map_err(Failure::usage)?,
        lines: tokio::sync::Mutex::new(receiver),
        pace: Pace::new(options.rate.map(|bits| bits / 8)),
        done: Mutex::default(),
    });
    let begun = Instant::now();
    let is_whole = runtime.block_on(work.run(options.concurrency, &interrupt));
    terminal::clear();
    // Bodies under way are dropped.
    drop(runtime);
    // A thread that waits for standard input does not end by itself.
    let read = if is_whole { reading.join().unwrap_or_else(|_| Err("the reader failed".to_owned())) } else { Ok(()) };
    let done = std::mem::take(&mut *work.done.lock().unwrap_or_else(PoisonError::into_inner));
    if done.statusless > 0 && done.statusless == done.objects {
        remark("no response has Cache-Status: these objects are not from a mount with origins");
    }
    let outcome = Outcome { done, server, elapsed: begun.elapsed(), is_whole };
    print(&if options.json { outcome.json()? } else { outcome.text() })?;
    read.map_err(Failure::unreachable)?;
    Ok(outcome.exit().into())
}

/// Reads the list, or the log, on a thread of its own: a pipe may be slow.
fn read_in_thread(
    options: &CacheWarmOptions,
    sender: mpsc::Sender<Line>,
) -> Result<thread::JoinHandle<Result<(), String>>, Failure> {
    let list = options.list.clone();
    let file = open_once(&list)?;
    let (is_log, top) = (options.access_log, options.top);
    let read = move || {
        let unreadable = |error| format!("cannot read {}: {error}", list.display());
        let mut input = file.unpacked().map_err(unreadable)?;
        if is_log {
            let counted = Counted::read(&mut input).map_err(unreadable)?;
            report(&counted, &list)?;
            // The receiver has gone after a signal.
            let _ = counted.ranked(top).into_iter().try_for_each(|wanted| sender.blocking_send(Ok(wanted)));
            return Ok(());
        }
        let mut left = top.unwrap_or(usize::MAX);
        let mut take = |line| {
            let is_wanted = left > 0 && sender.blocking_send(line).is_ok();
            left = left.saturating_sub(1);
            is_wanted
        };
        read_list(&mut input, &mut take).map_err(unreadable)
    };
    thread::Builder::new().name("list".to_owned()).spawn(read).map_err(Failure::unreachable)
}

/// Tells what of a log is not used.
fn report(counted: &Counted, log: &Path) -> Result<(), String> {
    let Counted { lines, malformed, left_out, .. } = *counted;
    if lines > 0 && malformed == lines {
        return Err(format!("{} has no line of an access log: common, combined or JSON", log.display()));
    }
    if malformed > 0 {
        remark(&format!("{} of {} lines are no log lines", display::count(malformed), display::count(lines)));
    }
    if left_out > 0 {
        remark(&format!("{} requests for further objects were not counted", display::count(left_out)));
    }
    Ok(())
}

/// The state that all tasks share.
struct Work {
    client: Client,
    lines: tokio::sync::Mutex<mpsc::Receiver<Line>>,
    pace: Pace,
    done: Mutex<Done>,
}

/// The objects so far.
#[derive(Clone, Debug, Default)]
struct Done {
    /// Objects that were read to their ends, of which some were in the cache before.
    objects: u64,
    hits: u64,
    /// Objects that the cache has not kept.
    unstored: u64,
    /// Objects without Cache-Status.
    statusless: u64,
    bytes: u64,
    /// Failures in all, those that had no response, and the first ones by name.
    failed: u64,
    unanswered: u64,
    failures: Vec<(String, String)>,
}

impl Work {
    /// Asks for all objects; `false` if a signal came before.
    async fn run(self: &Arc<Self>, concurrency: usize, interrupt: &Interrupt) -> bool {
        let mut tasks = JoinSet::new();
        for _ in 0..concurrency {
            let this = Arc::clone(self);
            tasks.spawn(async move { while this.next().await {} });
        }
        let begun = Instant::now();
        loop {
            tokio::select! {
                joined = tasks.join_next() => if joined.is_none() { return true },
                () = sleep(TICK) => {}
            }
            if interrupt.is_wanted() {
                tasks.abort_all();
                return false;
            }
            let Done { objects, bytes, failed, .. } = *self.done();
            let per_second = (bytes as f64 / begun.elapsed().as_secs_f64()) as u64;
            terminal::show_line_at_times(|| {
                let [objects, failed] = [objects, failed].map(display::count);
                let [bytes, per_second] = [bytes, per_second].map(display::bytes);
                format!("{objects} objects, {bytes}, {per_second}/s, {failed} failed")
            });
        }
    }

    /// Asks for the next object; `false` if there is none.
    async fn next(&self) -> bool {
        let Some(line) = self.lines.lock().await.recv().await else { return false };
        let fetched = match &line {
            Ok(wanted) => self.fetch(wanted).await,
            Err(reason) => Err((reason.clone(), true)),
        };
        let mut done = self.done();
        match fetched {
            Ok(status) => {
                done.objects += 1;
                done.hits += u64::from(status == Status::Hit);
                done.unstored += u64::from(status == Status::Unstored);
                done.statusless += u64::from(status == Status::Missing);
            }
            Err((reason, has_response)) => {
                let name = line.map_or_else(|_| String::new(), |wanted| wanted.name());
                done.failed += 1;
                done.unanswered += u64::from(!has_response);
                if done.failures.len() < FAILURES_MAX {
                    done.failures.push((name, reason));
                }
            }
        }
        true
    }

    /// Reads an object: its state in the cache, or why it failed and whether there was a response.
    async fn fetch(&self, wanted: &Wanted) -> Result<Status, (String, bool)> {
        let group = self.client.of(wanted.host.as_deref()).map_err(|reason| (reason, true))?;
        let request = Request::get(wanted.target.as_str());
        let mut response = group.fetch(&request).await.map_err(|error| (error.to_string(), false))?;
        let status = Status::of(&response);
        while let Some(piece) = response.body.next().await {
            let bytes = piece.map_err(|error| (error.to_string(), true))?.len() as u64;
            self.done().bytes += bytes;
            self.pace.pass(bytes).await;
        }
        if response.status != 200 {
            return Err((format!("the server answers {}", response.status), true));
        }
        Ok(status)
    }

    fn done(&self) -> std::sync::MutexGuard<'_, Done> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The server, asked for several hosts.
struct Client {
    server: String,
    trust: Trust,
    concurrency: usize,
    hosts: Mutex<HashMap<Option<String>, Arc<OriginGroup>>>,
}

impl Client {
    fn new(server: String, trust: Trust, concurrency: usize) -> Result<Self, String> {
        let client = Self { server, trust, concurrency, hosts: Mutex::default() };
        // Authorities that are none are found now.
        client.group(None).map(|_| client)
    }

    /// The connections for a host; for that of the server's URL if none is named.
    fn of(&self, host: Option<&str>) -> Result<Arc<OriginGroup>, String> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let key = host.map(str::to_owned);
        if let Some(group) = hosts.get(&key) {
            return Ok(Arc::clone(group));
        }
        if hosts.len() >= HOSTS_MAX {
            return Err(format!("the list names more than {HOSTS_MAX} hosts"));
        }
        let group = Arc::new(self.group(host)?);
        hosts.insert(key, Arc::clone(&group));
        Ok(group)
    }

    fn group(&self, host: Option<&str>) -> Result<OriginGroup, String> {
        let base = Url::parse(&self.server).map_err(|error| error.to_string())?;
        let mut origin = OriginConfig::new(&self.server, OriginKind::Http { base });
        origin.host = host.map(str::to_owned);
        origin.trust = self.trust.clone();
        origin.fields.push(("User-Agent".to_owned(), concat!("thalweg/", env!("CARGO_PKG_VERSION")).to_owned()));
        let (connections_max, idle_max) = (self.concurrency, self.concurrency);
        origin.limits = Limits { connections_max, idle_max, ..Limits::default() };
        OriginGroup::new(vec![origin], GroupConfig::default()).map_err(|error| error.to_string())
    }
}

/// The state of an object by the cache's member of Cache-Status (RFC 9211), which is the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Status {
    Hit,
    Stored,
    Unstored,
    Missing,
}

impl Status {
    fn of(response: &Response) -> Self {
        let mut lines = response.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"cache-status"));
        lines.next_back().map_or(Self::Missing, |(_, value)| Self::parse(&String::from_utf8_lossy(value)))
    }

    fn parse(value: &str) -> Self {
        let own = value.rsplit(',').next().unwrap_or_default();
        let has = |name: &str| own.split(';').skip(1).any(|parameter| parameter.trim() == name);
        match () {
            () if has("hit") => Self::Hit,
            // It has come for another request at the same time.
            () if has("stored") || has("collapsed") => Self::Stored,
            () => Self::Unstored,
        }
    }
}

/// A bound of bytes per second, for all bodies together.
struct Pace {
    bytes_per_second: Option<u64>,
    /// When the bytes that have passed were due.
    due: Mutex<Instant>,
}

impl Pace {
    fn new(bytes_per_second: Option<u64>) -> Self {
        Self { bytes_per_second: bytes_per_second.map(|rate| rate.max(1)), due: Mutex::new(Instant::now()) }
    }

    async fn pass(&self, bytes: u64) {
        let Some(rate) = self.bytes_per_second else { return };
        let now = Instant::now();
        let until = {
            let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
            *due = (*due).max(now) + Duration::from_secs_f64(bytes as f64 / rate as f64);
            *due
        };
        sleep(until - now).await;
    }
}

/// The end of the command.
struct Outcome {
    done: Done,
    server: String,
    elapsed: Duration,
    is_whole: bool,
}

impl Outcome {
    fn exit(&self) -> Exit {
        let Done { objects, failed, unanswered, .. } = self.done;
        match () {
            () if !self.is_whole => Exit::Unreachable,
            () if objects == 0 && failed > 0 && unanswered == failed => Exit::Unreachable,
            () if failed > 0 => Exit::NotMet,
            () => Exit::Met,
        }
    }

    fn text(&self) -> String {
        let Done { objects, hits, unstored, bytes, failed, failures, .. } = &self.done;
        let fetched = objects - hits - unstored;
        let [objects, hits, unstored, fetched, count] =
            [*objects, *hits, *unstored, fetched, *failed].map(display::count);
        let mut text = String::new();
        if !self.is_whole {
            text += "interrupted before the end of the list\n";
        }
        let (bytes, seconds) = (display::bytes(*bytes), self.elapsed.as_secs_f64());
        let plural = if self.done.objects == 1 { "" } else { "s" };
        let written = writeln!(
            text,
            "{objects} object{plural}, {bytes} in {seconds:.1} s: {fetched} fetched, {hits} were there already, {unstored} not \
             stored; {count} failed"
        );
        written.expect("a string takes everything");
        for (name, reason) in failures {
            let separator = if name.is_empty() { "" } else { ": " };
            writeln!(text, "  {name}{separator}{reason}").expect("a string takes everything");
        }
        if let Some(more) = failed.checked_sub(failures.len() as u64).filter(|more| *more > 0) {
            writeln!(text, "  and {} more", display::count(more)).expect("a string takes everything");
        }
        text
    }

    fn json(&self) -> Result<String, Failure> {
        let Done { objects, hits, unstored, bytes, failed, failures, .. } = &self.done;
        let failures = failures.iter().map(|(name, reason)| json!({ "name": name, "reason": reason }));
        let document = json!({
            "schema": "thalweg.cache/1", "server": self.server, "objects": objects, "bytes": bytes,
            "fetched": objects - hits - unstored, "hits": hits, "unstored": unstored, "failed": failed,
            "failures": failures.collect::<Vec<_>>(), "seconds": self.elapsed.as_secs_f64(), "complete": self.is_whole,
        });
        Ok(serde_json::to_string_pretty(&document).map_err(Failure::unreachable)? + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_member_of_cache_status_is_the_server_s() {
        for (value, status) in [
            ("thalweg; hit; ttl=5", Status::Hit),
            ("thalweg;hit", Status::Hit),
            ("other; hit, thalweg; fwd=miss; stored", Status::Stored),
            ("other; hit, thalweg; fwd=miss", Status::Unstored),
            ("thalweg; fwd=partial; stored; collapsed", Status::Stored),
        ] {
            assert_eq!(Status::parse(value), status, "{value}");
        }
    }

    #[test]
    fn the_exit_code_tells_whether_anything_failed() {
        let outcome = |objects, failed, unanswered, is_whole| {
            let done = Done { objects, failed, unanswered, ..Done::default() };
            Outcome { done, server: String::new(), elapsed: Duration::ZERO, is_whole }.exit()
        };
        assert_eq!(outcome(0, 0, 0, true), Exit::Met);
        assert_eq!(outcome(3, 0, 0, true), Exit::Met);
        assert_eq!(outcome(3, 1, 1, true), Exit::NotMet);
        assert_eq!(outcome(0, 2, 1, true), Exit::NotMet);
        assert_eq!(outcome(0, 2, 2, true), Exit::Unreachable);
        assert_eq!(outcome(3, 0, 0, false), Exit::Unreachable);
    }
}
