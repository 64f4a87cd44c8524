//! What the ring's driver keeps of a socket, and how it names the operations on it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

use io_uring::types::Fd;
use socket2::SockAddr;

use crate::clock::Instant;
use crate::socket::Sending;
use crate::table::SocketId;

/// A socket, from its start to the last completion that the kernel owes for it.
pub(super) struct Socket {
    pub(super) fd: OwnedFd,
    pub(super) state: State,
    /// Operations whose last completion has not come; the kernel may use what belongs to them until then.
    pub(super) in_flight: u32,
    /// A receive or accept is among them.
    pub(super) armed: bool,
    pub(super) paused: bool,
    /// The owner asks for what is received; its receives are single shots.
    pub(super) metered: bool,
    /// Of a metered socket: how much its owner waits for; 0 if it does not.
    pub(super) bytes_wanted: u32,
    pub(super) ended: bool,
    pub(super) failed: bool,
    /// Why the socket is of no more use; told once the bytes before it are delivered.
    pub(super) broken: Option<io::Error>,
    pub(super) finish_after_send: bool,
    pub(super) sending: Option<Sending>,
    pub(super) sent_at: Instant,
    /// The address that a connect under way reads.
    pub(super) peer: Option<Rc<SockAddr>>,
}

/// Where a socket is in its life.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Listening,
    Connecting,
    Connected,
    /// Closed by the owner; the entry stays until the kernel has let go of it.
    Closing,
}

/// What a completion is of; the top byte of its token.
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
}

impl Socket {
    pub(super) fn new(fd: OwnedFd, state: State) -> Self {
        Self {
            fd,
            state,
            in_flight: 0,
            armed: false,
            paused: false,
            metered: false,
            bytes_wanted: 0,
            ended: false,
            failed: false,
            broken: None,
            finish_after_send: false,
            sending: None,
            sent_at: Instant::default(),
            peer: None,
        }
    }

    pub(super) fn raw(&self) -> Fd {
        Fd(self.fd.as_raw_fd())
    }
}
