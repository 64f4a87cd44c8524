//! The order of the trials: a target that fails at rates that it has carried before.

use thalweg_report::document::{Finding, LimitedBy, Strength};

use super::collected::Evidence;

pub(super) fn findings(seen: &Evidence<'_>) -> Vec<Finding> {
    let lasting = seen.result.collapse.filter(|collapse| collapse.recovery_s.is_none());
    let finding = lasting.map(|collapse| {
        let sentence = "rates that passed before an overload fail after it, and the load is the same".to_owned();
        Finding::of(LimitedBy::Server, Strength::Proves, "history", sentence)
            .caused_by("server has not recovered from an overload")
            .figure("held_rate", collapse.held)
            .figure("failed_rate", collapse.failed)
    });
    finding.into_iter().collect()
}
