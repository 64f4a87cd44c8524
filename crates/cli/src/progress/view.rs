//! The state that a display shows: the running trial, the trials before it, and in a search how
//! far that has come. Drawing it is left to `dashboard` and `line`.

use std::collections::VecDeque;
use std::time::Duration;

use thalweg_lab::trial::describe_load;
use thalweg_load::{Extent, Plan, Snapshot};
use thalweg_measure::limit::{Limit, Statistic};
use thalweg_measure::search::EstimateEnd;
use thalweg_measure::{Interval, Verdict};
use thalweg_report::document::Trial;

use super::history::History;

/// Trials that are kept to be shown.
const TRIALS_MAX: usize = 64;

/// The command whose progress is shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Task {
    /// Its name.
    pub command: &'static str,
    /// The target, without credentials.
    pub target: String,
    /// The limits.
    pub limits: Vec<Limit>,
    /// Whether it makes several trials.
    pub has_trials: bool,
    /// The goal of a search.
    pub goal: Option<SearchGoal>,
}

/// The goal of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SearchGoal {
    /// When the estimate ends.
    pub end: EstimateEnd,
    /// The time that the trials may take in all.
    pub budget: Duration,
}

/// A trial that has ended.
#[derive(Clone, Debug)]
pub(super) struct EndedTrial {
    /// The line that describes it.
    pub line: String,
    /// Its verdict, if it was judged.
    pub verdict: Option<Verdict>,
    /// The rate that it offered, if it was a rate.
    pub rate: Option<f64>,
}

/// The wait of a search for its target's recovery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    /// Recovery probes that have failed.
    pub failed_probes: u32,
    /// The time since the collapse.
    pub elapsed: Duration,
    /// The time that the target has.
    pub patience: Duration,
}

/// How far the running trial has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reached {
    /// Nothing was measured yet: connections are opened.
    Opening,
    /// The load is not measured yet: connections are opened, or the warm-up runs.
    WarmUp,
    /// So much of the measured part is over; the whole, if that is known.
    Time(Duration, Option<Duration>),
    /// So many of all requests were offered.
    Requests(u64, u64),
}

/// The state.
#[derive(Debug)]
pub(super) struct View {
    /// The command.
    pub task: Task,
    /// The phase of the running trial.
    pub phase: String,
    /// Its load in words.
    pub load: String,
    /// Its counters.
    pub seen: Snapshot,
    /// The last seconds.
    pub history: History,
    /// The trials that have ended, the last one at the end.
    pub trials: VecDeque<EndedTrial>,
    /// The interval of the capacity so far.
    pub interval95: Option<[f64; 2]>,
    /// The wait for a recovery, while there is one.
    pub pause: Option<Pause>,
    /// The time since the command's first trial began.
    pub spent: Duration,
    length: Duration,
    requests: Option<u64>,
    has_warmup: bool,
    /// When the trials began that the estimate rests on.
    estimate_from: Option<Duration>,
}

impl View {
    /// The state before the first trial.
    pub(super) fn new(task: Task) -> Self {
        Self {
            task,
            phase: String::new(),
            load: String::new(),
            seen: Snapshot::default(),
            history: History::default(),
            trials: VecDeque::new(),
            interval95: None,
            pause: None,
            spent: Duration::ZERO,
            length: Duration::ZERO,
            requests: None,
            has_warmup: false,
            estimate_from: None,
        }
    }

    /// The limit on the 99th percentile of the response time, if there is one.
    pub(super) fn p99_bound(&self) -> Option<Duration> {
        self.task.limits.iter().filter_map(|limit| limit.bound_on(Statistic::Percentile(99.0))).min()
    }

    /// A trial begins.
    pub(super) fn begin_trial(&mut self, phase: &str, plan: &Plan) {
        self.load = describe_load(plan);
        self.length = plan.schedule_length();
        self.has_warmup = !plan.warmup.is_zero();
        self.requests = match plan.extent {
            Extent::Requests(total) if plan.user.is_none() => Some(total),
            Extent::Requests(_) | Extent::Duration(_) => None,
        };
        self.seen = Snapshot::default();
        self.pause = None;
        if self.phase == CALIBRATION {
            // Its rates are those of another server, and much higher.
            self.history.clear();
        }
        self.phase = phase.to_owned();
        self.history.begin_trial();
        if phase == ESTIMATE_PHASE {
            self.estimate_from.get_or_insert(self.spent);
        }
    }

    /// An interval of the trial has ended.
    pub(super) fn add_interval(&mut self, interval: &Interval) {
        self.history.add(interval);
    }

    /// A trial has ended, which `line` describes.
    pub(super) fn end_trial(&mut self, trial: &Trial, line: String) {
        if self.trials.len() == TRIALS_MAX {
            self.trials.pop_front();
        }
        let verdict = trial.is_judged().then_some(trial.verdict);
        self.trials.push_back(EndedTrial { line, verdict, rate: trial.offered_rate });
    }

    /// How far the running trial has come.
    pub(super) fn reached(&self) -> Reached {
        let whole = Some(self.length).filter(|length| !length.is_zero());
        match (self.requests, whole) {
            _ if self.seen.measured.is_zero() && self.has_warmup => Reached::WarmUp,
            _ if self.seen.measured.is_zero() => Reached::Opening,
            (Some(total), None) => Reached::Requests(self.seen.offered.min(total), total),
            (_, whole) => Reached::Time(whole.map_or(self.seen.measured, |all| self.seen.measured.min(all)), whole),
        }
    }

