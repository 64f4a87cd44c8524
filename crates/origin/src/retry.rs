//! The decision about another attempt. Nothing is sent twice that could take effect twice: an
//! unsafe request is repeated only if the origin has certainly not begun to process it.

use crate::exchange::AttemptFailure;
use crate::failure::FailureKind;

/// The next step after a failed attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Another attempt at the same origin, on another connection.
    SameOrigin,
    /// An attempt at the next origin, if there is one.
    NextOrigin,
    /// None.
    GiveUp,
}

/// Attempts at one origin, at most: two kept connections that were closed meanwhile, and a new one.
const AT_ONE_ORIGIN: u32 = 3;

/// `attempts` are those at this origin so far. No head of a response has arrived.
pub(crate) fn step(failed: &AttemptFailure, is_repeatable: bool, attempts: u32, has_next: bool) -> Step {
    let is_closed = failed.failure.kind == FailureKind::Closed;
    if failed.failure.kind == FailureKind::Request {
        return Step::GiveUp;
    }
    if failed.is_unsent {
        // The server closed a connection while it was kept, which it may at any time.
        let same = failed.is_reused && attempts < AT_ONE_ORIGIN;
        return if same { Step::SameOrigin } else { Step::NextOrigin };
    }
    if !is_repeatable {
        return Step::GiveUp;
    }
    if is_closed && attempts == 1 && (failed.is_reused || !has_next) {
        return Step::SameOrigin;
    }
    Step::NextOrigin
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{Failure, Phase};

    struct Case {
        kind: FailureKind,
        is_unsent: bool,
        is_reused: bool,
        attempts: u32,
        has_next: bool,
    }

    const SENT: Case =
        Case { kind: FailureKind::Closed, is_unsent: false, is_reused: false, attempts: 1, has_next: true };

    /// The steps for a GET and for a POST.
    fn check(case: Case, get: Step, post: Step) {
        let failed = AttemptFailure {
            is_unsent: case.is_unsent,
            is_reused: case.is_reused,
            ..AttemptFailure::unsent(Failure::new(case.kind, "it failed"))
        };
        let steps = [true, false].map(|is_repeatable| step(&failed, is_repeatable, case.attempts, case.has_next));
        let Case { kind, is_unsent, is_reused, attempts, has_next } = case;
        assert_eq!(steps, [get, post], "{kind:?} {is_unsent} {is_reused} {attempts} {has_next}");
    }

    #[test]
    fn a_post_is_repeated_only_if_it_was_not_sent() {
        use FailureKind::{Protocol, Refused, Timeout};
        use Step::{GiveUp, NextOrigin, SameOrigin};
        check(SENT, NextOrigin, GiveUp);
        check(Case { is_reused: true, ..SENT }, SameOrigin, GiveUp);
        check(Case { is_reused: true, attempts: 2, ..SENT }, NextOrigin, GiveUp);
        check(Case { has_next: false, ..SENT }, SameOrigin, GiveUp);
        check(Case { has_next: false, attempts: 2, ..SENT }, NextOrigin, GiveUp);
        check(Case { kind: Timeout(Phase::Head), is_reused: true, ..SENT }, NextOrigin, GiveUp);
        check(Case { kind: Protocol, has_next: false, ..SENT }, NextOrigin, GiveUp);
        check(Case { is_unsent: true, is_reused: true, ..SENT }, SameOrigin, SameOrigin);
        check(Case { is_unsent: true, is_reused: true, attempts: 2, ..SENT }, SameOrigin, SameOrigin);
        check(Case { is_unsent: true, is_reused: true, attempts: 3, ..SENT }, NextOrigin, NextOrigin);
        check(Case { kind: Refused, is_unsent: true, ..SENT }, NextOrigin, NextOrigin);
        check(Case { kind: FailureKind::Request, is_unsent: true, ..SENT }, GiveUp, GiveUp);
    }
}
