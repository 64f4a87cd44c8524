//! Transcripts of conversations as files: `tests/conformance/README.md` describes their format,
//! this module reads it.
//!
//! A file that does not follow the format is a mistake of ours, so it panics with file and line.

use std::fs;
use std::path::{Path, PathBuf};

/// Cases that belong together: a file.
pub(crate) struct Group {
    /// The title in the file's first line.
    pub(crate) title: String,
    pub(crate) cases: Vec<Case>,
}

/// One conversation on a connection of its own.
pub(crate) struct Case {
    pub(crate) title: String,
    /// The source of the requirement.
    pub(crate) section: String,
    /// File and line.
    pub(crate) place: String,
    pub(crate) steps: Vec<Step>,
    /// One of these; the first is ours.
    pub(crate) afters: Vec<After>,
    /// The reason for a deviation from the section, if there is one.
    pub(crate) note: Option<String>,
    /// nginx's behaviour, where it differs.
    pub(crate) nginx: Option<Difference>,
}

/// A step of a case.
pub(crate) enum Step {
    /// These bytes are sent, when [`Template::expand`] has made bytes of them.
    Send(Template),
    /// Our direction of the connection is finished.
    Finish,
    /// A response has to come.
    Receive(Expected),
}

/// The required state of the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum After {
    /// It carries another request and its response.
    Kept,
    /// It is closed, without further bytes.
    Closed,
}

impl After {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Closed => "closed",
        }
    }
}

/// The required response.
pub(crate) struct Expected {
    /// One of these; the first is ours.
    pub(crate) statuses: Vec<u16>,
    /// Names and values; `None` stands for a field that must not be there.
    pub(crate) fields: Vec<(String, Option<Template>)>,
    pub(crate) body: Body,
}

/// The required body.
pub(crate) enum Body {
    /// Not looked at.
    Any,
    /// None is sent, regardless of Content-Length.
    None,
    Is(Template),
    /// Of `multipart/byteranges`: the range of each part, and what is in it.
    Parts(Vec<(String, Template)>),
}

/// How nginx differs.
pub(crate) struct Difference {
    /// Status codes, and `kept` or `closed`.
    pub(crate) answer: String,
    pub(crate) because: String,
}

/// Text with escapes, repetitions and what only the server knows.
#[derive(Clone, Default)]
pub(crate) struct Template(String);

/// Values that only the server knows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Known {
    /// A file's entity tag.
    Etag,
    /// Its Last-Modified.
    Modified,
}

/// A byte, or any number of any bytes.
pub(crate) type Symbol = Option<u8>;

impl Template {
    /// The text as it stands in a file of transcripts.
    pub(crate) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Stands for exactly these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect())
    }

    /// The bytes. `known` returns values of a path that only the server knows.
    pub(crate) fn expand(&self, known: &mut dyn FnMut(Known, &str) -> String) -> Vec<u8> {
        self.symbols(known).into_iter().map(|symbol| symbol.unwrap_or(b'*')).collect()
    }

    /// Whether `text` is what this stands for; a `*` stands for any bytes, an escaped one for
    /// itself.
    pub(crate) fn matches(&self, text: &[u8], known: &mut dyn FnMut(Known, &str) -> String) -> bool {
        let symbols = self.symbols(known);
        let parts: Vec<Vec<u8>> =
            symbols.split(Option::is_none).map(|part| part.iter().copied().flatten().collect()).collect();
        let [first, others @ ..] = &*parts else { return false };
        let [middle @ .., last] = others else { return text == first };
        let Some(text) = text.strip_prefix(&**first) else { return false };
        let Some(mut text) = text.strip_suffix(&**last) else { return false };
        middle.iter().all(|part| {
            let found = part.is_empty().then_some(0).or_else(|| find(text, part));
            found.is_some_and(|at| {
                text = &text[at + part.len()..];
                true
            })
        })
    }

    fn symbols(&self, known: &mut dyn FnMut(Known, &str) -> String) -> Vec<Symbol> {
        let mut symbols = Vec::new();
        let mut rest = self.0.as_str();
        while let Some(letter) = rest.chars().next() {
            rest = &rest[letter.len_utf8()..];
            match letter {
                '*' => symbols.push(None),
                '\\' => rest = push_escape(rest, &mut symbols),
                '{' => {
                    let (inside, behind) = rest.split_once('}').unwrap_or_else(|| panic!("no end: {{{rest}"));
                    rest = behind;
                    let told = |value: String| value.bytes().map(Some).collect();
                    let inside: Vec<Symbol> = match inside.split_once(' ') {
                        Some(("etag", path)) => told(known(Known::Etag, path)),
                        Some(("modified", path)) => told(known(Known::Modified, path)),
                        Some((count, text)) => {
                            let count = count.parse().unwrap_or_else(|_| panic!("what is {{{inside}}}?"));
                            Self::new(text).symbols(known).repeat(count)
                        }
                        None => panic!("what is {{{inside}}}?"),
                    };
                    symbols.extend(inside);
                }
                _ => symbols.extend(letter.encode_utf8(&mut [0; 4]).bytes().map(Some)),
            }
        }
        symbols
    }
}

