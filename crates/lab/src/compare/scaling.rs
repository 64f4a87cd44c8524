//! The conclusion of a scaling: speed-ups, and the law that they follow.
//!
//! A law is fitted to each cycle of rounds by itself, and its coefficients are estimated from those
//! of all cycles as the effect of a comparison is: a disturbed cycle weighs little, and a drift of
//! the machine from cycle to cycle cancels out.

use thalweg_measure::statistics::median;
use thalweg_measure::statistics::rounds::CONFIDENCE;
use thalweg_measure::statistics::scaling::ScalingLaw;
use thalweg_measure::statistics::signed_rank::SignedRank;
use thalweg_report::document::{ScaleLevel, ScaleResult, UniversalScaling};

use super::measured::Measured;
use super::metric::Metric;
use super::settings::Scale;

/// Levels from which on the universal law is fitted.
const UNIVERSAL_LEVELS_MIN: usize = 3;

/// Draws the conclusion.
pub(super) fn conclude(scale: &Scale, metric: Metric, measured: &Measured) -> ScaleResult {
    let levels: Vec<ScaleLevel> = scale.levels.iter().enumerate().map(|(side, &n)| level(measured, side, n)).collect();
    let cycles = cycles(scale, measured);
    let amdahl: Vec<f64> = cycles.iter().filter_map(|points| Some(ScalingLaw::amdahl(points)?.contention)).collect();
    let (serial_share, serial_share95) = estimate(&amdahl);
    let mut result = ScaleResult {
        parameter: scale.parameter.clone(),
        serial_share,
        serial_share95,
        universal: universal(scale, &cycles),
        sentence: String::new(),
        levels,
    };
    result.sentence = sentence(metric, &result);
    result
}

fn level(measured: &Measured, side: usize, n: u32) -> ScaleLevel {
    let rounds = measured.rounds.iter().filter(|round| round.counts && round.side == side);
    let values: Vec<f64> = rounds.filter_map(|round| round.values[0]).collect();
    let (speedup, speedup95) = match side {
        0 => (median(&values).map(|_| 1.0), None),
        _ => estimate(&measured.log_ratios(0, 0, side)),
    };
    let exp = |ratio: f64| if side == 0 { ratio } else { ratio.exp() };
    ScaleLevel { n, value: median(&values), speedup: speedup.map(exp), speedup95: speedup95.map(|ends| ends.map(exp)) }
}

/// The points of each cycle in which every level counts.
fn cycles(scale: &Scale, measured: &Measured) -> Vec<Vec<(f64, f64)>> {
    let last = measured.rounds.iter().map(|round| round.pair).max().unwrap_or(0);
    let point = |cycle: usize, side: usize| {
        let mut of_side = measured.rounds.iter().filter(|round| round.counts && round.side == side);
        of_side.find(|round| round.pair == cycle)?.values[0].map(|value| (f64::from(scale.levels[side]), value))
    };
    (0..=last).filter_map(|cycle| (0..scale.levels.len()).map(|side| point(cycle, side)).collect()).collect()
}

fn universal(scale: &Scale, cycles: &[Vec<(f64, f64)>]) -> Option<UniversalScaling> {
    if scale.levels.len() < UNIVERSAL_LEVELS_MIN {
        return None;
    }
    let laws: Vec<ScalingLaw> = cycles.iter().filter_map(|points| ScalingLaw::universal(points)).collect();
    let (contention, contention95) = estimate(&laws.iter().map(|law| law.contention).collect::<Vec<_>>());
    let (coherency, coherency95) = estimate(&laws.iter().map(|law| law.coherency).collect::<Vec<_>>());
    let law = ScalingLaw { contention: contention?, coherency: coherency? };
    Some(UniversalScaling {
        contention: law.contention,
        contention95,
        coherency: law.coherency,
        coherency95,
        // Without a coherency that differs from zero there is no peak to speak of.
        peak_at: law.peak().filter(|_| coherency95.is_some_and(|[low, _]| low > 0.0)),
    })
}

fn estimate(values: &[f64]) -> (Option<f64>, Option<[f64; 2]>) {
    let ranks = SignedRank::of(values);
    let interval = ranks.as_ref().and_then(|ranks| ranks.interval(CONFIDENCE));
    (ranks.map(|ranks| ranks.centre()), interval.map(|interval| [interval.low, interval.high]))
}

/// The answer in a sentence without a full stop.
fn sentence(metric: Metric, result: &ScaleResult) -> String {
    let (Some(first), Some(last)) = (result.levels.first(), result.levels.last()) else { return String::new() };
    let (noun, parameter) = (metric.noun(), &result.parameter);
    let (Some(speedup), Some(share)) = (last.speedup, result.serial_share) else {
        return format!("no answer on the scaling of {noun}: no cycle of rounds was valid at every level");
    };
    let ends = |ends: Option<[f64; 2]>, scale: f64, digits: usize| match ends {
        Some([low, high]) => {
            format!("95 % interval {:.digits$} to {:.digits$}", low * scale, high * scale)
        }
        None => "too few cycles for an interval".to_owned(),
    };
    let growth = format!(
        "{noun} grows {speedup:.2}-fold from {} to {} {parameter} ({})",
        first.n,
        last.n,
        ends(last.speedup95, 1.0, 2)
    );
    let percent = 100.0 * share;
    let serial =
        format!("the serial share by Amdahl's law is {percent:.1} % ({} %)", ends(result.serial_share95, 100.0, 1));
    let peak = result.universal.as_ref().and_then(|law| law.peak_at).map_or_else(String::new, |peak| {
        format!("; by the Universal Scalability Law it falls beyond {peak:.0} {parameter}")
    });
    format!("{growth}; {serial}{peak}")
}
