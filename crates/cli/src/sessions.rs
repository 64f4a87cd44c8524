//! Reading a session file and making its requests.

use std::fs;
use std::path::Path;

use thalweg_lab::target::Target;
use thalweg_load::{CallText, RequestText, Sessions, prepare, prepare_sessions, read_sessions};

use crate::exit::Failure;
use crate::load_options;
use crate::options::RunOptions;

/// Reads the sessions of `file`; bodies that stand in files of their own lie relative to it.
///
/// # Errors
/// It cannot be read, or something in it is wrong.
pub fn read(file: &Path, options: &RunOptions, target: &Target) -> Result<Sessions, Failure> {
    let name = file.display().to_string();
    let text = fs::read(file).map_err(|error| Failure::usage(format!("cannot read the session file {name}: {error}")))?;
    let folder = file.parent().unwrap_or(Path::new("."));
    let read_body = |body: &Path| {
        let path = folder.join(body);
        fs::read(&path).map_err(|error| format!("cannot read the body {}: {error}", path.display()))
    };
    let sessions = read_sessions(&name, &text, read_body).map_err(Failure::usage)?;
    let make = |call: &CallText<'_>| {
        let fields: Vec<_> = options.load.headers.iter().chain(&call.fields).cloned().collect();
        prepare(&RequestText {
            method: &call.method,
            authority: &target.authority,
            target: &call.target,
            version: load_options::version(&options.load),
            fields: &fields,
            body: &call.body,
        })
    };
    prepare_sessions(&sessions, make).map_err(Failure::usage)
}
