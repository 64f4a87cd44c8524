//! Field lines between the caller and hyper, without those that belong to a connection (RFC 9110,
//! 7.6.1): each connection has its own.

use hyper::Response;
use hyper::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};

use crate::config::OriginConfig;
use crate::failure::{Failure, FailureKind};

/// One field line: name and value.
pub type FieldLine = (Vec<u8>, Vec<u8>);

/// Fields of a connection, and `Expect`, which nobody would answer.
const OF_CONNECTIONS: [&str; 9] = [
    "connection",
    "expect",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Fields of a request that are made here.
const OF_REQUESTS: [&str; 2] = ["content-length", "host"];

/// The value of the first field of that name, in whatever case.
pub(crate) fn first<'a>(lines: &'a [FieldLine], name: &str) -> Option<&'a [u8]> {
    lines.iter().find(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| &**value)
}

/// The rules of an origin for the fields of requests.
#[derive(Debug, Default)]
pub(crate) struct FieldRules {
    /// Fields that are added, in the place of those of the same name.
    extra: HeaderMap,
    removed: Vec<HeaderName>,
    /// `None`: all.
    passed: Option<Vec<HeaderName>>,
}

/// Fields that say what is asked for, and how far it may go: they are always sent.
const ALWAYS_PASSED: [&str; 4] = ["cdn-loop", "max-forwards", "range", "via"];

impl FieldRules {
    /// The changes that the settings of an origin name.
    pub(crate) fn of(config: &OriginConfig) -> Result<Self, Failure> {
        let parsed_all = |names: &[String]| -> Result<Vec<_>, Failure> {
            names.iter().map(|name| Ok(parsed(name.as_bytes(), b"")?.0)).collect()
        };
        let removed = parsed_all(&config.fields_removed)?;
        let passed = config.fields_passed.as_deref().map(parsed_all).transpose()?;
        Ok(Self { extra: of_configuration(&config.fields)?, removed, passed })
    }

    fn passes(&self, name: &HeaderName) -> bool {
        let text = name.as_str();
        // Conditions, and what describes the content of the request.
        let is_always = ALWAYS_PASSED.contains(&text) || text.starts_with("if-") || text.starts_with("content-");
        let is_among = self.passed.as_ref().is_none_or(|passed| passed.contains(name));
        is_always || (is_among && !self.removed.contains(name))
    }
}

/// The fields of a request to an origin.
pub(crate) fn of_request(lines: &[FieldLine], rules: &FieldRules) -> Result<HeaderMap, Failure> {
    let options =
        options(lines.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"connection")).map(|line| &*line.1));
    let mut fields = HeaderMap::new();
    for (name, value) in lines {
        let (name, value) = parsed(name, value)?;
        let is_left_out = is_of_connection(name.as_str(), &options) || OF_REQUESTS.contains(&name.as_str());
        if !is_left_out && !rules.extra.contains_key(&name) && rules.passes(&name) {
            append(&mut fields, name, value)?;
        }
    }
    for (name, value) in &rules.extra {
        append(&mut fields, name.clone(), value.clone())?;
    }
    Ok(fields)
}

/// Fields that a configuration adds.
fn of_configuration(lines: &[(String, String)]) -> Result<HeaderMap, Failure> {
    let mut fields = HeaderMap::new();
    for (name, value) in lines {
        let (name, value) = parsed(name.as_bytes(), value.as_bytes())?;
        if is_of_connection(name.as_str(), &[]) || OF_REQUESTS.contains(&name.as_str()) {
            let text = format!("the field {name} cannot be added; the connection sets it itself");
            return Err(Failure::new(FailureKind::Request, text));
        }
        append(&mut fields, name, value)?;
    }
    Ok(fields)
}

/// The fields of a response, in their order; those of one name come together.
pub(crate) fn of_response(fields: &HeaderMap) -> Vec<FieldLine> {
    let options = options(fields.get_all("connection").iter().map(HeaderValue::as_bytes));
    let kept = fields.iter().filter(|(name, _)| !is_of_connection(name.as_str(), &options));
    kept.map(|(name, value)| (name.as_str().into(), value.as_bytes().into())).collect()
}

/// Why a response cannot be taken for what its head says; `None` if it can.
///
/// No request asks for another protocol or for a transfer coding, so that an answer with one breaks
/// the protocol (RFC 9110, 7.8 and 15.2.2; RFC 9112, 6.1). The library takes `chunked` off
/// wherever it stands, and would leave other codings to be taken for the content. Where the two
/// framings contradict each other, somebody reads another message (RFC 9112, 6.3).
pub(crate) fn framing_fault<B>(response: &Response<B>) -> Option<&'static str> {
    if response.status().is_informational() {
        return Some("it switches protocols, or ends with an interim response, and nobody asked for that");
    }
    let mut codings = response.headers().get_all(TRANSFER_ENCODING).iter();
    let coding = codings.next()?;
    if codings.next().is_some() || !coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") {
        return Some("its transfer coding is not chunked alone, and nobody asked for another");
    }
    response.headers().contains_key(CONTENT_LENGTH).then_some("it has a Content-Length beside its transfer coding")
}

fn parsed(name: &[u8], value: &[u8]) -> Result<(HeaderName, HeaderValue), Failure> {
    let refuse =
        |what: &str| Failure::new(FailureKind::Request, format!("the field {} has {what}", name.escape_ascii()));
    let parsed_name = HeaderName::from_bytes(name).map_err(|_| refuse("a name that is no token"))?;
    let value = HeaderValue::from_bytes(value).map_err(|_| refuse("a value with control characters"))?;
    Ok((parsed_name, value))
}

