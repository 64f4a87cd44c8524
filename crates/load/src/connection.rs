//! One connection of the load engine: what it is doing and the call that it carries.

use sha2::{Digest, Sha256};
use thalweg_measure::Outcome;
use thalweg_sys::{Fault, Instant, SocketId};
use thalweg_wire::{Limits, ResponseError, ResponseReader};

use crate::plan::Check;

/// A connection, kept at its socket's index.
pub(crate) struct Connection {
    pub(crate) id: SocketId,
    pub(crate) state: State,
    pub(crate) reader: ResponseReader,
    /// Calls begun on it.
    pub(crate) calls: u32,
    /// There is an entry for it in the timer wheel.
    pub(crate) armed: bool,
    /// Content received and time spent receiving, for its rate.
    pub(crate) body_bytes: u64,
    pub(crate) receiving_ns: u64,
}

#[expect(clippy::large_enum_variant, reason = "most connections of a loaded run carry a call")]
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
            armed: false,
            body_bytes: 0,
            receiving_ns: 0,
        }
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
        let good_status = match check.status {
            Some(status) => self.status == status,
            None => (200..400).contains(&self.status),
        };
        let digest = self.digest.take().map(|digest| <[u8; 32]>::from(digest.finalize()));
        if !good_status {
            Outcome::BadStatus
        } else if check.length.is_some_and(|length| length != self.body_bytes) || digest != check.sha256 {
            Outcome::FailedCheck
        } else {
            Outcome::Good
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
