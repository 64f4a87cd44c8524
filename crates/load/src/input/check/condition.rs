//! A check: conditions on a response, read from text, by which responses are judged without
//! allocating.
//!
//! The engine decides when a response is whole, and computes its digest.

use std::fmt;

use thalweg_measure::Outcome;
use thalweg_units::parse_size;

use crate::input::text::{InputError, Line, excerpt};

/// Most alternatives of a status, such as the two of `200|206`.
const STATUSES_MAX: usize = 8;

/// Most conditions on fields: one bit each while a head is looked through.
const FIELDS_MAX: usize = 32;

/// The conditions on a response that make it good, beyond being complete and in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// The status; without it, any 2xx is good. A redirect is no answer to what was requested.
    pub status: Option<StatusSet>,
    /// The length of the content in bytes.
    pub length: Option<u64>,
    /// SHA-256 of the content.
    pub sha256: Option<[u8; 32]>,
    /// The conditions on its fields.
    pub fields: Box<[FieldCheck]>,
}

/// A few ranges of status codes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StatusSet {
    /// First and last of each range; those that are not used hold nothing.
    ranges: [(u16, u16); STATUSES_MAX],
}

/// A condition on a field. Of several lines of the name, one has to meet it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldCheck {
    /// The name, in whatever case.
    pub name: Box<str>,
    /// The condition on the value.
    pub value: FieldValue,
}

/// A condition on a field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// Nothing: that there is such a field.
    Any,
    /// To be exactly this.
    Is(Box<str>),
    /// To have this in it.
    Contains(Box<str>),
}

/// A text that is no check: at which character, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {what}")]
pub struct CheckError {
    /// The character, from 1, at which the offending word begins.
    pub column: usize,
    /// The mistake, and what would be right.
    pub what: String,
}

impl Check {
    /// Reads conditions such as `status=200|206,length=14KB,sha256=HEX,header:Content-Type~text`.
    ///
    /// # Errors
    /// The first condition that means nothing.
    pub fn parse(text: &str) -> Result<Self, CheckError> {
        let line = Line { file: "", number: 1, bytes: text.as_bytes() };
        Self::parse_at(line, text, 0).map_err(|error| CheckError { column: error.column, what: error.what })
    }

    /// Reads conditions from the byte `at` of a line to its end. `text` is the line.
    pub(crate) fn parse_at(line: Line<'_>, text: &str, at: usize) -> Result<Self, InputError> {
        let mut conditions = Conditions { line, text, at };
        let mut check = Self::default();
        let mut fields = Vec::new();
        loop {
            conditions.skip_spaces();
            let start = conditions.at;
            let name = conditions.name();
            let set_before = match name {
                "status" => {
                    let (at, value) = conditions.value(start)?;
                    check.status.replace(StatusSet::parse_at(line, at, &value)?).is_some()
                }
                "length" => {
                    let (at, value) = conditions.value(start)?;
                    let length = parse_size(&value).map_err(|error| line.error(at, error.to_string()))?;
                    check.length.replace(length).is_some()
                }
                "sha256" => {
                    let (at, value) = conditions.value(start)?;
                    let what = "a SHA-256 digest has 64 hexadecimal digits";
                    check.sha256.replace(digest(&value).ok_or_else(|| line.error(at, what))?).is_some()
                }
                "header" if fields.len() < FIELDS_MAX => {
                    fields.push(conditions.field()?);
                    false
                }
                "header" => return Err(line.error(start, format!("at most {FIELDS_MAX} fields can be checked"))),
                _ => return Err(conditions.unknown(start, name)),
            };
            if set_before {
                return Err(line.error(start, format!("{name} is given twice")));
            }
            if !conditions.next_follows()? {
                break;
            }
        }
        check.fields = fields.into();
        Ok(check)
    }

    /// Judges a whole response by its status and content. `digest` is that of the content, wherever
    /// [`sha256`](Self::sha256) requires one.
    pub fn judge(&self, status: u16, length: u64, digest: Option<[u8; 32]>) -> Outcome {
        let good_status = self.status.map_or((200..300).contains(&status), |statuses| statuses.contains(status));
        let good_length = self.length.is_none_or(|expected| expected == length);
        judge(good_status, good_length && self.sha256.is_none_or(|expected| digest == Some(expected)))
    }

