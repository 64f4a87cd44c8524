//! Limits, the conditions of PASS as the user writes them: `p99<50ms`, `errors<0.1%`.
//!
//! The module reads and writes limits. `trial` holds them against the figures of a trial and has
//! the conditions that every trial has to meet.

use crate::histogram::Histogram;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use thalweg_units::display::{self, exact_time};
use thalweg_units::{UnitError, parse_link_rate, parse_percent, parse_rate, parse_size, parse_time};

/// One bound on one figure of a trial. Reads and writes as on the command line, also in documents.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Limit {
    /// The response time, measured from the intended time: `p99<50ms`, `p99.9<=100ms`, `mean<5ms`,
    /// `max<1s`.
    ResponseTime {
        /// Which figure of the distribution.
        statistic: Statistic,
        /// Whether the bound itself still meets the limit.
        inclusive: bool,
        /// The bound, above zero.
        bound: Duration,
    },
    /// The share of offered requests that ended in an error: `errors<0.1%`.
    /// [`crate::outcome::Outcome::is_error`] defines which outcomes are errors.
    Errors {
        /// Whether the bound itself still meets the limit.
        inclusive: bool,
        /// The bound, from 0 to 1.
        share: f64,
    },
    /// The rate at which each connection receives, in kbit/s: `kbit_per_conn>=320`. Met when every
    /// connection of the peak conforms (see `Connections` of `trial`), since the mean over
    /// connections would hide the starved ones.
    KbitPerConnection {
        /// Whether the bound itself still meets the limit.
        inclusive: bool,
        /// The bound in thousands of bits per second, above zero.
        kbit: f64,
    },
    /// Any other figure of a trial: `rate>=500/s`, `bytes_per_s>=10MB`, `first_byte_p99<20ms`,
    /// `connect_max<5ms`.
    Figure {
        /// Which one.
        figure: Figure,
        /// Whether the bound itself still meets the limit.
        inclusive: bool,
        /// The bound in nanoseconds, requests or bytes per second, above zero.
        bound: f64,
    },
}

/// A figure of a trial beside response times and errors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Figure {
    /// Good responses per second; at least so many.
    Rate,
    /// Received bytes per second; at least so many.
    BytesPerSecond,
    /// From sending a request to the first byte of its response; at most so long.
    FirstByte(Statistic),
    /// From SYN to SYN-ACK; at most so long.
    Connect(Statistic),
}

/// All limits, as `--limit list` shows them.
pub const LIST: &str = "\
p99<50ms               percentile of the response time; p(99)<50 is the same, in milliseconds as in k6
mean<5ms, avg<5        mean of the response time (avg<5 in milliseconds, as in k6)
med<20, max<1s         median, longest response time
errors<0.1%            share of requests that ended in an error; errors<0.001 is the same, as in k6
rate>=500/s            good responses per second; also throughput>=500/s
bytes_per_s>=10MB      received bytes per second; also throughput>=80Mbit
first_byte_p99<20ms    from sending to the first byte; any of pNN, mean, max
connect_p99<5ms        from SYN to SYN-ACK; any of pNN, mean, max
kbit_per_conn>=320     each connection receives at least so many kbit/s

< and > exclude the bound, <= and >= include it. Times are up to a bound, rates down to one.
";

/// A figure of a distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Statistic {
    /// The percentile, between 0 and 100: 99.9 for `p99.9`.
    Percentile(f64),
    /// The mean.
    Mean,
    /// The largest value.
    Max,
}

/// A text that is not a limit: what was read, what is wrong with it, and one that works.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// The form or the name is wrong.
    #[error("`{text}` is not a limit: {problem}; expected for example {example}")]
    Form {
        /// The text as it was given.
        text: String,
        /// The fault, as a clause.
        problem: String,
        /// A text that would have been accepted.
        example: &'static str,
    },
    /// The bound is not the quantity that the figure has.
    #[error("`{text}` is not a limit: {source}")]
    Bound {
        /// The text as it was given.
        text: String,
        /// The fault in the bound.
        source: UnitError,
    },
}

impl Limit {
    /// The limit that holds when no other is given on errors: none at all.
    pub const NO_ERRORS: Limit = Limit::Errors { inclusive: true, share: 0.0 };

