//! The state of a socket of the ring's driver, and the names of the operations on it.

use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

use io_uring::types::Fd;
use rustix::io::Errno;
use socket2::SockAddr;

use crate::clock::Instant;
use crate::socket::{Nagle, Sending};
use crate::table::SocketId;

/// A socket, from its start to the last completion that the kernel owes for it. A hundred thousand
/// idle ones should cost little, so what is never there at the same time shares its room, and a
/// test holds the size.
pub(super) struct Socket {
    pub(super) fd: OwnedFd,
    pub(super) state: State,
    /// Operations whose last completion has not come; the kernel may use what belongs to them until
    /// then.
    pub(super) in_flight: u8,
    /// A receive or accept is among them.
    pub(super) armed: bool,
    pub(super) paused: bool,
    /// The socket receives on demand; its receives are single shots.
    pub(super) on_demand: bool,
    /// A connection that has not received yet. Its first receive is a single shot: many connections
    /// are closed after one exchange, and cancelling a series costs as much as receiving.
    pub(super) new: Option<Maker>,
    /// Receive on demand: bytes requested and not yet delivered; 0 if none are.
    pub(super) bytes_wanted: u32,
    pub(super) ended: bool,
    pub(super) failed: bool,
    /// The reason why the socket is unusable; reported after the bytes before it are delivered.
    pub(super) broken: Option<Errno>,
    pub(super) finish_after_send: bool,
    /// It has sent before.
    pub(super) has_sent: bool,
    /// It stands in the ring's table of files.
    pub(super) in_files: bool,
    pub(super) nagle: Nagle,
    pub(super) outgoing: Outgoing,
    pub(super) sent_at: Instant,
}

/// The side that has made a connection; it sends first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Maker {
    Us,
    Peer,
}

/// The kernel's work for a socket beside receiving, with the memory that it reads meanwhile.
pub(super) enum Outgoing {
    Nothing,
    Connect(Rc<SockAddr>),
    Send(Sending),
}

/// The state of a socket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Listening,
    Connecting,
    Connected,
    /// Closed by the owner; the entry stays until the kernel has released it.
    Closing,
}

/// The operation of a completion; the top byte of its token.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum Operation {
    Receive = 1,
    Accept = 2,
    Connect = 3,
    Send = 4,
    PollOut = 5,
    Wake = 6,
    /// A cancel or a close; completes only to report that there was nothing to do.
    Quiet = 7,
}

/// Beside the operation in the token of its cancel.
const CANCEL: u64 = 0x80 << 56;

impl Operation {
    pub(super) fn token(self, id: SocketId) -> u64 {
        (self as u64) << 56 | id.to_bits()
    }

    pub(super) fn of(token: u64) -> Self {
        match token >> 56 {
            1 => Self::Receive,
            2 => Self::Accept,
            3 => Self::Connect,
            4 => Self::Send,
            5 => Self::PollOut,
            6 => Self::Wake,
            _ => Self::Quiet,
        }
    }

    pub(super) fn cancel_token(self, id: SocketId) -> u64 {
        CANCEL | self.token(id)
    }

    /// The operation that the completion with this token should have cancelled, if it is a
    /// cancel's.
    pub(super) fn cancelled_by(token: u64) -> Option<Self> {
        (token & CANCEL != 0).then(|| Self::of(token & !CANCEL))
    }
}

impl Socket {
    pub(super) fn new(fd: OwnedFd, state: State) -> Self {
        Self {
            fd,
            state,
            in_flight: 0,
            armed: false,
            paused: false,
            on_demand: false,
            new: None,
            bytes_wanted: 0,
            ended: false,
            failed: false,
            broken: None,
            finish_after_send: false,
            has_sent: false,
            in_files: false,
            nagle: Nagle::Off,
            outgoing: Outgoing::Nothing,
            sent_at: Instant::default(),
        }
    }

    pub(super) fn sending(&mut self) -> Option<&mut Sending> {
        match &mut self.outgoing {
            Outgoing::Send(sending) => Some(sending),
            Outgoing::Nothing | Outgoing::Connect(_) => None,
        }
    }

    pub(super) fn is_sending(&self) -> bool {
        matches!(self.outgoing, Outgoing::Send(_))
    }

    /// The operations that may be under way, of those that were not cancelled yet.
    pub(super) fn under_way(&self) -> [Option<Operation>; 3] {
        let receives = if self.state == State::Listening { Operation::Accept } else { Operation::Receive };
        let receive = self.armed.then_some(receives);
        match &self.outgoing {
            Outgoing::Nothing => [receive, None, None],
            Outgoing::Connect(_) => [receive, Some(Operation::Connect), None],
            Outgoing::Send(sending) if sending.has_file() => [receive, Some(Operation::Send), Some(Operation::PollOut)],
            Outgoing::Send(_) => [receive, Some(Operation::Send), None],
        }
    }

    /// Whether no operation of the socket should be under way: of one that is open, the receives.
    pub(super) fn is_to_rest(&self) -> bool {
        self.state == State::Closing || self.paused && self.armed
    }

    pub(super) fn raw(&self) -> Fd {
        Fd(self.fd.as_raw_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;

    #[test]
    fn an_idle_socket_takes_little_memory() {
        let bytes = Table::<Socket>::SLOT_BYTES;
        assert!(bytes <= 96, "{bytes} bytes");
    }
}