    /// Whether the fields of a response's head, as names and values without blanks around them,
    /// meet all conditions on them.
    pub fn check_fields<'a, N: AsRef<[u8]>>(&self, fields: impl Iterator<Item = (N, &'a [u8])>) -> bool {
        let all = (1u64 << self.fields.len()) - 1;
        let mut met = 0;
        for (name, value) in fields {
            if met == all {
                break;
            }
            for (index, check) in self.fields.iter().enumerate() {
                met |= u64::from(check.is_met_by(name.as_ref(), value)) << index;
            }
        }
        met == all
    }
}

/// The outcome of a whole response.
pub(super) fn judge(good_status: bool, good_content: bool) -> Outcome {
    match (good_status, good_content) {
        (false, _) => Outcome::BadStatus,
        (true, false) => Outcome::FailedCheck,
        (true, true) => Outcome::Good,
    }
}

impl StatusSet {
    /// The set of so many ranges.
    pub(super) fn of(ranges: &mut dyn Iterator<Item = (u16, u16)>) -> Self {
        let mut set = Self { ranges: [NO_STATUS; STATUSES_MAX] };
        set.ranges.iter_mut().zip(ranges).for_each(|(place, range)| *place = range);
        set
    }

    /// First and last of each range.
    pub(super) fn used(&self) -> impl Iterator<Item = (u16, u16)> {
        self.ranges.iter().copied().filter(|&range| range != NO_STATUS)
    }

    /// Whether this status is one of them.
    pub fn contains(self, status: u16) -> bool {
        self.ranges.iter().any(|&(first, last)| first <= status && status <= last)
    }

    /// Reads `200`, `2xx`, or several with `|` between.
    fn parse_at(line: Line<'_>, mut at: usize, text: &str) -> Result<Self, InputError> {
        let mut ranges = [NO_STATUS; STATUSES_MAX];
        let mut free = ranges.iter_mut();
        for part in text.split('|') {
            let wrong = |what: &str| line.error(at, format!("{} {what}", excerpt(part.as_bytes())));
            let range =
                status_range(part).ok_or_else(|| wrong("is not a status; expected for example 200, 2xx or 200|206"))?;
            *free.next().ok_or_else(|| wrong("is too many; at most 8 statuses are allowed"))? = range;
            at += part.len() + 1;
        }
        Ok(Self { ranges })
    }
}

/// A range with nothing in it.
const NO_STATUS: (u16, u16) = (1, 0);

fn status_range(text: &str) -> Option<(u16, u16)> {
    let text = text.trim();
    if let Some(class) = text.strip_suffix("xx").or_else(|| text.strip_suffix("XX")) {
        let class: u16 = class.parse().ok().filter(|class| (1..10).contains(class))?;
        return Some((class * 100, class * 100 + 99));
    }
    let status = text.parse().ok().filter(|status| (100..1000).contains(status))?;
    Some((status, status))
}

impl From<u16> for StatusSet {
    fn from(status: u16) -> Self {
        let mut ranges = [NO_STATUS; STATUSES_MAX];
        ranges[0] = (status, status);
        Self { ranges }
    }
}

impl fmt::Debug for StatusSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ranges.iter().filter(|&&range| range != NO_STATUS)).finish()
    }
}

impl FieldCheck {
    fn is_met_by(&self, name: &[u8], value: &[u8]) -> bool {
        name.eq_ignore_ascii_case(self.name.as_bytes())
            && match &self.value {
                FieldValue::Any => true,
                FieldValue::Is(expected) => value == expected.as_bytes(),
                // Texts to look for are never empty.
                FieldValue::Contains(part) => value.windows(part.len()).any(|window| window == part.as_bytes()),
            }
    }
}

/// The conditions of a text, from left to right.
struct Conditions<'a> {
    line: Line<'a>,
    text: &'a str,
    at: usize,
}