    /// The bound on a figure of the response times; `None` if the limit is on something else.
    pub fn bound_on(&self, figure: Statistic) -> Option<Duration> {
        match *self {
            Limit::ResponseTime { statistic, bound, .. } if statistic == figure => Some(bound),
            _ => None,
        }
    }

    /// Whether a figure of the response times, in nanoseconds, meets the limit. A limit on
    /// something else is met by every time.
    pub fn is_met_by(&self, observed_ns: f64) -> bool {
        let Limit::ResponseTime { inclusive, bound, .. } = *self else { return true };
        let bound_ns = bound.as_nanos() as f64;
        observed_ns < bound_ns || (inclusive && observed_ns == bound_ns)
    }

    /// The least bits per second that a connection needs to meet this limit; `None` if it does not
    /// concern connections.
    pub fn bits_per_connection_min(&self) -> Option<u64> {
        match *self {
            Limit::KbitPerConnection { inclusive: true, kbit } => Some((kbit * 1e3).ceil() as u64),
            Limit::KbitPerConnection { inclusive: false, kbit } => Some((kbit * 1e3).floor() as u64 + 1),
            Limit::ResponseTime { .. } | Limit::Errors { .. } | Limit::Figure { .. } => None,
        }
    }

    /// Whether the limit is on how much comes, so that low rates miss it.
    pub fn is_on_amount(&self) -> bool {
        matches!(self, Limit::Figure { figure: Figure::Rate | Figure::BytesPerSecond, .. })
    }
}

impl Figure {
    /// Whether more of it is better.
    pub fn is_amount(self) -> bool {
        matches!(self, Figure::Rate | Figure::BytesPerSecond)
    }

    /// Whether an observed value meets a bound.
    pub fn meets(self, observed: f64, inclusive: bool, bound: f64) -> bool {
        let is_beyond = if self.is_amount() { observed > bound } else { observed < bound };
        is_beyond || (inclusive && observed == bound)
    }

    /// A value of it in words.
    pub fn words(self, value: f64) -> String {
        match self {
            Figure::Rate => display::rate(value),
            Figure::BytesPerSecond => format!("{}/s", display::bytes(value as u64)),
            Figure::FirstByte(_) | Figure::Connect(_) => display::time(value.round() as u64),
        }
    }

    /// The figure of this name, `None` for another limit.
    fn parse(name: &str) -> Option<Result<Self, String>> {
        let of = |statistic: &str, figure: fn(Statistic) -> Self| {
            let statistic =
                statistic.strip_prefix('_').ok_or_else(|| format!("`{name}` has no figure, such as {name}_p99"));
            statistic.and_then(Statistic::parse).map(figure)
        };
        match name {
            "rate" => Some(Ok(Figure::Rate)),
            "bytes_per_s" => Some(Ok(Figure::BytesPerSecond)),
            _ => {
                let first_byte = name.strip_prefix("first_byte").or_else(|| name.strip_prefix("ttfb"));
                first_byte
                    .map(|statistic| of(statistic, Figure::FirstByte))
                    .or_else(|| Some(of(name.strip_prefix("connect")?, Figure::Connect)))
            }
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Figure::Rate => f.write_str("rate"),
            Figure::BytesPerSecond => f.write_str("bytes_per_s"),
            Figure::FirstByte(statistic) => write!(f, "first_byte_{statistic}"),
            Figure::Connect(statistic) => write!(f, "connect_{statistic}"),
        }
    }
}

impl Statistic {
    /// The figure of `histogram` in nanoseconds.
    pub fn of(self, histogram: &Histogram) -> f64 {
        match self {
            Statistic::Percentile(percent) => histogram.quantile(percent / 100.0) as f64,
            Statistic::Mean => histogram.mean(),
            Statistic::Max => histogram.max() as f64,
        }
    }

    /// How many samples a verdict on this figure should rest on: a thousand beyond the percentile,
    /// 1000/(1 - q). `None` where no number would do (the maximum) or any does (the mean).
    pub fn samples_wanted(self) -> Option<u64> {
        match self {
            Statistic::Percentile(percent) => Some((100_000.0 / (100.0 - percent)).round() as u64),
            Statistic::Mean | Statistic::Max => None,
        }
    }

