//! The comparison of two sides, A and B: interleaved rounds, as many as the plan asks for, and the
//! conclusion from their pairs.
//!
//! | module | owns |
//! | --- | --- |
//! | `metric` | metrics, their names and their values |
//! | `settings` | settings and errors |
//! | `measured` | all rounds so far, and the differences of their pairs |
//! | `round` | one round: set the side up, load it, measure |
//! | `conclusion` | estimates and sentences from all rounds |
//! | `scaling` | the law of a scaling over several levels |
//!
//! The order, the estimates and the plan of the number of pairs are pure: `measure::statistics`.

mod conclusion;
mod measured;
pub mod metric;
mod round;
mod scaling;
mod settings;

use thalweg_measure::statistics::interleaving::order;
use thalweg_report::document::CompareEnd;

pub use self::conclusion::Comparison;
use self::measured::Measured;
use self::round::Rounds;
use self::settings::{A, B};
pub use self::settings::{CompareError, CompareSettings, RoundLoad, Scale, Side};
use crate::trial::Watcher;

/// The pairs that may be invalid one after the other before the comparison ends.
const REPEATED_MAX: usize = 5;

/// Compares the sides.
///
/// # Errors
/// See [`CompareError`]. A comparison that is interrupted after its first pair, or whose target
/// goes away, concludes from the pairs so far.
pub fn compare(settings: &CompareSettings, watcher: &mut dyn Watcher) -> Result<Comparison, CompareError> {
    let mut rounds = Rounds::prepare(settings, watcher)?;
    let measured = match settings.once {
        true => one_after_the_other(settings, &mut rounds, watcher)?,
        false => interleaved(settings, &mut rounds, watcher)?,
    };
    if measured.ended == CompareEnd::Interrupted && !measured.rounds.iter().any(|round| round.counts) {
        return Err(rounds.interrupted());
    }
    let mut comparison = conclusion::conclude(settings, &rounds, &measured);
    if let Some(scale) = &settings.scale {
        let scaling = scaling::conclude(scale, rounds.metrics[0], &measured);
        comparison.compare.sentence.clone_from(&scaling.sentence);
        comparison.compare.scale = Some(scaling);
    }
    Ok(comparison)
}

/// Carries pairs out, until there are as many valid ones as the plan wants.
fn interleaved(
    settings: &CompareSettings,
    rounds: &mut Rounds<'_>,
    watcher: &mut dyn Watcher,
) -> Result<Measured, CompareError> {
    let environment = &settings.environment;
    let begun = environment.now();
    let mut measured = Measured::new(settings);
    let mut repeated_in_a_row = 0;
    let mut goal = 0;
    for pair in 0.. {
        let differences = measured.differences(0);
        if differences.len() >= goal {
            match settings.pairs.goal(&differences) {
                None => break,
                Some(next) => goal = next,
            }
        }
        measured.planned = goal;
        let elapsed = environment.now() - begun;
        let per_pair = elapsed.checked_div(pair as u32).unwrap_or_default();
        if settings.budget.is_some_and(|budget| elapsed + per_pair > budget) {
            measured.ended = CompareEnd::BudgetSpent;
            break;
        }
        let before = measured.rounds.len();
        for side in order(settings.seed, pair, settings.sides.len()) {
            if let Some((ended, reason)) = rounds.measure(pair, side, &mut measured.rounds, watcher)? {
                measured.ended = ended;
                measured.reason = reason;
                measured.rounds[before..].iter_mut().for_each(|round| round.counts = false);
                measured.elapsed = environment.now() - begun;
                return Ok(measured);
            }
        }
        let pair = &mut measured.rounds[before..];
        if pair.iter().all(|round| round.values[0].is_some()) {
            repeated_in_a_row = 0;
            continue;
        }
        pair.iter_mut().for_each(|round| round.counts = false);
        measured.repeated += 1;
        repeated_in_a_row += 1;
        if repeated_in_a_row > REPEATED_MAX {
            measured.ended = CompareEnd::Disturbed;
            break;
        }
    }
    measured.elapsed = environment.now() - begun;
    Ok(measured)
}

/// Carries all rounds of A out, then all of B.
fn one_after_the_other(
    settings: &CompareSettings,
    rounds: &mut Rounds<'_>,
    watcher: &mut dyn Watcher,
) -> Result<Measured, CompareError> {
    let begun = settings.environment.now();
    let mut measured = Measured::new(settings);
    measured.planned = settings.pairs.goal(&[]).unwrap_or_default();
    for side in [A, B] {
        for pair in 0..measured.planned {
            if let Some((ended, reason)) = rounds.measure(pair, side, &mut measured.rounds, watcher)? {
                measured.ended = ended;
                measured.reason = reason;
                break;
            }
        }
    }
    measured.elapsed = settings.environment.now() - begun;
    Ok(measured)
}
