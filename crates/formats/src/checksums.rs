//! Checksum files, as `sha256sum`, `shasum`, BSD's `sha256` and OpenSSL write them: finding the
//! digest of one file.
//!
//! The text is at hand as a whole; opening and bounding it is the caller's. Lines that are none of
//! these forms, such as a signature around the list, are skipped.

use std::borrow::Cow;
use std::collections::HashMap;

use thalweg_wire::digest::Algorithm;

/// Which files a checksum file is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// The files of its folder, by their names: `SHA256SUMS`.
    Folder,
    /// One file, whose name need not be there, and may have a path before it that it had elsewhere:
    /// `NAME.sha256`.
    OneFile,
}

/// The digest of the file `name`, which has no slash in it. `None` if it has none, or several that
/// differ: a wrong digest is worse than none.
#[must_use]
pub fn find(text: &[u8], name: &[u8], algorithm: Algorithm, scope: Scope) -> Option<Box<[u8]>> {
    let mut found: Option<&[u8]> = None;
    for line in text.split(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some((digits, of)) = parse(line, algorithm) else {
            continue;
        };
        let is_meant = match (of, scope) {
            (Some(of), Scope::Folder) => of.strip_prefix(b"./").unwrap_or(&of) == name,
            (Some(of), Scope::OneFile) => of.rsplit(|&byte| byte == b'/').next() == Some(name),
            (None, Scope::Folder) => false,
            (None, Scope::OneFile) => true,
        };
        match found {
            _ if !is_meant => {}
            Some(other) if !other.eq_ignore_ascii_case(digits) => return None,
            _ => found = Some(digits),
        }
    }
    found.map(from_hex)
}

/// The digests of all files of the list of a folder, by their names; `None` for a file with several
/// that differ. Files of other folders are left out.
#[must_use]
pub fn all(text: &[u8], algorithm: Algorithm) -> HashMap<Box<[u8]>, Option<Box<[u8]>>> {
    let mut digests: HashMap<Box<[u8]>, Option<Box<[u8]>>> = HashMap::new();
    for line in text.split(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some((digits, Some(of))) = parse(line, algorithm) else { continue };
        let name = of.strip_prefix(b"./").unwrap_or(&of);
        if name.contains(&b'/') {
            continue;
        }
        let digest = Some(from_hex(digits));
        let known = digests.entry(name.into()).or_insert_with(|| digest.clone());
        if *known != digest {
            *known = None;
        }
    }
    digests
}

/// The digits of a line, and the name that they are for, if it has one.
type Line<'t> = (&'t [u8], Option<Cow<'t, [u8]>>);

fn parse(line: &[u8], algorithm: Algorithm) -> Option<Line<'_>> {
    parse_tagged(line, algorithm).or_else(|| parse_listed(line, algorithm))
}

/// `DIGITS  name`, `DIGITS *name` or `DIGITS`. A backslash in front says that the name has escapes.
fn parse_listed(line: &[u8], algorithm: Algorithm) -> Option<Line<'_>> {
    let (is_escaped, line) = match line {
        [b'\\', line @ ..] => (true, line),
        _ => (false, line),
    };
    let (digits, rest) = line.split_at_checked(2 * algorithm.digest_bytes())?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    match rest {
        [] => Some((digits, None)),
        [b' ', b' ' | b'*', name @ ..] if !is_escaped => Some((digits, Some(Cow::Borrowed(name)))),
        [b' ', b' ' | b'*', name @ ..] => Some((digits, Some(Cow::Owned(unescape(name)?)))),
        _ => None,
    }
}

/// `SHA256 (name) = DIGITS` or, without the spaces around the parentheses, OpenSSL's form.
fn parse_tagged(line: &[u8], algorithm: Algorithm) -> Option<Line<'_>> {
    let rest = match algorithm {
        Algorithm::Sha256 => line.strip_prefix(b"SHA256").or_else(|| line.strip_prefix(b"SHA2-256")),
        Algorithm::Sha512 => line.strip_prefix(b"SHA512").or_else(|| line.strip_prefix(b"SHA2-512")),
    }?;
    let rest = rest.strip_prefix(b" ").unwrap_or(rest).strip_prefix(b"(")?;
    let (rest, digits) = rest.split_at_checked(rest.len().checked_sub(2 * algorithm.digest_bytes())?)?;
    let name = rest.strip_suffix(b") = ").or_else(|| rest.strip_suffix(b")= "))?;
    digits.iter().all(u8::is_ascii_hexdigit).then_some((digits, Some(Cow::Borrowed(name))))
}

