//! curl, with one request at a time.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use crate::process::{PATIENCE, Process, program};

/// A response that curl has received.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// A curl that reads no configuration, uses no proxy, and reports errors.
pub(crate) fn command() -> Command {
    let mut command = Command::new(program(&["curl"], "curl"));
    command.args(["--disable", "--noproxy", "*", "--silent", "--show-error", "--max-time", "50"]);
    command
}

/// Fetches `url`.
pub(crate) fn fetch(arguments: &[&str], url: &str) -> Reply {
    let folder = TempDir::new().expect("a temporary folder can be made");
    let (head, body) = (folder.path().join("head"), folder.path().join("body"));
    let mut command = command();
    command.arg("--dump-header").arg(&head).arg("--output").arg(&body).args(arguments).arg(url);
    let ended = Process::start(&mut command).wait(PATIENCE);
    assert_eq!(ended.code, Some(0), "curl {arguments:?} {url}: {}", ended.stderr);
    let head = fs::read_to_string(head).expect("curl writes the head down");
    // It makes no file where nothing came.
    let output = fs::read(body).unwrap_or_default();
    // For HEAD it takes the head for the output too.
    let body = output.strip_prefix(head.as_bytes()).unwrap_or(&output).to_vec();
    let mut lines = head.lines();
    let status_line = lines.next().expect("a head has a status line");
    Reply {
        status: status_line
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .expect("a status line has a status"),
        fields: lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect(),
        body,
    }
}

impl Reply {
    /// A field's value; empty if it is missing.
    pub(crate) fn field(&self, name: &str) -> &str {
        let name = name.to_lowercase();
        self.fields.iter().find(|(has, _)| *has == name).map_or("", |(_, value)| value)
    }
}
