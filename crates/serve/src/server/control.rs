//! Stopping, draining and handing over, from any thread.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thalweg_sys::{Instant, Waker};

use super::listeners::{Files, Listeners};
use super::shutdown::ShutdownDeadline;
use crate::telemetry::log::LogControl;

/// Longer than any download takes, and short enough for all clocks.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Stops a server and has it reopen its logs, from any thread.
#[derive(Clone, Debug)]
pub struct Control {
    pub(super) shutdown: Arc<ShutdownDeadline>,
    pub(super) logs: LogControl,
    pub(super) wakers: Arc<[Waker]>,
    pub(super) listeners: Arc<Mutex<Listeners>>,
}

impl Control {
    /// Stops accepting, closes idle connections, lets the responses under way end, and closes after
    /// `time` what is still open.
    pub fn drain(&self, time: Duration) {
        self.listeners().close(Files::Remove);
        self.shutdown.set(Instant::now() + time);
        self.wake();
    }

    /// Leaves the listeners to another process, which has them already, and lets the responses
    /// under way end within `time`, or without a time limit. Connections that wait for a request
    /// may send one more.
    pub fn hand_over(&self, time: Option<Duration>) {
        self.listeners().close(Files::Keep);
        self.shutdown.set_gently(Instant::now() + time.unwrap_or(FOR_EVER));
        self.wake();
    }

    pub(super) fn wake(&self) {
        for waker in self.wakers.iter() {
            waker.wake();
        }
    }

    pub(super) fn listeners(&self) -> MutexGuard<'_, Listeners> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes everything at once.
    pub fn stop(&self) {
        self.drain(Duration::ZERO);
    }

    /// Closes the files of the logs and opens what has their names now, after they were moved away.
    pub fn reopen_logs(&self) {
        self.logs.reopen();
    }

    /// Has all loops end, for one of them. The listeners here are left to the threads whose table
    /// they are in.
    pub(super) fn end(&self) {
        self.shutdown.set(Instant::now());
        self.wake();
    }
}
