//! The work budget: how much of a loop's work pipelined requests and bodies of many parts may take
//! before other connections are served.
//!
//! The first thing that a connection does in an iteration is free: most have nothing else to do. A
//! further request of the same input, or a further part of a body, is taken from a budget that all
//! connections of the loop have in common and that each iteration renews. A connection that finds
//! it used up is listed and goes on in a later iteration, in order.
//!
//! The calculations of TLS handshakes have a budget of their own, because each takes as long as a
//! hundred requests.

use std::collections::VecDeque;

use thalweg_sys::SocketId;

/// The work of an iteration beyond the first step of each connection, in small requests; see
/// bench/TRIED.md, "Work of an iteration".
const WORK_PER_ITERATION: u32 = 256;

/// The cost of a part of a body of several parts, in small requests.
const WORK_PER_PART: u32 = 8;

/// The cost of responses that end with a part of a file or fill their buffer, in small requests.
const WORK_PER_FULL_BATCH: u32 = 32;

/// The messages of handshakes that are answered in an iteration: about a millisecond of work.
const HANDSHAKES_PER_ITERATION: u32 = 4;

/// The work that is left in this iteration, and the connections that wait for the next one.
#[derive(Default)]
pub(crate) struct WorkBudget {
    left: u32,
    waiting: VecDeque<SocketId>,
}

impl WorkBudget {
    /// Begins an iteration. The number of connections that have waited for it.
    #[inline]
    pub(crate) fn renew(&mut self) -> usize {
        self.left = WORK_PER_ITERATION;
        self.waiting.len()
    }

    /// The connection that has waited the longest, if there is work left for it.
    pub(crate) fn pop(&mut self) -> Option<SocketId> {
        if self.is_left() { self.waiting.pop_front() } else { None }
    }

    /// Lists a connection for a later iteration.
    pub(crate) fn wait(&mut self, socket: SocketId) {
        self.waiting.push_back(socket);
    }

    /// Whether connections wait for the next iteration.
    #[inline]
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether there is work left.
    pub(crate) fn is_left(&self) -> bool {
        self.left > 0
    }

    /// Takes a part of a body.
    pub(crate) fn take_part(&mut self) {
        self.left = self.left.saturating_sub(WORK_PER_PART);
    }

    /// Whether a further request may be processed at once, in a batch that is full or has room.
    pub(crate) fn take_request(&mut self, is_batch_full: bool) -> bool {
        if is_batch_full {
            self.left = self.left.saturating_sub(WORK_PER_FULL_BATCH);
            return false;
        }
        let is_left = self.is_left();
        self.left = self.left.saturating_sub(1);
        is_left
    }
}

/// The handshakes whose input may still be processed in this iteration, and the connections whose
/// input waits.
#[derive(Default)]
pub(crate) struct HandshakeBudget {
    left: u32,
    waiting: VecDeque<SocketId>,
}

impl HandshakeBudget {
    /// Begins an iteration. The number of connections that have waited for it.
    #[inline]
    pub(crate) fn renew(&mut self) -> usize {
        self.left = HANDSHAKES_PER_ITERATION;
        self.waiting.len()
    }

    /// Whether input that has just come in may be processed at once: none comes before that of a
    /// connection that waits.
    pub(crate) fn take(&mut self) -> bool {
        let may = self.left > 0 && self.waiting.is_empty();
        self.left -= u32::from(may);
        may
    }

    /// The connection that has waited the longest, if it may go on.
    pub(crate) fn pop(&mut self) -> Option<SocketId> {
        if self.left > 0 { self.waiting.pop_front() } else { None }
    }

    /// Counts the input of a connection that has waited.
    pub(crate) fn use_one(&mut self) {
        self.left -= 1;
    }

    /// Lists a connection for a later iteration.
    pub(crate) fn wait(&mut self, socket: SocketId) {
        self.waiting.push_back(socket);
    }

    /// Whether connections wait for the next iteration.
    #[inline]
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use thalweg_sys::table::Table;

    use super::*;

    #[test]
    fn a_handshake_does_not_overtake_one_that_waits() {
        let mut budget = HandshakeBudget::default();
        assert!(!budget.take(), "before the first iteration");
        budget.renew();
        for _ in 0..HANDSHAKES_PER_ITERATION {
            assert!(budget.take());
        }
        assert!(!budget.take());
        let socket = Table::new(1).insert(()).unwrap();
        budget.wait(socket);
        assert_eq!(budget.pop(), None);
        assert_eq!(budget.renew(), 1);
        assert!(!budget.take(), "one waits");
        assert_eq!(budget.pop(), Some(socket));
        budget.use_one();
        assert!(budget.take());
    }
}
