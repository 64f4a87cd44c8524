//! One connection of the load engine: what it is doing and the call that it carries.

use sha2::{Digest, Sha256};
use thalweg_measure::Outcome;
use thalweg_sys::{Fault, Instant, SocketId};
use thalweg_wire::{FieldSlots, Limits, ResponseError, ResponseEvent, ResponseReader};

use crate::plan::Check;

/// A connection, kept at its socket's index.
pub(crate) struct Connection {
    pub(crate) id: SocketId,
    pub(crate) state: State,
    pub(crate) reader: ResponseReader,
    /// Calls begun on it.
    pub(crate) calls: u32,
    /// A send is under way.
    pub(crate) sending: bool,
    /// When its earliest entry in the timer wheel comes due, if it has one.
    pub(crate) armed: Option<Instant>,
    /// Content received and time spent receiving, for its rate.
    pub(crate) body_bytes: u64,
    pub(crate) receiving_ns: u64,
}

pub(crate) enum State {
    Connecting { since: Instant },
    Idle { since: Instant },
    Busy(Call),
    Closed,
}

/// One request on its way, and what has come back so far.
pub(crate) struct Call {
    pub(crate) intended: Instant,
    /// When there was both the request and a connection for it: the later of intended time and the connection's becoming idle.
    pub(crate) ready: Instant,
    pub(crate) deadline: Instant,
    pub(crate) measured: bool,
    pub(crate) first_byte: Option<Instant>,
    pub(crate) status: u16,
    pub(crate) keep_alive: bool,
    pub(crate) body_bytes: u64,
    pub(crate) digest: Option<Box<Sha256>>,
}

impl Connection {
    pub(crate) fn connecting(id: SocketId, since: Instant) -> Self {
        Self { state: State::Connecting { since }, ..Self::closed(id) }
    }

    /// The place of a connection that is not there.
    pub(crate) fn closed(id: SocketId) -> Self {
        Self {
            id,
            state: State::Closed,
            reader: ResponseReader::new(Limits::responses()),
            calls: 0,
            sending: false,
            armed: None,
            body_bytes: 0,
            receiving_ns: 0,
        }
    }

    /// When its patience ends: that of the attempt to connect, or of the call that it carries.
    pub(crate) fn deadline(&self, timeout_ns: u64) -> Option<Instant> {
        match &self.state {
            State::Connecting { since } => Some(since.plus_ns(timeout_ns)),
            State::Busy(call) => Some(call.deadline),
            State::Idle { .. } | State::Closed => None,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed)
    }

    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.state, State::Busy(_))
    }

    pub(crate) fn carries_measured(&self) -> bool {
        matches!(&self.state, State::Busy(call) if call.measured)
    }

    /// Whether it is the one of that name and was idle before `at`.
    pub(crate) fn is_idle_before(&self, id: SocketId, at: Instant) -> bool {
        self.id == id && matches!(self.state, State::Idle { since } if since < at)
    }

    /// Whether its responses came at 320,000 bit/s or more, the rate at which SPECweb99 calls a connection conforming.
    pub(crate) fn conforms(&self) -> bool {
        const CONFORMING_BITS_PER_S: u64 = 320_000;
        let bits = u128::from(self.body_bytes) * 8 * 1_000_000_000;
        self.body_bytes > 0 && bits >= u128::from(CONFORMING_BITS_PER_S) * u128::from(self.receiving_ns)
    }
}

impl Call {
    /// Judges a whole response.
    pub(crate) fn judge(&mut self, check: &Check) -> Outcome {
        let digest = self.digest.take().map(|digest| <[u8; 32]>::from(digest.finalize()));
        check.judge(self.status, self.body_bytes, digest)
    }
}

/// What a received piece of a response came to.
pub(crate) struct ResponseProgress {
    pub(crate) end: Option<End>,
    pub(crate) body_bytes: u64,
    /// Statuses that came, interim ones first; more than two in one piece are counted as two.
    pub(crate) statuses: [Option<u16>; 2],
}

pub(crate) enum End {
    Whole,
    Broken(Outcome),
}

/// Reads on in the response to `call`.
pub(crate) fn read_response(reader: &mut ResponseReader, call: &mut Call, mut input: &[u8]) -> ResponseProgress {
    let mut progress = ResponseProgress { end: None, body_bytes: 0, statuses: [None, None] };
    loop {
        let mut slots = FieldSlots::new();
        let step = match reader.read(input, &mut slots) {
            Ok(step) => step,
            Err(error) => {
                progress.end = Some(End::Broken(outcome_of_response_error(error)));
                return progress;
            }
        };
        input = &input[step.consumed..];
        match step.event {
            None => return progress,
            Some(ResponseEvent::Informational(head)) => progress.statuses[0] = Some(head.status),
            Some(ResponseEvent::Head(head)) => {
                progress.statuses[1] = Some(head.status);
                call.status = head.status;
                call.keep_alive = head.keep_alive();
            }
            Some(ResponseEvent::Body(bytes)) => {
                call.body_bytes += bytes.len() as u64;
                progress.body_bytes += bytes.len() as u64;
                if let Some(digest) = &mut call.digest {
                    digest.update(bytes);
                }
            }
            Some(ResponseEvent::End(_)) => {
                let surplus = !input.is_empty();
                let broken = End::Broken(outcome_of_response_error(ResponseError::Unsolicited));
                progress.end = Some(if surplus { broken } else { End::Whole });
                return progress;
            }
        }
    }
}

/// What a connection's failure is for the request that was to use it.
pub(crate) fn outcome_of_fault(fault: Fault) -> Outcome {
    match fault {
        Fault::Refused => Outcome::Refused,
        Fault::Unreachable => Outcome::Unreachable,
        Fault::NoDescriptor => Outcome::NoDescriptor,
        Fault::NoAddress => Outcome::NoAddress,
        Fault::Reset | Fault::Other => Outcome::Reset,
    }
}

/// What a refused or incomplete response is. A connection that the server closes without a byte of an answer counts as
/// reset: for the request it makes no difference in which way the server hung up.
pub(crate) fn outcome_of_response_error(error: ResponseError) -> Outcome {
    match error {
        ResponseError::ClosedIdle => Outcome::Reset,
        ResponseError::TruncatedHead | ResponseError::TruncatedBody { .. } | ResponseError::TruncatedChunks { .. } => {
            Outcome::Truncated
        }
        ResponseError::Head(_)
        | ResponseError::Framing(_)
        | ResponseError::Chunk(_)
        | ResponseError::Unsolicited
        | ResponseError::UnaskedSwitch
        | ResponseError::TooManyInformational => Outcome::ProtocolError,
    }
}
