//! Canonical names: the one form that all spellings of a path share, which is what objects are
//! looked up by.
//!
//! A name is relative and decoded, has no dot segments, and ends with a slash if a folder is meant.
//! The topmost folder is `/`.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode};
use thalweg_wire::target::{PathFault, relative_path};

use crate::content::refusal::Refusal;

/// Characters that are escaped where a name becomes the path of an address: all but the slash and
/// those that RFC 3986, 3.3 allows in a segment.
pub(crate) const PATH_ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@')
    .remove(b'/');

/// Writes the canonical form of a path into `name`.
pub(crate) fn canonical_name(path: &[u8], name: &mut Vec<u8>) -> Result<(), Refusal> {
    match relative_path(path, name) {
        Ok(shape) => {
            if shape.trailing_slash {
                name.push(b'/');
            }
            Ok(())
        }
        // No file name has a slash in it, so this is the name of nothing.
        Err(PathFault::EncodedSlash) => Err(Refusal::NotFound),
        Err(_) => Err(Refusal::Malformed),
    }
}

/// Writes the canonical form of a path with encoded slashes into `name`, with slashes in their
/// place: for rules and mounts, which then hold for whatever an origin takes the path for.
///
/// # Errors
/// The path is malformed, or has a dot segment, of which one cannot tell what an origin takes it
/// for.
pub(crate) fn name_with_slashes(path: &[u8], name: &mut Vec<u8>) -> Result<(), Refusal> {
    let mut slashed = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = memchr::memchr(b'%', rest) {
        slashed.extend_from_slice(&rest[..at]);
        let is_slash = rest[at..].len() > 2 && rest[at + 1..at + 3].eq_ignore_ascii_case(b"2f");
        slashed.extend_from_slice(if is_slash { b"/" } else { b"%" });
        rest = &rest[at + if is_slash { 3 } else { 1 }..];
    }
    slashed.extend_from_slice(rest);
    let mut decoded = percent_decode(&slashed).collect::<Vec<u8>>();
    decoded.iter_mut().filter(|byte| **byte == b'\\').for_each(|byte| *byte = b'/');
    if decoded.split(|&byte| byte == b'/').any(|segment| matches!(segment, b"." | b"..")) {
        return Err(Refusal::Malformed);
    }
    canonical_name(&slashed, name)
}

/// Whether a path has an encoded slash.
pub(crate) fn has_encoded_slash(path: &[u8]) -> bool {
    memchr::memchr_iter(b'%', path)
        .any(|at| path.get(at + 1..at + 3).is_some_and(|digits| digits.eq_ignore_ascii_case(b"2f")))
}

/// The folder of a file, with the slash at its end, and the file's name in it.
pub(crate) fn split(name: &[u8]) -> (&[u8], &[u8]) {
    name.split_at(name.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_slashes_count_as_slashes_and_lead_nowhere_else() {
        let cases: &[(&str, Result<&str, Refusal>)] = &[
            ("/a%2Fb", Ok("a/b")),
            ("/a%2fb%2f", Ok("a/b/")),
            ("/a/%2Fb", Ok("a/b")),
            ("/%2fa", Ok("a")),
            // Decoded once.
            ("/a%252Fb", Ok("a%2Fb")),
            ("/a%252F..b%2Fc", Ok("a%2F..b/c")),
            ("/a%2F..", Err(Refusal::Malformed)),
            ("/..%2Fa", Err(Refusal::Malformed)),
            ("/a%2f%2e%2E%2fb", Err(Refusal::Malformed)),
            ("/a/../b%2Fc", Err(Refusal::Malformed)),
            ("/a%2Fb/./c", Err(Refusal::Malformed)),
            ("/a%2Fb\\..\\c", Err(Refusal::Malformed)),
            ("/a%2Fb%5C..%5cc", Err(Refusal::Malformed)),
            ("/a%2Fb%00", Err(Refusal::Malformed)),
            ("/a%2Fb%2", Err(Refusal::Malformed)),
            ("/a%2Fb%zz", Err(Refusal::Malformed)),
        ];
        for (path, expected) in cases {
            let mut name = Vec::new();
            let result = name_with_slashes(path.as_bytes(), &mut name).map(|()| String::from_utf8(name).unwrap());
            assert_eq!(result.as_deref(), expected.as_ref().map(|name| *name), "{path}");
            assert_eq!(has_encoded_slash(path.as_bytes()), !path.starts_with("/a%252Fb"), "{path}");
        }
    }

    #[test]
    fn spellings_of_one_file_share_a_name() {
        let cases: &[(&str, Result<&str, Refusal>)] = &[
            ("/", Ok("/")),
            ("/.", Ok("/")),
            ("/a", Ok("a")),
            ("//a", Ok("a")),
            ("/%61", Ok("a")),
            ("/b/../a", Ok("a")),
            ("/a/", Ok("a/")),
            ("/a/.", Ok("a/")),
            ("/.hidden", Ok(".hidden")),
            ("/../a", Err(Refusal::Malformed)),
            ("/%2e%2e/a", Err(Refusal::Malformed)),
            ("/a%00", Err(Refusal::Malformed)),
            ("/a%2", Err(Refusal::Malformed)),
            ("/a%2f..", Err(Refusal::NotFound)),
        ];
        for (path, expected) in cases {
            let mut name = Vec::new();
            let result = canonical_name(path.as_bytes(), &mut name).map(|()| String::from_utf8(name).unwrap());
            assert_eq!(result.as_deref(), expected.as_ref().map(|name| *name), "{path}");
        }
    }
}
