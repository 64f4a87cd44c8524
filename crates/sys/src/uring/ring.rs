//! The ring with its state, and the calls that enter it: what accepting, receiving and sending
//! share.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::rc::Rc;

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::io::Errno;
use socket2::SockAddr;

use super::buffers::Buffers;
use super::files::Files;
use super::socket::{Operation, Socket, State};
use crate::address::PeerAddr;
use crate::clock::Instant;
use crate::driver::{Completion, DriverConfig};
use crate::table::{SocketId, Table};
use crate::wake::Waker;

/// Submissions that fit between two waits; more are submitted early.
const SUBMISSIONS: u32 = 1024;

/// Completions that the kernel can post before the loop looks. Further ones go to the kernel's
/// overflow list, which is slower but loses none.
const COMPLETIONS: u32 = 8192;

/// A driver over io_uring.
pub struct Uring {
    // The ring is dropped before the buffers that the kernel writes to, and before the sockets'
    // sends that it reads from.
    pub(super) ring: IoUring,
    pub(super) buffers: Buffers,
    pub(super) files: Files,
    pub(super) sockets: Table<Socket>,
    pub(super) waker: Waker,
    /// Completions of the ring that were taken from it and not yet looked at.
    pub(super) batch: Vec<cqueue::Entry>,
    pub(super) cursor: usize,
    /// Completions that are ready to be taken.
    pub(super) done: VecDeque<Completion>,
    /// Sockets that can take more of a file.
    pub(super) writable: VecDeque<SocketId>,
    /// Those of them that have had their chunk; they go on after the next wait.
    pub(super) served: Vec<SocketId>,
    /// There was something to hand over to the kernel when the first chunk since the last wait was
    /// sent.
    pub(super) has_unsubmitted: bool,
    /// Sockets whose receive ended because no buffer was left.
    pub(super) starved: Vec<SocketId>,
    /// Operations that a cancel has not found.
    pub(super) missed: Vec<(SocketId, Operation)>,
    /// Sockets with a send that the kernel has not seen yet.
    pub(super) unsent: Vec<SocketId>,
    /// Connections that were accepted when the table was full, by listener.
    pub(super) parked: VecDeque<(SocketId, OwnedFd)>,
    pub(super) file_steps_left: usize,
    pub(super) wake_early_ns: u64,
    pub(super) busy_wait_ns: u64,
    pub(super) overslept_ns: u64,
    pub(super) received: Range<usize>,
    pub(super) spent: Option<u16>,
    pub(super) last_peer: Option<(PeerAddr, Rc<SockAddr>)>,
    pub(super) last_port: u16,
    /// A connection whose first bytes the owner is looking at.
    pub(super) undecided: Option<SocketId>,
    pub(super) now: Instant,
}

