//! Session files in TOML: tables as in the format, checked while they are read, with the places of
//! errors.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use thalweg_units::parse_time;
use toml::Spanned;

use super::text::{BurstText, CallText, SessionText};
use crate::input::text::{ENTRIES_MAX, InputError, column, excerpt, target_fault};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTable {
    think: Option<Spanned<String>>,
    #[serde(default)]
    session: Vec<Spanned<SessionTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionTable {
    #[serde(default)]
    burst: Vec<BurstTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BurstTable {
    think: Option<Spanned<String>>,
    calls: Spanned<Vec<Spanned<CallEntry>>>,
}

/// A call is its URI, or a table where there is more to say.
enum CallEntry {
    Uri(String),
    Table(CallTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallTable {
    uri: Spanned<String>,
    method: Option<Spanned<String>>,
    body: Option<Spanned<String>>,
    body_file: Option<Spanned<String>>,
    #[serde(default)]
    headers: HeaderTable,
}

/// Fields in the order of the file.
#[derive(Default)]
struct HeaderTable(Vec<(String, String)>);

/// Reads a file session by session, where that is possible: each `[[session]]` is parsed alone,
/// since tables of a whole file take many times its memory. If something is wrong, the error is
/// one, but may have another place than in the whole file.
pub(super) fn read_parts<'a>(
    file: &'a str,
    text: &'a [u8],
    mut read_body: impl FnMut(&Path) -> Result<Vec<u8>, String>,
    mut on_session: impl FnMut(SessionText<'a>) -> Result<(), InputError>,
) -> Result<(), InputError> {
    let mut parts = Parts { text, begin: 0, lines_before: 0 };
    let first = parts.next().unwrap_or((text, 0));
    // The text before the first session holds for all of them.
    let is_head = !first.0.starts_with(SESSION);
    let mut think = None;
    if is_head {
        let (given, sessions) = read_part(file, first.0, 0, None, &mut read_body)?;
        think = given;
        if !sessions.is_empty() {
            return Err(InputError::new(file, 1, 1, "expected sessions as [[session]] tables"));
        }
    }
    for (part, before) in (!is_head).then_some(first).into_iter().chain(parts) {
        let (given, sessions) = read_part(file, part, before, think, &mut read_body)?;
        if given != think {
            return Err(InputError::new(
                file,
                before + 1,
                1,
                "the think time for all sessions has to come before the \
                first session",
            ));
        }
        sessions.into_iter().try_for_each(&mut on_session)?;
    }
    Ok(())
}

/// The line with which a session begins.
const SESSION: &[u8] = b"[[session]]";

/// Cuts a file before each line that begins a session. A line within a text or an array begins
/// none.
struct Parts<'a> {
    text: &'a [u8],
    begin: usize,
    lines_before: usize,
}

impl<'a> Iterator for Parts<'a> {
    /// A part, and how many lines stand before it.
    type Item = (&'a [u8], usize);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = &self.text[self.begin..];
        if rest.is_empty() {
            return None;
        }
        let mut at = 0;
        loop {
            at += statement(&rest[at..]);
            if at == rest.len() || rest[at..].starts_with(SESSION) {
                break;
            }
        }
        let part = &rest[..at];
        let before = self.lines_before;
        self.begin += at;
        self.lines_before += part.iter().filter(|&&byte| byte == b'\n').count();
        Some((part, before))
    }
}

/// How long the first statement is: to the end of its line, or of the line on which its last text
/// and array ends.
fn statement(text: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\n' if depth == 0 => return at + 1,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'#' => {
                at += text[at..].iter().position(|&byte| byte == b'\n').unwrap_or(text.len() - at);
                continue;
            }
            b'"' | b'\'' => {
                at += quoted(&text[at..]);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// How long the text in quotes is with which this begins. One that is not closed ends with its
/// line, or with the file.
fn quoted(text: &[u8]) -> usize {
    let quote = text[0];
    let long = text.len() >= 3 && text[1] == quote && text[2] == quote;
    let mut at = if long { 3 } else { 1 };
    while let Some(&byte) = text.get(at) {
        if byte == b'\\' && quote == b'"' {
            at += 2;
        } else if byte == b'\n' && !long {
            return at;
        } else if byte != quote {
            at += 1;
        } else if !long {
            return at + 1;
        } else {
            // Up to two quotes may stand before the three that close it.
            let run = text[at..].iter().take_while(|&&byte| byte == quote).count();
            at += run;
            if run >= 3 {
                return at;
            }
        }
    }
    text.len()
}

pub(super) fn read<'a>(
    file: &'a str,
    text: &'a [u8],
    read_body: impl FnMut(&Path) -> Result<Vec<u8>, String>,
) -> Result<Vec<SessionText<'a>>, InputError> {
    read_part(file, text, 0, None, read_body).map(|(_, sessions)| sessions)
}

/// Reads a text that stands behind so many other lines of its file, with a think time for bursts
/// that have none. The think time that holds behind it, and the sessions.
fn read_part<'a>(
    file: &'a str,
    text: &'a [u8],
    lines_before: usize,
    think: Option<Duration>,
    read_body: impl FnMut(&Path) -> Result<Vec<u8>, String>,
) -> Result<(Option<Duration>, Vec<SessionText<'a>>), InputError> {
    let wrong = |offset: usize, what: &str| InputError::at_offset(file, text, offset, what);
    let utf8 = std::str::from_utf8(text).map_err(|error| wrong(error.valid_up_to(), "the text is not valid UTF-8"))?;
    let table: FileTable = toml::from_str(utf8).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        wrong(offset, &one_line(error.message()))
    })?;
    let mut reader = Reader { file, text, places: Places::default(), lines_before, calls: 0, read_body };
    let think = reader.think(table.think)?.or(think);
    let sessions: Result<_, _> = table.session.into_iter().map(|session| reader.session(session, think)).collect();
    Ok((think, sessions?))
}

