//! A capacity search after each of several restarts of the server. Processes of one program differ,
//! by the placement of their memory and threads for example, so that the interval of one process is
//! narrower than what the next one does. Here it is taken across restarts.

use std::any::Any;
use std::time::Duration;

use thalweg_measure::Verdict;
use thalweg_measure::search::EndReason;
use thalweg_measure::statistics::{MeanInterval, geometric_mean};
use thalweg_report::document::{Find, RestartedSearch};
use thalweg_units::display;

use crate::command::{CommandError, Parameter};
use crate::conclusion::Conclusion;
use crate::environment::ServerSetUp;
use crate::search::{SearchError, SearchSettings, find};
use crate::trial::{TestBed, Watcher};

/// The restarts of a search.
#[derive(Clone, Debug)]
pub struct Restarts {
    /// How many, at least 2.
    pub count: u32,
    /// The command that restarts the server. It sees the restart's number, from 1, as `{n}` and in
    /// `$THALWEG_N`.
    pub command: String,
    /// How long the server may take to accept connections.
    pub timeout: Duration,
}

/// The reasons why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum RestartsError {
    /// The server could not be restarted the first time.
    #[error("restart 1: {0}")]
    Command(#[from] CommandError),
    /// The first search could not be made.
    #[error(transparent)]
    Search(#[from] SearchError),
}

impl RestartsError {
    /// Whether the user ended the searches before there was a result.
    pub fn is_interruption(&self) -> bool {
        matches!(self, Self::Search(SearchError::Interrupted) | Self::Command(CommandError::Interrupted { .. }))
    }
}

/// Confidence of the interval.
const CONFIDENCE: f64 = 0.95;

/// Searches the capacity after each restart. Only the last search has an overload, and a trial that
/// looks for the bottleneck.
///
/// # Errors
/// The first restart or the first search fails. A later failure ends the searches; the result is
/// then of those before it, and INVALID.
pub fn find_across_restarts(
    test_bed: &TestBed,
    settings: &SearchSettings,
    restarts: &Restarts,
    watcher: &mut dyn Watcher,
) -> Result<Conclusion, RestartsError> {
    let mut searches: Vec<Conclusion> = Vec::new();
    let mut cut_short = None;
    let mut running: Option<Box<dyn Any>> = None;
    for number in 1..=restarts.count {
        // The server of the last search ends first, if it is the command itself.
        drop(running.take());
        let is_last = number == restarts.count;
        let settings = SearchSettings {
            overload: settings.overload && is_last,
            bottleneck: settings.bottleneck && is_last,
            ..settings.clone()
        };
        let searched = restart(test_bed, restarts, number, watcher).map_err(RestartsError::from).and_then(|command| {
            running = Some(command);
            Ok(find(&test_bed.of_restarted_server(), &settings, watcher)?)
        });
        match searched {
            Ok(found) => searches.push(found),
            Err(error) if searches.is_empty() => return Err(error),
            Err(_) if watcher.wants_stop() => {}
            Err(error) => cut_short = Some(format!("restart {number} of {}: {error}", restarts.count)),
        }
        if cut_short.is_some() || watcher.wants_stop() {
            break;
        }
    }
    Ok(combined(searches, restarts.count, cut_short, watcher.wants_stop()))
}

fn restart(
    test_bed: &TestBed,
    restarts: &Restarts,
    number: u32,
    watcher: &dyn Watcher,
) -> Result<Box<dyn Any>, CommandError> {
    let parameter = Parameter { name: "THALWEG_N", placeholder: "{n}", value: number.to_string() };
    let Restarts { command, timeout, .. } = restarts;
    let server = ServerSetUp { command, parameter: &parameter, target: &test_bed.target, patience: *timeout };
    test_bed.environment.set_up(&server, &|| watcher.wants_stop())
}

/// The searches as one: the interval across them, and the bounds that hold for each of them. What
/// was seen of the bottleneck and of an overload is that of the last one.
fn combined(searches: Vec<Conclusion>, asked: u32, cut_short: Option<String>, interrupted: bool) -> Conclusion {
    let mut entries = Vec::new();
    let mut at_trial = 0;
    for search in &searches {
        entries.push(entry(&search.find, at_trial, search.trials.len()));
        at_trial += search.trials.len();
    }
    let whole: Vec<f64> = entries
        .iter()
        .filter(|entry| entry.ended != Some(EndReason::Interrupted))
        .filter_map(|entry| entry.threshold)
        .collect();
    let interval = geometric_mean(&whole, CONFIDENCE).map(|mean| widened(mean, &entries));
    let worst = searches.iter().position(|search| search.verdict != Verdict::Pass);
    let failed = worst.map(|position| (position + 1, searches[position].verdict, searches[position].reasons.clone()));
    let trials = searches.iter().flat_map(|search| search.trials.clone()).collect();
    let mut find = searches.into_iter().next_back().expect("at least one search was made").find;
    let bound = |of: fn(&RestartedSearch) -> Option<f64>, choose: fn(f64, f64) -> f64| {
        let bounds: Option<Vec<f64>> = entries.iter().map(of).collect();
        bounds?.into_iter().reduce(choose)
    };
    find.lower_bound = bound(|entry| entry.lower_bound, f64::min);
    find.upper_bound = bound(|entry| entry.upper_bound, f64::max);
    find.threshold = interval.map(|interval| interval.mean);
    find.interval95 = interval.map(|interval| [interval.low, interval.high]);
    find.lost_s = entries.iter().map(|entry| entry.lost_s).sum();
    find.drift = None;
    find.spread = None;
    if interrupted {
        find.ended = Some(EndReason::Interrupted);
    }
    let note = match interval {
        Some(_) => across(&whole),
        None => "fewer than two searches found a threshold, so that there is no interval across restarts".to_owned(),
    };
    find.notes.insert(0, note);
    find.restarts = entries;
    let done = find.restarts.len();
    let (verdict, mut reasons) = match (failed, find.lower_bound) {
        (Some((number, verdict, reasons)), _) => {
            (verdict, reasons.into_iter().map(|reason| format!("after restart {number}: {reason}")).collect())
        }
        (None, Some(rate)) => {
            (Verdict::Pass, vec![format!("{} meets all limits after each of {done} restarts", display::rate(rate))])
        }
        (None, None) => (Verdict::Pass, Vec::new()),
    };
    if interrupted {
        reasons.insert(0, format!("interrupted in restart {done} of {asked}"));
    }
    let verdict = if cut_short.is_some() { Verdict::Invalid } else { verdict };
    reasons.splice(0..0, cut_short);
    Conclusion { find, verdict, reasons, trials }
}

fn entry(find: &Find, at_trial: usize, trials: usize) -> RestartedSearch {
    RestartedSearch {
        lower_bound: find.lower_bound,
        upper_bound: find.upper_bound,
        threshold: find.threshold,
        interval95: find.interval95,
        ended: find.ended,
        lost_s: find.lost_s,
        at_trial,
        trials,
    }
}

/// The interval of the mean with the uncertainty of a single search added. What one search is wrong
/// by the next one may be wrong by as well: both try the same rates.
fn widened(mean: MeanInterval, entries: &[RestartedSearch]) -> MeanInterval {
    let of_searches: Vec<f64> =
        entries.iter().filter_map(|entry| entry.interval95).map(|[low, high]| (high / low).ln() / 2.0).collect();
    let of_search = of_searches.iter().sum::<f64>() / of_searches.len().max(1) as f64;
    let factor = ((mean.high / mean.mean).ln().powi(2) + of_search.powi(2)).sqrt().exp();
    MeanInterval { low: mean.mean / factor, high: mean.mean * factor, ..mean }
}

/// The thresholds in words.
fn across(thresholds: &[f64]) -> String {
    let low = thresholds.iter().copied().fold(f64::INFINITY, f64::min);
    let high = thresholds.iter().copied().fold(0.0, f64::max);
    format!(
        "the interval is across {} restarts, after which the capacity was {} to {} ({} apart)",
        thresholds.len(),
        display::rate(low).trim_end_matches("/s"),
        display::rate(high),
        display::percent(high / low - 1.0)
    )
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;
    use thalweg_report::sample;

    use super::*;
    use crate::conclusion::{nothing_good, nothing_offered};

    fn search(threshold: Option<f64>, verdict: Verdict) -> Conclusion {
        let trial = sample::trial("confirm", 0.0, 100.0, 1.0);
        let mut conclusion = nothing_good(trial, "", None);
        conclusion.verdict = verdict;
        conclusion.reasons = vec!["a reason".into()];
        conclusion.find.threshold = threshold;
        conclusion.find.interval95 = threshold.map(|rate| [rate * 0.98, rate * 1.02]);
        conclusion.find.lower_bound = threshold.map(|rate| rate - 1.0);
        conclusion.find.upper_bound = threshold.map(|rate| rate + 1.0);
        conclusion
    }

    #[test]
    fn a_search_without_an_offered_request_is_invalid_and_names_no_rate() {
        let conclusion = nothing_offered(sample::trial("probe", 0.0, 100.0, 1.0));
        assert_eq!((conclusion.verdict, conclusion.find.lower_bound), (Verdict::Invalid, None));
        assert!(conclusion.reasons[0].contains("got no CPU time"), "{:?}", conclusion.reasons);
        assert_eq!(conclusion.trials.len(), 1);
    }

    #[test]
    fn the_interval_is_across_the_searches() {
        let searches = [98.0, 100.0, 102.0].map(|rate| search(Some(rate), Verdict::Pass));
        let conclusion = combined(searches.into(), 3, None, false);
        let find = &conclusion.find;
        assert_eq!((find.lower_bound, find.upper_bound, conclusion.trials.len()), (Some(97.0), Some(103.0), 3));
        // Student's t with 2 degrees of freedom: 4.303 standard errors of 1.155 %, and 2 % of each.
        let [low, high] = find.interval95.expect("an interval");
        assert!((low - 94.76).abs() < 0.05 && (high - 105.5).abs() < 0.05, "{low} to {high}");
        assert_eq!(conclusion.verdict, Verdict::Pass);
        assert_eq!(conclusion.reasons, ["97.0/s meets all limits after each of 3 restarts"]);
        assert_eq!(find.restarts.iter().map(|entry| entry.at_trial).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(
            find.notes[0],
            "the interval is across 3 restarts, after which the capacity was 98.0 to 102/s (4.08 % apart)"
        );
    }

    /// Processes of one program whose capacities are up to 8 % apart from the middle, searched with
    /// intervals 8 % wide: the interval across five of them covers the middle.
    #[test]
    fn the_interval_covers_the_middle_of_random_levels() {
        const SETS: u32 = 1000;
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut covered = 0;
        for _ in 0..SETS {
            let searches = (0..5).map(|_| {
                let level = random.random_range(0.92..1.08);
                // The sum of twelve is nearly normal; half the width is two standard deviations.
                let error: f64 = (0..12).map(|_| random.random_range(-0.5..0.5)).sum();
                let threshold = 1000.0 * level * (1.0 + 0.02 * error);
                let mut found = search(Some(threshold), Verdict::Pass);
                found.find.interval95 = Some([threshold * 0.96, threshold * 1.04]);
                found
            });
            let find = combined(searches.collect(), 5, None, false).find;
            covered += u32::from(find.interval95.is_some_and(|[low, high]| low <= 1000.0 && 1000.0 <= high));
        }
        assert!(covered * 100 >= 95 * SETS, "{covered} of {SETS}");
    }

    #[test]
    fn one_search_that_fails_decides() {
        let searches = vec![search(Some(98.0), Verdict::Pass), search(None, Verdict::Fail)];
        let conclusion = combined(searches, 2, None, false);
        assert_eq!((conclusion.verdict, conclusion.find.interval95), (Verdict::Fail, None));
        assert_eq!(conclusion.reasons, ["after restart 2: a reason"]);
    }

    #[test]
    fn a_restart_that_fails_leaves_what_was_measured_before_it() {
        let searches = [98.0, 100.0].map(|rate| search(Some(rate), Verdict::Pass));
        let conclusion = combined(searches.into(), 5, Some("restart 3 of 5: no such server".into()), false);
        assert_eq!(conclusion.verdict, Verdict::Invalid);
        assert_eq!(conclusion.reasons[0], "restart 3 of 5: no such server");
        assert!(conclusion.find.interval95.is_some());
    }
}
