//! Session files: what users do, as sequences of bursts with think times between them.
//!
//! Two formats give the same [`SessionFile`]: httperf's `--wsesslog` and TOML. [`prepare_sessions`] makes requests of it, equal ones
//! once. How a session is played is the engine's; `docs/workloads.md` describes it. No file is opened here: bodies that
//! stand in files of their own come through the caller.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use crate::input::InputError;
use crate::request::PreparedRequest;

mod tables;
mod wsesslog;

/// A session file as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFile<'a> {
    /// Its name, for messages.
    pub file: &'a str,
    /// In the order of the file; never empty.
    pub sessions: Vec<SessionText<'a>>,
}

/// One session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionText<'a> {
    /// In order; never empty.
    pub bursts: Vec<BurstText<'a>>,
}

/// Calls without think time between them: one, and those that follow when it has been answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BurstText<'a> {
    /// In order; never empty.
    pub calls: Vec<CallText<'a>>,
    /// From the burst's last answer to the next burst; `None`: as the command says.
    pub think: Option<Duration>,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallText<'a> {
    /// The method.
    pub method: Cow<'a, str>,
    /// The request target.
    pub target: Cow<'a, str>,
    /// Further fields.
    pub fields: Vec<(String, String)>,
    /// The body; empty for none.
    pub body: Cow<'a, [u8]>,
    /// Where its target stands: the line, from 1.
    pub line: u32,
    /// And the column, from 1.
    pub column: u32,
}

/// Reads a session file: TOML if its name ends in `.toml`, else httperf's format.
///
/// `read_body` is asked for the content of each `body_file`; a relative path is taken from the session file's folder.
///
/// # Errors
/// The first thing that is wrong.
pub fn read_sessions<'a>(
    file: &'a str,
    text: &'a [u8],
    read_body: impl FnMut(&Path) -> Result<Vec<u8>, String>,
) -> Result<SessionFile<'a>, InputError> {
    let is_toml = Path::new(file).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
    let sessions = if is_toml { tables::read(file, text, read_body)? } else { wsesslog::read(file, text)? };
    if sessions.is_empty() {
        return Err(InputError::new(file, 1, 1, "the file holds no session"));
    }
    Ok(SessionFile { file, sessions })
}

/// Sessions with their requests ready to be sent, in a few arrays: 4 bytes per call, 24 per burst and 4 per session beside the distinct
/// requests.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    /// The distinct requests, in the order in which they first occur.
    pub requests: Vec<PreparedRequest>,
    /// All calls of all bursts: indices into `requests`.
    calls: Vec<u32>,
    bursts: Vec<Burst>,
    /// Behind each session's last burst.
    burst_ends: Vec<u32>,
}

/// One burst of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    first: u32,
    end: u32,
    /// From the burst's last answer to the next burst; `None`: as the command says.
    pub think: Option<Duration>,
}

impl Sessions {
    /// How many sessions there are; never zero after [`prepare_sessions`].
    pub fn len(&self) -> usize {
        self.burst_ends.len()
    }

    /// How many calls the longest burst has.
    pub fn burst_calls_max(&self) -> usize {
        self.bursts.iter().map(|burst| (burst.end - burst.first) as usize).max().unwrap_or(0)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.burst_ends.is_empty()
    }

    /// Calls per session.
    pub fn calls_mean(&self) -> f64 {
        self.calls.len() as f64 / self.len().max(1) as f64
    }

    /// The bursts of session number `session`.
    ///
    /// # Panics
    /// There is no such session.
    pub fn bursts(&self, session: usize) -> &[Burst] {
        let first = if session == 0 { 0 } else { self.burst_ends[session - 1] };
        &self.bursts[first as usize..self.burst_ends[session] as usize]
    }

    /// The calls of a burst, as indices into the requests; never empty. The first goes alone, the others when it has been
    /// answered.
    pub fn calls(&self, burst: &Burst) -> &[u32] {
        &self.calls[burst.first as usize..burst.end as usize]
    }
}

