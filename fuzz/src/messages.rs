//! Whole messages: cuts must not matter, accepted heads must be unambiguous, memory must be
//! bounded.

use thalweg_wire::chunked::{ChunkEvent, ChunkFault, Decoder, LAST_CHUNK, push_chunk};
use thalweg_wire::{Bounds, RequestKind};

use crate::lines::split_line;
use crate::transcript::{self, Transcript};

/// Bounds that short inputs can reach.
const TIGHT: Bounds = Bounds {
    head_bytes_max: 96,
    start_line_bytes_max: 32,
    fields_max: 4,
    chunk_line_bytes_max: 12,
    chunk_extension_bytes_max: 16,
    trailer_bytes_max: 24,
    empty_lines_max: 2,
    informational_max: 2,
    is_lenient: false,
};

/// The first line: a `!` for tight bounds, then the lengths of the parts, to be used in turn. A
/// digit stands for itself, any other byte for its value.
fn plan(line: &[u8], otherwise: Bounds) -> (Bounds, Vec<usize>) {
    let (bounds, lengths) = match line.strip_prefix(b"!") {
        Some(lengths) => (TIGHT, lengths),
        None => (otherwise, line),
    };
    let length = |&byte: &u8| usize::from(if byte.is_ascii_digit() { byte - b'0' } else { byte });
    (bounds, lengths.iter().map(length).collect())
}

/// A line with the plan, then the bytes of a connection as a server receives them.
pub fn request_reader(data: &[u8]) {
    let (line, input) = split_line(data);
    let (bounds, lengths) = plan(line, Bounds::requests());
    let read = |lengths: &[usize]| transcript::requests(input, lengths, bounds);
    check_cuts(input, [read(&[]), read(&[1]), read(&lengths)], bounds, Folds::Refused);
}

/// A line with the kinds of the requests (`H`EAD, `C`ONNECT, `U`pgrade, others), a line with the
/// plan, then the bytes of a connection as a client receives them.
pub fn response_reader(data: &[u8]) {
    let (kinds, rest) = split_line(data);
    let (line, input) = split_line(rest);
    let kind = |byte: &u8| match byte {
        b'H' => RequestKind::Head,
        b'C' => RequestKind::Connect,
        b'U' => RequestKind::Upgrade,
        _ => RequestKind::Other,
    };
    let kinds: Vec<RequestKind> = kinds.iter().map(kind).collect();
    let (bounds, lengths) = plan(line, Bounds::responses());
    let read = |lengths: &[usize]| transcript::responses(input, lengths, bounds, &kinds);
    check_cuts(input, [read(&[]), read(&[1]), read(&lengths)], bounds, Folds::Read);
}

/// The treatment of obsolete line folding (RFC 9112, 5.2): user agents read it, servers refuse it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Folds {
    Refused,
    Read,
}

fn check_cuts(input: &[u8], [whole, bytewise, cut]: [Transcript; 3], bounds: Bounds, folds: Folds) {
    assert_eq!(whole.text(), bytewise.text(), "whole and byte by byte differ");
    assert_eq!(whole.text(), cut.text(), "whole and cut differ");
    assert!(!whole.is_ambiguous(), "the two parsers disagree");
    for transcript in [&whole, &bytewise, &cut] {
        // A vector at most doubles.
        assert!(transcript.retained_bytes <= 2 * bounds.head_bytes_max as usize);
    }
    if whole.lines[0].contains("HTTP/1.") {
        assert_strict_head(input, folds);
    }
    if whole.lines.iter().any(|line| line.contains("UnsupportedVersion")) {
        let is_version = |bytes: &[u8]| {
            matches!(bytes, [b'H', b'T', b'T', b'P', b'/', major, b'.', minor, b' ' | b'\r']
                if major.is_ascii_digit() && minor.is_ascii_digit())
        };
        assert!(input.windows(9).any(is_version), "a version that is none is malformed");
    }
}

/// An accepted head, looked at naively: every line ends in CRLF, has no other control byte than
/// HTAB, and every field line has a name without whitespace before its colon. A folded line belongs
/// to the field line before it.
fn assert_strict_head(mut input: &[u8], folds: Folds) {
    while let Some(rest) = input.strip_prefix(b"\r\n") {
        input = rest;
    }
    let end = input.windows(4).position(|window| window == b"\r\n\r\n").expect("an accepted head ends");
    let text = input[..end].to_vec();
    let mut lines = text.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    assert!(text.iter().zip(text.iter().skip(1)).all(|(&one, &next)| (one == b'\r') == (next == b'\n')));
    let start_line = lines.next().unwrap_or_default();
    assert!(!start_line.iter().any(|&byte| byte < b' ' && byte != b'\t'));
    for (number, line) in lines.enumerate() {
        assert!(!line.iter().any(|&byte| (byte < b' ' && byte != b'\t') || byte == 0x7f));
        if matches!(line.first(), Some(b' ' | b'\t')) {
            assert!(folds == Folds::Read && number > 0, "a fold was read where there can be none");
            continue;
        }
        let colon = line.iter().position(|&byte| byte == b':').expect("a field line has a colon");
        assert!(colon > 0 && line[..colon].iter().all(u8::is_ascii_graphic));
        let value = line[colon + 1..].trim_ascii();
        if line[..colon].eq_ignore_ascii_case(b"host") && value.starts_with(b"[") {
            let end = value.iter().position(|&byte| byte == b']').expect("a bracket ends");
            assert!(is_literal(&value[1..end]), "no address stands in these brackets");
        }
    }
}

