//! The clock and the log of the tier, which come from outside.

/// A source of the time, in seconds since 1970.
pub type Clock = fn() -> i64;

/// Takes a message for the log, on any thread, with its topic: of those that may come often, each
/// topic need not be logged every time.
pub type Log = Box<dyn Fn(&'static str, &str) + Send + Sync>;
