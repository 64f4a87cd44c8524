//! The choice between the drivers of this machine.

use std::io;

use crate::driver::{DriverConfig, DriverKind};
use crate::epoll::Epoll;
use crate::uring::Uring;
use crate::wake::Waker;

/// The choice of a driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DriverChoice {
    /// io_uring if the kernel grants it, else epoll.
    #[default]
    Auto,
    /// io_uring or an error.
    Uring,
    /// epoll.
    Epoll,
}

/// A driver of this machine, before a loop is made generic over it.
#[expect(clippy::large_enum_variant, reason = "one exists per thread, for the whole run")]
pub enum AnyDriver {
    /// io_uring.
    Uring(Uring),
    /// epoll.
    Epoll(Epoll),
}

impl AnyDriver {
    /// Opens the chosen driver. [`DriverChoice::Auto`] falls back to epoll when the ring is
    /// refused, as containers' seccomp profiles and `kernel.io_uring_disabled` do;
    /// [`refusal`](AnyDriver::refusal) has the reason.
    ///
    /// # Errors
    /// The ring was chosen by name and refused, or no descriptor is left.
    pub fn open(choice: DriverChoice, config: &DriverConfig) -> io::Result<Self> {
        match choice {
            DriverChoice::Uring => Uring::open(config).map(Self::Uring),
            DriverChoice::Epoll => Epoll::open(config).map(Self::Epoll),
            DriverChoice::Auto => match Uring::open(config) {
                Ok(ring) => Ok(Self::Uring(ring)),
                Err(_) => Epoll::open(config).map(Self::Epoll),
            },
        }
    }

    /// Which driver it is.
    pub fn kind(&self) -> DriverKind {
        match self {
            Self::Uring(_) => DriverKind::Uring,
            Self::Epoll(_) => DriverKind::Epoll,
        }
    }

    /// The reason why this host has no usable ring; `None` if it has one.
    pub fn refusal() -> Option<io::Error> {
        const SOCKETS_MAX: usize = 1;
        Waker::new().and_then(|waker| Uring::open(&DriverConfig::new(SOCKETS_MAX, waker))).err()
    }
}
