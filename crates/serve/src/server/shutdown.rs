//! The shutdown deadline of a server.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use thalweg_sys::Instant;

/// By when all connections have to be gone, in nanoseconds of the monotonic clock. Set by any
/// thread, it has a server drain or stop.
#[derive(Debug)]
pub(crate) struct ShutdownDeadline {
    at_ns: AtomicU64,
    gentle: AtomicBool,
}

impl ShutdownDeadline {
    /// No deadline.
    pub(crate) fn new() -> Self {
        Self { at_ns: AtomicU64::new(u64::MAX), gentle: AtomicBool::new(false) }
    }

    /// Sets the end, unless an earlier one is set already. Connections that wait for a request may
    /// send one more until then.
    pub(crate) fn set_gently(&self, at: Instant) {
        self.gentle.store(true, Relaxed);
        self.set(at);
    }

    /// Sets the end, unless an earlier one is set already.
    pub(crate) fn set(&self, at: Instant) {
        self.at_ns.fetch_min(at.as_ns(), Relaxed);
    }

    /// Whether connections that wait for a request may send one more.
    pub(crate) fn is_gentle(&self) -> bool {
        self.gentle.load(Relaxed)
    }

    /// Whether a deadline is set.
    pub(crate) fn is_set(&self) -> bool {
        self.at().is_some()
    }

    /// The end, if one is set.
    pub(crate) fn at(&self) -> Option<Instant> {
        Some(self.at_ns.load(Relaxed)).filter(|&ns| ns != u64::MAX).map(Instant::from_ns)
    }
}
