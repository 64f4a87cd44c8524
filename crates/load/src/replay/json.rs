//! Lines of access logs that are JSON objects, with the names that `thalweg serve` gives to what it
//! logs.
//!
//! Members that say nothing of when and what are passed over. Lines of other servers have other
//! names, and are not read.

use std::borrow::Cow;

use serde::Deserialize;

use super::entry::LogEntry;

/// Why a line is none, and at which of its bytes.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Fault {
    pub(super) at: usize,
    pub(super) what: String,
}

/// The members that matter.
#[derive(Deserialize)]
struct Members {
    time: jiff::Timestamp,
    /// Neither this nor the target is there if what came was no request.
    method: Option<String>,
    target: Option<String>,
}

/// Whether a line is to be read as JSON. In the other formats it begins with an address or a name.
pub(super) fn is_json(line: &[u8]) -> bool {
    line.starts_with(b"{")
}

/// Reads a line.
pub(super) fn parse(line: &[u8]) -> Result<LogEntry<'static>, Fault> {
    let members: Members = serde_json::from_slice(line).map_err(|error| {
        // The line is one, so that its number says nothing.
        let said = error.to_string();
        let what = said.rsplit_once(" at line ").map_or(said.as_str(), |(what, _)| what).to_owned();
        Fault { at: error.column().saturating_sub(1), what }
    })?;
    let request = members.method.zip(members.target);
    let request = request.map(|(method, target)| (Cow::Owned(method), Cow::Owned(target.into_bytes())));
    Ok(LogEntry { time_unix_s: members.time.as_second(), request })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second, and method and target.
    type Read<'a> = (i64, Option<(&'a str, &'a str)>);

    /// A line's second and request, or the place of an error and a part of its text.
    #[track_caller]
    fn check(line: &str, expected: Result<Read<'_>, (usize, &str)>) {
        let read = parse(line.as_bytes());
        let read = read.as_ref().map(|logged| {
            let request = logged.request.as_ref();
            let text = request.map(|(method, target)| (&**method, std::str::from_utf8(target).unwrap()));
            (logged.time_unix_s, text)
        });
        match (read, expected) {
            (Err(fault), Err((at, part))) => {
                assert!(fault.at == at && fault.what.contains(part), "{line}: {fault:?}");
                assert!(!fault.what.contains(" line "), "{fault:?}");
            }
            (read, expected) => assert_eq!(read.ok(), expected.ok(), "{line}"),
        }
    }

    #[test]
    fn members_are_taken_in_any_order_and_text_is_unescaped() {
        let time = "\"time\":\"2000-10-10T20:55:36Z\"";
        check(&format!("{{{time},\"client\":\"::1\",\"status\":400,\"bytes\":1}}"), Ok((971_211_336, None)));
        let (get, head) = (Some(("GET", "/a\"\\x41")), Some(("HEAD", "/\u{e9}")));
        check(&format!("{{\"target\":\"/a\\\"\\\\x41\",{time},\"method\":\"GET\"}}"), Ok((971_211_336, get)));
        check(&format!("{{{time},\"method\":\"HEAD\",\"target\":\"/\\u00e9\"}}"), Ok((971_211_336, head)));
        check("{\"time\":\"2000-10-10T22:55:36.9+02:00\",\"method\":\"GET\"}", Ok((971_211_336, None)));
    }

    #[test]
    fn faults_have_their_place() {
        check("{\"client\":\"::1\"}", Err((15, "missing field `time`")));
        check("{\"time\":\"yesterday\"}", Err((18, "")));
        check("{\"time\":\"2000-10-10T20:55:36Z\",\"method\":3}", Err((40, "string")));
        check("{\"time\":", Err((7, "EOF")));
        check("{} x", Err((1, "missing field `time`")));
        check("{\"time\":\"2000-10-10T20:55:36Z\"} x", Err((32, "trailing")));
    }
}
