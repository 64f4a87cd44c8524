//! When to renew and when to try again, as functions of times and a random share.

use std::time::{Duration, SystemTime};

use crate::problem::Problem;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The authority is asked for its suggestion at least this often, and at most once a minute,
/// whatever its answer says (RFC 9773, 4.3.2).
pub(crate) const SUGGESTION_AGE_MAX: Duration = DAY;

/// The wait after the authority had no valid suggestion (RFC 9773, 4.3.3).
pub(crate) const SUGGESTION_RETRY: Duration = HOUR.saturating_mul(6);

/// The longest wait after a failure that nobody but the client has chosen.
const BACKOFF_MAX: Duration = HOUR.saturating_mul(12);

/// The longest wait after a failure. Limits of Let's Encrypt are over a week at most.
pub(crate) const RETRY_MAX: Duration = DAY.saturating_mul(7);

/// The longest wait from a failure to the next attempt if the server is started again meanwhile.
/// Let's Encrypt allows five failures for a name per hour; two attempts by two kinds of challenges
/// are four.
pub(crate) const RESTART_WAIT_MAX: Duration = MINUTE.saturating_mul(30);

/// The wait after a rate limit for which the authority names no time.
const RATE_LIMIT_WAIT: Duration = HOUR;

/// When to renew without a suggestion of the authority: when two thirds of the lifetime are over,
/// and `share` (0 to 1) of a 24th of it, so that not all servers come at once.
pub(crate) fn renewal_by_lifetime(not_before: SystemTime, not_after: SystemTime, share: f64) -> SystemTime {
    let lifetime = not_after.duration_since(not_before).unwrap_or_default();
    not_before + lifetime * 2 / 3 + (lifetime / 24).mul_f64(share)
}

/// When to renew in a window that the authority suggests: `share` (0 to 1) of it after its start
/// (RFC 9773, 4.2).
pub(crate) fn renewal_in_window(start: SystemTime, end: SystemTime, share: f64) -> SystemTime {
    start + end.duration_since(start).unwrap_or_default().mul_f64(share)
}

/// The earliest time to renew a certificate that was obtained at `obtained`: an hour after, or a
/// third of its lifetime. An authority that suggests to renew each certificate at once would
/// otherwise have one order after the other.
pub(crate) fn renewal_earliest(obtained: SystemTime, not_before: SystemTime, not_after: SystemTime) -> SystemTime {
    obtained + (not_after.duration_since(not_before).unwrap_or_default() / 3).min(HOUR)
}

/// The latest time to renew, whatever the authority suggests: when a 24th of the lifetime is left.
pub(crate) fn renewal_latest(not_before: SystemTime, not_after: SystemTime) -> SystemTime {
    not_after - not_after.duration_since(not_before).unwrap_or_default() / 24
}

/// The wait until the authority is asked again for its suggestion.
pub(crate) fn suggestion_age(suggested: Duration) -> Duration {
    suggested.clamp(MINUTE, SUGGESTION_AGE_MAX)
}

/// When to try again after the last of `failures` attempts in a row has failed because of
/// `problem`: a wait that doubles with each one, longer by up to a half, by `share` (0 to 1). It is
/// never earlier than the authority demands.
pub(crate) fn retry_after(problem: &Problem, failures: u32, now: SystemTime, share: f64) -> SystemTime {
    let first = if problem.is_passing() { MINUTE / 2 } else { MINUTE * 5 };
    let doubled = first.saturating_mul(1 << failures.saturating_sub(1).min(20));
    let wait = doubled.min(BACKOFF_MAX).mul_f64(1.0 + share / 2.0);
    let demanded = match problem {
        Problem::RateLimited { retry_after: None, .. } => RATE_LIMIT_WAIT,
        Problem::RateLimited { retry_after: Some(at), .. } | Problem::Unavailable { retry_after: Some(at), .. } => {
            at.duration_since(now).unwrap_or_default()
        }
        _ => Duration::ZERO,
    };
    now + wait.max(demanded).min(RETRY_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 + seconds)
    }

    fn day(days: u64) -> SystemTime {
        after(days * 86_400)
    }

    fn unreachable() -> Problem {
        Problem::Unreachable { url: "https://ca.example/".into(), error: "timed out".into() }
    }

    fn refused() -> Problem {
        Problem::Refused { operation: "the order", kind: "badCSR".into(), detail: String::new() }
    }

    fn limited(retry_after: Option<SystemTime>) -> Problem {
        Problem::RateLimited { detail: String::new(), retry_after }
    }

    #[test]
    fn a_certificate_is_renewed_after_two_thirds_of_its_life() {
        let check = |days, share, expected| assert_eq!(renewal_by_lifetime(day(0), day(days), share), expected);
        check(90, 0.0, day(60));
        check(90, 0.5, day(60) + DAY * 90 / 48);
        check(6, 0.0, day(4));
        // Such a certificate is malformed, and due at once.
        assert_eq!(renewal_by_lifetime(day(9), day(3), 0.5), day(9));
    }

    #[test]
    fn the_time_of_a_renewal_is_within_the_window() {
        let check = |start, end, share, expected| assert_eq!(renewal_in_window(start, end, share), expected);
        check(day(10), day(12), 0.0, day(10));
        check(day(10), day(12), 0.5, day(11));
        check(day(10), day(12), 1.0, day(12));
        check(day(12), day(10), 0.5, day(12));
    }

    #[test]
    fn a_new_certificate_is_not_renewed_at_once() {
        assert_eq!(renewal_earliest(day(1), day(0), day(90)), day(1) + HOUR);
        assert_eq!(renewal_earliest(after(60), after(0), after(600)), after(260));
    }

    #[test]
    fn a_certificate_does_not_expire_because_a_suggestion_is_late() {
        assert_eq!(renewal_latest(day(0), day(96)), day(92));
        assert_eq!(renewal_latest(day(9), day(3)), day(3));
    }

    #[test]
    fn the_suggestion_is_refreshed_between_each_minute_and_each_day() {
        let check = |suggested, expected| assert_eq!(suggestion_age(suggested), expected);
        check(Duration::ZERO, MINUTE);
        check(HOUR * 6, HOUR * 6);
        check(DAY * 30, DAY);
    }

    #[test]
    fn waits_double_up_to_half_a_day() {
        let check = |problem: Problem, failures, share, expected: Duration| {
            assert_eq!(retry_after(&problem, failures, day(0), share), day(0) + expected, "{failures} failures");
        };
        check(unreachable(), 1, 0.0, Duration::from_secs(30));
        check(unreachable(), 1, 1.0, Duration::from_secs(45));
        check(unreachable(), 4, 0.0, MINUTE * 4);
        check(unreachable(), 40, 0.0, HOUR * 12);
        check(refused(), 1, 0.0, MINUTE * 5);
        check(refused(), 3, 0.0, MINUTE * 20);
        check(refused(), u32::MAX, 1.0, HOUR * 18);
    }

    #[test]
    fn the_authority_may_demand_a_longer_wait_but_not_a_shorter_one() {
        let check = |retry: Option<SystemTime>, failures, expected| {
            assert_eq!(retry_after(&limited(retry), failures, day(0), 0.0), expected);
        };
        check(Some(day(2)), 1, day(2));
        check(Some(after(1)), 1, after(300));
        check(Some(day(400)), 1, day(7));
        check(None, 1, after(3600));
    }
}
