//! The log thread: takes pages of records and messages, and writes lines.
//!
//! Lines are written when there are many, or when nothing more is waiting: the loops gather for
//! half a second, so a quiet server writes twice a second and a busy one 64 KiB at a time. The
//! statistics that need more than counters are made here too, since here all records come by, away
//! from the loops.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::error::ErrorLog;
use super::files::LogFiles;
use super::line::Lines;
use super::queue::{Message, Page};
use super::sink::{Lost, Sink};
use crate::config::{Level, LogTarget};
use crate::telemetry::record::Record;
use crate::telemetry::registry::Registry;

/// Lines are written when there are so many bytes of them.
const BATCH_BYTES: usize = 64 << 10;

/// The interval at which flags are checked when nothing comes.
const GLANCE: Duration = Duration::from_secs(1);

/// Requests to the log thread; apart from the queue, so that a full one cannot lose them.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pub(super) reopen: AtomicBool,
    pub(super) stop: AtomicBool,
    /// New files to write to, and the channel that reports the change.
    pub(super) change: Mutex<Option<(LogFiles, Sender<()>)>>,
}

/// The log thread's state.
pub(super) struct Writer {
    access: Option<Sink>,
    access_name: String,
    lines: Lines,
    batch: Vec<u8>,
    batch_lines: u64,
    errors: Sink,
    errors_name: String,
    error_log: ErrorLog,
    registry: Arc<Registry>,
    mounts: Vec<Arc<str>>,
    requests: Arc<Requests>,
    /// Lines lost since the file took some.
    losing: u64,
}

impl Writer {
    pub(super) fn new(
        LogFiles { config, access, errors }: LogFiles,
        error_log: ErrorLog,
        registry: Arc<Registry>,
        requests: Arc<Requests>,
    ) -> Self {
        Self {
            access,
            access_name: config.access.as_ref().map(LogTarget::to_string).unwrap_or_default(),
            lines: Lines::new(config.format),
            batch: Vec::new(),
            batch_lines: 0,
            errors,
            errors_name: config.error.to_string(),
            error_log,
            registry,
            mounts: Vec::new(),
            requests,
            losing: 0,
        }
    }

    /// Works until it receives the stop message.
    pub(super) fn run(mut self, from: &Receiver<Message>) {
        loop {
            let first = match from.recv_timeout(GLANCE) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return self.write_batch(),
            };
            // The flag is read before the queue is emptied: messages sent before the flag was set
            // are in the queue by then.
            let stops = self.requests.stop.load(Relaxed);
            for message in first.into_iter().chain(from.try_iter()) {
                self.handle(message);
            }
            self.write_batch();
            self.change();
            if self.requests.reopen.swap(false, Relaxed) {
                self.reopen();
            }
            if stops {
                // Errors at the end are logged as well.
                from.try_iter().for_each(|message| self.handle(message));
                return;
            }
        }
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Page(page) => self.handle_page(page),
            // There is no place for the error of writing an error.
            Message::Note(note) => drop(self.errors.look_after().is_ok() && self.errors.write(&note).is_ok()),
            Message::Nudge => {}
        }
    }

    fn handle_page(&mut self, page: Page) {
        if page.dropped_before > 0 {
            let dropped = page.dropped_before;
            self.error_log.say_once_a_minute(Level::Warning, "log queue", || {
                format!(
                    "{dropped} requests are missing in the access log and the statistics: the log thread fell \
                     behind; check whether its disk stalls"
                )
            });
        }
        self.registry.add_records(&page.bytes);
        if self.access.is_some() {
            let mut records = page.bytes.as_slice();
            while let Some(record) = Record::take(&mut records) {
                self.push_line(&record);
            }
        }
        page.return_empty();
    }

    fn push_line(&mut self, record: &Record<'_>) {
        let mount = usize::from(record.mount);
        if mount >= self.mounts.len() {
            self.mounts = self.registry.mount_labels();
        }
        self.lines.push(&mut self.batch, record, self.mounts.get(mount).map_or("", |label| label));
        self.batch_lines += 1;
        if self.batch.len() >= BATCH_BYTES {
            self.write_batch();
        }
    }

    fn write_batch(&mut self) {
        let Some(access) = self.access.as_mut().filter(|_| !self.batch.is_empty()) else { return };
        let reopened = access.look_after();
        let written = match (access.write(&self.batch), reopened) {
            // The reason for a missing file is more useful than the fact.
            (Err(lost), Err(error)) => Err(Lost { error, ..lost }),
            (written, _) => written,
        };
        let lost = written.as_ref().map_or_else(|lost| lost.lines, |()| 0);
        // A line of an earlier batch, which was taken for written, may turn out to be lost: the sum
        // is right, which wraps.
        self.registry.lines.written.fetch_add(self.batch_lines.wrapping_sub(lost), Relaxed);
        self.registry.lines.lost.fetch_add(lost, Relaxed);
        self.batch.clear();
        self.batch_lines = 0;
        self.losing += lost;
        let name = &self.access_name;
        match written {
            Err(Lost { error, .. }) => self.error_log.say_once_a_minute(Level::Error, "access log", || {
                format!(
                    "cannot write the access log {name}: {error}; {} lines lost so far; serving continues, and \
                     logging resumes when the file can be written again",
                    self.losing
                )
            }),
            Ok(()) if self.losing > 0 => {
                let losing = std::mem::take(&mut self.losing);
                self.error_log.say(
                    Level::Warning,
                    format_args!("the access log {name} can be written again; {losing} lines are missing"),
                );
            }
            Ok(()) => {}
        }
    }

    /// Changes to other files, if that is requested.
    fn change(&mut self) {
        let change = self.requests.change.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((LogFiles { config, access, errors }, done)) = change else { return };
        // A line in the old format, if it is torn, is completed before others follow, which may be
        // in the same file.
        self.access.take().into_iter().for_each(Sink::end);
        std::mem::replace(&mut self.errors, errors).end();
        self.access = access;
        self.access_name = config.access.as_ref().map(LogTarget::to_string).unwrap_or_default();
        self.errors_name = config.error.to_string();
        self.lines = Lines::new(config.format);
        self.losing = 0;
        // The sender may have given up waiting.
        let _ = done.send(());
    }

    fn reopen(&mut self) {
        let advice = "the old file stays in use; check that its folder exists and is writable";
        let logs =
            [(self.access.as_mut(), "access", &self.access_name), (Some(&mut self.errors), "error", &self.errors_name)];
        for (sink, which, name) in logs {
            if let Some(Err(error)) = sink.map(Sink::reopen) {
                self.error_log
                    .say(Level::Error, format_args!("cannot reopen the {which} log {name}: {error}; {advice}"));
            }
        }
    }
}
