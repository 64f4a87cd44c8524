//! Eviction: the connection that is closed when all slots are taken, and how long idle ones may
//! stay when slots run short.
//!
//! A connection that was used once goes first, the idlest of them, since it is the least likely to
//! be missed; then one that has been open for a while without a whole request; then one whose
//! client has let a part of the time pass in which a response may make no progress; then one that
//! is idle and was used several times. A response that makes progress is never cut off for a
//! newcomer.
//!
//! No order of idleness is kept, for that would be work for each request. When a connection has to
//! go, all of them, or a part of very many, are looked at once, and the next few that would have to
//! go are noted with it: sixteen are looked at for each that goes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use thalweg_sys::{Instant, SocketId};

/// The eviction rank of a connection; the lower is closed first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum EvictionRank {
    /// It has been idle since its only request, or for a long time.
    Idle,
    /// It has not sent a whole request, for longer than an honest client takes
    /// ([`HEADLESS_AGE_NS`]).
    Headless,
    /// It has fallen far behind the rate at which responses have to be taken.
    Slow,
    /// Between two requests, of several.
    Used,
}

/// A connection that may be closed to make room: how it ranks, and since when.
pub(crate) type EvictionCandidate = (EvictionRank, Instant, SocketId);

/// A head that takes longer than this, most often a round trip, may have to make room for another.
pub(crate) const HEADLESS_AGE_NS: u64 = 1_000_000_000;

/// Of all connections, this part is noted when they are looked at.
const NOTED_PART: usize = 16;
const NOTED_MIN: usize = 8;
const NOTED_MAX: usize = 1024;

/// Most slots that are checked at once, in a fraction of a millisecond.
const LOOKED_AT_MAX: usize = 16_384;

/// Time without a further search after a search that found no connection to close.
const BARREN_NS: u64 = 100_000_000;

/// Idle connections are given less time from half of the table on, down to this part of it when it
/// is full.
const IDLE_PART_MIN: u64 = 16;

/// Finds the connection to close.
#[derive(Default)]
pub(crate) struct Evictor {
    /// The last is the first to go.
    answered: Vec<EvictionCandidate>,
    /// The next slot to check.
    hand: usize,
    barren_until: Instant,
}

impl Evictor {
    /// The connection to close, of so many slots with a candidate each or none. `still` checks
    /// whether a candidate that was noted before still is one.
    pub(crate) fn next(
        &mut self,
        slots: usize,
        candidate: impl Fn(usize) -> Option<EvictionCandidate>,
        still: impl Fn(EvictionCandidate) -> bool,
        now: Instant,
    ) -> Option<EvictionCandidate> {
        while let Some(candidate) = self.answered.pop() {
            if still(candidate) {
                return Some(candidate);
            }
        }
        if now < self.barren_until {
            return None;
        }
        let mut looked_at = 0;
        while looked_at < slots {
            if self.hand >= slots {
                self.hand = 0;
            }
            let end = slots.min(self.hand + LOOKED_AT_MAX.min(slots - looked_at));
            self.note((self.hand..end).filter_map(&candidate), end - self.hand);
            looked_at += end - self.hand;
            self.hand = end;
            if let Some(next) = self.answered.pop() {
                return Some(next);
            }
        }
        self.barren_until = now.plus_ns(BARREN_NS);
        None
    }

    /// Notes the candidates of so many slots that rank first for eviction.
    fn note(&mut self, candidates: impl Iterator<Item = EvictionCandidate>, slots: usize) {
        let noted_max = (slots / NOTED_PART).clamp(NOTED_MIN, NOTED_MAX);
        let mut first = BinaryHeap::with_capacity(noted_max + 1);
        for candidate in candidates {
            if first.len() < noted_max {
                first.push(candidate);
            } else if first.peek().is_some_and(|last| candidate < *last) {
                first.pop();
                first.push(candidate);
            }
        }
        self.answered = first.into_sorted_vec();
        self.answered.reverse();
        debug_assert!(self.answered.is_sorted_by_key(Reverse));
    }
}

