//! Times as they stand in files and reports.

use std::time::SystemTime;

use jiff::Timestamp;

/// A time in whole seconds. One beyond the year 9999 is the end of that year.
pub(crate) fn timestamp(time: SystemTime) -> Timestamp {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok()).unwrap_or(Timestamp::MAX)
}
