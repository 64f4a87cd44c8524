//! Field lines: reading them by name, the list syntax with quoted strings, and the fields of a
//! stored response in the order in which they came.
//!
//! Nothing here knows what a field means, but for the fields that belong to a connection and are
//! never stored (RFC 9111, 3.1).

use std::borrow::Cow;

use thalweg_wire::{Fields, is_token_byte, trim_ows};

/// Field lines of a message, in the order in which they came.
pub trait FieldLines {
    /// All lines as name and value.
    fn lines(&self) -> impl Iterator<Item = (&str, &[u8])>;

    /// The values of all lines of that name, in whatever case.
    fn all(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.lines().filter(move |(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The value of the first line of that name.
    fn first(&self, name: &str) -> Option<&[u8]> {
        self.all(name).next()
    }

    /// Whether there is a line of that name.
    fn has(&self, name: &str) -> bool {
        self.first(name).is_some()
    }
}

impl FieldLines for Fields<'_> {
    fn lines(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.iter()
    }
}

/// Field lines that are kept: those of a stored response, or of a message that is forwarded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredFields {
    lines: Vec<(Box<str>, Box<[u8]>)>,
}

impl FieldLines for StoredFields {
    fn lines(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.lines.iter().map(|(name, value)| (&**name, &**value))
    }
}

impl StoredFields {
    /// The lines of a message that may be stored or forwarded: all but those of its connection.
    /// `excluded` names others, such as those that a response itself forbids to store.
    #[must_use]
    pub fn end_to_end(fields: &impl FieldLines, excluded: &[&str]) -> Self {
        let named = connection_options(fields);
        let is_kept = |name: &str| {
            !is_connection_field(name)
                && !named.iter().any(|other| other.eq_ignore_ascii_case(name.as_bytes()))
                && !excluded.iter().any(|other| other.eq_ignore_ascii_case(name))
        };
        let mut kept = Self::default();
        for (name, value) in fields.lines().filter(|(name, _)| is_kept(name)) {
            kept.push(name, value);
        }
        kept
    }

    /// Adds a line behind the others.
    pub fn push(&mut self, name: &str, value: &[u8]) {
        self.lines.push((name.into(), value.into()));
    }

    /// The same, without a copy if there is no spare room in these.
    pub fn push_owned(&mut self, name: String, value: Vec<u8>) {
        self.lines.push((name.into(), value.into()));
    }

    /// Removes all lines of that name.
    pub fn remove(&mut self, name: &str) {
        self.lines.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
    }

    /// Keeps the lines of the names that are to be kept.
    pub fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.lines.retain(|(name, _)| is_kept(name));
    }

    /// Takes over the fields of a newer response (RFC 9111, 3.2). A field takes the place of the
    /// old one of its name; new ones follow the old.
    ///
    /// Left as they are: the fields of the connection, and those that describe the stored bytes,
    /// which a response without content cannot change.
    pub fn update(&mut self, newer: &impl FieldLines) {
        let newer = Self::end_to_end(newer, &DESCRIBING_STORED_BYTES);
        let mut merged: Vec<(Box<str>, Box<[u8]>)> = Vec::with_capacity(self.lines.len() + newer.lines.len());
        for (name, value) in self.lines.drain(..) {
            if !newer.has(&name) {
                merged.push((name, value));
            } else if !merged.iter().any(|(other, _)| other.eq_ignore_ascii_case(&name)) {
                merged.extend(newer.lines.iter().filter(|(other, _)| other.eq_ignore_ascii_case(&name)).cloned());
            }
        }
        let old_count = merged.len();
        for (name, value) in newer.lines {
            if !merged[..old_count].iter().any(|(other, _)| other.eq_ignore_ascii_case(&name)) {
                merged.push((name, value));
            }
        }
        self.lines = merged;
    }
}

/// Fields that are about the bytes in the store (RFC 9111, 3.2). ETag is among them because an
/// update presumes that it is the same.
const DESCRIBING_STORED_BYTES: [&str; 5] =
    ["Content-Encoding", "Content-Length", "Content-MD5", "Content-Range", "ETag"];

/// Whether a field belongs to one connection, or to the proxy beside it, and is neither stored nor
/// forwarded (RFC 9110, 7.6.1; RFC 9111, 3.1). The fields that Connection names are further ones.
#[must_use]
pub fn is_connection_field(name: &str) -> bool {
    const NAMES: [&str; 11] = [
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "proxy-authenticate",
        "proxy-authentication-info",
        "proxy-authorization",
        "http2-settings",
    ];
    NAMES.iter().any(|other| name.eq_ignore_ascii_case(other))
}

/// The fields that Connection names.
fn connection_options(fields: &impl FieldLines) -> Vec<&[u8]> {
    fields.all("connection").flat_map(list_elements).collect()
}

/// The elements of a comma-separated list, trimmed. Commas in quoted strings do not separate; a
/// string without its end reaches to the end of the value. Empty elements are skipped.
pub(crate) fn list_elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut in_string, mut escaped) = (false, false);
    value
        .split(move |&byte| {
            let separates = byte == b',' && !in_string;
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'"' => in_string = !in_string,
                _ => {}
            }
            separates
        })
        .map(trim_ows)
        .filter(|element| !element.is_empty())
}