/// The time that a connection may be idle when so many of so many slots are taken. 0 slots are any
/// number.
pub(crate) fn idle_ns(idle_ns_max: u64, taken: usize, places: usize) -> u64 {
    let (half, taken, places) = (places as u64 / 2, taken as u64, places as u64);
    if places == 0 || taken <= half {
        return idle_ns_max;
    }
    let least = idle_ns_max / IDLE_PART_MIN;
    let left = places.saturating_sub(taken);
    let share = u128::from(idle_ns_max - least) * u128::from(left) / u128::from((places - half).max(1));
    least + u64::try_from(share).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(rank: EvictionRank, second: u64) -> EvictionCandidate {
        (rank, Instant::from_ns(second * 1_000_000_000), SocketId::from_bits(second))
    }

    fn next(evictor: &mut Evictor, all: &[Option<EvictionCandidate>], now: Instant) -> Option<u64> {
        let still = |candidate| all.contains(&Some(candidate));
        evictor.next(all.len(), |slot| all[slot], still, now).map(|(.., socket)| socket.to_bits())
    }

    #[test]
    fn the_idlest_goes_first_and_who_has_asked_for_nothing_after_all_of_them() {
        let mut all = vec![
            Some(candidate(EvictionRank::Slow, 0)),
            Some(candidate(EvictionRank::Headless, 1)),
            Some(candidate(EvictionRank::Idle, 7)),
            None,
            Some(candidate(EvictionRank::Idle, 5)),
            Some(candidate(EvictionRank::Headless, 3)),
            Some(candidate(EvictionRank::Idle, 9)),
        ];
        let mut evictor = Evictor::default();
        let mut gone = Vec::new();
        while let Some(socket) = next(&mut evictor, &all, Instant::from_ns(1)) {
            gone.push(socket);
            all.retain(|candidate| candidate.is_none_or(|candidate| candidate.2.to_bits() != socket));
        }
        assert_eq!(gone, [5, 7, 9, 1, 3, 0]);
    }

    #[test]
    fn a_candidate_that_is_busy_again_stays() {
        let mut all: Vec<_> = (1..=4).map(|second| Some(candidate(EvictionRank::Idle, second))).collect();
        let mut evictor = Evictor::default();
        assert_eq!(next(&mut evictor, &all, Instant::from_ns(1)), Some(1));
        all[1] = None;
        // Idle again, but not as long.
        all[2] = Some(candidate(EvictionRank::Idle, 100));
        assert_eq!(next(&mut evictor, &all, Instant::from_ns(1)), Some(4));
    }

    #[test]
    fn a_table_of_busy_connections_is_not_looked_through_for_each_newcomer() {
        let mut evictor = Evictor::default();
        let now = Instant::from_ns(1_000_000_000);
        assert_eq!(next(&mut evictor, &[None], now), None);
        let idle = [Some(candidate(EvictionRank::Idle, 1))];
        assert_eq!(next(&mut evictor, &idle, now.plus_ns(BARREN_NS - 1)), None);
        assert_eq!(next(&mut evictor, &idle, now.plus_ns(BARREN_NS)), Some(1));
    }

    #[test]
    fn candidates_are_the_idlest_part() {
        let all: Vec<_> =
            (0..10_000).map(|second| Some(candidate(EvictionRank::Idle, (second * 7919) % 10_000))).collect();
        let mut evictor = Evictor::default();
        let gone: Vec<_> = (0..625).map_while(|_| next(&mut evictor, &all, Instant::from_ns(1))).collect();
        assert_eq!(gone, (0..625).collect::<Vec<_>>());
    }

    #[test]
    fn idle_time_shrinks_as_the_table_fills() {
        for (taken, places, expected) in [
            (0, 100, 1600),
            (50, 100, 1600),
            (75, 100, 850),
            (100, 100, 100),
            (200, 100, 100),
            (1_000_000, 0, 1600),
            (1, 1, 100),
        ] {
            assert_eq!(idle_ns(1600, taken, places), expected, "{taken} of {places}");
        }
    }
}
