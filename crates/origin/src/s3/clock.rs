//! The clock of signatures: this host's, corrected by the difference that the server's Date shows.

use std::time::SystemTime;

use jiff::Timestamp;
use thalweg_wire::date;

use crate::fields::{FieldLine, first};

/// Differences up to this come from whole seconds and from slow answers.
const UNIMPORTANT_S: i64 = 5;

pub(super) struct Clock {
    /// The present second since 1970.
    now_s: fn() -> i64,
}

impl Clock {
    pub(super) fn of_system() -> Self {
        let now_s = || {
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
        };
        Self { now_s }
    }

    /// The time to sign with, for a server whose clock is ahead by so much.
    pub(super) fn timestamp(&self, ahead_s: i64) -> Timestamp {
        Timestamp::from_second((self.now_s)().saturating_add(ahead_s)).unwrap_or_default()
    }

    /// How far the server's clock is ahead, by the Date of an answer that comes from it just now.
    pub(super) fn ahead_s(&self, fields: &[FieldLine]) -> Option<i64> {
        if first(fields, "age").is_some() {
            return None;
        }
        let ahead_s = date::parse(first(fields, "date")?)?.saturating_sub((self.now_s)());
        Some(if ahead_s.abs() <= UNIMPORTANT_S { 0 } else { ahead_s })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_of_an_answer_shows_the_servers_clock() {
        // Sun, 06 Nov 1994 08:49:37 GMT
        let clock = Clock { now_s: || 784_111_777 };
        let check = |fields: &[(&str, &str)], expected: Option<i64>| {
            let fields: Vec<FieldLine> = fields.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect();
            assert_eq!(clock.ahead_s(&fields), expected, "{fields:?}");
        };
        check(&[("date", "Sun, 06 Nov 1994 08:49:40 GMT")], Some(0));
        check(&[("date", "Sun, 06 Nov 1994 09:49:37 GMT")], Some(3600));
        check(&[("date", "Sun, 06 Nov 1994 08:48:37 GMT")], Some(-60));
        check(&[("date", "Sun, 06 Nov 1994 09:49:37 GMT"), ("age", "10")], None);
        check(&[("date", "yesterday")], None);
        check(&[], None);
        assert_eq!(clock.timestamp(-60).as_second(), 784_111_717);
    }
}
