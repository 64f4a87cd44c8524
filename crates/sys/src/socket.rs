//! Making sockets: the options that the drivers, the load generator and the server agree on.
//!
//! # Receive on demand on the wire
//!
//! A slow client is only a load if the server is left with the data that the client has not read.
//! Two options see to that, both set before the connect; bench/TRIED.md, "Window and segment size
//! of throttled connections" has the measurements.
//!
//! * *The receive buffer* (SO_RCVBUF) bounds the window. The kernel doubles the value and keeps
//!   some for its own use, so half of the wanted window is set. Windows below 4608 bytes cannot be
//!   had.
//! * *The segment size* (TCP_MAXSEG) is Ethernet's, as it would be if the client were far away.
//!   With loopback's own the *server's* kernel takes megabytes into its send buffer at once, since
//!   it sizes that by segments.
//!
//! Small reads do not stall: a read that makes room for as much as the peer knows of sends a window
//! update. About once per window a read finds less than its size; an owner that reads the missing
//! bytes later gets exactly its rate. Few large reads are cheaper than many small ones
//! (bench/TRIED.md, "Reads of throttled connections"); the window should be about twice the size of
//! a read.
//!
//! # Large files
//!
//! Four things decide the cost of a large file:
//!
//! * Chunks end with a whole segment: bench/TRIED.md, "Whole segments".
//! * Connections take turns with small chunks, so that the data in flight stays in the CPU's cache:
//!   bench/TRIED.md, "Chunks in turn".
//! * A chunk fits into sendfile's pipe of 16 pages wherever it begins: bench/TRIED.md, "Chunks of
//!   15 pages".
//! * Unsent bytes are not bounded for fast clients: bench/TRIED.md, "Bound on unsent bytes".
//!
//! On loopback the kernel does much of a server's sending on the client's CPU, which hides the
//! order of these: bench/TRIED.md, "Packets steered".
//!
//! # Unsent bytes of slow readers
//!
//! A server's kernel takes as much of a file as fits into the send buffer, which grows by itself,
//! and nearly all of it waits to be sent. TCP_NOTSENT_LOWAT, which accepted sockets inherit from
//! their listener at no cost, bounds that and leaves alone what is on the wire, so it bounds no
//! rate. The bound is lifted for connections that turn out to be fast.

mod backlog;
mod unix;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::sendfile;
use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, ioctl};
use rustix::net::sockopt::{set_socket_linger, set_tcp_nodelay};
use rustix::net::{SendFlags, Shutdown, getpeername, getsockname, send};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

use self::backlog::BACKLOG;
use crate::address::{PeerAddr, PortRange, UnixAddr};
use crate::fault::Fault;
use crate::operation::{Connect, FileSpan, Listen, ReceiveMode, SendBuf, SpanEnd};

pub use unix::{SocketFile, listen_unix};

/// Bytes that the kernel takes before it can put them on the wire, for connections on which that is
/// bounded, give or take a segment; see bench/TRIED.md, "Bound on unsent bytes".
pub const UNSENT_BYTES_MAX: u32 = 32 << 10;

