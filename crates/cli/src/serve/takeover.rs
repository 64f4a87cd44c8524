//! One server gives way to the next: what the two tell each other, and in which order.
//!
//! ```text
//! predecessor                             successor
//!   listen own 0.0.0.0:80  + sockets  ->
//!   …                                 ->
//!   done                              ->
//!                                     <-  ready        it accepts, on the same sockets
//!   yours                             ->               the predecessor stops accepting
//!   (end)                             ->               it has stopped
//! ```
//!
//! Whoever finds the channel closed before the last word goes back to how it was: the predecessor serves on, the successor ends. Both
//! accept for a moment, from the same queues, so that no connection is lost in between. When the predecessor has stopped, the successor looks
//! at the queues once more: the kernel may have told the predecessor of a connection that it then did not take.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use std::{env, str};

use thalweg_serve::{Group, Listeners};
use thalweg_sys::handover::{Channel, Incoming, MESSAGE_DESCRIPTORS_MAX};
use thalweg_sys::process::{take_stdin, unblock_signals};
use thalweg_sys::service_manager;

use super::launcher::{Launcher, PREDECESSOR};
use crate::exit::Failure;
use crate::options::parse_listen;

/// How long a successor may take until it is ready. It reads the configuration and opens folders.
const READY_TIME: Duration = Duration::from_secs(60);

/// What a process finds when it starts.
#[derive(Debug, Default)]
pub struct Inheritance {
    /// Sockets that listen already.
    pub groups: Vec<Group>,
    /// Who gives way.
    predecessor: Option<Channel>,
}

/// A predecessor that has given way.
#[derive(Debug)]
pub struct Predecessor(Channel);

/// A successor that was started and is not ready yet.
#[derive(Debug)]
pub struct Successor {
    channel: Channel,
    number: u32,
    started: Instant,
}

/// How far a successor is.
#[derive(Debug)]
pub enum Progress {
    /// It serves from now on.
    Ready,
    /// It will not.
    Failed(String),
    /// It starts.
    Starting,
}

impl Inheritance {
    /// Takes what a predecessor or a service manager has for this process, if there is one.
    ///
    /// # Errors
    /// What they give makes no sense.
    pub fn take() -> Result<Self, Failure> {
        if env::var_os(PREDECESSOR).is_some() {
            return Self::take_over().map_err(|error| {
                Failure::unreachable(format!(
                    "cannot take over from the running server: {error}; {PREDECESSOR} is set in the environment, \
                     which only a server does for its successor"
                ))
            });
        }
        let wrong = |error| Failure::usage(format!("cannot use the sockets of the service manager: {error}"));
        let mut groups = Vec::new();
        for (socket, name) in service_manager::sockets().map_err(wrong)? {
            let wrong =
                |error| Failure::usage(format!("the service manager's socket {name:?} cannot be used: {error}"));
            groups.push(Group::by_service_manager(socket).map_err(wrong)?);
        }
        Ok(Self { groups, predecessor: None })
    }

    fn take_over() -> io::Result<Self> {
        unblock_signals();
        let channel = Channel::from(take_stdin()?);
        let mut groups: Vec<Group> = Vec::new();
        loop {
            let (message, sockets) = match channel.receive()? {
                Incoming::Message(message, sockets) => (message, sockets),
                Incoming::Closed | Incoming::Nothing => return Err(io::Error::other("it has exited")),
            };
            let not_understood =
                || io::Error::new(io::ErrorKind::InvalidData, "it sent a message that this version does not know");
            let message = str::from_utf8(&message).map_err(|_| not_understood())?;
            match message.splitn(3, ' ').collect::<Vec<_>>()[..] {
                ["listen", whose @ ("own" | "given"), address] => {
                    let asked = parse_listen(address).map_err(|_| not_understood())?;
                    groups.push(Group { asked, by_service_manager: whose == "given", sockets });
                }
                ["more"] => groups.last_mut().ok_or_else(not_understood)?.sockets.extend(sockets),
                ["done"] => return Ok(Self { groups, predecessor: Some(channel) }),
                _ => return Err(not_understood()),
            }
        }
    }

    /// Tells the predecessor, if there is one, that this process serves, and waits for its word. It then stops, some time later.
    ///
    /// # Errors
    /// It has given up waiting, and serves on.
    pub fn settle(self) -> Result<Option<Predecessor>, Failure> {
        let Some(channel) = self.predecessor else { return Ok(None) };
        let settled = channel.send(b"ready", &[]).and_then(|()| channel.receive());
        match settled {
            Ok(Incoming::Message(word, _)) if word == b"yours" => Ok(Some(Predecessor(channel))),
            _ => Err(Failure::unreachable(
                "the running server did not hand over: this process was not ready in time, or the running server has \
                 exited",
            )),
        }
    }
}

impl Predecessor {
    /// Whether it has stopped accepting.
    pub fn has_stopped(&self) -> bool {
        // It says no more; whatever comes is the end.
        !matches!(self.0.try_receive(), Ok(Incoming::Nothing))
    }
}

impl Successor {
    /// Starts one, and gives it duplicates of the sockets.
    ///
    /// # Errors
    /// It cannot be started, or has ended at once.
    pub fn start(launcher: &Launcher, listeners: &Listeners) -> io::Result<Self> {
        let (channel, theirs) = Channel::pair()?;
        let number = launcher.launch(&theirs)?;
        drop(theirs);
        for group in listeners.groups() {
            let whose = if group.by_service_manager { "given" } else { "own" };
            let mut message = format!("listen {whose} {}", group.asked);
            for sockets in group.sockets.chunks(MESSAGE_DESCRIPTORS_MAX) {
                let sockets: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
                channel.send(message.as_bytes(), &sockets)?;
                "more".clone_into(&mut message);
            }
        }
        channel.send(b"done", &[])?;
        Ok(Self { channel, number, started: Instant::now() })
    }

    /// The number of its process.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Looks how far it is. Not to be called again after the last word.
    pub fn look(&self) -> Progress {
        match self.channel.try_receive() {
            Ok(Incoming::Message(word, _)) if word == b"ready" => match self.channel.send(b"yours", &[]) {
                Ok(()) => Progress::Ready,
                Err(error) => Progress::Failed(format!("it exited during the handover: {error}")),
            },
            Ok(Incoming::Message(..)) => Progress::Failed("it sent an unknown message".to_owned()),
            Ok(Incoming::Closed) => Progress::Failed("it has exited; its messages are on standard error".to_owned()),
            Ok(Incoming::Nothing) if self.started.elapsed() < READY_TIME => Progress::Starting,
            Ok(Incoming::Nothing) => Progress::Failed(format!("it was not ready within {} s", READY_TIME.as_secs())),
            Err(error) => Progress::Failed(error.to_string()),
        }
    }
}
