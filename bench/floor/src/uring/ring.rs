//! The ring itself, and how submissions and completions are told apart.

use std::io;
use std::os::fd::AsRawFd;

use io_uring::types::Fd;
use io_uring::{CompletionQueue, IoUring, SubmissionQueue, Submitter, cqueue, opcode, squeue};
use rustix::process::{Resource, getrlimit};

use crate::stop::Stop;

/// Submissions that fit between two waits; more are handed over early.
const SUBMISSIONS: u32 = 4096;

const COMPLETIONS: u32 = 16_384;

/// The operation of a completion.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    Accept,
    Receive,
    Send,
    Close,
    Stop,
    /// The steps before the last one of a chain; a failure of theirs ends the chain.
    Step,
}

const KINDS: [Kind; 6] = [Kind::Accept, Kind::Receive, Kind::Send, Kind::Close, Kind::Stop, Kind::Step];

pub(super) fn token(kind: Kind, slot: u32) -> u64 {
    u64::from(kind as u32) << 32 | u64::from(slot)
}

/// The operation and the file of a completion.
pub(super) fn of_token(token: u64) -> (Kind, u32) {
    (KINDS[(token >> 32) as usize], token as u32)
}

/// Opens a ring that its own thread alone enters and that works inside `enter` alone: nothing is
/// ever signalled or locked.
pub(super) fn open() -> io::Result<IoUring> {
    let build = |newest: bool| {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun().setup_submit_all().setup_cqsize(COMPLETIONS);
        if newest {
            // Linux 6.6: submissions in order need no index beside them.
            builder.setup_no_sqarray();
        }
        builder.build(SUBMISSIONS)
    };
    build(true)
        .or_else(|_| build(false))
        .map_err(|error| io::Error::new(error.kind(), format!("opening a ring (Linux 6.1 or newer): {error}")))
}

/// Files that can be registered: the kernel counts them against the limit of descriptors.
pub(super) fn slots_max() -> u32 {
    getrlimit(Resource::Nofile).current.map_or(1 << 14, |limit| limit.min(1 << 14) as u32)
}

/// A ring in use.
pub(super) struct Ring<'a> {
    pub submitter: Submitter<'a>,
    submissions: SubmissionQueue<'a>,
    completions: CompletionQueue<'a>,
}

impl<'a> Ring<'a> {
    pub(super) fn new(ring: &'a mut IoUring) -> Self {
        let (mut submitter, submissions, completions) = ring.split();
        // Saves the look-up of the ring's descriptor on every `enter`. A kernel without it (before
        // 5.18) looks it up.
        let _ = submitter.register_ring_fd();
        Self { submitter, submissions, completions }
    }

    /// Queues submissions, which end up next to each other: a chain must not be torn.
    ///
    /// # Safety
    /// What they point at stays where it is until they have completed.
    pub(super) unsafe fn push(&mut self, entries: &[squeue::Entry]) -> io::Result<()> {
        if self.submissions.capacity() - self.submissions.len() < entries.len() {
            self.submissions.sync();
            self.submitter.submit()?;
            self.submissions.sync();
        }
        // SAFETY: the caller's promise.
        unsafe { self.submissions.push_multiple(entries) }.map_err(io::Error::other)
    }

    /// Reports the end of the run as completions of their own.
    pub(super) fn watch(&mut self, stop: &Stop) -> io::Result<()> {
        for fd in stop.fds() {
            let entry = opcode::PollAdd::new(Fd(fd.as_raw_fd()), libc::POLLIN as u32).build();
            // SAFETY: the entry points at nothing.
            unsafe { self.push(&[entry.user_data(token(Kind::Stop, 0))])? };
        }
        Ok(())
    }

    /// Hands over what is queued and waits for a completion.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        self.submissions.sync();
        let entered = self.submitter.submit_and_wait(1);
        self.submissions.sync();
        self.completions.sync();
        match entered {
            Ok(_) => Ok(()),
            // A signal, or completions that overflowed and stay in the kernel until some were
            // taken.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY | libc::EAGAIN)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Hands over what is queued.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.submissions.sync();
        self.submitter.submit().map(drop)
    }

    pub(super) fn next(&mut self) -> Option<cqueue::Entry> {
        self.completions.next()
    }
}
