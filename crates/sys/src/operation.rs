//! The arguments of a driver's operations: where to listen and to connect, and what to send.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::rc::Rc;

use crate::address::{PeerAddr, PortRange, UnixAddr};
use crate::file::File;

/// The place at which to listen.
#[derive(Debug)]
pub enum Listen {
    /// A TCP address. The listener shares it with the listeners of other drivers (SO_REUSEPORT);
    /// the kernel spreads connections over them.
    Address(SocketAddr),
    /// A Unix stream socket. Its file, if it has one, is made, and stays when the listener is
    /// closed.
    Unix(UnixAddr),
    /// A socket that listens already.
    Socket(OwnedFd),
}

/// The peer to connect to, and how.
#[derive(Clone, Debug)]
pub struct Connect {
    /// The address of the peer.
    pub peer: PeerAddr,
    /// The local address to come from; `None` leaves it to the kernel. For TCP.
    pub source: Option<IpAddr>,
    /// The local ports to come from, one after the other. For TCP.
    ///
    /// `None` leaves it to the kernel, which chooses from `net.ipv4.ip_local_port_range`
    /// ([`ip_local_port_range`](crate::resource_limits::ip_local_port_range)), shares a port
    /// between connections to different peers, and uses ports again that wait after an end
    /// (TIME_WAIT) where `net.ipv4.tcp_tw_reuse` allows it. That is the better choice unless one
    /// source address has to hold more connections than that range has ports. Ports given here may
    /// lie outside of it; each carries one connection at a time, and one that this side ended first
    /// is free again only when the kernel's 60 seconds are over.
    pub ports: Option<PortRange>,
    /// When bytes are received.
    pub receive_mode: ReceiveMode,
}

/// When a socket receives bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReceiveMode {
    /// Whenever the peer sends: bytes are delivered as they come.
    #[default]
    Continuous,
    /// Whenever the owner calls [`Driver::receive`](crate::Driver::receive). The kernel accepts
    /// little more than was requested, so that the rest stays with the peer. See
    /// [`socket`](super::socket) for the effect on the wire.
    OnDemand {
        /// How many bytes the peer may send ahead of the owner's requests; the kernel makes it a
        /// little less, but not less than about 3000. Without effect on a Unix socket, where the
        /// peer's send buffer is the only one.
        window_bytes: u32,
    },
}

impl Connect {
    /// To a TCP address, with all else left to the kernel.
    pub const fn tcp(peer: SocketAddr) -> Self {
        Self { peer: PeerAddr::Tcp(peer), source: None, ports: None, receive_mode: ReceiveMode::Continuous }
    }

    /// To any address, with all else left to the kernel.
    pub fn to(peer: impl Into<PeerAddr>) -> Self {
        Self { peer: peer.into(), source: None, ports: None, receive_mode: ReceiveMode::Continuous }
    }
}

/// Bytes to send. The driver keeps them until the kernel has taken them.
#[derive(Clone, Debug)]
pub enum SendBuf {
    /// Bytes that live as long as the program.
    Static(&'static [u8]),
    /// Bytes that are sent more than once, on one or many connections.
    Shared(Rc<Vec<u8>>),
    /// Bytes for this send only.
    Owned(Vec<u8>),
    /// Some of the bytes of a buffer whose other bytes are sent at another time.
    Part {
        /// The buffer.
        bytes: Rc<Vec<u8>>,
        /// The first byte of the part.
        start: u32,
        /// The byte behind its last one.
        end: u32,
    },
}

impl SendBuf {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Static(bytes) => bytes,
            Self::Shared(bytes) => bytes,
            Self::Owned(bytes) => bytes,
            Self::Part { bytes, start, end } => &bytes[*start as usize..*end as usize],
        }
    }

    /// The first `at` bytes, and the others. Nothing is copied.
    ///
    /// # Panics
    /// There are fewer bytes than that, or more than 4 GiB.
    pub fn split_at(self, at: usize) -> (Self, Self) {
        let (bytes, start, end) = match self {
            Self::Static(bytes) => {
                let (first, others) = bytes.split_at(at);
                return (Self::Static(first), Self::Static(others));
            }
            Self::Shared(bytes) => {
                let end = bytes.len();
                (bytes, 0, end)
            }
            Self::Owned(bytes) => {
                let end = bytes.len();
                (Rc::new(bytes), 0, end)
            }
            Self::Part { bytes, start, end } => (bytes, start as usize, end as usize),
        };
        let part = |bytes, start: usize, end: usize| {
            let index = |at| u32::try_from(at).expect("a buffer of less than 4 GiB");
            Self::Part { bytes, start: index(start), end: index(end) }
        };
        assert!(at <= end - start, "a part is not larger than the whole");
        (part(Rc::clone(&bytes), start, start + at), part(bytes, start + at, end))
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    /// No bytes.
    pub const fn empty() -> Self {
        Self::Static(&[])
    }
}

/// A part of a file.
#[derive(Clone, Debug)]
pub struct FileSpan {
    /// The file. It is not closed before the send has ended.
    pub file: Rc<File>,
    /// The beginning of the part, in bytes.
    pub offset: u64,
    /// How long it is, in bytes.
    pub len: u64,
}

/// The position of a part of a file in its response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpanEnd {
    /// More of the file, in the same response.
    MoreFollows,
    /// No more of the file. Before its last bytes are passed to the kernel, the file's state is
    /// compared with its state when it was opened: a response must not consist of two versions.
    /// That is one `fstat`, and one more each time the kernel takes only some of what is left.
    EndsResponse,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_buffer_are_its_bytes() {
        let bytes = b"0123456789";
        for buffer in [
            SendBuf::Static(bytes),
            SendBuf::Shared(Rc::new(bytes.to_vec())),
            SendBuf::Owned(bytes.to_vec()),
            SendBuf::Shared(Rc::new(b"--0123456789".to_vec())).split_at(2).1,
        ] {
            for at in 0..=bytes.len() {
                let (first, others) = buffer.clone().split_at(at);
                assert_eq!((first.as_slice(), others.as_slice()), bytes.split_at(at), "{buffer:?} at {at}");
            }
        }
    }
}
