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

use thalweg_lab::document::{Document, Trial};
use thalweg_measure::Summary;
use url::{Position, Url};

const US_PER_MS: f64 = 1e3;
const BYTES_PER_KB: f64 = 1024.0;

/// Whether a trial says something about the target: a calibration is of the client, a probe is only a hint.
fn measures_target(trial: &Trial) -> bool {
    !matches!(trial.phase.as_str(), "calibrate" | "probe")
}

/// A target as the other tools take it: host, port and path apart.
struct Address {
    host: String,
    port: u16,
    path: String,
}

impl Address {
    /// Of the document's target. A stored document may have anything there; what is no URL is shown as a host.
    fn of(document: &Document) -> Self {
        let target = document.plan.target.as_str();
        let url = Url::parse(target).ok();
        let url = url.as_ref();
        Self {
            host: url.and_then(Url::host_str).unwrap_or(target).to_owned(),
            port: url.and_then(Url::port_or_known_default).unwrap_or(80),
            path: url.map_or("/", |url| &url[Position::BeforePath..Position::AfterQuery]).to_owned(),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_taken_apart_as_the_other_tools_take_them() {
        let mut document = fixture::document(Vec::new());
        for (target, expected) in [
            ("http://127.0.0.1:8080/a.txt?b=1#c", ("127.0.0.1", 8080, "/a.txt?b=1")),
            ("http://[::1]", ("[::1]", 80, "/")),
            ("https://example.org/x", ("example.org", 443, "/x")),
            ("no URL", ("no URL", 80, "/")),
        ] {
            document.plan.target = target.into();
            let Address { host, port, path } = Address::of(&document);
            assert_eq!((host.as_str(), port, path.as_str()), expected, "{target}");
        }
    }
}
