//! The result of a capacity search in the result document.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_measure::search::EndReason;

use super::finding::{Finding, LimitedBy};

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Find {
    /// Highest rate that passed, in requests per second; `null` if none did. Of a target that has
    /// collapsed and not recovered it is the highest from before that; then `overload` says so.
    pub lower_bound: Option<f64>,
    /// Lowest rate that failed; `null` if the client's ceiling came first. Of a target that has
    /// collapsed and not recovered it is the rate under which that happened.
    pub upper_bound: Option<f64>,
    /// Whether the lower bound was judged by trials of the final length.
    #[serde(default)]
    pub lower_confirmed: bool,
    /// Whether the upper bound was.
    #[serde(default)]
    pub upper_confirmed: bool,
    /// An interval for the capacity with 95 % coverage. A single search has none, only its bracket,
    /// and says `null`.
    pub interval95: Option<[f64; 2]>,
    /// Why the search ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ended: Option<EndReason>,
    /// The effect of an overload on the target, if it was seen to change it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub overload: Option<Overload>,
    /// The bottleneck: the cause that kept the rate from rising.
    pub limit: LimitedBy,
    /// The more precise cause, such as "server CPU" or "path full", if it is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cause: Option<String>,
    /// The evidence for it, in words.
    pub evidence: Vec<String>,
    /// The same with the figures behind it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub findings: Vec<Finding>,
    /// The client's own ceiling against the built-in sink, requests per second.
    pub client_ceiling: Option<f64>,
    /// Notes on the result: a label such as a bracket wider than requested.
    pub notes: Vec<String>,
}

impl Find {
    /// Whether what was found is a lower bound only, since the client's ceiling came before the
    /// target's.
    pub fn is_lower_bound(&self) -> bool {
        self.lower_bound.is_some() && self.upper_bound.is_none()
    }

    /// The collapse that the target has not recovered from.
    pub fn collapsed(&self) -> Option<&Overload> {
        self.overload.as_ref().filter(|overload| !overload.recovered)
    }
}

/// An overload that has changed the target: it failed afterwards at rates that it had carried
/// before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overload {
    /// The kind of change.
    pub shape: OverloadShape,
    /// Whether it has recovered.
    pub recovered: bool,
    /// How long that took, seconds, from the end of the last trial before the looks to the end of
    /// the look that passed.
    pub recovery_s: Option<f64>,
    /// The highest rate that passed before.
    pub held_rate: f64,
    /// The rate of the overload.
    pub overload_rate: f64,
    /// The lowest rate that failed after it.
    pub failed_rate: f64,
    /// How long the target was given, seconds.
    pub waited_s: f64,
    /// Looks that failed meanwhile: short trials at a rate well below the one that had passed.
    pub failed_looks: u32,
    /// How often the target has collapsed during the search. The figures are those of the longest
    /// recovery.
    pub times: u32,
}

/// The change of a target under an overload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OverloadShape {
    /// It carries less afterwards than it did before.
    Collapse,
}
