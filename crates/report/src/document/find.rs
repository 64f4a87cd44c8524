//! The result of a capacity search in the result document.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_measure::search::{Drift, EndReason, OverloadPoint, OverloadShape};
use thalweg_units::display;

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
    /// The capacity: the median of the threshold between rates that pass and rates that fail.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub threshold: Option<f64>,
    /// The interval that holds the threshold with 95 % probability; `null` if no rate passed or
    /// none failed.
    pub interval95: Option<[f64; 2]>,
    /// Relative standard deviation of the threshold from trial to trial.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub spread: Option<f64>,
    /// The movement of the threshold during the search, if the trials show one. The interval covers
    /// the threshold before it and after it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub drift: Option<Drift>,
    /// The searches after restarts of the target, if the interval is taken across them. The bounds
    /// are then those that hold after each restart; the bottleneck and the overload are those of
    /// the last search.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub restarts: Vec<RestartedSearch>,
    /// Seconds of trials that were left out because something disturbed the client.
    #[serde(default)]
    pub lost_s: f64,
    /// Why the search ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ended: Option<EndReason>,
    /// The effect of an overload on the target.
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

    /// The bottleneck in words, with its cause if that is known.
    pub fn bottleneck(&self) -> String {
        match &self.cause {
            Some(cause) => format!("{} ({cause})", self.limit.name()),
            None => self.limit.name().to_owned(),
        }
    }

    /// The collapse that the target has not recovered from.
    pub fn collapsed(&self) -> Option<&Overload> {
        self.overload.as_ref().filter(|overload| overload.has_collapsed() && !overload.recovered)
    }
}

/// The search after one restart of the target.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RestartedSearch {
    /// Highest rate that passed, in requests per second.
    pub lower_bound: Option<f64>,
    /// Lowest rate that failed.
    pub upper_bound: Option<f64>,
    /// The capacity of this process.
    pub threshold: Option<f64>,
    /// Its 95 % interval.
    pub interval95: Option<[f64; 2]>,
    /// Why the search ended.
    pub ended: Option<EndReason>,
    /// Seconds of its trials that were left out.
    pub lost_s: f64,
    /// Position of its first trial in `trials`.
    pub at_trial: usize,
    /// How many trials it has made.
    pub trials: usize,
}

/// The effect of rates above the capacity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overload {
    /// The form of the goodput beyond the capacity.
    pub shape: OverloadShape,
    /// Whether the target carried its load again afterwards.
    pub recovered: bool,
    /// How long that took, seconds, from the end of the overload; 0 if the first look at it passed.
    pub recovery_s: Option<f64>,
    /// The highest rate that passed before, or at which the recovery was looked for.
    pub held_rate: f64,
    /// The rate of the overload; of several, the highest.
    pub overload_rate: f64,
    /// The lowest rate that failed after it, if one did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failed_rate: Option<f64>,
    /// How long the target was given, seconds.
    pub waited_s: f64,
    /// Looks that failed meanwhile: short trials at a rate well below the one that had passed.
    pub failed_looks: u32,
    /// How often the target has collapsed during the search. The figures are those of the longest
    /// recovery.
    pub times: u32,
    /// The trials under overload, ascending by rate.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub points: Vec<OverloadPoint>,
}

impl Overload {
    /// Whether the target collapsed.
    pub fn has_collapsed(&self) -> bool {
        self.shape == OverloadShape::Collapse
    }

    /// The event as a clause without a full stop.
    pub fn sentence(&self) -> String {
        format!("the target {}", self.predicate())
    }

    /// The same, for a subject that is named before it.
    pub fn predicate(&self) -> String {
        let [held, overload] = [self.held_rate, self.overload_rate].map(display::rate);
        let goodput = self.points.last().map(|point| display::rate(point.good_rate));
        let times = if self.times > 1 { format!(" {} times", self.times) } else { String::new() };
        let what = match (self.shape, self.failed_rate.map(display::rate), goodput) {
            (OverloadShape::Collapse, Some(failed), _) => format!(
                "collapsed{times}: it handled {held} before the overload at {overload}, and then not even {failed}"
            ),
            (OverloadShape::Collapse, None, goodput) => {
                format!("collapsed: offered {overload}, it answered only {}", goodput.unwrap_or_default())
            }
            (OverloadShape::Flat, _, goodput) => {
                format!("kept its goodput under overload: {} when offered {overload}", goodput.unwrap_or_default())
            }
            (OverloadShape::Decline, _, goodput) => {
                format!("lost goodput under overload: {} when offered {overload}", goodput.unwrap_or_default())
            }
        };
        match self.recovery_s {
            Some(seconds) if seconds < 0.05 => format!("{what}; it recovered at once"),
            Some(seconds) if seconds < 9.95 => format!("{what}; it recovered after {seconds:.1} s"),
            Some(seconds) => format!("{what}; it recovered after {seconds:.0} s"),
            None if self.waited_s > 0.0 => format!("{what}; it did not recover within {:.0} s", self.waited_s),
            None => what,
        }
    }
}

impl Find {
    /// Whether the interval of the capacity is too wide to be called one.
    pub fn is_too_wide(&self) -> bool {
        /// The widest that is, relative to the capacity.
        const WIDEST: f64 = 0.15;
        self.interval95.zip(self.threshold).is_some_and(|([low, high], threshold)| high - low > WIDEST * threshold)
    }

    /// The capacity and its interval in words, if there is one.
    pub fn capacity(&self) -> Option<String> {
        let ([low, high], threshold) = (self.interval95?, self.threshold?);
        let (low, high) = (display::rate(low), display::rate(high));
        let low = low.trim_end_matches("/s");
        if self.is_too_wide() {
            return Some(format!("not determinable in this time: {low} to {high} (95 % interval)"));
        }
        let across = if self.restarts.is_empty() { "" } else { " across restarts" };
        Some(format!("{} (95 % interval{across} {low} to {high})", display::rate(threshold)))
    }
}
