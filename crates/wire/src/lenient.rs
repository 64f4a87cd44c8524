//! Heads of replies that break the grammar, read as curl reads them.
//!
//! Such a head is written anew as one that the usual parser accepts. Nothing is guessed that
//! decides where the reply ends: a line without a colon, a NUL or a status line of another protocol
//! is refused, as by curl.

use crate::fields::{FIELDS_MAX, is_text_byte, is_token_byte};
use crate::framing::{FramingFault, Survey, idle_seconds};
use crate::scan::HeadFault;
use crate::{Fields, trim_ows};

/// Fields that are kept of a head with more than there is room for.
const KEPT: [&str; 5] = ["connection", "content-length", "keep-alive", "location", "transfer-encoding"];

/// The end of the empty line that ends a head, of which the bytes before `from` were searched.
pub(crate) fn end_of_head(bytes: &[u8], from: usize) -> Option<usize> {
    let from = from.saturating_sub(2);
    let mut lines = bytes[from..].iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| from + at);
    lines.find_map(|at| match bytes[at + 1..] {
        [b'\n', ..] => Some(at + 2),
        [b'\r', b'\n', ..] => Some(at + 3),
        _ => None,
    })
}

/// Writes a head anew.
///
/// # Errors
/// curl would not accept it either.
pub(crate) fn mended(head: &[u8]) -> Result<Vec<u8>, HeadFault> {
    let mut lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let mut out = status_line(lines.next().unwrap_or_default())?;
    let mut fields: Vec<(&[u8], Vec<u8>)> = Vec::new();
    for line in lines.take_while(|line| !line.is_empty()) {
        if line.contains(&0) {
            return Err(HeadFault::InvalidFieldValue);
        }
        let text = |value: &[u8]| value.iter().map(|&byte| if is_text_byte(byte) { byte } else { b' ' }).collect();
        if let [b' ' | b'\t', ..] = line {
            let (_, value) = fields.last_mut().ok_or(HeadFault::ObsoleteFold)?;
            value.push(b' ');
            value.extend::<Vec<u8>>(text(trim_ows(line)));
            continue;
        }
        let colon = line.iter().position(|byte| *byte == b':').ok_or(HeadFault::InvalidFieldName)?;
        fields.push((&line[..colon], text(trim_ows(&line[colon + 1..]))));
    }
    // A name with other bytes is the name of nothing.
    fields.retain(|(name, _)| !name.is_empty() && name.iter().all(|byte| is_token_byte(*byte)));
    if fields.len() > FIELDS_MAX {
        let is_kept = |name: &[u8]| KEPT.iter().any(|kept| name.eq_ignore_ascii_case(kept.as_bytes()));
        // The order of fields of the same name stays.
        fields.sort_by_key(|(name, _)| !is_kept(name));
        fields.truncate(FIELDS_MAX);
    }
    for (name, value) in fields {
        out.extend([name, b": ", trim_ows(&value), b"\r\n"].concat());
    }
    out.extend_from_slice(b"\r\n");
    Ok(out)
}

fn status_line(line: &[u8]) -> Result<Vec<u8>, HeadFault> {
    let (protocol, rest) = line.split_at_checked(8).ok_or(HeadFault::InvalidVersion)?;
    let minor = match protocol.to_ascii_uppercase()[..] {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor @ (b'0' | b'1')] => minor,
        _ => return Err(HeadFault::InvalidVersion),
    };
    let (code, _) = rest.trim_ascii_start().split_at_checked(3).ok_or(HeadFault::InvalidStatus)?;
    if !matches!(code, [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9']) {
        return Err(HeadFault::InvalidStatus);
    }
    Ok([&b"HTTP/1."[..], &[minor], b" ", code, b" \r\n"].concat())
}

impl<'a> Survey<'a> {
    /// The same where the fields contradict one another: the last length counts, and none beside a
    /// transfer coding.
    ///
    /// # Errors
    /// A length has no digits.
    #[cold]
    pub(crate) fn lenient(fields: Fields<'a>) -> Result<Self, FramingFault> {
        let others = || fields.iter().filter(|(name, _)| !is_framing(name));
        let mut survey = Self::default();
        let mut is_coded = false;
        for (_, value) in others().filter(|(name, _)| name.eq_ignore_ascii_case("connection")) {
            survey.connection(value);
        }
        survey.idle_seconds = fields.get("keep-alive").and_then(idle_seconds);
        for (name, value) in fields.iter().filter(|(name, _)| is_framing(name)) {
            if name.len() == "content-length".len() {
                survey.content_length = Some(leading_number(value).ok_or(FramingFault::InvalidContentLength)?);
            } else {
                is_coded = true;
                survey.chunked |=
                    value.split(|byte| *byte == b',').any(|coding| trim_ows(coding).eq_ignore_ascii_case(b"chunked"));
            }
        }
        if is_coded {
            survey.content_length = None;
        }
        Ok(survey)
    }
}

fn is_framing(name: &str) -> bool {
    name.eq_ignore_ascii_case("content-length") || name.eq_ignore_ascii_case("transfer-encoding")
}

/// The number that a value begins with.
fn leading_number(value: &[u8]) -> Option<u64> {
    let value = value.trim_ascii_start();
    let value = value.strip_prefix(b"+").unwrap_or(value);
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    crate::framing::decimal(&value[..digits])
}

#[cfg(test)]
mod tests {
    use crate::{Bounds, FieldSlots, RequestKind, ResponseError, ResponseEvent, ResponseReader};

