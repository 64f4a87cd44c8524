//! The progress in one line, and a line on a trial that has ended.

use std::time::Duration;

use thalweg_measure::Verdict;
use thalweg_report::document::Trial;
use thalweg_units::display;

use super::dashboard::{errors_of, minutes};
use super::view::{Reached, View};

/// The state in one line. A narrow terminal cuts its end, so that the figures come first.
pub(super) fn line(view: &View) -> String {
    if let Some(pause) = &view.pause {
        return format!(
            "recover: the target fails at a rate that it handled before; {} recovery probes failed, waiting {} of {}",
            pause.failed_probes,
            minutes(pause.elapsed),
            minutes(pause.patience),
        );
    }
    let reached = match view.reached() {
        Reached::Opening => "opening connections".to_owned(),
        Reached::WarmUp => "warm-up".to_owned(),
        Reached::Time(over, None) => minutes(over),
        Reached::Time(over, Some(whole)) => format!("{} of {}", minutes(over), minutes(whole)),
        Reached::Requests(offered, total) => format!("{} of {}", display::count(offered), display::count(total)),
    };
    let figures = view.history.last_second().map_or_else(String::new, |last| {
        let p99 = last
            .times_ns
            .map_or_else(String::new, |[p50, p99]| format!(", p50 {}, p99 {}", display::time(p50), display::time(p99)));
        format!(", good {}{p99}", display::rate(last.per_second(last.good)))
    });
    let interval = view.interval95.map_or_else(String::new, |[low, high]| {
        format!("; capacity {} to {}", display::rate(low).trim_end_matches("/s"), display::rate(high))
    });
    let errors = errors_of(view.seen.errors);
    format!("{reached}{figures}, {errors}; {}: {}{interval}", view.phase, view.load)
}

/// One line on a trial of a search. `p99_bound` is the limit on that figure, if there is one.
/// Without the reasons it fits 60 columns, two of them for a margin.
pub(crate) fn trial_line(trial: &Trial, p99_bound: Option<Duration>) -> String {
    let offered = trial.offered_rate.map_or_else(|| "full speed".to_owned(), display::rate);
    let verdict = if trial.is_judged() { trial.verdict.name() } else { "" };
    let reasons = match trial.verdict {
        _ if !trial.is_judged() => String::new(),
        // Reasons of the client come first, then those of the target.
        Verdict::Invalid => trial.reasons.join("; "),
        Verdict::Pass | Verdict::Fail => trial.reasons.first().cloned().unwrap_or_default(),
    };
    let line = format!(
        "{:<9}{offered:>11} good {:>10} p99 {:>7}  {verdict:<4}  {}",
        trial.phase,
        display::rate(trial.rates.good),
        display::time_within(trial.response_time_us.p99 * 1e3, p99_bound),
        reasons,
    );
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::fixture;

    #[test]
    fn the_line_of_a_trial_fits_60_columns() {
        let check = |phase: &str, rate: f64, p99_us: f64, expected: &str| {
            let mut trial = Trial {
                phase: phase.to_owned(),
                offered_rate: Some(rate),
                verdict: Verdict::Invalid,
                ..fixture::trial()
            };
            trial.rates.good = rate;
            trial.response_time_us.p99 = p99_us;
            trial.reasons.clear();
            let line = trial_line(&trial, None);
            assert_eq!(line, expected);
            assert!(line.chars().count() <= 58, "{line}");
        };
        check("bracket", 5.0, 953.0, "bracket       5.00/s good     5.00/s p99  953 us  invalid");
        check("overload", 2_990_000.0, 12_100.0, "overload 2,990,000/s good 2,990,000/s p99 12.1 ms  invalid");
    }
}