/// The address in the brackets of a Host, looked at naively: as the groups between its colons (RFC
/// 3986, 3.2.2).
fn is_literal(address: &[u8]) -> bool {
    let text = std::str::from_utf8(address).expect("an address is ASCII");
    if let Some((version, rest)) = text.strip_prefix(['v', 'V']).and_then(|text| text.split_once('.')) {
        return !rest.is_empty() && !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_hexdigit());
    }
    let is_octet = |octet: &str| octet.parse::<u8>().is_ok_and(|value| value.to_string() == octet);
    // A group is four digits, an IPv4 address is two groups; nothing is a group of none.
    let groups_of = |part: &str| match part {
        "" => Some(0),
        part if part.contains('.') => {
            (part.split('.').filter(|octet| is_octet(octet)).count() == 4 && part.split('.').count() == 4).then_some(2)
        }
        part => (part.len() <= 4 && part.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(1),
    };
    let count = |side: &str| side.split(':').map(|part| groups_of(part).filter(|&n| n > 0 || side.is_empty())).sum();
    let sides: Option<Vec<usize>> = text.splitn(2, "::").map(count).collect();
    match sides.as_deref() {
        Some(&[groups]) => groups == 8,
        Some(&[before, behind]) => before + behind < 8,
        _ => false,
    }
}

/// A line with the plan, then a body in the chunked coding with whatever follows it.
pub fn chunked(data: &[u8]) {
    let (line, input) = split_line(data);
    let (bounds, lengths) = plan(line, Bounds::requests());
    let whole = decode(input, &[], &bounds);
    assert_eq!(whole, decode(input, &[1], &bounds), "whole and byte by byte differ");
    assert_eq!(whole, decode(input, &lengths, &bounds), "whole and cut differ");
    if let Ok(Some((body, consumed))) = whole {
        assert_eq!(decode_naively(&input[..consumed]).as_ref(), Some(&body), "another reading is possible");
        let mut encoded = Vec::new();
        push_chunk(&mut encoded, &body);
        encoded.extend_from_slice(LAST_CHUNK);
        let again = decode(&encoded, &lengths, &Bounds::requests());
        assert_eq!(again, Ok(Some((body, encoded.len()))), "what was written is not read back");
    }
}

/// The body and the length of its encoding, if it is complete.
fn decode(input: &[u8], lengths: &[usize], bounds: &Bounds) -> Result<Option<(Vec<u8>, usize)>, ChunkFault> {
    let (mut decoder, mut body, mut offset) = (Decoder::new(), Vec::new(), 0);
    let mut lengths = lengths.iter().cycle();
    while offset < input.len() {
        let part_bytes = lengths.next().map_or(usize::MAX, |&length| length.max(1));
        let mut part = &input[offset..input.len().min(offset.saturating_add(part_bytes))];
        while !part.is_empty() {
            let progress = decoder.read(part, bounds)?;
            offset += progress.consumed;
            part = &part[progress.consumed..];
            match progress.event {
                Some(ChunkEvent::Data(data)) => body.extend_from_slice(data),
                Some(ChunkEvent::End) => return Ok(Some((body, offset))),
                None => assert!(part.is_empty(), "bytes are left, but no event came"),
            }
        }
    }
    Ok(None)
}

/// A decoder as the RFC's pseudo-code (RFC 9112, 7.1.3), with all of the body at hand. `None` if it
/// is unsound.
fn decode_naively(mut input: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = input.windows(2).position(|window| window == b"\r\n")?;
        let line = std::str::from_utf8(input[..end].split(|&byte| byte == b';').next()?).ok()?;
        let size = usize::from_str_radix(line, 16).ok()?;
        input = &input[end + 2..];
        if size == 0 {
            let has_end = input == b"\r\n" || input.ends_with(b"\r\n\r\n");
            return has_end.then_some(body);
        }
        body.extend_from_slice(input.get(..size)?);
        input = input[size..].strip_prefix(b"\r\n")?;
    }
}
