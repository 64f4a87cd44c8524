//! Transcripts of frames as files: `tests/conformance/http2/README.md` describes their format,
//! this module reads it.
//!
//! A file that does not follow the format is a mistake of ours, so it panics with file and line.

use std::fs;
use std::path::Path;

use super::super::case::{Known, Template};
use super::frame::{self, Frame};
use super::hpack;

/// Cases that belong together: a file.
pub(crate) struct Group {
    pub(crate) title: String,
    pub(crate) cases: Vec<Case>,
}

/// One connection.
pub(crate) struct Case {
    pub(crate) title: String,
    /// The source of the requirement.
    pub(crate) section: String,
    /// File and line.
    pub(crate) place: String,
    /// Nothing is sent before the first step, not even the preface.
    pub(crate) is_bare: bool,
    pub(crate) steps: Vec<Step>,
    pub(crate) end: End,
    /// The reason for a deviation from the section, if there is one.
    pub(crate) note: Option<String>,
}

/// A step of a case.
pub(crate) enum Step {
    Send(Sent),
    Bytes(Template),
    /// Our direction of the connection is finished.
    Finish,
    Receive(Expected),
    /// The streams have to have ended in this order.
    Order(Vec<u32>),
}

/// The end of a case.
pub(crate) enum End {
    /// A PING is answered, and nothing comes before the answer.
    Kept,
    /// The connection is closed, and nothing comes before that.
    Closed,
    /// A request of Thalweg's client ends like this.
    Outcome(String),
}

/// Frames that are sent: the same on one stream or on several.
pub(crate) struct Sent {
    kind: u8,
    streams: Vec<u32>,
    flags: u8,
    /// The length in the head, if it is not the true one.
    length: Option<u32>,
    /// Bytes before the rest of the payload, and the number of zeros behind it.
    prefix: Vec<u8>,
    padding: usize,
    payload: Payload,
}

enum Payload {
    Bytes(Template),
    Fields(Vec<(Template, Template)>),
}

/// Frames that have to come.
pub(crate) struct Expected {
    pub(crate) stream: u32,
    pub(crate) ends: bool,
    pub(crate) content: Content,
}

pub(crate) enum Content {
    /// The status of a response, or method and path of a request; and fields, of which `None`
    /// stands for one that must not be there.
    Head {
        first: String,
        fields: Vec<(String, Option<Template>)>,
    },
    /// DATA frames with these bytes together.
    Data(Template),
    /// DATA frames with so many bytes together.
    Bytes(usize),
    Reset(u32),
    GoAway(u32),
    Acknowledgement,
    /// These settings, among others.
    Settings(Vec<u8>),
    Pong(Template),
    WindowUpdate(u32),
    /// No frame: these bytes are all that comes.
    Text(Template),
}

impl Sent {
    /// The frames as bytes.
    pub(crate) fn bytes(&self, known: &mut dyn FnMut(Known, &str) -> String) -> Vec<u8> {
        let mut payload = self.prefix.clone();
        match &self.payload {
            Payload::Bytes(bytes) => payload.extend_from_slice(&bytes.expand(known)),
            Payload::Fields(fields) => {
                for (name, value) in fields {
                    hpack::write(&name.expand(known), &value.expand(known), &mut payload);
                }
            }
        }
        payload.resize(payload.len() + self.padding, 0);
        let frame = |&stream| Frame::new(self.kind, self.flags, stream, &payload).to_bytes(self.length);
        self.streams.iter().flat_map(frame).collect()
    }
}

impl Case {
    /// Status codes and error codes that come, and what becomes of the connection or the request.
    pub(crate) fn answer(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        for step in &self.steps {
            match step {
                Step::Receive(Expected { content: Content::Head { first, .. }, .. }) if !first.contains(' ') => {
                    parts.push(first.clone());
                }
                Step::Receive(Expected { content: Content::Reset(code), .. }) => {
                    parts.push(format!("RST_STREAM {},", frame::code_name(*code)));
                }
                Step::Receive(Expected { content: Content::GoAway(code), .. }) => {
                    parts.push(format!("GOAWAY {},", frame::code_name(*code)));
                }
                _ => {}
            }
        }
        parts.push(match &self.end {
            End::Kept => "kept".to_owned(),
            End::Closed => "closed".to_owned(),
            End::Outcome(outcome) => outcome.replace('_', " "),
        });
        // Long runs of responses are one.
        parts.dedup();
        parts.join(" ")
    }
}

