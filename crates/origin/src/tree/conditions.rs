//! Conditions and ranges of a request for a file, by the rules of the crate `wire`.

use thalweg_wire::range::{ByteRange, RangeSet};
use thalweg_wire::validator::{Conditions, EntityTag, Validators, Verdict};
use thalweg_wire::{Bounds, FieldSlots, Fields, Method, RequestEvent, RequestReader};

use crate::message::Request;

/// Fields that decide about the answer.
const FIELDS: [&str; 6] =
    ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range", "range"];

/// The part of a file that is sent, or another answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Whole,
    Range(ByteRange),
    NotModified,
    PreconditionFailed,
    /// The range lies outside of the file.
    Unsatisfiable,
}

/// Selects the part of a file of `size` bytes. `tag` is its entity tag as a field has it.
pub(super) fn select(request: &Request, tag: &[u8], modified_s: Option<i64>, size: u64, now_s: i64) -> Part {
    let validators = Validators { etag: EntityTag::parse(tag), last_modified: modified_s };
    let decide = |method: Method<'_>, fields: Fields<'_>| {
        let decision = Conditions::of(fields).evaluate(method, &validators, now_s);
        match decision.verdict {
            Verdict::NotModified => Part::NotModified,
            Verdict::PreconditionFailed => Part::PreconditionFailed,
            // Several ranges are not combined here: the whole file may be sent for them.
            Verdict::Proceed => match decision.range.and_then(RangeSet::parse).map(|set| set.resolve(size)) {
                Some(Ok(ranges)) => ranges.single().map_or(Part::Whole, Part::Range),
                Some(Err(_)) => Part::Unsatisfiable,
                None => Part::Whole,
            },
        }
    };
    // `wire` reads fields where they lie in a head, so one is written with those that matter.
    let mut head = format!("{} / HTTP/1.1\r\nHost: a\r\n", request.method).into_bytes();
    for (name, value) in &request.fields {
        let is_one = FIELDS.iter().any(|field| name.eq_ignore_ascii_case(field.as_bytes()));
        // A line break would be the end of the field, or of the head.
        if is_one && !value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
            head.extend([&**name, b": ", value, b"\r\n"].concat());
        }
    }
    head.extend(b"\r\n");
    let mut slots = FieldSlots::new();
    match RequestReader::new(Bounds::requests()).read(&head, &mut slots).map(|progress| progress.event) {
        Ok(Some(RequestEvent::Head(head))) => decide(head.method, head.fields),
        // Fields that no head may have, or too long ones, are as good as none.
        _ => Part::Whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sun, 06 Nov 1994 08:49:37 GMT
    const MODIFIED: i64 = 784_111_777;
    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    fn check(fields: &[(&str, &str)], expected: Part) {
        let request = fields.iter().fold(Request::get("/a"), |request, (name, value)| request.with(name, value));
        assert_eq!(select(&request, b"\"v1\"", Some(MODIFIED), 100, MODIFIED + 100), expected, "{fields:?}");
    }

    #[test]
    fn conditions_and_ranges_select_the_part() {
        let range = ("Range", "bytes=10-19");
        let part = Part::Range(ByteRange { first: 10, last: 19 });
        check(&[], Part::Whole);
        check(&[range], part);
        check(&[("Range", "bytes=200-")], Part::Unsatisfiable);
        check(&[("Range", "bytes=0-1,5-6")], Part::Whole);
        check(&[("If-None-Match", "\"v0\", \"v1\"")], Part::NotModified);
        check(&[("If-None-Match", "\"v0\""), range], part);
        check(&[("If-Modified-Since", DATE)], Part::NotModified);
        check(&[("If-Match", "\"v0\"")], Part::PreconditionFailed);
        check(&[("If-Range", "\"v1\""), range], part);
        check(&[("If-Range", "\"v0\""), range], Part::Whole);
        check(&[("If-Range", DATE), range], part);
        check(&[("Cookie", "a\r\nRange: bytes=0-0")], Part::Whole);
        check(&[("Range", "bytes=0-0\r\n\r\n")], Part::Whole);
    }
}