impl<'a> Conditions<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_spaces(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// Takes what stands before the next `=`, `:`, comma or the end.
    fn name(&mut self) -> &'a str {
        let name = self.rest().split(['=', ':', ',']).next().unwrap_or_default();
        self.at += name.len();
        name.trim_end()
    }

    /// Takes `=` and the value behind it; gives where that stands.
    fn value(&mut self, start: usize) -> Result<(usize, String), InputError> {
        if !self.rest().starts_with('=') {
            return Err(self.line.error(start, "expected for example status=200,length=512,sha256=HEX"));
        }
        self.at += 1;
        self.word()
    }

    /// Takes a word up to the next comma, or in quotes; gives where it stands.
    fn word(&mut self) -> Result<(usize, String), InputError> {
        self.skip_spaces();
        let start = self.at;
        if !self.rest().starts_with('"') {
            let word = self.rest().split(',').next().unwrap_or_default();
            self.at += word.len();
            return Ok((start, word.trim_end().to_owned()));
        }
        let mut word = String::new();
        let mut chars = self.rest().char_indices().skip(1);
        while let Some((index, char)) = chars.next() {
            match char {
                '"' => {
                    self.at += index + 1;
                    self.skip_spaces();
                    return Ok((start, word));
                }
                '\\' => word.extend(chars.next().map(|(_, escaped)| escaped)),
                _ => word.push(char),
            }
        }
        Err(self.line.error(start, "this quote is not closed"))
    }

    /// Takes `:Name`, `:Name=value` or `:Name~part`.
    fn field(&mut self) -> Result<FieldCheck, InputError> {
        let start = self.at;
        if !self.rest().starts_with(':') {
            return Err(self.line.error(start, "expected for example header:Content-Type=text/html"));
        }
        self.at += 1;
        let name = self.rest().split(['=', '~', ',']).next().unwrap_or_default();
        let name_at = self.at;
        self.at += name.len();
        let name = name.trim_end();
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(self.line.error(name_at, format!("{} is not a field name", excerpt(name.as_bytes()))));
        }
        let operator = self.rest().chars().next();
        let value = match operator {
            Some('=') | Some('~') => {
                self.at += 1;
                let (at, value) = self.word()?;
                if operator == Some('=') {
                    FieldValue::Is(value.into())
                } else if value.is_empty() {
                    return Err(self.line.error(at, "there is no text after the ~"));
                } else {
                    FieldValue::Contains(value.into())
                }
            }
            _ => FieldValue::Any,
        };
        Ok(FieldCheck { name: name.into(), value })
    }

    /// Takes the comma before a further condition.
    fn next_follows(&mut self) -> Result<bool, InputError> {
        match self.rest().chars().next() {
            None => Ok(false),
            Some(',') => {
                self.at += 1;
                Ok(true)
            }
            Some(_) => Err(self.line.error(self.at, "separate conditions by commas")),
        }
    }

    fn unknown(&self, at: usize, name: &str) -> InputError {
        let known = "expected status=, length=, sha256= or header:";
        match name {
            "" => self.line.error(at, format!("a condition is missing; {known}")),
            _ => self.line.error(at, format!("{}: {known}", excerpt(name.as_bytes()))),
        }
    }
}

