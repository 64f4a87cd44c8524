//! A client's conditions, evaluated on a stored response (RFC 9111, 4.3.2).

use thalweg_wire::validator::{Conditions, Validators, Verdict};
use thalweg_wire::{Fields, Method};

use crate::stored::StoredResponse;

/// The answer that the conditions of a request demand of a stored response that may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAnswer<'a> {
    /// Answer with the stored response.
    Stored {
        /// The value of Range if it applies.
        range: Option<&'a [u8]>,
    },
    /// Answer 304, with the stored fields that `is_sent_with_not_modified` names.
    NotModified,
    /// The request has If-Match or If-Unmodified-Since, and the stored response does not fulfil it:
    /// only the origin may answer 412.
    AskOrigin,
}

/// Evaluates the conditions. The preconditions of a request are about successful responses, so that
/// any other stored response is sent as it is (RFC 9110, 13.2.1).
#[must_use]
pub fn answer_conditions<'a>(method: Method<'_>, request: Fields<'a>, stored: &StoredResponse) -> ClientAnswer<'a> {
    if !matches!(stored.status, 200 | 206) {
        return ClientAnswer::Stored { range: None };
    }
    let conditions = Conditions::of(request);
    let date = stored.freshness.date;
    let mut validators = Validators { etag: stored.etag(), last_modified: stored.last_modified() };
    let decision = conditions.evaluate(method, &validators, date);
    match decision.verdict {
        Verdict::NotModified => return ClientAnswer::NotModified,
        Verdict::PreconditionFailed => return ClientAnswer::AskOrigin,
        Verdict::Proceed => {}
    }
    if validators.last_modified.is_none() {
        // RFC 9111, 4.3.2: without Last-Modified, If-Modified-Since is about Date.
        validators.last_modified = Some(date);
        if conditions.evaluate(method, &validators, date).verdict == Verdict::NotModified {
            return ClientAnswer::NotModified;
        }
    }
    ClientAnswer::Stored { range: decision.range }
}

/// Whether a stored field goes along with a 304 (RFC 9110, 15.4.5). Age and Cache-Status are the
/// server's to add.
#[must_use]
pub fn is_sent_with_not_modified(name: &str) -> bool {
    const NAMES: [&str; 8] =
        ["cache-control", "cdn-cache-control", "content-location", "date", "etag", "expires", "last-modified", "vary"];
    NAMES.iter().any(|other| name.eq_ignore_ascii_case(other))
}

#[cfg(test)]
mod tests {
    use thalweg_wire::{Bounds, FieldSlots, RequestEvent, RequestReader};

    use super::*;
    use crate::age::Times;
    use crate::fields::tests::fields;
    use crate::policy::Policy;

    const MODIFIED: &str = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT";
    const LATER: &str = "Date: Sun, 06 Nov 1994 10:00:00 GMT";

    fn check_of(method: &str, status: u16, stored: &[&str], request: &[&str], expected: &str) {
        let times = Times { request: 1000, response: 1000 };
        let stored = StoredResponse::new(&Policy::default(), &fields(&[]), status, &fields(stored), times);
        let head = format!("{method} / HTTP/1.1\r\nHost: a\r\n{}\r\n\r\n", request.join("\r\n"));
        let mut slots = FieldSlots::new();
        let mut reader = RequestReader::new(Bounds::requests());
        let event = reader.read(head.as_bytes(), &mut slots).expect("the head is valid").event;
        let Some(RequestEvent::Head(head)) = event else { panic!("the head is whole") };
        let shown = match answer_conditions(head.method, head.fields, &stored) {
            ClientAnswer::Stored { range: None } => "stored".to_owned(),
            ClientAnswer::Stored { range: Some(range) } => String::from_utf8_lossy(range).into_owned(),
            ClientAnswer::NotModified => "not modified".to_owned(),
            ClientAnswer::AskOrigin => "ask origin".to_owned(),
        };
        assert_eq!(shown, expected, "{method} {status} {stored:?} {request:?}");
    }

    fn check(stored: &[&str], request: &[&str], expected: &str) {
        check_of("GET", 200, stored, request, expected);
    }

