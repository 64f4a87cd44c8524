//! The kernel's socket diagnosis (sock_diag(7)): which sockets listen on a port, without having all
//! connections listed.
//!
//! A request and its responses have a fixed binary form, written and read here field by field; this
//! program needs nothing else of netlink.

use std::io;
use std::os::fd::OwnedFd;

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
const INODE_AT: usize = ANSWER_BYTES - 4;

/// More than the kernel puts into one datagram of a dump.
const DATAGRAM_BYTES: usize = 64 * 1024;

/// The inodes of the TCP sockets that listen on `port`, over IPv4 and IPv6.
///
/// # Errors
/// The kernel has no socket diagnosis, or it may not be used here.
pub(crate) fn listening(port: u16) -> io::Result<Vec<u32>> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(SOCK_DIAG))?;
    let mut inodes = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        sendto(&socket, &request(family as u8, port), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        read_answers(&socket, &mut inodes)?;
    }
    Ok(inodes)
}

fn request(family: u8, port: u16) -> [u8; REQUEST_BYTES] {
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    const LISTEN: u32 = 10;
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    let mut request = [0; REQUEST_BYTES];
    request[0..4].copy_from_slice(&(REQUEST_BYTES as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&flags.to_ne_bytes());
    request[16] = family;
    request[17] = libc::IPPROTO_TCP as u8;
    request[20..24].copy_from_slice(&(1u32 << LISTEN).to_ne_bytes());
    request[24..26].copy_from_slice(&port.to_be_bytes());
    request
}

fn read_answers(socket: &OwnedFd, inodes: &mut Vec<u32>) -> io::Result<()> {
    let mut datagram = vec![0; DATAGRAM_BYTES];
    loop {
        let (_, bytes) = recv(socket, &mut datagram[..], RecvFlags::empty())?;
        if bytes == 0 || read_datagram(&datagram[..bytes], inodes)? {
            return Ok(());
        }
    }
}

/// Takes the inodes out of one datagram; whether it is the last.
fn read_datagram(mut datagram: &[u8], inodes: &mut Vec<u32>) -> io::Result<bool> {
    let word = |bytes: &[u8], at: usize| bytes.get(at..at + 4).map(|word| u32::from_ne_bytes(word.try_into().unwrap()));
    let cut_short = || io::Error::from(io::ErrorKind::InvalidData);
    while !datagram.is_empty() {
        let len = word(datagram, 0).ok_or_else(cut_short)? as usize;
        if len < HEADER_BYTES || len > datagram.len() {
            return Err(cut_short());
        }
        let (message, rest) = datagram.split_at(len);
        match i32::from(u16::from_ne_bytes([message[4], message[5]])) {
            libc::NLMSG_DONE => return Ok(true),
            libc::NLMSG_ERROR => {
                let errno = word(message, HEADER_BYTES).ok_or_else(cut_short)?.cast_signed();
                return Err(io::Error::from_raw_os_error(if errno == 0 {
                    Errno::PROTO.raw_os_error()
                } else {
                    -errno
                }));
            }
            _ => inodes.push(word(message, INODE_AT).ok_or_else(cut_short)?),
        }
        // Messages are aligned to four bytes; the last one of a datagram need not be padded.
        datagram = rest.get(len.next_multiple_of(4) - len..).unwrap_or_default();
    }
    Ok(false)
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
        fn check(datagram: &[u8], expected: Option<(&[u32], bool)>) {
            let mut inodes = Vec::new();
            let last = read_datagram(datagram, &mut inodes);
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
        check(&[], Some((&[], false)));
        check(&socket, Some((&[77], false)));
        check(&[&socket[..], &socket, &done].concat(), Some((&[77, 77], true)));
        check(&message(libc::NLMSG_ERROR, 36), None);
        check(&socket[..ANSWER_BYTES - 1], None);
        check(&message(20, HEADER_BYTES), None);
        check(&[1, 0], None);
        check(&[0; 16], None);
    }
}
