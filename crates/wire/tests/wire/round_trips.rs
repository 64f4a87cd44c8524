//! Heads and fields that this crate writes are read back as the same.

use proptest::prelude::*;
use thalweg_wire::chunked::{ChunkEvent, Decoder, LAST_CHUNK, push_chunk};
use thalweg_wire::encode::HeadWriter;
use thalweg_wire::range::{RangeSet, RangeSpec};
use thalweg_wire::target::relative_path;
use thalweg_wire::validator::EntityTag;
use thalweg_wire::{
    Bounds, FieldSlots, RequestEvent, RequestKind, RequestReader, ResponseEvent, ResponseReader, Version, date,
};

/// Field lines without meaning for framing, and with values that need no trimming.
fn fields() -> impl Strategy<Value = Vec<(String, String)>> {
    prop::collection::vec(("X-[a-z!#$%&'*+.^_`|~-]{1,12}", "([!-~]([ -~\t]{0,20}[!-~])?)?"), 0..12)
}

fn version() -> impl Strategy<Value = Version> {
    prop::sample::select(vec![Version::Http10, Version::Http11])
}

fn owned<'a>(fields: impl Iterator<Item = (&'a str, &'a [u8])>) -> Vec<(String, String)> {
    fields.map(|(name, value)| (name.to_owned(), String::from_utf8_lossy(value).into_owned())).collect()
}

