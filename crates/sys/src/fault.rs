//! The meaning of a failed socket call, as kinds that an outcome can be made of.

use std::io;

use rustix::io::Errno;

/// The kinds of failure on a connection that METHOD distinguishes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The peer's host reported that no server listens.
    Refused,
    /// The peer ended the connection at once.
    Reset,
    /// No way to the peer.
    Unreachable,
    /// The kernel gave up waiting for the peer (ETIMEDOUT).
    TimedOut,
    /// This process has no descriptor left, or no memory for one.
    NoDescriptor,
    /// The whole host has no descriptor left (ENFILE).
    FileTableFull,
    /// This host has no local address or port left for the connection.
    NoAddress,
    /// Anything else, by its error number; 0 if it has none.
    Other(i32),
}

/// The fault for each error of `connect`, `send` and `recv`. Besides these calls' own errors there
/// are those that the kernel makes of ICMP messages (`icmp_err_convert` and `icmpv6_err_convert`),
/// and of routes and firewalls that forbid the way.
const KINDS: [(Errno, Fault); 28] = [
    (Errno::CONNREFUSED, Fault::Refused),
    // There is no such Unix socket.
    (Errno::NOENT, Fault::Refused),
    (Errno::CONNRESET, Fault::Reset),
    (Errno::PIPE, Fault::Reset),
    (Errno::CONNABORTED, Fault::Reset),
    (Errno::NOTCONN, Fault::Reset),
    (Errno::SHUTDOWN, Fault::Reset),
    (Errno::NETRESET, Fault::Reset),
    (Errno::TIMEDOUT, Fault::TimedOut),
    (Errno::HOSTUNREACH, Fault::Unreachable),
    (Errno::NETUNREACH, Fault::Unreachable),
    (Errno::HOSTDOWN, Fault::Unreachable),
    (Errno::NETDOWN, Fault::Unreachable),
    // ICMP: the host is isolated; it does not speak the protocol; a source route failed; a
    // parameter of the header is wrong.
    (Errno::NONET, Fault::Unreachable),
    (Errno::NOPROTOOPT, Fault::Unreachable),
    (Errno::OPNOTSUPP, Fault::Unreachable),
    (Errno::PROTO, Fault::Unreachable),
    // A local firewall's refusal; a route that prohibits, a foreign firewall over IPv6, or a Unix
    // socket's permissions.
    (Errno::PERM, Fault::Unreachable),
    (Errno::ACCESS, Fault::Unreachable),
    // A blackhole route returns this.
    (Errno::INVAL, Fault::Unreachable),
    // The device went away.
    (Errno::NODEV, Fault::Unreachable),
    (Errno::MFILE, Fault::NoDescriptor),
    (Errno::NOBUFS, Fault::NoDescriptor),
    (Errno::NOMEM, Fault::NoDescriptor),
    (Errno::NFILE, Fault::FileTableFull),
    (Errno::ADDRNOTAVAIL, Fault::NoAddress),
    (Errno::ADDRINUSE, Fault::NoAddress),
    (Errno::AGAIN, Fault::NoAddress),
];

impl Fault {
    /// Classifies an error of `connect`, `send` or `recv`.
    pub fn of(error: &io::Error) -> Self {
        let errno = Errno::from_io_error(error);
        let kind = KINDS.iter().find(|(known, _)| errno == Some(*known));
        kind.map_or_else(|| Self::Other(errno.map_or(0, Errno::raw_os_error)), |(_, fault)| *fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of errors by their number on Linux, which the table does not name.
    #[test]
    fn errors_are_of_the_kind_that_their_cause_is() {
        #[track_caller]
        fn check(errno: i32, expected: Fault) {
            let error = io::Error::from_raw_os_error(errno);
            assert_eq!(Fault::of(&error), expected, "{error}");
        }
        for (errno, expected) in [
            (libc::ECONNREFUSED, Fault::Refused),
            (libc::ENOENT, Fault::Refused),
            (libc::ECONNRESET, Fault::Reset),
            (libc::EPIPE, Fault::Reset),
            (libc::ENETRESET, Fault::Reset),
            (libc::ETIMEDOUT, Fault::TimedOut),
            (libc::EHOSTUNREACH, Fault::Unreachable),
            (libc::ENETUNREACH, Fault::Unreachable),
            (libc::EHOSTDOWN, Fault::Unreachable),
            (libc::ENETDOWN, Fault::Unreachable),
            (libc::ENONET, Fault::Unreachable),
            (libc::ENOPROTOOPT, Fault::Unreachable),
            (libc::EPROTO, Fault::Unreachable),
            (libc::EPERM, Fault::Unreachable),
            (libc::EACCES, Fault::Unreachable),
            (libc::EMFILE, Fault::NoDescriptor),
            (libc::ENFILE, Fault::FileTableFull),
            (libc::EADDRNOTAVAIL, Fault::NoAddress),
            (libc::EBADMSG, Fault::Other(libc::EBADMSG)),
            (libc::EIO, Fault::Other(libc::EIO)),
        ] {
            check(errno, expected);
        }
        assert_eq!(Fault::of(&io::Error::other("no number")), Fault::Other(0));
        let named = |at: usize| KINDS[..at].iter().any(|(errno, _)| *errno == KINDS[at].0);
        assert!(!(0..KINDS.len()).any(named), "an error is named once");
    }
}
