//! The streams of a connection.

use super::error::Fault;
use super::priority::Priority;

/// One stream, with a value of its owner's.
#[derive(Debug)]
pub(super) struct Stream<T> {
    pub(super) id: u32,
    pub(super) owner: T,
    /// Bytes that may be sent; negative after the peer has lowered the windows.
    pub(super) send_window: i64,
    /// Bytes that the peer may send.
    pub(super) receive_window: i64,
    /// Received bytes that the owner has consumed and the peer has not been told of.
    pub(super) unreturned: u32,
    /// Bytes of the body that are still to come, by Content-Length.
    pub(super) length_left: Option<u64>,
    pub(super) priority: Priority,
    /// The priority is that of a PRIORITY_UPDATE, which the request's own does not replace.
    pub(super) is_priority_updated: bool,
    /// When it last sent, among the streams that share the connection.
    pub(super) turn: u64,
    /// The final head has come: another header block is a trailer section.
    pub(super) has_head: bool,
    pub(super) is_remote_closed: bool,
    pub(super) is_local_closed: bool,
    /// Reset by either side.
    pub(super) is_reset: bool,
    /// Reset by the peer, which therefore sends no more on it.
    pub(super) is_reset_by_peer: bool,
    /// The owner has ended its work on it. Until then the stream counts, whatever became of it.
    pub(super) is_released: bool,
    /// The owner has body to send.
    pub(super) wants_to_send: bool,
}

impl<T> Stream<T> {
    pub(super) fn new(id: u32, owner: T, send_window: u32, receive_window: u32) -> Self {
        Self {
            id,
            owner,
            send_window: send_window.into(),
            receive_window: receive_window.into(),
            unreturned: 0,
            length_left: None,
            priority: Priority::UNSIGNALLED,
            is_priority_updated: false,
            turn: 0,
            has_head: false,
            is_remote_closed: false,
            is_local_closed: false,
            is_reset: false,
            is_reset_by_peer: false,
            is_released: false,
            wants_to_send: false,
        }
    }

    /// Notes whether nothing more comes on it. A body that is shorter than its Content-Length is a
    /// fault.
    pub(super) fn note_end(&mut self, ends: bool) -> Option<Fault> {
        self.is_remote_closed |= ends;
        let is_short = ends && self.length_left.is_some_and(|left| left > 0);
        is_short.then_some(Fault::protocol("a body is shorter than its Content-Length"))
    }

    /// Whether both sides have sent all.
    pub(super) fn is_closed(&self) -> bool {
        self.is_remote_closed && self.is_local_closed
    }

    fn is_over(&self) -> bool {
        self.is_released && (self.is_reset || self.is_closed())
    }
}

/// Ids of streams that were reset here lately: what the peer has sent before it knew is ignored.
const RESETS_KEPT: usize = 32;

/// The streams of a connection, ascending by id. They are few, and most of them end about in the
/// order in which they began.
#[derive(Debug)]
pub(super) struct Streams<T> {
    live: Vec<Stream<T>>,
    resets: Vec<u32>,
    /// The place of the oldest of them, once the list is full.
    oldest: usize,
    /// Turns given so far.
    turns: u64,
    /// Priorities of streams that have not begun, the oldest first.
    early_priorities: Vec<(u32, Priority)>,
}

/// Priorities of streams that have not begun: as many as a client announces before a page.
const EARLY_PRIORITIES_MAX: usize = 16;

impl<T> Streams<T> {
    pub(super) const fn new() -> Self {
        Self { live: Vec::new(), resets: Vec::new(), oldest: 0, turns: 0, early_priorities: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.live.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Stream<T>> {
        self.live.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream<T>> {
        self.live.iter_mut()
    }

    #[inline]
    pub(super) fn get(&self, id: u32) -> Option<&Stream<T>> {
        self.place(id).map(|place| &self.live[place])
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Stream<T>> {
        self.place(id).map(|place| &mut self.live[place])
    }

    #[inline]
    fn place(&self, id: u32) -> Option<usize> {
        self.live.binary_search_by_key(&id, |stream| stream.id).ok()
    }

    /// Adds a stream, whose id is the highest so far.
    pub(super) fn push(&mut self, mut stream: Stream<T>) {
        debug_assert!(self.live.last().is_none_or(|last| last.id < stream.id), "ids ascend");
        if !self.early_priorities.is_empty() {
            if let Some((_, priority)) = self.early_priorities.iter().find(|(id, _)| *id == stream.id) {
                (stream.priority, stream.is_priority_updated) = (*priority, true);
            }
            // Lower streams do not begin any more.
            self.early_priorities.retain(|(id, _)| *id > stream.id);
        }
        self.live.push(stream);
    }

    /// Takes the priority of a PRIORITY_UPDATE: of a stream, or of one that `may_begin` later.
    pub(super) fn update_priority(&mut self, id: u32, priority: Priority, may_begin: bool) {
        if let Some(stream) = self.get_mut(id) {
            (stream.priority, stream.is_priority_updated) = (priority, true);
        } else if may_begin {
            self.early_priorities.retain(|(early, _)| *early != id);
            if self.early_priorities.len() == EARLY_PRIORITIES_MAX {
                self.early_priorities.remove(0);
            }
            self.early_priorities.push((id, priority));
        }
    }

    /// Removes a stream that both sides and the owner have ended.
    #[inline]
    pub(super) fn remove_if_over(&mut self, id: u32) {
        if let Some(place) = self.place(id).filter(|place| self.live[*place].is_over()) {
            let stream = self.live.remove(place);
            if stream.is_reset && !stream.is_reset_by_peer {
                self.note_reset(id);
            }
        }
    }

    /// Returns memory, if no stream is left.
    pub(super) fn shrink(&mut self) {
        if self.live.is_empty() && self.live.capacity() > LIVE_KEPT {
            self.live = Vec::new();
        }
    }

    /// Notes that a stream was reset here.
    pub(super) fn note_reset(&mut self, id: u32) {
        if self.resets.len() < RESETS_KEPT {
            self.resets.push(id);
        } else {
            self.resets[self.oldest] = id;
            self.oldest = (self.oldest + 1) % RESETS_KEPT;
        }
    }

    pub(super) fn was_reset(&self, id: u32) -> bool {
        self.resets.contains(&id)
    }

    /// The stream that should send next (RFC 9218, 10): of the most urgent ones the oldest that is
    /// not incremental, else the incremental one whose last turn is longest ago.
    pub(super) fn next_sender(&mut self) -> Option<u32> {
        let can_send = |stream: &&mut Stream<T>| stream.wants_to_send && stream.send_window > 0;
        let order = |stream: &&mut Stream<T>| {
            let Priority { urgency, incremental } = stream.priority;
            (urgency, incremental, if incremental { stream.turn } else { 0 }, stream.id)
        };
        let next = self.live.iter_mut().filter(can_send).min_by_key(order)?;
        self.turns += 1;
        next.turn = self.turns;
        Some(next.id)
    }
}

/// An idle connection keeps room for so many streams.
const LIVE_KEPT: usize = 4;
