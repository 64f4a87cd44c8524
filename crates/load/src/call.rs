//! Calls under way: one request each with its times, from its beginning on a connection to its end.
//!
//! All calls of a load thread lie in one slab, named by streams; each connection has a list of its
//! own, in the order in which they were begun. A call may end anywhere in it.

use std::ops::{Index, IndexMut};

use sha2::{Digest, Sha256};
use thalweg_measure::Outcome;
use thalweg_sys::Instant;

use crate::input::check::CheckOf;
use crate::protocol::StreamId;
use crate::redirect::HopId;

/// A call: one request on its way, and its response so far.
pub(crate) struct Call {
    /// The calls before and behind it on its connection.
    pub(crate) previous: Option<StreamId>,
    pub(crate) next: Option<StreamId>,
    pub(crate) intended: Instant,
    /// When the thread had both: it had noticed that the request was due, and a connection had room
    /// for it.
    pub(crate) ready: Instant,
    /// How the time until then was spent: waiting for the thread itself, and for a connection that
    /// the target kept busy. The rest was spent connecting.
    pub(crate) late_ns: u64,
    pub(crate) queue_ns: u64,
    pub(crate) deadline: Instant,
    /// When it was sent, if the driver has sent others since and does not know it any more.
    pub(crate) sent: Stamp,
    pub(crate) first_byte: Stamp,
    /// The number of its request, and how often that was sent again because no server had processed
    /// it.
    pub(crate) request: u32,
    pub(crate) retries: u8,
    /// The address that its connection goes to.
    pub(crate) peer: u16,
    /// How many redirects were followed, the request that they have led to, and when the first one
    /// of all was sent. The response that is being read redirects further if it is `redirected`.
    pub(crate) hops: u8,
    pub(crate) redirected: bool,
    pub(crate) hop: Option<HopId>,
    pub(crate) first_sent: Stamp,
    /// The last one on its connection.
    pub(crate) last: bool,
    pub(crate) measured: bool,
    /// The driver has its request.
    pub(crate) submitted: bool,
    pub(crate) keep_alive: bool,
    /// The fields of its response do not meet its check.
    pub(crate) fields_differ: bool,
    pub(crate) status: u16,
    /// Bytes received of the response, and of its content.
    pub(crate) bytes: u64,
    pub(crate) body_bytes: u64,
    pub(crate) digest: Option<Box<Sha256>>,
}

/// The calls of a load thread. Places are used again, so that there are as many as there were calls
/// at once.
#[derive(Default)]
pub(crate) struct Calls {
    places: Vec<Call>,
    free: Vec<StreamId>,
}

/// The calls of a connection, from the oldest on.
#[derive(Clone, Copy, Default)]
pub(crate) struct CallList {
    first: Option<StreamId>,
    last: Option<StreamId>,
    len: u32,
}

