//! The kernel's socket diagnosis (sock_diag(7)): which sockets listen on a port, and how its
//! connections fare, without having all connections of the host listed.
//!
//! A request and its responses have a fixed binary form, written and read here field by field; this
//! program needs nothing else of netlink.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::ControlFlow;

use rustix::io::Errno;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

/// `nlmsghdr`: length, type, flags, sequence number, port.
const HEADER_BYTES: usize = 16;
/// `inet_diag_req_v2`: family, protocol, extensions, padding, states, and a `inet_diag_sockid` of
/// 48 bytes.
const REQUEST_BYTES: usize = HEADER_BYTES + 8 + 48;
/// `inet_diag_msg`: four bytes, a `inet_diag_sockid`, then expiry, both queues, user and inode.
const ANSWER_BYTES: usize = HEADER_BYTES + 4 + 48 + 5 * 4;
const PORT_AT: usize = HEADER_BYTES + 4;
const ADDRESS_AT: usize = PORT_AT + 4;
const COOKIE_AT: usize = ADDRESS_AT + 36;
const RECEIVE_QUEUE_AT: usize = COOKIE_AT + 12;
const SEND_QUEUE_AT: usize = RECEIVE_QUEUE_AT + 4;
const INODE_AT: usize = ANSWER_BYTES - 4;

/// States of a TCP socket, as the kernel numbers them.
const ESTABLISHED: u32 = 1;
const LISTEN: u32 = 10;
/// The attribute that holds a `tcp_info`; the extension that asks for it is one less.
const INET_DIAG_INFO: u16 = 2;

/// More than the kernel puts into one datagram of a dump.
const DATAGRAM_BYTES: usize = 64 * 1024;

/// A TCP socket that listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListeningSocket {
    /// Its address.
    pub address: SocketAddr,
    /// Its inode, by which the processes that hold it are found.
    pub inode: u32,
    /// Connections that wait to be accepted.
    pub waiting: u32,
    /// How many may wait.
    pub backlog: u32,
}

/// An established TCP connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectedSocket {
    /// Identifies it for as long as this host runs.
    pub cookie: u64,
    /// Received bytes that the program has not read.
    pub unread_bytes: u32,
    /// Sent bytes that the peer has not acknowledged, those not sent yet included.
    pub unacknowledged_bytes: u32,
    /// The state of TCP.
    pub info: TcpInfo,
}

/// Fields of the kernel's `tcp_info`; those that a kernel lacks are 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpInfo {
    /// Smoothed round-trip time in microseconds.
    pub rtt_us: u32,
    /// The lowest round-trip time seen, in microseconds.
    pub rtt_min_us: u32,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Segments sent.
    pub segments_out: u32,
    /// Segments sent again.
    pub retransmitted: u32,
    /// Bytes in the send buffer that were not sent yet.
    pub unsent_bytes: u32,
    /// The newest measurement of the delivery rate, in bytes per second.
    pub delivery_rate: u64,
    /// Whether the program, not the path, limited that rate.
    pub app_limited: bool,
    /// Time with data in flight or ready to be sent, in microseconds.
    pub busy_us: u64,
    /// The part of it that waited for the peer's receive window.
    pub rwnd_limited_us: u64,
    /// The part of it that waited for room in the own send buffer.
    pub sndbuf_limited_us: u64,
}

/// The TCP sockets that listen on `port` (0: on any), over IPv4 and IPv6.
///
/// # Errors
/// The kernel has no socket diagnosis, or it may not be used here.
pub fn listening(port: u16) -> io::Result<Vec<ListeningSocket>> {
    let mut found = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        dump(&request(family as u8, port, LISTEN, false), |message| {
            found.push(listening_socket(message)?);
            Some(ControlFlow::Continue(()))
        })?;
    }
    Ok(found)
}

/// Up to `max` established connections whose local port is `port`, over IPv4 and IPv6, and whether
/// these are all. The kernel lists them in the order of its hash table, which is random.
///
/// # Errors
/// As for [`listening`].
pub fn established(port: u16, max: usize) -> io::Result<(Vec<ConnectedSocket>, bool)> {
    let mut found = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        let all = dump(&request(family as u8, port, ESTABLISHED, true), |message| {
            if found.len() == max {
                return Some(ControlFlow::Break(()));
            }
            found.push(connected_socket(message)?);
            Some(ControlFlow::Continue(()))
        })?;
        if !all {
            return Ok((found, false));
        }
    }
    Ok((found, true))
}

