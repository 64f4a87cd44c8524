//! What a core is told from outside while it runs: by other threads, seldom, and looked at only when its waker was used.

use std::os::fd::OwnedFd;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

use thalweg_sys::Waker;

use crate::config::ServerConfig;
use crate::limit::pacer::SharedLimits;
use crate::server::StartError;

/// Something that a core is to do.
pub(crate) enum Order {
    /// Serve by this configuration from the next request on.
    Configure(Arc<ServerConfig>, Arc<SharedLimits>, SyncSender<Result<(), StartError>>),
    /// Accept from this socket of a group, too.
    Listen(u32, OwnedFd),
    /// Accept from the sockets of this group no more.
    Retire(u32),
    /// Look at the queues of all listeners, as if somebody had come in just now.
    LookAgain,
    /// Say that the loop goes round.
    Answer(SyncSender<()>),
}

/// Where a core finds its orders.
#[derive(Debug, Default)]
pub(crate) struct Inbox(Mutex<Vec<Order>>);

impl Inbox {
    /// Leaves orders, and wakes the core.
    pub(crate) fn leave(&self, orders: impl IntoIterator<Item = Order>, waker: &Waker) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(orders);
        waker.wake();
    }

    /// Takes all, in the order in which they were left.
    pub(crate) fn take(&self) -> Vec<Order> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Configure(..) => "Configure",
            Self::Listen(..) => "Listen",
            Self::Retire(_) => "Retire",
            Self::LookAgain => "LookAgain",
            Self::Answer(_) => "Answer",
        })
    }
}
