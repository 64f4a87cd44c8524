//! Fetches that no client reads any more: whether they go on (the rule of Squid's `quick_abort`).

use crate::policy::Policy;

/// Whether a fetch without readers goes on: if little is left, or nearly all has come. Of content
/// whose length is not known, `bytes_left` is `None`, and anything may be left.
#[must_use]
pub fn goes_on_unread(policy: &Policy, bytes_come: u64, bytes_left: Option<u64>) -> bool {
    let Some(left) = bytes_left else { return false };
    let (come, all) = (u128::from(bytes_come), u128::from(bytes_come) + u128::from(left));
    left <= policy.unread_bytes_max || come * 100 >= all * u128::from(policy.unread_percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fetch_goes_on_if_little_is_left() {
        let check = |come: u64, left: Option<u64>, (bytes_max, percent): (u64, u32), expected: bool| {
            let policy = Policy { unread_bytes_max: bytes_max, unread_percent: percent, ..Policy::default() };
            assert_eq!(goes_on_unread(&policy, come, left), expected, "{come} {left:?} {bytes_max} {percent}");
        };
        check(0, Some(0), (0, 100), true);
        check(1, Some(10), (10, 100), true);
        check(1, Some(11), (10, 100), false);
        check(94, Some(6), (5, 95), false);
        check(95, Some(5), (4, 95), true);
        check(0, Some(1 << 40), (0, 0), true);
        check(u64::MAX, Some(u64::MAX), (0, 50), true);
        check(u64::MAX, Some(u64::MAX), (0, 51), false);
        // 101 per cent: never because of the share.
        check(100, Some(1), (0, 101), false);
        check(1 << 40, None, (u64::MAX, 0), false);
    }
}
