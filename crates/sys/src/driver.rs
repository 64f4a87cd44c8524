//! The interface between an event loop and the kernel, shaped by completions.
//!
//! An owner submits operations on sockets and takes completions, one at a time:
//!
//! ```text
//! loop {
//!     driver.wait(deadline)?;                  // hands over what was submitted, sleeps until something happens
//!     while let Some(completion) = driver.next() {
//!         …                                    // may submit operations, may close sockets
//!     }
//!     …                                        // timers and schedules
//! }
//! ```
//!
//! io_uring works that way by itself; the epoll driver does it by trying at once and arming only
//! when the kernel returns `EAGAIN`. Which one runs is chosen once, at start; loops are generic
//! over [`Driver`], so the choice costs nothing per operation.
//!
//! # The contract
//!
//! * Every socket belongs to the driver, from `connect` or acceptance to `close`. After `close` no
//!   completion names it again.
//! * Sockets receive from the moment they are connected. [`Driver::pause`] stops that: the kernel's
//!   buffer then fills and the peer is held back. Bytes already on their way may still be delivered
//!   after a pause.
//! * A socket that receives on demand ([`ReceiveMode::OnDemand`]) is the exception: it delivers one
//!   receive per call of [`Driver::receive`] and nothing otherwise. An end or a reset is reported
//!   by the next call, or when a send fails; a reset after the end, at once.
//! * [`Completion::Received`] is delivered with the bytes in [`Driver::received`], which stay valid
//!   until the next call of [`Driver::next`] or [`Driver::wait`]. They are never empty.
//! * A socket has at most one send under way. It ends in [`Completion::Sent`] when the kernel has
//!   taken all of it, or in [`Completion::Failed`].
//! * [`Completion::Ended`] reports that the peer will send no more; the socket can still send.
//!   [`Completion::Failed`] reports that the socket is unusable. Each comes at most once, after all
//!   bytes that the peer sent before, and neither closes the socket.
//! * A reset may be reported to a paused socket only when it is resumed or sends.
//! * A close reaches the kernel within the next waits: an owner that closes and never waits again
//!   leaves the connection open.
//! * An id that was closed must not be used again; the drivers panic on it, since it is a bug of
//!   the owner.

use std::io;
use std::net::SocketAddr;

use crate::clock::Instant;
pub use crate::operation::{Connect, FileSpan, Listen, ReceiveMode, SendBuf, SpanEnd};
use crate::table::SocketId;
use crate::wake::Waker;

/// A loop that took longer than this from one wake-up to the next without having slept was stopped.
/// The work of a wake-up takes some tens of milliseconds at most, with a ring full of completions.
pub const STANDSTILL_NS: u64 = 100_000_000;

/// See the [module's documentation](self) for the contract.
pub trait Driver {
    /// Which driver this is.
    fn kind(&self) -> DriverKind;

    /// The time as of the last completion or wake-up: refreshed often enough to stamp completions
    /// with, and cheap to read.
    fn now(&self) -> Instant;

    /// Opens a listener and starts to accept; connections come as [`Completion::Accepted`].
    ///
    /// # Errors
    /// The address is in use, not of this host, or not permitted; no descriptor is left.
    fn listen(&mut self, at: Listen) -> io::Result<SocketId>;

    /// Resumes accepting after [`Completion::AcceptFailed`] or a [`Driver::pause`] of the listener.
    fn resume_accept(&mut self, listener: SocketId);

    /// Starts to connect; the outcome comes as [`Completion::Connected`] or [`Completion::Failed`].
    ///
    /// # Errors
    /// The attempt is impossible: no descriptor, no free slot in the socket table, no local
    /// address.
    fn connect(&mut self, to: &Connect) -> io::Result<SocketId>;

    /// Sends all of `bytes`.
    ///
    /// # Panics
    /// A send is under way on this socket already.
    fn send(&mut self, socket: SocketId, bytes: SendBuf);

    /// Sends all of `bytes`, which [`Driver::finish`] or [`Driver::close`] must follow as soon as
    /// they are sent: the end of the stream travels in one segment with them, which saves both
    /// sides the work of another one.
    ///
    /// # Panics
    /// A send is under way on this socket already.
    fn send_last(&mut self, socket: SocketId, bytes: SendBuf);

    /// Sends all of `head`, then all of `span`, without copying the file's bytes through user
    /// space. `head` may be empty. If the file turns out to be shorter than the span, the socket
    /// fails with `UnexpectedEof`; if it has [changed](crate::File::ensure_unchanged) before the
    /// last bytes of a span that ends a response, with `InvalidData`. Both have
    /// [`FileChanged`](crate::file::FileChanged) as their cause.
    ///
    /// # Panics
    /// A send is under way on this socket already.
    fn send_file(&mut self, socket: SocketId, head: SendBuf, span: FileSpan, end: SpanEnd);

