//! The passive health of one origin: how many requests failed in a row, and for how long it is
//! skipped after that. Times are arguments; nothing here waits or sends.

use std::time::Duration;

use tokio::time::Instant;

use crate::config::HealthRules;

/// The health of an origin, as counters show it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Health {
    /// It is asked.
    Up,
    /// It is skipped for this long, or until somebody asks it after that.
    Down {
        /// The rest of the time for which it is skipped.
        remaining: Duration,
    },
    /// One request finds out whether it has recovered.
    Probing,
}

/// Whether an origin may be asked now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admittance {
    /// As any healthy one.
    Yes,
    /// By this request alone, which is the probe of this number.
    AsProbe(u64),
    /// Not before so much time has passed; none if a probe is under way.
    No(Option<Duration>),
}

#[derive(Debug)]
pub(crate) struct HealthState {
    rules: HealthRules,
    state: State,
    /// Failures in a row.
    failures: u32,
    /// The last time for which it was skipped; zero after a complete answer.
    wait: Duration,
    probes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Up,
    Down { until: Instant },
    Probing(u64),
}

impl HealthState {
    pub(crate) fn new(rules: HealthRules) -> Self {
        Self { rules, state: State::Up, failures: 0, wait: Duration::ZERO, probes: 0 }
    }

    pub(crate) fn health(&self, now: Instant) -> Health {
        match self.state {
            State::Up => Health::Up,
            State::Down { until } => Health::Down { remaining: until.saturating_duration_since(now) },
            State::Probing(_) => Health::Probing,
        }
    }

    /// Whether a request may go to the origin. The caller of a probe reports its outcome.
    pub(crate) fn admit(&mut self, now: Instant) -> Admittance {
        match self.state {
            State::Up => Admittance::Yes,
            State::Down { until } if now < until => Admittance::No(Some(until - now)),
            State::Down { .. } => {
                self.probes += 1;
                self.state = State::Probing(self.probes);
                Admittance::AsProbe(self.probes)
            }
            State::Probing(_) => Admittance::No(None),
        }
    }

    /// The head of a response has arrived: the origin is there.
    pub(crate) fn answered(&mut self) {
        if self.state != State::Up {
            self.state = State::Up;
            self.failures = 0;
        }
    }

    /// A response is complete: the origin works, and the next wait is the shortest again.
    pub(crate) fn completed(&mut self) {
        self.answered();
        self.failures = 0;
        self.wait = Duration::ZERO;
    }

    /// An attempt has failed.
    pub(crate) fn failed(&mut self, now: Instant) {
        match self.state {
            // A request that began before says nothing new.
            State::Down { .. } => {}
            State::Probing(_) => self.skip(now),
            State::Up => {
                self.failures = self.failures.saturating_add(1);
                if self.rules.failures_max > 0 && self.failures >= self.rules.failures_max {
                    self.skip(now);
                }
            }
        }
    }

    /// A probe ended without an outcome: the next request is one.
    pub(crate) fn abandoned(&mut self, probe: u64, now: Instant) {
        if self.state == State::Probing(probe) {
            self.state = State::Down { until: now };
        }
    }

    fn skip(&mut self, now: Instant) {
        let longer = if self.wait.is_zero() { self.rules.wait_min } else { self.wait.saturating_mul(2) };
        self.wait = longer.min(self.rules.wait_max);
        self.state = State::Down { until: now + self.wait };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn state() -> (HealthState, Instant) {
        let rules = HealthRules { failures_max: 3, wait_min: S, wait_max: 5 * S };
        (HealthState::new(rules), Instant::now())
    }

    #[test]
    fn an_origin_is_skipped_after_failures_in_a_row() {
        let (mut health, now) = state();
        health.failed(now);
        health.failed(now);
        health.completed();
        health.failed(now);
        health.failed(now);
        assert_eq!(health.admit(now), Admittance::Yes, "an answer in between resets the count");
        health.failed(now);
        assert_eq!(health.admit(now), Admittance::No(Some(S)));
        assert_eq!(health.health(now + S / 4), Health::Down { remaining: S * 3 / 4 });
    }

    #[test]
    fn waits_grow_to_a_bound_and_one_probe_goes_at_a_time() {
        let (mut health, mut now) = state();
        (0..3).for_each(|_| health.failed(now));
        for (probe, wait) in [(1, 1), (2, 2), (3, 4), (4, 5), (5, 5)] {
            assert_eq!(health.admit(now), Admittance::No(Some(S * wait)), "probe {probe}");
            now += S * wait;
            assert_eq!(health.admit(now), Admittance::AsProbe(probe));
            assert_eq!(health.admit(now), Admittance::No(None), "one probe is enough");
            assert_eq!(health.health(now), Health::Probing);
            health.failed(now);
        }
    }

    #[test]
    fn a_recovery_is_noticed_and_bodies_that_break_are_not_one() {
        let (mut health, now) = state();
        (0..3).for_each(|_| health.failed(now));
        assert_eq!(health.admit(now + S), Admittance::AsProbe(1));
        health.answered();
        assert_eq!(health.admit(now + S), Admittance::Yes);
        (0..3).for_each(|_| health.failed(now + S));
        assert_eq!(health.admit(now + S), Admittance::No(Some(2 * S)), "no answer was complete in between");
        health.completed();
        (0..3).for_each(|_| health.failed(now + S));
        assert_eq!(health.admit(now + S), Admittance::No(Some(S)));
    }

    #[test]
    fn an_abandoned_probe_makes_room_for_the_next() {
        let (mut health, now) = state();
        (0..3).for_each(|_| health.failed(now));
        assert_eq!(health.admit(now + S), Admittance::AsProbe(1));
        health.abandoned(7, now + S);
        assert_eq!(health.admit(now + S), Admittance::No(None), "another probe's end is not this one's");
        health.abandoned(1, now + S);
        assert_eq!(health.admit(now + S), Admittance::AsProbe(2));
    }

    #[test]
    fn without_a_limit_of_failures_an_origin_is_always_asked() {
        let rules = HealthRules { failures_max: 0, wait_min: S, wait_max: S };
        let (mut health, now) = (HealthState::new(rules), Instant::now());
        (0..1000).for_each(|_| health.failed(now));
        assert_eq!(health.admit(now), Admittance::Yes);
    }
}