    /// Reads a reply in parts of that size: its status, its body, and whether the connection lasts.
    fn read(input: &[u8], part_bytes: usize, bounds: Bounds) -> Result<(u16, String, bool), ResponseError> {
        let mut reader = ResponseReader::new(bounds);
        reader.expect(RequestKind::Other);
        let (mut read, mut at) = ((0, String::new(), false), 0);
        while at < input.len() {
            let part = &input[at..input.len().min(at.saturating_add(part_bytes))];
            let mut slots = FieldSlots::new();
            let progress = reader.read(part, &mut slots)?;
            at += progress.consumed;
            match progress.event {
                Some(ResponseEvent::Head(head)) => (read.0, read.2) = (head.status, head.keep_alive()),
                Some(ResponseEvent::Body(bytes)) => read.1.push_str(&String::from_utf8_lossy(bytes)),
                Some(ResponseEvent::End(_)) => return Ok(read),
                _ => {}
            }
        }
        reader.finish()?;
        Ok(read)
    }

    /// The verdicts are those of curl 7.88.
    #[test]
    fn what_curl_accepts_is_accepted_and_nothing_else() {
        let ok = "HTTP/1.1 200 OK\r\n";
        let many: String = (0..150).map(|number| format!("X-{number}: y\r\n")).collect();
        let large: String = (0..10).map(|number| format!("X-{number}: {}\r\n", "y".repeat(7000))).collect();
        let chunked = format!("{ok}Transfer-Encoding: chunked\r\n");
        for (name, input, accepted) in [
            ("lines that end in LF", "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello".to_owned(), true),
            ("a padded chunk size", format!("{chunked}\r\n5  \r\nhello\r\n0\r\n\r\n"), true),
            ("a chunk size behind a space", format!("{chunked}\r\n 5\r\nhello\r\n0\r\n\r\n"), false),
            ("chunk lines that end in LF", format!("{chunked}\r\n5\nhello\n0\n\n"), true),
            ("trailers that end in LF", format!("{chunked}\r\n5\r\nhello\r\n0\nA: b\n\n"), true),
            ("a chunk size before something else", format!("{chunked}\r\n5 a\x01\r\nhello\r\n0\r\n\r\n"), true),
            ("a long extension", format!("{chunked}\r\n5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(3000)), true),
            ("two equal lengths", format!("{ok}Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"), true),
            ("the last of two lengths", format!("{ok}Content-Length: 7\r\nContent-Length: 5\r\n\r\nhello"), true),
            ("a list of lengths", format!("{ok}Content-Length: 5, 5\r\n\r\nhello"), true),
            ("a length with a sign", format!("{ok}Content-Length: +5\r\n\r\nhello"), true),
            ("a length beside a coding", format!("{chunked}Content-Length: 7\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), true),
            (
                "a coding in HTTP/1.0",
                "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".to_owned(),
                true,
            ),
            ("white space before a colon", format!("{ok}X-A : b\r\nContent-Length: 5\r\n\r\nhello"), true),
            ("an empty name", format!("{ok}: b\r\nContent-Length: 5\r\n\r\nhello"), true),
            ("a name that is no token", format!("{ok}X(y): b\r\nContent-Length: 5\r\n\r\nhello"), true),
            ("a control byte", format!("{ok}X: a\x01b\r\nContent-Length: 5\r\n\r\nhello"), true),
            ("a NUL", format!("{ok}X: a\0b\r\nContent-Length: 5\r\n\r\nhello"), false),
            ("a line without a colon", format!("{ok}nonsense\r\nContent-Length: 5\r\n\r\nhello"), false),
            ("a space before the first field", format!("{ok} X: y\r\nContent-Length: 5\r\n\r\nhello"), false),
            ("150 fields", format!("{ok}{many}Content-Length: 5\r\n\r\nhello"), true),
            ("a head of 70 KB", format!("{ok}{large}Content-Length: 5\r\n\r\nhello"), true),
            ("a version in small letters", "http/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_owned(), true),
            ("another version", "HTTP/1.2 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_owned(), false),
            ("an empty line at first", "\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_owned(), false),
        ] {
            assert!(read(input.as_bytes(), usize::MAX, Bounds::responses()).is_err(), "{name}, strictly");
            for part_bytes in [usize::MAX, 1, 7] {
                let outcome = read(input.as_bytes(), part_bytes, Bounds::lenient_responses());
                match accepted {
                    true => assert_eq!(
                        outcome.map(|(status, body, _)| (status, body)),
                        Ok((200, "hello".to_owned())),
                        "{name}, in parts of {part_bytes}"
                    ),
                    false => assert!(outcome.is_err(), "{name}, in parts of {part_bytes}: {outcome:?}"),
                }
            }
        }
    }

    #[test]
    fn a_lenient_reader_reads_usual_replies_as_a_strict_one_does() {
        let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
        for part_bytes in [usize::MAX, 1, 7] {
            let [strict, lenient] =
                [Bounds::responses(), Bounds::lenient_responses()].map(|bounds| read(reply, part_bytes, bounds));
            assert_eq!(strict, Ok((200, "hello".to_owned(), false)));
            assert_eq!(strict, lenient);
        }
        let endless = [&b"HTTP/1.1 200 OK\n"[..], &b"X: y\n".repeat(100_000)].concat();
        assert!(read(&endless, 1000, Bounds::lenient_responses()).is_err(), "a head has a bound");
    }
}