impl CallList {
    /// The oldest.
    #[inline]
    pub(crate) fn first(&self) -> Option<StreamId> {
        self.first
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Calls {
    /// Puts a call behind the others of its connection.
    #[inline]
    pub(crate) fn push(&mut self, list: &mut CallList, mut call: Call) -> StreamId {
        call.previous = list.last;
        let stream = match self.free.pop() {
            Some(stream) => {
                self[stream] = call;
                stream
            }
            None => {
                self.places.push(call);
                StreamId::of(self.places.len() - 1)
            }
        };
        self.append(list, stream);
        stream
    }

    /// Puts a call at the end of a list. It knows the one before it already.
    #[inline]
    fn append(&mut self, list: &mut CallList, stream: StreamId) {
        match list.last {
            Some(last) => self[last].next = Some(stream),
            None => list.first = Some(stream),
        }
        list.last = Some(stream);
        list.len += 1;
    }

    /// Takes a call off its connection. Nothing names it any more; what it holds stays until its
    /// place is used again.
    #[inline]
    pub(crate) fn remove(&mut self, list: &mut CallList, stream: StreamId) -> &mut Call {
        self.unlink(list, stream);
        self.free.push(stream);
        &mut self[stream]
    }

    #[inline]
    fn unlink(&mut self, list: &mut CallList, stream: StreamId) {
        let (previous, next) = (self[stream].previous, self[stream].next);
        match previous {
            Some(previous) => self[previous].next = next,
            None => list.first = next,
        }
        match next {
            Some(next) => self[next].previous = previous,
            None => list.last = previous,
        }
        list.len -= 1;
    }

    /// Moves a call behind those of another list.
    pub(crate) fn transfer(&mut self, from: &mut CallList, to: &mut CallList, stream: StreamId) {
        self.unlink(from, stream);
        let call = &mut self[stream];
        (call.previous, call.next) = (to.last, None);
        self.append(to, stream);
    }

    /// The calls of a connection.
    pub(crate) fn of(&self, list: &CallList) -> impl Iterator<Item = &Call> {
        std::iter::successors(list.first, |&stream| self[stream].next).map(|stream| &self[stream])
    }

    /// How many places there are.
    pub(crate) fn places(&self) -> usize {
        self.places.len()
    }
}

impl Index<StreamId> for Calls {
    type Output = Call;

    #[inline]
    fn index(&self, stream: StreamId) -> &Call {
        &self.places[stream.place()]
    }
}

impl IndexMut<StreamId> for Calls {
    #[inline]
    fn index_mut(&mut self, stream: StreamId) -> &mut Call {
        &mut self.places[stream.place()]
    }
}

/// The time of something that may not have happened yet, in half the memory of an `Option`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Stamp(Instant);

impl Stamp {
    /// When it happened.
    pub(crate) fn get(self) -> Option<Instant> {
        (self.0 != Instant::default()).then_some(self.0)
    }

    /// Notes that it happened now, unless it had already.
    pub(crate) fn set_once(&mut self, now: Instant) {
        if self.get().is_none() {
            self.0 = now;
        }
    }
}

/// When a request was due.
#[derive(Clone, Copy)]
pub(crate) struct Due {
    pub(crate) intended: Instant,
    /// When the thread first saw it.
    pub(crate) noticed: Instant,
    /// It was not kept waiting since.
    pub(crate) prompt: bool,
}

impl Call {
    /// Whether its request has left, on a connection that was given its latest send at
    /// `submitted_at` and has begun one at `latest`.
    #[inline]
    pub(crate) fn has_left(&self, latest: Instant, submitted_at: Instant) -> bool {
        self.submitted && (self.sent.get().is_some() || latest >= submitted_at)
    }

    /// When it was sent: the time noted here, else that of the socket's latest send. A request that
    /// has not left yet has no time of its own.
    pub(crate) fn sent_or(&self, latest: Instant) -> Instant {
        self.sent.get().unwrap_or(latest).max(self.ready)
    }

    /// Whether the server was sent its request: at least the one that was offered, if redirects
    /// were followed.
    #[inline]
    pub(crate) fn was_sent(&self) -> bool {
        self.submitted || self.hops > 0
    }

    /// The request that redirects have led to.
    #[inline]
    pub(crate) fn followed(&self) -> Option<HopId> {
        self.hop.filter(|_| self.hops > 0)
    }

    /// Judges a whole response.
    ///
    /// The hasher, if there is one, is put back for the next call.
    #[expect(clippy::vec_box, reason = "a call takes a box out, since it would be large with the hasher itself")]
    pub(crate) fn judge(&mut self, check: CheckOf<'_>, hashers: &mut Vec<Box<Sha256>>) -> Outcome {
        let digest = self.digest.take().map(|mut hasher| {
            let digest = <[u8; 32]>::from(hasher.finalize_reset());
            hashers.push(hasher);
            digest
        });
        match check.judge(self.status, self.body_bytes, digest) {
            Outcome::Good if self.fields_differ => Outcome::FailedCheck,
            outcome => outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(request: u32) -> Call {
        Call {
            previous: None,
            next: None,
            intended: Instant::default(),
            ready: Instant::default(),
            late_ns: 0,
            queue_ns: 0,
            deadline: Instant::default(),
            sent: Stamp::default(),
            first_byte: Stamp::default(),
            request,
            retries: 0,
            peer: 0,
            hops: 0,
            redirected: false,
            hop: None,
            first_sent: Stamp::default(),
            last: false,
            measured: true,
            submitted: false,
            keep_alive: false,
            fields_differ: false,
            status: 0,
            bytes: 0,
            body_bytes: 0,
            digest: None,
        }
    }

    #[test]
    fn calls_of_two_connections_end_in_any_order() {
        let (mut calls, mut first, mut second) = (Calls::default(), CallList::default(), CallList::default());
        let streams = [0, 1, 2, 3].map(|request| calls.push(&mut first, call(request)));
        let other = calls.push(&mut second, call(9));
        let requests = |calls: &Calls, list: &CallList| calls.of(list).map(|call| call.request).collect::<Vec<_>>();
        assert_eq!(calls.remove(&mut first, streams[1]).request, 1);
        assert_eq!(calls.remove(&mut first, streams[3]).request, 3);
        assert_eq!((requests(&calls, &first), requests(&calls, &second)), (vec![0, 2], vec![9]));
        let reused = calls.push(&mut second, call(10));
        assert!(reused == streams[3] && second.first() == Some(other));
        calls.remove(&mut first, streams[0]);
        calls.push(&mut first, call(4));
        assert_eq!((requests(&calls, &first), requests(&calls, &second)), (vec![2, 4], vec![9, 10]));
        calls.remove(&mut second, other);
        calls.remove(&mut second, reused);
        assert!(second.is_empty() && second.first().is_none() && calls.places() == 5);
        calls.transfer(&mut first, &mut second, streams[2]);
        assert_eq!((requests(&calls, &first), requests(&calls, &second)), (vec![4], vec![2]));
    }
}
