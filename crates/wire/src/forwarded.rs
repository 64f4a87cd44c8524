//! The fields in which proxies say for whom a request is: `Forwarded` (RFC 7239) and
//! `X-Forwarded-For`.
//!
//! Each proxy adds at the end whom it has the request from. So the end is to be believed if the
//! proxy is, and whatever is in front of it as far as the proxies are that the elements name:
//! anything in front of the first other address is what a client made up. Only the syntax and that
//! rule are here; which proxies are trusted is for the caller to say.

use std::net::IpAddr;

use crate::fields::{Fields, list_elements, trim_ows};

/// The field that names clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ClientField {
    /// `Forwarded`, an IETF standard.
    Forwarded,
    /// `X-Forwarded-For`, the usual one.
    #[default]
    XForwardedFor,
}

/// The client of a request, as proxies name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedClient {
    /// Its address. Mapped IPv4 addresses are those of IPv4.
    pub address: IpAddr,
    /// Whether it speaks TLS with its proxy, if that says so.
    pub is_secure: Option<bool>,
}

impl ClientField {
    /// The name of the field.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forwarded => "Forwarded",
            Self::XForwardedFor => "X-Forwarded-For",
        }
    }

    /// The client that a request of a trusted proxy is for: the last address that is none of a
    /// trusted proxy, or the first of all if there is no such one. Nothing in front of an element
    /// without an address is believed. `None`: the last element names nobody, or there is none.
    pub fn client(self, fields: Fields<'_>, is_trusted: impl Fn(IpAddr) -> bool) -> Option<NamedClient> {
        let mut client = None;
        let lines = fields.0.iter().rev().filter(|field| field.name.eq_ignore_ascii_case(self.name()));
        for element in lines.flat_map(|line| FromTheEnd { rest: Some(line.value), field: self }) {
            let (address, is_secure) = match self {
                Self::XForwardedFor => (address(element), None),
                Self::Forwarded => pairs(element),
            };
            let Some(address) = address else { break };
            client = Some(NamedClient { address, is_secure });
            if !is_trusted(address) {
                break;
            }
        }
        if self == Self::XForwardedFor
            && let Some(client) = &mut client
        {
            let scheme = fields.all("X-Forwarded-Proto").last().and_then(|line| list_elements(line).last());
            client.is_secure = scheme.and_then(is_secure);
        }
        client
    }
}

/// The elements of a line from its end on. Quoted strings are found from the end, too: a client
/// that begins one cannot hide in it what a proxy writes behind.
struct FromTheEnd<'a> {
    rest: Option<&'a [u8]>,
    field: ClientField,
}

impl<'a> Iterator for FromTheEnd<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            let line = self.rest?;
            let comma = match self.field {
                ClientField::XForwardedFor => line.iter().rposition(|&byte| byte == b','),
                ClientField::Forwarded => last_unquoted_comma(line),
            };
            self.rest = comma.map(|comma| &line[..comma]);
            let element = trim_ows(comma.map_or(line, |comma| &line[comma + 1..]));
            if !element.is_empty() {
                return Some(element);
            }
        }
    }
}

fn last_unquoted_comma(line: &[u8]) -> Option<usize> {
    let mut is_quoted = false;
    line.iter().enumerate().rposition(|(at, &byte)| {
        if byte == b'"' {
            let escapes = line[..at].iter().rev().take_while(|&&before| before == b'\\').count();
            is_quoted ^= escapes % 2 == 0;
        }
        byte == b',' && !is_quoted
    })
}

/// The text up to a semicolon outside of quoted strings, and what is behind that. `None`: a string
/// has no end.
fn split_pair(text: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b';' if !is_quoted => return Some((&text[..at], Some(&text[at + 1..]))),
            _ => {}
        }
    }
    (!is_quoted).then_some((text, None))
}

/// The address behind `for`, and whether `proto` says TLS, in an element of `Forwarded`. One that
/// repeats a parameter, or has a string without an end, has no address.
fn pairs(element: &[u8]) -> (Option<IpAddr>, Option<bool>) {
    let (mut node, mut scheme) = (None, None);
    let mut rest = Some(element);
    while let Some(text) = rest {
        let Some((pair, behind)) = split_pair(text) else { return (None, None) };
        rest = behind;
        let Some(equals) = pair.iter().position(|&byte| byte == b'=') else { continue };
        let (name, value) = (trim_ows(&pair[..equals]), trim_ows(&pair[equals + 1..]));
        let value = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value);
        let is_repeated = match name {
            _ if name.eq_ignore_ascii_case(b"for") => node.replace(value).is_some(),
            _ if name.eq_ignore_ascii_case(b"proto") => scheme.replace(value).is_some(),
            _ => false,
        };
        if is_repeated {
            return (None, None);
        }
    }
    (node.and_then(address), scheme.and_then(is_secure))
}

fn is_secure(scheme: &[u8]) -> Option<bool> {
    match scheme {
        _ if scheme.eq_ignore_ascii_case(b"https") => Some(true),
        _ if scheme.eq_ignore_ascii_case(b"http") => Some(false),
        _ => None,
    }
}

