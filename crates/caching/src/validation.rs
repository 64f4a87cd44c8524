//! The answers to validations (RFC 9111, 4.3.3 and 4.3.4) and to HEAD (4.3.5): what they mean for
//! the stored responses.
//!
//! Nothing is changed here: the caller applies an outcome with [`StoredResponse::freshen`], after
//! which `may_stay_stored` says whether the response is kept, or replaces or removes what is
//! stored.

use thalweg_wire::date;

use crate::conditional::Validation;
use crate::fallback::Failure;
use crate::fields::FieldLines;
use crate::partial::{ContentRange, decimal};
use crate::stored::StoredResponse;
use crate::version::{entity_tag, last_modified};

/// The consequence of the origin's response to a validation. An index is that of a stored response
/// among those given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValidationOutcome {
    /// The stored responses are current: they are freshened with the fields of the response, and
    /// one of them is the answer.
    Freshen {
        /// All that are freshened.
        indices: Vec<usize>,
        /// The one that answers the client.
        answer: usize,
    },
    /// The response is the answer, and takes the place of the stored one if it may be stored.
    Replace,
    /// The origin fails, and the stored response may stand in for it.
    Fallback {
        /// The stored response.
        index: usize,
    },
    /// The origin fails, and its response is the answer. What is stored stays.
    Forward,
    /// A 304 that is about no stored response: ask again without conditions.
    FetchWhole,
}

/// Tells what a final response to a validation means. `stored` are the responses that it was made
/// from.
#[must_use]
pub fn outcome(
    validation: &Validation,
    stored: &[&StoredResponse],
    status: u16,
    fields: &impl FieldLines,
    now: i64,
) -> ValidationOutcome {
    match status {
        304 => freshened(validation, stored, fields, now),
        500..=599 => match validation.fallback {
            Some(fallback) if fallback.covers(Failure::Status(status), now) => {
                ValidationOutcome::Fallback { index: fallback.index }
            }
            _ => ValidationOutcome::Forward,
        },
        _ => ValidationOutcome::Replace,
    }
}

/// Which stored responses a 304 is about (RFC 9111, 4.3.4).
fn freshened(
    validation: &Validation,
    stored: &[&StoredResponse],
    fields: &impl FieldLines,
    now: i64,
) -> ValidationOutcome {
    let all = |matches: &dyn Fn(&StoredResponse) -> bool| -> Vec<usize> {
        (0..stored.len()).filter(|&index| matches(stored[index])).collect()
    };
    let tag = entity_tag(fields);
    let modified = last_modified(fields);
    let date = fields.first("date").and_then(date::parse).unwrap_or(now);
    let indices = match (tag, modified) {
        (Some(tag), _) if !tag.weak => all(&|other| other.etag().is_some_and(|other| other.matches_strongly(tag))),
        // Weak validators name one response, the most recent.
        (Some(tag), _) => {
            most_recent(stored, all(&|other| other.etag().is_some_and(|other| other.matches_weakly(tag))))
        }
        (None, Some(modified)) => {
            let same = all(&|other| other.last_modified() == Some(modified));
            if modified < date { same } else { most_recent(stored, same) }
        }
        // RFC 9110, 15.4.5 lets an origin leave Last-Modified out of a 304, so that one without
        // any validator is about the response that was asked for, if that is beyond doubt.
        (None, None) => sole_candidate(validation, stored).into_iter().collect(),
    };
    let answer = match validation.selected {
        Some(selected) if indices.contains(&selected) => Some(selected),
        _ => most_recent(stored, indices.clone()).pop(),
    };
    answer.map_or(ValidationOutcome::FetchWhole, |answer| ValidationOutcome::Freshen { indices, answer })
}

fn most_recent(stored: &[&StoredResponse], indices: Vec<usize>) -> Vec<usize> {
    indices.into_iter().max_by_key(|&index| stored[index].recency()).into_iter().collect()
}