/// The character behind a backslash, and the rest of the text.
fn push_escape<'t>(text: &'t str, symbols: &mut Vec<Symbol>) -> &'t str {
    let (letter, rest) = text.split_at(1);
    let byte = match letter {
        "r" => b'\r',
        "n" => b'\n',
        "t" => b'\t',
        "0" => 0,
        "x" => {
            symbols.push(Some(u8::from_str_radix(&rest[..2], 16).expect("two hexadecimal digits behind \\x")));
            return &rest[2..];
        }
        "*" | "\\" | "{" | " " => letter.as_bytes()[0],
        _ => panic!("an unknown escape: \\{letter}"),
    };
    symbols.push(Some(byte));
    rest
}

pub(crate) fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// The folder with the transcripts.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance")
}

/// Reads all transcripts, file by file in the order of their names.
pub(crate) fn groups() -> Vec<Group> {
    let entries = fs::read_dir(folder()).expect("the folder of transcripts can be read");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry can be read").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> Group {
    let text = fs::read_to_string(path).expect("a file of transcripts can be read");
    let name = path.file_name().expect("a file has a name").to_string_lossy();
    let title = text.lines().next().and_then(|line| line.strip_prefix("# ")).expect("a title in the first line");
    let mut cases: Vec<Case> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let place = format!("{name}:{}", index + 1);
        let is_comment = line.starts_with("# ") || line == "#";
        if line.is_empty() || is_comment {
        } else if let Some(title) = line.strip_prefix("## ") {
            let title = title.to_owned();
            let (section, steps) = (String::new(), Vec::new());
            cases.push(Case { title, section, place, steps, afters: vec![After::Kept], note: None, nginx: None });
        } else {
            let case = cases.last_mut().unwrap_or_else(|| panic!("{place}: before the first case"));
            read_line(case, line).unwrap_or_else(|fault| panic!("{place}: {fault}: {line:?}"));
        }
    }
    for case in &cases {
        let has_answer = case.steps.iter().any(|step| matches!(step, Step::Receive(_)));
        assert!(has_answer && !case.section.is_empty(), "{}: not a whole case", case.place);
    }
    Group { title: title.to_owned(), cases }
}

fn read_line(case: &mut Case, line: &str) -> Result<(), String> {
    let (mark, rest) = line.split_once(' ').unwrap_or((line, ""));
    match (mark, case.steps.last_mut()) {
        ("RFC", _) => case.section = line.to_owned(),
        ("note", _) => case.note = Some(rest.to_owned()),
        (">", _) => case.send(&format!("{rest}\\r\\n")),
        ("+", _) => case.send(rest),
        ("finish", _) => case.steps.push(Step::Finish),
        ("kept", _) => case.afters = vec![After::Kept],
        ("closed", _) => case.afters = vec![After::Closed],
        ("kept|closed", _) => case.afters = vec![After::Kept, After::Closed],
        ("closed|kept", _) => case.afters = vec![After::Closed, After::Kept],
        ("nginx", _) => {
            let (answer, because) = rest.split_once(": ").ok_or("no reason")?;
            case.nginx = Some(Difference { answer: answer.to_owned(), because: because.to_owned() });
        }
        ("<", _) if rest.starts_with(|letter: char| letter.is_ascii_digit()) => {
            let statuses = rest.split('|').map(|status| status.parse().map_err(|_| "not a status".to_owned()));
            let statuses = statuses.collect::<Result<_, String>>()?;
            case.steps.push(Step::Receive(Expected { statuses, fields: Vec::new(), body: Body::Any }));
        }
        ("<", Some(Step::Receive(expected))) => match rest.strip_prefix('!') {
            Some(name) => expected.fields.push((name.to_owned(), None)),
            None => {
                let (name, value) = rest.split_once(": ").ok_or("not a field")?;
                expected.fields.push((name.to_owned(), Some(Template::new(value))));
            }
        },
        ("=", Some(Step::Receive(expected))) => expected.body = Body::Is(Template::new(rest)),
        ("bodiless", Some(Step::Receive(expected))) => expected.body = Body::None,
        ("part", Some(Step::Receive(expected))) => {
            let (range, text) = rest.split_once(": ").ok_or("not a part")?;
            let part = (range.to_owned(), Template::new(text));
            match &mut expected.body {
                Body::Parts(parts) => parts.push(part),
                body => *body = Body::Parts(vec![part]),
            }
        }
        _ => return Err("what is this?".to_owned()),
    }
    Ok(())
}

impl Case {
    fn send(&mut self, text: &str) {
        match self.steps.last_mut() {
            Some(Step::Send(template)) => template.0.push_str(text),
            _ => self.steps.push(Step::Send(Template::new(text))),
        }
    }
}
