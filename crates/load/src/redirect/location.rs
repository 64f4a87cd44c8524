//! The target that a `Location` field names (RFC 3986, 5.2), if it is on the same host.
//!
//! Bytes that a target cannot have are escaped, as browsers do it. Escapes that are there already
//! stay as they are.

use thalweg_measure::trial::NotFollowed;

/// Scheme, host and port of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin<'a> {
    pub(super) is_tls: bool,
    pub(super) authority: &'a [u8],
}

/// Writes the target that `location` names, in the response to a request for `base`, over what
/// `out` holds.
pub(super) fn resolve(base: &[u8], location: &[u8], origin: Origin<'_>, out: &mut Vec<u8>) -> Result<(), NotFollowed> {
    out.clear();
    let location = location.trim_ascii();
    let reference = before(location, b'#');
    if location.is_empty() || reference.iter().any(u8::is_ascii_control) {
        return Err(NotFollowed::NoLocation);
    }
    let rest = match on_same_host(reference, origin)? {
        Some(rest) => {
            if !rest.starts_with(b"/") {
                out.push(b'/');
            }
            rest
        }
        None => {
            out.extend_from_slice(inherited(base, reference));
            reference
        }
    };
    rest.iter().for_each(|&byte| push_escaped(out, byte));
    if !out.starts_with(b"/") {
        // The base is of another form, `*` for example.
        return Err(NotFollowed::NoLocation);
    }
    remove_dot_segments(out);
    Ok(())
}

/// The part of a reference behind its authority; `None` if it names none.
fn on_same_host<'a>(reference: &'a [u8], origin: Origin<'_>) -> Result<Option<&'a [u8]>, NotFollowed> {
    let behind_scheme = match scheme(reference) {
        None => reference,
        Some(scheme) => {
            if !scheme.eq_ignore_ascii_case(if origin.is_tls { b"https" } else { b"http" }) {
                return Err(NotFollowed::OtherHost);
            }
            &reference[scheme.len() + 1..]
        }
    };
    let Some(behind) = behind_scheme.strip_prefix(b"//") else {
        let is_relative = behind_scheme.len() == reference.len();
        return if is_relative { Ok(None) } else { Err(NotFollowed::NoLocation) };
    };
    let end = behind.iter().position(|byte| b"/?".contains(byte)).unwrap_or(behind.len());
    let (authority, rest) = behind.split_at(end);
    let default_port: &[u8] = if origin.is_tls { b"443" } else { b"80" };
    let ours = host_and_port(origin.authority, default_port);
    let theirs = host_and_port(authority, default_port);
    if theirs.0.is_empty() {
        return Err(NotFollowed::NoLocation);
    }
    if !ours.0.eq_ignore_ascii_case(theirs.0) || ours.1 != theirs.1 {
        return Err(NotFollowed::OtherHost);
    }
    Ok(Some(rest))
}

/// The scheme that a reference begins with.
fn scheme(reference: &[u8]) -> Option<&[u8]> {
    let end = reference.iter().position(|byte| b":/?".contains(byte)).filter(|&end| reference[end] == b':')?;
    let scheme = &reference[..end];
    let is_one = scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte));
    is_one.then_some(scheme)
}

fn host_and_port<'a>(authority: &'a [u8], default_port: &'a [u8]) -> (&'a [u8], &'a [u8]) {
    let colon = authority.iter().rposition(|&byte| byte == b':');
    // The colons of an IPv6 address stand in brackets.
    match colon.filter(|&colon| !authority[colon..].contains(&b']')) {
        Some(colon) if colon + 1 == authority.len() => (&authority[..colon], default_port),
        Some(colon) => (&authority[..colon], &authority[colon + 1..]),
        None => (authority, default_port),
    }
}

/// The part of the base that a relative reference goes on from.
fn inherited<'a>(base: &'a [u8], reference: &[u8]) -> &'a [u8] {
    let path = before(base, b'?');
    match reference.first() {
        None => base,
        Some(b'/') => b"",
        Some(b'?') => path,
        Some(_) => path.iter().rposition(|&byte| byte == b'/').map_or(b"", |slash| &path[..=slash]),
    }
}

fn before(text: &[u8], mark: u8) -> &[u8] {
    text.iter().position(|&byte| byte == mark).map_or(text, |at| &text[..at])
}

