//! Media types that a client asks for by name (RFC 9110, 12.5.1).
//!
//! Only one question is answered: whether a client is one that shows pages. All others accept
//! `*/*`, or say nothing, and do not care.

use crate::coding::parse_quality;
use crate::fields::{list_elements, trim_ows};

/// The types of pages.
const PAGES: [&[u8]; 2] = [b"text/html", b"application/xhtml+xml"];

/// Whether the values of Accept name HTML, and do not refuse it. A wildcard does not name it:
/// browsers name it, programs do not.
#[must_use]
pub fn names_html<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> bool {
    values.into_iter().flat_map(list_elements).any(|element| {
        let mut parts = element.split(|&byte| byte == b';').map(trim_ows);
        let media_type = parts.next().unwrap_or_default();
        PAGES.iter().any(|page| media_type.eq_ignore_ascii_case(page)) && !parts.any(is_refusal)
    })
}

/// A weight of 0.
fn is_refusal(parameter: &[u8]) -> bool {
    matches!(parameter, [b'q' | b'Q', b'=', value @ ..] if parse_quality(value) == Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_name_html_and_programs_do_not() {
        for (values, expected) in [
            // Chromium, Firefox, lynx.
            (&["text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"][..], true),
            (&["text/html, text/plain, text/sgml, text/css, */*;q=0.01"], true),
            (&["TEXT/HTML;level=1 ; q=0.001"], true),
            (&["image/png", "application/xhtml+xml"], true),
            // curl, wget, lftp and rclone.
            (&["*/*"], false),
            (&[], false),
            (&[""], false),
            (&["text/*"], false),
            (&["text/html;q=0"], false),
            (&["text/html ;Q=0.000, */*"], false),
            (&["text/html;q=0, application/xhtml+xml"], true),
            (&["application/json", "text/htmlx, xtext/html"], false),
        ] {
            assert_eq!(names_html(values.iter().map(|value| value.as_bytes())), expected, "{values:?}");
        }
    }
}
