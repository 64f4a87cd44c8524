//! The conclusion of a comparison: estimates of each metric, and sentences that claim no more than
//! they show.

use thalweg_measure::Verdict;
use thalweg_measure::statistics::median;
use thalweg_measure::statistics::rounds::{
    CONFIDENCE, CONFIDENCE_PLANNED, PAIRS_MIN, PairPlan, SIGNIFICANCE, pairs_needed, smallest_detectable,
};
use thalweg_measure::statistics::signed_rank::SignedRank;
use thalweg_report::document::{
    Compare, CompareEnd, ComparedSide, Difference, MetricComparison, Planning, Round, Trial,
};
use thalweg_units::display;

use super::measured::Measured;
use super::metric::{LoadKind, Metric, Tally};
use super::round::{MeasuredRound, Rounds};
use super::settings::{A, B, CompareSettings, RoundLoad};

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

/// Draws the conclusion from all rounds.
pub(super) fn conclude(settings: &CompareSettings, rounds: &Rounds<'_>, measured: &Measured) -> Comparison {
    let metrics: Vec<MetricComparison> =
        (0..rounds.metrics.len()).map(|position| compared(settings, &rounds.metrics, position, measured)).collect();
    let primary = &metrics[0];
    let planning = planning(settings, measured);
    let (verdict, reasons) = verdict_of(settings, primary, measured, rounds.metrics[0]);
    let compare = Compare {
        metric: primary.metric.clone(),
        a: primary.a,
        b: primary.b,
        effect: primary.effect,
        interval95: primary.interval95,
        smallest_detectable: primary.smallest_detectable,
        sentence: primary.sentence.clone(),
        difference: primary.difference,
        sides: (0..settings.sides.len()).map(|side| described(settings, side)).collect(),
        notes: notes(settings, rounds, measured, &planning),
        rounds: measured.rounds.iter().map(|round| in_document(settings, round)).collect(),
        planning,
        max_regression: settings.max_regression,
        metrics,
        scale: None,
    };
    Comparison { compare, verdict, reasons, trials: rounds.trials.clone() }
}

fn described(settings: &CompareSettings, side: usize) -> ComparedSide {
    let of = &settings.sides[side];
    ComparedSide {
        name: of.name.clone(),
        target: of.target.shown.clone(),
        command: of.restart.clone().or_else(|| settings.switch.clone()),
    }
}

fn in_document(settings: &CompareSettings, round: &MeasuredRound) -> Round {
    Round {
        pair: round.pair + 1,
        side: settings.sides[round.side].name.clone(),
        at_s: round.at_s,
        counts: round.counts,
        values: round.values.clone(),
        trials: round.trials.clone(),
    }
}

/// The comparison of the metric at `position`.
fn compared(settings: &CompareSettings, metrics: &[Metric], position: usize, measured: &Measured) -> MetricComparison {
    let metric = metrics[position];
    let differences = measured.differences(position);
    let ranks = SignedRank::of(&differences);
    let confidence = if matches!(settings.pairs, PairPlan::Fixed(_)) { CONFIDENCE } else { CONFIDENCE_PLANNED };
    let interval = ranks.as_ref().and_then(|ranks| ranks.interval(confidence));
    let p_value = ranks.as_ref().map(SignedRank::p_value);
    let effect = ranks.as_ref().map(|ranks| ranks.centre().exp());
    let difference = match (p_value, effect) {
        _ if differences.len() < PAIRS_MIN => Difference::Undetermined,
        (Some(p_value), Some(effect)) if p_value <= SIGNIFICANCE => {
            if effect > 1.0 {
                Difference::More
            } else {
                Difference::Less
            }
        }
        _ => Difference::None,
    };
    let mut compared = MetricComparison {
        metric: metric.to_string(),
        unit: metric.unit().to_owned(),
        less_is_better: metric.less_is_better(),
        primary: position == 0,
        a: overall(settings, metric, position, measured, A),
        b: overall(settings, metric, position, measured, measured.last_side),
        effect,
        interval95: interval.map(|interval| [interval.low.exp(), interval.high.exp()]),
        smallest_detectable: smallest_detectable(&differences).map(f64::exp_m1),
        p_value,
        pairs: differences.len(),
        difference,
        sentence: String::new(),
    };
    let [a, b] = [A, measured.last_side].map(|side| settings.sides[side].name.as_str());
    compared.sentence = sentence(metric, &compared, [a, b]);
    compared
}

/// The value over all rounds of a side. Percentiles are those of all requests together.
fn overall(
    settings: &CompareSettings,
    metric: Metric,
    position: usize,
    measured: &Measured,
    side: usize,
) -> Option<f64> {
    let of_side = measured.rounds.iter().filter(|round| round.counts && round.side == side);
    let rounds = || of_side.clone().filter(|round| round.values[position].is_some());
    let load = metric.load(!matches!(settings.load, RoundLoad::Share(_)));
    if load == LoadKind::Search {
        return median(&rounds().filter_map(|round| round.values[position]).collect::<Vec<_>>());
    }
    let mut sum = Tally::default();
    rounds().filter_map(|round| round.tallies[load as usize].as_ref()).for_each(|tally| sum.merge(tally));
    sum.value(metric)
}