fn request(family: u8, port: u16, state: u32, with_info: bool) -> [u8; REQUEST_BYTES] {
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    let mut request = [0; REQUEST_BYTES];
    request[0..4].copy_from_slice(&(REQUEST_BYTES as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&flags.to_ne_bytes());
    request[16] = family;
    request[17] = libc::IPPROTO_TCP as u8;
    request[18] = if with_info { 1 << (INET_DIAG_INFO - 1) } else { 0 };
    request[20..24].copy_from_slice(&(1u32 << state).to_ne_bytes());
    request[24..26].copy_from_slice(&port.to_be_bytes());
    request
}

/// Sends a request and passes each message of the response to `each`, until it breaks off; whether
/// the response came to its end. The kernel makes the response as it is read, so that the rest
/// costs nothing.
fn dump(request: &[u8], mut each: impl FnMut(&[u8]) -> Option<ControlFlow<()>>) -> io::Result<bool> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(SOCK_DIAG))?;
    sendto(&socket, request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut datagram = vec![0; DATAGRAM_BYTES];
    loop {
        let (_, bytes) = recv(&socket, &mut datagram[..], RecvFlags::empty())?;
        match read_datagram(&datagram[..bytes], &mut each)? {
            End::Datagram if bytes > 0 => {}
            End::Datagram | End::Response => return Ok(true),
            End::Enough => return Ok(false),
        }
    }
}

/// The reason why the reading of a datagram has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// There are no more messages in it.
    Datagram,
    /// It held the end of the response.
    Response,
    /// The reader broke off.
    Enough,
}

/// Passes the messages of one datagram to `each`.
fn read_datagram(mut datagram: &[u8], each: &mut impl FnMut(&[u8]) -> Option<ControlFlow<()>>) -> io::Result<End> {
    let cut_short = || io::Error::from(io::ErrorKind::InvalidData);
    while !datagram.is_empty() {
        let len = word(datagram, 0).ok_or_else(cut_short)? as usize;
        if len < HEADER_BYTES || len > datagram.len() {
            return Err(cut_short());
        }
        let (message, rest) = datagram.split_at(len);
        match i32::from(u16::from_ne_bytes([message[4], message[5]])) {
            libc::NLMSG_DONE => return Ok(End::Response),
            libc::NLMSG_ERROR => {
                let errno = word(message, HEADER_BYTES).ok_or_else(cut_short)?.cast_signed();
                return Err(io::Error::from_raw_os_error(if errno == 0 {
                    Errno::PROTO.raw_os_error()
                } else {
                    -errno
                }));
            }
            _ => {
                if each(message).ok_or_else(cut_short)?.is_break() {
                    return Ok(End::Enough);
                }
            }
        }
        // Messages are aligned to four bytes; the last one of a datagram need not be padded.
        datagram = rest.get(len.next_multiple_of(4) - len..).unwrap_or_default();
    }
    Ok(End::Datagram)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn listening_socket(message: &[u8]) -> Option<ListeningSocket> {
    let port = u16::from_be_bytes(message.get(PORT_AT..PORT_AT + 2)?.try_into().ok()?);
    let ip = if i32::from(*message.get(HEADER_BYTES)?) == libc::AF_INET {
        IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(message.get(ADDRESS_AT..ADDRESS_AT + 4)?).ok()?))
    } else {
        IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(message.get(ADDRESS_AT..ADDRESS_AT + 16)?).ok()?))
    };
    Some(ListeningSocket {
        address: SocketAddr::new(ip, port),
        inode: word(message, INODE_AT)?,
        // Of a listener, the queues hold connections (ss(8)).
        waiting: word(message, RECEIVE_QUEUE_AT)?,
        backlog: word(message, SEND_QUEUE_AT)?,
    })
}

fn connected_socket(message: &[u8]) -> Option<ConnectedSocket> {
    Some(ConnectedSocket {
        cookie: long(message, COOKIE_AT)?,
        unread_bytes: word(message, RECEIVE_QUEUE_AT)?,
        unacknowledged_bytes: word(message, SEND_QUEUE_AT)?,
        info: tcp_info(attribute(message.get(ANSWER_BYTES..)?, INET_DIAG_INFO).unwrap_or_default()),
    })
}

