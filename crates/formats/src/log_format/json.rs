//! Logs of JSON objects, one a line: which member says what.
//!
//! Names are paths, such as `request.uri`; a name that has a dot itself is found, too. Members that
//! say nothing of a request are passed over.

use serde_json::Value;

use super::parts::{Part, Parts};
use super::time;
use crate::access_log::{LogFault, LogLine};

/// The members that say something, each by its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    time: String,
    parts: Vec<(Part, String)>,
    has_urls: bool,
}

/// The names of programs: time, and the other members.
type Preset = (&'static str, &'static str, &'static [(Part, &'static str)]);

const PRESETS: [Preset; 4] = [
    (
        "thalweg",
        "time",
        &[
            (Part::Client, "client"),
            (Part::Method, "method"),
            (Part::Target, "target"),
            (Part::Status, "status"),
            (Part::Bytes, "bytes"),
            (Part::Host, "host"),
            (Part::Referer, "referer"),
            (Part::Agent, "agent"),
        ],
    ),
    (
        "caddy",
        "ts",
        &[
            (Part::Client, "request.client_ip"),
            (Part::Client, "request.remote_ip"),
            (Part::Client, "request.remote_addr"),
            (Part::Method, "request.method"),
            (Part::Target, "request.uri"),
            (Part::Status, "status"),
            (Part::Bytes, "size"),
            (Part::Host, "request.host"),
            (Part::Agent, "request.headers.User-Agent"),
            (Part::Referer, "request.headers.Referer"),
        ],
    ),
    (
        "traefik",
        "StartUTC",
        &[
            (Part::Client, "ClientHost"),
            (Part::Method, "RequestMethod"),
            (Part::Target, "RequestPath"),
            (Part::Status, "DownstreamStatus"),
            (Part::Bytes, "DownstreamContentSize"),
            (Part::Host, "RequestHost"),
            (Part::Agent, "request_User-Agent"),
            (Part::Referer, "request_Referer"),
        ],
    ),
    (
        "gcp",
        "timestamp",
        &[
            (Part::Client, "httpRequest.remoteIp"),
            (Part::Method, "httpRequest.requestMethod"),
            (Part::Target, "httpRequest.requestUrl"),
            (Part::Status, "httpRequest.status"),
            (Part::Bytes, "httpRequest.responseSize"),
            (Part::Agent, "httpRequest.userAgent"),
            (Part::Referer, "httpRequest.referer"),
        ],
    ),
];

/// The names that people give to these members in formats of their own, the likeliest first.
const TIMES: [&str; 10] =
    ["time_iso8601", "@timestamp", "timestamp", "time", "ts", "msec", "time_local", "datetime", "date", "start_time"];

const GUESSES: [(Part, &[&str]); 10] = [
    (Part::Request, &["request", "request_line"]),
    (Part::Method, &["request_method", "method", "verb", "http_method"]),
    (Part::Target, &["request_uri", "uri", "target", "url", "path", "request_path", "request_url"]),
    (Part::Forwarded, &["http_x_forwarded_for", "x_forwarded_for", "xff"]),
    (Part::Client, &["remote_addr", "remote_ip", "client_ip", "client", "clientip", "ip"]),
    (Part::Status, &["status", "status_code", "response_code"]),
    (Part::Bytes, &["body_bytes_sent", "bytes_sent", "bytes", "size"]),
    (Part::Host, &["http_host", "host", "server_name"]),
    (Part::Referer, &["http_referer", "referer", "referrer"]),
    (Part::Agent, &["http_user_agent", "user_agent", "agent"]),
];

impl Names {
    /// The names that a program gives to its members.
    pub(super) fn preset(name: &str) -> Option<Self> {
        PRESETS.iter().find(|(preset, ..)| *preset == name).map(Self::of_preset)
    }

    fn of_preset((name, time, parts): &Preset) -> Self {
        let parts = parts.iter().map(|(part, name)| (*part, (*name).to_owned())).collect();
        Self { time: (*time).to_owned(), parts, has_urls: *name == "gcp" }
    }

