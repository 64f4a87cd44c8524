//! The takeover of one server by its successor: the messages between them and their order.
//!
//! ```text
//! predecessor                             successor
//!   listen own 0.0.0.0:80  + sockets  ->
//!   …                                 ->
//!   tickets 0123…                     ->               the keys of session tickets, where TLS is spoken
//!   done                              ->
//!                                     <-  ready        it accepts, on the same sockets
//!   yours                             ->               the predecessor stops accepting
//!   (end)                             ->               it has stopped
//! ```
//!
//! If the channel is closed before the last message, the takeover fails: the predecessor serves on,
//! and the successor ends. Both accept for a moment, from the same queues, so that no connection is
//! lost in between. When the predecessor has stopped, the successor checks the queues once more:
//! the kernel may have woken the predecessor for a connection that it did not accept.

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

/// The time in which a successor has to be ready. It reads the configuration and opens folders.
const READY_TIME: Duration = Duration::from_secs(60);

/// The sockets and the predecessor that a process is started with.
#[derive(Debug, Default)]
pub(super) struct Inheritance {
    /// Sockets that listen already.
    pub groups: Vec<Group>,
    /// The keys of session tickets, as they were exported.
    pub tickets: Option<Vec<u8>>,
    /// The predecessor, if there is one.
    predecessor: Option<Channel>,
}

/// A predecessor that has passed its sockets on.
#[derive(Debug)]
pub(super) struct Predecessor(Channel);

/// A successor that was started and is not ready yet.
#[derive(Debug)]
pub(super) struct Successor {
    channel: Channel,
    number: u32,
    started: Instant,
}

/// The progress of a successor.
#[derive(Debug)]
pub(super) enum Progress {
    /// The successor serves from now on.
    Ready,
    /// The successor has failed, for this reason.
    Failed(String),
    /// The successor is starting.
    Starting,
}

impl Inheritance {
    /// Receives the sockets of a predecessor or a service manager, if there is one.
    ///
    /// # Errors
    /// The message is malformed.
    pub(super) fn take() -> Result<Self, Failure> {
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
        Ok(Self { groups, tickets: None, predecessor: None })
    }

    fn take_over() -> io::Result<Self> {
        unblock_signals();
        let channel = Channel::from(take_stdin()?);
        let mut groups: Vec<Group> = Vec::new();
        let mut tickets = None;
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
                ["tickets", digits] => tickets = Some(bytes_of(digits).ok_or_else(not_understood)?),
                ["done"] => return Ok(Self { groups, tickets, predecessor: Some(channel) }),
                _ => return Err(not_understood()),
            }
        }
    }

    /// Whether another process serves still.
    pub(super) fn has_predecessor(&self) -> bool {
        self.predecessor.is_some()
    }

    /// Reports to the predecessor, if there is one, that this process serves, and waits for its
    /// confirmation. The predecessor stops some time later.
    ///
    /// # Errors
    /// The predecessor has given up waiting, and serves on.
    pub(super) fn settle(self) -> Result<Option<Predecessor>, Failure> {
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
    /// Whether the predecessor has stopped accepting.
    pub(super) fn has_stopped(&self) -> bool {
        // It sends no further message; only the end can come.
        !matches!(self.0.try_receive(), Ok(Incoming::Nothing))
    }
}

impl Successor {
    /// Starts a successor and sends it duplicates of the sockets, and the keys of session tickets.
    ///
    /// # Errors
    /// The successor cannot be started, or has ended at once.
    pub(super) fn start(launcher: &Launcher, listeners: &Listeners, tickets: Option<&[u8]>) -> io::Result<Self> {
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
        if let Some(tickets) = tickets {
            channel.send(format!("tickets {}", digits_of(tickets)).as_bytes(), &[])?;
        }
        channel.send(b"done", &[])?;
        Ok(Self { channel, number, started: Instant::now() })
    }

    /// Its process number.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// The present progress. Not to be called again after the last message.
    pub(super) fn progress(&self) -> Progress {
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

/// Bytes in hexadecimal digits.
fn digits_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of hexadecimal digits.
fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).ok());
    pairs.map(|pair| u8::from_str_radix(pair.filter(|pair| pair.len() == 2 && !pair.contains('+'))?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_the_bytes() {
        for bytes in [&b""[..], b"\x00\xff", b"abc"] {
            assert_eq!(bytes_of(&digits_of(bytes)).as_deref(), Some(bytes));
        }
        assert_eq!((bytes_of("abc"), bytes_of("zz"), bytes_of("+1")), (None, None, None));
    }
}
