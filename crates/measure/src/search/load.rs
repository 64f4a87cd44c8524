//! One load of a search: the trials made at it, and what they say by the rules of RFC 9971
//! (MLRsearch).

use super::trial::TrialSummary;
use crate::trial::Verdict;
use serde::Serialize;
use std::time::Duration;

/// The conditions for judging a load, a *search goal* in the words of RFC 9971.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Goal {
    /// A trial of at least this length is full.
    pub(super) trial: Duration,
    /// A load is judged once its full trials make up this much, or earlier if the rest could not
    /// change the outcome.
    pub(super) sum: Duration,
    /// Share of that time that may fail.
    pub(super) exceed_ratio: f64,
    /// Relative width of the bracket at which the goal is reached.
    pub(super) width: f64,
}

/// Sums of seconds that should be equal differ by rounding, and a tie is not an excess.
const ROUNDING: f64 = 1.0 + 1e-9;

/// The state of knowledge about a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadClass {
    /// The target carries it.
    Lower,
    /// The target does not.
    Upper,
    /// Further trials may decide either way.
    Undecided,
    /// Its trials were INVALID again and again: it is beyond the client.
    BeyondClient,
}

/// The trials at one rate.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Load {
    pub(super) rate: f64,
    /// Valid trials: length, and whether it passed.
    valid: Vec<(Duration, bool)>,
    invalid: u32,
    invalid_in_a_row: u32,
    invalid_allowed: u32,
}

impl Load {
    /// A load without trials, of which `invalid_allowed` INVALID ones in a row are repeated.
    pub(super) fn new(rate: f64, invalid_allowed: u32) -> Self {
        Load { rate, valid: Vec::new(), invalid: 0, invalid_in_a_row: 0, invalid_allowed }
    }

    pub(super) fn record(&mut self, trial: &TrialSummary) {
        let passed = match trial.verdict {
            Verdict::Invalid => {
                self.invalid += 1;
                self.invalid_in_a_row += 1;
                return;
            }
            Verdict::Pass => true,
            Verdict::Fail => false,
        };
        self.invalid_in_a_row = 0;
        self.valid.push((trial.duration, passed));
    }

    /// Judges the load on the sums of its trial lengths.
    ///
    /// Full trials count as they are. Of the shorter ones only an excess of failures counts, and
    /// only against the load: a load that fails in short trials fails in long ones too, but passing
    /// a short one proves little. What is still missing from the goal's sum is taken as passed once
    /// and as failed once; the load is decided when both give the same result.
    pub(super) fn class(&self, goal: &Goal) -> LoadClass {
        if self.invalid_in_a_row > self.invalid_allowed {
            return LoadClass::BeyondClient;
        }
        let full = |length: &Duration| *length >= goal.trial;
        let (full_passed, short_passed) = self.seconds(true, full);
        let (full_failed, short_failed) = self.seconds(false, full);
        let balanced = short_passed * goal.exceed_ratio / (1.0 - goal.exceed_ratio);
        let failed = full_failed + (short_failed - balanced).max(0.0);
        let whole = (full_passed + failed).max(goal.sum.as_secs_f64());
        let allowed = whole * goal.exceed_ratio * ROUNDING;
        let lower_if_rest_passes = failed <= allowed;
        let lower_if_rest_fails = whole - full_passed <= allowed;
        match (lower_if_rest_passes, lower_if_rest_fails) {
            (true, true) => LoadClass::Lower,
            (false, false) => LoadClass::Upper,
            _ => LoadClass::Undecided,
        }
    }

    /// Valid trials of the goal's length.
    pub(super) fn full_trials(&self, goal: &Goal) -> usize {
        self.valid.iter().filter(|(length, _)| *length >= goal.trial).count()
    }

    /// The load as the result shows it.
    pub(super) fn judged(&self, goal: &Goal) -> JudgedLoad {
        let any = |_: &Duration| true;
        JudgedLoad {
            rate: self.rate,
            class: self.class(goal),
            trials: self.valid.len() as u32 + self.invalid,
            invalid: self.invalid,
            passed_s: self.seconds(true, any).0,
            failed_s: self.seconds(false, any).0,
        }
    }

