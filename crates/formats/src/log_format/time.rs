//! Times as logs have them: of the Common Log Format with or without a fraction and a zone, ISO
//! 8601, seconds since 1970, and formats of `strftime`.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::TimeZone;

use crate::access_log::days_from_epoch;

/// A moment: seconds since 1970-01-01 00:00:00 UTC, and the nanoseconds behind them, if the log has
/// a fraction.
pub(super) type Moment = (i64, Option<u32>);

/// How a field of a log says when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TimeForm {
    /// `10/Oct/2000:13:55:36 -0700`, perhaps with a fraction and without a zone.
    Clf,
    /// `2000-10-10T13:55:36-07:00`, perhaps with a fraction; without a zone it is UTC.
    Iso,
    /// Time since 1970 as a number, perhaps with a fraction.
    Since1970 {
        /// Units in a second: 1, a thousand, a million, or a thousand million.
        per_second: u64,
    },
    /// As a format of `strftime` says; without a zone it is UTC.
    Formatted(String),
}

impl TimeForm {
    /// Reads a time.
    pub(super) fn read(&self, text: &[u8]) -> Option<Moment> {
        match self {
            Self::Clf => clf(text),
            Self::Iso => iso(text),
            Self::Since1970 { per_second } => since_1970(text, *per_second),
            Self::Formatted(format) => formatted(text, format),
        }
    }
}

/// Reads a time in whichever of these forms it has. A number of many digits is one of milliseconds,
/// microseconds or nanoseconds.
pub(super) fn any(text: &[u8]) -> Option<Moment> {
    let whole_digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_number = whole_digits > 0 && text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    let per_second = match whole_digits {
        ..=11 => 1,
        12..=14 => 1_000,
        15..=17 => 1_000_000,
        _ => 1_000_000_000,
    };
    if is_number { since_1970(text, per_second) } else { iso(text).or_else(|| clf(text)) }
}

/// The fraction of a second that these digits are, as nanoseconds.
fn fraction(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let nine = digits.iter().copied().chain(std::iter::repeat(b'0')).take(9);
    Some(nine.fold(0, |number, digit| number * 10 + u32::from(digit - b'0')))
}

