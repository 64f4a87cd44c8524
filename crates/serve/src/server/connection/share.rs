//! A connection's share of a turn: how much of the loop's work pipelined requests and bodies of many parts may take before others
//! are served.
//!
//! The first thing that a connection does in a turn is free: most have nothing else to do. What follows it, a further request of the
//! same input or a further part of a body, is taken from a store of work that all connections of the loop have in common and that
//! is filled up in each turn. A connection that finds it empty is listed and goes on in a later turn, one after the other.

use std::collections::VecDeque;

use thalweg_sys::{Driver, SendBuf, SocketId};

use super::{Connection, Fate, Shared};
use crate::http::respond::Outbox;

/// The work of a turn beyond the first thing of each connection, in small requests: a third of a millisecond.
const WORK_PER_TURN: u32 = 256;

/// A part of a body of several takes two system calls, as long as so many small requests.
const WORK_PER_PART: u32 = 8;

/// The same for responses that end with a part of a file, or fill the buffer in which they are gathered.
const WORK_PER_FULL_OUTBOX: u32 = 32;

/// The work that is left in this turn, and the connections that wait for the next one.
#[derive(Default)]
pub(crate) struct Share {
    left: u32,
    listed: VecDeque<SocketId>,
}

impl Share {
    /// Begins a turn. How many connections have waited for it.
    #[inline]
    pub(crate) fn renew(&mut self) -> usize {
        self.left = WORK_PER_TURN;
        self.listed.len()
    }

    /// The connection that has waited the longest, if there is work left for it.
    pub(crate) fn pop(&mut self) -> Option<SocketId> {
        if self.is_left() { self.listed.pop_front() } else { None }
    }

    /// Whether connections wait for the next turn.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        !self.listed.is_empty()
    }

    pub(super) fn is_left(&self) -> bool {
        self.left > 0
    }

    /// Whether a further request may be answered at once, behind those whose responses are in the outbox.
    pub(super) fn take(&mut self, out: &Outbox<'_>) -> bool {
        if out.is_full() {
            self.left = self.left.saturating_sub(WORK_PER_FULL_OUTBOX);
            return false;
        }
        let is_left = self.is_left();
        self.left = self.left.saturating_sub(1);
        is_left
    }
}

impl Connection {
    /// Sends the next part of a body of several, if there is one and its turn has come.
    pub(super) fn send_segment<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared) -> Fate {
        if self.segments.as_ref().is_none_or(|segments| segments.is_empty()) {
            self.segments = None;
            return self.after_sending(driver, shared);
        }
        if !shared.share.is_left() {
            return self.wait_for_share(shared);
        }
        shared.share.left = shared.share.left.saturating_sub(WORK_PER_PART);
        if let Some((text, file)) = self.segments.as_mut().and_then(|segments| segments.next()) {
            self.send(driver, shared, SendBuf::Owned(text), file);
        }
        Fate::Stays
    }

    /// Has it go on in a later turn.
    #[cold]
    pub(super) fn wait_for_share(&mut self, shared: &mut Shared) -> Fate {
        if !self.is_listed {
            self.is_listed = true;
            shared.share.listed.push_back(self.socket);
        }
        Fate::Stays
    }

    /// Its turn has come.
    pub(crate) fn on_share<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared) -> Fate {
        self.is_listed = false;
        if self.segments.is_some() { self.send_segment(driver, shared) } else { self.after_sending(driver, shared) }
    }
}