    /// The statistic of this name: `p99`, `p99.9`, `mean`, `max`.
    ///
    /// # Errors
    /// There is none of this name; the text is a clause.
    pub fn parse(name: &str) -> Result<Self, String> {
        match name {
            "mean" | "avg" => return Ok(Statistic::Mean),
            "max" => return Ok(Statistic::Max),
            "med" => return Ok(Statistic::Percentile(50.0)),
            _ => {}
        }
        // k6 writes p(99).
        let bare = name.strip_prefix("p(").and_then(|inner| inner.strip_suffix(')')).map(|number| format!("p{number}"));
        let number = bare
            .as_deref()
            .unwrap_or(name)
            .strip_prefix('p')
            .filter(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'));
        match number.and_then(|number| number.parse::<f64>().ok()) {
            Some(percent) if percent > 0.0 && percent < 100.0 => Ok(Statistic::Percentile(percent)),
            Some(_) => Err(format!("`{name}` is not between p0 and p100 (99.9 % is p99.9)")),
            None => Err(format!(
                "`{name}` is unknown; expected pNN, mean, max, errors, rate, bytes_per_s, first_byte_pNN, connect_pNN or \
                 kbit_per_conn (--limit list shows all)"
            )),
        }
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Statistic::Percentile(percent) => write!(f, "p{percent}"),
            Statistic::Mean => f.write_str("mean"),
            Statistic::Max => f.write_str("max"),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_equal = |inclusive: bool| if inclusive { "=" } else { "" };
        match self {
            Limit::ResponseTime { statistic, inclusive, bound } => {
                write!(f, "{statistic}<{}{}", or_equal(*inclusive), exact_time(*bound))
            }
            Limit::Errors { inclusive, share } => {
                write!(f, "errors<{}{}%", or_equal(*inclusive), short_percent(*share))
            }
            Limit::KbitPerConnection { inclusive, kbit } => {
                write!(f, "kbit_per_conn>{}{kbit}", or_equal(*inclusive))
            }
            Limit::Figure { figure: Figure::Rate, inclusive, bound } => {
                write!(f, "rate>{}{bound}/s", or_equal(*inclusive))
            }
            Limit::Figure { figure: Figure::BytesPerSecond, inclusive, bound } => {
                write!(f, "bytes_per_s>{}{bound}", or_equal(*inclusive))
            }
            Limit::Figure { figure, inclusive, bound } => {
                let bound = exact_time(Duration::from_nanos(*bound as u64));
                write!(f, "{figure}<{}{bound}", or_equal(*inclusive))
            }
        }
    }
}

impl FromStr for Limit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        let form = |problem: String, example| LimitError::Form { text: text.to_owned(), problem, example };
        let Some(at) = text.find(['<', '>']) else {
            return Err(form("it has no `<` or `>`".into(), "p99<50ms"));
        };
        let name = text[..at].trim().to_lowercase();
        let (is_upper, rest) = (text[at..].starts_with('<'), &text[at + 1..]);
        let (inclusive, bound) = rest.strip_prefix('=').map_or((false, rest), |bound| (true, bound));
        let within = |source: UnitError| LimitError::Bound { text: text.to_owned(), source };
        if name == "kbit_per_conn" {
            if is_upper {
                return Err(form("a rate per connection needs a lower bound".into(), "kbit_per_conn>=320"));
            }
            let kbit = bound.trim().parse::<f64>().ok().filter(|kbit| kbit.is_finite() && *kbit > 0.0);
            let problem = || form(format!("`{bound}` is not a positive number of kbit/s"), "kbit_per_conn>=320");
            return Ok(Limit::KbitPerConnection { inclusive, kbit: kbit.ok_or_else(problem)? });
        }
        if name == "errors" {
            if !is_upper {
                return Err(form("errors need an upper bound".into(), "errors<0.1%"));
            }
            let share = share(bound).map_err(within)?;
            if share == 0.0 && !inclusive {
                return Err(form("errors cannot be less than zero".into(), "errors<=0%"));
            }
            return Ok(Limit::Errors { inclusive, share });
        }
        if let Some((figure, bound)) = figure(&name, bound) {
            let example = if figure.as_ref().is_ok_and(|figure| figure.is_amount()) {
                "rate>=500/s"
            } else {
                "first_byte_p99<20ms"
            };
            let figure = figure.map_err(|problem| form(problem, example))?;
            if figure.is_amount() == is_upper {
                let side = if is_upper { "a lower" } else { "an upper" };
                return Err(form(format!("{figure} needs {side} bound"), example));
            }
            let bound = bound.map_err(within)?;
            if bound <= 0.0 {
                return Err(form("the bound cannot be zero".into(), example));
            }
            return Ok(Limit::Figure { figure, inclusive, bound });
        }
        let statistic = Statistic::parse(&name).map_err(|problem| form(problem, "p99<50ms"))?;
        if !is_upper {
            return Err(form("response times need an upper bound".into(), "p99<50ms"));
        }
        // The spellings of k6 come with its milliseconds.
        let is_of_k6 = name.starts_with("p(") || matches!(name.as_str(), "avg" | "med");
        let milliseconds = bound.trim().parse::<f64>().ok().filter(|_| is_of_k6);
        let bound =
            milliseconds.map_or_else(|| parse_time(bound), |ms| parse_time(&format!("{ms}ms"))).map_err(within)?;
        if bound.is_zero() {
            return Err(form("a response time cannot be zero".into(), "p99<50ms"));
        }
        Ok(Limit::ResponseTime { statistic, inclusive, bound })
    }
}