struct Reader<'a, F> {
    file: &'a str,
    text: &'a [u8],
    places: Places,
    lines_before: usize,
    calls: usize,
    read_body: F,
}

impl<'a, F: FnMut(&Path) -> Result<Vec<u8>, String>> Reader<'a, F> {
    fn session(
        &mut self,
        table: Spanned<SessionTable>,
        think: Option<Duration>,
    ) -> Result<SessionText<'a>, InputError> {
        let at = table.span();
        let bursts = table.into_inner().burst;
        if bursts.is_empty() {
            return Err(self.error(&at, "the session has no burst; add a [[session.burst]] with calls"));
        }
        let bursts = bursts.into_iter().map(|burst| self.burst(burst, think)).collect::<Result<_, _>>()?;
        Ok(SessionText { bursts })
    }

    fn burst(&mut self, table: BurstTable, think: Option<Duration>) -> Result<BurstText<'a>, InputError> {
        let at = table.calls.span();
        if table.calls.get_ref().is_empty() {
            return Err(self.error(&at, "the burst has no calls"));
        }
        let think = self.think(table.think)?.or(think);
        let calls = table.calls.into_inner().into_iter().map(|call| self.call(call)).collect::<Result<_, _>>()?;
        Ok(BurstText { calls, think })
    }

    fn call(&mut self, entry: Spanned<CallEntry>) -> Result<CallText<'a>, InputError> {
        self.calls += 1;
        if self.calls > ENTRIES_MAX {
            return Err(self.error(&entry.span(), &format!("the file has more than {ENTRIES_MAX} calls")));
        }
        let at = entry.span();
        let table = match entry.into_inner() {
            CallEntry::Table(table) => table,
            CallEntry::Uri(uri) => CallTable {
                uri: Spanned::new(at, uri),
                method: None,
                body: None,
                body_file: None,
                headers: HeaderTable::default(),
            },
        };
        let at = table.uri.span();
        let target = table.uri.into_inner();
        if let Some((_, what)) = target_fault(target.as_bytes()) {
            return Err(self.error(&at, &format!("{}: {what}", excerpt(target.as_bytes()))));
        }
        let body = self.body(table.body, table.body_file)?;
        // A call with a body is a POST, unless it names another method.
        let usual = if body.is_empty() { "GET" } else { "POST" };
        let method = table.method.map_or(Cow::Borrowed(usual), |method| Cow::Owned(method.into_inner()));
        let (line, column) = self.places.find(self.text, at.start);
        Ok(CallText {
            method,
            target: Cow::Owned(target),
            fields: table.headers.0,
            body: Cow::Owned(body),
            line: u32::try_from(self.lines_before + line).unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX),
        })
    }

    fn body(&mut self, body: Option<Spanned<String>>, file: Option<Spanned<String>>) -> Result<Vec<u8>, InputError> {
        let Some(file) = file else {
            return Ok(body.map_or_else(Vec::new, |body| body.into_inner().into_bytes()));
        };
        if body.is_some() {
            return Err(self.error(&file.span(), "a call cannot have both body and body_file"));
        }
        // Absolute paths stay what they are.
        let path: PathBuf = Path::new(self.file).parent().unwrap_or(Path::new("")).join(file.get_ref());
        (self.read_body)(&path).map_err(|what| self.error(&file.span(), &what))
    }

    fn think(&self, text: Option<Spanned<String>>) -> Result<Option<Duration>, InputError> {
        let Some(text) = text else { return Ok(None) };
        parse_time(text.get_ref()).map(Some).map_err(|error| self.error(&text.span(), &error.to_string()))
    }

    fn error(&self, at: &Range<usize>, what: &str) -> InputError {
        InputError::at_offset(self.file, self.text, at.start, what)
    }
}

