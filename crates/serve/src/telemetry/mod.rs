//! Telemetry: what loops count and record, the logs that are written from it, and the status
//! listener that shows it.
//!
//! * [`counters`]: the totals of a loop, and [`registry`]: the counters of mounts, caches and logs,
//!   published by loops and read by any thread.
//! * [`accounting`]: a loop's records of its responses, to be written by the log thread ([`log`]).
//! * [`record`]: the record itself, a few bytes; [`downloads`]: statistics that the log thread
//!   makes from the stream of records.
//! * [`metrics`]: the figures as a page, as JSON and as metrics, and the listener that shows them.
//!
//! Loops count for themselves and publish once per wake-up; readers add up. Nothing here decides
//! what a server does.

pub(crate) mod accounting;
pub(crate) mod counters;
pub(crate) mod downloads;
pub(crate) mod log;
pub(crate) mod metrics;
pub(crate) mod record;
pub(crate) mod registry;
pub(crate) mod timestamp;
