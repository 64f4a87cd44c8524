//! The request that a line of a log stands for, whatever the log's format.

use std::borrow::Cow;

/// A log's line, as far as it is replayed.
pub(super) struct LogEntry<'a> {
    pub(super) time_unix_s: i64,
    /// Method and target as they came; `None` for what was no request.
    pub(super) request: Option<(Cow<'a, str>, Cow<'a, [u8]>)>,
}
