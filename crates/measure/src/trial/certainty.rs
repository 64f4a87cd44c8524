//! Whether FAIL is certain before a trial has ended, whatever the rest of it might bring.
//!
//! A count that only grows decides: of response times over a limit, of errors, of requests that
//! ended without a response. FAIL is certain once the count is too large even for the number of
//! requests that the whole trial may offer, if all others were perfect. The verdict on the requests
//! so far is then FAIL by the same limit, since they are fewer. PASS is never certain early.

use crate::histogram::rank_of_quantile;
use crate::limit::{Limit, Statistic};

use super::figures::LoopKind;
use super::so_far::{SoFar, threshold_of};
use super::verdict::{INCOMPLETE_MAX, effective_limits, missing_allowed};

/// Decides whether FAIL is certain, against the limits of one trial.
#[derive(Debug, Clone)]
pub struct Certainty {
    limits: Vec<Limit>,
    loop_kind: LoopKind,
    /// Most requests that the whole trial may offer.
    offered_max: u64,
    /// How many times the allowed counts make FAIL certain, at least 1.
    times: f64,
}

impl Certainty {
    /// For a trial with these limits that offers at most `offered_max` requests; `None`: nobody
    /// knows how many.
    pub fn new(limits: &[Limit], loop_kind: LoopKind, offered_max: Option<u64>) -> Self {
        Self { limits: effective_limits(limits), loop_kind, offered_max: offered_max.unwrap_or(u64::MAX), times: 1.0 }
    }

    /// The same for a trial that goes on until its counts are so many times the allowed ones.
    #[must_use]
    pub fn beyond(self, times: f64) -> Self {
        Self { times: times.max(1.0), ..self }
    }

    /// Whether the whole trial fails whatever comes after `so_far`.
    pub fn is_fail(&self, so_far: &SoFar) -> bool {
        let times = self.limits.iter().filter(|limit| threshold_of(limit).is_some());
        let by_time = times.zip(so_far.over).any(|(limit, over)| self.is_time_missed(limit, over, so_far.response_ns));
        by_time || self.limits.iter().any(|limit| self.is_errors_missed(limit, so_far.errors)) || self.lacks(so_far)
    }

    fn is_time_missed(&self, limit: &Limit, over: u64, sum_ns: u64) -> bool {
        /// A histogram's mean takes each value as the middle of its bucket, which is up to a
        /// two-thousandth off.
        const MEAN_MARGIN: f64 = 1.001;
        let Limit::ResponseTime { statistic, bound, .. } = limit else { return false };
        match statistic {
            Statistic::Percentile(percent) => {
                let allowed = self.offered_max - rank_of_quantile(percent / 100.0, self.offered_max);
                over as f64 > self.times * allowed as f64
            }
            Statistic::Max => over > 0,
            Statistic::Mean => {
                let bound_ns = bound.as_nanos() as f64;
                sum_ns as f64 > self.times * bound_ns * MEAN_MARGIN * self.offered_max as f64
            }
        }
    }

    fn is_errors_missed(&self, limit: &Limit, errors: u64) -> bool {
        let Limit::Errors { inclusive, share } = *limit else { return false };
        let observed = errors as f64 / self.times / self.offered_max.max(1) as f64;
        errors > 0 && !(observed < share || (inclusive && observed == share))
    }

