//! The progress line on a terminal. Nothing is drawn if stderr is no terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use thalweg_lab::document::Trial;
use thalweg_lab::trial::{Watcher, describe_load};
use thalweg_load::{Plan, Snapshot};
use thalweg_measure::Verdict;
use thalweg_measure::limit::{Limit, Statistic};
use thalweg_units::display;

use crate::exit::remark;
use crate::interrupt::Interrupt;

/// A line that follows the running trial; in a search each finished trial leaves a line behind.
#[derive(Debug)]
pub struct Line {
    bar: ProgressBar,
    interrupt: Interrupt,
    keep_trials: bool,
    p99_bound: Option<Duration>,
    phase: String,
    load: String,
    seconds: f64,
    /// The interval of the capacity so far, in words.
    interval: String,
}

impl Line {
    /// A line for a single trial, or for a search that keeps the lines of its trials.
    pub fn new(interrupt: Interrupt, keep_trials: bool, limits: &[Limit]) -> Self {
        let bar = ProgressBar::new_spinner();
        bar.set_style(ProgressStyle::with_template("{spinner} {wide_msg}").expect("a valid template"));
        let p99 = Statistic::Percentile(99.0);
        let p99_bound = limits.iter().filter_map(|limit| limit.bound_on(p99)).min();
        Self {
            bar,
            interrupt,
            keep_trials,
            p99_bound,
            phase: String::new(),
            load: String::new(),
            seconds: 0.0,
            interval: String::new(),
        }
    }

    /// Removes the line.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Watcher for Line {
    fn on_trial(&mut self, phase: &str, plan: &Plan) {
        self.phase = phase.to_owned();
        self.load = describe_load(plan);
        self.seconds = plan.schedule_length().as_secs_f64();
    }

    fn on_progress(&mut self, seen: Snapshot, elapsed: Duration) {
        let Self { phase, load, seconds, interval, .. } = self;
        let elapsed = elapsed.as_secs_f64();
        let of = if *seconds > 0.0 { format!(" of {seconds:.0}") } else { String::new() };
        self.bar.set_message(format!(
            "{phase}: {load}, {elapsed:.0}{of} s, {} good, {} errors, {} in flight on {} connections{interval}",
            display::count(seen.good),
            display::count(seen.errors),
            display::count(seen.offered.saturating_sub(seen.good + seen.errors)),
            display::count(seen.connections),
        ));
        self.bar.tick();
    }

    fn on_pause(&mut self, failed_probes: u32, elapsed: Duration, patience: Duration) {
        self.bar.set_message(format!(
            "recover: the target fails at a rate that it handled before; {failed_probes} recovery probes failed, \
             waiting {:.0} of {:.0} s",
            elapsed.as_secs_f64(),
            patience.as_secs_f64()
        ));
        self.bar.tick();
    }

    fn on_warning(&mut self, warning: &str) {
        self.bar.suspend(|| remark(&format!("warning: {warning}")));
    }

    fn on_estimate(&mut self, [low, high]: [f64; 2]) {
        self.interval = format!("; capacity {} to {}", display::rate(low).trim_end_matches("/s"), display::rate(high));
    }

    fn on_judged(&mut self, trial: &Trial) {
        if self.keep_trials {
            self.bar.println(trial_line(trial, self.p99_bound));
        }
    }

    fn wants_stop(&self) -> bool {
        self.interrupt.is_wanted()
    }
}

/// One line on a trial of a search. `p99_bound` is the limit on that figure, if there is one.
pub fn trial_line(trial: &Trial, p99_bound: Option<Duration>) -> String {
    let offered = trial.offered_rate.map_or_else(|| "full speed".to_owned(), display::rate);
    let verdict = match trial.verdict {
        _ if !trial.is_judged() => "",
        Verdict::Pass => "pass",
        Verdict::Fail => "fail",
        Verdict::Invalid => "invalid",
    };
    let reasons = match trial.verdict {
        _ if !trial.is_judged() => String::new(),
        // Reasons of the client come first, then those of the target.
        Verdict::Invalid => trial.reasons.join("; "),
        Verdict::Pass | Verdict::Fail => trial.reasons.first().cloned().unwrap_or_default(),
    };
    let line = format!(
        "{:<10} {offered:>12}  good {:>12}  p99 {:>9}  {verdict:<8} {}",
        trial.phase,
        display::rate(trial.rates.good),
        display::time_within(trial.response_time_us.p99 * 1e3, p99_bound),
        reasons,
    );
    line.trim_end().to_owned()
}
