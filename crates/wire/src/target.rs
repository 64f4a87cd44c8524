//! Request targets (RFC 9112, 3.2), and the way from a target's path to a relative file path that
//! stays inside its root.
//!
//! Nothing here touches a file system; that the opened file is inside the root, despite links on
//! the way, is for the opener of the file to enforce. This module ensures that the name itself
//! cannot lead out.

use crate::authority;
use crate::method::Method;

/// A request target taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// `/path?query`: the usual form.
    Origin {
        /// From the first slash on, still percent-encoded.
        path: &'a [u8],
        /// The query behind the question mark, if there is one.
        query: Option<&'a [u8]>,
    },
    /// `scheme://authority/path?query`: the form for proxies, which every server must accept (RFC
    /// 9112, 3.2.2).
    Absolute {
        /// The scheme as sent.
        scheme: &'a str,
        /// Host and port as sent; the host is not empty.
        authority: &'a str,
        /// From the first slash on, still percent-encoded; `/` when the target has none.
        path: &'a [u8],
        /// The query behind the question mark, if there is one.
        query: Option<&'a [u8]>,
    },
    /// `host:port`: what CONNECT wants a tunnel to.
    Authority(&'a str),
    /// `*`: OPTIONS of the server as a whole.
    Asterisk,
}

/// Why a target means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetFault {
    /// It has none of the four forms, or one that its method does not take.
    #[error("request target has no form that its method takes")]
    Form,
    /// It has a fragment, which clients must not send (RFC 9110, 4.2.5).
    #[error("request target has a fragment")]
    Fragment,
    /// Its authority is malformed, without a host, or has user information (RFC 9110, 4.2.4).
    #[error("invalid authority in the request target")]
    Authority,
}

impl<'a> Target<'a> {
    /// Takes a target apart. Which forms are possible depends on the method.
    ///
    /// # Errors
    /// When the target has none of these forms; to be answered 400.
    #[inline]
    pub fn parse(method: Method<'_>, target: &'a [u8]) -> Result<Self, TargetFault> {
        if target.contains(&b'#') {
            return Err(TargetFault::Fragment);
        }
        match method {
            Method::Connect => match authority::check(target) {
                Some(authority) if has_host_and_port(authority) => Ok(Self::Authority(authority)),
                _ => Err(TargetFault::Authority),
            },
            Method::Options if target == b"*" => Ok(Self::Asterisk),
            _ if target.starts_with(b"/") => {
                let (path, query) = split_query(target);
                Ok(Self::Origin { path, query })
            }
            _ => Self::parse_absolute(target),
        }
    }

    fn parse_absolute(target: &'a [u8]) -> Result<Self, TargetFault> {
        let authority = authority::of_absolute_target(target).ok_or(TargetFault::Form)?;
        let scheme_bytes = target.iter().position(|&byte| byte == b':').ok_or(TargetFault::Form)?;
        let scheme = std::str::from_utf8(&target[..scheme_bytes]).map_err(|_| TargetFault::Form)?;
        let (path, query) = split_query(&target[scheme_bytes + "://".len() + authority.len()..]);
        match authority::check(authority) {
            Some(authority) if !authority.is_empty() && !authority.starts_with(':') => {
                Ok(Self::Absolute { scheme, authority, path: if path.is_empty() { b"/" } else { path }, query })
            }
            _ => Err(TargetFault::Authority),
        }
    }

    /// The path, of the forms that have one; still percent-encoded, beginning with a slash.
    #[must_use]
    pub const fn path(&self) -> Option<&'a [u8]> {
        match self {
            Self::Origin { path, .. } | Self::Absolute { path, .. } => Some(path),
            Self::Authority(_) | Self::Asterisk => None,
        }
    }

    /// The query, if there is one; still percent-encoded, without the question mark.
    #[must_use]
    pub const fn query(&self) -> Option<&'a [u8]> {
        match self {
            Self::Origin { query, .. } | Self::Absolute { query, .. } => *query,
            Self::Authority(_) | Self::Asterisk => None,
        }
    }
}

fn split_query(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    match target.iter().position(|&byte| byte == b'?') {
        Some(mark) => (&target[..mark], Some(&target[mark + 1..])),
        None => (target, None),
    }
}

fn has_host_and_port(authority: &str) -> bool {
    authority.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// The properties of a path beside its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathShape {
    /// Whether it ends in a slash or a dot segment, and so means a directory.
    pub trailing_slash: bool,
}

