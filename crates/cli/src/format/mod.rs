//! Results in the forms that other tools print and read: httperf's, ApacheBench's, a table, and a log of histograms.
//!
//! Each is made of the result document alone, so that a stored result can be given out in any of them. Which figure stands for
//! which of the other tool's, and where the two differ, is written down in `docs/formats.md`. What is for people is in
//! [`crate::text`].

mod ab;
#[cfg(test)]
pub(crate) mod fixture;
mod hdr;
mod httperf;
mod samples;
mod tsv;

pub use ab::ab;
pub use hdr::hdr_log;
pub use httperf::httperf;
pub use tsv::tsv;

use thalweg_lab::document::Trial;
use thalweg_measure::Summary;

const US_PER_MS: f64 = 1e3;
const BYTES_PER_KB: f64 = 1024.0;

/// Whether a trial says something about the target: a calibration is of the client, a probe is only a hint.
fn measures_target(trial: &Trial) -> bool {
    !matches!(trial.phase.as_str(), "calibrate" | "probe")
}

/// Attempts to connect; those that succeeded where the document is from before attempts were counted.
fn connections(trial: &Trial) -> u64 {
    trial.connections.attempted.max(trial.connections.opened)
}

/// Length of a trial until all that was offered in it had ended, seconds.
fn span_s(trial: &Trial) -> f64 {
    trial.span_s.max(trial.seconds)
}

/// A quotient of which it is said that it is nothing where there is nothing to divide by.
fn ratio(dividend: f64, divisor: f64) -> f64 {
    if divisor > 0.0 { dividend / divisor } else { 0.0 }
}

/// The standard deviation of a sample, which both tools print; the document has that of the recorded values.
fn sample_stddev(summary: &Summary) -> f64 {
    let n = summary.count as f64;
    if n > 1.0 { summary.stddev * (n / (n - 1.0)).sqrt() } else { 0.0 }
}
