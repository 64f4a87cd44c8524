//! Dates of header fields (RFC 9110, 5.6.7), as whole seconds since 1970-01-01 00:00:00 UTC.
//!
//! The calendar is `httpdate`'s; this module only keeps it away from the system clock and from
//! panicking.

use std::io::Write;
use std::time::{Duration, SystemTime};

use httpdate::HttpDate;

/// The last second that four digits of a year can express.
pub const SECOND_MAX: i64 = 253_402_300_799;

/// Length of a date as it is sent.
pub const IMF_FIXDATE_BYTES: usize = 29;

/// Writes a second as IMF-fixdate, such as `Sun, 06 Nov 1994 08:49:37 GMT`. Seconds before 1970 and
/// after 9999, which a file system may well report, become the nearest that can be written.
#[must_use]
pub fn imf_fixdate(second: i64) -> [u8; IMF_FIXDATE_BYTES] {
    let since_epoch = Duration::from_secs(second.clamp(0, SECOND_MAX).unsigned_abs());
    let mut text = [0; IMF_FIXDATE_BYTES];
    write!(text.as_mut_slice(), "{}", HttpDate::from(SystemTime::UNIX_EPOCH + since_epoch))
        .expect("an IMF-fixdate has 29 bytes");
    text
}

/// Reads a date in any of the three formats of RFC 9110; `None` if it is none, or before 1970.
///
/// Two-digit years up to 69 count as 20xx. RFC 9110 would have the border move with the clock,
/// which is not read here. A leap second (`:60`) is not understood.
#[must_use]
pub fn parse(value: &[u8]) -> Option<i64> {
    let date: HttpDate = std::str::from_utf8(value).ok()?.parse().ok()?;
    let since_epoch = SystemTime::from(date).duration_since(SystemTime::UNIX_EPOCH).ok()?;
    i64::try_from(since_epoch.as_secs()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(second: i64, expected: &str) {
        let text = imf_fixdate(second);
        assert_eq!(std::str::from_utf8(&text), Ok(expected));
        assert_eq!(parse(&text), Some(second.clamp(0, SECOND_MAX)));
    }

    #[test]
    fn seconds_are_written_and_read_back() {
        check(0, "Thu, 01 Jan 1970 00:00:00 GMT");
        check(784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT");
        check(951_827_696, "Tue, 29 Feb 2000 12:34:56 GMT");
        check(4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT");
        check(SECOND_MAX, "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn seconds_out_of_range_become_the_nearest() {
        check(-1, "Thu, 01 Jan 1970 00:00:00 GMT");
        check(i64::MIN, "Thu, 01 Jan 1970 00:00:00 GMT");
        check(i64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn the_three_formats() {
        for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(parse(text.as_bytes()), Some(784_111_777), "{text}");
        }
    }

    #[test]
    fn invalid_dates() {
        for text in [
            "",
            "0",
            "784111777",
            "Sun, 06 Nov 1994",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 06 Nov 1894 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(b"Sun, 06 Nov 1994 08:49:37 GM\xd4"), None);
    }
}
