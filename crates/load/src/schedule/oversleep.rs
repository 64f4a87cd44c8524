//! Times that a load thread has overslept: arrivals that came due in them were noticed late, which
//! is the client's own lateness.
//!
//! An arrival that finds no room waits in its schedule, without memory of its own
//! ([`crate::Arrivals`]). So the times that the thread has overslept are kept instead, as long as
//! arrivals wait that came due in them.

use std::collections::VecDeque;

use thalweg_sys::Instant;

/// Most gaps kept. Of more, the shortest are forgotten: the arrivals in them count as noticed when
/// they were due.
const GAPS_MAX: usize = 4096;

/// The times in which arrivals came due that still wait, and the thread did not look.
#[derive(Default)]
pub(crate) struct Oversleeps {
    gaps: VecDeque<Gap>,
    /// Shorter gaps are not kept.
    shortest_ns: u64,
}

struct Gap {
    from: Instant,
    to: Instant,
}

impl Gap {
    fn ns(&self) -> u64 {
        self.to.ns_since(self.from)
    }
}

impl Oversleeps {
    /// Notes a look at a schedule that has arrivals which wait. The thread has overslept before it
    /// by so much.
    pub(crate) fn look(&mut self, now: Instant, overslept_ns: u64) {
        let is_noted = self.gaps.back().is_some_and(|gap| gap.to == now);
        if overslept_ns <= self.shortest_ns || is_noted {
            return;
        }
        self.gaps.push_back(Gap { from: now.minus_ns(overslept_ns), to: now });
        while self.gaps.len() > GAPS_MAX {
            self.shortest_ns = (self.shortest_ns * 2).max(1_000);
            self.gaps.retain(|gap| gap.ns() > self.shortest_ns);
        }
    }

    /// Forgets all, since no arrival waits.
    pub(crate) fn clear(&mut self) {
        self.gaps.clear();
        self.shortest_ns = 0;
    }

    /// When an arrival that was due then was noticed. Calls are in the order of the arrivals.
    #[inline]
    pub(crate) fn noticed(&mut self, due: Instant) -> Instant {
        if self.gaps.is_empty() { due } else { self.noticed_in_gap(due) }
    }

    #[cold]
    fn noticed_in_gap(&mut self, due: Instant) -> Instant {
        while self.gaps.front().is_some_and(|gap| gap.to < due) {
            self.gaps.pop_front();
        }
        self.gaps.front().filter(|gap| gap.from <= due).map_or(due, |gap| gap.to)
    }

    /// Whether no gap is kept.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.gaps.is_empty()
    }

    /// How many gaps are kept.
    pub(crate) fn entries(&self) -> usize {
        self.gaps.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_ns(1_000);

    fn at(ns: u64) -> Instant {
        START.plus_ns(ns)
    }

    #[test]
    fn an_arrival_is_noticed_when_the_thread_wakes() {
        let mut oversleeps = Oversleeps::default();
        oversleeps.look(at(10), 0);
        oversleeps.look(at(600), 500);
        oversleeps.look(at(600), 500);
        oversleeps.look(at(620), 5);
        for (due, noticed) in [(0, 0), (99, 99), (100, 600), (300, 600), (600, 600), (601, 601), (615, 620), (620, 620)]
        {
            assert_eq!(oversleeps.noticed(at(due)), at(noticed), "due at {due}");
        }
        oversleeps.clear();
        assert_eq!(oversleeps.noticed(at(615)), at(615));
    }

    #[test]
    fn the_long_gaps_of_an_endless_queue_are_kept() {
        const LONG_NS: u64 = 50_000_000;
        let mut oversleeps = Oversleeps::default();
        let (mut now, mut long) = (0, Vec::new());
        for look in 0..100_000_u64 {
            let overslept_ns = if look % 10_000 == 0 { LONG_NS } else { 5_000 + look % 7_000 };
            now += 1_000_000 + overslept_ns;
            if overslept_ns == LONG_NS {
                long.push(now);
            }
            oversleeps.look(at(now), overslept_ns);
            assert!(oversleeps.entries() <= GAPS_MAX);
        }
        for to in long {
            assert_eq!(oversleeps.noticed(at(to - LONG_NS + 1)), at(to));
        }
    }
}
