//! A sweep: one or several targets at rates from low to high, one trial each, interleaved.

use std::sync::Arc;
use std::time::Duration;

use thalweg_load::{Extent, LoadError, LoopPlan, Plan, RateProfile, Spacing, UserPlan};
use thalweg_measure::Verdict;
use thalweg_report::document::{Sweep, SweepEnd, SweptTarget, Trial};
use thalweg_units::display;

use crate::trial::{TestBed, TrialRequest, Watcher};

/// The name of a sweep's trials.
pub const PHASE: &str = "sweep";

/// The rates of a sweep and its targets.
#[derive(Clone, Debug)]
pub struct SweepSettings {
    /// The targets, at least one.
    pub targets: Vec<SweepTarget>,
    /// Lowest rate, requests per second.
    pub low_rate: f64,
    /// Highest rate.
    pub high_rate: f64,
    /// The distance between rates.
    pub step: f64,
    /// Length of each trial.
    pub duration: Duration,
    /// Its warm-up.
    pub warmup: Duration,
    /// Trials of a target in a row that fail before it is tried no further; `None` tries all rates.
    pub failures_max: Option<u32>,
}

/// One target of a sweep.
#[derive(Clone, Debug)]
pub struct SweepTarget {
    /// Its name, unlike all others.
    pub name: String,
    /// The target and its limits.
    pub test_bed: TestBed,
    /// The load at every rate but for the rate and its length.
    pub base: Plan,
}

/// The result of a sweep.
#[derive(Debug)]
pub struct Swept {
    /// The rates and the targets.
    pub sweep: Sweep,
    /// PASS if every trial passed, INVALID if none was valid.
    pub verdict: Verdict,
    /// Why, one sentence for each target.
    pub reasons: Vec<String>,
    /// Every trial in order.
    pub trials: Vec<Trial>,
}

/// Makes the trials of a sweep. One that the user ends keeps the trials that were complete.
///
/// # Errors
/// The load threads could not be set up, or have failed.
pub fn sweep(settings: &SweepSettings, watcher: &mut dyn Watcher) -> Result<Swept, LoadError> {
    let mut trials: Vec<Trial> = Vec::new();
    let mut positions: Vec<Vec<usize>> = vec![Vec::new(); settings.targets.len()];
    let mut failures = vec![0; settings.targets.len()];
    let mut ended = SweepEnd::Complete;
    'rates: for (round, rate) in rates(settings).into_iter().enumerate() {
        let given_up = |target: &usize| settings.failures_max.is_some_and(|max| failures[*target] >= max);
        let mut order: Vec<usize> = (0..settings.targets.len()).filter(|target| !given_up(target)).collect();
        if order.is_empty() {
            ended = SweepEnd::Failures;
            break;
        }
        // A B, B A: what changes on the host over time falls on all targets alike.
        if round % 2 == 1 {
            order.reverse();
        }
        for target in order {
            let SweepTarget { test_bed, base, .. } = &settings.targets[target];
            let plan = plan_at(base, rate, settings);
            let request = TrialRequest { make_up: true, ..TrialRequest::new(PHASE, plan) };
            let trial = test_bed.trial(&request, watcher)?.trial;
            if watcher.wants_stop() {
                ended = SweepEnd::Interrupted;
                break 'rates;
            }
            match trial.verdict {
                Verdict::Pass => failures[target] = 0,
                Verdict::Fail => failures[target] += 1,
                // It says nothing about the target.
                Verdict::Invalid => {}
            }
            positions[target].push(trials.len());
            trials.push(trial);
        }
    }
    Ok(conclude(settings, trials, positions, ended))
}

/// The rates from the lowest to the highest. The last step may end a little below it by rounding.
fn rates(settings: &SweepSettings) -> Vec<f64> {
    let SweepSettings { low_rate, high_rate, step, .. } = settings;
    let steps = ((high_rate - low_rate) / step + 1e-9).floor().max(0.0) as u32;
    (0..=steps).map(|number| low_rate + f64::from(number) * step).collect()
}

fn plan_at(base: &Plan, rate: f64, settings: &SweepSettings) -> Plan {
    // A user makes several calls, so fewer of them arrive.
    let arrivals = if let Some(UserPlan::Calls(calls)) = base.user { rate / f64::from(calls) } else { rate };
    let spacing = if let LoopPlan::Open { spacing, .. } = base.arrivals { spacing } else { Spacing::Constant };
    Plan {
        arrivals: LoopPlan::Open { rate: Arc::new(RateProfile::constant(arrivals)), spacing },
        extent: Extent::Duration(settings.duration),
        warmup: settings.warmup,
        ..base.clone()
    }
}

fn conclude(settings: &SweepSettings, trials: Vec<Trial>, positions: Vec<Vec<usize>>, ended: SweepEnd) -> Swept {
    let has = |verdict: Verdict| trials.iter().any(|trial| trial.verdict == verdict);
    let verdict = match (has(Verdict::Pass), has(Verdict::Fail)) {
        (_, true) => Verdict::Fail,
        (true, false) => Verdict::Pass,
        (false, false) => Verdict::Invalid,
    };
    let several = settings.targets.len() > 1;
    let mut reasons: Vec<String> = Vec::new();
    let mut targets = Vec::new();
    for (target, positions) in settings.targets.iter().zip(positions) {
        let of_target = || positions.iter().map(|position| &trials[*position]);
        let passed = of_target().take_while(|trial| trial.verdict == Verdict::Pass).last();
        let name = if several { format!("{}: ", target.name) } else { String::new() };
        if let Some(first) = of_target().find(|trial| trial.verdict == Verdict::Fail) {
            let rate = display::rate(first.offered_rate.unwrap_or(0.0));
            reasons.push(format!("{name}the limits are missed from {rate} on: {}", first.reasons.join("; ")));
        }
        let invalid = of_target().filter(|trial| trial.verdict == Verdict::Invalid).count();
        if invalid > 0 {
            reasons.push(format!("{name}{invalid} of {} trials were INVALID: the client fell short", positions.len()));
        }
        let passed = passed.and_then(|trial| trial.offered_rate);
        targets.push(SweptTarget {
            target: target.test_bed.target.shown.clone(),
            name: target.name.clone(),
            trials: positions,
            passed,
        });
    }
    if ended == SweepEnd::Interrupted {
        reasons.push("the sweep was interrupted; the trials before that are complete".to_owned());
    }
    let SweepSettings { low_rate, high_rate, step, .. } = *settings;
    Swept { sweep: Sweep { low_rate, high_rate, step, targets, ended }, verdict, reasons, trials }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_go_from_low_to_high() {
        let check = |low_rate: f64, high_rate: f64, step: f64, expected: &[f64]| {
            let settings = SweepSettings {
                targets: Vec::new(),
                low_rate,
                high_rate,
                step,
                duration: Duration::ZERO,
                warmup: Duration::ZERO,
                failures_max: None,
            };
            let rates = rates(&settings);
            assert_eq!(rates.len(), expected.len(), "{rates:?}");
            assert!(rates.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{rates:?}");
        };
        check(20.0, 60.0, 20.0, &[20.0, 40.0, 60.0]);
        check(20.0, 59.0, 20.0, &[20.0, 40.0]);
        check(5.0, 5.0, 1.0, &[5.0]);
        check(0.1, 0.3, 0.1, &[0.1, 0.2, 0.3]);
    }
}