/// The text of a token or of a quoted string; `None` for anything else.
pub(crate) fn token_or_string(value: &[u8]) -> Option<Cow<'_, [u8]>> {
    let Some(inside) = value.strip_prefix(b"\"") else {
        return is_token(value).then_some(Cow::Borrowed(value));
    };
    let inside = inside.strip_suffix(b"\"")?;
    if !inside.iter().any(|byte| matches!(byte, b'\\' | b'"')) {
        return Some(Cow::Borrowed(inside));
    }
    let mut text = Vec::with_capacity(inside.len());
    let mut bytes = inside.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'\\' => text.push(*bytes.next()?),
            b'"' => return None,
            _ => text.push(byte),
        }
    }
    Some(Cow::Owned(text))
}

/// Whether the bytes are a token (RFC 9110, 5.6.2).
pub(crate) fn is_token(value: &[u8]) -> bool {
    !value.is_empty() && value.iter().all(|&byte| is_token_byte(byte))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Field lines from text, a line each. A test line is `Name: value`.
    pub(crate) fn fields(lines: &[&str]) -> StoredFields {
        let mut fields = StoredFields::default();
        for line in lines {
            let (name, value) = line.split_once(':').expect("a test line has a colon");
            fields.push(name, value.trim().as_bytes());
        }
        fields
    }

    /// The lines as text.
    pub(crate) fn shown(fields: &StoredFields) -> Vec<String> {
        fields.lines().map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value))).collect()
    }

    #[test]
    fn lists_with_quoted_strings() {
        let check = |value: &str, expected: &[&str]| {
            let elements: Vec<_> = list_elements(value.as_bytes()).map(String::from_utf8_lossy).collect();
            assert_eq!(elements, expected, "{value}");
        };
        check("", &[]);
        check(" , ,\t", &[]);
        check("a, b ,c", &["a", "b", "c"]);
        check("a=\"x, y\", b", &["a=\"x, y\"", "b"]);
        check("a=\"x\\\", y\", b", &["a=\"x\\\", y\"", "b"]);
        check("a=\"x, y", &["a=\"x, y"]);
        check("a\\, b", &["a\\", "b"]);
    }

    #[test]
    fn tokens_and_strings() {
        let check = |value: &str, expected: Option<&str>| {
            let text = token_or_string(value.as_bytes()).map(|text| String::from_utf8_lossy(&text).into_owned());
            assert_eq!(text.as_deref(), expected, "{value}");
        };
        check("60", Some("60"));
        check("\"60\"", Some("60"));
        check("\"a\\\"b\"", Some("a\"b"));
        check("\"\"", Some(""));
        check("", None);
        check("\"60", None);
        check("\"", None);
        check("\"a\\\"", None);
        check("\"a\"b\"", None);
        check(" 60", None);
    }

    #[test]
    fn fields_of_the_connection_are_not_stored() {
        let check = |lines: &[&str], excluded: &[&str], expected: &[&str]| {
            assert_eq!(shown(&StoredFields::end_to_end(&fields(lines), excluded)), expected, "{lines:?}");
        };
        // RFC 9111, 3.1; order and case are kept.
        check(&["B: 2", "a: 1", "B: 3"], &[], &["B: 2", "a: 1", "B: 3"]);
        check(&["Connection: x, Y", "X: 1", "y: 2", "Z: 3"], &[], &["Z: 3"]);
        check(&["connection: x", "Connection: y", "X: 1", "Y: 2"], &[], &[]);
        check(&["Keep-Alive: timeout=5", "TE: trailers", "Transfer-Encoding: chunked", "Upgrade: h2c"], &[], &[]);
        check(&["Proxy-Authenticate: Basic", "Proxy-Authentication-Info: a", "Proxy-Authorization: b"], &[], &[]);
        check(&["Proxy-Connection: close", "Trailer: Digest", "Set-Cookie: a=b"], &[], &["Set-Cookie: a=b"]);
        // 5.2.2.4 and 5.2.2.7: fields that no-cache and private name.
        check(&["A: 1", "B: 2"], &["a"], &["B: 2"]);
    }

    #[test]
    fn updates_keep_the_order() {
        let check = |stored: &[&str], newer: &[&str], expected: &[&str]| {
            let mut merged = fields(stored);
            merged.update(&fields(newer));
            assert_eq!(shown(&merged), expected, "{stored:?} by {newer:?}");
        };
        check(&["A: 1", "B: 2"], &["B: 3"], &["A: 1", "B: 3"]);
        check(&["A: 1", "B: 2"], &["C: 3", "A: 4"], &["A: 4", "B: 2", "C: 3"]);
        check(&["A: 1", "B: 2", "A: 3"], &["a: 4", "a: 5"], &["a: 4", "a: 5", "B: 2"]);
        check(&["A: 1"], &["B: 2", "B: 2"], &["A: 1", "B: 2", "B: 2"]);
        check(&["A: 1"], &["Connection: B", "B: 2", "TE: x"], &["A: 1"]);
        for line in ["Content-Encoding", "Content-Length", "Content-MD5", "Content-Range", "ETag"] {
            check(&[&format!("{line}: 1")], &[&format!("{line}: 2")], &[&format!("{line}: 1")]);
        }
        for line in ["Content-Type", "Content-Location", "Set-Cookie", "Expires", "X-Content-Foo", "Clear-Site-Data"] {
            check(&[&format!("{line}: 1")], &[&format!("{line}: 2")], &[&format!("{line}: 2")]);
        }
    }
}
