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
    /// No way to the peer (EHOSTUNREACH, ENETUNREACH and the like; EINVAL is what a blackhole route answers).
    Unreachable,
    /// The kernel gave up waiting for the peer (ETIMEDOUT).
    TimedOut,
    /// This process has no descriptor left (EMFILE), or no memory for one.
    NoDescriptor,
    /// The whole host has no descriptor left (ENFILE).
    FileTableFull,
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
            Some(Errno::TIMEDOUT) => Self::TimedOut,
            Some(
                Errno::HOSTUNREACH
                | Errno::NETUNREACH
                | Errno::NETDOWN
                | Errno::HOSTDOWN
                | Errno::PERM
                | Errno::ACCESS
                | Errno::INVAL,
            ) => Self::Unreachable,
            Some(Errno::MFILE | Errno::NOBUFS | Errno::NOMEM) => Self::NoDescriptor,
            Some(Errno::NFILE) => Self::FileTableFull,
            Some(Errno::ADDRNOTAVAIL | Errno::ADDRINUSE | Errno::AGAIN) => Self::NoAddress,
            _ => Self::Other,
        }
    }
}
