//! Paths of requests: those that may go to an origin, and what they mean for a bucket.
//!
//! A path comes as on the wire: percent-encoded, beginning with a slash, with its query behind it.

use percent_encoding::percent_decode_str;

use crate::failure::{Failure, FailureKind};

/// A path without its query, and the query.
pub(crate) fn split_query(path: &str) -> (&str, Option<&str>) {
    match path.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (path, None),
    }
}

/// Refuses a path that is not absolute, that has bytes that a request line must not have, or that
/// has a dot segment in whatever encoding: behind the base of an origin it would lead out of it.
pub(crate) fn check(path: &str) -> Result<(), Failure> {
    let refuse = |reason: &str| Err(Failure::new(FailureKind::Request, format!("the path {reason}")));
    if !path.starts_with('/') {
        return refuse("does not begin with a slash");
    }
    if path.bytes().any(|byte| !matches!(byte, b'!'..=b'~') || byte == b'#') {
        return refuse("has bytes that have to be percent-encoded");
    }
    let (path, _) = split_query(path);
    // Some servers decode `%2f` and take a backslash for a slash.
    let decoded: Vec<u8> = percent_decode_str(path).collect();
    if decoded.split(|byte| matches!(byte, b'/' | b'\\')).any(|segment| matches!(segment, b"." | b"..")) {
        return refuse("has a dot segment");
    }
    Ok(())
}

/// The key of a path in a bucket, decoded once, without the first slash.
pub(crate) fn key(path: &str) -> Result<String, Failure> {
    let (path, _) = split_query(path);
    let decoded = percent_decode_str(path.trim_start_matches('/')).decode_utf8();
    let decoded = decoded.map_err(|_| Failure::new(FailureKind::Request, "the path is not UTF-8, and keys are"))?;
    if decoded.contains('\0') {
        return Err(Failure::new(FailureKind::Request, "the path has a NUL"));
    }
    Ok(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_lead_out_of_the_base_are_refused() {
        for path in ["/", "/a/b", "/a//b", "/a?b=../c", "/..a/b..", "/a%20b", "/...", "/a%2fb", "/%", "/a/"] {
            assert_eq!(check(path), Ok(()), "{path}");
        }
        for path in
            ["", "a", "/..", "/a/../b", "/./a", "/a/%2e%2E/b", "/.%2e", "/a%2f..%2fb", "/a\\..\\b", "/a b", "/ä", "/#"]
        {
            assert_eq!(check(path).unwrap_err().kind, FailureKind::Request, "{path}");
        }
    }

    #[test]
    fn keys_are_decoded_paths() {
        let kind = |path| key(path).map_err(|failure| failure.kind);
        for (path, expected) in [
            ("/a/b", Ok("a/b")),
            ("/a%20b+c?x=y", Ok("a b+c")),
            ("/%C3%A4", Ok("ä")),
            ("/", Ok("")),
            ("//a//b/", Ok("a//b/")),
            ("/%ff", Err(FailureKind::Request)),
            ("/%00", Err(FailureKind::Request)),
        ] {
            assert_eq!(kind(path), expected.map(str::to_owned), "{path}");
        }
    }
}
