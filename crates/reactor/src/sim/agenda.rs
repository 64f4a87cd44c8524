//! The agenda of the simulation: future events in the order of virtual time.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use thalweg_sys::driver::Completion;
use thalweg_sys::{Instant, SocketId};

use super::connection::EndId;

/// An event at a point in time. Events name their objects by ids that are never reused; an event
/// for an object that no longer exists is skipped.
#[derive(Debug)]
pub(super) enum Event {
    /// A connection attempt, the `attempt`-th, arrives at the host of its peer.
    Syn { connection: u64, attempt: u32 },
    /// The SYN-ACK arrives.
    Established { connection: u64 },
    /// The refusal of the SYN arrives.
    Refused { connection: u64 },
    /// A listener takes the next connection that waits.
    Accept { listener: SocketId },
    /// The kernel takes what it can of the send of this end.
    Transmit { from: EndId },
    /// Bytes arrive in the receive buffer of this end.
    Arrive { to: EndId, bytes: usize },
    /// The peer's orderly end arrives.
    ArriveEnd { to: EndId },
    /// A reset arrives.
    ArriveReset { to: EndId },
    /// Arrived bytes are delivered to the owner of this end, in whole or in part.
    Deliver { to: EndId },
    /// A completion that was held back while its owner was stalled.
    Complete { completion: Completion },
    /// The requested wake-up.
    Wake,
}

/// Events by time; those of one time in the order in which they were added.
///
/// Most events are due at once, or after the latency of the network, and come in the order in which
/// they are due: each of these two kinds has a queue, which is quicker than a heap.
#[derive(Default)]
pub(super) struct Agenda {
    now: Instant,
    queues: [VecDeque<Entry>; 2],
    heap: BinaryHeap<Reverse<Entry>>,
    added: u64,
}

/// The queues of events that are due at once, and of those that are due soon.
const AT_ONCE: usize = 0;
const SOON: usize = 1;
/// Events that are later than this are not due soon.
const SOON_NS: u64 = 1_000_000;

struct Entry {
    at: Instant,
    number: u64,
    event: Event,
}

impl Agenda {
    pub(super) fn add(&mut self, at: Instant, event: Event) {
        let entry = Entry { at, number: self.added, event };
        self.added += 1;
        let queue = if at <= self.now { AT_ONCE } else { SOON };
        let is_soon = at <= self.now.plus_ns(SOON_NS);
        if is_soon && self.queues[queue].back().is_none_or(|last| last.at <= at) {
            self.queues[queue].push_back(entry);
        } else {
            self.heap.push(Reverse(entry));
        }
    }

    /// When the next event is.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.next().map(|(entry, _)| entry.at)
    }

    /// Takes the next event if it is not after `until`.
    pub(super) fn pop(&mut self, until: Instant) -> Option<(Instant, Event)> {
        let (next, queue) = self.next()?;
        if next.at > until {
            return None;
        }
        let entry = match queue {
            Some(queue) => self.queues[queue].pop_front(),
            None => self.heap.pop().map(|Reverse(entry)| entry),
        };
        let Entry { at, event, .. } = entry?;
        self.now = self.now.max(at);
        Some((at, event))
    }

    /// The next event and its queue; none if it is in the heap.
    fn next(&self) -> Option<(&Entry, Option<usize>)> {
        let mut first = self.heap.peek().map(|Reverse(entry)| (entry, None));
        for (place, queue) in self.queues.iter().enumerate() {
            if let Some(entry) = queue.front()
                && first.is_none_or(|(first, _)| entry < first)
            {
                first = Some((entry, Some(place)));
            }
        }
        first
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    #[test]
    fn events_come_by_time_and_then_as_they_were_added() {
        let (mut agenda, mut random) = (Agenda::default(), Pcg64Mcg::seed_from_u64(1));
        let (mut now, mut expected) = (Instant::default(), Vec::new());
        for number in 0..10_000 {
            // At once, after the latency, with a jitter, and much later.
            let delay_ns = [0, 50_000, random.random_range(0..200_000), random.random_range(0..1_000_000_000)];
            let at = now.plus_ns(delay_ns[random.random_range(0..4)]);
            agenda.add(at, Event::Established { connection: number });
            expected.push((at, number));
            if random.random() {
                let Some((at, Event::Established { connection })) = agenda.pop(Instant::from_ns(u64::MAX)) else {
                    panic!("events are left")
                };
                let first = expected.iter().position(|event| *event == (at, connection)).expect("it was added");
                assert!(expected.iter().all(|event| *event >= (at, connection)), "event {connection}");
                expected.remove(first);
                now = at;
            }
        }
        assert_eq!(agenda.pop(now.minus_ns(1)).map(|(at, _)| at), None);
    }
}
