//! The conditional request by which a cache validates its stored responses (RFC 9111, 4.3.1).

use thalweg_wire::date::{self, IMF_FIXDATE_BYTES};
use thalweg_wire::validator::EntityTag;

use crate::cache_status::ForwardReason;
use crate::fallback::Fallback;
use crate::stored::StoredResponse;

/// Most entity tags of one request, lest its head outgrow what origins accept.
const TAGS_MAX: usize = 32;

/// A request to the origin about stored responses, and what stands in if it fails. It is the
/// client's request, with these conditions in the place of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validation {
    /// The stored response that the client's request matches; `None` if only other variants are
    /// stored.
    pub selected: Option<usize>,
    /// The value of If-None-Match.
    pub if_none_match: Option<Vec<u8>>,
    /// The value of If-Modified-Since.
    pub if_modified_since: Option<[u8; IMF_FIXDATE_BYTES]>,
    /// Why the origin is asked.
    pub reason: ForwardReason,
    /// The answer if the origin fails.
    pub fallback: Option<Fallback>,
}

impl Validation {
    /// Makes the conditions from the validators of the stored responses.
    ///
    /// The tags of all variants go along, that of the selected one first: the origin may say that
    /// another one is the right one. A selected response with a date alone is asked for by it
    /// alone, since an origin ignores the date beside any tag.
    #[must_use]
    pub fn of(
        stored: &[&StoredResponse],
        selected: Option<usize>,
        reason: ForwardReason,
        fallback: Option<Fallback>,
    ) -> Self {
        let mut validation = Self { selected, if_none_match: None, if_modified_since: None, reason, fallback };
        let chosen = selected.map(|index| stored[index]);
        if let Some(second) = chosen.and_then(StoredResponse::last_modified) {
            validation.if_modified_since = Some(date::imf_fixdate(second));
        }
        if chosen.is_none_or(|chosen| chosen.etag().is_some()) {
            let first = chosen.and_then(StoredResponse::etag);
            validation.if_none_match =
                tag_list(first.into_iter().chain(stored.iter().filter_map(|other| other.etag())));
        }
        validation
    }

    /// Whether there is anything to validate with.
    #[must_use]
    pub const fn has_conditions(&self) -> bool {
        self.if_none_match.is_some() || self.if_modified_since.is_some()
    }

    /// The conditions as field lines.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, &[u8])> {
        let tags = self.if_none_match.as_deref().map(|value| ("If-None-Match", value));
        let date = self.if_modified_since.as_ref().map(|value| ("If-Modified-Since", &value[..]));
        tags.into_iter().chain(date)
    }

    /// Whether a field of the client's request gives way to the conditions. If-Match and
    /// If-Unmodified-Since do not: they are for the origin (RFC 9111, 4.3.2).
    #[must_use]
    pub fn replaces(name: &str) -> bool {
        ["If-None-Match", "If-Modified-Since", "If-Range", "Range"].iter().any(|other| name.eq_ignore_ascii_case(other))
    }
}

/// The tags as a list, none twice; `None` without any.
fn tag_list<'a>(tags: impl Iterator<Item = EntityTag<'a>>) -> Option<Vec<u8>> {
    let mut listed: Vec<EntityTag<'_>> = Vec::new();
    let mut value = Vec::new();
    for tag in tags {
        if listed.contains(&tag) || listed.len() == TAGS_MAX {
            continue;
        }
        if !listed.is_empty() {
            value.extend_from_slice(b", ");
        }
        tag.push(&mut value);
        listed.push(tag);
    }
    (!listed.is_empty()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::age::Times;
    use crate::fields::tests::fields;
    use crate::policy::Policy;

    const MODIFIED: &str = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT";

    fn check(variants: &[&[&str]], selected: Option<usize>, expected: &[&str]) {
        let times = Times { request: 1000, response: 1000 };
        let stored: Vec<StoredResponse> = variants
            .iter()
            .map(|lines| StoredResponse::new(&Policy::default(), &fields(&[]), 200, &fields(lines), times))
            .collect();
        let stored: Vec<&StoredResponse> = stored.iter().collect();
        let validation = Validation::of(&stored, selected, ForwardReason::Stale, None);
        let lines: Vec<String> =
            validation.fields().map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value))).collect();
        assert_eq!(lines, expected, "{variants:?} {selected:?}");
        assert_eq!(validation.has_conditions(), !expected.is_empty());
    }

    #[test]
    fn conditions_from_validators() {
        let since = "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT";
        // RFC 9111, 4.3.1.
        check(&[&["ETag: \"a\""]], Some(0), &["If-None-Match: \"a\""]);
        check(&[&["ETag: W/\"a\""]], Some(0), &["If-None-Match: W/\"a\""]);
        check(&[&["ETag: a"]], Some(0), &[]);
        check(&[&[MODIFIED]], Some(0), &[since]);
        check(&[&["ETag: \"a\"", MODIFIED]], Some(0), &["If-None-Match: \"a\"", since]);
        check(&[&["ETag: \"a\""], &["ETag: \"b\""]], Some(1), &["If-None-Match: \"b\", \"a\""]);
        check(&[&["ETag: \"a\"", MODIFIED], &["ETag: \"b\""]], None, &["If-None-Match: \"a\", \"b\""]);
        check(&[&["ETag: \"a\""], &["ETag: \"a\""]], None, &["If-None-Match: \"a\""]);
        check(&[&["ETag: \"a\""], &[MODIFIED]], Some(1), &[since]);
        check(&[&["ETag: \"a\""], &[]], Some(1), &[]);
        check(&[&[MODIFIED]], None, &[]);
        check(&[], None, &[]);
    }

    #[test]
    fn tags_are_bounded() {
        let texts: Vec<String> = (0..TAGS_MAX + 1).map(|number| number.to_string()).collect();
        let tags = texts.iter().map(|text| EntityTag { weak: false, opaque: text.as_bytes() });
        let list = tag_list(tags).unwrap();
        assert_eq!(list.split(|&byte| byte == b',').count(), TAGS_MAX);
    }

    #[test]
    fn fields_that_give_way() {
        let check = |name, expected| assert_eq!(Validation::replaces(name), expected, "{name}");
        check("if-none-match", true);
        check("If-Modified-Since", true);
        check("Range", true);
        check("If-Range", true);
        check("If-Match", false);
        check("Accept", false);
    }
}
