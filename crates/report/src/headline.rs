//! The trial that the answer rests on.

use thalweg_measure::Verdict;

use crate::document::{Document, Kind, Trial};

/// The trial that the page shows in full: the one that the answer rests on.
///
/// For a run that is its trial. A suite has none, since its figures rest on many. For a search it
/// is the last confirming trial that passed; failing that, the last trial of the target that
/// passed, and failing that, the last at all.
pub(super) fn headline_trial(document: &Document) -> Option<&Trial> {
    let trials = || document.trials.iter().rev();
    match document.kind {
        Kind::Run => return trials().next(),
        Kind::Suite => return None,
        Kind::Find | Kind::Sweep | Kind::Compare | Kind::Replay => {}
    }
    let of_target = |trial: &&Trial| trial.phase != "calibrate";
    let passed = |trial: &&Trial| trial.verdict == Verdict::Pass;
    trials()
        .find(|trial| trial.phase == "confirm" && passed(trial))
        .or_else(|| trials().filter(of_target).find(|trial| trial.offered_rate.is_some() && passed(trial)))
        .or_else(|| trials().find(of_target))
}
