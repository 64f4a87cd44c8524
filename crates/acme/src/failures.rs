//! The attempts that have failed one after the other, and their file: a server that is started
//! again and again does not ask its authority each time.

use std::time::SystemTime;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;
use crate::schedule::{RESTART_WAIT_MAX, RETRY_MAX, retry_after};
use crate::settings::Settings;
use crate::time::timestamp;

/// Failures in a row.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Failures {
    /// The settings that they are about.
    settings: String,
    count: u32,
    failed: Timestamp,
    retry: Timestamp,
    /// The authority has demanded the wait.
    demanded: bool,
    /// For the operator.
    message: String,
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
            settings: description(settings),
            count,
            failed: timestamp(now),
            retry: timestamp(retry_after(problem, count, now, share)),
            demanded: matches!(problem, Problem::RateLimited { .. }),
            message: problem.to_string(),
        }
    }

    /// The same after a restart, with which the operator may have mended something. The next
    /// attempt is half an hour after the last one at the latest, unless the authority has demanded
    /// more.
    pub(crate) fn restarted(mut self) -> Self {
        if !self.demanded {
            self.retry = self.retry.min(timestamp(SystemTime::from(self.failed) + RESTART_WAIT_MAX));
        }
        self
    }

    fn is_of(&self, settings: &Settings) -> bool {
        self.settings == description(settings)
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

/// The settings on which it depends whether an attempt succeeds.
fn description(settings: &Settings) -> String {
    let Settings { directory, roots, names, contact, state: _, challenges } = settings;
    let challenges: Vec<_> = challenges.iter().map(ToString::to_string).collect();
    let (names, contact, challenges) = (names.join(", "), contact.join(", "), challenges.join(", "));
    let roots = roots.as_ref().map(|roots| roots.display().to_string()).unwrap_or_default();
    [directory.as_str(), &roots, &names, &contact, &challenges].join("; ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::challenge::ChallengeKind;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;
    const MINUTE: Duration = Duration::from_secs(60);

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
    fn other_settings_do_not_wait() {
        let before = failure(None, &settings("a.example"));
        let other_challenges = Settings { challenges: vec![ChallengeKind::Http01], ..settings("a.example") };
        for settings in [settings("b.example"), other_challenges] {
            assert_eq!(before.wait(&settings, NOW), None);
            assert_eq!(failure(Some(&before), &settings).count, 1);
        }
    }

    #[test]
    fn a_restart_waits_for_half_an_hour_at_most_or_as_demanded() {
        let settings = settings("a.example");
        let tenth = (0..10).fold(None, |before, _| Some(failure(before.as_ref(), &settings)));
        let tenth = tenth.expect("there are failures");
        assert_eq!(tenth.retry(), NOW + MINUTE * 256);
        assert_eq!(tenth.restarted().retry(), NOW + MINUTE * 30);
        let first = failure(None, &settings);
        assert_eq!(first.clone().restarted(), first);
        let limited = Problem::RateLimited { detail: String::new(), retry_after: Some(NOW + MINUTE * 600) };
        let limited = Failures::after(None, &settings, &limited, NOW, 0.0);
        assert_eq!(limited.restarted().retry(), NOW + MINUTE * 600);
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
