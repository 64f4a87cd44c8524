//! The response to a client's condition that a stored response fulfils (RFC 9111, 4.3.2).

/// Whether a stored field goes along with a 304 (RFC 9110, 15.4.5). Age and Cache-Status are the
/// server's to add.
#[must_use]
pub fn is_sent_with_not_modified(name: &str) -> bool {
    const NAMES: [&str; 8] =
        ["cache-control", "cdn-cache-control", "content-location", "date", "etag", "expires", "last-modified", "vary"];
    NAMES.iter().any(|other| name.eq_ignore_ascii_case(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_304() {
        let check = |name, expected| assert_eq!(is_sent_with_not_modified(name), expected, "{name}");
        // RFC 9110, 15.4.5.
        for name in ["Cache-Control", "Content-Location", "Date", "ETag", "Expires", "Vary"] {
            check(name, true);
        }
        check("Content-Type", false);
        check("Content-Length", false);
    }
}
