//! Apache's `LogFormat`: text with directives of one letter in it.

use super::parts::Part;
use super::pattern::{Field, Pattern, Piece};
use super::time::TimeForm;

/// Makes a pattern of the string of a `LogFormat`, or of the whole directive.
///
/// # Errors
/// A directive is not known; the message says which.
pub(super) fn pattern(text: &str) -> Result<Pattern, String> {
    let text = string_of(text);
    let (mut pieces, mut literal) = (Vec::new(), Vec::new());
    let mut rest = text.as_str();
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c != '%' {
            literal.extend(c.encode_utf8(&mut [0; 4]).bytes());
            continue;
        }
        // Statuses and a choice of the first or last request do not matter here.
        rest = rest.trim_start_matches(|c: char| matches!(c, '!' | ',' | '<' | '>') || c.is_ascii_digit());
        let (argument, after) = match rest.strip_prefix('{') {
            Some(inner) => inner.split_once('}').map(|(name, rest)| (Some(name), rest)).ok_or("a { has no }")?,
            None => (None, rest),
        };
        let letter = after.trim_start_matches(['<', '>']).chars().next().ok_or("a % has nothing behind it")?;
        rest = after.trim_start_matches(['<', '>']).get(letter.len_utf8()..).unwrap_or_default();
        if letter == '%' {
            literal.push(b'%');
            continue;
        }
        let fields = directive(letter, argument)?;
        for piece in fields {
            if let Piece::Text(text) = piece {
                literal.extend(text);
                continue;
            }
            if !literal.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut literal)));
            }
            pieces.push(piece);
        }
    }
    if !literal.is_empty() {
        pieces.push(Piece::Text(literal));
    }
    Pattern::new(pieces)
}

/// The string of a directive, which stands in quotes with backslashes before those in it; or the
/// text itself, in which backslashes may be left over from there.
fn string_of(text: &str) -> String {
    let trimmed = text.trim();
    let inner = match trimmed.strip_prefix("LogFormat").map(str::trim_start).and_then(|rest| rest.strip_prefix('"')) {
        Some(rest) => {
            let mut is_escaped = false;
            let end = rest.find(|c| {
                let is_end = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                is_end
            });
            &rest[..end.unwrap_or(rest.len())]
        }
        None => text,
    };
    inner.replace("\\\"", "\"").replace("\\t", "\t").replace("\\\\", "\\")
}

fn directive(letter: char, argument: Option<&str>) -> Result<Vec<Piece>, String> {
    let part = |part| Ok(vec![Piece::Field(Field::Part(part))]);
    let of_field = |name: &str| match name.to_ascii_lowercase().as_str() {
        "x-forwarded-for" => Field::Part(Part::Forwarded),
        "host" => Field::Part(Part::Host),
        "referer" => Field::Part(Part::Referer),
        "user-agent" => Field::Part(Part::Agent),
        _ => Field::Skipped,
    };
    match (letter, argument) {
        ('h' | 'a', _) => part(Part::Client),
        ('r', _) => part(Part::Request),
        ('m', _) => part(Part::Method),
        ('U', _) => part(Part::Path),
        ('q', _) => part(Part::Query),
        ('s', _) => part(Part::Status),
        ('b' | 'B' | 'O', _) => part(Part::Bytes),
        ('v' | 'V', _) => part(Part::Host),
        ('i', Some(name)) => Ok(vec![Piece::Field(of_field(name))]),
        ('t', argument) => Ok(time(argument)),
        (letter, _) if letter.is_ascii_alphabetic() || letter == '^' => Ok(vec![Piece::Field(Field::Skipped)]),
        (letter, _) => Err(format!("%{letter} is no directive")),
    }
}

/// The time: in brackets, as a number, or as a format of `strftime` says.
fn time(argument: Option<&str>) -> Vec<Piece> {
    let of = |form| vec![Piece::Field(Field::Time(form))];
    let format = argument.map(|text| text.trim_start_matches("begin:").trim_start_matches("end:"));
    match format {
        None | Some("") => {
            vec![Piece::Text(b"[".to_vec()), Piece::Field(Field::Time(TimeForm::Clf)), Piece::Text(b"]".to_vec())]
        }
        Some("sec") => of(TimeForm::Since1970 { per_second: 1 }),
        Some("msec") => of(TimeForm::Since1970 { per_second: 1_000 }),
        Some("usec") => of(TimeForm::Since1970 { per_second: 1_000_000 }),
        // The zone of a time that stands elsewhere; that one is taken for UTC then.
        Some("%z" | "%Z") => vec![Piece::Field(Field::Skipped)],
        Some("msec_frac" | "usec_frac") => vec![Piece::Field(Field::Fraction)],
        Some(format) => of(TimeForm::Formatted(format.to_owned())),
    }
}
