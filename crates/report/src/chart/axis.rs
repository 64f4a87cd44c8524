//! Axes: which value stands where, and which values are labelled.

use thalweg_units::display;

use super::super::words;

/// An axis of a chart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    /// The quantity with its unit, where the chart's title does not say it.
    pub(crate) title: Option<String>,
    /// The ends; `low` < `high`.
    low: f64,
    high: f64,
    is_log: bool,
    /// Set where the labels are no plain numbers.
    ticks: Option<Vec<(f64, String)>>,
    unit: &'static str,
}

/// The shortest time that a logarithmic axis shows. The exchanged histograms count in microseconds,
/// so a zero there is any time below one; it is drawn at the edge instead of being lost.
const FLOOR_US: f64 = 1.0;

impl Axis {
    /// An axis of plain numbers from `low` to `high`.
    pub(crate) fn linear(low: f64, high: f64) -> Self {
        let low = if low.is_finite() { low } else { 0.0 };
        let high = if high > low && high.is_finite() { high } else { low + 1.0 };
        Self { title: None, low, high, is_log: false, ticks: None, unit: "" }
    }

    /// An axis of counts or rates from zero up to `high`.
    pub(crate) fn from_zero(high: f64) -> Self {
        Self::linear(0.0, if high > 0.0 { high } else { 1.0 })
    }

    /// A logarithmic axis of times in microseconds that holds all of `us`, labelled in units.
    pub(crate) fn times_us(us: impl IntoIterator<Item = f64>) -> Self {
        let scale = TimeScale::of(us);
        let ticks = scale.ticks.iter().map(|us| (*us, words::round_time_us(*us))).collect();
        Self { title: None, low: scale.low, high: scale.high, is_log: true, ticks: Some(ticks), unit: "" }
    }

    /// A logarithmic axis of sizes in bytes, labelled at powers of ten.
    pub(crate) fn sizes(first: u64, last: u64) -> Self {
        let (low, high) = (first.max(1) as f64, last.max(first.max(1) * 10) as f64);
        let powers = (0..=19).map(|power| 10_u64.pow(power)).filter(|size| (low..=high).contains(&(*size as f64)));
        let ticks =
            powers.map(|size| (size as f64, display::bytes(size).replace(".00", "").replace(".0", ""))).collect();
        Self { title: None, low, high, is_log: true, ticks: Some(ticks), unit: "" }
    }

    /// The same axis with a title.
    pub(crate) fn titled(self, title: impl Into<String>) -> Self {
        Self { title: Some(title.into()), ..self }
    }

    /// The same axis with a unit behind each number.
    pub(crate) fn in_unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    /// The same axis with these labels.
    pub(crate) fn labelled(self, ticks: Vec<(f64, String)>) -> Self {
        Self { ticks: Some(ticks), ..self }
    }

    /// The place of a value between the ends: 0 at the low one, 1 at the high one.
    pub(crate) fn place(&self, value: f64) -> f64 {
        if !self.is_log {
            return (value - self.low) / (self.high - self.low);
        }
        (value.max(FLOOR_US).ln() - self.low.ln()) / (self.high.ln() - self.low.ln())
    }

    /// The labelled values, about `wanted` of them.
    pub(super) fn ticks(&self, wanted: usize) -> Vec<(f64, String)> {
        if let Some(ticks) = &self.ticks {
            return ticks.clone();
        }
        let step = step(self.high - self.low, wanted);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(|n| n as f64 * step).map(|value| (value, self.text(value, step))).collect()
    }

    /// A value of the axis for a label of its own.
    pub(super) fn value_text(&self, value: f64) -> String {
        if self.is_log { words::time_us(value) } else { self.text(value, (self.high - self.low) / 1000.0) }
    }

    /// A number with as many digits as the distance to the next one needs.
    fn text(&self, value: f64, step: f64) -> String {
        let decimals = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
        let number = match decimals {
            0 if value >= 0.0 => display::count(value.round() as u64),
            _ => {
                let number = format!("{value:.decimals$}");
                let number =
                    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { &number };
                number.replace('-', "\u{2212}")
            }
        };
        format!("{number}{}", self.unit)
    }
}

