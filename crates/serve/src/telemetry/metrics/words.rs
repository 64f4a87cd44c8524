//! Figures in words, for people.

use maud::{Markup, html as markup};

/// A moment, in words that a script may make the reader's own time of.
pub(super) fn moment(rfc3339: &str) -> Markup {
    markup! { time datetime=(rfc3339) { (rfc3339.replace('T', " ").replace('Z', " UTC")) } }
}

/// A count with thousands separators.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A rate: in full when it is large, to a tenth when it is small.
pub(super) fn decimal(rate: f64) -> String {
    if rate >= 100.0 { count(rate.round() as u64) } else { format!("{rate:.1}") }
}

/// A number of bytes, to three digits.
pub(super) fn bytes(number: u64) -> String {
    scaled(number as f64, &["B", "KB", "MB", "GB", "TB", "PB", "EB"])
}

/// Bytes per second as bits per second, the unit in which bandwidth is sold.
pub(super) fn bits(bytes_per_s: f64) -> String {
    scaled(bytes_per_s * 8.0, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"])
}

fn scaled(mut number: f64, units: &[&str]) -> String {
    let mut unit = 0;
    // A number that would be rounded to 1000 is 1 of the next unit.
    while number >= 999.5 && unit + 1 < units.len() {
        number /= 1000.0;
        unit += 1;
    }
    let digits = if unit == 0 || number >= 99.95 {
        0
    } else if number >= 9.995 {
        1
    } else {
        2
    };
    format!("{number:.digits$}\u{a0}{}", units[unit])
}

/// A time in seconds, in two units.
pub(super) fn duration(seconds: i64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        (1, ..) => format!("1 day {hours} h"),
        _ => format!("{days} days {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_in_words() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (12_345_678, "12,345,678")] {
            assert_eq!(count(number), text);
        }
        for (number, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 KB"),
            (99_949, "99.9 KB"),
            (999_499, "999 KB"),
            (999_500, "1.00 MB"),
            (5_000_000_000_000, "5.00 TB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(bytes(number).replace('\u{a0}', " "), text);
        }
        for (seconds, text) in
            [(5, "5 s"), (65, "1 min 5 s"), (3700, "1 h 1 min"), (90_000, "1 day 1 h"), (1_000_000, "11 days 13 h")]
        {
            assert_eq!(duration(seconds), text);
        }
    }
}