    /// Reads a mapping such as `time=ts,method=request.method,target=request.uri`.
    ///
    /// # Errors
    /// A part of it is unknown, or time and request are not all there.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        const PARTS: [(&str, Part); 11] = [
            ("client", Part::Client),
            ("forwarded", Part::Forwarded),
            ("request", Part::Request),
            ("method", Part::Method),
            ("target", Part::Target),
            ("query", Part::Query),
            ("status", Part::Status),
            ("bytes", Part::Bytes),
            ("host", Part::Host),
            ("referer", Part::Referer),
            ("agent", Part::Agent),
        ];
        let mut names = Self { time: String::new(), parts: Vec::new(), has_urls: true };
        for item in text.split(',').filter(|item| !item.trim().is_empty()) {
            let (what, member) = item
                .trim()
                .split_once('=')
                .ok_or_else(|| format!("{item:?}: expected a part and the member that has it, such as time=ts"))?;
            if what == "time" {
                member.clone_into(&mut names.time);
                continue;
            }
            let known = PARTS.iter().find(|(name, _)| *name == what);
            let (_, part) = known.ok_or_else(|| {
                let all: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
                format!("{what:?} is no part of a line; expected time, {}", all.join(", "))
            })?;
            // A target in two members is a path and its query.
            names.parts.push((*part, member.to_owned()));
        }
        let has = |names: &Self, wanted| names.parts.iter().any(|(part, _)| *part == wanted);
        let has_request = has(&names, Part::Request) || (has(&names, Part::Method) && has(&names, Part::Target));
        if has(&names, Part::Query) {
            names.parts.iter_mut().filter(|(part, _)| *part == Part::Target).for_each(|(part, _)| *part = Part::Path);
        }
        if names.time.is_empty() || !has_request {
            return Err("a mapping has time, and either request or method and target".to_owned());
        }
        Ok(names)
    }

    /// The names of the members of a line: those of a program, or those that people use. `None` if
    /// it lacks a time or a request.
    pub(super) fn guess(line: &[u8]) -> Option<(&'static str, Self)> {
        let object: Value = serde_json::from_slice(line).ok().filter(Value::is_object)?;
        let preset = PRESETS.iter().find(|(_, time, parts)| {
            let has = |wanted| parts.iter().any(|(part, name)| *part == wanted && member(&object, name).is_some());
            member(&object, time).is_some() && has(Part::Method) && has(Part::Target)
        });
        if let Some(preset) = preset {
            return Some((preset.0, Self::of_preset(preset)));
        }
        let first = |names: &[&'static str]| names.iter().copied().find(|name| member(&object, name).is_some());
        let time = first(&TIMES)?;
        // `request` may be an object.
        let is_text = |name: &str| member(&object, name).is_some_and(|value| value.is_string() || value.is_number());
        let found =
            GUESSES.iter().filter_map(|(part, names)| Some((*part, first(names).filter(|name| is_text(name))?)));
        let parts: Vec<(Part, String)> = found.map(|(part, name)| (part, name.to_owned())).collect();
        let has = |wanted| parts.iter().any(|(part, _)| *part == wanted);
        let has_request = has(Part::Request) || (has(Part::Method) && has(Part::Target));
        // By these names it is a whole URL as a rule.
        let has_urls = parts.iter().any(|(_, name)| matches!(name.as_str(), "url" | "request_url"));
        has_request.then(|| ("JSON", Self { time: time.to_owned(), parts, has_urls }))
    }

    /// The names of the members that are read, in words.
    pub(super) fn words(&self) -> String {
        let name = |wanted: &[Part]| {
            let found = self.parts.iter().filter(|(part, _)| wanted.contains(part));
            found.map(|(_, name)| format!("{name:?}")).collect::<Vec<_>>().join(", ")
        };
        let request = name(&[Part::Request, Part::Method, Part::Target, Part::Path, Part::Query]);
        format!("time in {:?}, request in {request}", self.time)
    }

    /// Reads a line; `scratch` takes its texts.
    ///
    /// # Errors
    /// It is no object, or has no time.
    pub(super) fn read<'a>(&self, line: &[u8], scratch: &'a mut Scratch) -> Result<LogLine<'a>, LogFault> {
        let object: Value = serde_json::from_slice(line)
            .map_err(|error| LogFault { at: error.column().saturating_sub(1), expected: "a JSON object" })?;
        if !object.is_object() {
            return Err(LogFault { at: 0, expected: "a JSON object" });
        }
        scratch.text.clear();
        let at = push(&mut scratch.text, member(&object, &self.time));
        let time = at.and_then(|(begin, end)| time::any(&scratch.text[begin..end]));
        let time = time.ok_or(LogFault { at: 0, expected: "a member with the time" })?;
        scratch.places.clear();
        for (part, name) in &self.parts {
            if let Some(place) = push(&mut scratch.text, member(&object, name))
                && !scratch.places.iter().any(|(known, _)| known == part)
            {
                scratch.places.push((*part, place));
            }
        }
        let mut parts = Parts { moment: Some(time), is_plain: true, has_urls: self.has_urls, ..Parts::default() };
        let Scratch { text, places, joined } = scratch;
        places.iter().for_each(|(part, (begin, end))| parts.set(*part, &text[*begin..*end]));
        parts.into_line(joined)
    }
}

/// The texts of a line, and their places.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    text: Vec<u8>,
    places: Vec<(Part, (usize, usize))>,
    joined: Vec<u8>,
}

/// Appends a member's text, and returns its place.
fn push(text: &mut Vec<u8>, value: Option<&Value>) -> Option<(usize, usize)> {
    let begin = text.len();
    match value? {
        Value::String(value) => text.extend_from_slice(value.as_bytes()),
        Value::Number(value) => text.extend_from_slice(value.to_string().as_bytes()),
        // Caddy logs all lines of a field.
        Value::Array(values) => return push(text, values.first()),
        _ => return None,
    }
    Some((begin, text.len()))
}

/// The member at a path.
fn member<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let object = value.as_object()?;
    if let Some(value) = object.get(path) {
        return Some(value);
    }
    path.match_indices('.').find_map(|(dot, _)| member(object.get(&path[..dot])?, &path[dot + 1..]))
}