/// A step of 1, 2 or 5 times a power of ten that comes nearest to `wanted` parts of `width`.
fn step(width: f64, wanted: usize) -> f64 {
    let rough = width / wanted.max(1) as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power);
    let distance = |step: &f64| (step / rough).ln().abs();
    steps.into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(rough)
}

/// The ends and ticks of a logarithmic time axis, all of them 1, 2 or 5 times a power of ten.
#[derive(Debug, PartialEq)]
struct TimeScale {
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

impl TimeScale {
    fn of(us: impl IntoIterator<Item = f64>) -> Self {
        /// Up to one hour, the longest time that histograms resolve.
        const DECADES: i32 = 10;
        /// Beyond so many steps only powers of ten are labelled.
        const STEPS_LABELLED: usize = 8;
        let steps: Vec<f64> =
            (0..DECADES).flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(decade))).collect();
        let longest = steps[steps.len() - 1];
        let shown = us.into_iter().filter(|us| us.is_finite()).map(|us| us.max(FLOOR_US).min(longest));
        let (least, most) = shown.fold((longest, FLOOR_US), |(least, most), us| (least.min(us), most.max(us)));
        let least = least.min(most);
        // Two steps apart at least, so that the axis has a scale.
        let low = steps.iter().rposition(|step| *step <= least).unwrap_or(0).min(steps.len() - 3);
        let high = steps.iter().position(|step| *step >= most).unwrap_or(steps.len() - 1).max(low + 2);
        let within = &steps[low..=high];
        let every_step = within.len() <= STEPS_LABELLED;
        let ticks = within.iter().copied().filter(|step| every_step || step.log10().fract().abs() < 1e-9).collect();
        TimeScale { low: steps[low], high: steps[high], ticks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_axes_hold_their_values_between_labelled_steps() {
        let check = |us: &[f64], low: f64, high: f64| {
            let scale = TimeScale::of(us.iter().copied());
            assert_eq!((scale.low, scale.high), (low, high), "{us:?}");
            assert!(scale.ticks.len() >= 2, "{us:?} leaves an axis without a scale: {scale:?}");
        };
        check(&[], 1.0, 5.0);
        check(&[0.0], 1.0, 5.0);
        check(&[0.0, f64::NAN, f64::INFINITY], 1.0, 5.0);
        check(&[310.0, 340.0], 200.0, 1000.0);
        check(&[100.0], 100.0, 500.0);
        check(&[3.0, 2_000_000.0], 2.0, 2_000_000.0);
        check(&[1e30], 1e9, 5e9);
    }

    #[test]
    fn linear_axes_are_labelled_at_round_numbers() {
        let check = |axis: Axis, wanted: usize, expected: &[&str]| {
            let texts: Vec<String> = axis.ticks(wanted).into_iter().map(|(_, text)| text).collect();
            assert_eq!(texts, expected, "{axis:?}");
        };
        check(Axis::from_zero(43_000.0), 5, &["0", "10,000", "20,000", "30,000", "40,000"]);
        check(Axis::from_zero(0.35), 4, &["0", "0.1", "0.2", "0.3"]);
        check(Axis::from_zero(f64::NAN), 2, &["0", "0.5", "1"]);
        check(Axis::from_zero(47_000.0), 2, &["0", "20,000", "40,000"]);
        check(Axis::linear(-5.0, 5.0).in_unit(" %"), 2, &["\u{2212}5 %", "0 %", "5 %"]);
        check(Axis::linear(3.0, 3.0), 2, &["3", "3.5", "4"]);
    }

    #[test]
    fn axes_of_sizes_are_labelled_at_powers_of_ten() {
        let labels = |axis: Axis| axis.ticks(5).into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        assert_eq!(labels(Axis::sizes(1, 102_400)), ["1 B", "10 B", "100 B", "1 KB", "10 KB", "100 KB"]);
        assert_eq!(labels(Axis::sizes(512, 512)), ["1 KB"]);
        assert_eq!(Axis::sizes(1, 10_000).place(100.0), 0.5);
    }

    #[test]
    fn values_below_the_floor_stand_at_the_edge() {
        let axis = Axis::times_us([1.0, 1000.0]);
        assert_eq!(axis.place(0.0), 0.0);
        assert_eq!(axis.place(1000.0), 1.0);
    }
}
