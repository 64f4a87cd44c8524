//! The three areas in which Mindcraft reads a curve over the load: the peak, where it is, and the
//! shape after it. Pure.

use thalweg_measure::search::OverloadShape;
use thalweg_units::display;

/// At this share of the peak or more everywhere beyond it, a curve is flat.
pub(super) const FLAT_SHARE: f64 = 0.95;
/// Below this share of the peak anywhere beyond it, a curve has collapsed. The document's Apache
/// fell to 7 %, which it calls a collapse.
pub(super) const COLLAPSED_SHARE: f64 = 0.5;
/// Values within this share of the highest are the peak; the first of them is where it begins.
const PEAK_SHARE: f64 = 0.999;

/// The peak of a curve and the shape after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Peak {
    /// The load at which it is.
    pub at: f64,
    /// Its height.
    pub value: f64,
    /// The shape beyond it; `None` if it is at the end.
    pub beyond: Option<Beyond>,
}

/// The curve beyond its peak.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Beyond {
    /// Its shape.
    pub shape: OverloadShape,
    /// Its lowest point there.
    pub lowest: [f64; 2],
    /// That one's share of the peak.
    pub share: f64,
}

impl Peak {
    /// The peak of points in ascending order; `None` if all are zero.
    pub(super) fn of(points: &[[f64; 2]]) -> Option<Self> {
        let most = points.iter().map(|[_, value]| *value).fold(0.0, f64::max);
        let position = points.iter().position(|[_, value]| *value > 0.0 && *value >= most * PEAK_SHARE)?;
        let [at, value] = points[position];
        let lowest = points[position + 1..].iter().copied().min_by(|a, b| a[1].total_cmp(&b[1]));
        let beyond = lowest.map(|lowest| {
            let share = lowest[1] / value;
            let shape = match share {
                share if share >= FLAT_SHARE => OverloadShape::Flat,
                share if share >= COLLAPSED_SHARE => OverloadShape::Decline,
                _ => OverloadShape::Collapse,
            };
            Beyond { shape, lowest, share }
        });
        Some(Self { at, value, beyond })
    }

    /// The shape in words: `flat`, `declines`, `collapses`, or that the peak was not passed.
    pub(super) fn shape(&self) -> &'static str {
        match self.beyond.map(|beyond| beyond.shape) {
            None => "not known: the peak is at the highest load",
            Some(OverloadShape::Flat) => "flat",
            Some(OverloadShape::Decline) => "declines",
            Some(OverloadShape::Collapse) => "collapses",
        }
    }

    /// Peak, where it is, and the shape, as one sentence. `height` is the peak as a text, `load`
    /// the unit of the load.
    pub(super) fn sentence(&self, height: &str, load: &str) -> String {
        let at = display::count(self.at as u64);
        let after = match self.beyond {
            None => "the highest load tried, so that the shape beyond it is not known".to_owned(),
            Some(Beyond { shape, lowest, share }) => {
                let (share, at) = (display::percent(share), display::count(lowest[0] as u64));
                match shape {
                    OverloadShape::Flat => format!("and stays flat beyond: never below {share} of the peak"),
                    OverloadShape::Decline => format!("and declines beyond: to {share} of the peak at {at} {load}"),
                    OverloadShape::Collapse => format!("and collapses beyond: to {share} of the peak at {at} {load}"),
                }
            }
        };
        let comma = if self.beyond.is_none() { "," } else { "" };
        format!("the peak is {height} at {at} {load}{comma} {after}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[f64], at: f64, shape: &str, part: &str) {
        let points: Vec<[f64; 2]> = values.iter().zip(1..).map(|(value, at)| [f64::from(at), *value]).collect();
        let peak = Peak::of(&points).unwrap();
        assert_eq!((peak.at, peak.shape()), (at, shape), "{values:?}");
        let sentence = peak.sentence("1,000/s", "threads");
        assert!(sentence.contains(part), "{sentence}");
    }

    #[test]
    fn shapes_have_names() {
        check(&[100.0, 1000.0, 990.0, 960.0], 2.0, "flat", "never below 96.0 % of the peak");
        check(&[100.0, 1000.0, 940.0, 960.0], 2.0, "declines", "to 94.0 % of the peak at 3 threads");
        check(&[500.0, 1000.0, 800.0, 70.0], 2.0, "collapses", "to 7.00 % of the peak at 4 threads");
        // A curve that collapses and comes back has collapsed.
        check(&[1000.0, 10.0, 1000.0], 1.0, "collapses", "at 2 threads");
        check(&[1.0, 2.0, 3.0], 3.0, "not known: the peak is at the highest load", "3 threads, the highest load");
        // Values that differ by chance are one peak, and it begins with the first.
        check(&[999.5, 1000.0, 999.9], 1.0, "flat", "at 1 threads");
    }

    #[test]
    fn nothing_has_no_peak() {
        assert_eq!(Peak::of(&[]), None);
        assert_eq!(Peak::of(&[[1.0, 0.0]]), None);
    }
}