/// Why a path names no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathFault {
    /// It does not begin with a slash.
    #[error("path does not begin with a slash")]
    NotAbsolute,
    /// A percent sign without two hexadecimal digits behind it.
    #[error("invalid percent escape in the path")]
    InvalidEscape,
    /// An encoded slash: as a name it cannot exist, as a separator it would bypass earlier checks
    /// of the path.
    #[error("encoded slash in the path")]
    EncodedSlash,
    /// A NUL, at which the system would cut the name off.
    #[error("NUL in the path")]
    Nul,
    /// A `..` above the root. RFC 3986, 5.2.4 would drop it; no well-behaved client sends it.
    #[error("path climbs above the root")]
    AboveRoot,
}

/// Writes a target's path into `out` as a relative file path such as `a/b/c`: decoded once, without
/// dot segments and without empty segments. The root itself is an empty path. On an error `out` is
/// empty.
///
/// Dot segments are removed after decoding, so `%2e%2e` is `..`. Bytes other than NUL are left as
/// they decode, valid UTF-8 or not: a name is what the file system says it is.
///
/// # Errors
/// When the path names no file; to be answered 400, or 404 so as to tell less.
pub fn relative_path(path: &[u8], out: &mut Vec<u8>) -> Result<PathShape, PathFault> {
    out.clear();
    let shape = push_segments(path, out);
    match shape {
        Ok(_) => {
            // A `..` takes back an empty segment as well as another (RFC 3986, 5.2.4), hence only
            // now.
            out.dedup_by(|byte, before| *byte == b'/' && *before == b'/');
            if out.first() == Some(&b'/') {
                out.remove(0);
            }
            if out.last() == Some(&b'/') {
                out.pop();
            }
        }
        Err(_) => out.clear(),
    }
    shape
}

/// Writes each segment with a slash behind it.
fn push_segments(path: &[u8], out: &mut Vec<u8>) -> Result<PathShape, PathFault> {
    let segments = path.strip_prefix(b"/").ok_or(PathFault::NotAbsolute)?;
    let mut trailing_slash = false;
    for segment in segments.split(|&byte| byte == b'/') {
        let start = out.len();
        push_decoded(segment, out)?;
        trailing_slash = matches!(&out[start..], b"" | b"." | b"..");
        match &out[start..] {
            b"." => out.truncate(start),
            b".." => {
                out.truncate(start);
                out.pop().ok_or(PathFault::AboveRoot)?;
                let parent = out.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
                out.truncate(parent);
            }
            name if name.contains(&0) => return Err(PathFault::Nul),
            _ => out.push(b'/'),
        }
    }
    Ok(PathShape { trailing_slash })
}

