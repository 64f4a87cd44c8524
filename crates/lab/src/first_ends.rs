//! The warning about a target whose first responses are all bad, while the load goes on.

use std::sync::atomic::{AtomicBool, Ordering};

use thalweg_load::{FirstEnds, Progress};
use thalweg_measure::Outcome;
use url::Url;

use crate::redirects;

/// Looks at the first requests that a target was sent, over all trials of a command.
#[derive(Debug, Default)]
pub struct FirstEndsWatch {
    /// A request was good, or the warning was given.
    is_settled: AtomicBool,
}

impl FirstEndsWatch {
    /// The warning, once, if all of the first requests have ended badly. `target` is their URL.
    pub(crate) fn look(&self, seen: &FirstEnds, progress: &Progress, target: &Url) -> Option<String> {
        let is_settled = || self.is_settled.load(Ordering::Relaxed);
        if is_settled() || !(seen.good > 0 || seen.are_all_bad()) {
            return None;
        }
        self.is_settled.store(true, Ordering::Relaxed);
        let (outcome, status) = seen.bad.filter(|_| seen.good == 0)?;
        let all = format!("the first {} responses of {target} were all bad", seen.ended);
        if let (Outcome::BadStatus, Some(redirect)) = (outcome, progress.redirect()) {
            let (leads, advice) = (redirects::leads(redirect, target), redirects::advice(redirect, target));
            return Some(format!("{all}: {leads}; {advice}"));
        }
        Some(match outcome {
            Outcome::BadStatus => format!("{all}: status {status}; {}", advice_on(status)),
            _ => format!(
                "the first {} requests to {target} have all failed: {outcome}; {}",
                seen.ended,
                advice_against(outcome)
            ),
        })
    }
}

/// The advice on a status.
fn advice_on(status: u16) -> &'static str {
    match status {
        401 | 407 => "send credentials, in the URL (http://user:password@host/) or with --header 'Authorization: ...'",
        403 => "see what the server requires: the path, --header 'Host: ...', credentials, or this client's address",
        404 | 410 => "check the path of the URL, and --header 'Host: ...' if the server has several sites",
        405 | 501 => "check --method",
        400..=499 => "check the URL, --method, --header and --body",
        500..=599 => "see the server's error log",
        _ => "take it for good with --check status=CODE if it is what you expect",
    }
}

/// The advice on requests that end without a response that can be judged by its status.
fn advice_against(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::FailedCheck => "compare a response with --check",
        Outcome::Timeout => "use a longer --timeout or a lower rate, and see whether the server responds at all",
        Outcome::Refused => "see whether the server still listens, and whether its queue of connections is full",
        Outcome::Reset | Outcome::Truncated | Outcome::ProtocolError => {
            "see the server's error log, and whether it speaks this protocol (--http) on this port"
        }
        Outcome::TlsFailure => "see --cacert and --insecure, and whether this port speaks TLS",
        Outcome::NoDescriptor | Outcome::NoAddress => "see `thalweg doctor`: this host lacks something",
        Outcome::Unreachable => "check the address and the route to it",
        Outcome::NotProcessed => {
            "the server ends streams without processing them: see its limits on streams and on requests per connection, \
             and --retry-refused"
        }
        Outcome::NotSent | Outcome::Good | Outcome::BadStatus => "see `thalweg doctor`",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(seen: FirstEnds, expected: Option<&str>) {
        let (watch, progress) = (FirstEndsWatch::default(), Progress::new(1));
        let target = Url::parse("http://h/a").unwrap();
        let before = FirstEnds { ended: seen.ended.min(9), good: 0, ..seen };
        assert_eq!(watch.look(&before, &progress, &target), None, "not before there are ten");
        let warning = watch.look(&seen, &progress, &target);
        match expected {
            None => assert_eq!(warning, None),
            Some(part) => assert!(warning.as_ref().is_some_and(|warning| warning.contains(part)), "{warning:?}"),
        }
        let bad = FirstEnds { ended: 10, good: 0, bad: Some((Outcome::Reset, 0)) };
        assert_eq!(watch.look(&bad, &progress, &target).is_some(), seen.ended < 10 && seen.good == 0, "only once");
    }

    #[test]
    fn ten_bad_responses_are_warned_of_once_with_what_to_do() {
        let bad = |outcome, status| FirstEnds { ended: 10, good: 0, bad: Some((outcome, status)) };
        let all = "the first 10 responses of http://h/a were all bad";
        check(bad(Outcome::BadStatus, 403), Some(&format!("{all}: status 403; see what the server requires")));
        check(bad(Outcome::BadStatus, 404), Some("check the path"));
        check(bad(Outcome::BadStatus, 503), Some("error log"));
        check(
            bad(Outcome::Timeout, 0),
            Some("the first 10 requests to http://h/a have all failed: timeout; use a longer"),
        );
        check(bad(Outcome::TlsFailure, 0), Some("TLS"));
        check(FirstEnds { ended: 10, good: 1, bad: Some((Outcome::BadStatus, 500)) }, None);
        check(FirstEnds { ended: 3, good: 0, bad: Some((Outcome::BadStatus, 500)) }, None);
    }
}