/// The answer in a sentence without a full stop, on sides of these names.
fn sentence(metric: Metric, compared: &MetricComparison, [a, b]: [&str; 2]) -> String {
    let noun = metric.noun();
    let (Some(effect), Some([low, high]), Some(smallest)) =
        (compared.effect, compared.interval95, compared.smallest_detectable)
    else {
        let pairs = compared.pairs;
        let so_far = match compared.effect {
            Some(effect) => format!(" (so far {b} / {a} = {effect:.3})"),
            None => String::new(),
        };
        return format!(
            "no answer on {noun}: {pairs} valid pairs of rounds are too few, {PAIRS_MIN} are needed{so_far}"
        );
    };
    let interval = interval_in_words(effect, low, high);
    match compared.difference {
        Difference::More | Difference::Less => {
            let (size, more) = (percent((effect - 1.0).abs()), if effect > 1.0 { "more" } else { "less" });
            match metric {
                Metric::ServerCpu => {
                    format!("{b} uses {size} {more} server CPU per request than {a} (95 % interval {interval})")
                }
                Metric::ClientCpu => {
                    format!(
                        "the client uses {size} {more} CPU per request with {b} than with {a} (95 % interval {interval})"
                    )
                }
                _ => {
                    let higher = if effect > 1.0 { "higher" } else { "lower" };
                    format!("the {noun} of {b} is {size} {higher} than that of {a} (95 % interval {interval})")
                }
            }
        }
        _ => {
            // The test is stricter than the interval.
            let chance = if low > 1.0 || high < 1.0 { ", which may be chance" } else { "" };
            format!(
                "no difference in {noun} seen: {b} differs by {} (95 % interval {interval}){chance}; the run would have \
                 seen {}",
                signed_percent(effect - 1.0),
                percent(smallest)
            )
        }
    }
}

/// `2.4 to 3.9 %`, in the direction of the effect; with signs if zero lies between.
fn interval_in_words(effect: f64, low: f64, high: f64) -> String {
    let (low, high) = (100.0 * (low - 1.0), 100.0 * (high - 1.0));
    if low < 0.0 && high > 0.0 {
        return format!("{} to {} %", signed(low), signed(high));
    }
    if effect < 1.0 {
        format!("{} to {} %", plain(-high), plain(-low))
    } else {
        format!("{} to {} %", plain(low), plain(high))
    }
}

fn plain(percent: f64) -> String {
    // Minus zero is zero.
    let percent = if percent.abs() < 0.005 { 0.0 } else { percent };
    if percent.abs() < 1.0 { format!("{percent:.2}") } else { format!("{percent:.1}") }
}

fn signed(percent: f64) -> String {
    let text = plain(percent);
    if percent > 0.0 { format!("+{text}") } else { text }
}

/// A share in percent.
fn percent(share: f64) -> String {
    format!("{} %", plain(100.0 * share))
}

fn signed_percent(share: f64) -> String {
    format!("{} %", signed(100.0 * share))
}

fn planning(settings: &CompareSettings, measured: &Measured) -> Planning {
    let differences = measured.differences(0);
    let detect = match settings.pairs {
        PairPlan::Fixed(_) => None,
        PairPlan::Detect { detect } => Some(detect),
    };
    Planning {
        detect: detect.map(f64::exp_m1),
        planned: measured.planned,
        needed: detect
            .filter(|_| differences.len() > 1)
            .map(|detect| pairs_needed(&differences, detect).max(PAIRS_MIN)),
        pairs: differences.len(),
        repeated: measured.repeated,
        ended: measured.ended,
    }
}

fn verdict_of(
    settings: &CompareSettings,
    primary: &MetricComparison,
    measured: &Measured,
    metric: Metric,
) -> (Verdict, Vec<String>) {
    let mut reasons: Vec<String> = measured.reason.iter().cloned().collect();
    match measured.ended {
        CompareEnd::TargetLost => return (Verdict::Fail, reasons),
        CompareEnd::CommandFailed => return (Verdict::Invalid, reasons),
        CompareEnd::Disturbed => {
            let why = measured.rounds.iter().rev().find_map(|round| round.missed.clone()).unwrap_or_default();
            reasons.push(format!("too many rounds in a row gave no valid value of {}: {why}", primary.metric));
            return (Verdict::Invalid, reasons);
        }
        CompareEnd::Interrupted => reasons.push("the comparison was interrupted; the result is incomplete".to_owned()),
        CompareEnd::Complete | CompareEnd::BudgetSpent => {}
    }
    if primary.difference == Difference::Undetermined {
        reasons.push(primary.sentence.clone());
        return (Verdict::Invalid, reasons);
    }
    if let (Some(allowed), Some([low, high])) = (settings.max_regression, primary.interval95) {
        let (least, most) = if metric.less_is_better() { (low - 1.0, high - 1.0) } else { (1.0 - high, 1.0 - low) };
        if least > allowed {
            reasons.push(format!(
                "{} is worse by {} at least, more than the {} that --max-regression allows",
                settings.sides[B].name,
                percent(least),
                percent(allowed)
            ));
            return (Verdict::Fail, reasons);
        }
        if most > allowed {
            reasons.push(format!(
                "a regression of up to {} cannot be excluded, though --max-regression allows {}; a smaller --detect \
                 gives a narrower interval",
                percent(most),
                percent(allowed)
            ));
        }
    }
    (Verdict::Pass, reasons)
}

