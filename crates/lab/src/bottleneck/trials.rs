//! The trials that bear on the bottleneck.

use thalweg_measure::Verdict;
use thalweg_measure::search::{EndReason, Phase, SearchResult};
use thalweg_report::document::Trial;

use crate::evidence;

/// Overloads up to this multiple of the upper bound show the bottleneck at that bound; further
/// above, another part may be the first to give way.
const NEAR: f64 = 1.5;
/// The share of the lower bound up to which a target is at ease.
const EASE: f64 = 0.7;

/// Phases of trials that are made when the bounds are known.
const AFTERWARDS: [&str; 2] = ["overload", evidence::PHASE];

/// The trials of a search by their use as evidence.
#[derive(Debug)]
pub(super) struct Selection<'a> {
    /// Trials that failed at or above the upper bound, nearest first. Those that failed below it
    /// met the target in another state.
    pub(super) overloads: Vec<&'a Trial>,
    /// Trials in which the client fell short, lowest rate first.
    pub(super) shortfalls: Vec<&'a Trial>,
    /// Whether the shortfalls decide the result: they ended the search. Otherwise the upper bound
    /// was found with a client that did its part, and its other trials do not matter.
    pub(super) client_decides: bool,
    /// Trials that passed well below the lower bound: the target at ease.
    pub(super) relaxed: Vec<&'a Trial>,
}

impl<'a> Selection<'a> {
    pub(super) fn of(result: &SearchResult, trials: &'a [Trial]) -> Self {
        let judged = |verdict: Verdict| {
            let of_verdict = move |trial: &&Trial| trial.is_judged() && trial.verdict == verdict;
            trials.iter().filter(of_verdict).filter(|trial| trial.phase != Phase::Recover.name())
        };
        let at_least = |rate: f64| move |trial: &&Trial| trial.offered_rate.is_some_and(|offered| offered >= rate);
        let mut overloads: Vec<&Trial> =
            judged(Verdict::Fail).filter(at_least(result.upper_bound.unwrap_or(0.0))).collect();
        overloads.sort_by(|a, b| rate_of(a).total_cmp(&rate_of(b)));
        let far = overloads.first().map_or(0.0, |nearest| rate_of(nearest) * NEAR);
        overloads.retain(|trial| rate_of(trial) <= far);
        // Trials that follow the search did not end it.
        let of_search = |trial: &&Trial| !AFTERWARDS.contains(&trial.phase.as_str());
        let mut shortfalls: Vec<&Trial> = judged(Verdict::Invalid).filter(of_search).collect();
        shortfalls.sort_by(|a, b| rate_of(a).total_cmp(&rate_of(b)));
        let ease = result.lower_bound.unwrap_or(0.0) * EASE;
        let relaxed = judged(Verdict::Pass).filter(|trial| rate_of(trial) <= ease).collect();
        let gave_up = result.upper_bound.is_none() || result.ended == EndReason::Disturbed;
        let client_decides = result.limited_by_client || gave_up;
        Self { overloads, shortfalls, client_decides, relaxed }
    }
}

/// The offered rate, by which open-loop trials are ordered.
pub(super) fn rate_of(trial: &Trial) -> f64 {
    trial.offered_rate.unwrap_or(0.0)
}

/// The length of a trial in seconds, with what was left out of it.
pub(super) fn length_of(trial: &Trial) -> f64 {
    (trial.seconds + trial.lost_s).max(1e-9)
}

/// The trial with the highest value of a figure.
pub(super) fn highest<'a>(trials: &[&'a Trial], figure: impl Fn(&Trial) -> f64) -> Option<(&'a Trial, f64)> {
    let values = trials.iter().map(|trial| (*trial, figure(trial)));
    values.max_by(|a, b| a.1.total_cmp(&b.1))
}
