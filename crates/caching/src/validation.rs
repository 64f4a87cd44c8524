//! The answers to validations (RFC 9111, 4.3.3 and 4.3.4) and to HEAD (4.3.5): what they mean for
//! the stored responses.
//!
//! Nothing is changed here: the caller applies an outcome with [`StoredResponse::freshen`], or
//! replaces or removes what is stored.

use thalweg_wire::date;

use crate::conditional::Validation;
use crate::fallback::Failure;
use crate::fields::FieldLines;
use crate::partial::{ContentRange, decimal};
use crate::stored::StoredResponse;
use crate::version::{entity_tag, last_modified};

/// What the origin's response to a validation means. An index is that of a stored response among
/// those given.
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

/// What a response to HEAD means for a stored response that would have answered the same request
/// as GET.
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