    /// Summed seconds of the trials with this result, those that are full and the others.
    fn seconds(&self, passed: bool, full: impl Fn(&Duration) -> bool) -> (f64, f64) {
        let with_result = self.valid.iter().filter(|(_, result)| *result == passed);
        let (full, short): (Vec<Duration>, Vec<Duration>) =
            with_result.map(|(length, _)| *length).partition(|length| full(length));
        (full.iter().sum::<Duration>().as_secs_f64(), short.iter().sum::<Duration>().as_secs_f64())
    }
}

/// A load of the result, with the trials that it was judged on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct JudgedLoad {
    /// Requests per second.
    pub rate: f64,
    /// Its class at the final goal.
    pub class: LoadClass,
    /// Trials made, INVALID ones included.
    pub trials: u32,
    /// INVALID trials.
    pub invalid: u32,
    /// Summed length of trials that passed, in seconds.
    pub passed_s: f64,
    /// Summed length of trials that failed, in seconds.
    pub failed_s: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINAL: Goal =
        Goal { trial: Duration::from_secs(10), sum: Duration::from_secs(30), exceed_ratio: 0.5, width: 0.02 };

    fn class(trials: &[(u64, Verdict)], goal: &Goal) -> LoadClass {
        let mut load = Load::new(100.0, 1);
        for (seconds, verdict) in trials {
            let duration = Duration::from_secs(*seconds);
            load.record(&TrialSummary {
                rate: 100.0,
                duration,
                cost: duration,
                verdict: *verdict,
                ..TrialSummary::EXAMPLE
            });
        }
        load.class(goal)
    }

    #[test]
    fn a_load_is_judged_on_its_sums() {
        use LoadClass::{BeyondClient, Lower, Undecided, Upper};
        use Verdict::{Fail, Invalid, Pass};
        for (trials, expected) in [
            (&[][..], Undecided),
            (&[(10, Pass)], Undecided),
            (&[(10, Pass), (10, Pass)], Lower),
            (&[(10, Fail), (10, Fail)], Upper),
            // One unlucky trial does not decide.
            (&[(10, Fail), (10, Pass)], Undecided),
            (&[(10, Fail), (10, Pass), (10, Pass)], Lower),
            (&[(10, Pass), (10, Fail), (10, Fail)], Upper),
            // Short trials never prove a load, but their failures count unless short passes balance
            // them.
            (&[(1, Pass), (1, Pass)], Undecided),
            (&[(5, Fail), (5, Fail), (5, Fail), (5, Fail)], Upper),
            (&[(5, Fail), (5, Pass), (10, Pass), (10, Pass)], Lower),
            (&[(5, Fail), (10, Pass), (10, Fail), (10, Pass)], Lower),
            // A longer trial counts for more.
            (&[(12, Pass), (10, Pass)], Lower),
            // INVALID has no bearing on the load until it is repeated several times.
            (&[(10, Invalid)], Undecided),
            (&[(10, Invalid), (10, Invalid)], BeyondClient),
            (&[(10, Invalid), (10, Pass), (10, Invalid), (10, Pass)], Lower),
        ] {
            assert_eq!(class(trials, &FINAL), expected, "{trials:?}");
        }
    }

    #[test]
    fn with_twice_its_length_one_pass_decides_and_one_failure_does_not() {
        let goal = Goal { sum: FINAL.trial * 2, ..FINAL };
        assert_eq!(class(&[(10, Verdict::Pass)], &goal), LoadClass::Lower);
        assert_eq!(class(&[(10, Verdict::Fail)], &goal), LoadClass::Undecided);
        assert_eq!(class(&[(10, Verdict::Fail), (10, Verdict::Fail)], &goal), LoadClass::Upper);
        assert_eq!(class(&[(10, Verdict::Fail), (10, Verdict::Pass)], &goal), LoadClass::Lower);
    }

    #[test]
    fn a_single_trial_decides_a_goal_of_its_length() {
        let goal = Goal { sum: FINAL.trial, ..FINAL };
        assert_eq!(class(&[(10, Verdict::Pass)], &goal), LoadClass::Lower);
        assert_eq!(class(&[(10, Verdict::Fail)], &goal), LoadClass::Upper);
    }
}