/// A share: a percentage, or, as in k6, a number below 1. 1 itself may be meant as a percent.
fn share(text: &str) -> Result<f64, UnitError> {
    match text.trim().parse::<f64>() {
        Ok(share) if share > 0.0 && share < 1.0 => Ok(share),
        _ => parse_percent(text),
    }
}

/// A figure by its name, and the bound on it in its unit. `throughput` is by its unit one of
/// requests or of bytes.
fn figure(name: &str, bound: &str) -> Option<(Result<Figure, String>, Result<f64, UnitError>)> {
    let bits = || parse_link_rate(bound).map(|bits| bits as f64 / 8.0);
    if name == "throughput" {
        return Some(match bits() {
            Ok(bytes) => (Ok(Figure::BytesPerSecond), Ok(bytes)),
            Err(_) => (Ok(Figure::Rate), parse_rate(bound)),
        });
    }
    let figure = Figure::parse(name)?;
    let bound = match figure {
        Ok(Figure::Rate) => parse_rate(bound),
        Ok(Figure::BytesPerSecond) => parse_size(bound.trim().trim_end_matches("/s")).map(|bytes| bytes as f64),
        _ => parse_time(bound).map(|time| time.as_nanos() as f64),
    };
    Some((figure, bound))
}

impl TryFrom<String> for Limit {
    type Error = LimitError;

    fn try_from(text: String) -> Result<Self, LimitError> {
        text.parse()
    }
}

impl From<Limit> for String {
    fn from(limit: Limit) -> String {
        limit.to_string()
    }
}