/// Decodes the percent escapes of one segment, once.
fn push_decoded(mut segment: &[u8], out: &mut Vec<u8>) -> Result<(), PathFault> {
    while let Some(percent) = segment.iter().position(|&byte| byte == b'%') {
        out.extend_from_slice(&segment[..percent]);
        let [high, low, rest @ ..] = &segment[percent + 1..] else {
            return Err(PathFault::InvalidEscape);
        };
        let byte = hex_digit(*high).zip(hex_digit(*low)).map(|(high, low)| high << 4 | low);
        match byte.ok_or(PathFault::InvalidEscape)? {
            b'/' => return Err(PathFault::EncodedSlash),
            byte => out.push(byte),
        }
        segment = rest;
    }
    out.extend_from_slice(segment);
    Ok(())
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: Method<'_>, target: &str, expected: Result<Target<'_>, TargetFault>) {
        assert_eq!(Target::parse(method, target.as_bytes()), expected, "{method:?} {target}");
    }

    /// Turns a path into a relative one; a slash at the end of what is expected stands for the
    /// trailing slash.
    fn check_path(path: &str, expected: Result<&[u8], PathFault>) {
        let mut out = b"left over".to_vec();
        let shape = relative_path(path.as_bytes(), &mut out);
        if shape.is_ok_and(|shape| shape.trailing_slash) {
            out.push(b'/');
        }
        match expected {
            Ok(expected) => assert_eq!(out.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{path}"),
            Err(_) => assert!(out.is_empty(), "{path} left something"),
        }
        assert_eq!(shape.err(), expected.err(), "{path}");
    }

    #[test]
    fn forms() {
        let origin = |path: &'static [u8], query| Ok(Target::Origin { path, query });
        check(Method::Get, "/", origin(b"/", None));
        check(Method::Get, "/a/b?", origin(b"/a/b", Some(b"")));
        check(Method::Get, "/a?b?c/d", origin(b"/a", Some(b"b?c/d")));
        check(Method::Get, "//host/a", origin(b"//host/a", None));
        check(Method::Options, "*", Ok(Target::Asterisk));
        check(Method::Connect, "example.org:443", Ok(Target::Authority("example.org:443")));
        check(Method::Connect, "[::1]:443", Ok(Target::Authority("[::1]:443")));
        let absolute = |scheme, authority, path: &'static [u8], query: Option<&'static [u8]>| {
            Ok(Target::Absolute { scheme, authority, path, query })
        };
        check(Method::Get, "http://a.example:8080/b?c", absolute("http", "a.example:8080", b"/b", Some(b"c")));
        check(Method::Get, "HTTP://a", absolute("HTTP", "a", b"/", None));
        check(Method::Get, "http://a?b", absolute("http", "a", b"/", Some(b"b")));
        check(Method::Options, "http://[::1]/", absolute("http", "[::1]", b"/", None));
    }

    #[test]
    fn forms_of_other_methods_and_malformed_ones() {
        check(Method::Get, "*", Err(TargetFault::Form));
        check(Method::Get, "", Err(TargetFault::Form));
        check(Method::Get, "a/b", Err(TargetFault::Form));
        check(Method::Get, "example.org:443", Err(TargetFault::Form));
        check(Method::Get, "http:/a", Err(TargetFault::Form));
        check(Method::Get, "1http://a/", Err(TargetFault::Form));
        check(Method::Get, "/a#b", Err(TargetFault::Fragment));
        check(Method::Get, "http://a/#", Err(TargetFault::Fragment));
        check(Method::Get, "http:///a", Err(TargetFault::Authority));
        check(Method::Get, "http://:80/a", Err(TargetFault::Authority));
        check(Method::Get, "http://user@a/", Err(TargetFault::Authority));
        check(Method::Get, "http://a:b/", Err(TargetFault::Authority));
        check(Method::Connect, "/", Err(TargetFault::Authority));
        check(Method::Connect, "example.org", Err(TargetFault::Authority));
        check(Method::Connect, "example.org:", Err(TargetFault::Authority));
        check(Method::Connect, "[::1]", Err(TargetFault::Authority));
    }

    #[test]
    fn paths() {
        check_path("/", Ok(b"/"));
        check_path("/a", Ok(b"a"));
        check_path("/a/b/c", Ok(b"a/b/c"));
        check_path("/a/", Ok(b"a/"));
        check_path("/a%20b/%C3%a9", Ok(b"a b/\xc3\xa9"));
        check_path("/%c0%af", Ok(b"\xc0\xaf"));
        check_path("/a%3Fb%23", Ok(b"a?b#"));
        check_path("/a+b", Ok(b"a+b"));
        check_path("/a\\..\\b", Ok(b"a\\..\\b"));
        check_path("/...", Ok(b"..."));
        check_path("/.a/..b", Ok(b".a/..b"));
    }

    #[test]
    fn dot_segments() {
        check_path("/.", Ok(b"/"));
        check_path("/a/.", Ok(b"a/"));
        check_path("/a/./b", Ok(b"a/b"));
        check_path("/a/..", Ok(b"/"));
        check_path("/a/b/..", Ok(b"a/"));
        check_path("/a/b/../c", Ok(b"a/c"));
        check_path("/a/b/../../c/", Ok(b"c/"));
        check_path("/a/%2e%2E/b", Ok(b"b"));
        check_path("/a/.%2e/b", Ok(b"b"));
        check_path("/a/%2e/b", Ok(b"a/b"));
        check_path("/%252e%252e/a", Ok(b"%2e%2e/a"));
    }

    #[test]
    fn empty_segments() {
        check_path("//", Ok(b"/"));
        check_path("//a", Ok(b"a"));
        check_path("/a//b", Ok(b"a/b"));
        check_path("/a//", Ok(b"a/"));
        check_path("/a//../b", Ok(b"a/b"));
        check_path("//../a", Ok(b"a"));
    }

    #[test]
    fn refused_paths() {
        for path in ["/..", "/../a", "/a/../..", "/a/../../b", "/%2e%2e", "/a/%2e%2e/.%2e", "/./.."] {
            check_path(path, Err(PathFault::AboveRoot));
        }
        for path in ["/a%2Fb", "/a%2f", "/..%2f.."] {
            check_path(path, Err(PathFault::EncodedSlash));
        }
        for path in ["/%", "/%4", "/%zz", "/%4/1", "/a%+1", "/%%41"] {
            check_path(path, Err(PathFault::InvalidEscape));
        }
        check_path("/a%00.html", Err(PathFault::Nul));
        check_path("/\0", Err(PathFault::Nul));
        check_path("", Err(PathFault::NotAbsolute));
        check_path("a", Err(PathFault::NotAbsolute));
    }
}
