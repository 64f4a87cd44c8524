//! Telemetry: accounting of responses, logs and metrics.

pub(crate) mod accounting;
pub(crate) mod counters;
pub(crate) mod log;
pub(crate) mod metrics;