/// The address of a node: alone or with a port, an IPv6 address in brackets if it has one. Other
/// names, such as `unknown`, are none.
fn address(node: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(node).ok()?;
    let is_port = |text: &str| text.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    let address: IpAddr = if let Some(bracketed) = text.strip_prefix('[') {
        let (address, behind) = bracketed.split_once(']')?;
        if !behind.is_empty() && !is_port(behind) {
            return None;
        }
        IpAddr::V6(address.parse().ok()?)
    } else {
        match text.find(':') {
            // Some load balancers add the port.
            Some(colon) if is_port(&text[colon..]) => IpAddr::V4(text[..colon].parse().ok()?),
            _ => text.parse().ok()?,
        }
    };
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10.0.0.0/8 and fd00::/8 are trusted.
    fn is_trusted(address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => address.octets()[0] == 10,
            IpAddr::V6(address) => address.octets()[0] == 0xfd,
        }
    }

    fn client(field: ClientField, lines: &[(&str, &str)]) -> Option<NamedClient> {
        let lines: Vec<_> =
            lines.iter().map(|(name, value)| httparse::Header { name, value: value.as_bytes() }).collect();
        field.client(Fields(&lines), is_trusted)
    }

    #[test]
    fn x_forwarded_for_is_read_from_the_right() {
        let check = |lines: &[&str], expected: Option<&str>| {
            let fields: Vec<_> = lines.iter().map(|line| ("x-forwarded-for", *line)).collect();
            let named = client(ClientField::XForwardedFor, &fields).map(|client| client.address.to_string());
            assert_eq!(named.as_deref(), expected, "{lines:?}");
        };
        check(&[], None);
        check(&[""], None);
        check(&["192.0.2.1"], Some("192.0.2.1"));
        check(&[" 192.0.2.1\t,"], Some("192.0.2.1"));
        check(&["198.51.100.9, 192.0.2.1"], Some("192.0.2.1"));
        check(&["198.51.100.9, 192.0.2.1, 10.0.0.1"], Some("192.0.2.1"));
        check(&["198.51.100.9", "192.0.2.1", "10.0.0.1, fd00::1"], Some("192.0.2.1"));
        check(&["10.0.0.2, 10.0.0.1"], Some("10.0.0.2"));
        // A client can write in front whatever it likes.
        check(&["10.0.0.7, 192.0.2.1"], Some("192.0.2.1"));
        check(&["\"10.0.0.7, 192.0.2.1"], Some("192.0.2.1"));
        check(&["unknown, 192.0.2.1"], Some("192.0.2.1"));
        // A trusted proxy that does not know its client.
        check(&["198.51.100.9, unknown, 10.0.0.1"], Some("10.0.0.1"));
        check(&["192.0.2.1, unknown"], None);
        check(&["192.0.2.1:4711"], Some("192.0.2.1"));
        check(&["2001:db8::1"], Some("2001:db8::1"));
        check(&["[2001:db8::1]:4711"], Some("2001:db8::1"));
        check(&["::ffff:192.0.2.1"], Some("192.0.2.1"));
        check(&["::ffff:10.0.0.1, ::ffff:10.0.0.2"], Some("10.0.0.1"));
        for invalid in ["192.0.2.1:", "192.0.2.1:x", "192.0.2", "[2001:db8::1", "[192.0.2.1]", "[::1]x", "fe80::1%1"] {
            check(&[invalid], None);
        }
    }

    #[test]
    fn forwarded_is_read_from_the_right() {
        let check = |lines: &[&str], expected: Option<&str>| {
            let fields: Vec<_> = lines.iter().map(|line| ("forwarded", *line)).collect();
            let named = client(ClientField::Forwarded, &fields).map(|client| client.address.to_string());
            assert_eq!(named.as_deref(), expected, "{lines:?}");
        };
        check(&["for=192.0.2.1"], Some("192.0.2.1"));
        check(&["For=\"192.0.2.1\";by=203.0.113.43"], Some("192.0.2.1"));
        check(&["for=\"[2001:db8:cafe::17]:4711\""], Some("2001:db8:cafe::17"));
        check(&["for=198.51.100.9, for=192.0.2.1;proto=http, for=10.0.0.1"], Some("192.0.2.1"));
        check(&["for=198.51.100.9", "for=192.0.2.1", "for=\"[fd00::1]\""], Some("192.0.2.1"));
        check(&["for=198.51.100.9;x=\"a,b;for=10.0.0.9\" , for=192.0.2.1"], Some("192.0.2.1"));
        check(&["for=192.0.2.1, for=_hidden"], None);
        check(&["for=192.0.2.1, proto=https"], None);
        check(&["for=192.0.2.1, for=_hidden, for=10.0.0.1"], Some("10.0.0.1"));
        check(&["for=192.0.2.1;for=198.51.100.9"], None);
        // A string that a client has begun ends nowhere, and hides nothing.
        check(&["for=198.51.100.9;x=\", for=192.0.2.1"], Some("192.0.2.1"));
        check(&["for=198.51.100.9;x=\", for=\"[2001:db8::1]\""], Some("2001:db8::1"));
        check(&["for=198.51.100.9;x=\"\\, for=\"[2001:db8::1]\""], Some("2001:db8::1"));
        check(&["for=198.51.100.9;x=\", for=10.0.0.1"], Some("10.0.0.1"));
        check(&["for=192.0.2.1;x=\"a\\\", b\""], Some("192.0.2.1"));
    }

    #[test]
    fn proxies_tell_the_scheme() {
        let check = |field, lines: &[(&str, &str)], expected: Option<bool>| {
            assert_eq!(client(field, lines).unwrap().is_secure, expected, "{lines:?}");
        };
        check(
            ClientField::Forwarded,
            &[("forwarded", "for=192.0.2.1;proto=HTTPS, for=10.0.0.1;proto=http")],
            Some(true),
        );
        check(ClientField::Forwarded, &[("forwarded", "for=192.0.2.1"), ("x-forwarded-proto", "https")], None);
        let with = |scheme| [("x-forwarded-for", "192.0.2.1"), ("x-forwarded-proto", scheme)];
        check(ClientField::XForwardedFor, &with("https"), Some(true));
        check(ClientField::XForwardedFor, &with("https, http"), Some(false));
        check(ClientField::XForwardedFor, &with("wss"), None);
        check(ClientField::XForwardedFor, &with("")[..1], None);
    }
}