/// A listening, non-blocking TCP socket at `addr`, which it shares with others that do the same
/// (SO_REUSEPORT).
///
/// # Errors
/// The address is in use, not of this host, or not permitted.
pub fn listen(addr: SocketAddr) -> io::Result<OwnedFd> {
    let socket = bound(addr, true)?;
    // Inherited by the accepted sockets, where it saves a system call each.
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Has a listener hand out connections only once they have sent something, or have sent nothing for
/// about a second (TCP_DEFER_ACCEPT, tcp(7)). A server that waits for the first bytes of a
/// connection anyway is woken once for it instead of twice; see bench/TRIED.md, "Deferred accept".
/// Connections that have sent nothing yet hold next to nothing; when the listener is closed, they
/// are reset. Does nothing on listeners that are not of TCP.
pub fn defer_accept(listener: &impl AsFd) {
    let _ = set_option(listener, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, 1);
}

/// Bounds what is taken before it can be sent, or lifts that bound. Refused by sockets that are not
/// of TCP, which have no such thing.
pub(crate) fn bound_unsent(fd: &OwnedFd, bounded: bool) {
    let _ = SockRef::from(fd).set_tcp_notsent_lowat(if bounded { UNSENT_BYTES_MAX } else { u32::MAX });
}

/// Whether `addr` can be had at all. Asked once before the listeners of all loops share it, because
/// sharing also hides that another program of the same user has it already.
///
/// # Errors
/// As for [`listen`].
pub fn probe(addr: SocketAddr) -> io::Result<()> {
    bound(addr, false).map(drop)
}

/// The address at which a socket that was passed to this process listens.
///
/// # Errors
/// `InvalidInput` if it is no listening stream socket of TCP or of a Unix path.
pub fn listens_at(socket: &impl AsFd) -> io::Result<PeerAddr> {
    let socket = SockRef::from(socket);
    let no_listener = || io::Error::new(io::ErrorKind::InvalidInput, "this is not a listening stream socket");
    if !socket.is_listener()? || socket.r#type()? != Type::STREAM {
        return Err(no_listener());
    }
    let address = socket.local_addr()?;
    if let Some(tcp) = address.as_socket() {
        return Ok(PeerAddr::Tcp(tcp));
    }
    UnixAddr::new(address.as_pathname().ok_or_else(no_listener)?).map(PeerAddr::Unix)
}

fn bound(addr: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if shared {
        socket.set_reuse_port(true)?;
    }
    if addr.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&SockAddr::from(addr))?;
    Ok(socket)
}

pub(crate) fn listener(at: Listen) -> io::Result<OwnedFd> {
    match at {
        Listen::Address(addr) => listen(addr),
        Listen::Unix(addr) => {
            let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
            socket.bind(&PeerAddr::Unix(addr).encoded())?;
            socket.listen(BACKLOG)?;
            Ok(socket.into())
        }
        Listen::Socket(socket) => {
            let socket = Socket::from(socket);
            socket.set_nonblocking(true)?;
            Ok(socket.into())
        }
    }
}

/// A non-blocking socket that is ready to connect. `last_port` is the local port that the driver
/// has given out last.
pub(crate) fn connecting(to: &Connect, last_port: &mut u16) -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let PeerAddr::Tcp(peer) = to.peer else { return Socket::new(Domain::UNIX, kind, None) };
    let socket = Socket::new(Domain::for_address(peer), kind, Some(Protocol::TCP))?;
    if let ReceiveMode::OnDemand { window_bytes } = to.receive_mode {
        bound_receive_buffer(&socket, &peer, window_bytes)?;
    }
    match (to.source, to.ports) {
        (None, None) => {}
        (Some(source), None) => {
            // Without a port being chosen yet, connections to different peers may share one; the
            // kernel picks at connect (Linux 4.2).
            set_option(&socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
            socket.bind(&SockAddr::from(SocketAddr::new(source, 0)))?;
        }
        (source, Some(ports)) => {
            let any = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
            bind_within(&socket, source.unwrap_or(any), ports, last_port)?;
        }
    }
    Ok(socket)
}

/// Binds to the next port of a range that is free. The kernel would choose within a range by itself
/// (IP_LOCAL_PORT_RANGE, Linux 6.3), but only within the system's own range, and it is the ports
/// outside of that which are wanted here.
fn bind_within(socket: &Socket, source: IpAddr, ports: PortRange, last_port: &mut u16) -> io::Result<()> {
    for _ in 0..ports.count() {
        let next = last_port.wrapping_add(1);
        *last_port = if ports.contains(next) { next } else { ports.first() };
        match socket.bind(&SockAddr::from(SocketAddr::new(source, *last_port))) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::ADDRINUSE) => {}
            result => return result,
        }
    }
    Err(Errno::ADDRNOTAVAIL.into())
}

/// Bounds what the kernels of both sides take ahead of the owner; see the module's documentation.
fn bound_receive_buffer(socket: &Socket, peer: &SocketAddr, window_bytes: u32) -> io::Result<()> {
    // Ethernet's 1500 bytes less the headers of IP and TCP.
    socket.set_tcp_mss(if peer.is_ipv4() { 1460 } else { 1440 })?;
    socket.set_recv_buffer_size(window_bytes as usize / 2)
}

