//! The authority of a request: the value of Host, or the part of an absolute request target between
//! `//` and the path (RFC 3986, 3.2; RFC 9110, 7.2). It owns the syntax only; which hosts a server
//! answers for is the server's matter.

use std::net::Ipv6Addr;

use crate::fields::is_token_byte;

/// A fault in the Host of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostFault {
    /// An HTTP/1.1 request without Host (RFC 9112, 3.2: must be answered 400).
    #[error("Host is missing")]
    Missing,
    /// More than one Host line, even when they agree.
    #[error("Host is repeated")]
    Repeated,
    /// The value is no `host [ ":" port ]`.
    #[error("invalid Host")]
    Invalid,
}

/// Checks `uri-host [ ":" port ]` and gives it as text. An empty value is valid: RFC 9110, 7.2 has
/// a client send it when its target has no authority.
pub(crate) fn check(value: &[u8]) -> Option<&str> {
    let (host, port) = split_port(value)?;
    let host_is_valid = match host {
        [b'[', address @ .., b']'] => is_address(address),
        _ => is_registered_name(host),
    };
    if !host_is_valid || !port.iter().all(u8::is_ascii_digit) || (host.is_empty() && !port.is_empty()) {
        return None;
    }
    std::str::from_utf8(value).ok()
}

/// The authority of a request target in absolute form, or nothing when the target has no
/// `scheme://`.
pub(crate) fn of_absolute_target(target: &[u8]) -> Option<&[u8]> {
    let colon = target.iter().position(|&byte| byte == b':')?;
    let (scheme, rest) = target.split_at(colon);
    let after = rest.strip_prefix(b"://")?;
    if !is_scheme(scheme) {
        return None;
    }
    let end = after.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(after.len());
    Some(&after[..end])
}

/// RFC 3986, 3.1.
fn is_scheme(scheme: &[u8]) -> bool {
    scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme.iter().all(|&byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

/// Host and port; the colons of an address in brackets belong to the host.
fn split_port(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let host_end = if value.first() == Some(&b'[') {
        value.iter().position(|&byte| byte == b']')? + 1
    } else {
        value.iter().position(|&byte| byte == b':').unwrap_or(value.len())
    };
    match value.split_at(host_end) {
        (host, []) => Some((host, &[])),
        (host, [b':', port @ ..]) => Some((host, port)),
        _ => None,
    }
}

/// `reg-name` of RFC 3986, 3.2.2, which covers IPv4 addresses: unreserved, sub-delims and percent
/// escapes. `@` is neither, so user information is refused with it.
fn is_registered_name(mut name: &[u8]) -> bool {
    loop {
        match name {
            [] => return true,
            [b'%', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => name = rest,
            [byte, rest @ ..] if is_name_byte(*byte) => name = rest,
            _ => return false,
        }
    }
}

const fn is_name_byte(byte: u8) -> bool {
    // Token bytes are the unreserved ones and some more; of the others only sub-delims are wanted.
    (is_token_byte(byte) && !matches!(byte, b'#' | b'%' | b'^' | b'`' | b'|'))
        || matches!(byte, b'(' | b')' | b',' | b';' | b'=')
}

/// Whether this may stand in brackets (RFC 3986, 3.2.2): `IPv6address`, which has no zone, or `"v"
/// 1*HEXDIG "." 1*( unreserved / sub-delims / ":" )`, whose `v` may be a capital (2.1 of RFC 5234).
fn is_address(address: &[u8]) -> bool {
    match address {
        [b'v' | b'V', future @ ..] => {
            let digits = future.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            let is_rest_byte = |&byte: &u8| is_name_byte(byte) || byte == b':';
            let rest = future[digits..].strip_prefix(b".");
            digits > 0 && rest.is_some_and(|rest| !rest.is_empty() && rest.iter().all(is_rest_byte))
        }
        // The standard library reads exactly that grammar: four digits at most, no leading zeros in
        // an IPv4 tail, one `::`.
        _ => std::str::from_utf8(address).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn host_values() {
        for valid in [
            "",
            "a",
            "a:",
            "a:80",
            "example.org:8080",
            "127.0.0.1",
            "[::1]",
            "[::1]:80",
            "[v1.a:b]",
            "[VFf.a!$&'()*+,;=-._~:]:80",
            "[::]",
            "[::ffff:192.0.2.1]",
            "[1:2:3:4:5:6:7:8]",
            "[1:2:3:4:5:6:7::]",
            "[::2:3:4:5:6:7:8]",
            "[1:2:3:4:5:6:192.0.2.1]",
            "[2001:DB8::0001]:8080",
            "a_b-c.~d",
            "%41",
            "a!$&'()*+,;=b",
            "xn--nxasmq6b",
            "1.2.3.4.5",
            "a:0123456789",
        ] {
            assert_eq!(super::check(valid.as_bytes()), Some(valid));
        }
        for invalid in [
            "a b",
            "a,b c",
            ":80",
            "a:b",
            "a:80:90",
            "a:-1",
            "::1",
            "[::1",
            "::1]",
            "[]",
            "[::1]a",
            "[::1]80",
            "a/b",
            "a?b",
            "a#b",
            "u@a",
            "a\\b",
            "%4",
            "%zz",
            "a\tb",
            "a\"b",
            "<a>",
            "a^b",
            "a|b",
            "a`b",
            "\u{e9}",
            "[::1%25]]",
        ] {
            assert_eq!(super::check(invalid.as_bytes()), None, "{invalid}");
        }
    }

    #[test]
    fn brackets_hold_an_address_and_nothing_else() {
        for invalid in [
            "[zzz]",
            "[a]",
            "[:]",
            "[:::]",
            "[1:2:3:4:5:6:7]",
            "[1:2:3:4:5:6:7:8:9]",
            "[1:2:3:4:5:6:7:8::]",
            "[1::2::3]",
            "[12345::]",
            "[::g]",
            "[127.0.0.1]",
            "[::1.2.3]",
            "[::1.2.3.256]",
            "[::01.2.3.4]",
            "[fe80::1%eth0]",
            "[fe80::1%25eth0]",
            "[ ::1]",
            "[v1.]",
            "[v.a]",
            "[v1]",
            "[vg.a]",
            "[v1.a b]",
            "[v1.a%20]",
            "[v1.a/b]",
            "[w1.a]",
        ] {
            assert_eq!(super::check(invalid.as_bytes()), None, "{invalid}");
        }
    }

    #[test]
    fn authority_of_absolute_targets() {
        for (target, expected) in [
            ("http://a/b", Some("a")),
            ("http://a:80", Some("a:80")),
            ("x+y-z.1://a?b", Some("a")),
            ("http:///", Some("")),
            ("/http://a", None),
            ("http:/a", None),
            ("://a", None),
            ("a:80", None),
            ("*", None),
        ] {
            let found = super::of_absolute_target(target.as_bytes());
            assert_eq!(found, expected.map(str::as_bytes), "{target}");
        }
    }
}
