//! The next step of a search, and its result.

use super::drift::Drift;
use super::end_reason::EndReason;
use super::load::JudgedLoad;
use super::overload::OverloadPoint;
use super::recovery::Collapse;
use super::threshold::Estimate;
use super::trial::{Phase, PhaseCounts};
use serde::Serialize;
use std::time::Duration;

/// The next step of a search.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one value per trial, and one result per search")]
pub enum Step {
    /// A trial to make and to pass to `Search::record`.
    Trial {
        /// Requests per second to offer.
        rate: f64,
        /// Length of the trial, without warm-up.
        duration: Duration,
        /// Its purpose.
        phase: Phase,
        /// How many times the allowed bad requests end the trial, because FAIL is certain; `None`
        /// if it goes on to its end.
        ends_at: Option<f64>,
    },
    /// A pause in which nothing is offered, so that the target can recover;
    /// `Search::record_pause` takes its length.
    Pause(Duration),
    /// The search is over.
    Done(SearchResult),
}

/// The relative width of an interval that most people are content with.
pub const USUAL_WIDTH: f64 = 0.03;

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchResult {
    /// The highest rate that is shown to be carried; `None` if no rate was.
    pub lower_bound: Option<f64>,
    /// Whether the lower bound was judged at the final length.
    pub lower_confirmed: bool,
    /// Goodput at the lower bound: the mean over its valid trials, weighted by length.
    pub goodput: Option<f64>,
    /// The lowest rate that is shown not to be carried; `None` if the client could not offer one.
    pub upper_bound: Option<f64>,
    /// Whether the upper bound was judged at the final length.
    pub upper_confirmed: bool,
    /// The threshold with its 95 % interval; `None` if no rate passed, or none failed.
    pub estimate: Option<Estimate>,
    /// The movement of the threshold during the search, if the trials show one.
    pub drift: Option<Drift>,
    /// The trials under overload, ascending by rate.
    pub overload: Vec<OverloadPoint>,
    /// Whether the target was seen to carry its load again after the overload, and how long that
    /// took in seconds; `None` if it was not tried.
    pub recovered: Option<Option<f64>>,
    /// About the seconds that the estimate takes to [`USUAL_WIDTH`]; `None` if it is not known.
    pub to_usual_width_s: Option<f64>,
    /// Length of the trials that the estimate rests on.
    pub estimate_trial: Duration,
    /// Requests that each of them should have for the limit's quantile.
    pub samples_wanted: Option<u64>,
    /// Whether the client, not the target, keeps the result from being higher or narrower.
    pub limited_by_client: bool,
    /// Why the search ended.
    pub ended: EndReason,
    /// The collapse that the target has shown. If it has not recovered, the bounds are those from
    /// before the collapse.
    pub collapse: Option<Collapse>,
    /// A load that passed once, above what the target was found to carry by a third or more: either
    /// by chance, or because an overload has changed the target in a way that the probes could not
    /// distinguish from chance.
    pub contradicted: Option<f64>,
    /// Trials by phase.
    pub trials: PhaseCounts,
    /// All loads that were tried, ascending.
    pub loads: Vec<JudgedLoad>,
    /// Time spent by the costs of the trials, in seconds.
    pub spent_s: f64,
}
