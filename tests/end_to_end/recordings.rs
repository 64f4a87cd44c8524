//! Recordings of httperf and ab: the output or the requests of a command, kept in
//! `tests/end_to_end/recordings` below its command line.
//!
//! The tests compare Thalweg with the recordings. `make test-full` compares it with the programs
//! themselves, and with `THALWEG_WRITE=1` that writes the recordings anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::recorder::RecordedRequest;

/// The origin of another program's output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    Recording,
    Program,
}

impl Source {
    /// The output of a program, by the recording's name and the command line without what differs
    /// each time.
    pub(crate) fn output(self, name: &str, command: &str, run: impl FnOnce() -> String) -> String {
        let file = file(name);
        match self {
            Self::Recording => {
                let text = fs::read_to_string(&file)
                    .unwrap_or_else(|error| panic!("no recording {}: {error}", file.display()));
                let (first, output) = text.split_once('\n').expect("a recording has lines");
                assert_eq!(first, format!("$ {command}"), "the recording {name} is of another command");
                output.to_owned()
            }
            Self::Program => {
                let output = run();
                if std::env::var_os("THALWEG_WRITE").is_some() {
                    fs::write(&file, format!("$ {command}\n{output}")).expect("a recording can be written");
                }
                output
            }
        }
    }

    /// The requests of a program in the same way.
    pub(crate) fn requests(
        self,
        name: &str,
        command: &str,
        run: impl FnOnce() -> Vec<RecordedRequest>,
    ) -> Vec<RecordedRequest> {
        let lines = || run().iter().map(|request| format!("{}\n", line(request))).collect();
        self.output(name, command, lines).lines().map(request).collect()
    }
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/end_to_end/recordings").join(name).with_extension("txt")
}

/// A request as a line of a recording.
fn line(request: &RecordedRequest) -> Value {
    json!({
        "at_ms": request.at.as_millis() as u64,
        "connection": request.connection,
        "ahead": request.ahead,
        "method": request.method,
        "target": request.target,
        "body": String::from_utf8_lossy(&request.body),
    })
}

fn request(line: &str) -> RecordedRequest {
    let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let number = |name: &str| line[name].as_u64().unwrap_or_else(|| panic!("no {name}: {line}"));
    let text = |name: &str| line[name].as_str().unwrap_or_else(|| panic!("no {name}: {line}")).to_owned();
    RecordedRequest {
        at: Duration::from_millis(number("at_ms")),
        connection: number("connection") as usize,
        from: None,
        ahead: number("ahead") as usize,
        method: text("method"),
        target: text("target"),
        version: String::new(),
        fields: Vec::new(),
        body: text("body").into_bytes(),
    }
}
