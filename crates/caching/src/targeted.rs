//! The fields with directives for some caches alone: targeted ones such as CDN-Cache-Control (RFC
//! 9213), read as structured dictionaries, and Surrogate-Control, which is older.

use std::borrow::Cow;

use sfv::{BareItem, Dictionary, ListEntry, Parser};

use crate::directives::ResponseDirectives;
use crate::fields::FieldLines;
use crate::policy::Policy;

/// The directives that a cache obeys, and whether they come from a targeted field or from
/// Surrogate-Control, which silence Cache-Control and Expires (RFC 9213, 2.2; "Edge Architecture
/// Specification", 3). Surrogate-Control without a directive about storing says nothing.
#[must_use]
pub fn response_directives(policy: &Policy, fields: &impl FieldLines) -> (ResponseDirectives, bool) {
    if let Some(directives) = policy.targeted_fields.iter().find_map(|name| parse(name, fields)) {
        return (directives, true);
    }
    let of_surrogates = ResponseDirectives::of_surrogates(fields);
    if of_surrogates == ResponseDirectives::default() {
        (ResponseDirectives::of(fields), false)
    } else {
        (of_surrogates, true)
    }
}

/// Reads a targeted field; `None` if it is absent, empty or not a dictionary.
fn parse(name: &str, fields: &impl FieldLines) -> Option<ResponseDirectives> {
    let mut lines = fields.all(name).peekable();
    lines.peek()?;
    let value = lines.collect::<Vec<_>>().join(&b", "[..]);
    let members: Dictionary = Parser::new(&value).parse().ok()?;
    if members.is_empty() {
        return None;
    }
    let mut directives = ResponseDirectives::default();
    for (name, member) in &members {
        // A member of another type than the directive's is ignored (RFC 9213, 2.1). Parameters have
        // no meaning.
        let ListEntry::Item(item) = member else { continue };
        let name = name.as_str().as_bytes();
        match (&item.bare_item, takes_seconds(name)) {
            (BareItem::Integer(number), true) => {
                directives.add(name, Some(Cow::Owned(number.to_string().into_bytes())));
            }
            (BareItem::Boolean(true), false) => directives.add(name, None),
            (BareItem::String(text), false) => directives.add(name, Some(Cow::Borrowed(text.as_str().as_bytes()))),
            (BareItem::Token(text), false) => directives.add(name, Some(Cow::Borrowed(text.as_str().as_bytes()))),
            _ => {}
        }
    }
    Some(directives)
}

fn takes_seconds(name: &[u8]) -> bool {
    matches!(name, b"max-age" | b"s-maxage" | b"stale-while-revalidate" | b"stale-if-error")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directives::{FieldScope, Limit};
    use crate::fields::tests::fields;

    #[test]
    fn precedence_and_types() {
        let check = |lines: &[&str], max_age: Limit, no_store: bool, targeted: bool| {
            let policy = Policy {
                targeted_fields: vec!["Thalweg-Cache-Control".into(), "CDN-Cache-Control".into()],
                ..Policy::default()
            };
            let (directives, is_targeted) = response_directives(&policy, &fields(lines));
            assert_eq!(
                (directives.max_age, directives.no_store, is_targeted),
                (max_age, no_store, targeted),
                "{lines:?}"
            );
        };
        let seconds = Limit::Seconds;
        // RFC 9213, 2.2.
        check(&["CDN-Cache-Control: max-age=3600", "Cache-Control: no-store"], seconds(3600), false, true);
        check(&["CDN-Cache-Control: no-store", "Cache-Control: max-age=9"], Limit::Absent, true, true);
        check(&["CDN-Cache-Control: max-age=1", "Thalweg-Cache-Control: max-age=2"], seconds(2), false, true);
        check(&["CDN-Cache-Control: ", "Cache-Control: max-age=9"], seconds(9), false, false);
        check(&["CDN-Cache-Control: max-age=", "Cache-Control: max-age=9"], seconds(9), false, false);
        check(&["CDN-Cache-Control: max-age =5", "Cache-Control: max-age=9"], seconds(9), false, false);
        check(&["CDN-Cache-Control: MaX-aGe=5", "Cache-Control: max-age=9"], seconds(9), false, false);
        check(&["Other-Cache-Control: no-store", "Cache-Control: max-age=9"], seconds(9), false, false);
        // 2.1: dictionaries of typed values; the last of two members of a name counts.
        check(&["CDN-Cache-Control: foobar, max-age=3600;me"], seconds(3600), false, true);
        check(&["CDN-Cache-Control: max-age=99999999999"], seconds(crate::SECONDS_MAX), false, true);
        check(&["CDN-Cache-Control: max-age=1", "CDN-Cache-Control: max-age=2"], seconds(2), false, true);
        check(&["CDN-Cache-Control: max-age=\"3600\", a=1"], Limit::Absent, false, true);
        check(&["CDN-Cache-Control: max-age=3600.5, a=1"], Limit::Absent, false, true);
        check(&["CDN-Cache-Control: max-age=-5"], Limit::Invalid, false, true);
        check(&["CDN-Cache-Control: max-age=(1 2), no-store=?0"], Limit::Absent, false, true);
    }

    #[test]
    fn named_fields() {
        let read = |value: &str| {
            let (directives, _) = response_directives(&Policy::default(), &fields(&[value]));
            directives.no_cache
        };
        assert_eq!(read("CDN-Cache-Control: no-cache=\"A, b\""), FieldScope::Fields(vec!["a".into(), "b".into()]));
        assert_eq!(read("CDN-Cache-Control: no-cache"), FieldScope::Whole);
        assert_eq!(read("CDN-Cache-Control: no-cache=1"), FieldScope::Absent);
    }

    #[test]
    fn surrogates_have_a_field_of_their_own() {
        let seconds = |seconds| Limit::Seconds(seconds);
        let check = |lines: &[&str], max_age: Limit, extension: Limit, no_store: bool, targeted: bool| {
            let (directives, found) = response_directives(&Policy::default(), &fields(lines));
            let stale = (directives.stale_while_revalidate, directives.stale_if_error);
            assert_eq!((directives.max_age, stale), (max_age, (extension, extension)), "{lines:?}");
            assert_eq!((directives.no_store, found), (no_store, targeted), "{lines:?}");
        };
        let absent = Limit::Absent;
        check(&["Surrogate-Control: MAX-AGE=9, x", "Cache-Control: no-store"], seconds(9), absent, false, true);
        check(&["Surrogate-Control: max-age=9+5"], seconds(9), seconds(5), false, true);
        check(&["Surrogate-Control: max-age=9+"], seconds(9), Limit::Invalid, false, true);
        check(&["Surrogate-Control: max-age=x"], Limit::Invalid, absent, false, true);
        check(&["Surrogate-Control: no-store", "Cache-Control: max-age=9"], absent, absent, true, true);
        check(&["Surrogate-Control: no-store-remote"], absent, absent, true, true);
        // Nothing in these is for this cache.
        let other = "Cache-Control: max-age=1";
        check(&["Surrogate-Control: max-age=9;other, no-store;other", other], seconds(1), absent, false, false);
        check(&["Surrogate-Control: content=\"ESI/1.0, a;b\"", other], seconds(1), absent, false, false);
        check(&["Surrogate-Control: content=\"ESI/1.0\", max-age=9", other], seconds(9), absent, false, true);
        // RFC 9213 is newer and comes first.
        check(&["Surrogate-Control: max-age=9", "CDN-Cache-Control: max-age=2"], seconds(2), absent, false, true);
    }
}
