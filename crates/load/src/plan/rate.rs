//! Rate profiles: arrivals per second that stay, step, or ramp, as a pure function of time.

use std::time::Duration;

use thalweg_units::{parse_rate, parse_seconds};

/// Arrivals per second as a function of time, made of segments over each of which the rate stays or
/// changes linearly. Before the first segment its first rate holds, after the last one its last.
#[derive(Clone, Debug, PartialEq)]
pub struct RateProfile {
    /// Never empty.
    segments: Vec<Segment>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Segment {
    /// Seconds from the start, and arrivals until then.
    start_s: f64,
    start_count: f64,
    length_s: f64,
    /// Arrivals per second at its ends.
    from: f64,
    to: f64,
}

/// Rates as they are written: `5000` or `5000/s`, `1000..5000` for a ramp, several with commas
/// between them for steps, each with a length as in `1000:10s` or all without one.
#[derive(Clone, Debug, PartialEq)]
pub struct RateText {
    parts: Vec<RatePart>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct RatePart {
    from: f64,
    to: f64,
    length: Option<Duration>,
}

/// How the arrivals of a rate lie in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Spacing {
    /// Number `n` when the rate, summed from the start, comes to `n`.
    #[default]
    Constant,
    /// Independent of one another: a Poisson process, whose gaps are exponential.
    Poisson,
}

/// Why a text is no rate.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct RateError(String);

impl RateProfile {
    /// Most segments of a profile.
    const SEGMENTS_MAX: usize = 10_000;

    /// The same rate at all times.
    ///
    /// # Panics
    /// The rate is not positive.
    pub fn constant(rate: f64) -> Self {
        assert!(rate > 0.0 && rate.is_finite(), "a rate is positive");
        Self {
            segments: vec![Segment { start_s: 0.0, start_count: 0.0, length_s: f64::INFINITY, from: rate, to: rate }],
        }
    }

    fn of(parts: &[(f64, f64, f64)]) -> Self {
        let mut segments = Vec::with_capacity(parts.len());
        let (mut start_s, mut start_count) = (0.0, 0.0);
        for &(from, to, length_s) in parts {
            segments.push(Segment { start_s, start_count, length_s, from, to });
            start_s += length_s;
            start_count += (from + to) / 2.0 * length_s;
        }
        Self { segments }
    }

    /// The rate, if it is the same at all times.
    pub fn as_constant(&self) -> Option<f64> {
        let first = self.segments[0].from;
        self.segments.iter().all(|segment| segment.from == first && segment.to == first).then_some(first)
    }

    /// The rate at the start.
    pub fn first(&self) -> f64 {
        self.segments[0].from
    }

    /// The highest rate.
    pub fn highest(&self) -> f64 {
        self.segments.iter().map(|segment| segment.from.max(segment.to)).fold(0.0, f64::max)
    }

    /// The mean rate over a length from the start.
    pub fn mean(&self, length: Duration) -> f64 {
        self.as_constant().unwrap_or_else(|| self.count_until(length.as_secs_f64()) / length.as_secs_f64())
    }

    /// Arrivals from the start until `seconds` after it, as a real number; before the start it is
    /// negative.
    pub fn count_until(&self, seconds: f64) -> f64 {
        let at = self.segments.partition_point(|segment| segment.start_s <= seconds).saturating_sub(1);
        let segment = &self.segments[at];
        let within = seconds - segment.start_s;
        if within <= 0.0 {
            return segment.start_count + within * segment.from;
        }
        let inside = within.min(segment.length_s);
        let beyond = if at + 1 == self.segments.len() { within - inside } else { 0.0 };
        segment.start_count + inside * (segment.from + segment.slope() * inside / 2.0) + beyond * segment.to
    }

    /// When the arrival with the real number `count` is due, in nanoseconds from the start; before
    /// it for negative numbers. The inverse of [`RateProfile::count_until`].
    pub fn due_ns(&self, count: f64) -> i64 {
        if let [only] = self.segments[..]
            && only.from == only.to
        {
            // Exact to the nanosecond up to 2^53 ns, 104 days.
            return (count * (1e9 / only.from)).round() as i64;
        }
        let at = self.segments.partition_point(|segment| segment.start_count <= count).saturating_sub(1);
        let segment = &self.segments[at];
        let more = count - segment.start_count;
        let whole = (segment.from + segment.to) / 2.0 * segment.length_s;
        let within_s = if more <= 0.0 {
            more / segment.from
        } else if at + 1 == self.segments.len() && more > whole {
            segment.length_s + (more - whole) / segment.to
        } else {
            // The root of from x t + slope x t^2 / 2 = more, in the form that does not cancel when
            // the slope is small.
            let root = (segment.from * segment.from + 2.0 * segment.slope() * more).max(0.0).sqrt();
            2.0 * more / (segment.from + root)
        };
        ((segment.start_s + within_s) * 1e9).round() as i64
    }
}

impl Segment {
    fn slope(&self) -> f64 {
        if self.from == self.to { 0.0 } else { (self.to - self.from) / self.length_s }
    }
}

impl RateText {
    /// The profile over a run. Segments without a length share `length` equally; with lengths, the
    /// last rate holds after them.
    pub fn over(&self, length: Duration) -> RateProfile {
        if let [only] = self.parts[..]
            && only.from == only.to
        {
            return RateProfile::constant(only.from);
        }
        let share_s = length.as_secs_f64() / self.parts.len() as f64;
        let length_s = |part: &RatePart| part.length.map_or(share_s, |length| length.as_secs_f64());
        let parts: Vec<_> = self.parts.iter().map(|part| (part.from, part.to, length_s(part))).collect();
        RateProfile::of(&parts)
    }

