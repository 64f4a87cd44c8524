//! `thalweg disk`: the file system of a folder, and reads from the page cache.

mod progress;
mod text;

use std::process::ExitCode;

use thalweg_disk::document::Document;
use thalweg_disk::{Origin, Plan, PlanError, measure};
use thalweg_report as report;
use thalweg_report::file::write_whole;

use crate::exit::{Exit, Failure, remark};
use crate::interrupt::Interrupt;
use crate::options::{DiskOptions, OnInterruptOption};
use crate::output;
use crate::page;
use crate::terminal;

use self::progress::Line;

/// Runs the command.
///
/// # Errors
/// The folder cannot be measured, or a result cannot be written.
pub(crate) fn disk(options: &DiskOptions) -> Result<ExitCode, Failure> {
    options.out.as_deref().map_or(Ok(()), output::check_report_path)?;
    let plan = Plan::new(options.settings())?;
    let interrupt = Interrupt::listen().map_err(Failure::unreachable)?;
    let origin = Origin {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: output::command_line(),
        started: jiff::Timestamp::now().to_string(),
    };
    let mut line = Line::new(interrupt);
    let measured = measure(&plan, origin, &mut line);
    line.clear();
    let document = measured?;
    give_out(&document, options)?;
    match &document.stopped {
        None => Ok(Exit::Met.into()),
        Some(_) if document.interrupted && options.on_interrupt == OnInterruptOption::Judge => Ok(Exit::Met.into()),
        Some(why) if document.interrupted => Err(Failure::invalid(format!("the result is incomplete: {why}"))),
        Some(why) => Err(Failure::unreachable(format!("the result is incomplete: {why}"))),
    }
}

fn give_out(document: &Document, options: &DiskOptions) -> Result<(), Failure> {
    output::print(&if options.json {
        serde_json::to_string_pretty(document).map_err(Failure::unreachable)? + "\n"
    } else {
        page::fitted(&text::of(document), terminal::columns_of_stdout())
    })?;
    let Some(path) = &options.out else { return Ok(()) };
    write_whole(path, report::html_of_disk(document).as_bytes()).map_err(|error| {
        let path = path.display();
        Failure::unreachable(format!("cannot write the report {path}: {error}; the result itself was printed"))
    })?;
    if options.json {
        remark(&format!("report: {}", path.display()));
        return Ok(());
    }
    output::print(&format!("\nreport: {}\n", path.display()))
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Folder { .. } | PlanError::Setting(_) => Self::usage(error),
            PlanError::Room { .. } | PlanError::NoFio(_) => Self::unreachable(error),
        }
    }
}
