//! The truth about a model: its capacity, and the rate up to which it meets limits.
//!
//! Models with a closed form are computed by `formulas`, the others by a simulation of the same
//! station that the server runs.

mod formulas;
mod simulation;
#[cfg(test)]
mod tests;

use serde::Serialize;
use thalweg_measure::Limit;
use thalweg_measure::limit::Statistic;

use self::formulas::Queue;
pub use self::simulation::Arrivals;
use self::simulation::simulate;
use crate::law::Law;
use crate::model::Model;
use crate::speed::Overload;

/// The truth about a model.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Truth {
    /// The highest rate at which the queue does not grow without end, in requests per second.
    pub capacity_per_s: f64,
    /// The arrivals for which the limits were computed.
    pub arrivals: Arrivals,
    /// The highest rate that meets all limits; `None` if no rate does. Without limits it is the
    /// capacity.
    pub rate_per_s: Option<f64>,
    /// The same for each limit.
    pub limits: Vec<LimitTruth>,
}

/// The truth about one limit.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LimitTruth {
    /// The limit.
    pub limit: Limit,
    /// The highest rate that meets it, in requests per second; `None` if no rate does.
    pub rate_per_s: Option<f64>,
    /// The source of the rate: a closed form, a simulation, or the model itself.
    pub source: String,
}

/// Computes the truth. A search rejects every error unless a limit on errors says otherwise, and so
/// does this.
pub fn truth(model: &Model, arrivals: Arrivals, limits: &[Limit]) -> Truth {
    let has_errors = limits.iter().any(|limit| matches!(limit, Limit::Errors { .. }));
    let implied = if limits.is_empty() || has_errors { &[][..] } else { &[Limit::NO_ERRORS] };
    let limits: Vec<LimitTruth> = limits.iter().chain(implied).map(|&limit| of_limit(model, arrivals, limit)).collect();
    let lowest = |rate: Option<f64>, limit: &LimitTruth| Some(rate?.min(limit.rate_per_s?));
    let rate_per_s = match limits.split_first() {
        None => Some(model.capacity()),
        Some((first, others)) => others.iter().fold(first.rate_per_s, lowest),
    };
    Truth { capacity_per_s: model.capacity(), arrivals, rate_per_s, limits }
}

fn of_limit(model: &Model, arrivals: Arrivals, limit: Limit) -> LimitTruth {
    let (rate_per_s, source) = match limit {
        Limit::ResponseTime { statistic, bound, .. } => match queue_of(model, arrivals) {
            Some(queue) => {
                let rate = by_formula(&queue, model.capacity(), statistic, bound.as_secs_f64());
                (rate, format!("{}, closed form", queue.name()))
            }
            None => by_simulation(model, arrivals, limit),
        },
        Limit::Errors { share, .. } if model.faults.share() > share => {
            (None, "more responses have faults than that".to_owned())
        }
        Limit::Errors { .. } if model.queue_max.is_none() => (Some(model.capacity()), "nothing is refused".to_owned()),
        Limit::Errors { .. } => by_simulation(model, arrivals, limit),
        Limit::KbitPerConnection { .. } | Limit::Figure { .. } => {
            (Some(model.capacity()), "the model has no such figure".to_owned())
        }
    };
    LimitTruth { limit, rate_per_s, source }
}

/// Services in a row, without a break, that a queue below its capacity hardly ever has at the rates
/// that limits allow.
const SERVICES_OF_A_BUSY_PERIOD: f64 = 2000.0;

/// The queue whose closed form holds for the model.
fn queue_of(model: &Model, arrivals: Arrivals) -> Option<Queue> {
    let Model { servers, law, queue_max, hot_share, stall, slow_start, collapse, .. } = *model;
    let is_plain = queue_max.is_none() && stall.is_none() && slow_start.is_none();
    // A collapse that only an overload brings about changes nothing below the capacity.
    let beyond_capacity = collapse.is_none_or(|collapse| match collapse.above {
        Overload::RatePerS(rate) => rate > model.capacity(),
        Overload::Waiting(_) => false,
        Overload::BusyForNs(ns) => ns as f64 / 1e9 * model.capacity() >= SERVICES_OF_A_BUSY_PERIOD,
    });
    if !is_plain || !beyond_capacity {
        return None;
    }
    if let Some(hot_share) = hot_share {
        return match (arrivals, law) {
            (Arrivals::Poisson, Law::Exponential { mean_s }) => Some(Queue::Split { servers, mean_s, hot_share }),
            _ => None,
        };
    }
    match (arrivals, law, servers) {
        (Arrivals::Poisson, Law::Exponential { mean_s }, _) => Some(Queue::MMk { servers, mean_s }),
        (Arrivals::Poisson, Law::Fixed { .. } | Law::TwoPoint { .. }, 1) => Some(Queue::MG1 { law }),
        (Arrivals::Constant, Law::Exponential { mean_s }, 1) => Some(Queue::DM1 { mean_s }),
        (Arrivals::Constant, Law::Fixed { time_s }, _) => Some(Queue::DDk { servers, time_s }),
        _ => None,
    }
}

fn by_formula(queue: &Queue, capacity: f64, statistic: Statistic, bound_s: f64) -> Option<f64> {
    let meets = |rate: f64| match statistic {
        Statistic::Percentile(percent) => queue.share_beyond(rate, bound_s) <= 1.0 - percent / 100.0,
        Statistic::Mean => queue.mean(rate) <= bound_s,
        // Service and waiting times are bounded in no other queue.
        Statistic::Max => matches!(queue, Queue::DDk { .. }) && queue.share_beyond(rate, bound_s) == 0.0,
    };
    highest(capacity, 50, meets)
}

fn by_simulation(model: &Model, arrivals: Arrivals, limit: Limit) -> (Option<f64>, String) {
    const REQUESTS: u64 = 1_000_000;
    const STEPS: u32 = 14;
    let meets = |rate: f64| {
        let run = simulate(model, arrivals, rate, REQUESTS);
        match limit {
            Limit::ResponseTime { statistic, bound, .. } => statistic.of(&run.sojourns) <= bound.as_nanos() as f64,
            Limit::Errors { share, .. } => run.refused + (1.0 - run.refused) * model.faults.share() <= share,
            Limit::KbitPerConnection { .. } | Limit::Figure { .. } => true,
        }
    };
    // A queue that is bounded meets limits beyond its capacity, as far as refusals are allowed.
    let most = if model.queue_max.is_some() { 2.0 } else { 1.0 } * model.capacity();
    let rate = highest(most, STEPS, meets);
    (rate, format!("simulation of {} requests", thalweg_units::display::count(REQUESTS)))
}

/// The highest rate up to `most` that meets a goal which no rate above it meets.
fn highest(most: f64, steps: u32, meets: impl Fn(f64) -> bool) -> Option<f64> {
    let (mut low, mut high) = (0.0, most);
    for _ in 0..steps {
        let middle = 0.5 * (low + high);
        if meets(middle) { low = middle } else { high = middle }
    }
    // Nothing between the lowest rate tried and zero has passed.
    (low > 0.0).then_some(0.5 * (low + high))
}
