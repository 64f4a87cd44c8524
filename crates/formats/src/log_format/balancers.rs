//! Logs of load balancers: AWS's application load balancer, and HAProxy's `option httplog`.

use super::parts::{Part, Parts};
use super::pattern::{Field, Pattern, Piece};
use super::time::TimeForm;
use crate::access_log::LogFault;

/// The format of AWS's application load balancer, whose further fields mean nothing here.
pub(super) fn alb() -> Pattern {
    const SKIPPED: Option<Field> = Some(Field::Skipped);
    let part = |part| Some(Field::Part(part));
    let fields = [
        SKIPPED,
        Some(Field::Time(TimeForm::Iso)),
        SKIPPED,
        part(Part::Client),
        SKIPPED,
        SKIPPED,
        SKIPPED,
        SKIPPED,
        part(Part::Status),
        SKIPPED,
        SKIPPED,
        part(Part::Bytes),
    ];
    let blank = || Piece::Text(b" ".to_vec());
    let mut pieces: Vec<Piece> =
        fields.into_iter().flatten().flat_map(|field| [Piece::Field(field), blank()]).collect();
    for part in [Part::Request, Part::Agent] {
        pieces.extend([
            Piece::Text(b"\"".to_vec()),
            Piece::Field(Field::Part(part)),
            Piece::Text(if part == Part::Request { b"\" ".to_vec() } else { b"\"".to_vec() }),
        ]);
    }
    Pattern::new(pieces).expect("the format has a time and a request")
}

/// Reads a line of HAProxy, with what syslog writes before it or without.
///
/// # Errors
/// It has another format.
pub(super) fn haproxy(line: &[u8]) -> Result<Parts<'_>, LogFault> {
    const TIME: &str = "a client and a time such as [10/Oct/2000:13:55:36.655]";
    let fault = |at, expected| LogFault { at, expected };
    let (client, moment, mut at) = client_and_time(line).ok_or(fault(0, TIME))?;
    let mut word = |expected| {
        let rest = &line[at..];
        let rest = rest.strip_prefix(b" ").ok_or(fault(at, "a blank"))?;
        let end = rest.iter().position(|byte| *byte == b' ').ok_or(fault(at, expected))?;
        at += end + 1;
        Ok(&rest[..end])
    };
    for part in ["a frontend", "a backend and a server", "timers"] {
        word(part)?;
    }
    let status = word("a status")?;
    let bytes = word("a number of bytes")?;
    for part in ["a captured cookie", "a captured cookie", "a state", "connections", "queues"] {
        word(part)?;
    }
    let mut parts = Parts { moment: Some(moment), has_urls: true, ..Parts::default() };
    let rest = &line[at..];
    let begin = rest.iter().position(|byte| *byte == b'"').ok_or(fault(at, "a request in quotes"))? + 1;
    // Captured fields may have quotes in them; nothing behind the request has.
    let end = rest.iter().rposition(|byte| *byte == b'"').filter(|end| *end >= begin);
    let end = end.ok_or(fault(at + begin, "a closing quote"))?;
    let begin = rest[..end].iter().rposition(|byte| *byte == b'"').map_or(begin, |quote| quote + 1);
    parts.set(Part::Client, client);
    parts.set(Part::Status, status);
    parts.set(Part::Bytes, bytes.strip_prefix(b"+").unwrap_or(bytes));
    parts.set(Part::Request, &rest[begin..end]);
    Ok(parts)
}

/// The client, the time behind it in brackets, and the place behind that.
fn client_and_time(line: &[u8]) -> Option<(&[u8], super::time::Moment, usize)> {
    let mut from = 0;
    while let Some(found) = line[from..].windows(2).position(|pair| pair == b" [") {
        let bracket = from + found;
        let time = &line[bracket + 2..];
        let end = time.iter().position(|byte| *byte == b']')?;
        // The Common Log Format has its time so, too, but without a fraction.
        if let Some(moment) = TimeForm::Clf.read(&time[..end]).filter(|(_, fraction)| fraction.is_some()) {
            let begin = line[..bracket].iter().rposition(|byte| *byte == b' ').map_or(0, |blank| blank + 1);
            return Some((&line[begin..bracket], moment, bracket + 2 + end + 1));
        }
        from = bracket + 2;
    }
    None
}
