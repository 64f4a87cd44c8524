//! Remote origins: origins that the loop reaches over connections of its own.
//!
//! A remote origin is a state machine without I/O, as a session is. The loop gives it events of its
//! connections and carries out its actions; sessions open objects and are woken when these are
//! ready. HTTP and S3 origins will be such.

use std::collections::HashMap;
use std::net::SocketAddr;

use foldhash::quality::RandomState;
use thalweg_sys::{Instant, SocketId};

use crate::content::object::Object;
use crate::content::refusal::Refusal;
use crate::content::stream::Wakes;

/// An origin behind connections.
pub(crate) trait RemoteOrigin {
    /// Opens the object of a canonical name for the session of a connection, which is woken if it
    /// has to wait.
    fn open(&mut self, name: &[u8], waiter: SocketId, now: Instant) -> RemoteOpening<'_>;

    /// Takes an event of one of its connections.
    fn on_event(&mut self, connection: OriginConnection, event: OriginEvent<'_>, now: Instant);

    /// Called once per iteration of the loop, and when it was [due](Self::due).
    fn on_iteration(&mut self, now: Instant);

    /// The next action that the loop is to carry out, until there is none.
    fn next_action(&mut self) -> Option<OriginAction>;

    /// When the origin needs the next iteration.
    fn due(&self) -> Option<Instant>;
}

/// The outcome of opening an object.
pub(crate) enum RemoteOpening<'o> {
    /// The object, whose body may still be coming in.
    Object(&'o mut Object),
    /// The session is woken when it is worth while to open it again.
    Pending,
    /// There is none.
    Refused(Refusal),
}

/// A connection of an origin, by a number that the origin chooses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct OriginConnection(pub(crate) u32);

/// An event of a connection.
#[derive(Debug)]
pub(crate) enum OriginEvent<'e> {
    /// It is established.
    Connected,
    /// Bytes have come in.
    Received(&'e [u8]),
    /// The last bytes have been sent.
    Sent,
    /// The peer will send no more.
    Ended,
    /// It could not be established, or has broken. It is gone.
    Failed,
}

/// An action on a connection.
#[derive(Debug)]
pub(crate) enum OriginAction {
    /// Connect to an address.
    Connect(OriginConnection, SocketAddr),
    /// Send bytes; one send at a time.
    Send(OriginConnection, Vec<u8>),
    /// Receive no more, or again.
    Hold(OriginConnection, bool),
    /// Close it.
    Close(OriginConnection),
}

/// Time for which a refusal is kept for all requests that have waited for the same object.
const REFUSED_NS: u64 = 1_000_000_000;

/// Fetches under way, by name: requests for the same object are collapsed into one fetch.
pub(crate) struct Fetches {
    by_name: HashMap<Box<[u8]>, Fetch, RandomState>,
    wakes: Wakes,
}

/// The state of the fetch of one object.
enum Fetch {
    /// Its head has not come in yet; these connections wait for it.
    Pending(Vec<SocketId>),
    /// The object.
    Object(Box<Object>),
    /// There is none, until then.
    Refused(Refusal, Instant),
}

/// The outcome of joining a fetch.
pub(crate) enum Joined<'f> {
    /// There was none: the caller begins one.
    First,
    /// One is under way, and the waiter is woken.
    Waiting,
    /// The object.
    Object(&'f mut Object),
    /// There is none.
    Refused(Refusal),
}

impl Fetches {
    /// No fetches.
    pub(crate) fn new(wakes: Wakes) -> Self {
        Self { by_name: HashMap::default(), wakes }
    }

    /// Joins the fetch of a name. An object whose stream has passed its beginning serves its
    /// present readers only.
    pub(crate) fn join(&mut self, name: &[u8], waiter: SocketId, now: Instant) -> Joined<'_> {
        let is_over = match self.by_name.get(name) {
            None => true,
            Some(Fetch::Pending(_)) => false,
            Some(Fetch::Object(object)) => !object.can_be_sent(),
            Some(Fetch::Refused(_, until)) => *until <= now,
        };
        if is_over {
            self.by_name.insert(name.into(), Fetch::Pending(vec![waiter]));
            return Joined::First;
        }
        match self.by_name.get_mut(name) {
            Some(Fetch::Pending(waiters)) => {
                waiters.push(waiter);
                Joined::Waiting
            }
            Some(Fetch::Object(object)) => Joined::Object(object),
            Some(Fetch::Refused(refusal, _)) => Joined::Refused(*refusal),
            None => unreachable!("it was looked up just now"),
        }
    }

    /// Stores an object whose head has arrived, and wakes the connections that wait for it.
    pub(crate) fn complete(&mut self, name: &[u8], object: Object) {
        self.settle(name, Fetch::Object(Box::new(object)));
    }

    /// There is no object of this name.
    pub(crate) fn refuse(&mut self, name: &[u8], refusal: Refusal, now: Instant) {
        self.settle(name, Fetch::Refused(refusal, now.plus_ns(REFUSED_NS)));
    }

    /// Forgets refusals that are too old, and objects whose streams have passed their beginning.
    pub(crate) fn forget_old(&mut self, now: Instant) {
        self.by_name.retain(|_, fetch| match fetch {
            Fetch::Pending(_) => true,
            Fetch::Object(object) => object.can_be_sent(),
            Fetch::Refused(_, until) => *until > now,
        });
    }

    fn settle(&mut self, name: &[u8], fetch: Fetch) {
        if let Some(Fetch::Pending(waiters)) = self.by_name.insert(name.into(), fetch) {
            waiters.into_iter().for_each(|waiter| self.wakes.push(waiter));
        }
    }
}