/// The only stored response that the conditions can have meant.
fn sole_candidate(validation: &Validation, stored: &[&StoredResponse]) -> Option<usize> {
    if validation.if_none_match.is_none() {
        return validation.selected;
    }
    let mut tagged = (0..stored.len()).filter(|&index| stored[index].etag().is_some());
    match (tagged.next(), tagged.next()) {
        (Some(index), None) => Some(index),
        _ => None,
    }
}

/// The consequence of a response to HEAD for a stored response that would have answered the same
/// request as GET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadOutcome {
    /// The stored response is current, and is freshened.
    Freshen,
    /// The stored response is out of date, and counts as stale.
    Invalidate,
    /// Nothing is known.
    Keep,
}

/// Tells what the response to HEAD means (RFC 9111, 4.3.5): a 200 whose validators and length, as
/// far as it has them, are those of the stored response freshens it.
#[must_use]
pub fn head_outcome(stored: &StoredResponse, status: u16, fields: &impl FieldLines) -> HeadOutcome {
    if status != 200 || !matches!(stored.status, 200 | 206) {
        return HeadOutcome::Keep;
    }
    let same_tag = entity_tag(fields).is_none_or(|tag| stored.etag() == Some(tag));
    let same_date = last_modified(fields).is_none_or(|date| stored.last_modified() == Some(date));
    let length = fields.first("content-length").map(decimal);
    let same_length = length
        .is_none_or(|length| length.is_some() && complete_bytes(stored).is_none_or(|stored| Some(stored) == length));
    if same_tag && same_date && same_length { HeadOutcome::Freshen } else { HeadOutcome::Invalidate }
}

