//! httperf's `--wsesslog` format, read as httperf 0.9 reads it.
//!
//! Whatever is accepted here means what it means to httperf; the odd rules (quotes may open and
//! close within a value, blanks before a session's first line mean nothing, a comment begins in the
//! first column only) are its own. Some input that httperf accepts silently is refused, because it
//! must be a mistake: an open quote, `think=5m` (five seconds), `method=GETX` (GET), an indented
//! `#`.

use std::borrow::Cow;
use std::io::BufRead;
use std::time::Duration;

use super::text::{BurstText, CallText, SessionText};
use crate::input::text::{ENTRIES_MAX, InputError, Line, Lines, ReadError, excerpt, lines, target_fault};

/// The longest think time, about what the units of options and TOML allow.
const THINK_MAX: Duration = Duration::from_secs(100 * 86_400);

/// The methods that httperf's format knows.
const METHODS: [&str; 9] = ["DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT", "PROPFIND", "REPORT", "TRACE"];

/// Reads a file session by session: up to a blank line, behind which another one begins.
pub(super) fn read_parts(
    file: &str,
    source: impl BufRead,
    mut on_session: impl FnMut(SessionText<'_>) -> Result<(), InputError>,
) -> Result<(), ReadError> {
    let mut lines = Lines::new(file, source);
    let (mut part, mut before, mut continued) = (Vec::new(), 0, false);
    loop {
        let line = lines.next()?;
        let is_over = line.is_none();
        if let Some(line) = line {
            let is_blank = !continued && line.bytes.iter().all(|&byte| is_blank(byte));
            // Contents may go on behind a backslash. Elsewhere it only has two sessions read
            // together.
            continued = line.bytes.ends_with(b"\\");
            part.extend_from_slice(line.bytes);
            part.push(b'\n');
            if !is_blank {
                continue;
            }
        }
        read_from(file, &part, before)?.into_iter().try_for_each(&mut on_session)?;
        part.clear();
        before = lines.number;
        if is_over {
            return Ok(());
        }
    }
}

pub(super) fn read<'a>(file: &'a str, text: &'a [u8]) -> Result<Vec<SessionText<'a>>, InputError> {
    read_from(file, text, 0)
}

/// Reads a text that stands behind so many other lines of its file.
fn read_from<'a>(file: &'a str, text: &'a [u8], before: usize) -> Result<Vec<SessionText<'a>>, InputError> {
    let mut sessions: Vec<SessionText<'a>> = Vec::new();
    let mut calls = 0;
    // Whether the next line goes on with the last session.
    let mut open = false;
    let mut lines = lines(file, text).map(|line| line.map(|line| Line { number: line.number + before, ..line }));
    while let Some(line) = lines.next() {
        let line = line?;
        if line.bytes.starts_with(b"#") {
            continue;
        }
        let mut words = Words { line, at: 0 };
        let Some((at, target)) = words.next_word()? else {
            open = false;
            continue;
        };
        calls += 1;
        if calls > ENTRIES_MAX {
            return Err(line.error(at, format!("the file has more than {ENTRIES_MAX} calls")));
        }
        let call = call(line, at, target)?;
        let indented = at > 0;
        match sessions.last_mut().filter(|_| open) {
            None => sessions.push(SessionText { bursts: vec![burst(call)] }),
            Some(session) => match session.bursts.last_mut().filter(|_| indented) {
                None => session.bursts.push(burst(call)),
                Some(burst) => burst.calls.push(call),
            },
        }
        open = true;
        let burst = sessions.last_mut().and_then(|session| session.bursts.last_mut()).expect("a call was put into it");
        read_settings(&mut words, &mut lines, burst)?;
    }
    Ok(sessions)
}

fn burst(first: CallText<'_>) -> BurstText<'_> {
    BurstText { calls: vec![first], think: None }
}

fn call<'a>(line: Line<'a>, at: usize, target: &'a [u8]) -> Result<CallText<'a>, InputError> {
    if target.starts_with(b"#") {
        return Err(line.error(at, "a comment has to begin in the first column; httperf would request this as a URI"));
    }
    if let Some((fault, what)) = target_fault(target) {
        return Err(line.error(at + fault, format!("{}: {what}", excerpt(target))));
    }
    let target = std::str::from_utf8(target).expect("a target is ASCII");
    Ok(CallText {
        method: Cow::Borrowed("GET"),
        target: Cow::Borrowed(target),
        fields: Vec::new(),
        body: Cow::Borrowed(b""),
        line: u32::try_from(line.number).unwrap_or(u32::MAX),
        column: u32::try_from(line.column(at)).unwrap_or(u32::MAX),
    })
}

/// Reads what stands behind a URI. Contents may go on over the following lines.
fn read_settings<'a>(
    words: &mut Words<'a>,
    lines: &mut impl Iterator<Item = Result<Line<'a>, InputError>>,
    burst: &mut BurstText<'a>,
) -> Result<(), InputError> {
    let call = burst.calls.last_mut().expect("a burst has a call");
    while let Some((at, word)) = words.next_word()? {
        let line = words.line;
        let (name, value) = word.iter().position(|&byte| byte == b'=').map_or((word, None), |equals| {
            let value = &word[equals + 1..];
            (&word[..equals], (!value.is_empty()).then_some(value))
        });
        let value_at = at + name.len() + 1;
        match (name, value) {
            (b"method", Some(value)) => call.method = method(line, value_at, value)?,
            (b"think", Some(value)) => burst.think = Some(think(line, value_at, value)?),
            (b"contents", Some(_)) => {
                words.at = value_at;
                call.body = Cow::Owned(words.contents(lines)?);
            }
            (b"contents", None) => {
                return Err(line.error(
                    at,
                    "contents= has no value; use contents=\"\" for an empty \
                body",
                ));
            }
            _ => {
                let what = "is unknown; expected method=, think= or contents= after the URI";
                return Err(line.error(at, format!("{} {what}", excerpt(word))));
            }
        }
    }
    Ok(())
}

fn method(line: Line<'_>, at: usize, value: &[u8]) -> Result<Cow<'static, str>, InputError> {
    match METHODS.iter().find(|method| method.as_bytes() == value) {
        Some(method) => Ok(Cow::Borrowed(method)),
        None => {
            let known = METHODS.join(", ");
            Err(line.error(
                at,
                format!(
                    "httperf does not know the method {}, only {known}; a TOML session file \
                accepts any method",
                    excerpt(value)
                ),
            ))
        }
    }
}

fn think(line: Line<'_>, at: usize, value: &[u8]) -> Result<Duration, InputError> {
    let seconds = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
    let think = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    think.filter(|&think| think <= THINK_MAX).ok_or_else(|| {
        line.error(at, format!("{} is not a think time; expected seconds without a unit, such as 2.5", excerpt(value)))
    })
}

/// The words of a line, and of those that contents go on in.
struct Words<'a> {
    line: Line<'a>,
    at: usize,
}

impl<'a> Words<'a> {
    /// The next word and where it stands.
    fn next_word(&mut self) -> Result<Option<(usize, &'a [u8])>, InputError> {
        let bytes = self.line.bytes;
        while bytes.get(self.at).is_some_and(|&byte| is_blank(byte)) {
            self.at += 1;
        }
        let start = self.at;
        while let Some(&byte) = bytes.get(self.at).filter(|&&byte| !is_blank(byte)) {
            self.refuse_nul(byte)?;
            self.at += 1;
        }
        Ok((self.at > start).then(|| (start, &bytes[start..self.at])))
    }

    /// Reads a value with quotes and escapes from here on.
    ///
    /// A quote may open anywhere in it. A backslash means the same in and out of quotes, and at the
    /// end of a line it stands for a line feed and has the value go on. Only tab and space end it;
    /// a carriage return belongs to it.
    fn contents(
        &mut self,
        lines: &mut impl Iterator<Item = Result<Line<'a>, InputError>>,
    ) -> Result<Vec<u8>, InputError> {
        let mut contents = Vec::new();
        let mut quote: Option<(u8, Line<'a>, usize)> = None;
        while let Some(&byte) = self.line.bytes.get(self.at) {
            self.refuse_nul(byte)?;
            self.at += 1;
            match (byte, quote) {
                (b'\\', _) => match self.line.bytes.get(self.at) {
                    None => {
                        let end = self.line.error(self.at - 1, "the file ends after this backslash");
                        self.line = lines.next().ok_or(end)??;
                        self.at = 0;
                        contents.push(b'\n');
                    }
                    Some(&escaped) => {
                        self.refuse_nul(escaped)?;
                        self.at += 1;
                        contents.push(match escaped {
                            b'n' => b'\n',
                            b'r' => b'\r',
                            b't' => b'\t',
                            other => other,
                        });
                    }
                },
                (_, Some((open, ..))) if byte == open => quote = None,
                (b'"' | b'\'', None) => quote = Some((byte, self.line, self.at - 1)),
                (b' ' | b'\t', None) => break,
                _ => contents.push(byte),
            }
        }
        match quote {
            None => Ok(contents),
            Some((_, line, at)) => Err(line.error(
                at,
                "this quote is not closed; to continue contents on the next line, end the line with a backslash",
            )),
        }
    }

    /// To httperf a line ends at a NUL.
    fn refuse_nul(&self, byte: u8) -> Result<(), InputError> {
        if byte == 0 { Err(self.line.error(self.at, "this text contains a NUL byte")) } else { Ok(()) }
    }
}

/// Blanks, which separate words, as C's `isspace` has them.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | 0x0b | 0x0c | b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a file and writes what was understood: sessions, bursts and calls in brackets.
    fn check(text: &str, expected: &str) {
        let shown = match read("s", text.as_bytes()) {
            Ok(sessions) => show(&sessions),
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected, "{text:?}");
    }

    fn show(sessions: &[SessionText<'_>]) -> String {
        let call = |call: &CallText<'_>| match &*call.body {
            b"" => format!("{} {}", call.method, call.target),
            body => format!("{} {} {:?}", call.method, call.target, String::from_utf8_lossy(body)),
        };
        let burst = |burst: &BurstText<'_>| {
            let calls: Vec<_> = burst.calls.iter().map(call).collect();
            let think = burst.think.map_or_else(String::new, |think| format!(" think {think:?}"));
            format!("({}{think})", calls.join(", "))
        };
        let session = |session: &SessionText<'_>| session.bursts.iter().map(burst).collect::<String>();
        sessions.iter().map(session).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn the_manuals_example_is_read_as_the_manual_says() {
        let text = "# Comment\n# character.\n\n# session 1 definition\n/foo.html think=2.0\n\t/pict1.gif\n\t/pict2.gif\n\
            /foo2.html method=POST contents='Post data'\n\t/pict3.gif\n\t/pict4.gif\n\t\n# session 2 definition\n\
            /foo3.html method=POST contents=\"Multiline\\ndata\"\n/foo4.html method=HEAD\n";
        check(
            text,
            "(GET /foo.html, GET /pict1.gif, GET /pict2.gif think 2s)\
             (POST /foo2.html \"Post data\", GET /pict3.gif, GET /pict4.gif) | \
             (POST /foo3.html \"Multiline\\ndata\")(HEAD /foo4.html)",
        );
    }

    // Each of these was given to httperf 0.9.0 with a server that recorded what came.
    #[test]
    fn lines_bursts_and_sessions() {
        check("/a\n /b\n\t/c\n/d\n", "(GET /a, GET /b, GET /c)(GET /d)");
        check(" /a\n\t/b\n\n  /c", "(GET /a, GET /b) | (GET /c)");
        check("\n\n/a\n \t\r\n\n\n/b\n", "(GET /a) | (GET /b)");
        check("/a\n#c\n /b\n", "(GET /a, GET /b)");
        check("/a#b\n", "(GET /a#b)");
        check("\u{b}/a\n\n\u{c}\n/b\n", "(GET /a) | (GET /b)");
        check("/a\u{b}method=PUT\r\n", "(PUT /a)");
        check("http://h/a\n* method=OPTIONS\n", "(GET http://h/a)(OPTIONS *)");
    }

    #[test]
    fn settings() {
        check("/a think=0.1 think=0\n /b think=0.25\n/c\n", "(GET /a, GET /b think 250ms)(GET /c)");
        check("/a think=.5\n/b think=1e-3\n", "(GET /a think 500ms)(GET /b think 1ms)");
        check("/a method=POST method=TRACE\n", "(TRACE /a)");
    }

    #[test]
    fn contents_with_quotes_and_escapes() {
        check("/a contents=\"\"\n/b contents=x contents=''\n", "(GET /a)(GET /b)");
        check("/a contents='a\"b'\"c'd\"e  method=POST\n", r#"(POST /a "a\"bc'de")"#);
        check("/a contents=a\\ b\"c\"'d'\\\\ method=POST\n", r#"(POST /a "a bcd\\")"#);
        check(
            "/a contents=\"ab\\\n# b \\n\\t\\r\\x\\\"'\" method=PUT think=.5\n/d\n",
            r#"(PUT /a "ab\n# b \n\t\rx\"'" think 500ms)(GET /d)"#,
        );
        check("/a contents=abc\r\n", r#"(GET /a "abc\r")"#);
        check("/a contents=x\\\n\n/b", "(GET /a \"x\\n\")(GET /b)");
    }

    #[test]
    fn session_files_that_httperf_refuses_are_refused_with_the_place() {
        check(
            "/a\n/ä foo=1\n",
            "s:2:2: \"/ä\": this character is not allowed in a URI; percent-encode it, such as %20",
        );
        let unknown = "is unknown; expected method=, think= or contents= after the URI";
        check("/a\n /b  foo=1\n", &format!("s:2:6: \"foo=1\" {unknown}"));
        check("/a /b\n", &format!("s:1:4: \"/b\" {unknown}"));
        check("/a \\\n/b\n", &format!("s:1:4: \"\\\\\" {unknown}"));
        check("/a think=\n", &format!("s:1:4: \"think=\" {unknown}"));
        check("/a contents=\n", "s:1:4: contents= has no value; use contents=\"\" for an empty body");
        let think = "is not a think time; expected seconds without a unit, such as 2.5";
        check("/a think=x\n", &format!("s:1:10: \"x\" {think}"));
        let known = "only DELETE, GET, HEAD, OPTIONS, POST, PUT, PROPFIND, REPORT, TRACE; a TOML session file accepts any method";
        check("/a method=get", &format!("s:1:11: httperf does not know the method \"get\", {known}"));
        check("/a contents=x\\", "s:1:14: the file ends after this backslash");
        check("/a contents='ü' b\n", &format!("s:1:17: \"b\" {unknown}"));
    }

    #[test]
    fn contradictory_settings_are_refused() {
        check("/a think=5m\n", "s:1:10: \"5m\" is not a think time; expected seconds without a unit, such as 2.5");
        for wrong in ["-1", "inf", "nan", "1e7", "1e99", "0x1p3"] {
            assert!(read("s", format!("/a think={wrong}\n").as_bytes()).is_err(), "{wrong}");
        }
        assert!(read("s", b"/a method=GETX\n").is_err());
        check(
            "/a contents=\"ab\n/b\n",
            "s:1:13: this quote is not closed; to continue contents on the next line, end the line with a backslash",
        );
        check("/a\n  #x\n", "s:2:3: a comment has to begin in the first column; httperf would request this as a URI");
        check("foo\n", "s:1:1: \"foo\": a URI has to begin with a slash");
        check("/a\0b\n", "s:1:3: this text contains a NUL byte");
        check("/a contents=\"\\\0\"\n", "s:1:15: this text contains a NUL byte");
    }

    #[test]
    fn contents_are_bytes() {
        let sessions = read("s", b"/a contents=\xff\xfe\n").unwrap();
        assert_eq!(&*sessions[0].bursts[0].calls[0].body, b"\xff\xfe");
    }
}
