//! How httperf names what goes wrong, one to one with our outcomes.
//!
//! | httperf | our outcomes |
//! | --- | --- |
//! | `client-timo` | timeout |
//! | `socket-timo` | of unreachable, those in which the kernel gave up (ETIMEDOUT) |
//! | `connrefused` | refused |
//! | `connreset` | reset, truncated |
//! | `fd-unavail` | no descriptor, but for the next |
//! | `ftab-full` | of no descriptor, those in which the host had none left (ENFILE) |
//! | `addrunavail` | no address |
//! | `other` | unreachable (but for `socket-timo`), TLS failure, protocol error |
//! | none | good, bad status, failed check: replies all of them; not sent: nothing was tried |
//!
//! httperf counts one error per connection, we count one per request: they agree where a connection
//! carries one call at a time and what is left of its calls is not offered.

use thalweg_measure::outcome::{Causes, Outcome, Outcomes};

/// Errors by httperf's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Errors {
    /// `client-timo`
    pub(crate) client_timeout: u64,
    /// `socket-timo`
    pub(crate) socket_timeout: u64,
    /// `connrefused`
    pub(crate) refused: u64,
    /// `connreset`
    pub(crate) reset: u64,
    /// `fd-unavail`
    pub(crate) no_descriptor: u64,
    /// `addrunavail`
    pub(crate) no_address: u64,
    /// `ftab-full`
    pub(crate) file_table_full: u64,
    /// `other`
    pub(crate) other: u64,
}

impl Errors {
    /// Sorts outcomes into httperf's classes. A cause never takes away more than its outcome has.
    pub(crate) fn of(outcomes: &Outcomes, causes: &Causes) -> Self {
        let mut errors = Errors::default();
        for (outcome, count) in outcomes.iter() {
            match outcome {
                Outcome::Good | Outcome::BadStatus | Outcome::FailedCheck | Outcome::NotSent => {}
                Outcome::Timeout => errors.client_timeout += count,
                Outcome::Refused => errors.refused += count,
                Outcome::Reset | Outcome::Truncated => errors.reset += count,
                Outcome::Unreachable => {
                    errors.socket_timeout = causes.socket_timeout.min(count);
                    errors.other += count - errors.socket_timeout;
                }
                Outcome::NoDescriptor => {
                    errors.file_table_full = causes.file_table_full.min(count);
                    errors.no_descriptor += count - errors.file_table_full;
                }
                Outcome::NoAddress => errors.no_address += count,
                Outcome::TlsFailure | Outcome::ProtocolError | Outcome::NotProcessed => errors.other += count,
            }
        }
        errors
    }

    /// All of them.
    pub(crate) fn total(&self) -> u64 {
        self.client_timeout
            + self.socket_timeout
            + self.refused
            + self.reset
            + self.no_descriptor
            + self.no_address
            + self.file_table_full
            + self.other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(outcome: Outcome, causes: Causes, expected: Errors) {
        let mut outcomes = Outcomes::default();
        outcomes.record_n(outcome, 10);
        let errors = Errors::of(&outcomes, &causes);
        assert_eq!(errors, expected, "{outcome}");
        let replied = matches!(outcome, Outcome::BadStatus | Outcome::FailedCheck);
        assert_eq!(errors.total(), if replied { 0 } else { outcomes.errors() }, "{outcome}");
    }

    #[test]
    fn every_outcome_has_its_class() {
        let (plain, none) = (Causes::default(), Errors::default());
        for outcome in [Outcome::Good, Outcome::BadStatus, Outcome::FailedCheck, Outcome::NotSent] {
            check(outcome, plain, none);
        }
        check(Outcome::Timeout, plain, Errors { client_timeout: 10, ..none });
        check(Outcome::Refused, plain, Errors { refused: 10, ..none });
        check(Outcome::Reset, plain, Errors { reset: 10, ..none });
        check(Outcome::Truncated, plain, Errors { reset: 10, ..none });
        check(Outcome::NoAddress, plain, Errors { no_address: 10, ..none });
        check(Outcome::TlsFailure, plain, Errors { other: 10, ..none });
        check(Outcome::ProtocolError, plain, Errors { other: 10, ..none });
        check(Outcome::NotProcessed, plain, Errors { other: 10, ..none });
        let causes = Causes { socket_timeout: 4, file_table_full: 3, ..Causes::default() };
        check(Outcome::Unreachable, plain, Errors { other: 10, ..none });
        check(Outcome::Unreachable, causes, Errors { socket_timeout: 4, other: 6, ..none });
        check(Outcome::NoDescriptor, plain, Errors { no_descriptor: 10, ..none });
        check(Outcome::NoDescriptor, causes, Errors { file_table_full: 3, no_descriptor: 7, ..none });
    }

    #[test]
    fn a_cause_never_exceeds_its_outcome() {
        let causes = Causes { socket_timeout: 99, file_table_full: 99, ..Causes::default() };
        check(Outcome::Unreachable, causes, Errors { socket_timeout: 10, ..Errors::default() });
        check(Outcome::NoDescriptor, causes, Errors { file_table_full: 10, ..Errors::default() });
    }
}
