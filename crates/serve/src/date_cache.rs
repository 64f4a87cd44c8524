//! The wall clock as a server needs it: whole seconds, and their text in the `Date` field, made
//! once a second.

use thalweg_sys::Instant;
use thalweg_wire::date::{self, IMF_FIXDATE_BYTES};

/// Returns the seconds since 1970-01-01 UTC at a point of the monotonic clock. The real function
/// ignores the point and reads the kernel's clock; a simulation derives the seconds from its
/// virtual time.
pub(crate) type SecondsAt = fn(Instant) -> u64;

/// The present second and its text.
#[derive(Clone)]
pub(crate) struct DateCache {
    seconds_at: SecondsAt,
    now: Instant,
    second: i64,
    text: [u8; IMF_FIXDATE_BYTES],
}

impl DateCache {
    /// The date cache at `now`.
    pub(crate) fn new(seconds_at: SecondsAt, now: Instant) -> Self {
        let second = to_signed(seconds_at(now));
        Self { seconds_at, now, second, text: date::imf_fixdate(second) }
    }

    /// Moves on to `now`.
    pub(crate) fn advance(&mut self, now: Instant) {
        self.now = now;
        let second = to_signed((self.seconds_at)(now));
        if second != self.second {
            self.second = second;
            self.text = date::imf_fixdate(second);
        }
    }

    /// The point of the monotonic clock that it stands at.
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Seconds since 1970-01-01 UTC.
    pub(crate) fn second(&self) -> i64 {
        self.second
    }

    /// The second as the `Date` field has it.
    pub(crate) fn text(&self) -> &[u8; IMF_FIXDATE_BYTES] {
        &self.text
    }
}

fn to_signed(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}
