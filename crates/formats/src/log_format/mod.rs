//! Formats of access logs: those of servers by name, nginx's `log_format` and Apache's `LogFormat`
//! strings, mappings of JSON members, and the detection of a format by the first lines.
//!
//! Every format's lines become [`LogLine`]s. What to make of them is the caller's.

mod apache;
mod balancers;
mod detection;
mod json;
mod nginx;
mod parts;
mod pattern;
#[cfg(test)]
mod tests;
mod time;
mod w3c;

use std::fmt;
use std::str::FromStr;

pub use self::detection::{Detected, detect};
use self::json::{Names, Scratch};
use self::pattern::Pattern;
use self::w3c::Columns;
use crate::access_log::{LogFault, LogLine, split_virtual_host};

/// The names that [`LogFormat::from_str`] knows, beside strings and mappings.
pub const NAMES: [&str; 11] =
    ["auto", "common", "combined", "vhost_combined", "thalweg", "caddy", "traefik", "gcp", "alb", "haproxy", "w3c"];

/// The format of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFormat {
    kind: Kind,
    /// Its name, for messages.
    name: String,
    /// Lines that are JSON objects are read by these names, whatever the others are.
    json: Option<Names>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// The Common or the Combined Log Format.
    Common,
    /// The same behind a virtual host.
    VirtualHost,
    Pattern {
        pattern: Box<Pattern>,
        has_urls: bool,
    },
    Json,
    Haproxy,
    W3c,
}

/// Reads the lines of a log one by one.
#[derive(Clone, Debug)]
pub struct LogReader {
    format: LogFormat,
    columns: Columns,
    scratch: Scratch,
    joined: Vec<u8>,
}

impl LogFormat {
    /// The Common or the Combined Log Format.
    pub fn common() -> Self {
        Self { kind: Kind::Common, name: "common or combined".to_owned(), json: Names::preset("thalweg") }
    }

    /// The same behind a virtual host, as Apache's `vhost_combined` has it.
    pub fn behind_virtual_host() -> Self {
        Self::new(Kind::VirtualHost, "vhost_combined")
    }

    fn new(kind: Kind, name: &str) -> Self {
        Self { kind, name: name.to_owned(), json: None }
    }

    fn of_json(names: Names, name: &str) -> Self {
        Self { kind: Kind::Json, name: name.to_owned(), json: Some(names) }
    }

    /// The members of JSON objects that are read, in words, if that is the format.
    pub fn members(&self) -> Option<String> {
        self.json.as_ref().filter(|_| self.kind == Kind::Json).map(Names::words)
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl FromStr for LogFormat {
    type Err = String;

    /// A name of [`NAMES`] other than `auto`, `json:` with a mapping, a string of nginx's
    /// `log_format` (with variables behind `$`), or of Apache's `LogFormat` (with `%`).
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(mapping) = text.strip_prefix("json:") {
            return Ok(Self::of_json(Names::parse(mapping)?, "JSON"));
        }
        if let Some(names) = Names::preset(text) {
            return Ok(Self::of_json(names, text));
        }
        match text {
            "common" | "combined" => Ok(Self { name: text.to_owned(), ..Self::common() }),
            "vhost_combined" => Ok(Self::behind_virtual_host()),
            "alb" => Ok(Self::new(Kind::Pattern { pattern: Box::new(balancers::alb()), has_urls: true }, text)),
            "haproxy" => Ok(Self::new(Kind::Haproxy, text)),
            "w3c" | "iis" | "cloudfront" => Ok(Self::new(Kind::W3c, text)),
            _ if text.contains('$') => {
                let pattern = Box::new(nginx::pattern(text)?);
                Ok(Self::new(Kind::Pattern { pattern, has_urls: false }, "nginx log_format"))
            }
            _ if text.contains('%') => {
                let pattern = Box::new(apache::pattern(text)?);
                Ok(Self::new(Kind::Pattern { pattern, has_urls: false }, "Apache LogFormat"))
            }
            _ => Err(format!(
                "expected one of {}, iis, cloudfront, json:time=NAME,method=NAME,target=NAME, or a string of nginx's \
                 log_format or Apache's LogFormat",
                NAMES.join(", ")
            )),
        }
    }
}

impl LogReader {
    /// A reader of lines of that format.
    pub fn new(format: LogFormat) -> Self {
        Self { format, columns: Columns::default(), scratch: Scratch::default(), joined: Vec::new() }
    }

    /// The format.
    pub fn format(&self) -> &LogFormat {
        &self.format
    }

    /// Reads a line, which comes without its line feed. `None` for a line about the log itself,
    /// such as a heading.
    ///
    /// # Errors
    /// It has another format.
    pub fn read<'a>(&'a mut self, line: &'a [u8]) -> Result<Option<LogLine<'a>>, LogFault> {
        let Self { format, columns, scratch, joined } = self;
        let line = line.trim_ascii_end();
        if let Some(names) = &format.json
            && (format.kind == Kind::Json || line.starts_with(b"{"))
        {
            return names.read(line, scratch).map(Some);
        }
        match &format.kind {
            Kind::Common => LogLine::parse_without_virtual_host(line),
            Kind::VirtualHost => behind_virtual_host(line),
            Kind::Pattern { pattern, has_urls } => {
                pattern.read(line).and_then(|parts| parts::Parts { has_urls: *has_urls, ..parts }.into_line(joined))
            }
            Kind::Haproxy => balancers::haproxy(line).and_then(|parts| parts.into_line(joined)),
            Kind::W3c if w3c::is_directive(line) => {
                columns.take(line);
                return Ok(None);
            }
            Kind::W3c => columns.read(line).and_then(|parts| parts.into_line(joined)),
            Kind::Json => Err(LogFault { at: 0, expected: "a JSON object" }),
        }
        .map(Some)
    }
}

fn behind_virtual_host(line: &[u8]) -> Result<LogLine<'_>, LogFault> {
    let expected = "a virtual host, a blank, and a line in the common or combined format";
    let (host, rest) = split_virtual_host(line).ok_or(LogFault { at: 0, expected })?;
    let begin = line.len() - rest.len();
    let logged = LogLine::parse(rest).map_err(|fault| LogFault { at: begin + fault.at, ..fault })?;
    Ok(LogLine { virtual_host: Some(host), ..logged })
}
