//! Values of single fields, and the decision that conditional fields lead to.

use thalweg_wire::range::{ByteRange, ByteRanges, RANGES_MAX, RangeSet};
use thalweg_wire::validator::{Conditions, EntityTag, Validators, Verdict};
use thalweg_wire::{Bounds, FieldSlots, Fields, Method, RequestEvent, RequestReader, date};

use crate::lines::split_line;

/// A line with the size of a representation, a line with its entity tag, a line with its date, then
/// field lines of a request, each ended by LF.
pub fn conditions(data: &[u8]) {
    let (size, rest) = split_line(data);
    let (etag, rest) = split_line(rest);
    let (modified, lines) = split_line(rest);
    let size = std::str::from_utf8(size).ok().and_then(|text| text.parse().ok()).unwrap_or(1000);
    for value in [etag, modified, lines] {
        check_value(value, size);
    }
    let current = Validators { etag: EntityTag::parse(etag), last_modified: date::parse(modified) };
    let mut head = b"GET / HTTP/1.1\r\nHost: x\r\n".to_vec();
    for line in lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        head.extend_from_slice(line);
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    let (mut reader, mut slots) = (RequestReader::new(Bounds::requests()), FieldSlots::new());
    if let Ok(progress) = reader.read(&head, &mut slots)
        && let Some(RequestEvent::Head(head)) = progress.event
    {
        for (_, value) in head.fields.iter() {
            check_value(value, size);
        }
        check_decision(head.fields, &current);
    }
}

fn check_decision(fields: Fields<'_>, current: &Validators<'_>) {
    let conditions = Conditions::of(fields);
    let now = current.last_modified.unwrap_or(0) + 3600;
    let get = conditions.evaluate(Method::Get, current, now);
    let head = conditions.evaluate(Method::Head, current, now);
    assert_eq!(get.verdict, head.verdict, "HEAD is GET without a body");
    assert_eq!(head.range, None);
    assert!(get.range.is_none() || get.verdict == Verdict::Proceed);
    let has = |name| fields.get(name).is_some();
    match get.verdict {
        Verdict::Proceed => assert!(get.range.is_none() || has("range")),
        Verdict::NotModified => assert!(has("if-none-match") || has("if-modified-since")),
        Verdict::PreconditionFailed => assert!(has("if-match") || has("if-unmodified-since")),
    }
}

fn check_value(value: &[u8], size: u64) {
    if let Some(tag) = EntityTag::parse(value) {
        let mut written = Vec::new();
        tag.push(&mut written);
        assert_eq!(written, value, "a tag is written as it was read");
        assert!(tag.matches_weakly(tag) && tag.matches_strongly(tag) != tag.weak);
    }
    if let Some(second) = date::parse(value) {
        assert_eq!(date::parse(&date::imf_fixdate(second)), Some(second));
    }
    if let Some(set) = RangeSet::parse(value) {
        assert!((1..=RANGES_MAX).contains(&set.specs().len()));
        if let Ok(ranges) = set.resolve(size) {
            assert!((1..=set.specs().len()).contains(&ranges.as_slice().len()));
            for range in ranges.as_slice() {
                assert!(range.first <= range.last && range.last < size);
                assert!((1..=size).contains(&range.length()));
            }
            check_without_overlaps(ranges);
        }
    }
}

fn check_without_overlaps(ranges: ByteRanges) {
    let apart = ranges.clone().without_overlaps();
    let (before, apart) = (ranges.as_slice(), apart.as_slice());
    let is_inside = |inner: &ByteRange, outer: &ByteRange| outer.first <= inner.first && inner.last <= outer.last;
    for range in before {
        assert_eq!(
            apart.iter().filter(|outer| is_inside(range, outer)).count(),
            1,
            "each is in one of those that are left"
        );
    }
    for (index, range) in apart.iter().enumerate() {
        assert!(before.iter().any(|other| other.first == range.first));
        assert!(before.iter().any(|other| other.last == range.last));
        for other in &apart[..index] {
            assert!(range.last < other.first || other.last < range.first, "{range:?} overlaps {other:?}");
        }
    }
}
