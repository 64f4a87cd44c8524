//! Waking a driver from another thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// Makes the driver that was opened with it return from `wait` with [`crate::Completion::Woken`].
///
/// Cheap to clone, callable from any thread. Calls that come before the driver looks are folded
/// into one.
#[derive(Clone, Debug)]
pub struct Waker {
    event: Arc<OwnedFd>,
}

impl Waker {
    /// A new waker, for one driver.
    ///
    /// # Errors
    /// The process or the system is out of descriptors.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { event: Arc::new(event) })
    }

    /// Wakes the driver.
    pub fn wake(&self) {
        // The only way in which a non-blocking eventfd refuses is a counter that is full, and then
        // the driver is being woken already.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// Waits until it was used or the time has passed, which is the first. For threads that have no
    /// driver; the use is left to be seen again.
    pub fn wait(&self, time: Duration) {
        let time = Timespec::try_from(time).ok();
        // An interruption ends it early, which is harmless.
        let _ = poll(&mut [PollFd::new(&self.event, PollFlags::IN)], time.as_ref());
    }

    /// Takes back all wake-ups so far; whether there were any.
    pub(crate) fn drain(&self) -> bool {
        rustix::io::read(&self.event, &mut [0u8; 8]).is_ok()
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// For keeping it in a [table of its own](crate::resource_limits::own_table_with).
impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
