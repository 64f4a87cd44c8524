//! The fields that a gateway owes to what it forwards: Via (RFC 9110, 7.6.3), CDN-Loop (RFC 8586),
//! Max-Forwards (RFC 9110, 7.6.2), and exactly one Date (6.6.1).
//!
//! A name tells a gateway from all others, so that a mirror may stand in front of another one, and
//! a request that comes back is known. Where the names come from, and the answer to a loop, is the
//! caller's.

use thalweg_wire::{Method, Version, date};

use crate::fields::{FieldLines, StoredFields, list_elements};

/// The name of a gateway in Via and CDN-Loop: a token that no other gateway has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayName(Box<str>);

impl GatewayName {
    /// A gateway of this name, a token.
    #[must_use]
    pub fn new(token: impl Into<Box<str>>) -> Self {
        Self(token.into())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a request has been forwarded by this gateway before.
    #[must_use]
    pub fn has_forwarded(&self, request: &impl FieldLines) -> bool {
        let is_own = |name: &[u8]| name.eq_ignore_ascii_case(self.0.as_bytes());
        request.all("via").flat_map(list_elements).any(|element| received_by(element).is_some_and(is_own))
            || request.all("cdn-loop").flat_map(list_elements).any(|element| is_own(without_parameters(element)))
    }

    /// Makes the fields of a request that came by this version of HTTP those of the request that is
    /// forwarded.
    pub fn forward_request(&self, method: Method<'_>, version: Version, fields: &mut StoredFields) {
        fields.push("Via", self.via(version).as_bytes());
        fields.push("CDN-Loop", self.0.as_bytes());
        if counts_forwards(method)
            && let Some(left) = forwards_left(fields)
        {
            fields.remove("max-forwards");
            fields.push("Max-Forwards", left.saturating_sub(1).to_string().as_bytes());
        }
    }

    /// Makes the fields of a response that came by this version of HTTP those of the response that
    /// is forwarded.
    pub fn forward_response(&self, version: Version, fields: &mut StoredFields) {
        fields.push("Via", self.via(version).as_bytes());
    }

    /// A member of Via; `HTTP/` is left out as the RFC has it.
    fn via(&self, version: Version) -> String {
        let version = match version {
            Version::Http10 => "1.0",
            Version::Http11 => "1.1",
            Version::Http2 => "2.0",
        };
        format!("{version} {}", self.0)
    }
}

/// Whether a request has to be answered here because its client wants it to go no further (RFC
/// 9110, 7.6.2). Max-Forwards means something for OPTIONS and TRACE alone.
#[must_use]
pub fn ends_here(method: Method<'_>, fields: &impl FieldLines) -> bool {
    counts_forwards(method) && forwards_left(fields) == Some(0)
}

/// Makes the Dates of a response, which came at `now`, one valid Date.
pub fn keep_one_date(fields: &mut StoredFields, now: i64) {
    let count = fields.all("date").count();
    let valid = fields.all("date").find(|value| date::parse(value).is_some());
    if count == 1 && valid.is_some() {
        return;
    }
    let valid = valid.map_or_else(|| date::imf_fixdate(now).to_vec(), <[u8]>::to_vec);
    fields.remove("date");
    fields.push("Date", &valid);
}

const fn counts_forwards(method: Method<'_>) -> bool {
    matches!(method, Method::Options | Method::Trace)
}

/// The number of Max-Forwards; a value that is none is ignored.
fn forwards_left(fields: &impl FieldLines) -> Option<u64> {
    let mut values = fields.all("max-forwards");
    let digits = values.next().filter(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))?;
    let number =
        digits.iter().fold(0u64, |number, digit| number.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    values.next().is_none().then_some(number)
}

/// The recipient that a member of Via names: the word behind the protocol.
fn received_by(element: &[u8]) -> Option<&[u8]> {
    let mut words = element.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    words.nth(1)
}

fn without_parameters(element: &[u8]) -> &[u8] {
    let end = element.iter().position(|&byte| byte == b';').unwrap_or(element.len());
    element[..end].trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::{fields, shown};

    #[test]
    fn a_request_that_comes_back_is_known() {
        let check = |lines: &[&str], expected: bool| {
            assert_eq!(GatewayName::new("thalweg-1.0").has_forwarded(&fields(lines)), expected, "{lines:?}");
        };
        // RFC 9110, 7.6.3.
        check(&[], false);
        check(&["Via: 1.1 thalweg-1.0"], true);
        check(&["Via: 1.0 fred, HTTP/1.1   THALWEG-1.0 (a comment)"], true);
        check(&["Via: 1.0 fred", "Via: 2.0 thalweg-1.0"], true);
        // Another instance, another mount, and what is no recipient.
        check(&["Via: 1.1 thalweg-2.0, 1.1 thalweg-1.1, 1.1 thalweg-1.0:80"], false);
        check(&["Via: thalweg-1.0", "Via: 1.1 fred (thalweg-1.0)"], false);
        // RFC 8586, 2.
        check(&["CDN-Loop: foo123.foocdn.example, thalweg-1.0"], true);
        check(&["CDN-Loop: barcdn; trace=\"thalweg-1.0\", thalweg-1.0 ; abc"], true);
        check(&["CDN-Loop: thalweg-1.0x, \"thalweg-1.0\""], false);
    }

    #[test]
    fn a_forwarded_request_is_known_when_it_comes_back() {
        let (name, other) = (GatewayName::new("a"), GatewayName::new("b"));
        for kept in ["Via", "CDN-Loop"] {
            let mut lines = fields(&["Via: 1.1 client", "Accept: x"]);
            name.forward_request(Method::Get, Version::Http2, &mut lines);
            // A gateway between that drops one of them.
            let dropped = if kept == "Via" { "CDN-Loop" } else { "Via" };
            lines.remove(dropped);
            assert!(name.has_forwarded(&lines) && !other.has_forwarded(&lines), "{kept}");
        }
    }

    #[test]
    fn members_stand_behind_those_of_others() {
        let mut lines = fields(&["Via: 1.0 fred", "CDN-Loop: foo"]);
        GatewayName::new("a").forward_request(Method::Get, Version::Http2, &mut lines);
        assert_eq!(shown(&lines), ["Via: 1.0 fred", "CDN-Loop: foo", "Via: 2.0 a", "CDN-Loop: a"]);
        let mut lines = fields(&["Via: 1.0 fred"]);
        GatewayName::new("a").forward_response(Version::Http10, &mut lines);
        assert_eq!(shown(&lines), ["Via: 1.0 fred", "Via: 1.0 a"]);
    }

    #[test]
    fn options_go_as_far_as_they_may() {
        let check = |method: &str, value: &str, ends: bool, forwarded: &str| {
            let (method, mut lines) = (Method::from_name(method), fields(&[&format!("Max-Forwards: {value}")]));
            assert_eq!(ends_here(method, &lines), ends, "{method:?} {value}");
            GatewayName::new("a").forward_request(method, Version::Http11, &mut lines);
            let found = lines.first("max-forwards").map(String::from_utf8_lossy);
            assert_eq!(found.as_deref(), Some(forwarded), "{method:?} {value}");
        };
        // RFC 9110, 7.6.2.
        check("OPTIONS", "0", true, "0");
        check("OPTIONS", "1", false, "0");
        check("TRACE", "10", false, "9");
        check("OPTIONS", "99999999999999999999", false, &(u64::MAX - 1).to_string());
        check("GET", "0", false, "0");
        check("POST", "5", false, "5");
        for value in ["", "-1", "a", "1, 2"] {
            check("OPTIONS", value, false, value);
        }
        let several = fields(&["Max-Forwards: 0", "Max-Forwards: 1"]);
        assert!(!ends_here(Method::Options, &several));
    }

    #[test]
    fn a_response_has_exactly_one_date() {
        let check = |lines: &[&str], expected: &str| {
            let mut found = fields(lines);
            keep_one_date(&mut found, 1000);
            let dates: Vec<_> = found.all("date").map(String::from_utf8_lossy).collect();
            assert_eq!(dates, [expected], "{lines:?}");
        };
        let (early, now) = ("Thu, 01 Jan 1970 00:00:01 GMT", "Thu, 01 Jan 1970 00:16:40 GMT");
        check(&[], now);
        check(&["Date: junk"], now);
        check(&["Date: "], now);
        check(&["Date: Thu, 01 Jan 1970 00:00:01 GMT"], early);
        check(&["Date: junk", "date: Thu, 01 Jan 1970 00:00:01 GMT"], early);
        check(&["Date: Thu, 01 Jan 1970 00:00:01 GMT", "Date: Thu, 01 Jan 1970 00:00:02 GMT"], early);
    }
}
