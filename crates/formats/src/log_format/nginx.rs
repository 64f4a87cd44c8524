//! nginx's `log_format`: text with variables in it.

use super::parts::Part;
use super::pattern::{Field, Pattern, Piece};
use super::time::TimeForm;

/// Makes a pattern of the string of a `log_format`, or of the whole directive.
///
/// # Errors
/// A `$` has no name behind it, or a brace no end; the message says which.
pub(super) fn pattern(text: &str) -> Result<Pattern, String> {
    let text = string_of(text);
    let mut pieces = Vec::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find('$') {
        push_text(&mut pieces, &rest[..at]);
        rest = &rest[at + 1..];
        let (name, after) = match rest.strip_prefix('{') {
            Some(inner) => inner.split_once('}').ok_or("a variable in braces has no end")?,
            None => rest.split_at(rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len())),
        };
        if name.is_empty() {
            return Err("a $ has no name of a variable behind it".to_owned());
        }
        rest = after;
        match variable(name) {
            Some(field) => pieces.push(Piece::Field(field)),
            // It is a question mark or nothing, between a path and a query.
            None => pieces.push(Piece::Field(Field::Part(Part::Query))),
        }
    }
    push_text(&mut pieces, rest);
    join_queries(&mut pieces);
    Pattern::new(pieces)
}

fn push_text(pieces: &mut Vec<Piece>, text: &str) {
    if !text.is_empty() {
        pieces.push(Piece::Text(text.as_bytes().to_vec()));
    }
}

/// The string of a directive, whose pieces stand in quotes one behind the other; or the text
/// itself.
fn string_of(text: &str) -> String {
    let Some(rest) = text.trim().strip_prefix("log_format") else { return text.to_owned() };
    let mut string = String::new();
    let mut quote = None;
    let mut chars = rest.chars().peekable();
    while let Some(c) = chars.next() {
        match quote {
            None if c == '\'' || c == '"' => quote = Some(c),
            None => {}
            Some(open) if c == open => quote = None,
            Some(open) if c == '\\' && chars.peek() == Some(&open) => string.extend(chars.next()),
            Some(_) => string.push(c),
        }
    }
    string
}

/// `$uri$is_args$args` is one target, since nothing tells where the query begins.
fn join_queries(pieces: &mut Vec<Piece>) {
    let is = |piece: Option<&Piece>, part| piece == Some(&Piece::Field(Field::Part(part)));
    let mut at = 0;
    while at < pieces.len() {
        while is(pieces.get(at), Part::Path) && is(pieces.get(at + 1), Part::Query) {
            pieces.remove(at + 1);
            if !is(pieces.get(at + 1), Part::Query) {
                pieces[at] = Piece::Field(Field::Part(Part::Target));
            }
        }
        at += 1;
    }
}

/// The meaning of a variable; `None` for `$is_args`.
fn variable(name: &str) -> Option<Field> {
    let part = match name {
        "is_args" => return None,
        "time_local" => return Some(Field::Time(TimeForm::Clf)),
        "time_iso8601" => return Some(Field::Time(TimeForm::Iso)),
        "msec" => return Some(Field::Time(TimeForm::Since1970 { per_second: 1 })),
        "remote_addr" | "proxy_protocol_addr" => Part::Client,
        "http_x_forwarded_for" | "proxy_add_x_forwarded_for" => Part::Forwarded,
        "request" => Part::Request,
        "request_method" => Part::Method,
        "request_uri" => Part::Target,
        "uri" | "document_uri" => Part::Path,
        "args" | "query_string" => Part::Query,
        "status" => Part::Status,
        "bytes_sent" | "body_bytes_sent" => Part::Bytes,
        "host" | "http_host" => Part::Host,
        "http_referer" => Part::Referer,
        "http_user_agent" => Part::Agent,
        _ => return Some(Field::Skipped),
    };
    Some(Field::Part(part))
}
