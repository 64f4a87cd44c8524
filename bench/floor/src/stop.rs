//! When a run ends by itself or is told to: descriptors that become readable then, so that no loop
//! looks at a clock.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use rustix::time::{timerfd_create, timerfd_settime};
use signal_hook::consts::{SIGINT, SIGTERM};

/// Readable when the run shall end.
pub(crate) struct Stop(Vec<OwnedFd>);

impl Stop {
    /// After `seconds` from now, if any.
    pub(crate) fn after(seconds: Option<u32>) -> io::Result<Self> {
        let Some(seconds) = seconds else { return Ok(Self(Vec::new())) };
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec { tv_sec: seconds.max(1).into(), tv_nsec: 0 };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: once, it_value: value })?;
        Ok(Self(vec![timer]))
    }

    /// Also on a signal to end, so that a server can still say what it has served.
    pub(crate) fn or_when_asked(mut self) -> io::Result<Self> {
        for signal in [SIGTERM, SIGINT] {
            let (reader, writer) = UnixStream::pair()?;
            signal_hook::low_level::pipe::register(signal, writer)?;
            self.0.push(reader.into());
        }
        Ok(self)
    }

    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(AsFd::as_fd)
    }
}