/// Reads all transcripts of a folder, file by file in the order of their names.
pub(crate) fn groups(folder: &Path) -> Vec<Group> {
    let entries = fs::read_dir(folder).expect("the folder of transcripts can be read");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry can be read").path()).collect();
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
            let (title, section, steps) = (title.to_owned(), String::new(), Vec::new());
            cases.push(Case { title, section, place, is_bare: false, steps, end: End::Kept, note: None });
        } else {
            let case = cases.last_mut().unwrap_or_else(|| panic!("{place}: before the first case"));
            read_line(case, line).unwrap_or_else(|fault| panic!("{place}: {fault}: {line:?}"));
        }
    }
    for case in &cases {
        assert!(!case.steps.is_empty() && !case.section.is_empty(), "{}: not a whole case", case.place);
    }
    Group { title: title.to_owned(), cases }
}

fn read_line(case: &mut Case, line: &str) -> Result<(), String> {
    let (mark, rest) = line.split_once(' ').unwrap_or((line, ""));
    let steps = &mut case.steps;
    match mark {
        "RFC" => case.section = line.to_owned(),
        "note" => case.note = Some(rest.to_owned()),
        "bare" => case.is_bare = true,
        "kept" => case.end = End::Kept,
        "closed" => case.end = End::Closed,
        "outcome" => case.end = End::Outcome(rest.to_owned()),
        "finish" => steps.push(Step::Finish),
        "+" => steps.push(Step::Bytes(Template::new(rest))),
        ">" => steps.push(Step::Send(sent(rest)?)),
        "order" => {
            let streams = rest.split(' ').map(|stream| stream.parse().map_err(|_| "not a stream".to_owned()));
            steps.push(Step::Order(streams.collect::<Result<_, _>>()?));
        }
        "<" if rest.starts_with(|letter: char| letter.is_ascii_lowercase() || "!:".contains(letter)) => {
            let Some(Step::Receive(Expected { content: Content::Head { fields, .. }, .. })) = steps.last_mut() else {
                return Err("a field of no head".to_owned());
            };
            fields.push(match rest.strip_prefix('!') {
                Some(name) => (name.to_owned(), None),
                None => {
                    let (name, value) = rest.split_once(": ").ok_or("not a field")?;
                    (name.to_owned(), Some(Template::new(value)))
                }
            });
        }
        "<" => {
            let (_, streams, ..) = split(rest)?;
            for stream in streams_of(streams)? {
                steps.push(Step::Receive(expected(rest, stream)?));
            }
        }
        _ => return Err("an unknown line".to_owned()),
    }
    Ok(())
}

/// Kind, stream and further words before the colon, and the text behind it.
fn split(text: &str) -> Result<(&str, &str, Vec<&str>, &str), String> {
    let (head, payload) = text.split_once(':').unwrap_or((text, ""));
    let mut words = head.split(' ').peekable();
    let kind = words.next().unwrap_or_default();
    let is_stream = |word: &&str| word.starts_with(|letter: char| letter.is_ascii_digit());
    let stream = words.next_if(is_stream).unwrap_or("0");
    Ok((kind, stream, words.collect(), payload.strip_prefix(' ').unwrap_or(payload)))
}

fn sent(text: &str) -> Result<Sent, String> {
    let (kind, streams, words, payload) = split(text)?;
    let kind = frame::kind(kind).ok_or("an unknown kind")?;
    let has_block = matches!(kind, frame::HEADERS | frame::CONTINUATION);
    let mut sent = Sent {
        kind,
        streams: streams_of(streams)?,
        flags: if has_block { frame::END_HEADERS } else { 0 },
        length: None,
        prefix: Vec::new(),
        padding: 0,
        payload: Payload::Bytes(Template::new(payload)),
    };
    let mut is_raw = false;
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("end" | "ack", _) => sent.flags |= frame::END_STREAM,
            ("open", _) => sent.flags &= !frame::END_HEADERS,
            ("raw", _) => is_raw = true,
            ("length", value) => sent.length = Some(value.parse().map_err(|_| "not a length")?),
            ("flags", value) => sent.flags = hexadecimal(value)?,
            ("padded", value) => {
                sent.flags |= frame::PADDED;
                sent.padding = value.parse().map_err(|_| "not a length of padding")?;
                sent.prefix.insert(0, sent.padding as u8);
            }
            ("priority", value) => {
                sent.flags |= frame::HAS_PRIORITY;
                sent.prefix.extend(priority(value)?);
            }
            _ => return Err(format!("an unknown word {word:?}")),
        }
    }
    if !is_raw {
        sent.payload = payload_of(kind, payload)?;
    }
    Ok(sent)
}

/// `7`, or `1..9` for all odd numbers of these.
fn streams_of(text: &str) -> Result<Vec<u32>, String> {
    let number = |text: &str| text.parse::<u32>().map_err(|_| "not a stream".to_owned());
    match text.split_once("..") {
        Some((first, last)) => Ok((number(first)?..=number(last)?).step_by(2).collect()),
        None => Ok(vec![number(text)?]),
    }
}

