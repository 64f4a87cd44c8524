//! The attempts that have failed one after the other, and their file: a server that is started
//! again and again asks its authority no more often than one that runs.

use std::time::SystemTime;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;
use crate::schedule::{RETRY_MAX, retry_after};
use crate::settings::Settings;
use crate::time::timestamp;

/// Failures in a row.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Failures {
    directory: String,
    names: Vec<String>,
    count: u32,
    retry: Timestamp,
    /// For the operator.
    last: String,
}

impl Failures {
    /// The failures after another one, which count those before if they were of the same order.
    pub(crate) fn after(
        before: Option<&Self>,
        settings: &Settings,
        problem: &Problem,
        now: SystemTime,
        share: f64,
    ) -> Self {
        let count = before.filter(|before| before.is_of(settings)).map_or(0, |before| before.count).saturating_add(1);
        Self {
            directory: settings.directory.clone(),
            names: settings.names.clone(),
            count,
            retry: timestamp(retry_after(problem, count, now, share)),
            last: problem.to_string(),
        }
    }

    fn is_of(&self, settings: &Settings) -> bool {
        self.directory == settings.directory && self.names == settings.names
    }

    /// When the next attempt is.
    pub(crate) fn retry(&self) -> SystemTime {
        self.retry.into()
    }

    /// When the next attempt is, `None` if it need not wait any longer: its time has come, the
    /// settings have changed, or the clock was wrong when it was set.
    pub(crate) fn wait(&self, settings: &Settings, now: SystemTime) -> Option<SystemTime> {
        let retry = self.retry();
        let waits = self.is_of(settings) && retry > now && retry <= now + RETRY_MAX;
        waits.then_some(retry)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    fn settings(name: &str) -> Settings {
        Settings { names: vec![name.into()], ..Settings::default() }
    }

    fn failure(before: Option<&Failures>, settings: &Settings) -> Failures {
        let problem = Problem::Host { what: "a challenge", error: "gone".into() };
        Failures::after(before, settings, &problem, NOW, 0.0)
    }

    #[test]
    fn failures_of_the_same_order_add_up() {
        let settings = settings("a.example");
        let first = failure(None, &settings);
        let second = failure(Some(&first), &settings);
        assert_eq!((first.count, first.retry()), (1, NOW + Duration::from_secs(30)));
        assert_eq!((second.count, second.retry()), (2, NOW + Duration::from_secs(60)));
    }

    #[test]
    fn other_names_do_not_wait() {
        let (before, settings) = (failure(None, &settings("a.example")), settings("b.example"));
        assert_eq!(before.wait(&settings, NOW), None);
        assert_eq!(failure(Some(&before), &settings).count, 1);
    }

    #[test]
    fn the_wait_ends_at_its_time_or_when_the_clock_was_wrong() {
        let settings = settings("a.example");
        let mut failures = failure(None, &settings);
        assert_eq!(failures.wait(&settings, NOW), Some(failures.retry()));
        assert_eq!(failures.wait(&settings, failures.retry()), None);
        failures.retry = timestamp(NOW + RETRY_MAX + Duration::from_secs(1));
        assert_eq!(failures.wait(&settings, NOW), None);
    }
}
