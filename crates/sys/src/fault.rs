//! What a failed socket call means, as kinds that an outcome can be made of.

use std::io;

use rustix::io::Errno;

/// The kinds of failure that METHOD tells apart on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The peer's host answered that nobody listens (ECONNREFUSED; for a Unix socket also ENOENT).
    Refused,
    /// The peer ended the connection at once (ECONNRESET, EPIPE).
    Reset,
    /// No way to the peer, or none in the kernel's patience (EHOSTUNREACH, ENETUNREACH, ETIMEDOUT and the like).
    Unreachable,
    /// This process or host has no descriptor left (EMFILE, ENFILE), or no memory for one.
    NoDescriptor,
    /// This host has no local address or port left for the connection (EADDRNOTAVAIL, EADDRINUSE).
    NoAddress,
    /// Anything else.
    Other,
}

impl Fault {
    /// Classifies an error of `connect`, `send` or `recv`.
    pub fn of(error: &io::Error) -> Self {
        match Errno::from_io_error(error) {
            Some(Errno::CONNREFUSED | Errno::NOENT) => Self::Refused,
            Some(Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED | Errno::NOTCONN) => Self::Reset,
            Some(
                Errno::HOSTUNREACH
                | Errno::NETUNREACH
                | Errno::TIMEDOUT
                | Errno::NETDOWN
                | Errno::HOSTDOWN
                | Errno::PERM
                | Errno::ACCESS,
            ) => Self::Unreachable,
            Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Self::NoDescriptor,
            Some(Errno::ADDRNOTAVAIL | Errno::ADDRINUSE | Errno::AGAIN) => Self::NoAddress,
            _ => Self::Other,
        }
    }
}