fn hexadecimal(text: &str) -> Result<u8, String> {
    text.strip_prefix("0x").and_then(|digits| u8::from_str_radix(digits, 16).ok()).ok_or("not a number".to_owned())
}

/// `STREAM/WEIGHT` of RFC 7540, 6.3.
fn priority(text: &str) -> Result<Vec<u8>, String> {
    let (stream, weight) = text.split_once('/').ok_or("not a priority")?;
    let (stream, weight): (Result<u32, _>, Result<u16, _>) = (stream.parse(), weight.parse());
    let (stream, weight) = (stream.map_err(|_| "not a stream")?, weight.map_err(|_| "not a weight")?);
    Ok([&stream.to_be_bytes()[..], &[(weight - 1) as u8]].concat())
}

fn payload_of(kind: u8, text: &str) -> Result<Payload, String> {
    let number = |text: &str| text.parse::<u32>().map(u32::to_be_bytes).map_err(|_| "not a number".to_owned());
    let code = |text: &str| frame::code(text).map(u32::to_be_bytes).ok_or("not an error code".to_owned());
    let bytes = match kind {
        frame::HEADERS | frame::CONTINUATION => return fields(text).map(Payload::Fields),
        frame::SETTINGS_KIND => frame::settings(text).ok_or("not settings")?,
        frame::WINDOW_UPDATE => number(text)?.to_vec(),
        frame::RST_STREAM => code(text)?.to_vec(),
        frame::PRIORITY => priority(text)?,
        frame::GOAWAY => {
            let (last, name) = text.split_once(' ').ok_or("not the last stream and an error code")?;
            [number(last)?, code(name)?].concat()
        }
        frame::PRIORITY_UPDATE => {
            let (stream, value) = text.split_once(' ').ok_or("not a stream and a priority")?;
            [&number(stream)?[..], value.as_bytes()].concat()
        }
        _ => return Ok(Payload::Bytes(Template::new(text))),
    };
    Ok(Payload::Bytes(Template::of(&bytes)))
}

/// Fields between bars: `name: value`, or `GET /path` for the pseudo-fields of a request, or a
/// status for that of a response.
fn fields(text: &str) -> Result<Vec<(Template, Template)>, String> {
    let mut fields = Vec::new();
    let mut push = |name: &str, value: &str| fields.push((Template::new(name), Template::new(value)));
    for part in text.split(" | ").filter(|part| !part.is_empty()) {
        let colon = part.char_indices().skip(1).find(|(_, letter)| *letter == ':').map(|(place, _)| place);
        match (colon, part.split_once(' ')) {
            (None, None) => push(":status", part),
            (None, Some((method, path))) => {
                for (name, value) in [(":method", method), (":scheme", "http"), (":authority", "h"), (":path", path)] {
                    push(name, value);
                }
            }
            (Some(_), Some((method, path))) if method.bytes().all(|byte| byte.is_ascii_uppercase()) => {
                return Err(format!("a colon in {method} {path}"));
            }
            (Some(colon), _) => {
                let value = &part[colon + 1..];
                push(&part[..colon], value.strip_prefix(' ').unwrap_or(value));
            }
        }
    }
    Ok(fields)
}

fn expected(text: &str, stream: u32) -> Result<Expected, String> {
    let (kind, _, words, payload) = split(text)?;
    let number = || payload.parse().map_err(|_| "not a number".to_owned());
    let code = || frame::code(payload).ok_or("not an error code".to_owned());
    let has = |word: &str| words.contains(&word);
    let content = match kind {
        "HEADERS" => Content::Head { first: payload.to_owned(), fields: Vec::new() },
        "DATA" => match words.iter().find_map(|word| word.strip_prefix("bytes=")) {
            Some(count) => Content::Bytes(count.parse().map_err(|_| "not a number")?),
            None => Content::Data(Template::new(payload)),
        },
        "RST_STREAM" => Content::Reset(code()?),
        "GOAWAY" => Content::GoAway(code()?),
        "SETTINGS" if has("ack") => Content::Acknowledgement,
        "SETTINGS" => Content::Settings(frame::settings(payload).ok_or("not settings")?),
        "PING" if has("ack") => Content::Pong(Template::new(payload)),
        "WINDOW_UPDATE" => Content::WindowUpdate(number()?),
        "TEXT" => Content::Text(Template::new(payload)),
        _ => return Err("nothing that can come".to_owned()),
    };
    Ok(Expected { stream, ends: has("end"), content })
}