    /// The number of bytes of a file that fill whole segments behind `head_bytes`, out of `bytes`
    /// with more behind them; all of them if the segment size is not known. A send that ends
    /// elsewhere takes a segment more.
    fn whole_segments(&self, socket: SocketId, head_bytes: u64, bytes: u64) -> u64;

    /// The time at which the kernel got the first byte of the socket's latest send. Until the send
    /// is submitted, which is at the next [`Driver::wait`] at the latest, it is the time of the
    /// send before, or the clock's start.
    fn sent_at(&self, socket: SocketId) -> Instant;

    /// Bounds the bytes that the kernel takes of a send before it can put them on the wire, to
    /// [`socket::UNSENT_BYTES_MAX`](crate::socket::UNSENT_BYTES_MAX) or to nothing but the socket's
    /// buffer. Connections that were accepted begin with the bound; see [`socket`](crate::socket)
    /// for what it is worth. Unix sockets have none.
    fn bound_unsent(&mut self, socket: SocketId, bounded: bool);

    /// Requests bytes of a socket that receives on demand: as soon as there are any, one
    /// [`Completion::Received`] delivers at most `bytes_max` of them, or as many as a receive
    /// buffer holds. An end or a failure is reported instead; after those, a call does nothing.
    ///
    /// # Panics
    /// The socket does not receive on demand or is not yet connected, the last call has not
    /// completed, or `bytes_max` is 0.
    fn receive(&mut self, socket: SocketId, bytes_max: u32);

    /// Stops receiving (on a listener: accepting) until [`Driver::resume`].
    ///
    /// # Panics
    /// The socket receives on demand: without a request it is paused.
    fn pause(&mut self, socket: SocketId);

    /// Receives again.
    ///
    /// # Panics
    /// The socket receives on demand.
    fn resume(&mut self, socket: SocketId);

    /// Ends the outgoing stream once a send under way is complete. The other direction stays open.
    fn finish(&mut self, socket: SocketId);

    /// Closes the socket. Bytes that the kernel does not have yet are dropped.
    fn close(&mut self, socket: SocketId);

    /// Closes the socket behind some last bytes, of which the kernel takes as many as it has room
    /// for: they announce the end, as TLS does, and nobody waits for them.
    ///
    /// # Panics
    /// A send is under way on this socket.
    fn close_behind(&mut self, socket: SocketId, last: &[u8]);

    /// Resets the connection: drops the bytes that the peer has not received, with the memory that
    /// they occupy. It is for peers that never read: after a plain [`close`](Driver::close) the
    /// kernel goes on offering for minutes.
    fn reset(&mut self, socket: SocketId);

    /// Sent bytes that the peer has not acknowledged; on a Unix socket, not read. A send that the
    /// kernel carries out by itself counts as a whole until it has ended.
    fn unacknowledged(&self, socket: SocketId) -> u64;

    /// The peer's address.
    ///
    /// # Errors
    /// The peer has gone, or the socket is a Unix one.
    fn peer_addr(&self, socket: SocketId) -> io::Result<SocketAddr>;

    /// The local address, of a listener for example the port that the kernel chose.
    ///
    /// # Errors
    /// Only for a socket without one, as Unix ones are.
    fn local_addr(&self, socket: SocketId) -> io::Result<SocketAddr>;

    /// Submits the operations and sleeps until there is a completion, the waker is used, or `until`
    /// has come. `None` waits without end; with a time that has passed there is no sleep.
    ///
    /// # Errors
    /// The driver itself has become unusable.
    fn wait(&mut self, until: Option<Instant>) -> io::Result<()>;

    /// The time that [`Driver::wait`] has spent polling for completions instead of sleeping, in
    /// nanoseconds, because it woke early ([`DriverConfig::wake_early_ns`]). The thread used its
    /// CPU then without having work.
    fn busy_wait_ns(&self) -> u64 {
        0
    }

    /// The delay of the latest [`Driver::wait`], in nanoseconds: past its deadline if it slept, and
    /// otherwise the whole of a standstill that is too long to be work ([`STANDSTILL_NS`]). A
    /// thread that was stopped, or did not get its CPU, sees events that much too late.
    fn overslept_ns(&self) -> u64;

    /// The time in which the kernel established an outgoing connection, in nanoseconds: from SYN to
    /// SYN-ACK, by TCP_INFO. It is to be read when the connection is established, before anything
    /// is sent. `None` on a Unix socket, and where a SYN had to be sent again.
    fn handshake_ns(&self, socket: SocketId) -> Option<u64>;

    /// The next completion of this wake-up.
    fn next(&mut self) -> Option<Completion>;

