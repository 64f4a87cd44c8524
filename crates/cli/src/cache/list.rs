//! Lists of objects that a cache is to be filled with: names, one on a line, or the requests of an
//! access log.

use std::collections::HashMap;
use std::io::{self, BufRead, Read};

use serde_json::Value;
use thalweg_formats::access_log::{LogLine, LoggedRequest, VIRTUAL_HOST, push_sendable, split_virtual_host};
use url::{Position, Url};

/// Longest line that is read.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Most objects of a log that are counted.
const COUNTED_MAX: usize = 1 << 20;

/// An object to ask for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Wanted {
    /// The host, if it is named.
    pub host: Option<String>,
    /// Path and query, percent-encoded.
    pub target: String,
}

/// The requests of a log, counted.
#[derive(Debug, Default)]
pub(super) struct Counted {
    requests: HashMap<Wanted, u64>,
    /// Lines that were read, and those that are no log lines.
    pub lines: u64,
    /// Lines that are no log lines.
    pub malformed: u64,
    /// Requests for further objects, which there was no room to count.
    pub left_out: u64,
}

impl Wanted {
    /// The object that a line names: a URL, a path, a host with a path, or one of these behind two
    /// numbers, as `thalweg cache export` has it.
    ///
    /// # Errors
    /// The line names none.
    pub(super) fn parse(line: &str) -> Result<Self, String> {
        let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let name = match line.splitn(3, '\t').collect::<Vec<_>>()[..] {
            [hits, bytes, name] if is_number(hits) && is_number(bytes) => name,
            _ => line,
        };
        if name.starts_with("http://") || name.starts_with("https://") {
            let url = Url::parse(name).map_err(|error| format!("{name}: {error}"))?;
            let host = url[Position::BeforeHost..Position::AfterPort].to_owned();
            let target = url[Position::BeforePath..Position::AfterQuery].to_owned();
            return Ok(Self { host: Some(host), target });
        }
        let slash = name.find('/').ok_or_else(|| format!("{name:?} is no path, no URL, and no host with a path"))?;
        let (host, path) = name.split_at(slash);
        let is_host = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte));
        if !is_host {
            return Err(format!("{host:?} is no host"));
        }
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        let mut url = Url::parse("http://host/").map_err(|error| error.to_string())?;
        url.set_path(path);
        url.set_query(query);
        let target = url[Position::BeforePath..Position::AfterQuery].to_owned();
        Ok(Self { host: Some(host.to_owned()).filter(|host| !host.is_empty()), target })
    }

    /// The host and the target, as messages show them.
    pub(super) fn name(&self) -> String {
        format!("{}{}", self.host.as_deref().unwrap_or_default(), self.target)
    }
}

/// Reads a list line by line; empty lines and those that begin with `#` are left out. `take` gets
/// the objects, and the reasons why a line names none, with its number; it ends the reading with
/// `false`.
///
/// # Errors
/// The list cannot be read.
pub(super) fn read_list(
    input: &mut dyn BufRead,
    take: &mut dyn FnMut(Result<Wanted, String>) -> bool,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    for number in 1_u64.. {
        if !next_line(input, &mut bytes)? {
            return Ok(());
        }
        let line = String::from_utf8_lossy(&bytes);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let is_long = bytes.len() as u64 > LINE_BYTES_MAX;
        let wanted = if is_long { Err("the line is too long".to_owned()) } else { Wanted::parse(line) };
        if !take(wanted.map_err(|reason| format!("line {number}: {reason}"))) {
            return Ok(());
        }
    }
    Ok(())
}

impl Counted {
    /// Counts the successful requests of a log by GET.
    ///
    /// # Errors
    /// The log cannot be read.
    pub(super) fn read(input: &mut dyn BufRead) -> io::Result<Self> {
        let mut counted = Self::default();
        let mut bytes = Vec::new();
        while next_line(input, &mut bytes)? {
            let line = bytes.trim_ascii();
            if line.is_empty() {
                continue;
            }
            counted.lines += 1;
            let requested = if line[0] == b'{' { of_json(line) } else { of_line(line) };
            match requested {
                None => counted.malformed += 1,
                Some(None) => {}
                Some(Some(wanted)) => counted.add(wanted),
            }
        }
        Ok(counted)
    }

    fn add(&mut self, wanted: Wanted) {
        let is_full = self.requests.len() >= COUNTED_MAX;
        match self.requests.get_mut(&wanted) {
            Some(count) => *count += 1,
            None if is_full => self.left_out += 1,
            None => drop(self.requests.insert(wanted, 1)),
        }
    }

    /// The objects, those with the most requests first.
    pub(super) fn ranked(self, top: Option<usize>) -> Vec<Wanted> {
        let mut all: Vec<(Wanted, u64)> = self.requests.into_iter().collect();
        all.sort_by(|(a, count), (b, other)| other.cmp(count).then_with(|| a.name().cmp(&b.name())));
        all.into_iter().map(|(wanted, _)| wanted).take(top.unwrap_or(usize::MAX)).collect()
    }
}

