//! The media types of files, by their names.
//!
//! The table is `mime_guess`'s. The entries here are of files that a mirror has, and that the table
//! lacks or has wrong, against what such files are today. Content is never looked at.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The type of a file of which nothing is known: browsers save it.
const UNKNOWN: &str = "application/octet-stream";

/// By extension, in lower case. Checked before the table.
const BY_EXTENSION: &[(&str, &str)] = &[
    ("adoc", "text/plain"),
    ("buildinfo", "text/plain"),
    ("changes", "text/plain"),
    ("cjs", "text/javascript"),
    ("ddeb", "application/vnd.debian.binary-package"),
    ("deb", "application/vnd.debian.binary-package"),
    ("diff", "text/plain"),
    ("drpm", "application/x-rpm"),
    ("dsc", "text/plain"),
    ("iso", "application/x-iso9660-image"),
    ("jsonl", "application/jsonl"),
    ("lzma", "application/x-lzma"),
    ("md5", "text/plain"),
    // RFC 9239 knows one name for JavaScript, and the modules among it are not run under another.
    ("mjs", "text/javascript"),
    ("narinfo", "text/x-nix-narinfo"),
    ("patch", "text/plain"),
    ("rpm", "application/x-rpm"),
    ("rst", "text/plain"),
    ("sha1", "text/plain"),
    ("sha256", "text/plain"),
    ("sha512", "text/plain"),
    ("udeb", "application/vnd.debian.binary-package"),
    ("zst", "application/zstd"),
    ("zsync", "application/x-zsync"),
];

/// Names without an extension that are text wherever they are met.
const TEXTS: &[&str] = &[
    "AUTHORS",
    "CHANGELOG",
    "CHANGES",
    "CHECKSUM",
    "COPYING",
    "CREDITS",
    "HACKING",
    "INSTALL",
    "InRelease",
    "LICENCE",
    "LICENSE",
    "MD5SUMS",
    "MIRRORS",
    "Makefile",
    "NEWS",
    "NOTICE",
    "README",
    "Release",
    "SHA1SUMS",
    "SHA256SUMS",
    "SHA512SUMS",
    "THANKS",
    "TODO",
];

/// The media type for a file name. Text is assumed to be UTF-8: without a charset, browsers guess a
/// legacy one. XML gets no charset, since it declares its own encoding, which the parameter would
/// override (RFC 7303, 3).
pub(crate) fn type_of(name: &[u8]) -> Cow<'static, str> {
    let path = Path::new(OsStr::from_bytes(name));
    let media_type = match path.extension() {
        Some(extension) => by_extension(extension).or_else(|| mime_guess::from_path(path).first_raw()),
        None => path.file_name().filter(|name| TEXTS.iter().any(|text| name == text)).map(|_| "text/plain"),
    };
    match media_type {
        Some(text) if text.starts_with("text/") && text != "text/xml" => Cow::Owned(format!("{text}; charset=utf-8")),
        Some(other) => Cow::Borrowed(other),
        None => Cow::Borrowed(UNKNOWN),
    }
}

fn by_extension(extension: &OsStr) -> Option<&'static str> {
    BY_EXTENSION.iter().find(|(known, _)| extension.eq_ignore_ascii_case(known)).map(|&(_, media_type)| media_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_follow_the_name() {
        for (name, expected) in [
            ("a.html", "text/html; charset=utf-8"),
            ("a/index.html", "text/html; charset=utf-8"),
            ("a.TXT", "text/plain; charset=utf-8"),
            ("a.png", "image/png"),
            ("a.tar.gz", "application/gzip"),
            ("a.tar.zst", "application/zstd"),
            ("a.xml", "text/xml"),
            ("a.RPM", "application/x-rpm"),
            ("a_1.0_amd64.deb", "application/vnd.debian.binary-package"),
            ("a.mjs", "text/javascript; charset=utf-8"),
            ("a.json", "application/json"),
            ("b/README", "text/plain; charset=utf-8"),
            ("SHA256SUMS", "text/plain; charset=utf-8"),
            ("README.d/a", "application/octet-stream"),
            ("letters", "application/octet-stream"),
            (".html", "application/octet-stream"),
            ("a.", "application/octet-stream"),
            ("a.\u{fffd}", "application/octet-stream"),
        ] {
            assert_eq!(type_of(name.as_bytes()), expected, "{name}");
        }
        assert_eq!(type_of(b"a.\xff"), UNKNOWN);
    }

    #[test]
    fn a_mention_of_a_default_contradicts_the_table() {
        for (extension, media_type) in BY_EXTENSION {
            assert_ne!(mime_guess::from_ext(extension).first_raw(), Some(*media_type), "{extension} is superfluous");
        }
        assert!(BY_EXTENSION.is_sorted() && TEXTS.is_sorted());
    }
}