proptest! {
    #[test]
    fn requests(method in "[A-Za-z!-]{1,12}", target in "/[!-~]{0,40}", version in version(), mut fields in fields()) {
        fields.insert(0, ("Host".to_owned(), "x".to_owned()));
        let mut bytes = Vec::new();
        let mut head = HeadWriter::request(&mut bytes, &method, target.as_bytes(), version)?;
        for (name, value) in &fields {
            head.field(name, value.as_bytes())?;
        }
        head.end();
        let (mut reader, mut slots) = (RequestReader::new(Bounds::requests()), FieldSlots::new());
        let progress = reader.read(&bytes, &mut slots)?;
        prop_assert_eq!(progress.consumed, bytes.len());
        let Some(RequestEvent::Head(head)) = progress.event else {
            return Err(TestCaseError::fail("no head"));
        };
        prop_assert_eq!(head.method.name(), method);
        prop_assert_eq!(head.target, target.as_bytes());
        prop_assert_eq!(head.version, version);
        prop_assert_eq!(owned(head.fields.iter()), fields);
    }

    #[test]
    fn responses(status in 200u16..=999, version in version(), fields in fields()) {
        let mut bytes = Vec::new();
        let mut head = HeadWriter::response(&mut bytes, version, status)?;
        for (name, value) in &fields {
            head.field(name, value.as_bytes())?;
        }
        head.end();
        let (mut reader, mut slots) = (ResponseReader::new(Bounds::responses()), FieldSlots::new());
        reader.expect(RequestKind::Other);
        let progress = reader.read(&bytes, &mut slots)?;
        prop_assert_eq!(progress.consumed, bytes.len());
        let Some(ResponseEvent::Head(head)) = progress.event else {
            return Err(TestCaseError::fail("no head"));
        };
        prop_assert_eq!(head.status, status);
        prop_assert_eq!(head.reason, thalweg_wire::status::reason(status));
        prop_assert_eq!(head.version, version);
        prop_assert_eq!(owned(head.fields.iter()), fields);
    }

    #[test]
    fn chunks(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..8), part_bytes in 1usize..60) {
        let mut bytes = Vec::new();
        for chunk in &chunks {
            push_chunk(&mut bytes, chunk);
        }
        bytes.extend_from_slice(LAST_CHUNK);
        let (mut decoder, mut body, mut ended) = (Decoder::new(), Vec::new(), false);
        for mut part in bytes.chunks(part_bytes) {
            while !ended && !part.is_empty() {
                let progress = decoder.read(part, &Bounds::requests())?;
                part = &part[progress.consumed..];
                match progress.event {
                    Some(ChunkEvent::Data(data)) => body.extend_from_slice(data),
                    Some(ChunkEvent::End) => ended = true,
                    None => {}
                }
            }
        }
        prop_assert!(ended);
        prop_assert_eq!(body, chunks.concat());
    }

    #[test]
    fn dates(second in 0i64..=date::SECOND_MAX) {
        prop_assert_eq!(date::parse(&date::imf_fixdate(second)), Some(second));
    }

    #[test]
    fn ranges(first in any::<u64>(), last in any::<u64>(), size in any::<u64>()) {
        let value = format!("bytes={first}-{last}");
        let Some(set) = RangeSet::parse(value.as_bytes()) else {
            prop_assert!(last < first);
            return Ok(());
        };
        prop_assert_eq!(set.specs(), &[RangeSpec::Closed { first, last }]);
        match set.resolve(size) {
            Ok(ranges) => {
                let range = ranges.single().expect("one part asked for, one found");
                prop_assert!(range.first == first && range.first <= range.last);
                prop_assert!(range.last <= last && range.last < size);
            }
            Err(_) => prop_assert!(first >= size),
        }
    }

    /// For any ranges of a client, the sent bytes are those that a plain evaluation of each range
    /// finds, each once.
    #[test]
    fn ranges_without_overlaps(size in 0u64..40, ends in prop::collection::vec((0u64..60, 0u64..60, 0..3), 1..8)) {
        let mut wanted = vec![false; size as usize];
        let mut mark = |from: u64, to: u64| (from..to.min(size)).for_each(|at| wanted[at as usize] = true);
        let specs = ends.iter().map(|&(one, other, kind)| match kind {
            0 => { mark(one.min(other), one.max(other) + 1); format!("{}-{}", one.min(other), one.max(other)) }
            1 => { mark(one, size); format!("{one}-") }
            _ => { mark(size.saturating_sub(one), size); format!("-{one}") }
        });
        let value = format!("bytes={}", specs.collect::<Vec<_>>().join(","));
        let mut sent = vec![0; size as usize];
        if let Ok(ranges) = RangeSet::parse(value.as_bytes()).expect("a Range").resolve(size) {
            for range in ranges.without_overlaps().as_slice() {
                (range.first..=range.last).for_each(|at| sent[at as usize] += 1);
            }
        }
        prop_assert_eq!(sent, wanted.into_iter().map(i32::from).collect::<Vec<_>>(), "{}", value);
    }

    #[test]
    fn entity_tags(weak in any::<bool>(), opaque in "[!#-~]{0,20}") {
        let tag = EntityTag { weak, opaque: opaque.as_bytes() };
        let mut bytes = Vec::new();
        tag.push(&mut bytes);
        prop_assert_eq!(EntityTag::parse(&bytes), Some(tag));
    }

    /// Names as they come from a directory, encoded as a listing would, lead back to themselves.
    #[test]
    fn file_names(names in prop::collection::vec("[^/\0]{1,12}", 1..5)) {
        prop_assume!(names.iter().all(|name| name != "." && name != ".."));
        let path: String = names.iter().flat_map(|name| {
            std::iter::once("/".to_owned()).chain(name.bytes().map(|byte| format!("%{byte:02x}")))
        }).collect();
        let mut out = Vec::new();
        let shape = relative_path(path.as_bytes(), &mut out)?;
        prop_assert!(!shape.trailing_slash);
        prop_assert_eq!(String::from_utf8_lossy(&out), names.join("/"));
    }

    /// No path leads out of the root after resolution.
    #[test]
    fn no_path_leads_out(path in "/([./a]|%2e|%2E|%2f|%00|%61){0,30}") {
        let mut out = Vec::new();
        if relative_path(path.as_bytes(), &mut out).is_ok() && !out.is_empty() {
            let text = String::from_utf8_lossy(&out);
            prop_assert!(text.split('/').all(|name| !matches!(name, "" | "." | "..")), "{}", text);
        } else {
            prop_assert!(out.is_empty());
        }
    }
}
