//! The comparison of two sides, A and B: interleaved rounds, as many as the plan asks for, and the
//! conclusion from their pairs.
//!
//! | module | owns |
//! | --- | --- |
//! | `metric` | metrics, their names and their values |
//! | `command` | the commands that set a side up |
//! | `round` | one round: set the side up, load it, measure |
//! | `conclusion` | estimates and sentences from all rounds |
//! | `scaling` | the law of a scaling over several levels |
//!
//! The order, the estimates and the plan of the number of pairs are pure: `measure::statistics`.

pub mod command;
mod conclusion;
pub mod metric;
mod round;
mod scaling;

use std::time::{Duration, Instant};

use thalweg_load::{LoadError, Plan};
use thalweg_measure::Verdict;
use thalweg_measure::statistics::interleaving::order;
use thalweg_measure::statistics::rounds::PairPlan;

use self::command::{CommandError, Parameter};
use self::metric::Metric;
use self::round::{MeasuredRound, Rounds};
use crate::document::{Compare, CompareEnd, Trial};
use crate::search::SearchError;
use crate::target::{Target, TargetError};
use crate::trial::Watcher;

/// The pairs that may be invalid one after the other before the comparison ends.
const REPEATED_MAX: usize = 5;

/// The position of the side that the other one is compared with.
pub(crate) const A: usize = 0;
/// The position of the side whose difference is sought.
pub(crate) const B: usize = 1;

/// A side: its target, the load on it, and its command.
#[derive(Clone, Debug)]
pub struct Side {
    /// `A` or `B`, or the level of a scaling.
    pub name: String,
    /// The server.
    pub target: Target,
    /// The load but for its arrivals and length.
    pub base: Plan,
    /// The command that restarts its server before each of its rounds.
    pub restart: Option<String>,
    /// The side, as its commands are told.
    pub parameter: Parameter,
}

/// The load of a round.
#[derive(Clone, Debug, PartialEq)]
pub enum RoundLoad {
    /// A share of what the slower side carries in a closed loop.
    Share(f64),
    /// An open loop at this rate.
    Rate(f64),
    /// A closed loop with so many workers.
    Workers(usize),
}

/// The levels of a scaling, such as 1, 2 and 4 CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The parameter, such as `cores`.
    pub parameter: String,
    /// Its levels in ascending order, one for each side.
    pub levels: Vec<u32>,
}

/// The settings of a comparison.
#[derive(Clone, Debug)]
pub struct CompareSettings {
    /// A and B, or the levels of a scaling.
    pub sides: Vec<Side>,
    /// The parameter whose levels are the sides, and these levels, if this is a scaling.
    pub scale: Option<Scale>,
    /// The command that switches the one server between the sides.
    pub switch: Option<String>,
    /// All rounds of A come before those of B.
    pub once: bool,
    /// The metrics, the primary one first.
    pub metrics: Vec<Metric>,
    /// The load.
    pub load: RoundLoad,
    /// Length of the measured part of a round's trial.
    pub duration: Duration,
    /// Its warm-up.
    pub warmup: Duration,
    /// The number of pairs.
    pub pairs: PairPlan,
    /// The most time that all rounds may take.
    pub budget: Option<Duration>,
    /// How long a server has to come up after a command.
    pub restart_timeout: Duration,
    /// The largest relative worsening of the primary metric.
    pub max_regression: Option<f64>,
    /// The limits that rounds are held against.
    pub limits: Vec<thalweg_measure::Limit>,
    /// The seed of the order.
    pub seed: u64,
}