/// Finds places in ascending order without counting a file's lines again for each.
#[derive(Default)]
struct Places {
    line_start: usize,
    lines_before: usize,
}

impl Places {
    fn find(&mut self, text: &[u8], offset: usize) -> (usize, usize) {
        // TOML lets a session's tables lie apart, which takes the places back.
        if offset < self.line_start {
            *self = Self::default();
        }
        while let Some(end) = text[self.line_start..offset].iter().position(|&byte| byte == b'\n') {
            self.line_start += end + 1;
            self.lines_before += 1;
        }
        (self.lines_before + 1, column(&text[self.line_start..offset]))
    }
}

/// The parser's messages may have several lines; ours have one.
fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl<'de> Deserialize<'de> for CallEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntryVisitor;
        impl<'de> Visitor<'de> for EntryVisitor {
            type Value = CallEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a URI such as \"/index.html\", or a table such as { uri = \"/\", method = \"POST\" }")
            }

            fn visit_str<E>(self, uri: &str) -> Result<CallEntry, E> {
                Ok(CallEntry::Uri(uri.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<CallEntry, A::Error> {
                CallTable::deserialize(MapAccessDeserializer::new(map)).map(CallEntry::Table)
            }
        }
        // An untagged enum would lose which key of the table is wrong.
        deserializer.deserialize_any(EntryVisitor)
    }
}

