//! The authority of a request: the value of Host, or the part of an absolute request target between `//` and the path
//! (RFC 3986, 3.2; RFC 9110, 7.2). It owns the syntax only; which hosts a server answers for is the server's matter.

use crate::fields::is_token_byte;

/// What is wrong with the Host of a request.
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

/// Checks `uri-host [ ":" port ]` and gives it as text. An empty value is valid: RFC 9110, 7.2 has a client send it
/// when its target has no authority.
pub(crate) fn check(value: &[u8]) -> Option<&str> {
    let (host, port) = split_port(value)?;
    let host_is_valid = match host {
        [b'[', address @ .., b']'] => !address.is_empty() && address.iter().all(|&byte| is_literal_byte(byte)),
        _ => is_registered_name(host),
    };
    if !host_is_valid || !port.iter().all(u8::is_ascii_digit) || (host.is_empty() && !port.is_empty()) {
        return None;
    }
    std::str::from_utf8(value).ok()
}

/// The authority of a request target in absolute form, or nothing when the target has no `scheme://`.
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

/// `reg-name` of RFC 3986, 3.2.2, which covers IPv4 addresses: unreserved, sub-delims and percent escapes. `@` is
/// neither, so user information is refused with it.
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

/// The bytes of an IPv6 or future address literal (RFC 3986, 3.2.2), without checking its groups.
const fn is_literal_byte(byte: u8) -> bool {
    is_name_byte(byte) || byte == b':'
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
