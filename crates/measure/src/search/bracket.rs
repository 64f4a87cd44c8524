//! The first part of a search: short trials that bracket the capacity.

use super::load::LoadClass;
use super::state::{REACH_MAX, Search};

/// The first rate and the second one, as shares of the hint.
const FIRST_OF_HINT: f64 = 0.65;
const NEAR_HINT: f64 = 0.82;
/// The ratio of steps from there on, which grow after so many.
const STEP_NEAR: f64 = 1.07;
const STEPS_NEAR: f64 = 6.0;

/// The loads that matter at one goal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Highest load that passed below every failed one.
    pub(super) lower: Option<f64>,
    /// Lowest load that failed.
    pub(super) upper: Option<f64>,
    /// Lowest load above `lower` that is beyond the client, if it is below `upper`.
    pub(super) client: Option<f64>,
}

/// The decision that the loads tried so far lead to.
pub(super) enum Decision {
    Try(f64),
    GoalReached,
}

impl Search {
    /// The next step towards a bracket.
    pub(super) fn bracket(&mut self) -> Decision {
        let bounds = self.bounds(self.goal);
        if let Some(rate) = self.unfinished(&bounds) {
            return Decision::Try(rate);
        }
        match (bounds.lower, bounds.top()) {
            (None, None) => Decision::Try(self.first_rate()),
            (Some(lower), None) if lower >= self.plan.client_ceiling => Decision::GoalReached,
            (Some(lower), None) => Decision::Try(self.next_above(lower).min(self.plan.client_ceiling)),
            (None, Some(top)) if top <= self.plan.lowest_rate => Decision::GoalReached,
            (None, Some(top)) => Decision::Try((top / self.step_outwards()).max(self.plan.lowest_rate)),
            (Some(lower), Some(top)) if (top - lower) / top <= self.goals[self.goal].width => Decision::GoalReached,
            (Some(lower), Some(top)) => Decision::Try(between(lower, top)),
        }
    }

    /// The last load, if its trials have not decided it and it still matters.
    pub(super) fn unfinished(&self, bounds: &Bounds) -> Option<f64> {
        let load = self.loads.iter().find(|load| Some(load.rate) == self.last_rate)?;
        let matters =
            bounds.lower.is_none_or(|lower| load.rate > lower) && bounds.top().is_none_or(|top| load.rate < top);
        let undecided = load.class(&self.goals[self.goal]) == LoadClass::Undecided;
        (undecided && matters).then_some(load.rate)
    }

    /// The first rate: a part of the hint, or the lowest rate.
    fn first_rate(&self) -> f64 {
        let of_hint = self.plan.hint.filter(|hint| hint.is_finite()).map(|hint| hint * FIRST_OF_HINT);
        of_hint.unwrap_or(self.plan.lowest_rate).clamp(self.plan.lowest_rate, self.plan.client_ceiling)
    }

    /// The next rate above one that is carried. A hint is approached in small steps: an overload
    /// may change the target, and most hints are near the capacity.
    fn next_above(&mut self, lower: f64) -> f64 {
        let Some(hint) = self.plan.hint.filter(|hint| hint.is_finite()) else { return lower * self.step_outwards() };
        let near = hint * NEAR_HINT;
        if lower < near * 0.99 {
            return near.min(lower * REACH_MAX);
        }
        let steps = (lower / near).max(1.0).ln() / STEP_NEAR.ln();
        lower * STEP_NEAR.powf((steps - STEPS_NEAR).max(1.0)).min(REACH_MAX)
    }

    fn step_outwards(&mut self) -> f64 {
        let step = self.reach.min(REACH_MAX);
        self.reach = step * step;
        step
    }

    pub(super) fn bounds(&self, goal: usize) -> Bounds {
        let classes = || self.loads.iter().map(|load| (load.rate, load.class(&self.goals[goal])));
        let is = |wanted: LoadClass| move |(rate, class): (f64, LoadClass)| (class == wanted).then_some(rate);
        let upper = classes().find_map(is(LoadClass::Upper));
        let below_upper = |rate: &f64| upper.is_none_or(|upper| *rate < upper);
        let lower = classes().filter_map(is(LoadClass::Lower)).rfind(below_upper);
        let above_lower = |rate: &f64| lower.is_none_or(|lower| *rate > lower);
        let client = classes().filter_map(is(LoadClass::BeyondClient)).find(above_lower).filter(below_upper);
        Bounds { lower, upper, client }
    }
}

impl Bounds {
    /// The load to stay below, because the client or the target could not carry it.
    pub(super) fn top(&self) -> Option<f64> {
        self.client.or(self.upper)
    }
}

/// The geometric mean, rounded to five digits where that keeps it strictly between: a rate that a
/// person can repeat.
pub(super) fn between(lower: f64, upper: f64) -> f64 {
    let mean = (lower * upper).sqrt();
    let rounded = round(mean);
    if lower < rounded && rounded < upper { rounded } else { mean }
}

/// A rate to five digits.
pub(super) fn round(rate: f64) -> f64 {
    let power = 10_f64.powi(4 - rate.log10().floor() as i32);
    (rate * power).round() / power
}
