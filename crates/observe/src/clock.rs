//! The clock of samples: that of the host when the observer started, and from then on one that
//! nobody sets, so that intervals never overlap.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A clock that shows seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    started_unix_s: f64,
}

impl Clock {
    /// A clock set by that of the host.
    pub fn start() -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: Instant::now(), started_unix_s: unix.as_secs_f64() }
    }

    /// When it was started, in seconds since 1970.
    pub const fn started_s(&self) -> f64 {
        self.started_unix_s
    }

    /// Seconds since 1970.
    pub fn unix_s(&self) -> f64 {
        self.at(Instant::now())
    }

    /// The same at another time than now.
    pub fn at(&self, time: Instant) -> f64 {
        match time.checked_duration_since(self.started) {
            Some(after) => self.started_unix_s + after.as_secs_f64(),
            None => self.started_unix_s - self.started.duration_since(time).as_secs_f64(),
        }
    }
}
