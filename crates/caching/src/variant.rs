//! Vary, and the secondary key that tells the variants of one URI apart (RFC 9111, 4.1).
//!
//! The key has the values of the nominated request fields in a normal form, so that requests that
//! mean the same have the same key. Choosing among stored responses is `decision`'s.

use thalweg_wire::trim_ows;

use crate::fields::{FieldLines, is_token, list_elements};

/// The request fields that a response depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vary {
    /// The response depends on these fields: names in lower case, sorted, none twice. Usually none.
    Fields(Vec<Box<str>>),
    /// The response depends on more than fields (`*`): no request matches it, but it can be
    /// validated.
    Everything,
}

impl Vary {
    /// Reads all Vary fields of a response. A member that is no field name is read as `*`.
    #[must_use]
    pub fn of(fields: &impl FieldLines) -> Self {
        let mut names: Vec<Box<str>> = Vec::new();
        for member in fields.all("vary").flat_map(list_elements) {
            match std::str::from_utf8(member) {
                Ok(name) if member != b"*" && is_token(member) => names.push(name.to_ascii_lowercase().into()),
                _ => return Self::Everything,
            }
        }
        names.sort_unstable();
        names.dedup();
        Self::Fields(names)
    }

    /// The secondary key of a request under this Vary; `None` for `*`. It is empty if the response
    /// depends on no field.
    #[must_use]
    pub fn key(&self, request: &impl FieldLines) -> Option<Box<[u8]>> {
        let mut key = Vec::new();
        push_secondary_key(&mut key, self, request).then(|| key.into())
    }
}

/// Writes the secondary key of a request behind `out`; false, and nothing written, for `*`.
///
/// Per field: its name, `:`, and its value if it is there, else nothing; a line feed at the end. A
/// line feed cannot be in a name or a value, so that no two requests share a key by accident.
pub fn push_secondary_key(out: &mut Vec<u8>, vary: &Vary, request: &impl FieldLines) -> bool {
    let Vary::Fields(names) = vary else {
        return false;
    };
    for name in names {
        out.extend_from_slice(name.as_bytes());
        if &**name == ACCEPT_ENCODING {
            push_codings(out, request);
        } else if request.has(name) {
            out.push(b':');
            push_normal_value(out, name, request);
        }
        out.push(b'\n');
    }
    true
}

const ACCEPT_ENCODING: &str = "accept-encoding";

/// The codings that origins choose among, in the order of the key.
const CODINGS: [&[u8]; 3] = [b"br", b"gzip", b"zstd"];

/// Writes which of the usual codings a request names, which is what the choice of an origin
/// depends on, however it is spelled: weights, order, `deflate` and `identity` do not count. Only
/// requests that name none of the usual ones are told apart by others. A request without any is one
/// for bytes as they are.
fn push_codings(out: &mut Vec<u8>, request: &impl FieldLines) {
    let (mut named, mut others, mut is_identity_excluded, mut is_any) = ([false; 3], Vec::new(), false, false);
    for element in request.all(ACCEPT_ENCODING).flat_map(list_elements) {
        let (name, is_wanted) = coding(element);
        let place = CODINGS.iter().position(|coding| *coding == &*name);
        match (&*name, place) {
            (b"identity", _) => is_identity_excluded |= !is_wanted,
            (b"*", _) => {
                is_identity_excluded |= !is_wanted;
                is_any |= is_wanted;
            }
            (_, Some(place)) => named[place] |= is_wanted,
            (_, None) if is_wanted => others.push(name),
            _ => {}
        }
    }
    let mut kept: Vec<&[u8]> =
        CODINGS.iter().zip(named).filter(|(_, is_named)| *is_named).map(|(name, _)| *name).collect();
    if kept.is_empty() {
        others.sort_unstable();
        others.dedup();
        kept.extend(others.iter().map(Vec::as_slice));
        kept.extend((kept.is_empty() && is_any).then_some(&b"*"[..]));
    }
    kept.extend(is_identity_excluded.then_some(&b"identity;q=0"[..]));
    if !kept.is_empty() {
        out.push(b':');
        push_list(out, kept.into_iter());
    }
}

/// The name of a coding in lower case, and whether its weight is more than 0.
fn coding(element: &[u8]) -> (Vec<u8>, bool) {
    let normal = normal_preference(element);
    let (name, weight) = normal
        .iter()
        .position(|&byte| byte == b';')
        .map_or((&*normal, &b""[..]), |at| (&normal[..at], &normal[at + 1..]));
    let name = if name == b"x-gzip" { &b"gzip"[..] } else { name };
    (name.to_vec(), weight != b"q=0")
}

