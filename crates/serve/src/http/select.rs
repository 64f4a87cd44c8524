//! Selecting a representation: which coding, whether a condition holds, and which ranges (RFC 9110,
//! 12 to 14).
//!
//! Choices that RFC 9110 leaves: a Range with too many parts, or that cannot be understood, is
//! ignored; overlapping parts are merged; a request for several parts of an object in a content
//! coding gets the whole object, since a multipart body has no place to name the coding. A request
//! that excludes all representations gets a 406, but only if there are several.

use std::cmp::Reverse;

use thalweg_wire::coding::AcceptEncoding;
use thalweg_wire::digest::{Algorithm, WantReprDigest};
use thalweg_wire::range::{ByteRange, ByteRanges, RangeSet, Unsatisfiable};
use thalweg_wire::validator::{Conditions, Verdict};
use thalweg_wire::{Fields, RequestHead};

use crate::content::object::Object;
use crate::http::response::Delivery;

/// How much of an object a request selects.
pub(crate) enum Extent {
    Whole,
    Range(ByteRange),
    Ranges(Box<ByteRanges>),
}

/// The outcome of conditions and ranges.
pub(crate) enum Selection {
    /// As much of the object, with a digest of the whole if there is one.
    Send { extent: Extent, digest: Option<Algorithm> },
    /// Nothing, since the client has it already.
    NotModified,
}

/// Why nothing can be selected.
pub(crate) enum Unmet {
    /// A condition does not hold.
    Condition,
    /// The object, of this length, has none of the ranges.
    Range { length: u64 },
}

impl Extent {
    /// Bytes of an object of this length.
    pub(crate) fn bytes(&self, length: u64) -> u64 {
        match self {
            Self::Whole => length,
            Self::Range(range) => range.length(),
            Self::Ranges(ranges) => ranges.as_slice().iter().map(|range| range.length()).sum(),
        }
    }

    /// How much of an object of this length it delivers.
    pub(crate) fn delivery(&self, length: u64) -> Delivery {
        let has_last = |range: &ByteRange| range.last + 1 == length;
        let is_end = match self {
            Self::Whole => true,
            Self::Range(range) => has_last(range),
            Self::Ranges(ranges) => ranges.as_slice().iter().any(has_last),
        };
        if is_end { Delivery::End } else { Delivery::Part }
    }
}

/// Chooses among an object and its variants the one that is preferred (RFC 9110, 12.5.3); of those
/// that are equally preferred, the smallest. `None` if all of them are excluded.
pub(crate) fn negotiate<'o>(object: &'o mut Object, fields: Fields<'_>) -> Option<&'o mut Object> {
    let accept = AcceptEncoding::of(fields);
    let own = accept.identity().map(|quality| (quality, Reverse(object.length())));
    let ranked = object.variants().iter().enumerate().filter_map(|(index, variant)| {
        let quality = variant.metadata().coding.map_or(0, |coding| accept.quality(coding));
        (quality > 0).then_some(((quality, Reverse(variant.length())), index))
    });
    match ranked.max_by_key(|&(rank, _)| rank) {
        Some((rank, index)) if own.is_none_or(|own| rank > own) => Some(object.variant_mut(index)),
        _ => own.map(|_| object),
    }
}

/// Whether there may be a Range, a condition, whose names all begin with `If-`, or a
/// Want-Repr-Digest. Most requests have none, and the object's metadata need not be fetched into
/// the processor's cache for them.
#[inline]
pub(crate) fn may_select(fields: Fields<'_>) -> bool {
    fields.iter().any(|(name, _)| matches!(name.as_bytes(), [b'i' | b'I' | b'r' | b'R' | b'w' | b'W', ..]))
}

/// Evaluates a GET or HEAD for an object at this second: its conditions first (RFC 9110, 13.2.2),
/// then its Range. Kept out of the way of most requests, which would else pay for the room that
/// many ranges take on the stack.
#[inline(never)]
pub(crate) fn select(request: &RequestHead<'_>, object: &Object, second: i64) -> Result<Selection, Unmet> {
    let conditions = Conditions::of(request.fields);
    // The second at which the validators were those of the representation.
    let second = object.as_forwarded().map_or(second, |forwarded| forwarded.date_s);
    let mut validators = object.validators();
    let decision = conditions.evaluate(request.method, &validators, second);
    if object.as_forwarded().is_some() && decision.verdict == Verdict::Proceed && validators.last_modified.is_none() {
        // RFC 9111, 4.3.2: without Last-Modified, If-Modified-Since is about Date.
        validators.last_modified = Some(second);
        if conditions.evaluate(request.method, &validators, second).verdict == Verdict::NotModified {
            return Ok(Selection::NotModified);
        }
    }
    let range = match decision.verdict {
        // A body that is made while it is sent has no ranges.
        Verdict::Proceed => decision.range.filter(|_| !object.is_made()).and_then(RangeSet::parse),
        Verdict::NotModified => return Ok(Selection::NotModified),
        Verdict::PreconditionFailed => return Err(Unmet::Condition),
    };
    let digest = WantReprDigest::of(request.fields).choose(|algorithm| object.has_digest(algorithm));
    let length = object.length();
    let ranges = range.map(|set| set.resolve(length)).transpose().map_err(|Unsatisfiable| Unmet::Range { length })?;
    let extent = match ranges.map(|ranges| ranges.without_overlaps()) {
        None => Extent::Whole,
        Some(ranges) => match ranges.single() {
            Some(range) => Extent::Range(range),
            None if object.is_encoded() => Extent::Whole,
            None => Extent::Ranges(Box::new(ranges)),
        },
    };
    Ok(Selection::Send { extent, digest })
}