    #[test]
    fn entity_tags() {
        let tag = "ETag: \"v1\"";
        // RFC 9110, 13.1.2: weak comparison.
        check(&[tag], &["If-None-Match: \"v1\""], "not modified");
        check(&[tag], &["If-None-Match: W/\"v1\""], "not modified");
        check(&["ETag: W/\"v1\""], &["If-None-Match: W/\"v1\""], "not modified");
        check(&["ETag: W/\"v1\""], &["If-None-Match: \"v1\""], "not modified");
        check(&[tag], &["If-None-Match: \"v0\""], "stored");
        check(&[tag], &["If-None-Match: \"v1\", \"1\", \"2\""], "not modified");
        check(&[tag], &["If-None-Match: \"1\", \"v1\", \"2\""], "not modified");
        check(&[tag], &["If-None-Match: \"1\", \"2\", \"v1\""], "not modified");
        check(&[tag], &["If-None-Match: *"], "not modified");
        check(&[], &["If-None-Match: \"v1\""], "stored");
        // 13.2.2: the tag has precedence over the date.
        let since = "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT";
        check(&[tag, MODIFIED], &["If-None-Match: \"v1\"", since], "not modified");
        let since = "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT";
        check(&[tag, MODIFIED], &["If-None-Match: \"v0\"", since], "stored");
    }

    #[test]
    fn dates() {
        let since = |time: &str| format!("If-Modified-Since: Sun, 06 Nov 1994 {time} GMT");
        // RFC 9111, 4.3.2.
        check(&[MODIFIED], &[&since("08:49:37")], "not modified");
        check(&[MODIFIED], &[&since("09:00:00")], "not modified");
        check(&[MODIFIED], &[&since("08:49:36")], "stored");
        check(&[MODIFIED], &["If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT"], "not modified");
        check(&[MODIFIED], &["If-Modified-Since: yesterday"], "stored");
        check(&[LATER], &[&since("10:00:00")], "not modified");
        check(&[LATER], &[&since("09:59:59")], "stored");
    }

    #[test]
    fn conditions_for_the_origin() {
        check(&["ETag: \"v1\""], &["If-Match: \"v1\""], "stored");
        check(&["ETag: \"v1\""], &["If-Match: \"v0\""], "ask origin");
        check(&["ETag: W/\"v1\""], &["If-Match: W/\"v1\""], "ask origin");
        check(&[MODIFIED], &["If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT"], "ask origin");
        check(&[LATER], &["If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT"], "stored");
    }

    #[test]
    fn ranges() {
        let range = "Range: bytes=0-1";
        check(&["ETag: \"v1\""], &[range], "bytes=0-1");
        // RFC 9110, 13.1.5: strong comparison.
        check(&["ETag: \"v1\""], &[range, "If-Range: \"v1\""], "bytes=0-1");
        check(&["ETag: \"v1\""], &[range, "If-Range: \"v0\""], "stored");
        check(&["ETag: W/\"v1\""], &[range, "If-Range: W/\"v1\""], "stored");
        let if_range = "If-Range: Sun, 06 Nov 1994 08:49:37 GMT";
        check(&[MODIFIED, LATER], &[range, if_range], "bytes=0-1");
        check(&[MODIFIED, "Date: Sun, 06 Nov 1994 08:49:37 GMT"], &[range, if_range], "stored");
        check_of("HEAD", 200, &[], &[range], "stored");
        check_of("GET", 206, &["ETag: \"v1\""], &[range], "bytes=0-1");
    }

    #[test]
    fn other_status_codes_have_no_conditions() {
        check_of("GET", 404, &["ETag: \"v1\""], &["If-None-Match: \"v1\""], "stored");
        check_of("GET", 301, &["ETag: \"v1\""], &["Range: bytes=0-1"], "stored");
    }

    #[test]
    fn fields_of_304() {
        let check = |name, expected| assert_eq!(is_sent_with_not_modified(name), expected, "{name}");
        // RFC 9110, 15.4.5.
        for name in ["Cache-Control", "Content-Location", "Date", "ETag", "Expires", "Vary"] {
            check(name, true);
        }
        check("Content-Type", false);
        check("Content-Length", false);
    }
}
