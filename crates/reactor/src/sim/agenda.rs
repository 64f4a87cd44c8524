//! The agenda of the simulation: future events in the order of virtual time.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

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
#[derive(Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Reverse<Entry>>,
    added: u64,
}

struct Entry {
    at: Instant,
    number: u64,
    event: Event,
}

impl Agenda {
    pub(super) fn add(&mut self, at: Instant, event: Event) {
        self.heap.push(Reverse(Entry { at, number: self.added, event }));
        self.added += 1;
    }

    /// When the next event is.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// Takes the next event if it is not after `until`.
    pub(super) fn pop(&mut self, until: Instant) -> Option<(Instant, Event)> {
        if self.next_at()? > until {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.event))
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