impl Uring {
    /// Opens the driver.
    ///
    /// # Errors
    /// The ring is forbidden (`EPERM`: a container's seccomp profile, `kernel.io_uring_disabled`),
    /// unknown (`ENOSYS`) or too old for what is needed (`EINVAL`), or no descriptor or locked
    /// memory is left.
    pub fn open(config: &DriverConfig) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_cqsize(COMPLETIONS)
            .dontfork()
            .build(SUBMISSIONS)?;
        if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_skip_cqe_on_success() {
            return Err(Errno::NOSYS.into());
        }
        let buffers = Buffers::register(&ring.submitter(), config.receive_buffers, config.receive_buffer_bytes)?;
        let files = Files::register(&ring.submitter(), config.sockets_max);
        let mut driver = Self {
            ring,
            buffers,
            files,
            sockets: Table::new(config.sockets_max),
            waker: config.waker.clone(),
            batch: Vec::with_capacity(COMPLETIONS as usize),
            cursor: 0,
            done: VecDeque::new(),
            writable: VecDeque::new(),
            served: Vec::new(),
            has_unsubmitted: false,
            starved: Vec::new(),
            missed: Vec::new(),
            unsent: Vec::new(),
            parked: VecDeque::new(),
            file_steps_left: 0,
            wake_early_ns: config.wake_early_ns,
            busy_wait_ns: 0,
            overslept_ns: 0,
            received: 0..0,
            spent: None,
            last_peer: None,
            last_port: 0,
            undecided: None,
            now: Instant::now(),
        };
        driver.arm_waker();
        Ok(driver)
    }

    pub(super) fn arm_waker(&mut self) {
        let poll = opcode::PollAdd::new(Fd(self.waker.fd().as_raw_fd()), libc::POLLIN as u32).multi(true);
        self.push(poll.build().user_data((Operation::Wake as u64) << 56));
    }

    /// Queues a submission. A full queue is submitted first.
    pub(super) fn push(&mut self, entry: squeue::Entry) {
        // SAFETY: what an entry points at (a send's bytes, a connect's address) is kept in the
        // socket's table entry until the operation has completed, see `Socket::in_flight`; all else
        // is plain values.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.stamp_unsent(Instant::now());
            if let Err(error) = self.ring.submit() {
                let transient = [Errno::INTR, Errno::AGAIN, Errno::BUSY].map(Errno::raw_os_error);
                let errno = error.raw_os_error().unwrap_or(0);
                assert!(transient.contains(&errno), "the ring takes submissions: {error}");
                self.take_completions();
            }
        }
    }

    /// Records the time at which the sends about to be submitted reach the kernel.
    pub(super) fn stamp_unsent(&mut self, now: Instant) {
        for id in self.unsent.drain(..) {
            if let Some(socket) = self.sockets.entry_mut(id) {
                socket.sent_at = now;
            }
        }
    }

    pub(super) fn take_completions(&mut self) {
        self.batch.extend(self.ring.completion());
    }

    pub(super) fn live(&self, id: SocketId) -> &Socket {
        let socket = self.sockets.entry(id).expect("the socket is open");
        assert!(socket.state != State::Closing, "the socket is open");
        socket
    }

    pub(super) fn live_mut(&mut self, id: SocketId) -> &mut Socket {
        let socket = self.sockets.entry_mut(id).expect("the socket is open");
        assert!(socket.state != State::Closing, "the socket is open");
        socket
    }

    pub(super) fn submit(&mut self, id: SocketId, operation: Operation, entry: squeue::Entry) {
        self.sockets.entry_mut(id).expect("the socket is open").in_flight += 1;
        self.push(entry.user_data(operation.token(id)));
    }

    pub(super) fn cancel(&mut self, id: SocketId, operation: Operation) {
        let entry = opcode::AsyncCancel2::new(CancelBuilder::user_data(operation.token(id))).build();
        let flags = squeue::Flags::SKIP_SUCCESS;
        self.push(entry.flags(flags).user_data(operation.cancel_token(id)));
    }

    /// Cancels again what was not found. Right behind its submission, and between two waits for
    /// room, an operation is queued for the loop's next entry; until then no cancel finds it.
    pub(super) fn cancel_missed(&mut self) {
        while let Some((id, operation)) = self.missed.pop() {
            if self.sockets.entry(id).is_some_and(Socket::is_to_rest) {
                self.cancel(id, operation);
            }
        }
    }

    /// Reports to the owner, once, that the socket is unusable.
    pub(super) fn fail(&mut self, id: SocketId, error: io::Error) {
        let socket = self.live_mut(id);
        if !socket.failed {
            socket.failed = true;
            self.done.push_back(Completion::Failed { socket: id, error });
        }
    }

    /// Frees the entry of a socket that the kernel has released. Its descriptor is closed with the
    /// next submission.
    pub(super) fn release(&mut self, id: SocketId) {
        let socket = self.sockets.remove(id).expect("the entry is there");
        if socket.in_files {
            let entry = opcode::Close::new(Files::place(id)).build();
            self.push(entry.flags(squeue::Flags::SKIP_SUCCESS).user_data(Operation::Quiet.token(id)));
        }
        let entry = opcode::Close::new(Fd(socket.fd.into_raw_fd())).build();
        self.push(entry.flags(squeue::Flags::SKIP_SUCCESS).user_data(Operation::Quiet.token(id)));
    }

    pub(super) fn names_open_socket(&self, completion: &Completion) -> bool {
        completion
            .subject()
            .is_none_or(|id| self.sockets.entry(id).is_some_and(|socket| socket.state != State::Closing))
    }

    /// Whether the kernel has something to complete when it is entered.
    pub(super) fn has_news(&mut self) -> bool {
        self.ring.submission().taskrun()
    }

    /// Has the kernel complete what it can without sleeping.
    pub(super) fn look(&self) -> io::Result<()> {
        /// IORING_ENTER_GETEVENTS of `linux/io_uring.h`.
        const GET_EVENTS: u32 = 1;
        // SAFETY: nothing is submitted, and without an argument there is nothing for the kernel to
        // read.
        match unsafe { self.ring.submitter().enter::<libc::sigset_t>(0, 0, GET_EVENTS, None) } {
            Ok(_) => Ok(()),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    pub(super) fn enter(&mut self, want: usize, until: Option<Instant>, now: Instant) -> io::Result<()> {
        self.stamp_unsent(now);
        let entered = match until.filter(|_| want > 0) {
            None => self.ring.submitter().submit_and_wait(want),
            Some(until) => {
                let ns = until.ns_since(now);
                let timeout = Timespec::new().sec(ns / 1_000_000_000).nsec((ns % 1_000_000_000) as u32);
                self.ring.submitter().submit_with_args(want, &SubmitArgs::new().timespec(&timeout))
            }
        };
        match entered {
            Ok(_) => Ok(()),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }
}

/// A descriptor that the ring has made for us.
pub(super) fn owned(fd: RawFd) -> OwnedFd {
    // SAFETY: the descriptor comes from an accept that has just completed; nothing else owns it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