    /// The bytes of the [`Completion::Received`] that `next` returned last.
    fn received(&self) -> &[u8];
}

/// The value of [`Driver::overslept_ns`] for a wait: entered at `entry` after work since
/// `last_wake`, over at `now`. `until` is the deadline of one that slept.
pub(crate) fn overslept_ns(until: Option<Instant>, entry: Instant, last_wake: Instant, now: Instant) -> u64 {
    let worked_ns = if until.is_some() { entry } else { now }.ns_since(last_wake);
    let late_ns = until.map_or(0, |until| now.ns_since(until.max(entry)));
    if worked_ns > STANDSTILL_NS { worked_ns.max(late_ns) } else { late_ns }
}

/// An event that a driver reports.
#[derive(Debug)]
pub enum Completion {
    /// A connection has come in and is receiving already.
    Accepted {
        /// The listener that has accepted it.
        listener: SocketId,
        /// The new connection.
        socket: SocketId,
    },
    /// Accepting has stopped, most often because descriptors or table slots have run out.
    /// [`Driver::resume_accept`] goes on.
    AcceptFailed {
        /// The listener that has stopped.
        listener: SocketId,
        /// The reason.
        error: io::Error,
    },
    /// A connection is established.
    Connected {
        /// The connection.
        socket: SocketId,
    },
    /// Bytes have come in; see [`Driver::received`].
    Received {
        /// The connection.
        socket: SocketId,
    },
    /// The kernel has taken all of the send.
    Sent {
        /// The connection.
        socket: SocketId,
    },
    /// The peer will send no more.
    Ended {
        /// The connection.
        socket: SocketId,
    },
    /// The connection could not be established or has broken. Close it.
    Failed {
        /// The connection.
        socket: SocketId,
        /// The reason; [`crate::Fault::of`] classifies it.
        error: io::Error,
    },
    /// The waker was used.
    Woken,
}

impl Completion {
    /// The socket that it is about; `None` for [`Completion::Woken`].
    pub fn subject(&self) -> Option<SocketId> {
        match self {
            Self::Accepted { socket, .. }
            | Self::Connected { socket }
            | Self::Received { socket }
            | Self::Sent { socket }
            | Self::Ended { socket }
            | Self::Failed { socket, .. } => Some(*socket),
            Self::AcceptFailed { listener, .. } => Some(*listener),
            Self::Woken => None,
        }
    }
}

/// The resources of a driver.
#[derive(Clone, Debug)]
pub struct DriverConfig {
    /// Most sockets open at once, listeners included.
    pub sockets_max: usize,
    /// Bytes of one receive buffer: the most that one completion delivers.
    pub receive_buffer_bytes: usize,
    /// Receive buffers of the whole driver (io_uring; rounded up to a power of two). The epoll
    /// driver uses one.
    pub receive_buffers: u16,
    /// Wakes this driver from other threads.
    pub waker: Waker,
    /// The time before a deadline at which a sleep ends; the driver polls for completions during
    /// the rest. A kernel needs tens of microseconds to wake a thread from a timer, and polling
    /// avoids that delay at the cost of some CPU time. 0 sleeps until the deadline.
    pub wake_early_ns: u64,
}

impl DriverConfig {
    /// For many small messages and some large ones: 64 buffers of 64 KiB.
    pub fn new(sockets_max: usize, waker: Waker) -> Self {
        Self { sockets_max, receive_buffer_bytes: 64 * 1024, receive_buffers: 64, waker, wake_early_ns: 0 }
    }
}

/// The drivers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriverKind {
    /// io_uring.
    Uring,
    /// epoll.
    Epoll,
    /// The simulation in `reactor`.
    Simulated,
}

impl DriverKind {
    /// The name as options and results have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uring => "uring",
            Self::Epoll => "epoll",
            Self::Simulated => "simulated",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_oversleeps_past_its_deadline_and_in_standstills() {
        const MS: u64 = 1_000_000;
        let at = |ms: u64| Instant::from_ns(ms * MS);
        let check = |until: Option<u64>, entry, last_wake, now, expected: u64| {
            let overslept = overslept_ns(until.map(at), at(entry), at(last_wake), at(now));
            assert_eq!(overslept, expected * MS, "{until:?} {entry} {last_wake} {now}");
        };
        check(Some(20), 10, 9, 15, 0);
        check(Some(20), 10, 9, 620, 600);
        // Work between the wake-ups is no oversleeping; a deadline that passed in it counts from
        // the wait's beginning.
        check(Some(20), 40, 9, 42, 2);
        check(None, 10, 9, 60, 0);
        check(None, 610, 9, 611, 602);
        check(Some(700), 610, 9, 690, 601);
    }
}
