//! `thalweg report`: stored runs, results in files and bundles, one or several side by side.

mod bundle;
mod input;
mod input_run;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use anstream::adapter::strip_str;
use thalweg_report as report;
use thalweg_report::document::Document;
use thalweg_report::file::write_whole;

use crate::exit::{Exit, Failure};
use crate::format;
use crate::options::{Format, ReportFormat, ReportOptions};
use crate::output;
use crate::terminal;

use self::input_run::{InputRun, page};

/// Runs the command.
///
/// # Errors
/// A run is unknown or cannot be read, or a file cannot be written.
pub(crate) fn report(options: &ReportOptions) -> Result<ExitCode, Failure> {
    let inputs = input::read(&options.runs, &options.place)?;
    if let Some(path) = &options.bundle {
        bundle::write(path, &inputs, &options.attach)?;
        output::print(&format!("bundle: {}\n", path.display()))?;
        if options.out.is_none() && options.format.is_none() {
            return Ok(Exit::Met.into());
        }
    }
    let format = format_of(options)?;
    let is_bare = options.out.is_none() && format == ReportFormat::Html && io::stdout().is_terminal();
    if is_bare {
        return Err(Failure::usage("a page is not for a terminal: use --out FILE.html, or --format text"));
    }
    let columns = if options.out.is_none() { terminal::columns_of_stdout() } else { None };
    let content = content(&inputs, format, options.chart.as_deref(), columns)?;
    match &options.out {
        None => output::print_text(&content)?,
        Some(path) => {
            output::check_report_path(path)?;
            write_whole(path, strip_str(&content).to_string().as_bytes()).map_err(|error| {
                Failure::unreachable(format!("cannot write the report {}: {error}", path.display()))
            })?;
            output::print(&format!("report: {}\n", path.display()))?;
        }
    }
    Ok(Exit::Met.into())
}

fn format_of(options: &ReportOptions) -> Result<ReportFormat, Failure> {
    let Some(path) = &options.out else { return Ok(options.format.unwrap_or(ReportFormat::Html)) };
    if let Some(format) = options.format {
        return Ok(format);
    }
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html" | "htm") => Ok(ReportFormat::Html),
        Some("svg") => Ok(ReportFormat::Svg),
        Some("tsv") => Ok(ReportFormat::Tsv),
        Some("csv") => Ok(ReportFormat::Csv),
        Some("json") => Ok(ReportFormat::Json),
        Some("txt") => Ok(ReportFormat::Text),
        Some("xml") => Ok(ReportFormat::Junit),
        Some("prom") => Ok(ReportFormat::Prometheus),
        _ => Err(Failure::usage(format!("the format of {} is not clear from its name; use --format", path.display()))),
    }
}

fn content(
    inputs: &[InputRun],
    format: ReportFormat,
    chart: Option<&str>,
    columns: Option<usize>,
) -> Result<String, Failure> {
    let labelled: Vec<report::Labelled<'_>> = inputs.iter().map(InputRun::labelled).collect();
    let documents: Vec<&Document> = inputs.iter().map(|input| &input.document).collect();
    Ok(match (format, documents.as_slice()) {
        (ReportFormat::Junit, _) => format::junit(&labelled),
        (ReportFormat::Github, _) => format::github(&labelled),
        (ReportFormat::Prometheus, _) => format::prometheus(&labelled),
        (ReportFormat::Html, _) => page(inputs),
        (ReportFormat::Svg, _) => svg(&labelled, chart)?,
        (ReportFormat::Json, [_]) => output::in_form(labelled[0], Format::Json, None)?,
        (ReportFormat::Json, several) => serde_json::to_string_pretty(several).map_err(Failure::unreachable)? + "\n",
        (ReportFormat::Tsv, [_]) => output::in_form(labelled[0], Format::Tsv, None)?,
        (ReportFormat::Csv, [_]) => output::in_form(labelled[0], Format::Csv, None)?,
        (ReportFormat::Tsv, _) => report::table_of_several(&labelled, '\t'),
        (ReportFormat::Csv, _) => report::table_of_several(&labelled, ','),
        (ReportFormat::Text, _) => {
            let texts: Result<Vec<String>, Failure> =
                labelled.iter().map(|result| output::in_form(*result, Format::Text, columns)).collect();
            texts?.join("\n")
        }
    })
}

fn svg(documents: &[report::Labelled<'_>], chart: Option<&str>) -> Result<String, Failure> {
    let mut charts = report::svg(documents);
    let names: Vec<String> = charts.iter().map(|(name, _)| name.clone()).collect();
    if names.is_empty() {
        return Err(Failure::usage("these runs have nothing to draw"));
    }
    let position = match chart {
        None => 0,
        Some(chart) => names.iter().position(|name| name == chart).ok_or_else(|| {
            Failure::usage(format!("there is no chart {chart:?} of these runs; there are {}", names.join(", ")))
        })?,
    };
    Ok(charts.swap_remove(position).1)
}
