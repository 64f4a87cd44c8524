//! Files for the pipeline that a command runs in: that of `--report-junit`, and the summary of a
//! step of GitHub Actions.
//!
//! `format` makes the texts, `output` decides when they are due.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use thalweg_report::Labelled;
use thalweg_report::file::write_whole;

use crate::exit::{Failure, remark};
use crate::format;
use crate::options::{Format, OutputOptions};

/// Names the file to which a step of GitHub Actions adds its summary.
const STEP_SUMMARY: &str = "GITHUB_STEP_SUMMARY";

/// Writes the file of `--report-junit`, if it is wanted.
///
/// # Errors
/// The disk is full, or the folder has gone. Nothing half-written is left.
pub(crate) fn write_junit(results: &[Labelled<'_>], options: &OutputOptions) -> Result<(), Failure> {
    let Some(path) = &options.report_junit else { return Ok(()) };
    write_whole(path, format::junit(results).as_bytes()).map_err(|error| {
        Failure::unreachable(format!(
            "cannot write the JUnit report {}: {error}; the result itself was printed",
            path.display()
        ))
    })
}

/// The same of a command that ended without a result. If the file cannot be written, that is said.
pub(crate) fn write_junit_of_failure(command: &str, failure: &Failure, path: &Path) {
    let xml = format::junit_of_failure(command, &failure.line());
    // A path that cannot be written to may be what the failure is about.
    let is_about_path = failure.line().contains(&path.display().to_string());
    if let Err(error) = write_whole(path, xml.as_bytes())
        && !is_about_path
    {
        remark(&format!("cannot write the JUnit report {}: {error}", path.display()));
    }
}

/// Adds the summary to that of the step, in GitHub Actions. Without one, the annotations are there
/// all the same.
pub(crate) fn summarize(results: &[Labelled<'_>], form: Format) {
    let path = std::env::var_os(STEP_SUMMARY).filter(|path| !path.is_empty() && form == Format::Github);
    let Some(path) = path else { return };
    let add = || -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).open(&path)?;
        file.write_all(format::github_summary(results).as_bytes())
    };
    if let Err(error) = add() {
        remark(&format!("cannot write the summary of the step {}: {error}", Path::new(&path).display()));
    }
}
