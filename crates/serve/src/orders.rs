//! What a core is told from outside while it runs: by other threads, seldom, and looked at only when its waker was used.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

use thalweg_sys::Waker;
use thalweg_sys::handover::{Channel, Heard};

use crate::config::ServerConfig;
use crate::limit::pacer::SharedLimits;
use crate::log::Feed;
use crate::metrics::Observed;
use crate::server::StartError;

/// Something that a core is to do.
pub(crate) enum Order {
    /// Serve by this configuration from the next request on, and say how that went.
    Configure(Settlement, SyncSender<Result<(), StartError>>),
    /// Accept from this socket of a group, too. Without one it comes by the core's channel.
    Listen(u32, Option<OwnedFd>),
    /// Accept from the sockets of this group no more.
    Retire(u32),
    /// Look at the queues of all listeners, as if somebody had come in just now.
    LookAgain,
    /// Say that the loop goes round.
    Answer(SyncSender<()>),
}

/// A configuration, and what a core needs for it.
pub(crate) struct Settlement {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) limits: Arc<SharedLimits>,
    /// An end of the queue to the log thread, if anybody wants to know about single responses.
    pub(crate) feed: Option<Feed>,
    pub(crate) observed: Arc<Observed>,
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

/// Sends a listener to a core that has a table of descriptors of its own.
pub(crate) fn send_listener(channel: &Channel, socket: &OwnedFd) -> io::Result<()> {
    channel.send(b"listener", &[socket.as_fd()])
}

/// The next listener that was sent to this core; `None` if it was lost for want of descriptors.
pub(crate) fn take_listener(channel: &Channel) -> Option<OwnedFd> {
    match channel.look() {
        Ok(Heard::Message(_, mut sockets)) => sockets.pop(),
        _ => None,
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
