//! Numbers of seconds as caches count them (RFC 9111, 1.2.2): reading them, and arithmetic that
//! saturates.

/// The greatest number of seconds that is told apart (RFC 9111, 1.2.2), some 68 years.
pub const SECONDS_MAX: u32 = 1 << 31;

/// A number of seconds (RFC 9111, 1.2.2): digits only; one too large counts as [`SECONDS_MAX`].
pub(crate) fn delta_seconds(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let seconds =
        digits.iter().fold(0u32, |number, &byte| number.saturating_mul(10).saturating_add(u32::from(byte - b'0')));
    Some(seconds.min(SECONDS_MAX))
}

/// The seconds from one time to a later one; 0 if it is not later.
pub(crate) fn elapsed(from: i64, to: i64) -> u32 {
    u32::try_from(to.saturating_sub(from).max(0)).unwrap_or(SECONDS_MAX).min(SECONDS_MAX)
}

/// The sum, at most [`SECONDS_MAX`].
pub(crate) fn add(one: u32, other: u32) -> u32 {
    one.saturating_add(other).min(SECONDS_MAX)
}