/// The length of the whole representation, as far as its fields say.
fn complete_bytes(stored: &StoredResponse) -> Option<u64> {
    match stored.fields.first("content-range").and_then(ContentRange::parse) {
        Some(part) => Some(part.complete_bytes),
        None => stored.fields.first("content-length").and_then(decimal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::age::Times;
    use crate::cache_status::ForwardReason;
    use crate::fallback::Fallback;
    use crate::fields::tests::fields;
    use crate::policy::Policy;

    const NOW: i64 = 2_000_000;
    const MODIFIED: &str = "Last-Modified: Thu, 01 Jan 1970 00:00:01 GMT";
    const CHANGED: &str = "Last-Modified: Thu, 01 Jan 1970 00:00:02 GMT";

    fn stored(status: u16, lines: &[&str], received: i64) -> StoredResponse {
        let times = Times { request: received, response: received };
        StoredResponse::new(&Policy::default(), &fields(&[]), status, &fields(lines), times)
    }

    /// Validates variants of which the first is the oldest.
    fn check(variants: &[&[&str]], selected: Option<usize>, status: u16, lines: &[&str], expected: &str) {
        let variants: Vec<StoredResponse> =
            (1000..).zip(variants).map(|(received, lines)| stored(200, lines, received)).collect();
        let variants: Vec<&StoredResponse> = variants.iter().collect();
        let validation = Validation::of(&variants, selected, ForwardReason::Stale, None);
        let shown = match outcome(&validation, &variants, status, &fields(lines), NOW) {
            ValidationOutcome::Freshen { indices, answer } => format!("freshen {indices:?}, answer {answer}"),
            ValidationOutcome::Replace => "replace".to_owned(),
            ValidationOutcome::Fallback { index } => format!("fallback {index}"),
            ValidationOutcome::Forward => "forward".to_owned(),
            ValidationOutcome::FetchWhole => "fetch whole".to_owned(),
        };
        assert_eq!(shown, expected, "{variants:?} {selected:?} {status} {lines:?}");
    }

    const A: &[&str] = &["ETag: \"a\""];
    const B: &[&str] = &["ETag: \"b\""];
    const WEAK: &[&str] = &["ETag: W/\"a\""];
    const DATED: &[&str] = &[MODIFIED];

    #[test]
    fn freshened_responses() {
        // RFC 9111, 4.3.4: strong validators.
        check(&[A], Some(0), 304, A, "freshen [0], answer 0");
        check(&[A, B], Some(0), 304, B, "freshen [1], answer 1");
        check(&[A, B, A], Some(0), 304, A, "freshen [0, 2], answer 0");
        check(&[A, B, A], None, 304, A, "freshen [0, 2], answer 2");
        check(&[A], Some(0), 304, B, "fetch whole");
        check(&[WEAK], Some(0), 304, A, "fetch whole");
        check(&[DATED], Some(0), 304, &[MODIFIED], "freshen [0], answer 0");
        check(&[DATED, DATED], Some(0), 304, &[MODIFIED], "freshen [0, 1], answer 0");
        check(&[DATED], Some(0), 304, &[CHANGED], "fetch whole");
        // Weak validators: the most recent.
        check(&[WEAK, WEAK], None, 304, WEAK, "freshen [1], answer 1");
        check(&[A], Some(0), 304, WEAK, "freshen [0], answer 0");
        let same_second = "Date: Thu, 01 Jan 1970 00:00:01 GMT";
        check(&[DATED, DATED], Some(0), 304, &[MODIFIED, same_second], "freshen [1], answer 1");
        // No validator at all.
        check(&[DATED], Some(0), 304, &[], "freshen [0], answer 0");
        check(&[A], Some(0), 304, &[], "freshen [0], answer 0");
        check(&[A, B], Some(0), 304, &[], "fetch whole");
        check(&[A, DATED], Some(1), 304, &[], "freshen [1], answer 1");
    }

    #[test]
    fn other_answers() {
        // RFC 9111, 4.3.3.
        check(&[A], Some(0), 200, B, "replace");
        check(&[A], Some(0), 404, &[], "replace");
        check(&[A], Some(0), 503, &[], "forward");
    }

    #[test]
    fn failing_origins() {
        let check = |until, status, expected| {
            let response = stored(200, A, 1000);
            let fallback = Some(Fallback { index: 0, until });
            let validation = Validation::of(&[&response], Some(0), ForwardReason::Stale, fallback);
            let found = outcome(&validation, &[&response], status, &fields(&[]), NOW);
            assert_eq!(found, expected, "{until} {status}");
        };
        // RFC 5861, 4.
        check(NOW, 503, ValidationOutcome::Fallback { index: 0 });
        check(NOW - 1, 503, ValidationOutcome::Forward);
        check(NOW, 501, ValidationOutcome::Forward);
        check(NOW, 404, ValidationOutcome::Replace);
    }

    #[test]
    fn answers_to_head() {
        let check = |status: u16, lines: &[&str], head: (u16, &[&str]), expected| {
            let found = head_outcome(&stored(status, lines, 1000), head.0, &fields(head.1));
            assert_eq!(found, expected, "{status} {lines:?} {head:?}");
        };
        let whole: &[&str] = &["ETag: \"a\"", MODIFIED, "Content-Length: 10"];
        // RFC 9111, 4.3.5.
        check(200, whole, (200, whole), HeadOutcome::Freshen);
        check(200, whole, (200, &[]), HeadOutcome::Freshen);
        check(200, whole, (200, &["ETag: \"a\""]), HeadOutcome::Freshen);
        check(200, whole, (200, &["ETag: \"b\""]), HeadOutcome::Invalidate);
        check(200, whole, (200, &["ETag: W/\"a\""]), HeadOutcome::Invalidate);
        check(200, whole, (200, &[CHANGED]), HeadOutcome::Invalidate);
        check(200, whole, (200, &["Content-Length: 11"]), HeadOutcome::Invalidate);
        check(200, whole, (200, &["Content-Length: x"]), HeadOutcome::Invalidate);
        check(200, A, (200, &["Content-Length: 11"]), HeadOutcome::Freshen);
        check(200, whole, (410, whole), HeadOutcome::Keep);
        check(404, whole, (200, whole), HeadOutcome::Keep);
        let part: &[&str] = &["ETag: \"a\"", "Content-Range: bytes 0-4/10", "Content-Length: 5"];
        check(206, part, (200, &["Content-Length: 10"]), HeadOutcome::Freshen);
        check(206, part, (200, &["Content-Length: 5"]), HeadOutcome::Invalidate);
    }
}