fn push_escaped(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    if byte.is_ascii_graphic() {
        out.push(byte);
    } else {
        out.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

/// Removes the segments `.` and `..` from the path of a target, which begins with a slash (RFC
/// 3986, 5.2.4).
fn remove_dot_segments(target: &mut Vec<u8>) {
    let path_len = before(target, b'?').len();
    let (mut read, mut written) = (0, 0);
    while read < path_len {
        let end = target[read + 1..path_len].iter().position(|&byte| byte == b'/').map_or(path_len, |at| read + 1 + at);
        let is_parent = match &target[read + 1..end] {
            b"." => false,
            b".." => true,
            _ => {
                target.copy_within(read..end, written);
                written += end - read;
                read = end;
                continue;
            }
        };
        if is_parent {
            written = target[..written].iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        }
        if end == path_len {
            target[written] = b'/';
            written += 1;
        }
        read = end;
    }
    target.drain(written..path_len);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_from(authority: &str, is_tls: bool, base: &str, location: &str, expected: Result<&str, NotFollowed>) {
        let mut out = b"what was there".to_vec();
        let origin = Origin { is_tls, authority: authority.as_bytes() };
        let made = resolve(base.as_bytes(), location.as_bytes(), origin, &mut out);
        let made = made.map(|()| String::from_utf8(out).expect("targets are ASCII"));
        assert_eq!(made.as_deref().map_err(|why| *why), expected, "{location:?} from {base:?} at {authority}");
    }

    #[track_caller]
    fn check(location: &str, expected: &str) {
        check_from("h:8080", false, "/b/c/d;p?q", location, Ok(expected));
    }

    /// The examples of RFC 3986, 5.4.
    #[test]
    fn references_are_resolved() {
        for (location, expected) in [
            ("g", "/b/c/g"),
            ("./g", "/b/c/g"),
            ("g/", "/b/c/g/"),
            ("/g", "/g"),
            ("?y", "/b/c/d;p?y"),
            ("g?y", "/b/c/g?y"),
            ("#s", "/b/c/d;p?q"),
            ("g#s", "/b/c/g"),
            ("g?y#s", "/b/c/g?y"),
            (";x", "/b/c/;x"),
            (".", "/b/c/"),
            ("./", "/b/c/"),
            ("..", "/b/"),
            ("../", "/b/"),
            ("../g", "/b/g"),
            ("../..", "/"),
            ("../../g", "/g"),
            ("../../../g", "/g"),
            ("/./g", "/g"),
            ("/../g", "/g"),
            ("g.", "/b/c/g."),
            ("..g", "/b/c/..g"),
            ("./g/.", "/b/c/g/"),
            ("g/./h", "/b/c/g/h"),
            ("g/../h", "/b/c/h"),
            ("g;x=1/../y", "/b/c/y"),
            ("g?y/../x", "/b/c/g?y/../x"),
            ("//h:8080/x", "/x"),
            ("//h:8080?x", "/?x"),
            ("HTTP://H:8080", "/"),
            ("http://h:8080/a/../b?c#d", "/b?c"),
            ("/a b/\u{e9}%20", "/a%20b/%C3%A9%20"),
            ("  /x  ", "/x"),
            ("./a:b", "/b/c/a:b"),
        ] {
            check(location, expected);
        }
        check_from("h", false, "/", "x", Ok("/x"));
        check_from("h", false, "*", "/x", Ok("/x"));
    }

    #[test]
    fn only_the_same_scheme_host_and_port_are_followed() {
        use NotFollowed::{NoLocation, OtherHost};
        for (authority, is_tls, location, expected) in [
            ("h", false, "http://h:80/x", Ok("/x")),
            ("h:80", false, "http://h/x", Ok("/x")),
            ("h:", false, "http://h/x", Ok("/x")),
            ("h", true, "https://h:443/x", Ok("/x")),
            ("[::1]:81", false, "http://[::1]:81/x", Ok("/x")),
            ("[::1]", false, "http://[::1]/x", Ok("/x")),
            ("h", false, "https://h/x", Err(OtherHost)),
            ("h", true, "http://h/x", Err(OtherHost)),
            ("h", false, "http://h:81/x", Err(OtherHost)),
            ("h", false, "http://www.h/x", Err(OtherHost)),
            ("h", false, "//other", Err(OtherHost)),
            ("h", false, "http://user@h/x", Err(OtherHost)),
            ("[::1]", false, "http://[::2]/x", Err(OtherHost)),
            ("h", false, "ftp://h/x", Err(OtherHost)),
            ("h", false, "mailto:a@h", Err(OtherHost)),
            ("h", false, "", Err(NoLocation)),
            ("h", false, "   ", Err(NoLocation)),
            ("h", false, "http:x", Err(NoLocation)),
            ("h", false, "http:///x", Err(NoLocation)),
            ("h", false, "/a\u{1}b", Err(NoLocation)),
        ] {
            check_from(authority, is_tls, "/", location, expected);
        }
        check_from("h", false, "*", "x", Err(NoLocation));
    }
}