fn digest(hex: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, at) in digest.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&hex[at..at + 2], 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_refused(text: &str, column: usize, part: &str) {
        let error = Check::parse(text).expect_err(text);
        assert_eq!(error.column, column, "{text}: {error}");
        assert!(error.what.contains(part), "{text}: {error}");
    }

    #[test]
    fn checks_are_read() {
        let whole = Check::parse(&format!("status=206, length=14KB ,sha256={}", "0F".repeat(32))).unwrap();
        let expected =
            Check { status: Some(206.into()), length: Some(14_000), sha256: Some([0x0f; 32]), ..Check::default() };
        assert_eq!(whole, expected);
        let field = |name: &str, value| FieldCheck { name: name.into(), value };
        let fields =
            Check::parse(r#"header:A,header:B=x=y;z ,header:C="a, \"b\\", header:D~ü,header:E="#).unwrap().fields;
        let expected = [
            field("A", FieldValue::Any),
            field("B", FieldValue::Is("x=y;z".into())),
            field("C", FieldValue::Is("a, \"b\\".into())),
            field("D", FieldValue::Contains("ü".into())),
            field("E", FieldValue::Is("".into())),
        ];
        assert_eq!(*fields, expected);
    }

    #[test]
    fn invalid_checks_are_refused_with_their_place() {
        check_refused("", 1, "condition is missing");
        check_refused("status=200,", 12, "condition is missing");
        check_refused("status", 1, "expected for example");
        check_refused("ü=1", 1, "expected status=");
        check_refused("status=20", 8, "is not a status");
        check_refused("status=2x", 8, "is not a status");
        check_refused("status=200|x", 12, "is not a status");
        check_refused("status=0xx", 8, "is not a status");
        check_refused("status=1|2", 8, "is not a status");
        check_refused("status=200|201|202|203|204|205|206|207|208", 40, "at most 8");
        check_refused("status=200,status=404", 12, "twice");
        check_refused("length=-1", 8, "negative");
        check_refused("sha256=12", 8, "64 hexadecimal");
        check_refused(&format!("sha256={}", "ü".repeat(32)), 8, "64 hexadecimal");
        check_refused("status=200,md5=1", 12, "expected status=");
        check_refused("header=x", 7, "expected for example");
        check_refused("header:", 8, "not a field name");
        check_refused("header:ü=1", 8, "not a field name");
        check_refused("header:A=\"x", 10, "not closed");
        check_refused("header:A=\"x\\", 10, "not closed");
        check_refused("header:Ä", 8, "not a field name");
        check_refused("header:A~", 10, "no text after");
        check_refused("header:A=\"ü\" x", 14, "comma");
        check_refused(&vec!["header:A"; 33].join(","), 32 * 9 + 1, "at most 32");
    }

    fn check_status(text: &str, good: &[u16], bad: &[u16]) {
        let check = if text.is_empty() { Check::default() } else { Check::parse(text).unwrap() };
        for status in good {
            assert_eq!(check.judge(*status, 0, None), Outcome::Good, "{text} {status}");
        }
        for status in bad {
            assert_eq!(check.judge(*status, 0, None), Outcome::BadStatus, "{text} {status}");
        }
    }

    #[test]
    fn statuses() {
        check_status("", &[200, 299], &[100, 199, 300, 301, 304, 400, 999, 0]);
        check_status("status=404", &[404], &[200, 403, 405, 0, 1]);
        check_status("status=2xx", &[200, 299], &[199, 300]);
        check_status("status=200|206", &[200, 206], &[203, 404]);
        check_status("status=2XX | 304", &[200, 304], &[303]);
    }

    #[test]
    fn contents() {
        let check = Check::parse(&format!("length=2,sha256={}", "00".repeat(32))).unwrap();
        assert_eq!(check.judge(200, 2, Some([0; 32])), Outcome::Good);
        assert_eq!(check.judge(200, 3, Some([0; 32])), Outcome::FailedCheck);
        assert_eq!(check.judge(200, 2, Some([1; 32])), Outcome::FailedCheck);
        assert_eq!(check.judge(200, 2, None), Outcome::FailedCheck);
        assert_eq!(check.judge(404, 3, None), Outcome::BadStatus);
        assert_eq!(Check::default().judge(200, 3, Some([1; 32])), Outcome::Good);
    }

    fn check_fields(text: &str, expected: bool) {
        let fields: [(&str, &[u8]); 4] =
            [("content-TYPE", b"text/html; charset=utf-8"), ("Vary", b"a"), ("Vary", b"b"), ("X", b"")];
        assert_eq!(Check::parse(text).unwrap().check_fields(fields.into_iter()), expected, "{text}");
    }

    #[test]
    fn fields() {
        check_fields("status=200", true);
        check_fields("header:Content-Type", true);
        check_fields("header:Content-Type=text/html; charset=utf-8,header:vary=b", true);
        check_fields("header:Content-Type=text/html", false);
        check_fields("header:Content-Type~text/html,header:Vary=a,header:Vary=b", true);
        check_fields("header:Vary=a,header:Vary=c", false);
        check_fields("header:Vary=A", false);
        check_fields("header:X=", true);
        check_fields("header:X~longer than the value", false);
        check_fields("header:Y", false);
        assert!(!Check::parse("header:X").unwrap().check_fields(std::iter::empty::<(&[u8], &[u8])>()));
        let many = vec!["header:X"; 32].join(",");
        check_fields(&many, true);
        check_fields(&many.replacen("X", "Y", 1), false);
    }
}