/// Reads a line; `false` at the end. Of one that is too long, a byte more than may be is kept.
fn next_line(input: &mut dyn BufRead, bytes: &mut Vec<u8>) -> io::Result<bool> {
    bytes.clear();
    Read::take(&mut *input, LINE_BYTES_MAX + 1).read_until(b'\n', bytes)?;
    if bytes.len() as u64 > LINE_BYTES_MAX && bytes.last() != Some(&b'\n') {
        input.skip_until(b'\n')?;
    }
    Ok(!bytes.is_empty())
}

/// The object of a log line; `None` if it is none, and `Some(None)` if nothing was fetched by it.
fn of_line(line: &[u8]) -> Option<Option<Wanted>> {
    let (host, logged) = match LogLine::parse_without_virtual_host(line) {
        Err(fault) if fault == VIRTUAL_HOST => {
            let (host, rest) = split_virtual_host(line)?;
            (std::str::from_utf8(host).ok(), LogLine::parse(rest).ok()?)
        }
        logged => (None, logged.ok()?),
    };
    let LoggedRequest::Line { method, target, .. } = logged.request else { return Some(None) };
    let mut text = String::new();
    let is_sendable = push_sendable(&mut text, &target.decode());
    Some(wanted(method, logged.status, host, &text).filter(|_| is_sendable))
}

/// The same of a line of this server's log in JSON.
fn of_json(line: &[u8]) -> Option<Option<Wanted>> {
    let entry: Value = serde_json::from_slice(line).ok()?;
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    let status = entry.get("status").and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok());
    let (Some(method), Some(target)) = (text("method"), text("target")) else { return Some(None) };
    Some(wanted(method, status, text("host"), target))
}

/// The object of a request that has fetched it, or a part of it.
fn wanted(method: &str, status: Option<u16>, host: Option<&str>, target: &str) -> Option<Wanted> {
    if method != "GET" || !matches!(status, Some(200 | 206 | 304)) {
        return None;
    }
    let wanted = Wanted::parse(target).ok()?;
    Some(Wanted { host: wanted.host.or_else(|| host.filter(|host| !host.is_empty()).map(str::to_owned)), ..wanted })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_objects() {
        for (line, host, target) in [
            ("/a/b.iso", None, "/a/b.iso"),
            ("/a b?x=1&y", None, "/a%20b?x=1&y"),
            ("/a%20b", None, "/a%20b"),
            ("//x/y", None, "//x/y"),
            ("mirror.example/debian/x", Some("mirror.example"), "/debian/x"),
            ("https://Mirror.example:8443/x?y#z", Some("mirror.example:8443"), "/x?y"),
            ("3\t1048576\tmirror.example/x", Some("mirror.example"), "/x"),
            ("0\t7\t/x\ty", None, "/xy"),
        ] {
            let wanted = Wanted::parse(line).unwrap_or_else(|reason| panic!("{line}: {reason}"));
            assert_eq!((wanted.host.as_deref(), &*wanted.target), (host, target), "{line}");
        }
        for line in ["", "x", "http://", "a b/c", "1\t2\tx"] {
            assert!(Wanted::parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_list_has_comments_and_lines_that_are_wrong() {
        let long = format!("/{}\n", "x".repeat(2 * LINE_BYTES_MAX as usize));
        let text = format!("# a list\n\n/a\nx\n{long}/b");
        let mut all = Vec::new();
        read_list(&mut text.as_bytes(), &mut |wanted| {
            all.push(wanted.map(|wanted| wanted.target));
            true
        })
        .unwrap();
        assert_eq!(all.len(), 4, "{all:?}");
        assert_eq!((all[0].as_deref(), all[3].as_deref()), (Ok("/a"), Ok("/b")));
        assert!(all[1].as_ref().unwrap_err().starts_with("line 4: \"x\" is no path"));
        assert_eq!(all[2].as_ref().unwrap_err(), "line 5: the line is too long");
    }

    #[test]
    fn logs_are_counted() {
        let line = |method: &str, target: &str, status: u16| {
            format!("10.0.0.1 - - [10/Oct/2000:13:55:36 -0700] \"{method} {target} HTTP/1.1\" {status} 5 \"-\" \"x\"\n")
        };
        let mut log = [
            line("GET", "/b", 200),
            line("GET", "/a", 200),
            line("GET", "/a", 206),
            line("GET", "/c", 404),
            line("HEAD", "/c", 200),
            "not a line\n\n".to_owned(),
            r#"{"client":"10.0.0.1","method":"GET","target":"/j?k","host":"h.example","status":200}"#.to_owned() + "\n",
        ]
        .concat();
        log += "{\"method\"\n";
        for _ in 0..3 {
            log += &format!("v.example:80 {}", line("GET", "/v", 304));
        }
        let counted = Counted::read(&mut log.as_bytes()).unwrap();
        assert_eq!((counted.lines, counted.malformed, counted.left_out), (11, 2, 0));
        let ranked: Vec<_> = counted.ranked(Some(3)).iter().map(Wanted::name).collect();
        assert_eq!(ranked, ["v.example/v", "/a", "/b"]);
    }
}
