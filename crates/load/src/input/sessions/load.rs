//! Sessions: bursts of calls with think times between them, read from a file.
//!
//! Two formats give the same [`SessionFile`]: httperf's `--wsesslog` and TOML. [`load_sessions`]
//! reads either session by session and keeps numbers of requests only, so that a file of any length
//! takes little memory. How a session is played is the engine's; `docs/workloads.md` describes it.
//! No file is opened here: bodies that stand in files of their own come through the caller.

use std::collections::HashMap;
use std::fmt;
use std::io::BufRead;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use super::text::{CallText, SessionFile, SessionText};
use super::{tables, wsesslog};
use crate::input::text::{ENTRIES_MAX, InputError, ReadError};

/// Reads a session file: TOML if its name ends in `.toml`, else httperf's format.
///
/// `read_body` returns the content of each `body_file`; a relative path is taken from the session
/// file's folder.
///
/// # Errors
/// The first thing that is wrong.
pub fn read_sessions<'a>(
    file: &'a str,
    text: &'a [u8],
    read_body: impl FnMut(&Path) -> Result<Vec<u8>, String>,
) -> Result<SessionFile<'a>, InputError> {
    let sessions = if is_toml(file) { tables::read(file, text, read_body)? } else { wsesslog::read(file, text)? };
    if sessions.is_empty() {
        return Err(InputError::new(file, 1, 1, "the file contains no session"));
    }
    Ok(SessionFile { file, sessions })
}

/// Sessions as numbers in a few arrays: 4 bytes per call, burst and session, and 4 more per burst
/// where think times are given.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    /// All calls of all bursts: numbers of requests.
    calls: Vec<u32>,
    /// Behind each burst's last call.
    burst_ends: Vec<u32>,
    /// Behind each session's last burst.
    session_ends: Vec<u32>,
    /// The place of each burst's think time, from 1; 0 for none. Shorter than the list of bursts
    /// where the last ones have none.
    thinks: Vec<u32>,
    think_times: Vec<Duration>,
}

impl Sessions {
    /// How many sessions there are; never zero after [`load_sessions`].
    pub fn len(&self) -> usize {
        self.session_ends.len()
    }

    /// How many calls the longest burst has.
    pub fn burst_calls_max(&self) -> usize {
        (0..self.burst_ends.len()).map(|burst| self.calls(burst).len()).max().unwrap_or(0)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.session_ends.is_empty()
    }

    /// Calls per session.
    pub fn calls_mean(&self) -> f64 {
        self.calls.len() as f64 / self.len().max(1) as f64
    }

    /// The bursts of session number `session`.
    ///
    /// # Panics
    /// There is no such session.
    pub fn bursts(&self, session: usize) -> Range<usize> {
        let first = if session == 0 { 0 } else { self.session_ends[session - 1] };
        first as usize..self.session_ends[session] as usize
    }

    /// The calls of a burst, as numbers of requests; never empty. The first goes alone, the others
    /// when it has been responded to.
    pub fn calls(&self, burst: usize) -> &[u32] {
        let first = if burst == 0 { 0 } else { self.burst_ends[burst - 1] };
        &self.calls[first as usize..self.burst_ends[burst] as usize]
    }

    /// From the burst's last response to the next burst; `None`: as the command says.
    pub fn think(&self, burst: usize) -> Option<Duration> {
        let place = *self.thinks.get(burst)? as usize;
        (place > 0).then(|| self.think_times[place - 1])
    }
}

/// Reads a session file into numbers of requests, session by session: TOML if its name ends in
/// `.toml`, else httperf's format.
///
/// `read_body` is as for [`read_sessions`]; `request_of` returns the number of each call's request.
///
/// # Errors
/// The first thing that is wrong, a call that `request_of` refused, or that the file cannot be
/// read.
pub fn load_sessions<E: fmt::Display>(
    file: &str,
    mut source: impl BufRead,
    mut read_body: impl FnMut(&Path) -> Result<Vec<u8>, String>,
    request_of: impl FnMut(&CallText<'_>) -> Result<u32, E>,
) -> Result<Sessions, ReadError> {
    let mut loader = Loader { file, sessions: Sessions::default(), known_thinks: HashMap::new(), request_of };
    if is_toml(file) {
        let mut text = Vec::new();
        source.read_to_end(&mut text)?;
        if tables::read_parts(file, &text, &mut read_body, |session| loader.push(&session)).is_err() {
            // As a whole it may be in order all the same; else this finds the place of the mistake.
            loader.sessions = Sessions::default();
            loader.known_thinks.clear();
            tables::read(file, &text, read_body)?.iter().try_for_each(|session| loader.push(session))?;
        }
    } else {
        wsesslog::read_parts(file, source, |session| loader.push(&session))?;
    }
    let Loader { sessions, .. } = loader;
    if sessions.is_empty() {
        return Err(InputError::new(file, 1, 1, "the file contains no session").into());
    }
    Ok(sessions)
}

/// Takes sessions one by one.
struct Loader<'a, F> {
    file: &'a str,
    sessions: Sessions,
    known_thinks: HashMap<Duration, u32>,
    request_of: F,
}