/// Sets one of the options that neither rustix nor socket2 offers.
fn set_option(socket: &impl AsFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let (fd, len) = (socket.as_fd().as_raw_fd(), size_of_val(&value) as libc::socklen_t);
    // SAFETY: the pointer and the length describe `value`, which outlives the call.
    let result = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// How long the kernel took from SYN to SYN-ACK, in nanoseconds. A new connection's smoothed
/// round-trip time is that of its SYN, unless this was sent again (RFC 6298, section 3). `None`
/// then, and for a socket that is not TCP.
pub(crate) fn handshake_ns(fd: &OwnedFd) -> Option<u64> {
    // SAFETY: all fields are integers, for which zeros are a value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the pointer and the length describe `info`; the kernel writes no more than that.
    let result = unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &raw mut len)
    };
    let is_known = result == 0 && info.tcpi_total_retrans == 0 && info.tcpi_rtt > 0;
    is_known.then_some(u64::from(info.tcpi_rtt) * 1_000)
}

/// Translates the error of a failed connect. A Unix socket whose peer's queue is full returns
/// EAGAIN (connect(2)), which for TCP would mean a lack of local ports. The cause is the peer, so a
/// refusal is the nearest error.
pub(crate) fn connect_error(is_unix: bool, error: io::Error) -> io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::AGAIN) if is_unix => Errno::CONNREFUSED.into(),
        _ => error,
    }
}

/// Whether a failed connect means that this host lacks a resource, so that there was no attempt.
pub(crate) fn prevents_attempt(error: &io::Error) -> bool {
    matches!(Fault::of(error), Fault::NoDescriptor | Fault::NoAddress)
}

/// The error that the socket has stored (SO_ERROR). Reading it clears it.
pub(crate) fn pending_error(fd: &OwnedFd) -> Option<io::Error> {
    match rustix::net::sockopt::socket_error(fd) {
        Ok(Ok(())) => None,
        Ok(Err(errno)) | Err(errno) => Some(errno.into()),
    }
}

/// Whether there is something to receive or accept, without taking it.
pub(crate) fn is_readable(fd: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
}

/// Shuts down the sending direction. An error can only mean that the connection has ended, which
/// the owner learns in another way.
pub(crate) fn finish(fd: &OwnedFd) {
    let _ = rustix::net::shutdown(fd, Shutdown::Write);
}