/// The attribute of that type behind a message.
fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let len = usize::from(u16::from_ne_bytes(attributes.get(0..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(attributes.get(2..4)?.try_into().ok()?);
        let content = attributes.get(4..len)?;
        if kind == wanted {
            return Some(content);
        }
        attributes = attributes.get(len.next_multiple_of(4)..)?;
    }
}

/// Reads a `tcp_info` (linux/tcp.h), which has grown at its end from kernel to kernel.
fn tcp_info(info: &[u8]) -> TcpInfo {
    let word = |at| word(info, at).unwrap_or(0);
    let long = |at| long(info, at).unwrap_or(0);
    TcpInfo {
        app_limited: info.get(7).is_some_and(|bits| bits & app_limited_bit() != 0),
        rtt_us: word(68),
        cwnd: word(80),
        retransmitted: word(100),
        segments_out: word(136),
        unsent_bytes: word(144),
        rtt_min_us: word(148),
        delivery_rate: long(160),
        busy_us: long(168),
        rwnd_limited_us: long(176),
        sndbuf_limited_us: long(184),
    }
}

/// The first bit field of its byte, which lies at the other end on big-endian machines.
const fn app_limited_bit() -> u8 {
    if cfg!(target_endian = "big") { 0x80 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: i32, len: usize) -> Vec<u8> {
        let mut message = vec![0; len];
        message[0..4].copy_from_slice(&(len as u32).to_ne_bytes());
        message[4..6].copy_from_slice(&(kind as u16).to_ne_bytes());
        message
    }

    #[test]
    fn datagrams_are_read_to_their_end() {
        #[track_caller]
        fn check(datagram: &[u8], expected: Option<(&[u32], End)>) {
            let mut inodes = Vec::new();
            let last = read_datagram(datagram, &mut |message| {
                inodes.push(listening_socket(message)?.inode);
                Some(if inodes.len() == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            });
            match expected {
                Some((expected, last_expected)) => {
                    assert_eq!((inodes.as_slice(), last.unwrap()), (expected, last_expected));
                }
                None => assert!(last.is_err(), "{datagram:?}"),
            }
        }
        let mut socket = message(20, ANSWER_BYTES);
        socket[INODE_AT..].copy_from_slice(&77u32.to_ne_bytes());
        let done = message(libc::NLMSG_DONE, 20);
        check(&[], Some((&[], End::Datagram)));
        check(&socket, Some((&[77], End::Datagram)));
        check(&[&socket[..], &socket, &done].concat(), Some((&[77, 77], End::Response)));
        check(&[&socket[..], &socket, &socket, &[1, 0]].concat(), Some((&[77, 77, 77], End::Enough)));
        check(&message(libc::NLMSG_ERROR, 36), None);
        check(&socket[..ANSWER_BYTES - 1], None);
        check(&message(20, HEADER_BYTES), None);
        check(&[1, 0], None);
        check(&[0; 16], None);
    }

    #[test]
    fn a_tcp_info_of_an_older_kernel_lacks_only_what_it_lacks() {
        let mut info = [0u8; 104];
        info[68..72].copy_from_slice(&250u32.to_ne_bytes());
        info[100..104].copy_from_slice(&3u32.to_ne_bytes());
        let attributes = [&[8, 0, 9, 0, 1, 2, 3, 4][..], &[108, 0, 2, 0], &info].concat();
        let known = TcpInfo { rtt_us: 250, retransmitted: 3, ..TcpInfo::default() };
        assert_eq!(tcp_info(attribute(&attributes, INET_DIAG_INFO).unwrap()), known);
        assert_eq!(attribute(&attributes[..100], INET_DIAG_INFO), None, "cut short");
        assert_eq!(attribute(&[0; 8], INET_DIAG_INFO), None, "an attribute is no shorter than its head");
    }

    #[test]
    fn connections_of_a_port_are_listed_up_to_the_bound() {
        use std::io::Write;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut clients: Vec<_> = (0..3).map(|_| std::net::TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
        assert_eq!(listening(port).unwrap()[0].waiting, 3);
        let accepted: Vec<_> = (0..3).map(|_| listener.accept().unwrap()).collect();
        clients[0].write_all(b"1234567").unwrap();
        let (sockets, all) = established(port, 10).unwrap();
        assert_eq!((sockets.len(), all), (3, true));
        let mut unread: Vec<u32> = sockets.iter().map(|socket| socket.unread_bytes).collect();
        unread.sort_unstable();
        assert_eq!(unread, [0, 0, 7]);
        assert!(sockets.iter().all(|socket| socket.info.cwnd > 0 && socket.cookie != 0), "{sockets:?}");
        assert_eq!(established(port, 2).map(|(sockets, all)| (sockets.len(), all)).unwrap(), (2, false));
        let listening = listening(port).unwrap();
        assert_eq!((listening[0].address, listening[0].waiting), (listener.local_addr().unwrap(), 0));
        assert!(listening[0].backlog > 0);
        drop(accepted);
    }
}
