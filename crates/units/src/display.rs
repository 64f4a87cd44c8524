//! Quantities as people read them: three significant digits, a unit that keeps the number short.
//!
//! These are for tables and sentences. Files and documents carry plain numbers in fixed units
//! instead.

use std::time::Duration;

/// A time in nanoseconds: `870 us`, `1.24 ms`, `2.00 s`, `5.00 min`.
pub fn time(ns: u64) -> String {
    scaled(ns as f64, TIME_UNITS)
}

/// A rate in events per second: `4,870/s`, `0.500/s`.
pub fn rate(per_second: f64) -> String {
    format!("{}/s", significant(per_second))
}

/// A number of bytes, in decimal units: `512 B`, `14.0 KB`.
pub fn bytes(count: u64) -> String {
    if count < 1000 {
        return format!("{count} B");
    }
    scaled(count as f64, &[("KB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12)])
}

/// A size that was chosen, in the binary unit that it is a whole number of, where there is one:
/// `8 KiB`, `2 GiB`, `14.0 KB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let whole = UNITS.iter().find(|(_, bits)| bytes > 0 && bytes.trailing_zeros() >= *bits);
    match whole {
        Some((unit, bits)) if bytes >> bits < 10_000 => format!("{} {unit}", count(bytes >> bits)),
        _ => self::bytes(bytes),
    }
}

/// A link rate in bits per second: `33.6 kbit/s`.
pub fn link_rate(bits_per_second: u64) -> String {
    scaled(bits_per_second as f64, &[("bit/s", 1.0), ("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9)])
}

/// A count in full, with thousands separators: `1,234,567`.
pub fn count(n: u64) -> String {
    grouped(&n.to_string())
}

/// A share from 0 to 1 as a percentage: `0.125 %`, `12.5 %`; zero is `0 %`.
pub fn percent(share: f64) -> String {
    if share == 0.0 {
        return "0 %".to_owned();
    }
    format!("{} %", significant(share * 100.0))
}

/// A time in nanoseconds that is set against a bound: as [`time`], but with as many digits as tell
/// the two apart. A value that is just above a bound is not shown as the bound itself.
pub fn time_against(ns: f64, bound: Duration) -> String {
    scaled_to(ns, TIME_UNITS, digits_apart(ns, bound.as_nanos() as f64))
}

/// The same of a figure that has a bound or none.
pub fn time_within(ns: f64, bound: Option<Duration>) -> String {
    bound.map_or_else(|| time(ns.round() as u64), |bound| time_against(ns.round(), bound))
}

/// A share that is set against a bound, in the same way.
pub fn percent_against(share: f64, bound: f64) -> String {
    if share == 0.0 {
        return percent(share);
    }
    // In percent, as it is shown: a share and its percentage are rounded at different places.
    let (share, bound) = (share * 100.0, bound * 100.0);
    format!("{} %", significant_to(share, digits_apart(share, bound)))
}

/// A time as it would be written on the command line, without loss: `50ms`, `1.5s`, `250us`.
pub fn exact_time(time: Duration) -> String {
    let (number, unit) = exact_parts(time);
    format!("{number}{unit}")
}

/// The same with a space between number and unit, for sentences: `50 ms`.
pub fn exact_time_spaced(time: Duration) -> String {
    let (number, unit) = exact_parts(time);
    format!("{number} {unit}")
}

const TIME_UNITS: &[(&str, f64)] = &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9), ("h", 3600e9)];

/// Digits that are shown, and at most, where fewer would not tell two values apart.
const DIGITS: i32 = 3;
const DIGITS_MAX: i32 = 12;

/// The fewest digits, from [`DIGITS`] on, with which `value` is shown on the side of `bound` on
/// which it is.
fn digits_apart(value: f64, bound: f64) -> i32 {
    let same_side = |digits: &i32| round_significant(value, *digits).partial_cmp(&bound) == value.partial_cmp(&bound);
    (DIGITS..DIGITS_MAX).find(same_side).unwrap_or(DIGITS_MAX)
}

/// Shows `value` in the largest of `units` (ascending) in which it is at least 1 after rounding.
fn scaled(value: f64, units: &[(&str, f64)]) -> String {
    scaled_to(value, units, DIGITS)
}

fn scaled_to(value: f64, units: &[(&str, f64)], digits: i32) -> String {
    let at_least_one = |(_, factor): &&(&str, f64)| round_significant(value / factor, digits) >= 1.0;
    let (unit, factor) = units.iter().rev().find(at_least_one).unwrap_or(&units[0]);
    if *factor == 1.0 && value.fract() == 0.0 {
        return format!("{} {unit}", grouped(&value.to_string()));
    }
    format!("{} {unit}", significant_to(value / factor, digits))
}

/// Three significant digits, with thousands separators where the whole part is long.
fn significant(value: f64) -> String {
    significant_to(value, DIGITS)
}

fn significant_to(value: f64, digits: i32) -> String {
    if !value.is_finite() {
        return value.to_string();
    }
    let rounded = round_significant(value, digits);
    if rounded == 0.0 {
        return "0".to_owned();
    }
    let decimals = (digits - 1 - magnitude(rounded)).max(0) as usize;
    grouped(&format!("{rounded:.decimals$}"))
}

fn round_significant(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let exponent = digits - 1 - magnitude(value);
    // Scale by a positive power of ten in either direction: negative powers are not exact in
    // binary.
    let power = 10_f64.powi(exponent.abs());
    if exponent >= 0 { (value * power).round() / power } else { (value / power).round() * power }
}

/// The power of ten of the first digit.
fn magnitude(value: f64) -> i32 {
    value.abs().log10().floor() as i32
}

/// Puts a comma between groups of three digits of the whole part.
fn grouped(number: &str) -> String {
    let (sign, unsigned) = number.strip_prefix('-').map_or(("", number), |rest| ("-", rest));
    let (whole, fraction) = unsigned.find('.').map_or((unsigned, ""), |dot| unsigned.split_at(dot));
    let mut out = String::from(sign);
    for (position, digit) in whole.char_indices() {
        if position > 0 && (whole.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + fraction
}

/// The largest unit in which at most three decimals say the time exactly, nanoseconds if none does.
/// With six digits before the point at most, the decimals are read back exactly.
fn exact_parts(time: Duration) -> (String, &'static str) {
    let ns = time.as_nanos();
    for (unit, factor) in [("s", 1_000_000_000_u128), ("ms", 1_000_000), ("us", 1000)] {
        let fits = ns.is_multiple_of(factor) || (ns.is_multiple_of(factor / 1000) && ns / factor < 1_000_000);
        if ns >= factor && fits {
            let fraction = format!("{:03}", ns % factor / (factor / 1000));
            let fraction = fraction.trim_end_matches('0');
            let dot = if fraction.is_empty() { "" } else { "." };
            return (format!("{}{dot}{fraction}", ns / factor), unit);
        }
    }
    (ns.to_string(), "ns")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate as units;
    use proptest::prelude::*;

    #[test]
    fn chosen_sizes_are_shown_in_whole_binary_units() {
        let sizes = [0, 512, 8192, 102_400, 14_000, 2 << 30, (1 << 30) + 1];
        let shown = sizes.map(size);
        assert_eq!(shown, ["0 B", "512 B", "8 KiB", "100 KiB", "14.0 KB", "2 GiB", "1.07 GB"]);
    }

    /// A p99 of 50.04 ms was once shown as "50.0 ms is above the limit of 50 ms".
    #[test]
    fn a_figure_just_beyond_its_bound_is_not_shown_as_the_bound() {
        let ms = Duration::from_millis;
        for (ns, bound, shown) in [
            (50_040_000.0, ms(50), "50.04 ms"),
            (50_000_001.0, ms(50), "50.000001 ms"),
            (49_996_000.0, ms(50), "49.996 ms"),
            (50_000_000.0, ms(50), "50.0 ms"),
            (61_234_567.0, ms(50), "61.2 ms"),
            (1_000_100.0, ms(1), "1.0001 ms"),
            (999_999.0, ms(1), "999.999 us"),
            (0.0, ms(1), "0 ns"),
        ] {
            assert_eq!(time_against(ns, bound), shown, "{ns} against {bound:?}");
        }
        for (share, bound, shown) in [
            (0.00100049, 0.001, "0.10005 %"),
            (0.001, 0.001, "0.100 %"),
            (0.0, 0.001, "0 %"),
            (0.95001, 0.95, "95.001 %"),
            (0.96, 0.95, "96.0 %"),
        ] {
            assert_eq!(percent_against(share, bound), shown, "{share} against {bound}");
        }
    }

    proptest! {
        #[test]
        fn a_figure_is_shown_on_its_side_of_a_bound(ns in 1_u64..10_000_000_000, off in -2000_i64..2000) {
            let bound = Duration::from_nanos(ns);
            let value = ns.saturating_add_signed(off);
            let text = time_against(value as f64, bound);
            let shown = units::parse_time(&text.replace(',', ""));
            if let Ok(shown) = shown {
                prop_assert_eq!(shown.cmp(&bound), value.cmp(&ns), "{}", text);
            }
        }
    }

    #[test]
    fn times_keep_three_digits() {
        for (ns, expected) in [
            (0, "0 ns"),
            (1, "1 ns"),
            (999, "999 ns"),
            (870_000, "870 us"),
            (999_600, "1.00 ms"),
            (1_240_000, "1.24 ms"),
            (62_099_000, "62.1 ms"),
            (2_000_000_000, "2.00 s"),
            (59_990_000_000, "1.00 min"),
            (90_000_000_000, "1.50 min"),
            (360_000_000_000_000, "100 h"),
        ] {
            assert_eq!(time(ns), expected);
        }
    }

    #[test]
    fn other_quantities() {
        assert_eq!(rate(4871.6), "4,870/s");
        assert_eq!(rate(48_712.0), "48,700/s");
        assert_eq!(rate(0.5), "0.500/s");
        assert_eq!(rate(0.0), "0/s");
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(14_000), "14.0 KB");
        assert_eq!(bytes(999_999), "1.00 MB");
        assert_eq!(link_rate(33_600), "33.6 kbit/s");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(0), "0");
        assert_eq!(percent(0.00125), "0.125 %");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(1.0), "100 %");
    }

    #[test]
    fn exact_times_are_short() {
        for (ns, expected) in [
            (50_000_000, "50ms"),
            (1_500_000_000, "1.5s"),
            (250_000, "250us"),
            (1, "1ns"),
            (1_000_000_001, "1000000001ns"),
            (0, "0ns"),
        ] {
            assert_eq!(exact_time(Duration::from_nanos(ns)), expected);
        }
    }

    proptest! {
        #[test]
        fn exact_times_round_trip(ns in 0_u64..9_000_000_000_000_000) {
            let time = Duration::from_nanos(ns);
            prop_assert_eq!(units::parse_time(&exact_time(time)), Ok(time));
        }

        #[test]
        fn shown_times_are_within_half_a_percent(ns in 1_000_u64..60_000_000_000) {
            let shown = units::parse_time(&time(ns)).expect("shown times are written as they are read");
            let relative = shown.as_nanos() as f64 / ns as f64 - 1.0;
            prop_assert!(relative.abs() <= 0.005, "{} shown as {}", ns, time(ns));
        }
    }
}
