//! Drives a reader over bytes cut in parts and records its events, so that two runs can be
//! compared.
//!
//! The driver holds the reader to its contract on the way: it never consumes more than it was
//! given, consumes all before it requests more, repeats its error, and keeps no more memory than a
//! head may have.

use thalweg_wire::{Bounds, FieldSlots, RequestEvent, RequestKind, RequestReader, ResponseEvent, ResponseReader};

/// The events of a reader over some bytes and the end of the connection behind them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Transcript {
    /// One line for each event; the pieces of a body are joined.
    pub(crate) lines: Vec<String>,
    /// Memory the reader held at most.
    pub(crate) retained_bytes: usize,
    body: Vec<u8>,
}

impl Transcript {
    fn event(&mut self, line: String) {
        self.end_body();
        self.lines.push(line);
    }

    fn end_body(&mut self) {
        if !self.body.is_empty() {
            self.lines.push(format!("body {}", self.body.escape_ascii()));
            self.body.clear();
        }
    }

    /// Whether the fast and the slow parser of a reader disagreed. Only the last line can say so,
    /// and only at its beginning: elsewhere the words would be the peer's.
    pub(crate) fn is_ambiguous(&self) -> bool {
        self.lines.last().is_some_and(|line| line.starts_with("Head(Ambiguous)"))
    }

    /// All lines as one, without what depends on the cuts.
    pub(crate) fn text(&self) -> String {
        self.lines.join(" | ")
    }
}

/// The parts of the input: the lengths are used in turn, again and again; without any, the whole is
/// one part.
fn parts<'a>(mut input: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    for length in lengths.iter().cycle() {
        if input.is_empty() {
            return parts;
        }
        let (part, rest) = input.split_at(input.len().min((*length).max(1)));
        parts.push(part);
        input = rest;
    }
    vec![input]
}

/// Reads requests.
pub(crate) fn requests(input: &[u8], lengths: &[usize], bounds: Bounds) -> Transcript {
    let mut reader = RequestReader::new(bounds);
    let mut transcript = Transcript::default();
    for mut part in parts(input, lengths) {
        loop {
            let mut slots = FieldSlots::new();
            let progress = match reader.read(part, &mut slots) {
                Ok(progress) => progress,
                Err(error) => {
                    transcript.event(format!("{error:?} {}", error.status()));
                    let repeated = reader.read(part, &mut FieldSlots::new()).err();
                    assert_eq!(repeated, Some(error), "the error is not kept");
                    return transcript;
                }
            };
            part = &part[progress.consumed..];
            match progress.event {
                Some(RequestEvent::Head(head)) => {
                    let options = format!(
                        "{}{}",
                        if head.keep_alive() { " keep" } else { "" },
                        if head.expects_continue() { " continue" } else { "" }
                    );
                    transcript.event(format!(
                        "{} {} {} host={:?} {:?}{options} {:?}",
                        head.method.name(),
                        head.target.escape_ascii(),
                        head.version.name(),
                        head.host(),
                        head.body,
                        head.fields
                    ));
                }
                Some(RequestEvent::Body(data)) => {
                    assert!(!data.is_empty(), "a body event without bytes");
                    transcript.body.extend_from_slice(data);
                }
                Some(RequestEvent::End) => transcript.event("end".into()),
                None => {
                    assert!(part.is_empty(), "bytes are left, but no event came");
                    break;
                }
            }
        }
        transcript.retained_bytes = transcript.retained_bytes.max(reader.retained_bytes());
    }
    transcript.event(match reader.finish() {
        Ok(()) => "idle".into(),
        Err(error) => format!("{error:?}"),
    });
    transcript
}

/// Reads the replies to requests of these kinds.
pub(crate) fn responses(input: &[u8], lengths: &[usize], bounds: Bounds, kinds: &[RequestKind]) -> Transcript {
    let mut reader = ResponseReader::new(bounds);
    for &kind in kinds {
        reader.expect(kind);
    }
    let mut transcript = Transcript::default();
    for mut part in parts(input, lengths) {
        loop {
            let mut slots = FieldSlots::new();
            let progress = match reader.read(part, &mut slots) {
                Ok(progress) => progress,
                Err(error) => {
                    transcript.event(format!("{error:?}"));
                    let repeated = reader.read(part, &mut FieldSlots::new()).err();
                    assert_eq!(repeated, Some(error), "the error is not kept");
                    return transcript;
                }
            };
            part = &part[progress.consumed..];
            match progress.event {
                Some(ResponseEvent::Informational(head) | ResponseEvent::Head(head)) => {
                    let keep = if head.keep_alive() { " keep" } else { "" };
                    transcript.event(format!(
                        "{} {} {:?} {:?}{keep} {:?}",
                        head.version.name(),
                        head.status,
                        head.reason,
                        head.body,
                        head.fields
                    ));
                }
                Some(ResponseEvent::Body(data)) => {
                    assert!(!data.is_empty(), "a body event without bytes");
                    transcript.body.extend_from_slice(data);
                }
                Some(ResponseEvent::End(bytes)) => {
                    transcript.event(format!("end {}+{}+{}", bytes.header, bytes.body, bytes.framing))
                }
                None => {
                    assert!(part.is_empty(), "bytes are left, but no event came");
                    break;
                }
            }
        }
        transcript.retained_bytes = transcript.retained_bytes.max(reader.retained_bytes());
    }
    transcript.event(match reader.finish() {
        Ok(None) => "idle".into(),
        Ok(Some(bytes)) => format!("end {}+{}+{}", bytes.header, bytes.body, bytes.framing),
        Err(error) => format!("{error:?}"),
    });
    transcript
}
