//! What a core is told from outside while it runs: by other threads, seldom, and looked at only when its waker was used.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

use thalweg_sys::Waker;
use thalweg_sys::handover::{Channel, Incoming};

use crate::config::ServerConfig;
use crate::limit::pacer::SharedLimits;
use crate::log::Feed;
use crate::metrics::Observed;
use crate::server::StartError;
use crate::watch::Notice;

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
    /// Folders have changed.
    Heed(Vec<Notice>),
    /// Say that the loop goes round.
    Answer(SyncSender<()>),
}

/// More notices that a core has not taken yet are as good as none.
const NOTICES_MAX: usize = 4096;

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

    /// Leaves notices, with those that wait already if there are any, and wakes the core.
    pub(crate) fn notify(&self, notices: Vec<Notice>, waker: &Waker) {
        let mut orders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = orders.iter_mut().find_map(|order| match order {
            Order::Heed(waiting) => Some(waiting),
            _ => None,
        });
        match waiting {
            Some(waiting) if waiting.len() + notices.len() > NOTICES_MAX => *waiting = vec![Notice::Lost],
            Some(waiting) => waiting.extend(notices),
            None => orders.push(Order::Heed(notices)),
        }
        drop(orders);
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
    match channel.try_receive() {
        Ok(Incoming::Message(_, mut sockets)) => sockets.pop(),
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
            Self::Heed(_) => "Heed",
            Self::Answer(_) => "Answer",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_of_a_core_that_does_not_come_are_made_one() {
        let (inbox, waker) = (Inbox::default(), Waker::new().unwrap());
        inbox.notify(vec![Notice::Lost; NOTICES_MAX - 1], &waker);
        inbox.leave([Order::LookAgain], &waker);
        inbox.notify(vec![Notice::Lost], &waker);
        let of = |orders: &[Order]| match orders {
            [Order::Heed(notices), Order::LookAgain] => notices.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!(of(&inbox.take()), NOTICES_MAX);
        inbox.notify(vec![Notice::Lost; NOTICES_MAX], &waker);
        inbox.leave([Order::LookAgain], &waker);
        inbox.notify(vec![Notice::Lost], &waker);
        assert_eq!(of(&inbox.take()), 1);
        assert!(inbox.take().is_empty());
    }
}
