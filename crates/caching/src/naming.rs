//! Names that are made of their content, so that they never stand for another one.

/// The shortest checksum in a name, in hexadecimal digits.
const CHECKSUM_DIGITS_MIN: usize = 32;

/// Whether a path names its content by a checksum: a file below a folder `by-hash` (archives of
/// Debian), or one whose name begins with a checksum (`repodata` of RPM).
#[must_use]
pub fn is_named_by_content(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or_default();
    let digits = file.bytes().take_while(u8::is_ascii_hexdigit).count();
    let ends = matches!(file.as_bytes().get(digits), None | Some(b'-' | b'.'));
    (digits >= CHECKSUM_DIGITS_MIN && ends) || path.split('/').rev().skip(1).any(|folder| folder == "by-hash")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_checksums() {
        let sum = "d41d8cd98f00b204e9800998ecf8427e";
        for path in [
            format!("dists/sid/main/by-hash/SHA256/{sum}"),
            "dists/sid/main/by-hash/SHA256/x".to_owned(),
            format!("repodata/{sum}-primary.xml.gz"),
            format!("{sum}.iso"),
        ] {
            assert!(is_named_by_content(&path), "{path}");
        }
        for path in [
            "dists/sid/InRelease".to_owned(),
            "repodata/repomd.xml".to_owned(),
            "by-hash".to_owned(),
            format!("{}.xml", &sum[1..]),
            format!("{sum}z"),
            "dists/by-hashes/a".to_owned(),
        ] {
            assert!(!is_named_by_content(&path), "{path}");
        }
    }
}
