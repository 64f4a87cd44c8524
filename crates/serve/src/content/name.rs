//! Canonical names: the one form that all spellings of a path share, which is what objects are
//! looked up by.
//!
//! A name is relative and decoded, has no dot segments, and ends with a slash if a folder is meant.
//! The topmost folder is `/`.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};
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

/// The folder of a file, with the slash at its end, and the file's name in it.
pub(crate) fn split(name: &[u8]) -> (&[u8], &[u8]) {
    name.split_at(name.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

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
