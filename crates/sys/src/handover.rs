//! A channel between two processes of this host that carries descriptors beside bytes (SCM_RIGHTS,
//! unix(7)).
//!
//! It keeps the boundaries of messages and does not interpret them.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// Most bytes of one message.
pub const MESSAGE_BYTES_MAX: usize = 8192;

/// Most descriptors of one message. The kernel takes up to 253.
pub const MESSAGE_DESCRIPTORS_MAX: usize = 64;

/// One end of a channel.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// The state of the incoming direction.
#[derive(Debug)]
pub enum Incoming {
    /// A message and its descriptors.
    Message(Vec<u8>, Vec<OwnedFd>),
    /// The other end was closed, or its process has ended.
    Closed,
    /// No message is there yet.
    Nothing,
}

impl Channel {
    /// Creates a channel and returns both ends.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn pair() -> io::Result<(Self, Self)> {
        let flags = SocketFlags::CLOEXEC;
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Self(one), Self(other)))
    }

    /// Sends a message; blocks while the queue of the other end is full.
    ///
    /// # Errors
    /// The other end has gone (`EPIPE`).
    ///
    /// # Panics
    /// It is empty, which would look like an end, or larger than a message may be.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        assert!((1..=MESSAGE_BYTES_MAX).contains(&bytes.len()) && descriptors.len() <= MESSAGE_DESCRIPTORS_MAX);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MESSAGE_DESCRIPTORS_MAX))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            let fits = ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
            assert!(fits, "the space is that of the most descriptors");
        }
        loop {
            match sendmsg(&self.0, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                sent => return Ok(sent.map(drop)?),
            }
        }
    }

    /// Receives the next message; blocks until there is one.
    ///
    /// # Errors
    /// A message was truncated, because of its size or for want of descriptors.
    pub fn receive(&self) -> io::Result<Incoming> {
        let mut bytes = vec![0; MESSAGE_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MESSAGE_DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut parts = [IoSliceMut::new(&mut bytes)];
            match recvmsg(&self.0, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                // The other side has closed with messages unread.
                Err(Errno::CONNRESET) => return Ok(Incoming::Closed),
                received => break received?,
            }
        };
        let mut descriptors = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                descriptors.extend(received);
            }
        }
        if received.flags.intersects(rustix::net::ReturnFlags::TRUNC | rustix::net::ReturnFlags::CTRUNC) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message was cut"));
        }
        if received.bytes == 0 {
            return Ok(Incoming::Closed);
        }
        bytes.truncate(received.bytes);
        Ok(Incoming::Message(bytes, descriptors))
    }

    /// Receives the next message if there is one; never blocks.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive).
    pub fn try_receive(&self) -> io::Result<Incoming> {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&now)) {
            Ok(0) | Err(Errno::INTR) => Ok(Incoming::Nothing),
            Ok(_) => self.receive(),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Channel {
    fn from(end: OwnedFd) -> Self {
        Self(end)
    }
}

impl From<Channel> for OwnedFd {
    fn from(channel: Channel) -> Self {
        channel.0
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn messages_stay_apart_and_bring_their_descriptors() {
        let (one, other) = Channel::pair().unwrap();
        assert!(matches!(other.try_receive().unwrap(), Incoming::Nothing));
        let (mut kept, given) = UnixStream::pair().unwrap();
        one.send(b"first", &[given.as_fd(); MESSAGE_DESCRIPTORS_MAX]).unwrap();
        one.send(b"second", &[]).unwrap();
        drop((one, given));
        let Incoming::Message(bytes, descriptors) = other.try_receive().unwrap() else { panic!("a message has come") };
        assert_eq!((bytes.as_slice(), descriptors.len()), (b"first".as_slice(), MESSAGE_DESCRIPTORS_MAX));
        assert!(
            matches!(other.receive().unwrap(), Incoming::Message(bytes, none) if bytes == b"second" && none.is_empty())
        );
        assert!(matches!(other.receive().unwrap(), Incoming::Closed));
        drop(descriptors);
        assert_eq!(kept.read(&mut [0; 1]).unwrap(), 0, "they were the last ends");
    }

    #[test]
    fn an_end_that_has_gone_is_an_error_to_talk_to() {
        let (one, other) = Channel::pair().unwrap();
        one.send(b"unread", &[]).unwrap();
        other.send(b"unread", &[]).unwrap();
        drop(other);
        assert!(one.send(b"text", &[]).is_err());
        assert!(matches!(one.receive().unwrap(), Incoming::Message(..)));
        assert!(matches!(one.receive().unwrap(), Incoming::Closed));
    }
}
