//! The interface between the engine and a protocol.

use std::num::NonZero;
use std::time::Duration;

use thalweg_measure::Outcome;
use thalweg_measure::trial::TrialFigures;
use thalweg_wire::{MessageBytes, RequestKind};

use super::violation::Violation;
use crate::request::{RequestView, Templates};

/// The settings of a protocol on all connections.
#[derive(Clone, Copy, Debug)]
pub struct ProtocolSettings {
    /// Bytes that a server may send before it has to wait for more to be allowed, where the
    /// protocol has such a bound.
    pub receive_window: u32,
    /// Responses that curl accepts are accepted, whatever the grammar says.
    pub is_lenient: bool,
}

/// A connection's protocol.
pub trait Protocol: Sized {
    /// Encodes the requests of all connections of a load thread.
    type Encoder: Encoder;

    /// Whether received bytes name their stream. If not, they belong to the oldest stream, and
    /// without one nothing may come; and an encoded request is sent as it is.
    const MULTIPLEXED: bool;

    /// The protocol's state on a new connection.
    fn new(settings: ProtocolSettings) -> Self;

    /// Most calls under way at once, where the plan allows `pipeline`.
    fn capacity(&self, pipeline: u32) -> u32;

    /// Begins a call. Its request is written later, in the order of the calls.
    fn begin(&mut self, stream: StreamId, kind: RequestKind);

    /// Writes a call's request behind what the buffer holds, and returns the bytes of its body that
    /// are written. `encode` appends the encoded request and returns the bytes of its body.
    fn write(
        &mut self,
        stream: StreamId,
        encoder: &Self::Encoder,
        out: &mut Vec<u8>,
        encode: impl FnOnce(&mut Vec<u8>) -> usize,
    ) -> usize;

    /// Reads on in `input`, until one stream has ended at most. `oldest` is the call under way that
    /// was begun first. Without an end, all of the input is consumed, or a multiplexed protocol has
    /// read a part of it that belongs together.
    fn read(
        &mut self,
        oldest: Option<StreamId>,
        encoder: &Self::Encoder,
        input: &[u8],
        responses: &mut impl Responses,
    ) -> Step;

    /// The server has ended its direction: the bytes of the oldest call's response if that is whole
    /// with it, or how the call has ended.
    ///
    /// # Errors
    /// The response is not whole.
    fn finish(&mut self) -> Result<MessageBytes, Outcome>;

    /// Gives a call up. Returns whether the connection can go on without it.
    fn cancel(&mut self, stream: StreamId) -> bool;

    /// Whether the protocol itself has something to send, such as acknowledgements.
    fn has_output(&self) -> bool;

    /// Writes that behind what the buffer holds. Returns the bytes of requests' bodies in it.
    fn write_output(&mut self, out: &mut Vec<u8>) -> usize;

    /// Whether calls have ended that [`read`](Self::read) has not named yet. It does so without
    /// input.
    #[inline]
    fn has_ended_calls(&self) -> bool {
        false
    }

    /// Whether the connection takes no more calls, and is over with the last one under way.
    #[inline]
    fn is_ending(&self) -> bool {
        false
    }

    /// How long the server keeps the connection open while it is idle, as it has said last.
    #[inline]
    fn idle_time(&self) -> Option<Duration> {
        None
    }

    /// Whether no byte of the response came that is read next.
    #[inline]
    fn is_idle(&self) -> bool {
        false
    }

    /// Whether the server has yet to name its limits, so that only a few calls may be under way.
    #[inline]
    fn awaits_limits(&self) -> bool {
        false
    }

    /// Whether the server has named its limits, or raised them, since this was asked last.
    #[inline]
    fn takes_note_of_limits(&mut self) -> bool {
        false
    }

    /// The violation for which a stream or the connection has ended as a protocol error; `rest` has
    /// the bytes of the input from the place of it on.
    fn take_violation(&mut self, _rest: &[u8]) -> Option<Violation> {
        None
    }

    /// Adds figures of the protocol's own to those of a trial, when the connection is over.
    fn record(&self, _figures: &mut TrialFigures) {}
}

/// Encodes the requests of a load thread: what requests share once, the rest when they are sent.
pub trait Encoder {
    /// An encoder for requests with these templates, over TLS or not.
    fn new(templates: &Templates, is_tls: bool) -> Self;

    /// Writes a request behind what the buffer holds. `last`: no call follows it on its connection.
    fn write(&self, request: &RequestView<'_>, last: bool, out: &mut Vec<u8>);
}

/// Receives responses while a protocol reads them.
pub trait Responses {
    /// The status of an interim response.
    fn interim(&mut self, stream: StreamId, status: u16);

    /// The head of a response. `keep_alive`: the connection can carry another call after it.
    /// `fields` goes through its fields, as often as it is called.
    fn head<'a, F>(&mut self, stream: StreamId, status: u16, keep_alive: bool, fields: impl Fn() -> F)
    where
        F: Iterator<Item = (&'a str, &'a [u8])>;

    /// A piece of its content.
    fn content(&mut self, stream: StreamId, bytes: &[u8]);
}

/// One step of reading.
#[derive(Debug)]
pub struct Step {
    /// Bytes of the input that were read.
    pub consumed: usize,
    /// How many of them are content.
    pub content_bytes: u64,
    /// The stream that they belong to; `None`: the connection itself.
    pub stream: Option<StreamId>,
    /// The end of that stream, or of the connection.
    pub end: Option<End>,
}

/// The end of a stream.
#[derive(Debug)]
pub enum End {
    /// With a whole response of so many bytes.
    Whole(MessageBytes),
    /// Without one, and the connection goes on. `NotProcessed` without a byte of its request
    /// written: the connection takes no more streams than it has.
    Reset(Outcome),
    /// Without one, and the connection is of no more use.
    Broken(Outcome),
    /// The server has broken the protocol.
    Violated {
        /// Offset of the violation in the input, in bytes.
        at: usize,
    },
}

/// Names a call under way among those of its load thread: one more than its place, so that one or
/// none fits into four bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StreamId(NonZero<u32>);

impl StreamId {
    /// The name of a place.
    ///
    /// # Panics
    /// There are 2^32 calls under way.
    pub(crate) fn of(place: usize) -> Self {
        let number = u32::try_from(place + 1).ok().and_then(NonZero::new);
        Self(number.expect("calls under way are bounded by connections"))
    }

    pub(crate) fn place(self) -> usize {
        self.0.get() as usize - 1
    }
}