/// Whether a request that has the key of a response takes its content coding. Requests with one key
/// agree on the usual codings; of others, the key need not say anything.
pub(crate) fn takes_coding(vary: &Vary, response: &impl FieldLines, request: &impl FieldLines) -> bool {
    let Vary::Fields(names) = vary else { return true };
    if !names.iter().any(|name| &**name == ACCEPT_ENCODING) {
        return true;
    }
    let is_taken = |coding_of: &[u8]| {
        let wanted = coding(coding_of).0;
        let is_usual = wanted == b"identity" || CODINGS.iter().any(|usual| *usual == &*wanted);
        is_usual
            || request.all(ACCEPT_ENCODING).flat_map(list_elements).any(|element| {
                let (name, is_wanted) = coding(element);
                is_wanted && (name == wanted || name == b"*")
            })
    };
    response.all("content-encoding").flat_map(list_elements).all(is_taken)
}

/// Writes the value of a field in a normal form.
///
/// Of any field: its lines make one list, without whitespace around commas and without empty
/// elements. Of the fields whose syntax is known (RFC 9110, 12.5): the order of elements with the
/// same weight and the case do not matter.
fn push_normal_value(out: &mut Vec<u8>, name: &str, request: &impl FieldLines) {
    let elements = request.all(name).flat_map(list_elements);
    match name {
        "accept-language" | "accept-charset" => {
            let mut weighed: Vec<Vec<u8>> = elements.map(normal_preference).collect();
            weighed.sort_unstable();
            weighed.dedup();
            push_list(out, weighed.iter().map(Vec::as_slice));
        }
        _ => push_list(out, elements),
    }
}

fn push_list<'a>(out: &mut Vec<u8>, elements: impl Iterator<Item = &'a [u8]>) {
    for (index, element) in elements.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(element);
    }
}

