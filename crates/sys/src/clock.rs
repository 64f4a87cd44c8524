//! The clocks. Nothing outside this crate reads one.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A point on the monotonic clock, in nanoseconds since an arbitrary start (Linux: boot).
///
/// A plain integer, so that a simulation can make its own and so that the hot path subtracts and
/// compares without branches. It is unrelated to calendar time; see [`unix_seconds`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The time now. About 25 ns where the clock source is the TSC.
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        Self(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
    }

    /// The point `ns` nanoseconds after the clock's start.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the clock's start.
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Nanoseconds from `earlier` to `self`; 0 if `earlier` is the later one.
    pub const fn ns_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The point `ns` nanoseconds earlier, saturating at the clock's start.
    pub const fn minus_ns(self, ns: u64) -> Self {
        Self(self.0.saturating_sub(ns))
    }

    /// The point `ns` nanoseconds later, saturating at the end of time.
    pub const fn plus_ns(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        self.plus_ns(u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, rhs: Self) -> Duration {
        Duration::from_nanos(self.ns_since(rhs))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// Seconds since 1970-01-01 UTC, from the coarse clock: what a `Date` field needs, at a tenth of
/// the precise clock's cost.
pub fn unix_seconds() -> u64 {
    u64::try_from(clock_gettime(ClockId::RealtimeCoarse).tv_sec).unwrap_or(0)
}

/// CPU time that all threads of this process have used so far, user and kernel, in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// CPU time that the calling thread has used so far, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// Lets the kernel wake the calling thread within a microsecond of its deadlines, instead of within
/// the 50 us by which it may otherwise delay them to save power.
pub fn wake_precisely() {
    // A kernel that refuses leaves the thread as late as before, which the lag histogram of a run
    // then shows.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1_000));
}
