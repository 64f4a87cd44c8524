//! Commands to a loop while it runs: by other threads, seldom, and read only when its waker was
//! used.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

use thalweg_sys::Waker;
use thalweg_sys::handover::{Channel, Incoming};

use super::failure::StartError;
use super::loop_tls::TlsSetup;
use crate::config::ServerConfig;
use crate::content::local::watch::Notice;
use crate::content::tier::CacheTier;
use crate::shaping::shaper::SharedRateLimits;
use crate::telemetry::log::RecordQueue;
use crate::telemetry::registry::Registry;

/// A command to a loop.
pub(crate) enum LoopCommand {
    /// Serve by this configuration from the next request on, and say how that went.
    Configure(Box<ConfigUpdate>, SyncSender<Result<(), StartError>>),
    /// Accept from this socket of a group, too. Without one it comes by the loop's channel.
    Listen(u32, Option<OwnedFd>),
    /// Accept from the sockets of this group no more: first connections that wait are accepted,
    /// then the sockets are closed.
    Retire(u32),
    /// Accept from the sockets of this group no more: connections that wait are left to another
    /// owner of the sockets.
    Release(u32),
    /// Look at the queues of all listeners, as if a connection had come just now.
    LookAgain,
    /// Folders have changed.
    Apply(Vec<Notice>),
    /// Say that the loop goes round.
    Answer(SyncSender<()>),
}

/// When more notices wait for a loop, they are replaced by one that reports lost notices.
const NOTICES_MAX: usize = 4096;

/// A configuration, and what a loop needs for it.
pub(crate) struct ConfigUpdate {
    pub(crate) config: Arc<ServerConfig>,
    /// TLS, if any listener speaks it.
    pub(crate) tls: Option<TlsSetup>,
    /// The groups whose listeners begin with a PROXY header.
    pub(crate) proxied_groups: Vec<u32>,
    /// The cache tier, if origins answer for any mount.
    pub(crate) tier: Option<Arc<dyn CacheTier>>,
    pub(crate) limits: Arc<SharedRateLimits>,
    /// An end of the queue to the log thread, if there is accounting.
    pub(crate) record_queue: Option<RecordQueue>,
    pub(crate) registry: Arc<Registry>,
}

/// The commands that wait for a loop.
#[derive(Debug, Default)]
pub(crate) struct CommandQueue(Mutex<Vec<LoopCommand>>);

impl CommandQueue {
    /// Leaves commands, and wakes the loop.
    pub(crate) fn leave(&self, commands: impl IntoIterator<Item = LoopCommand>, waker: &Waker) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(commands);
        waker.wake();
    }

    /// Leaves notices, with those that wait already if there are any, and wakes the loop.
    pub(crate) fn notify(&self, notices: Vec<Notice>, waker: &Waker) {
        let mut commands = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = commands.iter_mut().find_map(|command| match command {
            LoopCommand::Apply(waiting) => Some(waiting),
            _ => None,
        });
        match waiting {
            Some(waiting) if waiting.len() + notices.len() > NOTICES_MAX => *waiting = vec![Notice::Lost],
            Some(waiting) => waiting.extend(notices),
            None => commands.push(LoopCommand::Apply(notices)),
        }
        drop(commands);
        waker.wake();
    }

    /// Takes all, in the order in which they were left.
    pub(crate) fn take(&self) -> Vec<LoopCommand> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Sends a listener to a loop that has a table of descriptors of its own.
pub(crate) fn send_listener(channel: &Channel, socket: &OwnedFd) -> io::Result<()> {
    channel.send(b"listener", &[socket.as_fd()])
}

/// The next listener that was sent to this loop; `None` if it was lost for want of descriptors.
pub(crate) fn take_listener(channel: &Channel) -> Option<OwnedFd> {
    match channel.try_receive() {
        Ok(Incoming::Message(_, mut sockets)) => sockets.pop(),
        _ => None,
    }
}

impl std::fmt::Debug for LoopCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Configure(..) => "Configure",
            Self::Listen(..) => "Listen",
            Self::Retire(_) => "Retire",
            Self::Release(_) => "Release",
            Self::LookAgain => "LookAgain",
            Self::Apply(_) => "Apply",
            Self::Answer(_) => "Answer",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_of_a_loop_that_does_not_come_are_made_one() {
        let (command_queue, waker) = (CommandQueue::default(), Waker::new().unwrap());
        command_queue.notify(vec![Notice::Lost; NOTICES_MAX - 1], &waker);
        command_queue.leave([LoopCommand::LookAgain], &waker);
        command_queue.notify(vec![Notice::Lost], &waker);
        let of = |commands: &[LoopCommand]| match commands {
            [LoopCommand::Apply(notices), LoopCommand::LookAgain] => notices.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!(of(&command_queue.take()), NOTICES_MAX);
        command_queue.notify(vec![Notice::Lost; NOTICES_MAX], &waker);
        command_queue.leave([LoopCommand::LookAgain], &waker);
        command_queue.notify(vec![Notice::Lost], &waker);
        assert_eq!(of(&command_queue.take()), 1);
        assert!(command_queue.take().is_empty());
    }
}