/// `Name ; q=0.50` as `name;q=0.5`; without the weight if it is 1.
fn normal_preference(element: &[u8]) -> Vec<u8> {
    let mut parts = element.split(|&byte| byte == b';').map(trim_ows);
    let mut normal = parts.next().unwrap_or_default().to_ascii_lowercase();
    for part in parts {
        let mut part = part.to_ascii_lowercase();
        if part.starts_with(b"q=") && part.contains(&b'.') {
            let kept = part.iter().rposition(|byte| !matches!(byte, b'0')).map_or(0, |last| last + 1);
            part.truncate(kept);
            if part.ends_with(b".") {
                part.pop();
            }
        }
        if part != b"q=1" {
            normal.push(b';');
            normal.extend_from_slice(&part);
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::fields;

    /// Whether a stored response with that Vary, asked for by the one request, matches the other.
    fn check(vary: &[&str], stored: &[&str], request: &[&str], expected: bool) {
        let vary = Vary::of(&fields(vary));
        let stored_key = vary.key(&fields(stored));
        let matches = stored_key.is_some() && stored_key == vary.key(&fields(request));
        assert_eq!(matches, expected, "{vary:?}: {stored:?} and {request:?}");
    }

    #[test]
    fn matching_requests() {
        // RFC 9111, 4.1.
        check(&[], &["Foo: 1"], &["Foo: 2"], true);
        check(&["Vary: Foo"], &["Foo: 1"], &["foo: 1"], true);
        check(&["Vary: Foo"], &["Foo: 1"], &["Foo: 2"], false);
        check(&["Vary: Foo"], &[], &["Foo: 1"], false);
        check(&["Vary: Foo"], &["Foo: 1"], &[], false);
        check(&["Vary: Foo"], &[], &[], true);
        check(&["Vary: Foo"], &[], &["Foo:"], false);
        check(&["Vary: Foo"], &["Foo: 1", "Other: 2"], &["Foo: 1", "Other: 3"], true);
        check(&["Vary: Foo, Bar"], &["Foo: 1", "Bar: abc"], &["Bar: abc", "Foo: 1"], true);
        check(&["Vary: Foo, Bar"], &["Foo: 1", "Bar: abc"], &["Foo: 2", "Bar: abc"], false);
        check(&["Vary: Foo, Bar"], &["Foo: 1"], &[], false);
        check(&["Vary: Foo", "Vary: BAR"], &["Foo: 1", "Bar: 2"], &["Foo: 1", "Bar: 3"], false);
        check(&["Vary: Foo, Bar, Baz"], &["Foo: 1", "Baz: 3"], &["Foo: 1", "Baz: 3"], true);
        check(&["Vary: Foo, Bar, Baz"], &["Foo: 1", "Bar: b4", "Baz: 3"], &["Foo: 1", "Bar: b", "Baz: 3"], false);
    }

    #[test]
    fn everything() {
        // RFC 9111, 4.1: `*` in any member never matches.
        for lines in [
            &["Vary: *"][..],
            &["Vary: *, *"],
            &["Vary: *", "Vary: *"],
            &["Vary: , *"],
            &["Vary: ", "Vary: *"],
            &["Vary: *, Foo"],
            &["Vary: Foo, *"],
            &["Vary: a b"],
        ] {
            check(lines, &["Foo: 1"], &["Foo: 1"], false);
        }
    }

    #[test]
    fn normal_forms() {
        let foo = |one: &[&str], other: &[&str], expected| check(&["Vary: Foo"], one, other, expected);
        foo(&["Foo: 1, 2"], &["Foo: 1", "Foo: 2"], true);
        foo(&["Foo: 1,2"], &["Foo:  1,  2 "], true);
        foo(&["Foo: 1, 2"], &["Foo: 2, 1"], false);
        foo(&["Foo: a"], &["Foo: A"], false);
        foo(&["Foo: \"1, 2\""], &["Foo: \"1,2\""], false);
        let language = |one: &str, other: &str, expected| {
            let line = |value: &str| format!("Accept-Language: {value}");
            check(&["Vary: Accept-Language"], &[&line(one)], &[&line(other)], expected);
        };
        language("en, de", "de, en", true);
        language("en, de", "eN, De", true);
        language("en, de", " en ,   de", true);
        language("en;q=1.0, de;q=0.50", "de; q=0.5,en", true);
        language("en;q=0.8, de", "en, de;q=0.8", false);
        language("en, de", "en", false);
        check(
            &["Vary: Accept-Encoding"],
            &["Accept-Encoding: gzip, br"],
            &["Accept-Encoding: BR", "Accept-Encoding: gzip"],
            true,
        );
    }

    #[test]
    fn spellings_of_accept_encoding_are_one_variant() {
        let compare = |one: &str, other: &str, expected: bool| {
            let line = |value: &str| format!("Accept-Encoding: {value}");
            check(&["Vary: Accept-Encoding"], &[&line(one)], &[&line(other)], expected);
        };
        for spelling in [
            "gzip,deflate,br",
            "br, deflate, gzip",
            "GZIP, Deflate, BR",
            "gzip;q=1.0, deflate;q=0.6, br;q=0.9",
            "gzip, br",
            "x-gzip, br, identity;q=0.3",
            "gzip, deflate, br, *;q=0.1",
        ] {
            compare("gzip, deflate, br", spelling, true);
        }
        for other in
            ["gzip, deflate", "gzip, br, zstd", "br", "gzip, br;q=0", "gzip, br, identity;q=0", "gzip, br, *;q=0"]
        {
            compare("gzip, deflate, br", other, false);
        }
        compare("deflate", "compress", false);
        compare("deflate", "deflate;q=0.5, identity", true);
        compare("*", "gzip", false);
        let vary = Vary::of(&fields(&["Vary: Accept-Encoding"]));
        for lines in [&[][..], &["Accept-Encoding:"], &["Accept-Encoding: identity"], &["Accept-Encoding: gzip;q=0"]] {
            assert_eq!(vary.key(&fields(lines)).as_deref(), Some(&b"accept-encoding\n"[..]), "{lines:?}");
        }
    }

    #[test]
    fn an_unusual_coding_is_for_those_who_name_it() {
        let check = |vary: &str, coding: &str, accept: &str, expected: bool| {
            let (response, request) = ([format!("Content-Encoding: {coding}")], format!("Accept-Encoding: {accept}"));
            let response = fields(&[&*response[0]]);
            let vary = Vary::of(&fields(&[&format!("Vary: {vary}")]));
            assert_eq!(takes_coding(&vary, &response, &fields(&[&request])), expected, "{vary:?} {coding} {accept}");
        };
        let vary = "Accept-Encoding";
        check(vary, "gzip", "gzip", true);
        check(vary, "deflate", "gzip, deflate", true);
        check(vary, "deflate", "gzip", false);
        check(vary, "deflate", "gzip, deflate;q=0", false);
        check(vary, "deflate", "gzip, *", true);
        check(vary, "gzip, deflate", "gzip", false);
        check("X", "deflate", "gzip", true);
    }

    #[test]
    fn keys_as_bytes() {
        let vary = Vary::of(&fields(&["Vary: B, a, b"]));
        let key = vary.key(&fields(&["B: x", "b: y"]));
        assert_eq!(key.as_deref(), Some(&b"a\nb:x,y\n"[..]));
        assert_eq!(Vary::of(&fields(&[])).key(&fields(&[])).as_deref(), Some(&b""[..]));
    }
}
