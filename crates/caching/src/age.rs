//! The age of a response (RFC 9111, 4.2.3 and 5.1). All differences of times saturate.

use crate::fields::FieldLines;
use crate::seconds::{add, delta_seconds, elapsed};

/// When a response was asked for and when its head came, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// When the request was sent.
    pub request: i64,
    /// When the response came.
    pub response: i64,
}

/// The value of Age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgeField {
    Absent,
    Seconds(u32),
    /// No number, or more than one.
    Invalid,
}

impl AgeField {
    /// Reads Age.
    ///
    /// RFC 9111, 5.1 has a cache ignore an invalid value and take the first of several, but only as
    /// "SHOULD". Both would call a response fresh whose age is not known, so that here it counts as
    /// stale, which costs a validation.
    pub(crate) fn of(fields: &impl FieldLines) -> Self {
        let mut values = fields.all("age");
        match (values.next(), values.next()) {
            (None, _) => Self::Absent,
            (Some(value), None) => delta_seconds(value).map_or(Self::Invalid, Self::Seconds),
            (Some(_), Some(_)) => Self::Invalid,
        }
    }
}

/// `corrected_initial_age` of RFC 9111, 4.2.3: the age of the response when it came.
pub(crate) fn initial_age(age: AgeField, date: i64, times: Times) -> u32 {
    let apparent_age = elapsed(date, times.response);
    let age_value = match age {
        AgeField::Seconds(seconds) => seconds,
        AgeField::Absent | AgeField::Invalid => 0,
    };
    apparent_age.max(add(age_value, elapsed(times.request, times.response)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::fields;
    use crate::seconds::SECONDS_MAX;

    #[test]
    fn age_field() {
        let check = |lines: &[&str], expected| assert_eq!(AgeField::of(&fields(lines)), expected, "{lines:?}");
        // RFC 9111, 5.1.
        check(&[], AgeField::Absent);
        check(&["Age: 0"], AgeField::Seconds(0));
        check(&["Age: 7200"], AgeField::Seconds(7200));
        check(&["Age: 99999999999"], AgeField::Seconds(SECONDS_MAX));
        for value in ["abc", "-7200", "7200.0", "7200,0", "0, 0", "3600, 3600", "7200;a=b", "7200;a=1", ""] {
            check(&[&format!("Age: {value}")], AgeField::Invalid);
        }
        check(&["Age: 7200", "Age: 0"], AgeField::Invalid);
        check(&["Age: 0", "Age: 0"], AgeField::Invalid);
    }

    #[test]
    fn age_on_arrival() {
        let check = |age, date, request, response, expected| {
            let times = Times { request, response };
            assert_eq!(initial_age(age, date, times), expected, "{age:?} {date} {times:?}");
        };
        // RFC 9111, 4.2.3.
        check(AgeField::Absent, 1000, 1000, 1000, 0);
        check(AgeField::Absent, 900, 1000, 1000, 100);
        check(AgeField::Absent, 1100, 1000, 1000, 0);
        check(AgeField::Seconds(30), 1000, 1000, 1002, 32);
        check(AgeField::Seconds(30), 900, 1000, 1002, 102);
        check(AgeField::Seconds(30), 1000, 1002, 1000, 30);
        check(AgeField::Seconds(SECONDS_MAX), 1000, 1000, 1002, SECONDS_MAX);
        check(AgeField::Absent, i64::MIN, i64::MIN, i64::MAX, SECONDS_MAX);
        check(AgeField::Absent, i64::MAX, i64::MAX, i64::MIN, 0);
    }
}