/// A share as a percentage with as many decimals as it needs, up to twelve: the thirteenth is
/// rounding of the share.
pub(crate) fn short_percent(share: f64) -> String {
    let decimal = format!("{:.12}", share * 100.0);
    decimal.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn time_limit(statistic: Statistic, inclusive: bool, ms: u64) -> Limit {
        Limit::ResponseTime { statistic, inclusive, bound: Duration::from_millis(ms) }
    }

    fn of_figure(figure: Figure, bound: f64) -> Limit {
        Limit::Figure { figure, inclusive: true, bound }
    }

    #[test]
    fn limits_are_read_and_written() {
        for (text, limit, written) in [
            ("p99<50ms", time_limit(Statistic::Percentile(99.0), false, 50), "p99<50ms"),
            ("P99.9 <= 100 ms", time_limit(Statistic::Percentile(99.9), true, 100), "p99.9<=100ms"),
            ("mean<5ms", time_limit(Statistic::Mean, false, 5), "mean<5ms"),
            ("max<=1.5s", time_limit(Statistic::Max, true, 1500), "max<=1.5s"),
            ("errors<0.1%", Limit::Errors { inclusive: false, share: 0.1 / 100.0 }, "errors<0.1%"),
            ("errors<=0%", Limit::NO_ERRORS, "errors<=0%"),
            ("kbit_per_conn>=320", Limit::KbitPerConnection { inclusive: true, kbit: 320.0 }, "kbit_per_conn>=320"),
            ("p(95)<500", time_limit(Statistic::Percentile(95.0), false, 500), "p95<500ms"),
            ("p(99.9)<1s", time_limit(Statistic::Percentile(99.9), false, 1000), "p99.9<1s"),
            ("avg<200", time_limit(Statistic::Mean, false, 200), "mean<200ms"),
            ("med<=20ms", time_limit(Statistic::Percentile(50.0), true, 20), "p50<=20ms"),
            ("errors<0.01", Limit::Errors { inclusive: false, share: 0.01 }, "errors<1%"),
            ("rate>=500/s", of_figure(Figure::Rate, 500.0), "rate>=500/s"),
            ("throughput>=30/m", of_figure(Figure::Rate, 0.5), "rate>=0.5/s"),
            ("bytes_per_s>=10MB/s", of_figure(Figure::BytesPerSecond, 1e7), "bytes_per_s>=10000000"),
            ("throughput>=80Mbit", of_figure(Figure::BytesPerSecond, 1e7), "bytes_per_s>=10000000"),
            ("ttfb_p99<=20ms", of_figure(Figure::FirstByte(Statistic::Percentile(99.0)), 2e7), "first_byte_p99<=20ms"),
            ("connect_max<=5ms", of_figure(Figure::Connect(Statistic::Max), 5e6), "connect_max<=5ms"),
            ("kbit_per_conn>33.6", Limit::KbitPerConnection { inclusive: false, kbit: 33.6 }, "kbit_per_conn>33.6"),
        ] {
            assert_eq!(text.parse(), Ok(limit), "{text}");
            assert_eq!(limit.to_string(), written);
            assert_eq!(written.parse(), Ok(limit), "{written}");
            let json = serde_json::to_string(&limit).unwrap();
            assert_eq!(json, format!("\"{written}\""));
            assert_eq!(serde_json::from_str::<Limit>(&json).unwrap(), limit);
        }
    }

    #[test]
    fn an_invalid_limit_says_why() {
        for (text, part) in [
            ("p99", "no `<` or `>`"),
            ("p99<50", "no unit"),
            ("p999<50ms", "p99.9"),
            ("p100<50ms", "between p0 and p100"),
            ("pinf<50ms", "unknown"),
            ("latency<50ms", "`latency` is unknown"),
            ("p99>50ms", "upper bound"),
            ("p99<0ms", "a response time cannot be zero"),
            ("errors<0%", "errors<=0%"),
            ("errors>1%", "upper bound"),
            ("errors<1", "no unit"),
            ("rate<500/s", "a lower bound"),
            ("rate>=0/s", "zero"),
            ("rate>=fast", "fast"),
            ("first_byte<20ms", "first_byte_p99"),
            ("first_byte_p99>20ms", "an upper bound"),
            ("connect_p0<1ms", "between p0 and p100"),
            ("kbit_per_conn<320", "lower bound"),
            ("kbit_per_conn>=fast", "`fast`"),
            ("kbit_per_conn>=inf", "positive number"),
        ] {
            let message = text.parse::<Limit>().expect_err(text).to_string();
            assert!(message.contains(part), "{text}: {message}");
            assert!(message.contains(text) && message.contains("for example"), "{message}");
        }
    }

    #[test]
    fn percentiles_want_a_thousand_samples_beyond() {
        for (percent, wanted) in [(50.0, 2000), (99.0, 100_000), (99.9, 1_000_000), (99.99, 10_000_000)] {
            assert_eq!(Statistic::Percentile(percent).samples_wanted(), Some(wanted), "p{percent}");
        }
    }

    proptest! {
        #[test]
        fn limits_round_trip(hundredths in 1_u32..10_000, us in 1_u64..10_000_000_000, inclusive: bool) {
            let percent = f64::from(hundredths) / 100.0;
            for limit in [
                Limit::ResponseTime {
                    statistic: Statistic::Percentile(percent),
                    inclusive,
                    bound: Duration::from_micros(us),
                },
                Limit::Errors { inclusive, share: percent / 100.0 },
                Limit::KbitPerConnection { inclusive, kbit: percent },
            ] {
                prop_assert_eq!(limit.to_string().parse(), Ok(limit));
            }
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "\\PC{0,20}") {
            let _ = text.parse::<Limit>();
        }
    }
}
