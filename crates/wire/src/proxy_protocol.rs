//! The PROXY protocol, versions 1 and 2: the header in front of a connection in which a proxy says
//! whose it is (HAProxy, doc/proxy-protocol.txt).
//!
//! The syntax alone is here. Whom to believe is the server's matter: anybody who can connect can
//! send such a header.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The statement of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// The connection is the proxy's own, as for a health check, or its client is of no kind that
    /// the header can name.
    Local,
    /// The connection is that of a client.
    Client {
        /// Its address; `None` for one on a Unix socket.
        address: Option<IpAddr>,
        /// It speaks TLS with the proxy.
        is_secure: bool,
    },
}

/// Input that begins with no PROXY header. There is nothing to answer to it: the connection is
/// closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no valid PROXY header: {0}")]
pub struct ProxyHeaderFault(pub &'static str);

/// Most bytes of a header. Version 1 has at most 107; what proxies add to version 2 comes to some
/// hundred.
pub const PROXY_HEADER_BYTES_MAX: usize = 4 << 10;

const V1_BEGINNING: &[u8] = b"PROXY ";
const V1_BYTES_MAX: usize = 107;
const V2_SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const V2_HEAD_BYTES: usize = 16;

/// The addition with what is known of TLS, and the bit in it for TLS itself.
const TLV_SSL: u8 = 0x20;
const CLIENT_SSL: u8 = 1;

/// The version of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyVersion {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

/// Appends the header of a client's connection between two addresses; without them, or where they
/// are of different families, that of a connection of the proxy's own.
pub fn write(version: ProxyVersion, addresses: Option<(SocketAddr, SocketAddr)>, out: &mut Vec<u8>) {
    let families = addresses.map(|(source, destination)| (source.ip(), destination.ip()));
    match version {
        ProxyVersion::V1 => {
            let family = match families {
                Some((IpAddr::V4(_), IpAddr::V4(_))) => "TCP4",
                Some((IpAddr::V6(_), IpAddr::V6(_))) => "TCP6",
                _ => return out.extend_from_slice(b"PROXY UNKNOWN\r\n"),
            };
            let Some((source, destination)) = addresses else { return };
            let (from, to) = (source.ip(), destination.ip());
            let line = format!("PROXY {family} {from} {to} {} {}\r\n", source.port(), destination.port());
            out.extend_from_slice(line.as_bytes());
        }
        ProxyVersion::V2 => {
            const LOCAL: u8 = 0x20;
            const PROXY: u8 = 0x21;
            out.extend_from_slice(V2_SIGNATURE);
            let mut body = Vec::new();
            let (command, family) = match families {
                Some((IpAddr::V4(from), IpAddr::V4(to))) => {
                    body.extend([from.octets(), to.octets()].concat());
                    (PROXY, 0x11)
                }
                Some((IpAddr::V6(from), IpAddr::V6(to))) => {
                    body.extend([from.octets(), to.octets()].concat());
                    (PROXY, 0x21)
                }
                _ => (LOCAL, 0),
            };
            if let Some((source, destination)) = addresses.filter(|_| command == PROXY) {
                body.extend([source.port().to_be_bytes(), destination.port().to_be_bytes()].concat());
            }
            out.extend([command, family, 0, body.len() as u8]);
            out.extend(body);
        }
    }
}

/// Reads the header that the input begins with: it, and its length. `None`: it is not whole yet.
///
/// # Errors
/// The input begins with something else.
pub fn read(input: &[u8]) -> Result<Option<(ProxyHeader, usize)>, ProxyHeaderFault> {
    let begins_with = |beginning: &[u8]| {
        let compared = input.len().min(beginning.len());
        input[..compared] == beginning[..compared]
    };
    if begins_with(V2_SIGNATURE) {
        read_v2(input)
    } else if begins_with(V1_BEGINNING) {
        read_v1(input)
    } else {
        Err(ProxyHeaderFault("the connection begins with something else"))
    }
}

/// `PROXY TCP4 192.0.2.1 198.51.100.1 56324 443`, and CRLF.
fn read_v1(input: &[u8]) -> Result<Option<(ProxyHeader, usize)>, ProxyHeaderFault> {
    let window = &input[..input.len().min(V1_BYTES_MAX)];
    let Some(end) = window.iter().position(|&byte| byte == b'\n') else {
        return if input.len() < V1_BYTES_MAX { Ok(None) } else { Err(ProxyHeaderFault("the line is too long")) };
    };
    let line = window[..end].strip_suffix(b"\r").ok_or(ProxyHeaderFault("a line without CR"))?;
    let line = str::from_utf8(line).map_err(|_| ProxyHeaderFault("the line is no text"))?;
    let mut words = line.split(' ').skip(1);
    let invalid = ProxyHeaderFault("invalid addresses");
    let family = words.next();
    if family == Some("UNKNOWN") {
        return Ok(Some((ProxyHeader::Local, end + 1)));
    }
    let mut address = || words.next().and_then(|word| word.parse::<IpAddr>().ok());
    let (source, destination) = address().zip(address()).ok_or(invalid)?;
    let is_family = match family {
        Some("TCP4") => source.is_ipv4() && destination.is_ipv4(),
        Some("TCP6") => source.is_ipv6() && destination.is_ipv6(),
        _ => return Err(ProxyHeaderFault("an unknown family")),
    };
    let ports: Vec<_> = words.by_ref().take(3).map(str::parse::<u16>).collect();
    if !is_family || ports.len() != 2 || ports.iter().any(Result::is_err) {
        return Err(invalid);
    }
    Ok(Some((ProxyHeader::Client { address: Some(source.to_canonical()), is_secure: false }, end + 1)))
}

fn read_v2(input: &[u8]) -> Result<Option<(ProxyHeader, usize)>, ProxyHeaderFault> {
    let Some((head, rest)) = input.split_first_chunk::<V2_HEAD_BYTES>() else { return Ok(None) };
    let [.., command, family, high, low] = *head;
    let len = usize::from(u16::from_be_bytes([high, low]));
    if V2_HEAD_BYTES + len > PROXY_HEADER_BYTES_MAX {
        return Err(ProxyHeaderFault("it is too long"));
    }
    let is_local = match command {
        0x20 => true,
        0x21 => false,
        _ => return Err(ProxyHeaderFault("an unknown version or command")),
    };
    let Some(block) = rest.get(..len) else { return Ok(None) };
    let bytes = V2_HEAD_BYTES + len;
    if is_local {
        return Ok(Some((ProxyHeader::Local, bytes)));
    }
    let short = ProxyHeaderFault("it is shorter than its addresses");
    let (address, addresses_len) = match family {
        // The sender knows of no address, or of none that it may tell.
        0x00 => return Ok(Some((ProxyHeader::Local, bytes))),
        0x11 | 0x12 => (Some(IpAddr::V4(Ipv4Addr::from(*block.first_chunk::<4>().ok_or(short)?))), 12),
        0x21 | 0x22 => (Some(IpAddr::V6(Ipv6Addr::from(*block.first_chunk::<16>().ok_or(short)?))), 36),
        0x31 | 0x32 => (None, 216),
        _ => return Err(ProxyHeaderFault("an unknown family")),
    };
    let additions = block.get(addresses_len..).ok_or(short)?;
    let address = address.map(|address| address.to_canonical());
    Ok(Some((ProxyHeader::Client { address, is_secure: says_tls(additions)? }, bytes)))
}

/// Whether the additions behind the addresses say that the client speaks TLS.
fn says_tls(mut additions: &[u8]) -> Result<bool, ProxyHeaderFault> {
    let mut is_secure = false;
    while let Some((&[kind, high, low], rest)) = additions.split_first_chunk::<3>() {
        let len = usize::from(u16::from_be_bytes([high, low]));
        let (value, behind) = rest.split_at_checked(len).ok_or(ProxyHeaderFault("an addition is cut off"))?;
        additions = behind;
        is_secure |= kind == TLV_SSL && value.first().is_some_and(|bits| bits & CLIENT_SSL != 0);
    }
    if additions.is_empty() { Ok(is_secure) } else { Err(ProxyHeaderFault("an addition is cut off")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str) -> ProxyHeader {
        ProxyHeader::Client { address: Some(address.parse().unwrap()), is_secure: false }
    }

    /// A header of version 2.
    fn v2(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
        let len = (block.len() as u16).to_be_bytes();
        [V2_SIGNATURE, &[command, family][..], &len, block].concat()
    }

    /// The header is read however it is cut, and what follows is left.
    #[track_caller]
    fn check(header: &[u8], expected: ProxyHeader) {
        for end in 0..header.len() {
            assert_eq!(read(&header[..end]), Ok(None), "{} of {}", end, header.escape_ascii());
        }
        let followed = [header, b"GET / HTTP/1.1\r\n"].concat();
        assert_eq!(read(&followed), Ok(Some((expected, header.len()))), "{}", header.escape_ascii());
    }

    #[test]
    fn version_1() {
        check(b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n", client("192.0.2.1"));
        check(b"PROXY TCP6 2001:db8::1 2001:db8::2 1 65535\r\n", client("2001:db8::1"));
        check(b"PROXY TCP6 ::ffff:192.0.2.1 ::ffff:198.51.100.1 1 2\r\n", client("192.0.2.1"));
        check(b"PROXY UNKNOWN\r\n", ProxyHeader::Local);
        check(b"PROXY UNKNOWN ffff::ffff ffff::1 65535 65535\r\n", ProxyHeader::Local);
        let faults: [&[u8]; 14] = [
            b"GET / HTTP/1.1\r\n",
            b"PROXX",
            b"PROXY\tTCP4",
            b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\n",
            b"PROXY TCP4 192.0.2.1 198.51.100.1 56324\r\n",
            b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 65536\r\n",
            b"PROXY TCP4 192.0.2.1 198.51.100.1 1 2 3\r\n",
            b"PROXY TCP4 192.0.2.1\r\n",
            b"PROXY TCP4 example.org 198.51.100.1 1 2\r\n",
            b"PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n",
            b"PROXY TCP6 192.0.2.1 198.51.100.1 1 2\r\n",
            b"PROXY TCP4  192.0.2.1 198.51.100.1 1 2\r\n",
            b"PROXY UDP4 192.0.2.1 198.51.100.1 1 2\r\n",
            b"PROXY \xff\r\n",
        ];
        for fault in faults {
            assert!(read(fault).is_err(), "{}", fault.escape_ascii());
        }
        assert_eq!(read(&[b"PROXY ", &[b'x'; 100][..]].concat()), Ok(None));
        assert!(read(&[b"PROXY ", &[b'x'; 101][..]].concat()).is_err(), "107 bytes without an end");
    }

    #[test]
    fn version_2() {
        let v4 = [192, 0, 2, 1, 198, 51, 100, 1, 0xdc, 4, 1, 0xbb];
        let v6 = [&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[1], &[0; 16], &[0, 1, 0, 2]].concat();
        check(&v2(0x21, 0x11, &v4), client("192.0.2.1"));
        check(&v2(0x21, 0x12, &v4), client("192.0.2.1"));
        check(&v2(0x21, 0x21, &v6), client("2001:db8::1"));
        check(&v2(0x21, 0x31, &[0; 216]), ProxyHeader::Client { address: None, is_secure: false });
        check(&v2(0x20, 0x00, &[]), ProxyHeader::Local);
        check(&v2(0x20, 0x11, &v4), ProxyHeader::Local);
        check(&v2(0x21, 0x00, b"anything"), ProxyHeader::Local);
        let with = |additions: &[u8]| v2(0x21, 0x11, &[&v4, additions].concat());
        check(&with(&[1, 0, 2, b'h', b'2']), client("192.0.2.1"));
        check(&with(&[TLV_SSL, 0, 5, 0, 0, 0, 0, 0]), client("192.0.2.1"));
        let secure = ProxyHeader::Client { address: Some([192, 0, 2, 1].into()), is_secure: true };
        check(&with(&[1, 0, 0, TLV_SSL, 0, 5, 1, 0, 0, 0, 0, 4, 0, 1, 9]), secure);
        for fault in [
            v2(0x11, 0x11, &v4),
            v2(0x22, 0x11, &v4),
            v2(0x21, 0x41, &v4),
            v2(0x21, 0x13, &v4),
            v2(0x21, 0x11, &v4[..11]),
            v2(0x21, 0x21, &v4),
            v2(0x21, 0x31, &[0; 215]),
            with(&[1, 0]),
            with(&[1, 0, 1]),
            [&V2_SIGNATURE[..], &[0x21, 0x11, 0xff, 0xff]].concat(),
        ] {
            assert!(read(&fault).is_err(), "{}", fault.escape_ascii());
        }
    }

    #[test]
    fn headers_that_are_written_are_read() {
        let pairs = [("10.0.0.1:1024", "10.0.0.2:80"), ("[::1]:65535", "[fe80::2]:443")];
        for version in [ProxyVersion::V1, ProxyVersion::V2] {
            for (source, destination) in pairs {
                let (source, destination): (SocketAddr, SocketAddr) =
                    (source.parse().unwrap(), destination.parse().unwrap());
                let mut header = Vec::new();
                write(version, Some((source, destination)), &mut header);
                let client = ProxyHeader::Client { address: Some(source.ip()), is_secure: false };
                assert_eq!(read(&header), Ok(Some((client, header.len()))), "{version:?}");
            }
            let mut header = Vec::new();
            write(version, None, &mut header);
            assert_eq!(read(&header), Ok(Some((ProxyHeader::Local, header.len()))), "{version:?}");
        }
        let mut line = Vec::new();
        write(ProxyVersion::V1, Some(("10.0.0.1:5".parse().unwrap(), "10.0.0.2:80".parse().unwrap())), &mut line);
        assert_eq!(line, b"PROXY TCP4 10.0.0.1 10.0.0.2 5 80\r\n");
    }
}