fn append(fields: &mut HeaderMap, name: HeaderName, value: HeaderValue) -> Result<(), Failure> {
    let outcome = fields.try_append(name, value);
    outcome.map(drop).map_err(|_| Failure::new(FailureKind::Request, "the request has too many fields"))
}

/// The names that Connection fields list, in lower case.
fn options<'a>(values: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    values
        .flat_map(|value| value.split(|byte| *byte == b','))
        .map(|name| name.trim_ascii().to_ascii_lowercase())
        .collect()
}

fn is_of_connection(name: &str, options: &[Vec<u8>]) -> bool {
    OF_CONNECTIONS.contains(&name) || options.iter().any(|option| option == name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::OriginKind;

    fn lines(text: &[&str]) -> Vec<FieldLine> {
        text.iter().map(|line| line.split_once(": ").unwrap()).map(|(n, v)| (n.into(), v.into())).collect()
    }

    fn rules(extra: &[(&str, &str)], removed: &[&str], passed: Option<&[&str]>) -> FieldRules {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let kind = OriginKind::Http { base: "http://a.example/".parse().unwrap() };
        let mut config = OriginConfig::new("a", kind);
        config.fields = extra.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        (config.fields_removed, config.fields_passed) = (owned(removed), passed.map(owned));
        FieldRules::of(&config).unwrap()
    }

    #[test]
    fn an_origin_gets_the_fields_that_its_settings_let_through() {
        let given = lines(&[
            "Cookie: a",
            "Authorization: Basic b",
            "Accept: c",
            "X-Other: d",
            "Range: bytes=0-1",
            "If-Range: \"e\"",
            "Via: 1.1 f",
        ]);
        let check = |rules: &FieldRules, expected: &[&str]| {
            let sent = shown(&of_request(&given, rules).unwrap());
            let always = ["range: bytes=0-1", "if-range: \\\"e\\\"", "via: 1.1 f"];
            let rest: Vec<_> = sent.iter().filter(|line| !always.contains(&&***line)).collect();
            assert_eq!(rest, expected);
            assert_eq!(sent.len(), rest.len() + always.len(), "what is asked for is always sent: {sent:?}");
        };
        let all = ["cookie: a", "authorization: Basic b", "accept: c", "x-other: d"];
        check(&rules(&[], &[], None), &all);
        check(&rules(&[], &["Cookie", "x-other", "range", "via"], None), &all[1..3]);
        check(&rules(&[], &[], Some(&["Accept"])), &all[2..3]);
        check(&rules(&[], &["accept"], Some(&["accept"])), &[]);
        let own = ("Authorization", "Bearer own");
        check(
            &rules(&[own], &["authorization"], None),
            &["cookie: a", "accept: c", "x-other: d", "authorization: Bearer own"],
        );
        check(&rules(&[own], &[], Some(&[])), &["authorization: Bearer own"]);
    }

    fn shown(fields: &HeaderMap) -> Vec<String> {
        of_response(fields).iter().map(|(n, v)| format!("{}: {}", n.escape_ascii(), v.escape_ascii())).collect()
    }

    #[test]
    fn fields_of_connections_stay_behind() {
        let given = lines(&[
            "Range: bytes=0-1",
            "Connection: close, X-Hop",
            "x-hop: 1",
            "Host: client.example",
            "Content-Length: 3",
            "TE: trailers",
            "Expect: 100-continue",
            "Accept: a",
            "ACCEPT: b",
            "X-Own: client's",
        ]);
        let fields = of_request(&given, &rules(&[("X-Own", "ours")], &[], None)).unwrap();
        assert_eq!(shown(&fields), ["range: bytes=0-1", "accept: a", "accept: b", "x-own: ours"]);
    }

    #[test]
    fn a_responses_connection_may_name_more() {
        let mut fields = HeaderMap::new();
        for (name, value) in [("etag", "W/1"), ("connection", "x-hop"), ("x-hop", "1"), ("keep-alive", "timeout=5")] {
            fields.append(name, HeaderValue::from_static(value));
        }
        assert_eq!(shown(&fields), ["etag: W/1"]);
    }

    #[test]
    fn fields_that_would_break_a_head_are_refused() {
        for line in ["a b: c", "a: c\nd: e", ": x"] {
            let failure = of_request(&lines(&[line]), &FieldRules::default()).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Request, "{line}");
        }
        for name in ["Host", "connection", "Transfer-Encoding"] {
            assert!(of_configuration(&[(name.into(), "x".into())]).is_err(), "{name}");
        }
    }

    #[test]
    fn responses_that_are_framed_in_a_way_that_nobody_asked_for() {
        let check = |status: u16, lines: &[&str], is_fault: bool| {
            let mut response = Response::builder().status(status);
            for (name, value) in lines.iter().map(|line| line.split_once(": ").unwrap()) {
                response = response.header(name, value);
            }
            assert_eq!(framing_fault(&response.body(()).unwrap()).is_some(), is_fault, "{status} {lines:?}");
        };
        check(200, &[], false);
        check(200, &["Content-Length: 3"], false);
        check(200, &["Transfer-Encoding: chunked"], false);
        check(200, &["Transfer-Encoding:  Chunked "], false);
        for coding in ["gzip, chunked", "chunked, chunked", "gzip", "identity", "chunked, gzip", "chunked;a=b"] {
            check(200, &[&format!("Transfer-Encoding: {coding}")], true);
            check(304, &[&format!("Transfer-Encoding: {coding}")], true);
        }
        check(200, &["Transfer-Encoding: gzip", "Transfer-Encoding: chunked"], true);
        check(200, &["Transfer-Encoding: chunked", "Content-Length: 3"], true);
        check(101, &["Upgrade: x"], true);
        check(100, &[], true);
    }
}