    /// The relative width of the capacity's interval so far.
    pub(super) fn width(&self) -> Option<f64> {
        self.interval95.map(|[low, high]| (high - low) / (f64::midpoint(low, high)).max(1e-9))
    }

    /// The time that the search still takes. That of an estimate to a width is known once there is
    /// an interval, if it goes on as so far: it narrows with the square root of the time.
    pub(super) fn left(&self) -> Option<Duration> {
        let goal = self.task.goal?;
        let left = match goal.end {
            EstimateEnd::Time(time) => (time + OTHER_PARTS).saturating_sub(self.spent),
            EstimateEnd::Width(width) => {
                let spent = self.spent.checked_sub(self.estimate_from?)?;
                let ratio = self.width()? / width.max(1e-9);
                spent.mul_f64((ratio * ratio - 1.0).clamp(0.0, 1e6))
            }
        };
        Some(left.min(goal.budget.saturating_sub(self.spent)))
    }

    /// The highest rate that passed and the lowest above it that failed, of the trials so far.
    pub(super) fn bracket(&self) -> [Option<f64>; 2] {
        let rates = |verdict: Verdict| {
            self.trials.iter().filter(move |trial| trial.verdict == Some(verdict)).filter_map(|trial| trial.rate)
        };
        let lower = rates(Verdict::Pass).max_by(f64::total_cmp);
        let above = |rate: &f64| lower.is_none_or(|lower| *rate > lower);
        [lower, rates(Verdict::Fail).filter(above).min_by(f64::total_cmp)]
    }
}

/// The phase of the trial against the built-in sink.
const CALIBRATION: &str = "calibrate";
/// About the time that a search takes before its bracket and after its estimate: first estimate,
/// calibration, overload and diagnosis.
const OTHER_PARTS: Duration = Duration::from_secs(15);
/// The phase of the trials that the estimate rests on.
const ESTIMATE_PHASE: &str = "confirm";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::fixture;

    fn ended(view: &mut View, rate: f64, verdict: Verdict) {
        let trial = Trial { offered_rate: Some(rate), verdict, ..fixture::trial() };
        view.end_trial(&trial, String::new());
    }

    #[test]
    fn the_bracket_is_that_of_the_trials_so_far() {
        let mut view = View::new(Task::default());
        assert_eq!(view.bracket(), [None, None]);
        ended(&mut view, 400.0, Verdict::Fail);
        assert_eq!(view.bracket(), [None, Some(400.0)]);
        ended(&mut view, 200.0, Verdict::Pass);
        ended(&mut view, 300.0, Verdict::Fail);
        ended(&mut view, 250.0, Verdict::Invalid);
        assert_eq!(view.bracket(), [Some(200.0), Some(300.0)]);
        // A failure below a rate that passed is no bound.
        ended(&mut view, 350.0, Verdict::Pass);
        assert_eq!(view.bracket(), [Some(350.0), Some(400.0)]);
    }

    #[test]
    fn the_time_left_follows_from_the_width() {
        let goal = SearchGoal { end: EstimateEnd::Width(0.03), budget: Duration::from_secs(600) };
        let mut view = View::new(Task { goal: Some(goal), ..Task::default() });
        assert_eq!(view.left(), None);
        view.estimate_from = Some(Duration::from_secs(20));
        view.spent = Duration::from_secs(60);
        view.interval95 = Some([970.0, 1030.0]);
        // Twice as wide as wanted: four times the time.
        assert!(view.left().is_some_and(|left| left.abs_diff(Duration::from_secs(120)).as_millis() < 10));
        view.interval95 = Some([500.0, 1500.0]);
        assert_eq!(view.left(), Some(Duration::from_secs(540)));
        view.interval95 = Some([990.0, 1010.0]);
        assert_eq!(view.left(), Some(Duration::ZERO));
        // A search to a time knows it from the beginning.
        let goal = SearchGoal { end: EstimateEnd::Time(Duration::from_secs(33)), ..goal };
        let mut view = View::new(Task { goal: Some(goal), ..Task::default() });
        assert_eq!(view.left(), Some(Duration::from_secs(33) + OTHER_PARTS));
        view.spent = Duration::from_secs(60);
        assert_eq!(view.left(), Some(Duration::ZERO));
    }

    #[test]
    fn a_trial_without_a_length_is_followed_by_its_requests() {
        let seen =
            |offered, seconds| Snapshot { offered, measured: Duration::from_secs(seconds), ..Snapshot::default() };
        let mut view = View::new(Task::default());
        assert_eq!(view.reached(), Reached::Opening);
        view.has_warmup = true;
        assert_eq!(view.reached(), Reached::WarmUp);
        view.seen = seen(5, 2);
        assert_eq!(view.reached(), Reached::Time(Duration::from_secs(2), None));
        view.requests = Some(10);
        assert_eq!(view.reached(), Reached::Requests(5, 10));
        view.length = Duration::from_secs(1);
        assert_eq!(view.reached(), Reached::Time(Duration::from_secs(1), Some(Duration::from_secs(1))));
    }
}
