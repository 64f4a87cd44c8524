//! Quantities as people write them on a command line or in a plan.
//!
//! Parsing is strict: a number without the unit that it needs is an error which says what to write,
//! because a silent default unit is a wrong measurement. A rate is per second, and
//! [`parse_seconds`] is for the times that everybody counts in seconds. Factors are decimal (`KB` =
//! 1000 bytes) except where the unit says otherwise (`KiB` = 1024). How quantities are shown is in
//! [`display`]; what a quantity is for is not known here.

#![forbid(unsafe_code)]

pub mod display;

use std::time::Duration;

/// A text that is not the quantity it should be: what was read, what is wrong with it, and one that
/// works.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {quantity}: {problem}; expected for example {example}")]
pub struct UnitError {
    /// The text as it was given.
    pub text: String,
    /// The expected quantity, such as "time".
    pub quantity: &'static str,
    /// The mistake, as a clause.
    pub problem: String,
    /// A text that would have been accepted.
    pub example: &'static str,
}

/// Parses a size in bytes: `512`, `14KB`, `5MB`, `1.5GB`, `1GiB`.
///
/// A bare number is a number of bytes. `K`, `M`, `G` alone are refused, because programs disagree
/// on their factor.
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    const UNITS: &[(&str, f64)] = &[
        ("", 1.0),
        ("b", 1.0),
        ("kb", 1e3),
        ("mb", 1e6),
        ("gb", 1e9),
        ("tb", 1e12),
        ("kib", 1024.0),
        ("mib", 1_048_576.0),
        ("gib", 1_073_741_824.0),
        ("tib", 1_099_511_627_776.0),
    ];
    const SIZE: Quantity = Quantity { name: "size", example: "14KB" };
    let (number, unit) = SIZE.split(text)?;
    if let "k" | "m" | "g" | "t" = unit.as_str() {
        let upper = unit.to_uppercase();
        let problem = format!("`{upper}` may mean 1000 or 1024; {upper}B is decimal, {upper}iB is binary");
        return Err(SIZE.error(text, problem));
    }
    let bytes = number * SIZE.factor(text, &unit, UNITS, "B, KB, MB, GB, TB, KiB, MiB, GiB, TiB")?;
    SIZE.whole(text, bytes, "bytes")
}