/// Takes back what `sha256sum` escapes in names with backslashes and line ends.
fn unescape(name: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(name.len());
    let mut bytes = name.iter();
    while let Some(&byte) = bytes.next() {
        plain.push(match byte {
            b'\\' => match bytes.next()? {
                b'\\' => b'\\',
                b'n' => b'\n',
                b'r' => b'\r',
                _ => return None,
            },
            byte => byte,
        });
    }
    Some(plain)
}

fn from_hex(digits: &[u8]) -> Box<[u8]> {
    let value = |digit: u8| (digit as char).to_digit(16).map_or(0, |value| value as u8);
    digits.chunks_exact(2).map(|pair| value(pair[0]) << 4 | value(pair[1])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789abcdef";

    #[track_caller]
    fn check(text: &str, name: &str, scope: Scope, expected: Option<&str>) {
        let found = find(text.as_bytes(), name.as_bytes(), Algorithm::Sha256, scope);
        let shown = found.map(|digest| digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        assert_eq!(shown, expected.map(str::to_ascii_lowercase), "{name} in {text:?}");
    }

    #[test]
    fn all_of_a_list_are_those_that_are_found_one_by_one() {
        let text = format!(
            "{A}  other\n{B} *disk.iso\r\n{A}  sub/deep\n{A}  ./dotted\n{A}  two\n{B}  two\n{A}  same\n{A}  same\n\
             {A}\nSHA256 (tagged) = {B}\n\\{A}  line\\nend\n-----BEGIN PGP SIGNATURE-----\n"
        );
        let all = all(text.as_bytes(), Algorithm::Sha256);
        for name in ["other", "disk.iso", "dotted", "two", "same", "tagged", "line\nend"] {
            let found = find(text.as_bytes(), name.as_bytes(), Algorithm::Sha256, Scope::Folder);
            assert_eq!(all.get(name.as_bytes()), Some(&found), "{name}");
            assert_eq!(found.is_none(), name == "two", "{name}");
        }
        assert_eq!(all.len(), 7);
    }

    #[test]
    fn the_lists_of_folders() {
        let text = format!("{A}  other\n{B} *disk.iso\r\n{A}  sub/disk.iso\n");
        check(&text, "disk.iso", Scope::Folder, Some(B));
        check(&text, "other", Scope::Folder, Some(A));
        check(&text, "iso", Scope::Folder, None);
        check(&format!("{B}  ./a"), "a", Scope::Folder, Some(B));
        check(&format!("SHA256 (a b) = {B}\nSHA512 (c) = {B}"), "a b", Scope::Folder, Some(B));
        check(&format!("SHA2-256(a)= {B}"), "a", Scope::Folder, Some(B));
        check(&format!("-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n{B}  a\n"), "a", Scope::Folder, Some(B));
    }

    #[test]
    fn names_with_escapes() {
        check(&format!("\\{B}  a\\\\b\\nc"), "a\\b\nc", Scope::Folder, Some(B));
        check(&format!("{B}  a\\\\b"), "a\\\\b", Scope::Folder, Some(B));
        check(&format!("\\{B}  a\\x"), "ax", Scope::Folder, None);
        check(&format!("\\{B}  a\\"), "a", Scope::Folder, None);
    }

    #[test]
    fn a_list_of_one() {
        check(&format!("{B}\n"), "a", Scope::OneFile, Some(B));
        check(&format!("{B}  /build/out/a\n"), "a", Scope::OneFile, Some(B));
        check(&format!("SHA256 (a) = {B}"), "a", Scope::OneFile, Some(B));
        check(&format!("{B}  b\n"), "a", Scope::OneFile, None);
        check(&format!("{B}\n"), "a", Scope::Folder, None);
    }

    #[test]
    fn a_difference_between_counts_makes_a_trial_invalid() {
        check(&format!("{A}  a\n{B}  a"), "a", Scope::Folder, None);
        check(&format!("{B}  a\n{}  a", B.to_ascii_uppercase()), "a", Scope::Folder, Some(B));
    }

    #[test]
    fn invalid_digests() {
        for line in [
            "",
            "a",
            &B[1..],
            &format!("{}g  a", &B[1..]),
            &format!("{B}{B}  a"),
            &format!("{B} a"),
            &format!("{B}\ta"),
        ] {
            check(line, "a", Scope::Folder, None);
        }
        for line in ["SHA256 (a) = ", "SHA256 (a", &format!("SHA256 a = {B}"), &format!("SHA256 (a) {B}")] {
            check(line, "a", Scope::OneFile, None);
        }
    }
}
