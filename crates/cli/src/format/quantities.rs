//! Quantities that several of the other tools' forms print, and their units.

use thalweg_measure::Summary;
use thalweg_report::document::{Document, Trial};
use url::{Position, Url};

pub(super) const US_PER_MS: f64 = 1e3;
pub(super) const BYTES_PER_KB: f64 = 1024.0;

/// Whether a trial measures the target: a calibration measures the client, and a probe at full
/// speed is only a hint.
pub(super) fn measures_target(trial: &Trial) -> bool {
    !matches!(trial.phase.as_str(), "calibrate" | "probe")
}

/// A target in the other tools' form: host, port and path.
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) path: String,
}

impl Address {
    /// The address of the document's target. A stored document may have any text there; one that is
    /// no URL is shown as a host.
    pub(super) fn of(document: &Document) -> Self {
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

/// Attempts to connect; those that succeeded where the document is from before attempts were
/// counted.
pub(super) fn connections(trial: &Trial) -> u64 {
    trial.connections.attempted.max(trial.connections.opened)
}

/// Length of a trial until all that was offered in it had ended, seconds.
pub(super) fn span_s(trial: &Trial) -> f64 {
    trial.span_s.max(trial.seconds)
}

/// A quotient; zero if the divisor is zero.
pub(super) fn ratio(dividend: f64, divisor: f64) -> f64 {
    if divisor > 0.0 { dividend / divisor } else { 0.0 }
}

/// The standard deviation of a sample, which both tools print; the document has that of the
/// recorded values.
pub(super) fn sample_stddev(summary: &Summary) -> f64 {
    let n = summary.count as f64;
    if n > 1.0 { summary.stddev * (n / (n - 1.0)).sqrt() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::fixture;

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