/// Parses a link rate into bits per second: `33.6kbit`, `1Mbit`, `10Gbit`, with or without `/s`.
pub fn parse_link_rate(text: &str) -> Result<u64, UnitError> {
    const UNITS: &[(&str, f64)] = &[("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];
    const LINK_RATE: Quantity = Quantity { name: "link rate", example: "33.6kbit" };
    let (number, unit) = LINK_RATE.split(text)?;
    let unit = unit.strip_suffix("/s").unwrap_or(&unit);
    if let "b" | "k" | "kb" | "m" | "mb" | "g" | "gb" | "kib" | "mib" | "gib" = unit {
        let problem = format!(
            "`{}` may count bytes; the units are bit, kbit, Mbit and Gbit, and 1 KB is 8 kbit",
            written_unit(text)
        );
        return Err(LINK_RATE.error(text, problem));
    }
    let bits = number * LINK_RATE.factor(text, unit, UNITS, "bit, kbit, Mbit, Gbit")?;
    LINK_RATE.positive(text, bits)?;
    LINK_RATE.whole(text, bits, "bits per second")
}

/// Parses a length of time: `250us`, `50ms`, `2s`, `1.5m`, `1h`. Zero is a time; resolution is one
/// nanosecond.
pub fn parse_time(text: &str) -> Result<Duration, UnitError> {
    time(text, "")
}

/// Parses a length of time that is counted in seconds: as [`parse_time`], and a bare number is a
/// number of seconds.
pub fn parse_seconds(text: &str) -> Result<Duration, UnitError> {
    time(text, "s")
}

/// A time; a number without a unit has the unit `bare`.
fn time(text: &str, bare: &str) -> Result<Duration, UnitError> {
    const UNITS: &[(&str, f64)] =
        &[("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("min", 60e9), ("h", 3600e9)];
    const TIME: Quantity = Quantity { name: "time", example: "50ms" };
    let (number, unit) = TIME.split(text)?;
    let unit = if unit.is_empty() { bare.to_owned() } else { unit };
    let ns = (number * TIME.factor(text, &unit, UNITS, "ns, us, ms, s, m, h")?).round();
    if ns > EXACT_MAX {
        return Err(TIME.error(text, "it is too long".into()));
    }
    if ns == 0.0 && number > 0.0 {
        return Err(TIME.error(text, "it is shorter than a nanosecond".into()));
    }
    Ok(Duration::from_nanos(ns as u64))
}

/// Parses a request rate into requests per second: `5000`, `5000/s`, `5k`, `300/m`. Always positive
/// and finite.
///
/// `5m` is refused: it may mean millions or minutes.
pub fn parse_rate(text: &str) -> Result<f64, UnitError> {
    const UNITS: &[(&str, f64)] = &[("", 1.0), ("/s", 1.0), ("/m", 60.0), ("/min", 60.0), ("/h", 3600.0)];
    const RATE: Quantity = Quantity { name: "rate", example: "5000/s" };
    let (number, unit) = RATE.split(text)?;
    if unit == "m" {
        let problem = "`m` may mean millions per second, M/s, or per minute, /m";
        return Err(RATE.error(text, problem.to_owned()));
    }
    let (scale, per) = match unit.as_bytes().first() {
        Some(b'k') => (1e3, &unit[1..]),
        Some(b'm') => (1e6, &unit[1..]),
        _ => (1.0, unit.as_str()),
    };
    let rate = number * scale / RATE.factor(text, per, UNITS, "/s, /m, /h")?;
    RATE.positive(text, rate)?;
    if !rate.is_finite() {
        return Err(RATE.error(text, "it is too high".into()));
    }
    Ok(rate)
}

/// Parses a percentage from 0% to 100% into a share from 0 to 1: `0.1%` is 0.001.
pub fn parse_percent(text: &str) -> Result<f64, UnitError> {
    const PERCENTAGE: Quantity = Quantity { name: "percentage", example: "0.1%" };
    let (number, unit) = PERCENTAGE.split(text)?;
    PERCENTAGE.factor(text, &unit, &[("%", 1.0)], "%")?;
    if number > 100.0 {
        return Err(PERCENTAGE.error(text, "it is above 100%".into()));
    }
    Ok(number / 100.0)
}

/// Above 2^53 an `f64` no longer holds every whole number, so results beyond it would not be what
/// was written.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// A kind of quantity as its error messages name it.
struct Quantity {
    name: &'static str,
    example: &'static str,
}

impl Quantity {
    fn error(&self, text: &str, problem: String) -> UnitError {
        UnitError { text: text.to_owned(), quantity: self.name, problem, example: self.example }
    }

    /// Splits `text` into a finite number that is not negative and its unit in lower case.
    fn split(&self, text: &str) -> Result<(f64, String), UnitError> {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Err(self.error(text, "it is empty".into()));
        }
        if trimmed.starts_with(['-', '−']) {
            return Err(self.error(text, "it is negative".into()));
        }
        let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(end);
        let parsed = number.parse::<f64>().ok().filter(|number| number.is_finite());
        let Some(number) = parsed else {
            return Err(self.error(text, "it does not begin with a decimal number".into()));
        };
        Ok((number, unit.trim_start().to_lowercase()))
    }

    /// Looks up the factor of `unit`, given in lower case.
    fn factor(&self, text: &str, unit: &str, units: &[(&str, f64)], known: &str) -> Result<f64, UnitError> {
        if let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) {
            return Ok(*factor);
        }
        let problem = match written_unit(text) {
            "" => format!("it has no unit ({known})"),
            unit => format!("the unit `{unit}` is unknown; known units are {known}"),
        };
        Err(self.error(text, problem))
    }

    fn positive(&self, text: &str, value: f64) -> Result<(), UnitError> {
        if value > 0.0 {
            return Ok(());
        }
        Err(self.error(text, "it is not above zero".into()))
    }

    /// Takes a whole number out of a product of decimals, forgiving the rounding of binary
    /// fractions only.
    fn whole(&self, text: &str, value: f64, of: &str) -> Result<u64, UnitError> {
        if value > EXACT_MAX {
            return Err(self.error(text, "it is too large".into()));
        }
        let rounded = value.round();
        if (value - rounded).abs() > 1e-9 * value.max(1.0) {
            return Err(self.error(text, format!("it is not a whole number of {of}")));
        }
        Ok(rounded as u64)
    }
}

/// The unit in a text as it is written there.
fn written_unit(text: &str) -> &str {
    text.trim().trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').trim_start()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check<T: PartialEq + std::fmt::Debug>(parse: fn(&str) -> Result<T, UnitError>, cases: &[(&str, T)]) {
        for (text, expected) in cases {
            assert_eq!(parse(text).as_ref(), Ok(expected), "{text}");
        }
    }

    fn check_refused<T: std::fmt::Debug>(parse: fn(&str) -> Result<T, UnitError>, cases: &[(&str, &str)]) {
        for (text, part) in cases {
            let error = parse(text).expect_err(text);
            let message = error.to_string();
            assert!(message.contains(part), "{text}: {message}");
            assert!(message.contains(&format!("`{text}`")), "{message} does not name the text");
            assert!(parse(error.example).is_ok(), "the example of {text} does not work");
        }
    }

    #[test]
    fn sizes() {
        let good = [
            ("512", 512),
            ("0", 0),
            ("14KB", 14_000),
            ("14 kb", 14_000),
            ("5MB", 5_000_000),
            ("1GiB", 1 << 30),
            ("1.5KiB", 1536),
            ("0.1MB", 100_000),
            ("2TB", 2_000_000_000_000),
        ];
        check(parse_size, &good);
        let bad = [
            ("", "empty"),
            ("14k", "KiB"),
            ("-1KB", "negative"),
            ("1.5", "whole number of bytes"),
            ("12XB", "`XB` is unknown"),
            ("KB", "decimal number"),
            ("1.2.3KB", "decimal number"),
            ("99999999TB", "too large"),
            ("inf", "decimal number"),
        ];
        check_refused(parse_size, &bad);
    }

    #[test]
    fn link_rates() {
        let good = [
            ("33.6kbit", 33_600),
            ("1Mbit", 1_000_000),
            ("10Gbit", 10_000_000_000),
            ("28.8kbit/s", 28_800),
            ("300bit", 300),
        ];
        check(parse_link_rate, &good);
        let bad = [
            ("56", "no unit"),
            ("0kbit", "above zero"),
            ("33.6KB", "`KB` may count bytes"),
            ("33.6KB/s", "`KB/s` may count bytes"),
            ("56k", "`k` may count bytes"),
            ("5Tbit", "`Tbit` is unknown"),
            ("0.5bit", "whole number"),
        ];
        check_refused(parse_link_rate, &bad);
    }

    #[test]
    fn times() {
        let good = [
            ("250us", Duration::from_micros(250)),
            ("250µs", Duration::from_micros(250)),
            ("50ms", Duration::from_millis(50)),
            ("2s", Duration::from_secs(2)),
            ("5m", Duration::from_secs(300)),
            ("1.5h", Duration::from_secs(5400)),
            ("0.1ms", Duration::from_micros(100)),
            ("0s", Duration::ZERO),
        ];
        check(parse_time, &good);
        let bad = [
            ("50", "no unit"),
            ("-2s", "negative"),
            ("2sec", "`sec` is unknown"),
            ("0.1ns", "shorter than a nanosecond"),
            ("9999999999h", "too long"),
            ("NaN", "decimal number"),
        ];
        check_refused(parse_time, &bad);
    }

    #[test]
    fn times_in_seconds_need_no_unit() {
        let good = [
            ("10", Duration::from_secs(10)),
            ("0.5", Duration::from_millis(500)),
            ("0", Duration::ZERO),
            ("50ms", Duration::from_millis(50)),
            ("5m", Duration::from_secs(300)),
        ];
        check(parse_seconds, &good);
        check_refused(parse_seconds, &[("", "empty"), ("-5", "negative"), ("10x", "`x` is unknown"), ("x", "decimal")]);
    }

    #[test]
    fn request_rates() {
        let good = [
            ("5000/s", 5000.0),
            ("5000", 5000.0),
            ("0.5", 0.5),
            ("5k", 5000.0),
            ("300/m", 5.0),
            ("5k/s", 5000.0),
            ("1.5M/s", 1.5e6),
            ("0.5/s", 0.5),
            ("3600/h", 1.0),
            ("2k/min", 2000.0 / 60.0),
        ];
        check(parse_rate, &good);
        let bad = [
            ("5m", "per minute"),
            ("0", "above zero"),
            ("0/s", "above zero"),
            ("-5/s", "negative"),
            ("NaN/s", "decimal number"),
            ("inf/s", "decimal number"),
            ("5/d", "unknown"),
            ("1e3/s", "unknown"),
        ];
        check_refused(parse_rate, &bad);
        let too_high = format!("{}/s", "9".repeat(400));
        assert!(parse_rate(&too_high).is_err());
    }

    #[test]
    fn percentages() {
        check(parse_percent, &[("0.1%", 0.1 / 100.0), ("100%", 1.0), ("0 %", 0.0)]);
        check_refused(parse_percent, &[("0.1", "no unit"), ("101%", "above 100%"), ("-1%", "negative")]);
    }

    proptest! {
        #[test]
        fn whole_sizes_survive(kilobytes in 0_u64..9_000_000_000_000) {
            prop_assert_eq!(parse_size(&format!("{kilobytes}KB")), Ok(kilobytes * 1000));
            prop_assert_eq!(parse_size(&kilobytes.to_string()), Ok(kilobytes));
        }

        #[test]
        fn times_survive(us in 0_u64..9_000_000_000_000) {
            prop_assert_eq!(parse_time(&format!("{us}us")), Ok(Duration::from_micros(us)));
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "\\PC{0,20}") {
            let _ = (parse_size(&text), parse_link_rate(&text), parse_time(&text), parse_seconds(&text));
            let _ = (parse_rate(&text), parse_percent(&text));
        }
    }
}