fn clf(text: &[u8]) -> Option<Moment> {
    const MONTHS: [&[u8]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    const CLOCK_BYTES: usize = b"10/Oct/2000:13:55:36".len();
    let (clock, rest) = text.split_at_checked(CLOCK_BYTES)?;
    let number = |from: usize, to: usize| {
        let digits = clock[from..to].iter();
        digits.clone().all(u8::is_ascii_digit).then(|| digits.fold(0, |all, digit| all * 10 + i64::from(digit - b'0')))
    };
    if [2, 6].iter().any(|&at| clock[at] != b'/') || [11, 14, 17].iter().any(|&at| clock[at] != b':') {
        return None;
    }
    let month = 1 + MONTHS.iter().position(|month| *month == &clock[3..6])? as i64;
    let (day, year) = (number(0, 2)?, number(7, 11)?);
    let (hour, minute, second) = (number(12, 14)?, number(15, 17)?, number(18, 20)?);
    if !(1..=31).contains(&day) || year == 0 || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (fraction_ns, zone) = match rest {
        [b'.' | b',', digits @ ..] => {
            let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
            (Some(fraction(&digits[..end])?), &digits[end..])
        }
        _ => (None, rest),
    };
    let unix_s = days_from_epoch(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    Some((unix_s - zone_s(zone)?, fraction_ns))
}

/// The seconds by which a zone such as ` -0700` is ahead; none is UTC.
fn zone_s(zone: &[u8]) -> Option<i64> {
    let digit = |byte: u8| byte.is_ascii_digit().then(|| i64::from(byte - b'0'));
    match *zone {
        [] => Some(0),
        [b' ', sign @ (b'+' | b'-'), h1, h2, m1, m2] => {
            let seconds = (digit(h1)? * 10 + digit(h2)?) * 3600 + (digit(m1)? * 10 + digit(m2)?) * 60;
            Some(if sign == b'+' { seconds } else { -seconds })
        }
        _ => None,
    }
}

fn iso(text: &[u8]) -> Option<Moment> {
    let text = std::str::from_utf8(text).ok()?;
    // Some write `+0000`, which jiff reads too.
    let in_utc = || text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
    let time: Timestamp = text.parse().ok().or_else(in_utc)?;
    // A date alone is no time of a request.
    let has_clock = text.contains(':');
    has_clock.then(|| moment(time, text.contains(['.', ','])))
}

fn formatted(text: &[u8], format: &str) -> Option<Moment> {
    let broken = BrokenDownTime::parse(format, text).ok()?;
    let in_utc = || broken.to_datetime().ok()?.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
    let time = broken.to_timestamp().ok().or_else(in_utc)?;
    Some(moment(time, time.subsec_nanosecond() != 0))
}

fn moment(time: Timestamp, has_fraction: bool) -> Moment {
    // Towards the past, so that the fraction is not negative.
    let whole = time.as_nanosecond().div_euclid(1_000_000_000) as i64;
    let fraction_ns = time.as_nanosecond().rem_euclid(1_000_000_000) as u32;
    (whole, has_fraction.then_some(fraction_ns))
}

fn since_1970(text: &[u8], per_second: u64) -> Option<Moment> {
    let end = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
    let (whole, rest) = text.split_at(end);
    if whole.is_empty() || whole.len() > 19 || !whole.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = std::str::from_utf8(whole).ok()?.parse::<u64>().ok()?;
    let seconds = i64::try_from(number / per_second).ok().filter(|seconds| *seconds < SECONDS_MAX)?;
    if per_second > 1 {
        return Some((seconds, Some((number % per_second * (1_000_000_000 / per_second)) as u32)));
    }
    let fraction_ns = if rest.len() > 1 { Some(fraction(&rest[1..])?) } else { None };
    Some((seconds, fraction_ns))
}

/// The year 9999.
const SECONDS_MAX: i64 = 253_402_300_800;

#[cfg(test)]
mod tests {
    use super::*;

    const THEN: i64 = 971_211_336;

    #[track_caller]
    fn check(form: &TimeForm, text: &str, expected: Option<Moment>) {
        assert_eq!(form.read(text.as_bytes()), expected, "{text}");
    }

    #[test]
    fn times_have_fractions_and_zones_or_not() {
        let clf = TimeForm::Clf;
        check(&clf, "10/Oct/2000:13:55:36 -0700", Some((THEN, None)));
        check(&clf, "10/Oct/2000:20:55:36.655", Some((THEN, Some(655_000_000))));
        check(&clf, "10/Oct/2000:13:55:36.000001 -0700", Some((THEN, Some(1000))));
        check(&clf, "10/Okt/2000:13:55:36 -0700", None);
        check(&clf, "10/Oct/2000:13:55:36 -07", None);
        check(&clf, "10/Oct", None);
        let iso = TimeForm::Iso;
        check(&iso, "2000-10-10T20:55:36Z", Some((THEN, None)));
        check(&iso, "2000-10-10T13:55:36-07:00", Some((THEN, None)));
        check(&iso, "2000-10-10T20:55:36.186641Z", Some((THEN, Some(186_641_000))));
        check(&iso, "2000-10-10 20:55:36", Some((THEN, None)));
        check(&iso, "2000-10-10", None);
        check(&TimeForm::Since1970 { per_second: 1 }, "971211336.25", Some((THEN, Some(250_000_000))));
        check(&TimeForm::Since1970 { per_second: 1 }, "971211336", Some((THEN, None)));
        check(&TimeForm::Since1970 { per_second: 1000 }, "971211336250", Some((THEN, Some(250_000_000))));
        check(&TimeForm::Since1970 { per_second: 1 }, "-", None);
        check(&TimeForm::Formatted("%d.%m.%Y %H:%M:%S %z".to_owned()), "10.10.2000 13:55:36 -0700", Some((THEN, None)));
        check(&TimeForm::Formatted("%d.%m.%Y %H:%M:%S".to_owned()), "10.10.2000 20:55:36", Some((THEN, None)));
    }

    #[test]
    fn a_form_is_told_by_the_text() {
        let quarter = Some((THEN, Some(250_000_000)));
        for text in ["971211336.25", "971211336250", "971211336250000", "2000-10-10T20:55:36.25Z"] {
            assert_eq!(any(text.as_bytes()), quarter, "{text}");
        }
        assert_eq!(any(b"10/Oct/2000:20:55:36 +0000"), Some((THEN, None)));
        assert_eq!([any(b""), any(b"-"), any(b"yesterday")], [None; 3]);
    }
}
