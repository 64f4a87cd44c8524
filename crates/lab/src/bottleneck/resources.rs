//! Descriptors and local ports that the client lacked.

use thalweg_measure::Outcome;
use thalweg_report::document::{Finding, LimitedBy, Strength, Trial};
use thalweg_units::display;

use super::trials::{Selection, rate_of};

const KIND: &str = "resources";

pub(super) fn findings(selection: &Selection<'_>) -> Vec<Finding> {
    let lacked = |outcome: Outcome, what: &str, cause: &str| {
        let lacking = |trial: &&&Trial| trial.outcomes.count(outcome) > 0;
        let trial = selection.shortfalls.iter().find(lacking)?;
        let count = trial.outcomes.count(outcome);
        let sentence = format!(
            "the client had no {what} left for {} requests at {}",
            display::count(count),
            display::rate(rate_of(trial))
        );
        let strength = if selection.client_decides { Strength::Proves } else { Strength::Supports };
        Some(Finding::of(LimitedBy::Client, strength, KIND, sentence).caused_by(cause).figure("requests", count as f64))
    };
    let descriptors = lacked(Outcome::NoDescriptor, "file descriptor", "client's descriptors");
    let ports = lacked(Outcome::NoAddress, "local port", "client's ports");
    [descriptors, ports].into_iter().flatten().collect()
}
