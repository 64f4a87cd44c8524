//! The contract between a connection and the protocol session on it.
//!
//! A session is a state machine without I/O. The connection gives it received bytes and reports
//! when a payload has been sent, when an object is ready, and when a deadline has passed; the
//! session returns the bytes to send and the event that it waits for. Rates, admission, eviction,
//! accounting and the calls to the driver belong to the connection, so that a new protocol does not
//! change them.

use std::rc::Rc;

use crate::content::body::Payload;
use crate::content::origin::Outcome;
use crate::content::tier::TierAnswer;

/// A session on a connection.
pub(crate) trait Session {
    /// Parts of the loop that a session uses, borrowed for one call.
    type Services<'s>;

    /// Takes bytes that have come in.
    fn on_received(&mut self, input: &[u8], services: &mut Self::Services<'_>) -> Next;

    /// The last payload has been sent.
    fn on_sent(&mut self, services: &mut Self::Services<'_>) -> Next;

    /// Something that the session waits for is ready, and earlier payloads have been sent or not.
    fn on_ready(&mut self, ready: Ready, is_sending: bool, services: &mut Self::Services<'_>) -> Next;

    /// The peer will send no more.
    fn on_ended(&mut self) -> Next;

    /// The peer, or an object, has not come in time.
    fn on_deadline(&mut self, is_sending: bool, services: &mut Self::Services<'_>) -> Next;

    /// The server is going away, and nothing is under way on this connection.
    fn on_draining(&mut self, services: &mut Self::Services<'_>) -> Next;

    /// Keeps input of a connection that is not admitted yet. Returns whether a whole request has
    /// arrived, or the input is malformed.
    fn keep_input(&mut self, input: &[u8], services: &mut Self::Services<'_>) -> bool;

    /// Responds to the request that was kept, if it is the only one on this connection, for want of
    /// a slot.
    fn answer_kept(&mut self, is_only: bool, services: &mut Self::Services<'_>) -> Next;

    /// Forgets all input: the connection is refused, with a response that is not the session's.
    fn drop_input(&mut self);

    /// The session's present activity.
    fn activity(&self) -> Activity;

    /// Whether the connection should receive no more for now: the peer is too far ahead, or its
    /// input would be discarded.
    fn holds_input(&self) -> bool;
}

/// Something that a session has waited for.
pub(crate) enum Ready {
    /// The job of the request on a stream (0 in HTTP/1) is done, with this outcome.
    Job { stream: u32, outcome: Outcome },
    /// The cache tier has answered the request on a stream.
    Answer { stream: u32, answer: Box<TierAnswer> },
    /// A body of the cache tier has more.
    Body,
}

/// The next step of a connection.
#[must_use]
pub(crate) enum Next {
    /// Send this, and report to the session when it has been sent.
    Send(Payload),
    /// Wait for the event that [`Session::activity`] names.
    Wait,
    /// Report to the session again that all was sent when the loop has work budget left.
    WaitForBudget,
    /// Shut down the sending direction, and drain the peer's for a while before the close: a peer
    /// that still sends would get a reset from a plain close, and might never read the last
    /// response.
    Linger,
    /// Close.
    Close,
    /// Reset: the peer has not received all bytes sent.
    Reset,
    /// Reset, for this reason: the rest of a response cannot be delivered, and the peer must not
    /// take what it has got for the whole.
    Fail(Rc<str>),
}

/// The activity of a session, which determines its deadlines and its eviction rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Activity {
    /// Nothing: it waits for a request. So many requests came before.
    Idle { requests: u32 },
    /// It reads a request that is not whole: its head, or its body.
    Reading { in_body: bool },
    /// It sends a response, or waits for an object. The end of the stream may follow at once, or
    /// not.
    Responding { may_end: bool },
}
