//! Addresses of peers: TCP and Unix stream sockets, and ranges of local ports.
//!
//! An address is checked when it is made, so that no connect fails for its syntax. Host names are
//! resolved elsewhere.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

/// The address of a peer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum PeerAddr {
    /// An IP address and a TCP port.
    Tcp(SocketAddr),
    /// A Unix stream socket of this host.
    Unix(UnixAddr),
}

/// The address of a Unix stream socket: a path in the file system, or an abstract name, which is
/// written with a leading `@`. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct UnixAddr {
    text: Arc<OsStr>,
}

/// Local ports from `first` to `last`, both included.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PeerAddr {
    /// The address as the kernel takes it.
    pub(crate) fn encoded(&self) -> SockAddr {
        match self {
            Self::Tcp(addr) => SockAddr::from(*addr),
            Self::Unix(addr) => addr.encoded().expect("checked when it was made"),
        }
    }
}

impl PeerAddr {
    /// Connects once, from a local address if one is given, and closes the connection, to check
    /// that a server listens there.
    ///
    /// # Errors
    /// No server accepts within `timeout`, the permission is missing, or this host does not have
    /// the local address.
    pub fn reach(&self, source: Option<IpAddr>, timeout: Duration) -> io::Result<()> {
        let peer = match self {
            Self::Unix(addr) => return addr.reach(),
            Self::Tcp(addr) => *addr,
        };
        let socket = Socket::new(Domain::for_address(peer), Type::STREAM.cloexec(), None)?;
        if let Some(source) = source {
            socket.bind(&SocketAddr::new(source, 0).into())?;
        }
        socket.connect_timeout(&peer.into(), timeout)
    }
}

impl From<SocketAddr> for PeerAddr {
    fn from(addr: SocketAddr) -> Self {
        Self::Tcp(addr)
    }
}

impl From<UnixAddr> for PeerAddr {
    fn from(addr: UnixAddr) -> Self {
        Self::Unix(addr)
    }
}

impl fmt::Display for PeerAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(addr) => addr.fmt(f),
            Self::Unix(addr) => addr.fmt(f),
        }
    }
}

impl UnixAddr {
    /// A path, or an abstract name with `@` before it. A path that begins with `@` is written
    /// `./@…`.
    ///
    /// # Errors
    /// The text is empty, longer than the kernel takes (107 bytes), or has a zero byte in it.
    pub fn new(text: impl AsRef<OsStr>) -> io::Result<Self> {
        let text = text.as_ref();
        let problem = match text.as_bytes() {
            [] | b"@" => Some("the address of a Unix socket is empty"),
            bytes if bytes.contains(&0) => Some("the address of a Unix socket contains a zero byte"),
            _ => None,
        };
        if let Some(problem) = problem {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        let addr = Self { text: text.into() };
        addr.encoded().map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidInput, "the address of a Unix socket has more than 107 bytes")
        })?;
        Ok(addr)
    }

    /// The path in the file system; `None` for an abstract name.
    pub fn path(&self) -> Option<&Path> {
        (self.text.as_bytes()[0] != b'@').then(|| Path::new(&*self.text))
    }

    /// Connects once, and closes the connection, to check that a server listens there.
    ///
    /// # Errors
    /// No server listens there, or the permission is missing.
    pub fn reach(&self) -> io::Result<()> {
        Socket::new(Domain::UNIX, Type::STREAM.cloexec(), None)?.connect(&self.encoded()?)
    }

    fn encoded(&self) -> io::Result<SockAddr> {
        match self.path() {
            Some(path) => SockAddr::unix(path),
            None => {
                let mut name = self.text.as_bytes().to_vec();
                name[0] = 0;
                SockAddr::unix(OsString::from_vec(name))
            }
        }
    }
}

impl fmt::Display for UnixAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.display().fmt(f)
    }
}

impl PortRange {
    /// From `first` to `last`; `None` if there is no port in it.
    pub const fn new(first: u16, last: u16) -> Option<Self> {
        if first == 0 || first > last { None } else { Some(Self { first, last }) }
    }

    /// The first port.
    pub const fn first(self) -> u16 {
        self.first
    }

    /// The last port.
    pub const fn last(self) -> u16 {
        self.last
    }

    /// How many ports.
    pub const fn count(self) -> usize {
        self.last as usize - self.first as usize + 1
    }

    /// Whether `port` is one of them.
    pub const fn contains(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unix_addresses_are_checked_when_they_are_made() {
        let check = |text: &str, good: bool| assert_eq!(UnixAddr::new(text).is_ok(), good, "{text:?}");
        check("/run/server.sock", true);
        check("server.sock", true);
        check("@server", true);
        check("./@server", true);
        check("", false);
        check("@", false);
        check("a\0b", false);
        check("@a\0b", false);
        check(&"x".repeat(107), true);
        check(&"x".repeat(108), false);
        check(&format!("@{}", "x".repeat(107)), true);
        check(&format!("@{}", "x".repeat(108)), false);
    }

    #[test]
    fn only_paths_are_paths() {
        assert_eq!(UnixAddr::new("/a/b").unwrap().path(), Some(Path::new("/a/b")));
        assert_eq!(UnixAddr::new("@a").unwrap().path(), None);
        assert_eq!(UnixAddr::new("@a").unwrap().encoded().unwrap().len(), 4, "family, zero byte, name");
    }

    #[test]
    fn a_range_has_ports() {
        assert_eq!(PortRange::new(0, 10), None);
        assert_eq!(PortRange::new(11, 10), None);
        let range = PortRange::new(10, 12).unwrap();
        assert_eq!((range.count(), range.contains(9), range.contains(12)), (3, false, true));
        assert_eq!(PortRange::new(1, u16::MAX).map(PortRange::count), Some(65_535));
    }
}