/// The reasons why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A trial could not be made.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A capacity search could not be made.
    #[error("{side}: {source}")]
    Search {
        /// The side.
        side: String,
        /// The search's error.
        source: SearchError,
    },
    /// A side cannot be reached.
    #[error("{side}: {source}")]
    Target {
        /// The side.
        side: String,
        /// The attempt's error.
        source: Box<TargetError>,
    },
    /// A command has failed.
    #[error("{side}: {source}")]
    Command {
        /// The side.
        side: String,
        /// The command's error.
        source: CommandError,
    },
    /// A side answers, but with no good response.
    #[error("{side}: no response of {target} was good ({outcomes}); check the address and the requests")]
    NothingGood {
        /// The side.
        side: String,
        /// Its target.
        target: String,
        /// How its requests ended.
        outcomes: String,
    },
    /// The server's processes are not visible.
    #[error(
        "{side}: the processes of {target} cannot be seen from here, so there is no cpu_per_request; run as their user \
         or as root on the server's host, or choose another --metric"
    )]
    NoServer {
        /// The side.
        side: String,
        /// Its target.
        target: String,
    },
    /// The user ended the comparison before there was a pair.
    #[error("interrupted before the end of the first pair of rounds")]
    Interrupted,
}

/// A completed comparison.
#[derive(Debug)]
pub struct Comparison {
    /// The comparison in the document's form.
    pub compare: Compare,
    /// The verdict on the whole.
    pub verdict: Verdict,
    /// Its reasons.
    pub reasons: Vec<String>,
    /// Every trial in order.
    pub trials: Vec<Trial>,
}

/// The rounds of a comparison, as far as it came.
struct Measured {
    /// B, or the highest level of a scaling.
    last_side: usize,
    rounds: Vec<MeasuredRound>,
    ended: CompareEnd,
    /// The number of pairs planned for at last.
    planned: usize,
    repeated: usize,
    /// Why the comparison ended, if the target or the client is the reason.
    reason: Option<String>,
    elapsed: Duration,
}

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
        return Err(CompareError::Interrupted);
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
    let begun = Instant::now();
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
        let per_pair = begun.elapsed().checked_div(pair as u32).unwrap_or_default();
        if settings.budget.is_some_and(|budget| begun.elapsed() + per_pair > budget) {
            measured.ended = CompareEnd::BudgetSpent;
            break;
        }
        let before = measured.rounds.len();
        for side in order(settings.seed, pair, settings.sides.len()) {
            if let Some((ended, reason)) = rounds.measure(pair, side, &mut measured.rounds, watcher)? {
                measured.ended = ended;
                measured.reason = reason;
                measured.rounds[before..].iter_mut().for_each(|round| round.counts = false);
                measured.elapsed = begun.elapsed();
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
    measured.elapsed = begun.elapsed();
    Ok(measured)
}

impl Measured {
    fn new(settings: &CompareSettings) -> Self {
        Self {
            last_side: settings.sides.len() - 1,
            rounds: Vec::new(),
            ended: CompareEnd::Complete,
            planned: 0,
            repeated: 0,
            reason: None,
            elapsed: Duration::ZERO,
        }
    }

    /// The logarithms of B / A of the metric at this position, of the pairs that count; in a scaling
    /// those of its highest and its lowest level.
    fn differences(&self, metric: usize) -> Vec<f64> {
        self.log_ratios(metric, A, self.last_side)
    }

    /// The logarithms of the ratios of two sides, of the pairs (or cycles) that count.
    fn log_ratios(&self, metric: usize, from: usize, to: usize) -> Vec<f64> {
        let value = |pair: usize, side: usize| {
            let is_it = |round: &&MeasuredRound| round.counts && round.pair == pair && round.side == side;
            self.rounds.iter().find(is_it)?.values[metric]
        };
        let pairs = self.rounds.iter().filter(|round| round.side == from).map(|round| round.pair);
        pairs.filter_map(|pair| Some((value(pair, to)? / value(pair, from)?).ln())).collect()
    }
}

/// Carries all rounds of A out, then all of B.
fn one_after_the_other(
    settings: &CompareSettings,
    rounds: &mut Rounds<'_>,
    watcher: &mut dyn Watcher,
) -> Result<Measured, CompareError> {
    let begun = Instant::now();
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
    measured.elapsed = begun.elapsed();
    Ok(measured)
}
