//! The plan of a certificate's renewal, and its file.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::certificate::StoredCertificate;
use crate::schedule::{
    SUGGESTION_RETRY, renewal_by_lifetime, renewal_earliest, renewal_in_window, renewal_latest, suggestion_age,
};
use crate::time::timestamp;

/// When a certificate is renewed, and when the authority is asked for its suggestion.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct RenewalPlan {
    /// The validity of the certificate, by which it is recognised.
    not_before: Timestamp,
    not_after: Timestamp,
    obtained: Timestamp,
    renewal: Timestamp,
    next_question: Timestamp,
    /// The window that the authority suggests.
    window: Option<(Timestamp, Timestamp)>,
}

/// The authority's suggestion (RFC 9773, 4.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Suggestion {
    /// The start and the end of the window.
    pub(crate) window: (SystemTime, SystemTime),
    /// How long it is good for.
    pub(crate) age: Duration,
    /// A page that explains it.
    pub(crate) explanation: Option<String>,
}

impl RenewalPlan {
    /// A plan by the lifetime alone, `share` (0 to 1) later than two thirds of it.
    pub(crate) fn new(certificate: &StoredCertificate, now: SystemTime, share: f64) -> Self {
        let (not_before, not_after) = (certificate.not_before, certificate.not_after);
        Self {
            not_before: timestamp(not_before),
            not_after: timestamp(not_after),
            obtained: timestamp(now),
            renewal: timestamp(renewal_by_lifetime(not_before, not_after, share)),
            next_question: timestamp(now),
            window: None,
        }
    }

    pub(crate) fn is_of(&self, certificate: &StoredCertificate) -> bool {
        self.not_before == timestamp(certificate.not_before) && self.not_after == timestamp(certificate.not_after)
    }

    /// When to renew.
    pub(crate) fn renewal(&self) -> SystemTime {
        let (not_before, not_after) = (self.not_before.into(), self.not_after.into());
        let earliest = renewal_earliest(self.obtained.into(), not_before, not_after);
        SystemTime::from(self.renewal).max(earliest).min(renewal_latest(not_before, not_after))
    }

    /// When to ask the authority for its suggestion.
    pub(crate) fn next_question(&self) -> SystemTime {
        self.next_question.into()
    }

    /// Takes the authority's answer. A window that it has named before changes nothing, so that the
    /// time in it, once chosen, stays. Returns whether the time has changed.
    pub(crate) fn suggest(&mut self, suggestion: &Suggestion, now: SystemTime, share: f64) -> bool {
        self.next_question = timestamp(now + suggestion_age(suggestion.age));
        let (start, end) = suggestion.window;
        let window = (timestamp(start), timestamp(end));
        if self.window == Some(window) {
            return false;
        }
        self.window = Some(window);
        self.renewal = timestamp(renewal_in_window(start, end, share));
        true
    }

    /// The authority has no suggestion now; the plan stays.
    pub(crate) fn no_suggestion(&mut self, now: SystemTime) {
        self.next_question = timestamp(now + SUGGESTION_RETRY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn day(days: u32) -> SystemTime {
        SystemTime::UNIX_EPOCH + DAY * (20_000 + days)
    }

    fn certificate() -> StoredCertificate {
        StoredCertificate {
            names: vec!["a.example".into()],
            chain_pem: Vec::new(),
            key_pem: Vec::new(),
            not_before: day(0),
            not_after: day(90),
            directory: String::new(),
        }
    }

    fn suggestion(start: u32, end: u32) -> Suggestion {
        Suggestion { window: (day(start), day(end)), age: DAY / 4, explanation: None }
    }

    #[test]
    fn the_lifetime_counts_without_a_suggestion() {
        let mut plan = RenewalPlan::new(&certificate(), day(1), 0.0);
        assert_eq!((plan.renewal(), plan.next_question()), (day(60), day(1)));
        plan.no_suggestion(day(1));
        assert_eq!((plan.renewal(), plan.next_question()), (day(60), day(1) + DAY / 4));
    }

    #[test]
    fn a_time_in_the_window_is_chosen_once() {
        let mut plan = RenewalPlan::new(&certificate(), day(1), 0.0);
        assert!(plan.suggest(&suggestion(50, 52), day(1), 0.5));
        assert_eq!((plan.renewal(), plan.next_question()), (day(51), day(1) + DAY / 4));
        assert!(!plan.suggest(&suggestion(50, 52), day(2), 0.9));
        assert_eq!((plan.renewal(), plan.next_question()), (day(51), day(2) + DAY / 4));
        assert!(plan.suggest(&suggestion(30, 32), day(3), 0.0));
        assert_eq!(plan.renewal(), day(30));
        plan.no_suggestion(day(4));
        assert_eq!(plan.renewal(), day(30));
    }

    #[test]
    fn a_window_in_the_past_is_due_but_not_for_a_new_certificate() {
        let mut plan = RenewalPlan::new(&certificate(), day(1), 0.0);
        plan.suggest(&suggestion(0, 1), day(1), 0.0);
        assert_eq!(plan.renewal(), day(1) + DAY / 24);
    }

    #[test]
    fn a_window_after_the_end_is_too_late() {
        let mut plan = RenewalPlan::new(&certificate(), day(1), 0.0);
        plan.suggest(&suggestion(100, 102), day(1), 0.0);
        assert_eq!(plan.renewal(), day(90) - DAY * 90 / 24);
    }

    #[test]
    fn a_plan_survives_its_file() {
        let mut plan = RenewalPlan::new(&certificate(), day(1), 0.3);
        plan.suggest(&suggestion(50, 52), day(1), 0.5);
        let text = serde_json::to_string(&plan).expect("a plan can be written");
        assert_eq!(serde_json::from_str::<RenewalPlan>(&text).expect("a plan can be read"), plan);
        assert!(plan.is_of(&certificate()));
        assert!(!plan.is_of(&StoredCertificate { not_after: day(91), ..certificate() }));
    }
}
