//! The output of a result: stdout in the chosen form, the report and the histogram log as files.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use thalweg_measure::Verdict;
use thalweg_report as report;
use thalweg_report::document::{Document, Find};
use thalweg_report::file::{is_stream, write_whole};

use crate::command_line;
use crate::exit::{Exit, Failure, remark};
use crate::format;
use crate::options::{Format, OutputOptions, ProgressForm};
use crate::pipelines;
use crate::progress::result_line;
use crate::stored_run;
use crate::terminal;
use crate::text;

/// The command line without credentials and secrets, as results show it.
pub(crate) fn command_line() -> Vec<String> {
    command_line::shown()
}

/// Checks before a run that its output files can be written.
///
/// # Errors
/// A folder does not exist or cannot be written to, or a name is that of a folder.
pub(crate) fn check(options: &OutputOptions) -> Result<(), Failure> {
    if options.progress.form() == ProgressForm::Json && options.form() != Format::Json {
        return Err(Failure::usage(
            "--progress json needs --json: its lines are on stdout, and the last of them is the result",
        ));
    }
    options.out.as_deref().map_or(Ok(()), check_report_path)?;
    options.report_junit.as_deref().map_or(Ok(()), |path| check_path("JUnit report", path))?;
    options.hdr.as_deref().map_or(Ok(()), |path| check_path("histogram log", path))
}

/// The same for a report's path.
///
/// # Errors
/// As for [`check`].
pub(crate) fn check_report_path(path: &Path) -> Result<(), Failure> {
    check_path("report", path)
}

/// Checks before a run that a file can be written, which is called `what` in messages.
///
/// # Errors
/// As for [`check`].
pub(crate) fn check_path(what: &str, path: &Path) -> Result<(), Failure> {
    let folder = folder_of(path);
    let refuse = |why: String| Failure::usage(format!("cannot write the {what} {}: {why}", path.display()));
    if path.is_dir() {
        return Err(refuse("this is a folder; use the path of a file".to_owned()));
    }
    if is_stream(path) {
        return Ok(());
    }
    if !fs::metadata(folder).is_ok_and(|folder| folder.is_dir()) {
        return Err(refuse(format!("the folder {} does not exist", folder.display())));
    }
    // Only an attempt shows permissions and read-only file systems. It leaves nothing behind.
    tempfile::tempfile_in(folder).map(drop).map_err(|error| refuse(error.to_string()))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes the result and returns the command's exit code.
///
/// # Errors
/// A file or stdout cannot be written to.
pub(crate) fn give_out(document: &Document, options: &OutputOptions) -> Result<ExitCode, Failure> {
    let form = options.form();
    let labelled = (options.store.label.as_deref(), document);
    let printed = match form {
        Format::Json if options.progress.form() == ProgressForm::Json => print(&result_line(document)),
        Format::Text => print_text(&text::of(document, terminal::columns_of_stdout())),
        _ => print(&in_form(labelled, form, None)?),
    };
    // The result comes first, and neither hangs on the other.
    stored_run::store(document, &options.store);
    printed?;
    if matches!(form, Format::Tsv | Format::Csv | Format::Httperf | Format::Ab | Format::H2load) {
        explain(document);
    }
    pipelines::write_junit(&[labelled], options)?;
    pipelines::summarize(&[labelled], form);
    if let Some(path) = &options.hdr {
        write_hdr_log(document, path)?;
    }
    if let Some(path) = &options.out {
        write_report(document, path)?;
        if form == Format::Text {
            print(&format!("\nreport: {}\n", path.display()))?;
        }
    }
    Ok(Exit::from(document.verdict).into())
}

/// Leaves the message of a command without a result where a pipeline looks for it. stderr has it,
/// too.
pub(crate) fn give_out_failure(command: &str, failure: &Failure, options: &OutputOptions) {
    if options.format == Format::Github && !options.json {
        // If stdout cannot be written to, the message is on stderr.
        let _ = print(&format::github_failure(command, &failure.line()));
    }
    if let Some(path) = &options.report_junit {
        pipelines::write_junit_of_failure(command, failure, path);
    }
}

/// The text of a result. Forms of pipelines name it by its label. Text for people is made for so
/// many columns, or has whole lines.
///
/// # Errors
/// None but of the program itself.
pub(crate) fn in_form(result: report::Labelled<'_>, form: Format, columns: Option<usize>) -> Result<String, Failure> {
    let (_, document) = result;
    Ok(match form {
        Format::Text => text::of(document, columns),
        Format::Json => to_json(document)?,
        Format::Tsv => format::tsv(document),
        Format::Csv => format::csv(document),
        Format::Httperf => format::httperf(document),
        Format::Ab => format::ab(document),
        Format::H2load => format::h2load(document),
        Format::Github => format::github(&[result]),
        Format::Prometheus => format::prometheus(&[result]),
    })
}

/// Prints what the exit code leaves open, where the form of the result has no place for it: why the
/// verdict is no plain PASS.
fn explain(document: &Document) {
    let verdict = match document.verdict {
        Verdict::Pass if document.find.as_ref().is_some_and(Find::is_lower_bound) => "PASS, as a lower bound only",
        Verdict::Pass => return,
        Verdict::Fail => "FAIL",
        Verdict::Invalid => "INVALID",
    };
    document.reasons.iter().for_each(|reason| remark(&format!("{verdict}: {reason}")));
}

/// Writes the log of histograms.
fn write_hdr_log(document: &Document, path: &Path) -> Result<(), Failure> {
    write_whole(path, format::hdr_log(document).as_bytes()).map_err(|error| {
        Failure::unreachable(format!(
            "cannot write the histogram log {}: {error}; the result itself was printed",
            path.display()
        ))
    })
}

/// Writes the report.
///
/// # Errors
/// The disk is full, or the folder has gone. Nothing half-written is left.
pub(crate) fn write_report(document: &Document, path: &Path) -> Result<(), Failure> {
    report::write_html(document, path).map_err(|error| {
        Failure::unreachable(format!(
            "cannot write the report {}: {error}; the result itself was printed",
            path.display()
        ))
    })
}

fn to_json(document: &Document) -> Result<String, Failure> {
    let mut json = serde_json::to_string_pretty(document).map_err(Failure::unreachable)?;
    json.push('\n');
    Ok(json)
}

/// Writes to stdout. A closed pipe, as `head` leaves it, is no error.
///
/// # Errors
/// stdout cannot be written to, for example because it is a file on a full disk.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_to(&mut io::stdout().lock(), text)
}

/// The same of a text that may have styles. They are left out where they do not belong: in a file
/// or a pipe, and where the user wants none.
///
/// # Errors
/// As for [`print()`].
pub(crate) fn print_text(text: &str) -> Result<(), Failure> {
    print_to(&mut anstream::stdout().lock(), text)
}

fn print_to(stdout: &mut impl Write, text: &str) -> Result<(), Failure> {
    // The display would be in its way.
    terminal::clear();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::unreachable(format!("cannot write the result to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// `thalweg schema`.
///
/// # Errors
/// stdout cannot be written to.
pub(crate) fn schema() -> Result<ExitCode, Failure> {
    let schema = schemars::schema_for!(Document);
    print(&(serde_json::to_string_pretty(&schema).map_err(Failure::unreachable)? + "\n"))?;
    Ok(Exit::Met.into())
}