/// Makes the requests of a session file ready. `prepare` is asked once for each distinct call.
///
/// # Errors
/// `prepare` refused a call; named with its place.
pub fn prepare_sessions<E: fmt::Display>(
    file: &SessionFile<'_>,
    mut prepare: impl FnMut(&CallText<'_>) -> Result<PreparedRequest, E>,
) -> Result<Sessions, InputError> {
    let mut prepared = Sessions::default();
    let mut known = HashMap::new();
    for session in &file.sessions {
        for burst in &session.bursts {
            let first = index(prepared.calls.len());
            for call in &burst.calls {
                let key = (&*call.method, &*call.target, call.fields.as_slice(), &*call.body);
                let request = match known.get(&key) {
                    Some(&request) => request,
                    None => {
                        let made = prepare(call).map_err(|error| call.error(file.file, error.to_string()))?;
                        let request = index(prepared.requests.len());
                        prepared.requests.push(made);
                        known.insert(key, request);
                        request
                    }
                };
                prepared.calls.push(request);
            }
            prepared.bursts.push(Burst { first, end: index(prepared.calls.len()), think: burst.think });
        }
        prepared.burst_ends.push(index(prepared.bursts.len()));
    }
    Ok(prepared)
}

impl CallText<'_> {
    /// An error at the call's target.
    pub fn error(&self, file: &str, what: impl Into<String>) -> InputError {
        InputError::new(file, self.line as usize, self.column as usize, what)
    }
}

/// The readers bound the number of calls far below 2^32.
fn index(count: usize) -> u32 {
    u32::try_from(count).expect("calls are bounded by the readers")
}

#[cfg(test)]
mod tests {
    use thalweg_wire::{RequestKind, Version};

    use super::*;
    use crate::request::{RequestText, prepare};

    fn no_body(path: &Path) -> Result<Vec<u8>, String> {
        Err(format!("{} is not there", path.display()))
    }

    fn prepare_all(file: &SessionFile<'_>) -> Result<Sessions, InputError> {
        prepare_sessions(file, |call| {
            let (method, target, version) = (&*call.method, &*call.target, Version::Http11);
            prepare(&RequestText { method, authority: "h", target, version, fields: &call.fields, body: &call.body })
        })
    }

    #[test]
    fn equal_calls_share_one_request() {
        let text = b"/a\n /b\n /a\n/b method=HEAD think=1\n\n/b contents=x\n/a contents=\"\"\n";
        let sessions = prepare_all(&read_sessions("s", text, no_body).unwrap()).unwrap();
        assert_eq!(sessions.len(), 2);
        let shape = |session| {
            let calls = sessions.bursts(session).iter().map(|burst| (sessions.calls(burst).to_vec(), burst.think));
            calls.collect::<Vec<_>>()
        };
        assert_eq!(shape(0), [(vec![0, 1, 0], None), (vec![2], Some(Duration::from_secs(1)))]);
        assert_eq!(shape(1), [(vec![3], None), (vec![0], None)]);
        assert_eq!(sessions.requests.len(), 4);
        assert_eq!(sessions.requests[2].kind, RequestKind::Head);
        assert!(sessions.requests[3].bytes.ends_with(b"Content-Length: 1\r\n\r\nx"));
    }

    #[test]
    fn what_cannot_be_sent_is_named_with_its_place() {
        let text = b"[[session]]\n[[session.burst]]\ncalls = [\"/a\", { uri = \"/b\", method = \"A B\" }]\n";
        let file = read_sessions("s.toml", text, no_body).unwrap();
        assert_eq!(prepare_all(&file).unwrap_err().to_string(), "s.toml:3:24: method is not a token");
    }

    #[test]
    fn a_file_without_sessions_is_refused_in_either_format() {
        for (file, text) in [("s", ""), ("s", "\n \n# nothing\n"), ("s.toml", ""), ("s.TOML", "session = []\n")] {
            let error = read_sessions(file, text.as_bytes(), no_body).unwrap_err();
            assert_eq!(error.to_string(), format!("{file}:1:1: the file holds no session"));
        }
    }

    #[test]
    fn a_hundred_thousand_sessions_stay_small() {
        let text = "/index.html think=0.5\n /a.png\n /b.png\n/next.html\n\n".repeat(100_000);
        let sessions = prepare_all(&read_sessions("s", text.as_bytes(), no_body).unwrap()).unwrap();
        assert_eq!((sessions.len(), sessions.requests.len(), sessions.calls.len()), (100_000, 4, 400_000));
        assert_eq!(size_of::<Burst>(), 24);
    }
}