    /// Whether too many requests have ended without a response.
    fn lacks(&self, so_far: &SoFar) -> bool {
        let allowed = missing_allowed(&self.limits);
        debug_assert!(allowed >= INCOMPLETE_MAX, "some may always be missing");
        self.loop_kind == LoopKind::Open && so_far.missing as f64 > self.times * allowed * self.offered_max as f64
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::super::so_far::{OverLimits, Thresholds};
    use super::*;
    use crate::interval::IntervalSeries;
    use crate::outcome::{Counts, Outcome};
    use crate::trial::{TrialFigures, Verdict, verdict};

    const MS: u64 = 1_000_000;

    /// A request's end: how, and after how many nanoseconds.
    type End = (Outcome, u64);

    /// Whether the response time of a request that ended so counts.
    fn is_timed(outcome: Outcome) -> bool {
        matches!(outcome, Outcome::Good | Outcome::Timeout)
    }

    /// The figures of a trial whose requests ended so, after which `left` requests still waited.
    fn figures_of(limits: &[Limit], ends: &[End], left: u64) -> TrialFigures {
        let intervals = IntervalSeries::new(1_000_000_000, 600);
        let mut figures = TrialFigures::new(LoopKind::Open, Some(1000.0), Duration::from_secs(1), intervals);
        figures.over_limits = OverLimits::new(Thresholds::of(limits));
        for (outcome, ns) in ends {
            figures.intervals.record_offered();
            let timed = is_timed(*outcome).then_some(*ns);
            timed.into_iter().for_each(|ns| figures.over_limits.record(ns));
            figures.intervals.record_end(*outcome, timed);
            figures.outcomes.record(*outcome);
        }
        let sent = figures.outcomes.total();
        figures.lag.record_n(1000, sent);
        figures.outcomes.record_n(Outcome::NotSent, left);
        figures.held_back = left;
        figures.counts = Counts::of(&figures.outcomes, sent);
        figures
    }

    /// After how many of `ends` FAIL is certain of a trial of at most `offered_max` requests.
    fn certain_after(limits: &[Limit], ends: &[End], offered_max: u64) -> Option<usize> {
        let certainty = Certainty::new(limits, LoopKind::Open, Some(offered_max));
        let (mut over, mut errors, mut missing) = (OverLimits::new(Thresholds::of(limits)), 0, 0);
        let decisive = ends.iter().position(|(outcome, ns)| {
            is_timed(*outcome).then(|| over.record(*ns));
            errors += u64::from(outcome.is_error());
            missing += u64::from(!outcome.is_completed());
            certainty.is_fail(&over.so_far(errors, missing))
        })?;
        let count = decisive + 1;
        assert_eq!(figures_of(limits, &ends[..count], 0).so_far(), over.so_far(errors, missing));
        Some(count)
    }

    fn limits_of(texts: &[&str]) -> Vec<Limit> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn one_request_beyond_what_a_limit_allows_decides() {
        let slow = [(Outcome::Good, 60 * MS); 200];
        let after = |limit| certain_after(&limits_of(&[limit]), &slow, 10_000);
        assert_eq!(after("p99<50ms"), Some(101), "a hundred of 10,000 may be slower");
        assert_eq!(after("p99<=60ms"), None);
        assert_eq!(after("p99<60ms"), Some(101));
        assert_eq!(after("p99.9<50ms"), Some(11));
        assert_eq!(after("max<50ms"), Some(1));
        assert_eq!(after("mean<1ms"), Some(167), "a sixtieth of the requests, and a thousandth for rounding");
        let mut failed = [(Outcome::Reset, 0); 200];
        assert_eq!(certain_after(&[], &failed, 10_000), Some(1), "no errors are allowed");
        assert_eq!(certain_after(&limits_of(&["errors<=0.5%"]), &failed, 10_000), Some(51));
        assert_eq!(certain_after(&limits_of(&["errors<50%"]), &failed, 300), Some(150));
        failed[..100].fill((Outcome::Good, MS));
        assert_eq!(certain_after(&limits_of(&["errors<0.5%"]), &failed, 10_000), Some(150));
    }

    #[test]
    fn a_trial_that_goes_on_ends_at_a_multiple_of_what_is_allowed() {
        let certainty =
            Certainty::new(&limits_of(&["p99<50ms", "errors<1%"]), LoopKind::Open, Some(10_000)).beyond(5.0);
        let over = |count| SoFar { over: [count, 0, 0, 0], ..SoFar::default() };
        let errors = |errors| SoFar { errors, ..SoFar::default() };
        assert!(!certainty.is_fail(&over(500)) && certainty.is_fail(&over(501)));
        assert!(!certainty.is_fail(&errors(499)) && certainty.is_fail(&errors(500)));
    }

    #[test]
    fn nothing_but_the_strictest_limits_decides_a_trial_without_end() {
        let certainty = |limits| Certainty::new(&limits_of(limits), LoopKind::Closed, None);
        let so_far = SoFar { missing: 1 << 40, response_ns: 1 << 50, over: [1 << 40; 4], ..SoFar::default() };
        assert!(!certainty(&["p99<1ms", "mean<1ms"]).is_fail(&so_far));
        assert!(certainty(&["max<1ms"]).is_fail(&so_far));
        assert!(certainty(&["p99<1ms"]).is_fail(&SoFar { errors: 1, ..SoFar::default() }));
    }

    fn any_limits() -> impl Strategy<Value = Vec<Limit>> {
        let texts = ["p50<20ms", "p90<=30ms", "p99<40ms", "p99.9<=50ms", "max<55ms", "mean<15ms", "errors<5%"];
        prop::sample::subsequence(texts.to_vec(), 0..5).prop_map(|texts| limits_of(&texts))
    }

    /// Trials that are fine but for some share of slow, failed and lost requests.
    fn any_ends() -> impl Strategy<Value = Vec<End>> {
        let end = |slow: u32, failed: u32| {
            prop_oneof![
                1000 => (1_u64..20).prop_map(|ms| (Outcome::Good, ms * MS)),
                slow => (20_u64..61).prop_map(|ms| (Outcome::Good, ms * MS)),
                failed => prop::sample::select(vec![
                    (Outcome::Timeout, 60 * MS), (Outcome::Reset, 0), (Outcome::BadStatus, 0),
                ]),
            ]
        };
        (0_u32..500, 0_u32..60)
            .prop_flat_map(move |(slow, failed)| prop::collection::vec(end(slow, failed + 1), 1..600))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

        #[test]
        fn an_early_fail_is_that_of_the_whole_trial(
            limits in any_limits(), ends in any_ends(), spare in 0_u64..50, left in 0_u64..500,
        ) {
            let offered_max = ends.len() as u64 + spare;
            if let Some(count) = certain_after(&limits, &ends, offered_max) {
                let whole = verdict(&figures_of(&limits, &ends, 0), &limits);
                prop_assert_eq!(whole.verdict, Verdict::Fail, "the whole trial: {:?}", whole.reasons);
                let cut = verdict(&figures_of(&limits, &ends[..count], left), &limits);
                prop_assert_eq!(cut.verdict, Verdict::Fail, "the part that was made: {:?}", cut.reasons);
            }
        }
    }
}
