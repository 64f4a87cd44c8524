//! Names, sizes, dates and addresses as a listing shows them.
//!
//! A name is untrusted bytes. An address contains them exactly; the visible text contains nothing
//! active: no control character, no mark that changes the direction of writing.

use std::borrow::Cow;

use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use super::index::{Item, Kind};

/// All but what RFC 3986, 2.3 calls unreserved: whatever reads the address, nothing in it means
/// anything.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A character that stands for what cannot be shown.
const UNSHOWABLE: char = char::REPLACEMENT_CHARACTER;

/// The address of an entry, relative to its folder.
pub(super) fn address(item: Item<'_>) -> String {
    // A leading dash would be an option to programs that get the address; a colon could be taken
    // for a scheme's end.
    let prefix = if item.name.starts_with(b"-") || item.name.contains(&b':') { "./" } else { "" };
    let slash = if item.kind == Kind::Folder { "/" } else { "" };
    format!("{prefix}{}{slash}", percent_encode(item.name, ESCAPED))
}

/// The address of a file in the folder, or below it.
pub(super) fn path(name: &[u8]) -> String {
    let parts: Vec<_> =
        name.split(|&byte| byte == b'/').map(|part| percent_encode(part, ESCAPED).to_string()).collect();
    format!("./{}", parts.join("/"))
}

/// A name as text, safe to look at.
pub(super) fn shown(name: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(name);
    if text.chars().any(|char| visible(char) != char) { text.chars().map(visible).collect() } else { text }
}

fn visible(char: char) -> char {
    match char {
        // Unicode has pictures of the control characters in the same order.
        '\0'..='\x1f' => char::from_u32(0x2400 + u32::from(char)).unwrap_or(UNSHOWABLE),
        '\x7f' => '\u{2421}',
        '\u{80}'..='\u{9f}' => UNSHOWABLE,
        // Marks, embeddings, overrides and isolates of direction: `exe.fdp` must not look like
        // `pdf.exe`.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => UNSHOWABLE,
        // Ends of lines and paragraphs, and what has no width at all.
        '\u{2028}' | '\u{2029}' | '\u{200b}' | '\u{2060}' | '\u{feff}' => UNSHOWABLE,
        _ => char,
    }
}

/// The text in at most `width` characters; `None` if it has no more than that. The middle is left
/// out: the ends of names distinguish versions and types.
pub(super) fn shortened(text: &str, width: usize) -> Option<String> {
    // Room for a beginning, the ellipsis and an end.
    let width = if width == 0 { usize::MAX } else { width.max(5) };
    let chars = text.chars().count();
    if chars <= width {
        return None;
    }
    let end = (width - 1) / 3;
    let start = width - 1 - end;
    let at = |chars: usize| text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    Some(format!("{}…{}", &text[..at(start)], &text[at(chars - end)..]))
}

/// A number of bytes in decimal units: `512 B`, `14.0 KB`, `1.50 GB`.
pub(super) fn size(bytes: u64) -> String {
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1000.0;
    let mut units = ["KB", "MB", "GB", "TB", "PB", "EB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    // A value that would be rounded to 1000 belongs to the next unit.
    while value >= 999.5 {
        let Some(larger) = units.next() else { break };
        value /= 1000.0;
        unit = larger;
    }
    let decimals = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// A digest in hexadecimal digits.
pub(super) fn hex(digest: &[u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A number in full: `1,234,567`.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A second since 1970-01-01 UTC as RFC 3339 has it; `None` outside the years that it can write.
pub(super) fn instant(second: i64) -> Option<String> {
    let text = Timestamp::from_second(second).ok()?.to_string();
    // Years before 0 have a sign.
    (text.len() == "2026-01-31T23:59:59Z".len()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (name, kind, expected) in [
            (b"a.iso".as_slice(), Kind::File, "a.iso"),
            (b"sub", Kind::Folder, "sub/"),
            (b"with space", Kind::File, "with%20space"),
            (b"50%", Kind::File, "50%25"),
            (b"a?b#c&d", Kind::File, "a%3Fb%23c%26d"),
            (b"\"'<>\n", Kind::File, "%22%27%3C%3E%0A"),
            (b"javascript:alert(1)", Kind::File, "./javascript%3Aalert%281%29"),
            (b"-rf", Kind::File, "./-rf"),
            (b"a:b", Kind::Folder, "./a%3Ab/"),
            (b"\\\\host", Kind::File, "%5C%5Chost"),
            (b"\xff\xfe", Kind::File, "%FF%FE"),
            ("ä".as_bytes(), Kind::File, "%C3%A4"),
            (b"...", Kind::File, "..."),
        ] {
            let item = Item { name, kind, size: 0, modified_s: 0, digest: None };
            assert_eq!(address(item), expected, "{}", name.escape_ascii());
        }
    }

    #[test]
    fn names_are_shown_without_acting() {
        for (name, expected) in [
            (b"plain <b>".as_slice(), "plain <b>"),
            (b"line\nbreak\x1b[31m\x7f", "line␊break␛[31m␡"),
            ("fdp\u{202e}exe".as_bytes(), "fdp\u{fffd}exe"),
            ("\u{feff}a\u{200b}b\u{2028}".as_bytes(), "\u{fffd}a\u{fffd}b\u{fffd}"),
            (b"\xffa\xc3", "\u{fffd}a\u{fffd}"),
            ("שלום".as_bytes(), "שלום"),
        ] {
            assert_eq!(shown(name), expected);
        }
    }

    #[test]
    fn long_names_keep_both_ends() {
        for (text, width, expected) in [
            ("short", 0, None),
            ("short", 5, None),
            ("a-long-name.tar.gz", 18, None),
            ("a-long-name.tar.gz", 17, Some("a-long-name…ar.gz")),
            ("a-long-name.tar.gz", 10, Some("a-long….gz")),
            ("a-long-name.tar.gz", 1, Some("a-l…z")),
            ("äöüäöüäöü", 6, Some("äöüä…ü")),
        ] {
            let found = shortened(text, width);
            assert_eq!(found.as_deref(), expected, "{text} {width}");
            assert!(found.is_none_or(|found| found.chars().count() <= width.max(5)));
        }
    }

    #[test]
    fn sizes_have_three_digits() {
        for (bytes, expected) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 KB"),
            (14_336, "14.3 KB"),
            (99_949, "99.9 KB"),
            (999_499, "999 KB"),
            (999_500, "1.00 MB"),
            (4_700_000_000, "4.70 GB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(size(bytes), expected, "{bytes}");
        }
    }

    #[test]
    fn counts_have_separators() {
        for (number, expected) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), expected);
        }
    }

    #[test]
    fn instants_are_those_of_rfc_3339() {
        for (second, expected) in [
            (0, Some("1970-01-01T00:00:00Z")),
            (784_111_777, Some("1994-11-06T08:49:37Z")),
            (-1, Some("1969-12-31T23:59:59Z")),
            (253_402_207_200, Some("9999-12-30T22:00:00Z")),
            (-70_000_000_000, None),
            (i64::MAX, None),
            (i64::MIN, None),
        ] {
            assert_eq!(instant(second).as_deref(), expected, "{second}");
        }
    }
}
