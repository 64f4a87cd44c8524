//! Patterns: lines of parts between fixed texts, as nginx's `log_format` and Apache's `LogFormat`
//! describe them. `nginx` and `apache` make patterns of those.

use super::parts::{Part, Parts};
use super::time::{Moment, TimeForm};
use crate::access_log::LogFault;

/// A part of a line, or text of no meaning here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Part(Part),
    Time(TimeForm),
    /// The fraction of the second, in digits, that belongs to the time in another field.
    Fraction,
    /// Anything else.
    Skipped,
}

/// A piece of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(Vec<u8>),
    Field(Field),
}

/// A line as a format describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    pieces: Vec<Piece>,
}

/// Pieces of a format at most.
const PIECES_MAX: usize = 200;

impl Pattern {
    /// A pattern of these pieces.
    ///
    /// # Errors
    /// It has no time or no request, or two fields follow one another with nothing between them.
    pub(super) fn new(pieces: Vec<Piece>) -> Result<Self, String> {
        let mut joined: Vec<Piece> = Vec::new();
        for piece in pieces {
            match (joined.last_mut(), piece) {
                (Some(Piece::Text(before)), Piece::Text(text)) => before.extend(text),
                (Some(Piece::Field(Field::Skipped)), Piece::Field(Field::Skipped)) => {}
                (Some(Piece::Field(Field::Part(Part::Path))), Piece::Field(Field::Part(Part::Query))) => {
                    // Nothing tells them apart, and together they are the target.
                    joined.pop();
                    joined.push(Piece::Field(Field::Part(Part::Target)));
                }
                (Some(Piece::Field(_)), Piece::Field(_)) => {
                    return Err("two fields have nothing between them, so that they cannot be told apart".to_owned());
                }
                (_, piece) => joined.push(piece),
            }
        }
        if joined.len() > PIECES_MAX {
            return Err(format!("the format has more than {PIECES_MAX} parts"));
        }
        let has = |wanted: &[Part]| wanted.iter().any(|part| joined.contains(&Piece::Field(Field::Part(*part))));
        if !joined.iter().any(|piece| matches!(piece, Piece::Field(Field::Time(_)))) {
            return Err("the format has no time".to_owned());
        }
        let has_request = has(&[Part::Request]) || (has(&[Part::Method]) && has(&[Part::Target, Part::Path]));
        if !has_request {
            return Err("the format has no request: neither the whole line nor method and target".to_owned());
        }
        Ok(Self { pieces: joined })
    }

    /// Takes a line apart.
    ///
    /// # Errors
    /// The line does not match this pattern.
    pub(super) fn read<'a>(&self, line: &'a [u8]) -> Result<Parts<'a>, LogFault> {
        let mut parts = Parts::default();
        let (mut at, mut fraction) = (0, None);
        let mut moment: Option<Moment> = None;
        for (position, piece) in self.pieces.iter().enumerate() {
            let rest = &line[at..];
            match piece {
                Piece::Text(text) => {
                    // The last one may lack its blanks.
                    let is_end = position + 1 == self.pieces.len() && text.trim_ascii_end().is_empty();
                    if !(is_end || rest.starts_with(text)) {
                        return Err(LogFault { at, expected: "the text that the format has between two parts" });
                    }
                    at += text.len().min(rest.len());
                }
                Piece::Field(field) => {
                    let length = self
                        .length(position, rest)
                        .ok_or(LogFault { at, expected: "a part of the format, and the text behind it" })?;
                    let text = &rest[..length];
                    match field {
                        Field::Part(part) => parts.set(*part, text),
                        Field::Time(form) => {
                            moment =
                                Some(form.read(text).ok_or(LogFault { at, expected: "a time as the format has it" })?);
                        }
                        Field::Fraction => fraction = fraction_ns(text),
                        Field::Skipped => {}
                    }
                    at += length;
                }
            }
        }
        parts.moment = moment.map(|(second, own)| (second, own.or(fraction)));
        Ok(parts)
    }

    /// How long the field at `position` is at the beginning of `rest`: up to the text behind it.
    fn length(&self, position: usize, rest: &[u8]) -> Option<usize> {
        let next = match self.pieces.get(position + 1) {
            Some(Piece::Text(next)) => next,
            // Further fields of one's own may follow the last one.
            _ => return Some(rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len())),
        };
        let before = match position.checked_sub(1).and_then(|before| self.pieces.get(before)) {
            Some(Piece::Text(before)) => before.last(),
            _ => None,
        };
        if before == Some(&b'"') && next.first() == Some(&b'"') {
            return end_of_quoted(rest);
        }
        let found = find(rest, next);
        // A list of addresses has blanks in it.
        let mut end = found
            .or_else(|| (position + 2 == self.pieces.len() && next.trim_ascii().is_empty()).then_some(rest.len()))?;
        while matches!(self.pieces[position], Piece::Field(Field::Part(Part::Client | Part::Forwarded)))
            && rest[..end].ends_with(b",")
        {
            end += 1 + find(&rest[end + 1..], next)?;
        }
        Some(end)
    }
}

/// The place of a quote that no backslash stands before.
fn end_of_quoted(text: &[u8]) -> Option<usize> {
    let mut is_escaped = false;
    text.iter().position(|byte| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    })
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

fn fraction_ns(text: &[u8]) -> Option<u32> {
    let number = std::str::from_utf8(text).ok()?.parse::<u32>().ok()?;
    match text.len() {
        3 => Some(number * 1_000_000),
        6 => Some(number * 1000),
        _ => None,
    }
}
