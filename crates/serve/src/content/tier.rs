//! The cache tier as a loop uses it: what it asks, and the inbox to which answers come.
//!
//! The tier has a thread of its own and serves all loops. A loop asks and goes on; answers, and
//! notices that a body has more, are left in the loop's inbox by the tier's thread, which wakes the
//! loop. The inbox needs no bound of its own: a request has one answer, and a body that is read one
//! notice, so that there are no more than streams of connections.

use std::mem;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_sys::{SocketId, Waker};
use thalweg_tier::{Answer, Answered, Ask, Key};

use crate::content::tier_figures::TierFigures;

/// A cache tier that loops ask.
pub trait CacheTier: Send + Sync {
    /// Answers a request: `answered` is called once, from another thread.
    fn ask(&self, ask: Ask, answered: Answered);

    /// A number that grows when objects that loops hold may have become invalid before they are
    /// stale.
    fn generation(&self) -> u64;

    /// Counts requests for a mount that a loop has answered with objects that it held, and bytes of
    /// bodies in memory that it sent, of these and of others.
    fn count_held_hits(&self, mount: usize, requests: u64, bytes: u64);

    /// Notes that a loop goes on answering with objects that it holds.
    fn touch(&self, objects: &[Key]);

    /// The descriptors that bodies are sent from, which a loop with a table of its own keeps.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>>;

    /// The figures for the status listener.
    fn figures(&self) -> TierFigures {
        TierFigures::default()
    }

    /// Whether the value of a field `Authorization` allows its sender to purge; `None` if nobody
    /// may.
    fn allows_purge(&self, _authorization: &[u8]) -> Option<bool> {
        None
    }

    /// Whether the value of a field `Authorization` allows its sender to read which objects are
    /// stored; `None` if nobody may.
    fn allows_reading(&self, _authorization: &[u8]) -> Option<bool> {
        None
    }

    /// Lists the stored objects that a query names: `answered` is called once, from whatever
    /// thread.
    fn list_objects(&self, _query: &str, answered: PurgeAnswered) {
        answered(PurgeAnswer { status: 403, body: String::new() });
    }

    /// Purges what the body of a request names: `answered` is called once, from whatever thread.
    fn purge(&self, _content_type: &str, _body: &[u8], answered: PurgeAnswered) {
        answered(PurgeAnswer { status: 403, body: String::new() });
    }
}

/// The answer to a request to purge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PurgeAnswer {
    /// Its status.
    pub status: u16,
    /// Its body: JSON.
    pub body: String,
}

/// Takes the answer to a request to purge.
pub type PurgeAnswered = Box<dyn FnOnce(PurgeAnswer) + Send>;

/// The answers and notices for one loop.
pub(crate) struct Inbox {
    arrivals: Mutex<Arrivals>,
    /// `None` in a simulation, which looks by itself.
    waker: Option<Waker>,
}

/// Answers and wakes that have come since the last look.
#[derive(Default)]
pub(crate) struct Arrivals {
    pub(crate) answers: Vec<Arrival>,
    /// Connections for which a body has more.
    pub(crate) wakes: Vec<SocketId>,
}

impl Arrivals {
    /// Whether nothing has come.
    pub(crate) fn is_empty(&self) -> bool {
        self.answers.is_empty() && self.wakes.is_empty()
    }
}

/// An answer for the request on a stream of a connection; 0 in HTTP/1.
pub(crate) struct Arrival {
    pub(crate) socket: SocketId,
    pub(crate) stream: u32,
    pub(crate) answer: Box<TierAnswer>,
}

/// An answer of the tier, with its generation when it was asked.
pub(crate) struct TierAnswer {
    pub(crate) answer: Answer,
    pub(crate) generation: u64,
}

impl Inbox {
    /// An empty inbox of the loop with this waker.
    pub(crate) fn new(waker: Option<Waker>) -> Arc<Self> {
        Arc::new(Self { arrivals: Mutex::default(), waker })
    }

    /// Leaves an answer.
    pub(crate) fn leave(&self, arrival: Arrival) {
        self.add(|arrivals| arrivals.answers.push(arrival));
    }

    /// Leaves a notice that a body of a connection has more.
    pub(crate) fn wake(&self, socket: SocketId) {
        self.add(|arrivals| arrivals.wakes.push(socket));
    }

    fn add(&self, add: impl FnOnce(&mut Arrivals)) {
        let mut arrivals = self.arrivals();
        let is_first = arrivals.is_empty();
        add(&mut arrivals);
        drop(arrivals);
        if let Some(waker) = self.waker.as_ref().filter(|_| is_first) {
            waker.wake();
        }
    }

    /// Takes all that has come.
    pub(crate) fn take(&self) -> Arrivals {
        mem::take(&mut *self.arrivals())
    }

    fn arrivals(&self) -> MutexGuard<'_, Arrivals> {
        // Nothing that is done under the lock panics half-way.
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