impl<E: fmt::Display, F: FnMut(&CallText<'_>) -> Result<u32, E>> Loader<'_, F> {
    fn push(&mut self, session: &SessionText<'_>) -> Result<(), InputError> {
        for burst in &session.bursts {
            for call in &burst.calls {
                let number = (self.request_of)(call).map_err(|error| call.error(self.file, error.to_string()))?;
                if self.sessions.calls.len() == ENTRIES_MAX {
                    return Err(call.error(self.file, format!("the file has more than {ENTRIES_MAX} calls")));
                }
                self.sessions.calls.push(number);
            }
            if let Some(think) = burst.think {
                let times = &mut self.sessions.think_times;
                let place = *self.known_thinks.entry(think).or_insert_with(|| {
                    times.push(think);
                    index(times.len())
                });
                self.sessions.thinks.resize(self.sessions.burst_ends.len(), 0);
                self.sessions.thinks.push(place);
            }
            self.sessions.burst_ends.push(index(self.sessions.calls.len()));
        }
        self.sessions.session_ends.push(index(self.sessions.burst_ends.len()));
        Ok(())
    }
}

fn is_toml(file: &str) -> bool {
    Path::new(file).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
}

/// The readers bound the number of calls far below 2^32.
fn index(count: usize) -> u32 {
    u32::try_from(count).expect("calls are bounded by the readers")
}

#[cfg(test)]
mod tests {
    use thalweg_wire::Version;

    use super::super::text::BurstText;
    use super::*;
    use crate::request::{PackedRequests, RequestParts};

    fn no_body(path: &Path) -> Result<Vec<u8>, String> {
        Err(format!("{} is not there", path.display()))
    }

    fn load(file: &str, text: &str) -> Result<(Sessions, PackedRequests), ReadError> {
        let mut requests = PackedRequests::new("h", Version::Http11, &[], b"");
        let sessions = load_sessions(file, text.as_bytes(), no_body, |call| {
            let (method, target) = (&*call.method, &*call.target);
            requests.intern(&RequestParts { method, target, fields: &call.fields, body: &call.body }, None)
        })?;
        Ok((sessions, requests.finish(None)))
    }

    #[test]
    fn equal_calls_share_one_request() {
        let text = "/a\n /b\n /a\n/b method=HEAD think=1\n\n/b contents=x\n/a contents=\"\"\n";
        let (sessions, requests) = load("s", text).unwrap();
        assert_eq!((sessions.len(), sessions.burst_calls_max(), sessions.calls_mean()), (2, 3, 3.0));
        let shape = |session| {
            let calls = sessions.bursts(session).map(|burst| (sessions.calls(burst).to_vec(), sessions.think(burst)));
            calls.collect::<Vec<_>>()
        };
        assert_eq!(shape(0), [(vec![0, 1, 0], None), (vec![2], Some(Duration::from_secs(1)))]);
        assert_eq!(shape(1), [(vec![3], None), (vec![0], None)]);
        assert_eq!(requests.len(), 4);
        assert_eq!(requests.get(3).0.body, b"x");
    }

    #[test]
    fn a_request_that_cannot_be_sent_is_named_with_its_place() {
        let text = "[[session]]\n[[session.burst]]\ncalls = [\"/a\"]\n\n[[session]]\n[[session.burst]]\n\
            calls = [\"/a\", { uri = \"/b\", method = \"A B\" }]\n";
        assert_eq!(load("s.toml", text).unwrap_err().to_string(), "s.toml:7:24: method is not a token");
    }

    #[test]
    fn a_file_without_sessions_is_refused_in_either_format() {
        for (file, text) in [("s", ""), ("s", "\n \n# nothing\n"), ("s.toml", ""), ("s.TOML", "session = []\n")] {
            let expected = format!("{file}:1:1: the file contains no session");
            assert_eq!(read_sessions(file, text.as_bytes(), no_body).unwrap_err().to_string(), expected);
            assert_eq!(load(file, text).unwrap_err().to_string(), expected);
        }
    }

    /// Verifies that a file that is read part by part is what it is as a whole, errors and their
    /// places included.
    #[track_caller]
    fn check_parts(file: &str, text: &str) {
        let whole = read_sessions(file, text.as_bytes(), no_body).map_err(|error| error.to_string());
        let whole = whole.map(|whole| {
            let call = |call: &CallText<'_>| {
                (format!("{} {}", call.method, call.target), call.body.to_vec(), call.line, call.column)
            };
            let burst = |burst: &BurstText<'_>| (burst.calls.iter().map(call).collect::<Vec<_>>(), burst.think);
            whole.sessions.iter().map(|session| session.bursts.iter().map(burst).collect()).collect::<Vec<Vec<_>>>()
        });
        let mut calls = Vec::new();
        let loaded = load_sessions(file, text.as_bytes(), no_body, |call| {
            calls.push((format!("{} {}", call.method, call.target), call.body.to_vec(), call.line, call.column));
            Ok::<_, String>(calls.len() as u32 - 1)
        });
        let parts = loaded.map_err(|error| error.to_string()).map(|sessions| {
            let call = |&number: &u32| calls[number as usize].clone();
            let burst = |burst| (sessions.calls(burst).iter().map(call).collect::<Vec<_>>(), sessions.think(burst));
            (0..sessions.len()).map(|session| sessions.bursts(session).map(burst).collect()).collect::<Vec<Vec<_>>>()
        });
        assert_eq!(parts, whole, "{text}");
    }

    #[test]
    fn sessions_read_one_by_one_are_those_of_the_whole_file() {
        check_parts("s", "# x\n\n/a think=1\n /b\n\n \t\n/c contents='x\\\n\n y'\n\n/d\n#e\\\n\n/f\n/g");
        check_parts("s", "/a\n\n/b contents='x\n\n/c'\n");
        check_parts("s", "/a\n\n/b contents=x\\\n");
        check_parts("s", "/a\n\n\n/b foo=1\n");
        let session = "[[session]]\n[[session.burst]]\nthink = \"2s\"\ncalls = [\"/a\", \"/b\"] # [[\n";
        check_parts("s.toml", &format!("think = \"1s\"\n{session}\n{session}[[session.burst]]\ncalls = [\"/c\"]\n"));
        // Text within a string, an array or a comment may look like a session and is none.
        let body =
            "[[session]]\n[[session.burst]]\ncalls = [{ uri = \"/a\", body = \"\"\"\n[[session]]\n\\\"\"\"\"\"\" }]\n";
        check_parts("s.toml", &format!("{body}{session}#[[session]]\n"));
        let body = "[[session]]\n[[session.burst]]\ncalls = [{ uri = '/a', body = '''\n[[session]]\n\\''' }]\n";
        check_parts("s.toml", &format!("{body}{session}"));
        check_parts("s.toml", &format!("{session}[[ session ]]\n[['session'.burst]]\ncalls = [\"/c\"]\n{session}"));
        for wrong in
            ["x = 1\n", "think = 3\n", "session = [{ burst = [] }]\n", "a = [\n[[session]]\n", "body = \"\"\"\n"]
        {
            check_parts("s.toml", &format!("{wrong}{session}"));
            check_parts("s.toml", &format!("{session}{wrong}{session}"));
        }
    }

    #[test]
    fn a_hundred_thousand_sessions_stay_small() {
        let text = "/index.html think=0.5\n /a.png\n /b.png\n/next.html\n\n".repeat(100_000);
        let (sessions, requests) = load("s", &text).unwrap();
        assert_eq!((sessions.len(), requests.len(), sessions.calls.len()), (100_000, 4, 400_000));
        assert_eq!((sessions.think_times.len(), sessions.burst_ends.len()), (1, 200_000));
    }
}
