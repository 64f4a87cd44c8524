//! Access log and error log: a bounded queue from each loop to one thread, which formats and writes.
//!
//! `record` is what a loop says about a finished response, `feed` its end of the queue, `line` the formats, `sink` the file,
//! `writer` the thread; `error` is the other log, for events. Who finds out what is to be said is not here: see `books`.
//!
//! Nothing that happens to a log stops service. What cannot be taken or written is counted, and said once a minute.

mod error;
mod feed;
mod line;
mod record;
mod sink;
mod writer;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::config::{LogConfig, LogTarget};
use crate::telemetry::metrics::Observed;

pub use error::ErrorLog;
pub(crate) use feed::Feed;
pub(crate) use line::rfc3339;
pub(crate) use record::{End, Record, Request, client_of};

/// Room in the queue for what is not a page.
const NOTES_MAX: usize = 256;

/// How long the log thread may take to write what is left when the server has ended.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What goes to the log thread.
#[derive(Debug)]
pub(crate) enum Message {
    /// Records of a loop.
    Page(feed::Page),
    /// A line of the error log.
    Note(Vec<u8>),
    /// Look at [`Wanted`].
    Nudge,
}

/// What is wanted of the log thread; apart from the queue, so that a full one cannot lose it.
#[derive(Debug, Default)]
struct Wanted {
    reopen: AtomicBool,
    stop: AtomicBool,
    /// Other places to write to, and who waits for the change.
    change: Mutex<Option<(Opened, mpsc::Sender<()>)>>,
}

/// The places that a configuration names, open.
#[derive(Debug)]
pub(crate) struct Opened {
    config: LogConfig,
    access: Option<sink::Sink>,
    errors: sink::Sink,
}

/// What became of the lines of the access log.
#[derive(Debug, Default)]
pub(crate) struct LineCounts {
    pub(crate) written: AtomicU64,
    /// Those that the file did not take. What the queue did not take its loop counts.
    pub(crate) lost: AtomicU64,
}

/// Both logs and their thread.
#[derive(Debug)]
pub(crate) struct Logs {
    control: LogControl,
    error_log: ErrorLog,
    /// Nobody else asks; the lock makes it something that threads may share.
    ended: Mutex<Receiver<()>>,
}

/// Reopens the logs' files, from any thread.
#[derive(Clone, Debug)]
pub(crate) struct LogControl {
    to: SyncSender<Message>,
    wanted: Arc<Wanted>,
}

/// A log that cannot be opened.
#[derive(Debug)]
pub(crate) struct OpenError {
    pub(crate) path: PathBuf,
    pub(crate) error: io::Error,
}

impl Opened {
    /// Opens the files, to go on at their ends.
    ///
    /// # Errors
    /// One cannot be opened.
    pub(crate) fn open(config: &LogConfig) -> Result<Self, OpenError> {
        let open = |target: &LogTarget| {
            sink::Sink::open(target.clone()).map_err(|error| OpenError { path: target.to_string().into(), error })
        };
        let access = config.access.as_ref().map(open).transpose()?;
        Ok(Self { config: config.clone(), access, errors: open(&config.error)? })
    }
}

impl Logs {
    /// Opens the files and starts the thread.
    ///
    /// # Errors
    /// A file cannot be opened, or there can be no thread.
    pub(crate) fn start(config: &LogConfig, loops: usize, observed: Arc<Observed>) -> Result<Self, OpenError> {
        let opened = Opened::open(config)?;
        let (to, from) = mpsc::sync_channel(loops * feed::PAGES + NOTES_MAX);
        let error_log = ErrorLog::new(to.clone(), config.level);
        let wanted = Arc::new(Wanted::default());
        let writer = writer::Writer::new(opened, error_log.clone(), observed, Arc::clone(&wanted));
        let (ends, ended) = mpsc::channel();
        let run = move || {
            // Dropped when the thread ends, whichever way, which whoever waits for it sees.
            let _ends: mpsc::Sender<()> = ends;
            writer.run(&from);
        };
        let spawned = thread::Builder::new().name("log".to_owned()).spawn(run);
        spawned.map_err(|error| OpenError { path: config.error.to_string().into(), error })?;
        Ok(Self { control: LogControl { to, wanted }, error_log, ended: Mutex::new(ended) })
    }

    /// A loop's end of the queue.
    pub(crate) fn feed(&self) -> Feed {
        Feed::new(self.control.to.clone())
    }

    /// Where messages for the operator go.
    pub(crate) fn error_log(&self) -> &ErrorLog {
        &self.error_log
    }

    /// A handle to reopen the files with.
    pub(crate) fn control(&self) -> LogControl {
        self.control.clone()
    }

    /// Writes to other places from now on, in another format. When this returns, all that was handed over before stands in the old ones,
    /// unless their disk stalls.
    pub(crate) fn change(&self, opened: Opened) {
        self.error_log.set_level(opened.config.level);
        let (done, waits) = mpsc::channel();
        *self.control.wanted.change.lock().unwrap_or_else(PoisonError::into_inner) = Some((opened, done));
        self.control.nudge();
        let _ = waits.recv_timeout(LAST_WORDS);
    }

    /// Has everything written that was handed over before, and ends the thread. One that hangs, because its disk does, is
    /// left behind.
    pub(crate) fn stop(&self) {
        self.control.want_stop();
        let _ = self.ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(LAST_WORDS);
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.control.want_stop();
    }
}

impl LogControl {
    /// Closes the files and opens what has their names now.
    pub(crate) fn reopen(&self) {
        self.wanted.reopen.store(true, Relaxed);
        self.nudge();
    }

    fn want_stop(&self) {
        self.wanted.stop.store(true, Relaxed);
        self.nudge();
    }

    fn nudge(&self) {
        // A full queue wakes the thread as well.
        let _ = self.to.try_send(Message::Nudge);
    }
}
