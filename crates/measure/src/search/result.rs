//! The result of a search, from the trials so far.

use super::drift::{self, Drift};
use super::end_reason::EndReason;
use super::recovery::Collapse;
use super::state::{BRACKET, ESTIMATE, Search};
use super::step::{SearchResult, USUAL_WIDTH};
use super::threshold::Estimate;

impl Search {
    /// The result of all trials so far. Where a search ran out of time, a bound that the final goal
    /// lacks is taken from the bracket, and is marked as unconfirmed.
    ///
    /// Of a target that has not recovered nothing counts that was measured after its overload.
    pub(super) fn result(&self, cut_short: Option<EndReason>) -> SearchResult {
        let search = self.without_damage();
        let answer = search.answer_by_loads(cut_short);
        // The trials under overload come after the estimate, which has its bounds.
        let damaged = search.collapse.filter(|collapse| collapse.recovery_s.is_none() && search.closing.is_none());
        let Some(collapse) = damaged else { return answer };
        let answer = SearchResult { estimate: search.between(&collapse), ..answer };
        // One failure need not decide a load, but this one has changed the target.
        let upper = answer.upper_bound.map_or(collapse.overload, |upper| upper.min(collapse.overload));
        let held = Some(collapse.held).filter(|held| *held < upper);
        let lower = answer.lower_bound.filter(|lower| *lower < upper).or(held);
        SearchResult {
            lower_bound: lower,
            lower_confirmed: answer.lower_confirmed && answer.lower_bound == lower,
            goodput: lower.and_then(|lower| search.goodput_at(lower)),
            upper_bound: Some(upper),
            upper_confirmed: answer.upper_confirmed && answer.upper_bound == Some(upper),
            ..answer
        }
    }

    /// The estimate of a target that has collapsed for good: between the highest load that it had
    /// carried, less what a queue may hide, and the load that was too much.
    fn between(&self, collapse: &Collapse) -> Option<Estimate> {
        let held = self.history.iter().filter(|past| past.trial.rate == collapse.held).map(|past| past.trial.duration);
        let hidden = held.max().map_or(0.0, |length| self.plan.build_up(length));
        let (low, high) = (collapse.held * (1.0 - hidden), collapse.overload);
        (low < high).then(|| Estimate { threshold: (low * high).sqrt(), interval95: [low, high], spread: 0.0 })
    }

    pub(super) fn answer_by_loads(&self, cut_short: Option<EndReason>) -> SearchResult {
        let (confirmed, earlier) = (self.bounds(ESTIMATE), self.bounds(BRACKET));
        let above = |rate: &f64| confirmed.lower.is_none_or(|lower| *rate > lower);
        let upper = confirmed.upper.or(earlier.upper.filter(above));
        let below = |rate: &f64| upper.is_none_or(|upper| *rate < upper);
        let lower = confirmed.lower.or(earlier.lower.filter(below));
        let ended = self.end_reason(cut_short);
        let limited_by_client = ended == EndReason::ClientCeiling || confirmed.client.is_some();
        let (estimate, drift) = self.estimate_with_drift();
        SearchResult {
            lower_bound: lower,
            lower_confirmed: confirmed.lower.is_some(),
            goodput: lower.and_then(|lower| self.goodput_at(lower)),
            upper_bound: upper,
            upper_confirmed: confirmed.upper.is_some(),
            estimate: estimate.filter(|_| !matches!(ended, EndReason::ClientCeiling | EndReason::LowestRate)),
            drift,
            overload: self.closing.as_ref().map_or_else(Vec::new, |closing| closing.points.clone()),
            recovered: self.closing.as_ref().and_then(|closing| closing.recovered),
            to_usual_width_s: self.time_to(USUAL_WIDTH).map(|time| time.as_secs_f64()),
            estimate_trial: self.goals[ESTIMATE].trial,
            samples_wanted: self.plan.samples_wanted(),
            limited_by_client,
            ended,
            collapse: self.collapse.filter(Collapse::is_lasting),
            contradicted: upper.and_then(|upper| self.contradicting(upper)),
            trials: self.trials,
            loads: self.loads.iter().map(|load| load.judged(&self.goals[ESTIMATE])).collect(),
            spent_s: self.spent.as_secs_f64(),
        }
    }

    /// Why the search ends. Where only the trials under overload were cut short by the budget, the
    /// estimate had already ended.
    fn end_reason(&self, cut_short: Option<EndReason>) -> EndReason {
        match (cut_short, &self.closing) {
            (None | Some(EndReason::BudgetSpent | EndReason::TrialsSpent), Some(closing)) => closing.ended,
            (Some(reason), _) => reason,
            (None, None) => self.natural_end(),
        }
    }

    /// The estimate, widened by a drift.
    fn estimate_with_drift(&self) -> (Option<Estimate>, Option<Drift>) {
        let Some(estimate) = self.estimate() else { return (None, None) };
        let trials: Vec<_> = self.evidence().into_iter().filter(|trial| trial.is_full).collect();
        let drift = drift::seen(&trials, self.allowed());
        (Some(drift.map_or(estimate, |drift| drift.widen(estimate))), drift)
    }

    fn goodput_at(&self, rate: f64) -> Option<f64> {
        let trials = || self.goodputs.iter().filter(|(at, _, _)| *at == rate);
        let seconds: f64 = trials().map(|(_, length, _)| length.as_secs_f64()).sum();
        let good: f64 = trials().map(|(_, length, goodput)| length.as_secs_f64() * goodput).sum();
        (seconds > 0.0).then(|| good / seconds)
    }
}