    /// How long its segments are together, if they say.
    pub fn length(&self) -> Option<Duration> {
        self.parts.iter().map(|part| part.length).sum()
    }

    /// The highest rate in it.
    pub fn highest(&self) -> f64 {
        self.parts.iter().map(|part| part.from.max(part.to)).fold(0.0, f64::max)
    }
}

impl std::str::FromStr for RateText {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let parts: Vec<RatePart> = text.split(',').map(|part| part.trim().parse()).collect::<Result<_, _>>()?;
        let with_length = parts.iter().filter(|part| part.length.is_some()).count();
        if with_length != 0 && with_length != parts.len() {
            return Err(RateError("give each step a length, as in 1000:10s,2000:20s, or none of them".to_owned()));
        }
        if parts.len() > RateProfile::SEGMENTS_MAX {
            return Err(RateError(format!("{} steps; the maximum is {}", parts.len(), RateProfile::SEGMENTS_MAX)));
        }
        if parts.iter().all(|part| part.from == 0.0 && part.to == 0.0)
            || parts.last().is_some_and(|part| part.to == 0.0)
        {
            return Err(RateError(
                "a load that ends at 0/s never sends its last request; end it with a higher rate".to_owned(),
            ));
        }
        Ok(Self { parts })
    }
}

impl std::str::FromStr for RatePart {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let (rates, length) = match text.split_once(':') {
            None => (text, None),
            Some((rates, length)) => {
                let length = parse_seconds(length).map_err(|error| RateError(error.to_string()))?;
                if length.is_zero() {
                    return Err(RateError(format!("{text:?}: a step has a length")));
                }
                (rates, Some(length))
            }
        };
        // A ramp may begin or pause at nothing; a rate that stays is positive.
        let end = |text: &str| match text.trim() {
            "0" | "0/s" | "0/m" => Ok(0.0),
            text => parse_rate(text).map_err(|error| RateError(error.to_string())),
        };
        let (from, to) = match rates.split_once("..") {
            None => {
                let rate = if length.is_some() {
                    end(rates)?
                } else {
                    parse_rate(rates).map_err(|error| RateError(error.to_string()))?
                };
                (rate, rate)
            }
            Some((from, to)) => (end(from)?, end(to)?),
        };
        Ok(Self { from, to, length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(text: &str, seconds: u64) -> RateProfile {
        text.parse::<RateText>().unwrap().over(Duration::from_secs(seconds))
    }

    #[test]
    fn counts_and_times_are_each_other_s_inverse() {
        for text in [
            "1000/s",
            "100/s..500/s",
            "0/s..1000/s",
            "500/s..100/s",
            "10/s:5s,1000/s:2s",
            "100/s:1s,0/s:1s,100/s..300/s:8s",
        ] {
            let profile = profile(text, 10);
            for count in 0..1200 {
                let due = profile.due_ns(f64::from(count));
                let back = profile.count_until(due as f64 / 1e9);
                assert!(
                    (back - f64::from(count)).abs() < 1e-3,
                    "{text}: number {count} is due at {due} ns, where it is {back}"
                );
            }
        }
    }

    #[test]
    fn due_times_ascend_over_the_joints() {
        let profile = profile("100/s:1s,0/s:1s,100/s..300/s:8s,50/s:1s", 10);
        let times: Vec<i64> = (-50..2000).map(|count| profile.due_ns(f64::from(count))).collect();
        assert!(times.is_sorted());
        assert_eq!(profile.due_ns(0.0), 0);
        assert_eq!(profile.due_ns(-50.0), -500_000_000);
        assert_eq!(profile.due_ns(100.0), 2_000_000_000, "the pause has no arrivals");
    }

    #[test]
    fn a_ramp_has_the_area_of_its_trapezoid() {
        let profile = profile("1000/s..5000/s", 20);
        assert_eq!(profile.count_until(20.0).round(), 60_000.0);
        assert_eq!(profile.mean(Duration::from_secs(20)).round(), 3000.0);
        assert_eq!(profile.count_until(21.0).round(), 65_000.0, "the last rate holds");
        assert_eq!((profile.first(), profile.highest(), profile.as_constant()), (1000.0, 5000.0, None));
    }

    #[test]
    fn rates_are_read_or_refused_with_a_reason() {
        let length = |text: &str| text.parse::<RateText>().unwrap().length();
        assert_eq!(length("5/s"), None);
        assert_eq!(length("5/s:1s,60/m..7/s:2s"), Some(Duration::from_secs(3)));
        assert_eq!(length("5:1,6..7:2.5"), Some(Duration::from_millis(3500)));
        assert_eq!("1000..5000".parse(), "1000/s..5000/s".parse::<RateText>());
        for wrong in ["", "x", "0/s", "5/s:0s", "5/s:1s,6/s", "1/s..0/s", "1/s:1s,0/s:1s", "5/s..", "-1/s", "5/s:x"] {
            assert!(wrong.parse::<RateText>().is_err(), "{wrong:?}");
        }
    }
}
