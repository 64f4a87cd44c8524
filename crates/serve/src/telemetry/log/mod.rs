//! Access log and error log: a bounded queue from each loop to one thread, which formats and
//! writes.
//!
//! `queue` has a loop's end of the queue, `line` the formats, `sink` the file, `writer` the thread;
//! `error` is the other log, for events. The records are made by [`accounting`](super::accounting).
//!
//! Nothing that happens to a log stops service. Lines that cannot be queued or written are counted,
//! and reported once a minute.

mod error;
mod files;
mod line;
mod queue;
mod sink;
mod writer;

use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use self::writer::{Requests, Writer};
use crate::config::LogConfig;
use crate::telemetry::registry::Registry;

pub use error::ErrorLog;
pub(crate) use files::{LogFiles, OpenError};
pub(crate) use queue::{Message, RecordQueue};

/// Messages that the queue holds beside pages.
const NOTES_MAX: usize = 256;

/// The time that the log thread may take to write what is left when the server has ended.
const FINAL_WRITE_TIME_MAX: Duration = Duration::from_secs(5);

/// Both logs and their thread.
#[derive(Debug)]
pub(crate) struct Logs {
    control: LogControl,
    error_log: ErrorLog,
    /// Disconnected when the thread ends. The lock makes it something that threads may share.
    ended: Mutex<Receiver<()>>,
}

/// Reopens the logs' files, from any thread.
#[derive(Clone, Debug)]
pub(crate) struct LogControl {
    to: SyncSender<Message>,
    requests: Arc<Requests>,
}

impl Logs {
    /// Opens the files and starts the thread.
    ///
    /// # Errors
    /// A file cannot be opened, or there can be no thread.
    pub(crate) fn start(config: &LogConfig, loops: usize, registry: Arc<Registry>) -> Result<Self, OpenError> {
        let files = LogFiles::open(config)?;
        let (to, from) = mpsc::sync_channel(loops * queue::PAGES + NOTES_MAX);
        let error_log = ErrorLog::new(to.clone(), config.level);
        let requests = Arc::new(Requests::default());
        let writer = Writer::new(files, error_log.clone(), registry, Arc::clone(&requests));
        let (ends, ended) = mpsc::channel();
        let run = move || {
            // Dropped when the thread ends, whichever way, so that the receiver is disconnected
            // then.
            let _ends: mpsc::Sender<()> = ends;
            writer.run(&from);
        };
        let spawned = thread::Builder::new().name("log".to_owned()).spawn(run);
        spawned.map_err(|error| OpenError { path: config.error.to_string().into(), error })?;
        Ok(Self { control: LogControl { to, requests }, error_log, ended: Mutex::new(ended) })
    }

    /// A loop's end of the queue.
    pub(crate) fn record_queue(&self) -> RecordQueue {
        RecordQueue::new(self.control.to.clone())
    }

    /// The log of messages for the operator.
    pub(crate) fn error_log(&self) -> &ErrorLog {
        &self.error_log
    }

    /// A handle to reopen the files with.
    pub(crate) fn control(&self) -> LogControl {
        self.control.clone()
    }

    /// Writes to other files from now on, in another format. When this returns, all records that
    /// were queued before stand in the old ones, unless their disk stalls.
    pub(crate) fn change(&self, files: LogFiles) {
        self.error_log.set_level(files.config.level);
        let (done, waits) = mpsc::channel();
        *self.control.requests.change.lock().unwrap_or_else(PoisonError::into_inner) = Some((files, done));
        self.control.nudge();
        let _ = waits.recv_timeout(FINAL_WRITE_TIME_MAX);
    }

    /// Has everything written that was queued before, and ends the thread. A thread that hangs,
    /// because its disk does, is left behind.
    pub(crate) fn stop(&self) {
        self.control.request_stop();
        let _ = self.ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(FINAL_WRITE_TIME_MAX);
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.control.request_stop();
    }
}

impl LogControl {
    /// Closes the files and opens those that have their names now.
    pub(crate) fn reopen(&self) {
        self.requests.reopen.store(true, Relaxed);
        self.nudge();
    }

    fn request_stop(&self) {
        self.requests.stop.store(true, Relaxed);
        self.nudge();
    }

    fn nudge(&self) {
        // A full queue wakes the thread as well.
        let _ = self.to.try_send(Message::Nudge);
    }
}