fn notes(settings: &CompareSettings, rounds: &Rounds<'_>, measured: &Measured, planning: &Planning) -> Vec<String> {
    let mut notes = vec![format!("each round: {}, {}", rounds.load, display::exact_time(settings.duration))];
    if settings.once {
        notes.push(
            "all rounds of the first side came before those of the second: the effect cannot be told from a drift of the machine or from \
             the order"
                .to_owned(),
        );
    }
    if settings.switch.is_none() && settings.sides.iter().all(|side| side.restart.is_none()) {
        notes.push(
            "each side was one process: the interval does not cover differences from start to start (--restart-a, \
             --restart-b)"
                .to_owned(),
        );
    }
    if rounds.metrics.len() > 1 {
        notes.push(format!("{} was declared primary; the other metrics are descriptive", rounds.metrics[0]));
    }
    if measured.repeated > 0 {
        notes.push(format!("{} pairs were repeated, because a round was invalid", measured.repeated));
    }
    if let (CompareEnd::BudgetSpent, Some(detect)) = (measured.ended, planning.detect) {
        let pairs = planning.pairs.max(1) as f64;
        let longer = planning.needed.map(|needed| measured.elapsed.mul_f64(needed as f64 / pairs));
        let advice = longer.map_or_else(String::new, |longer| {
            format!("; about {} of --budget would suffice", in_minutes(longer.as_secs_f64()))
        });
        notes.push(format!("the time was over before the run could see {}{advice}", percent(detect)));
    }
    for (side, of) in settings.sides.iter().enumerate() {
        let missed: Vec<&String> = measured
            .rounds
            .iter()
            .filter(|round| round.side == side && round.counts)
            .filter_map(|round| round.missed.as_ref())
            .collect();
        if let Some(first) = missed.first() {
            notes.push(format!("{} rounds of {} were not passed; the first: {first}", missed.len(), of.name));
        }
    }
    notes
}

fn in_minutes(seconds: f64) -> String {
    if seconds < 90.0 { format!("{seconds:.0}s") } else { format!("{:.0}m", (seconds / 60.0).ceil()) }
}

#[cfg(test)]
mod tests {
    use thalweg_measure::limit::Statistic;

    use super::*;

    const P99: Metric = Metric::ResponseTime(Statistic::Percentile(99.0));

    #[track_caller]
    fn check(metric: Metric, difference: Difference, [effect, low, high]: [f64; 3], expected: &str) {
        let compared = MetricComparison {
            metric: metric.to_string(),
            unit: metric.unit().to_owned(),
            less_is_better: metric.less_is_better(),
            primary: true,
            a: Some(1.0),
            b: Some(effect),
            effect: Some(effect),
            interval95: Some([low, high]),
            smallest_detectable: Some(0.018),
            p_value: Some(0.5),
            pairs: 12,
            difference,
            sentence: String::new(),
        };
        assert_eq!(sentence(metric, &compared, ["A", "B"]), expected);
    }

    #[test]
    fn sentences_name_direction_size_and_interval() {
        let (more, less, none) = (Difference::More, Difference::Less, Difference::None);
        check(
            Metric::ServerCpu,
            more,
            [1.031, 1.024, 1.039],
            "B uses 3.1 % more server CPU per request than A (95 % interval 2.4 to 3.9 %)",
        );
        check(
            P99,
            less,
            [0.8, 0.75, 0.86],
            "the p99 response time of B is 20.0 % lower than that of A (95 % interval 14.0 to 25.0 %)",
        );
        check(
            Metric::Throughput,
            none,
            [0.998, 0.989, 1.008],
            "no difference in throughput seen: B differs by -0.20 % (95 % interval -1.1 to +0.80 %); the run would have \
             seen 1.8 %",
        );
        // The interval excludes zero, the stricter test does not.
        check(
            Metric::ServerCpu,
            none,
            [1.011, 1.001, 1.021],
            "no difference in server CPU per request seen: B differs by +1.1 % (95 % interval 0.10 to 2.1 %), which may \
             be chance; the run would have seen 1.8 %",
        );
    }

    #[test]
    fn a_budget_is_advised_in_round_times() {
        assert_eq!([in_minutes(31.4), in_minutes(91.0), in_minutes(600.0)], ["31s", "2m", "10m"]);
    }
}