impl<'de> Deserialize<'de> for HeaderTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TableVisitor;
        impl<'de> Visitor<'de> for TableVisitor {
            type Value = HeaderTable;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of header fields such as { Accept = \"text/html\" }")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<HeaderTable, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(HeaderTable(fields))
            }
        }
        deserializer.deserialize_map(TableVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bodies(path: &Path) -> Result<Vec<u8>, String> {
        match path.to_str() {
            Some("dir/order.json" | "/etc/order.json") => Ok(b"{}".to_vec()),
            _ => Err(format!("cannot read {}: no such file", path.display())),
        }
    }

    fn check_refused(text: &str, expected: &str) {
        let error = read("dir/s.toml", text.as_bytes(), bodies).unwrap_err();
        assert_eq!(error.to_string(), format!("dir/s.toml:{expected}"), "{text}");
    }

    /// A file whose one call is `call`, on line 3 from column 10 on.
    fn check_call_refused(call: &str, expected: &str) {
        check_refused(&format!("[[session]]\n[[session.burst]]\ncalls = [{call}]\n"), expected);
    }

    #[test]
    fn sessions_bursts_and_calls() {
        let text = r#"
            think = "1s"
            [[session]]
            [[session.burst]]
            think = "2s"
            calls = [
              "/index.html",
              { uri = "/a.png", headers = { X-Z = "1", Accept = "image/*" } },
            ]
            [[session.burst]]
            calls = [{ uri = "/order", body = "x=1" }, { uri = "/order", method = "PUT", body_file = "order.json" }]
            [[session]]
            burst = [{ calls = [{ uri = "/c", body_file = "/etc/order.json", method = "PATCH" }], think = "0s" }]
        "#;
        let sessions = read("dir/s.toml", text.as_bytes(), bodies).unwrap();
        let bursts: Vec<_> = sessions.iter().map(|session| session.bursts.len()).collect();
        assert_eq!(bursts, [2, 1]);
        let thinks: Vec<_> = sessions.iter().flat_map(|session| &session.bursts).map(|burst| burst.think).collect();
        assert_eq!(thinks, [2, 1, 0].map(|seconds| Some(Duration::from_secs(seconds))));
        let calls: Vec<_> = sessions
            .iter()
            .flat_map(|session| &session.bursts)
            .flat_map(|burst| &burst.calls)
            .map(|call| (&*call.method, &*call.target, &*call.body, call.line, call.column))
            .collect();
        let expected: [(&str, &str, &[u8], u32, u32); 5] = [
            ("GET", "/index.html", b"", 7, 15),
            ("GET", "/a.png", b"", 8, 23),
            ("POST", "/order", b"x=1", 11, 30),
            ("PUT", "/order", b"{}", 11, 64),
            ("PATCH", "/c", b"{}", 13, 41),
        ];
        assert_eq!(calls, expected);
        let fields = &sessions[0].bursts[0].calls[1].fields;
        assert_eq!(fields, &[("X-Z".to_owned(), "1".to_owned()), ("Accept".to_owned(), "image/*".to_owned())]);
    }

    #[test]
    fn without_think_times_the_command_decides() {
        let sessions = read("s.toml", b"[[session]]\n[[session.burst]]\ncalls = [\"/\"]\n", bodies).unwrap();
        assert_eq!(sessions[0].bursts[0].think, None);
    }

    #[test]
    fn places_are_found_also_backwards() {
        let mut places = Places::default();
        let text = "a\nbä\nc".as_bytes();
        assert_eq!([6, 2, 5, 0].map(|offset| places.find(text, offset)), [(3, 1), (2, 1), (2, 3), (1, 1)]);
    }

    #[test]
    fn errors_are_named_with_their_place() {
        check_refused("[[session]]\n", "1:1: the session has no burst; add a [[session.burst]] with calls");
        check_refused("[[session]]\n[[session.burst]]\ncalls = []\n", "3:9: the burst has no calls");
        check_refused("[[session]]\n[[session.burst]]\n", "2:1: missing field `calls`");
        check_refused("[[sesion]]\n", "1:3: unknown field `sesion`, expected `think` or `session`");
        check_refused("think = 2\n", "1:9: invalid type: integer `2`, expected a string");
        check_refused("think = \"2\"\n", &format!("1:9: {}", parse_time("2").unwrap_err()));
        check_refused("think = \"9000h\"\n", &format!("1:9: {}", parse_time("9000h").unwrap_err()));
        check_refused("# ä\nthink = \"ü\" x\n", "2:13: unexpected key or value, expected newline, `#`");
        check_call_refused("\"a\"", "3:10: \"a\": a URI has to begin with a slash");
        check_call_refused(
            "{ uri = \"/a b\" }",
            "3:18: \"/a b\": this character is not allowed in a URI; percent-encode it, such as %20",
        );
        check_call_refused(
            "{ uri = \"/\", metod = \"GET\" }",
            "3:23: unknown field `metod`, expected one of `uri`, `method`, `body`, `body_file`, `headers`",
        );
        check_call_refused("{ method = \"GET\" }", "3:10: missing field `uri`");
        check_call_refused(
            "{ uri = \"/\", body = \"\", body_file = \"x\" }",
            "3:46: a call cannot have both body and body_file",
        );
        check_call_refused("{ uri = \"/\", body_file = \"x\" }", "3:35: cannot read dir/x: no such file");
        check_call_refused(
            "7",
            "3:10: invalid type: integer `7`, expected a URI such as \"/index.html\", or a table such as { uri = \"/\", method = \"POST\" }",
        );
        check_call_refused(
            "{ uri = \"/\", headers = { A = 1 } }",
            "3:39: invalid type: integer `1`, expected a string",
        );
        let error = read("s.toml", b"# \xff\n", bodies).unwrap_err();
        assert_eq!(error.to_string(), "s.toml:1:3: the text is not valid UTF-8");
    }
}