/// Sends as many bytes as the kernel takes at once. An error can only mean that the connection has
/// ended.
pub(crate) fn send_now(fd: &OwnedFd, bytes: &[u8]) {
    let _ = send(fd, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

/// Has a close drop what the peer has not taken. A socket that refuses is closed as any other.
pub(crate) fn abandon(fd: &OwnedFd) {
    let _ = set_socket_linger(fd, Some(Duration::ZERO));
}

/// Bytes that the kernel has taken and the peer has not acknowledged (SIOCOUTQ: tcp(7), unix(7)). 0
/// if the kernel does not report it.
pub(crate) fn unacknowledged(fd: &OwnedFd) -> u64 {
    // SAFETY: SIOCOUTQ, which has the number of TIOCOUTQ, writes one int through the pointer that
    // `Getter` passes.
    let queued = unsafe { ioctl(fd, Getter::<{ libc::TIOCOUTQ as Opcode }, libc::c_int>::new()) };
    queued.map_or(0, |bytes| u64::try_from(bytes).unwrap_or(0))
}

pub(crate) fn peer_addr(fd: &OwnedFd) -> io::Result<SocketAddr> {
    let addr = getpeername(fd)?.ok_or(Errno::NOTCONN)?;
    Ok(SocketAddr::try_from(addr)?)
}

pub(crate) fn local_addr(fd: &OwnedFd) -> io::Result<SocketAddr> {
    Ok(SocketAddr::try_from(getsockname(fd)?)?)
}

/// Whether the kernel may hold back the last bytes of a send until what was sent before is
/// acknowledged (Nagle's algorithm, RFC 9293, section 3.7.4).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nagle {
    /// It may, and nothing was sent yet.
    Unused,
    /// It may, and one send has gone before it could matter.
    Used,
    /// It may not, or the socket has no such thing.
    Off,
}

impl Nagle {
    /// Makes `sending` leave at once. That costs a system call, which a connection that carries one
    /// short request can do without: with nothing unacknowledged before it, what fits into the
    /// smallest segment is not held back.
    pub(crate) fn before(&mut self, fd: &OwnedFd, sending: &Sending) {
        const SEGMENT_BYTES_MIN: usize = 536;
        let fits = !sending.has_file() && sending.head_left().len() <= SEGMENT_BYTES_MIN;
        match *self {
            Self::Off => {}
            Self::Unused if fits => *self = Self::Used,
            Self::Unused | Self::Used => {
                *self = Self::Off;
                // Only a socket that is not of TCP refuses, and that holds nothing back.
                let _ = set_tcp_nodelay(fd, true);
            }
        }
    }
}

/// About how many bytes of a file one system call sends: 15 pages. Connections take turns with such
/// chunks, of whole segments where they hold one; see bench/TRIED.md, "Chunks of 15 pages".
const FILE_CHUNK_BYTES: u64 = 60 << 10;

/// How many of `bytes`, which follow `head_bytes` and are followed by more, fill whole segments
/// with them; all of them if they do not fill one.
pub(crate) fn whole_segments(fd: &OwnedFd, head_bytes: u64, bytes: u64) -> u64 {
    fill(segment_bytes(fd).into(), head_bytes, bytes)
}

/// The bytes of a segment; 1 if the socket has none.
fn segment_bytes(fd: &OwnedFd) -> u16 {
    SockRef::from(fd).tcp_mss().map_or(1, |bytes| bytes.clamp(1, u16::MAX.into()) as u16)
}

/// How much of `bytes` to send behind a head so that the last segment is full; all of them if they
/// fill none.
///
/// # Panics
/// `segment_bytes` is 0.
pub fn fill(segment_bytes: u64, head_bytes: u64, bytes: u64) -> u64 {
    match (head_bytes + bytes) / segment_bytes * segment_bytes {
        whole if whole > head_bytes => whole - head_bytes,
        _ => bytes,
    }
}

/// A send under way.
pub(crate) struct Sending {
    head: SendBuf,
    span: Option<FileSpan>,
    head_sent: u32,
    /// The bytes of a segment; 0 until it was read from the kernel.
    segment_bytes: u16,
    /// The end of the stream follows at once.
    is_last: bool,
    /// The position of the span in its response.
    span_end: SpanEnd,
}

/// How far a send got.
pub(crate) enum Step {
    /// The kernel has all of it.
    Done,
    /// The socket's buffer is full.
    Full,
    /// A chunk has gone, the socket may take more.
    More,
}

impl Sending {
    pub(crate) fn bytes(head: SendBuf) -> Self {
        assert!(u32::try_from(head.len()).is_ok(), "what is sent from memory is not that large");
        Self { head, span: None, head_sent: 0, segment_bytes: 0, is_last: false, span_end: SpanEnd::MoreFollows }
    }

    /// Bytes with which the end of the stream may travel.
    pub(crate) fn last(bytes: SendBuf) -> Self {
        Self { is_last: true, ..Self::bytes(bytes) }
    }

    pub(crate) fn file(head: SendBuf, span: FileSpan, span_end: SpanEnd) -> Self {
        Self { span: Some(span).filter(|span| span.len > 0), span_end, ..Self::bytes(head) }
    }

    /// The bytes of the head that are still to be sent.
    pub(crate) fn head_left(&self) -> &[u8] {
        &self.head.as_slice()[self.head_sent as usize..]
    }

    /// Notes that `sent` more bytes of the head have gone.
    pub(crate) fn advance_head(&mut self, sent: usize) {
        self.head_sent += sent as u32;
        debug_assert!(self.head_sent as usize <= self.head.len(), "the kernel took more than it was given");
    }

    /// How many bytes are still to be sent.
    pub(crate) fn left(&self) -> u64 {
        self.head_left().len() as u64 + self.span.as_ref().map_or(0, |span| span.len)
    }

    /// Whether a file follows the head.
    pub(crate) fn has_file(&self) -> bool {
        self.span.is_some()
    }

    /// Whether what follows the head at once, the first bytes of a file or the end of the stream,
    /// should share a segment with it.
    pub(crate) fn goes_with_more(&self) -> bool {
        self.has_file() || self.is_last
    }

    /// Sends what the kernel takes now.
    pub(crate) fn step(&mut self, fd: &OwnedFd) -> io::Result<Step> {
        while !self.head_left().is_empty() {
            let more = if self.goes_with_more() { SendFlags::MORE } else { SendFlags::empty() };
            match send(fd, self.head_left(), SendFlags::NOSIGNAL | more) {
                Ok(sent) => self.advance_head(sent),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Step::Full),
                Err(errno) => return Err(errno.into()),
            }
        }
        self.step_file(fd)
    }

    fn step_file(&mut self, fd: &OwnedFd) -> io::Result<Step> {
        let Some(span) = &mut self.span else { return Ok(Step::Done) };
        let mut chunk = span.len;
        if chunk > FILE_CHUNK_BYTES {
            // The first one fills up the segment that the head has begun.
            let is_first = self.segment_bytes == 0;
            if is_first {
                self.segment_bytes = segment_bytes(fd);
            }
            let begun_bytes = if is_first { self.head_sent.into() } else { 0 };
            chunk = fill(self.segment_bytes.into(), begun_bytes, FILE_CHUNK_BYTES);
        }
        if chunk == span.len && self.span_end == SpanEnd::EndsResponse {
            span.file.ensure_unchanged()?;
        }
        match sendfile(fd, span.file.fd(), Some(&mut span.offset), chunk as usize) {
            // The file is shorter than it was.
            Ok(0) => Err(span.file.note_change(io::ErrorKind::UnexpectedEof)),
            Ok(sent) => {
                span.len -= sent as u64;
                Ok(if span.len == 0 { Step::Done } else { Step::More })
            }
            Err(Errno::INTR) => Ok(Step::More),
            Err(Errno::AGAIN) => Ok(Step::Full),
            Err(errno) => Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_socket_that_does_not_listen_is_no_listener() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(listens_at(&listener).unwrap(), PeerAddr::Tcp(address));
        assert!(listens_at(&TcpStream::connect(address).unwrap()).is_err());
        assert!(listens_at(&std::net::UdpSocket::bind(("127.0.0.1", 0)).unwrap()).is_err());
        assert!(listens_at(&std::fs::File::open("/dev/null").unwrap()).is_err());
    }

    #[test]
    fn parts_of_files_end_with_a_segment() {
        #[track_caller]
        fn check(segment: u64, head: u64, bytes: u64, expected: u64) {
            assert_eq!(fill(segment, head, bytes), expected, "{bytes} bytes behind {head} in segments of {segment}");
        }
        check(1000, 0, 3500, 3000);
        check(1000, 0, 3000, 3000);
        check(1000, 300, 3500, 2700);
        check(1000, 800, 3500, 3200);
        // A rest that fills no segment is sent as it is.
        check(1000, 0, 999, 999);
        check(1000, 1500, 400, 400);
        check(1, 300, 3500, 3500);
    }

    #[test]
    fn only_a_first_short_send_is_left_to_nagle() {
        #[track_caller]
        fn check(lengths: &[usize], set: bool) {
            let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
            let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let fd = OwnedFd::from(socket.try_clone().unwrap());
            let mut nagle = Nagle::Unused;
            for &len in lengths {
                nagle.before(&fd, &Sending::bytes(SendBuf::Owned(vec![0; len])));
            }
            assert_eq!(socket.nodelay().unwrap(), set, "{lengths:?}");
        }
        check(&[], false);
        check(&[100], false);
        check(&[536], false);
        check(&[537], true);
        check(&[100, 1], true);
        check(&[0, 100, 100], true);
    }
}
