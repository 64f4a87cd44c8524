//! `thalweg suite all`: the suites with several servers, as one table.

mod text;
mod trees;
mod watcher;

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::ExitCode;

use thalweg_lab::document::SuiteName;
use thalweg_lab::file::write_whole;
use thalweg_lab::report;
use thalweg_lab::servers::{ServerSetting, ServerSpec, ServersFile, ServersFileError};
use thalweg_lab::suite::origin::OriginServer;
use thalweg_lab::suite_table::{self, Cell, CellState, FolderError, TableFolder, TableSettings, TableSuite};
use thalweg_sys::{DriverChoice, affinity};

use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::options::SuiteTableOptions;
use crate::output;

use watcher::TableLine;

/// Runs the command.
///
/// # Errors
/// The options or the file of servers are wrong, a tree or a result cannot be written, or this host
/// lacks something.
pub fn suite_table(options: &SuiteTableOptions) -> Result<ExitCode, Failure> {
    let file = ServersFile::read(&options.servers)?;
    let servers = chosen(&file, &options.only)?;
    if !(0.001..=1.0).contains(&options.scale) {
        return Err(Failure::usage(format!("--scale {} is not a share from 0.001 to 1", options.scale)));
    }
    let (server_cpus, client_cpus) = cpus(options)?;
    let folder = TableFolder::open(&options.out, options.resume)?;
    let interrupt = Interrupt::listen().map_err(Failure::unreachable)?;
    let names = if options.suites.is_empty() { &SuiteName::ALL[..] } else { &options.suites };
    let root = options.trees.clone().unwrap_or_else(|| folder.path().join("trees"));
    let mut suites = Vec::new();
    for &name in names {
        let Some(tree) = trees::ensure(name, options, &root, &interrupt)? else { return Ok(Exit::Invalid.into()) };
        suites.push(TableSuite { name, tree, arguments: arguments(name, options) });
    }
    let origin =
        match names.contains(&SuiteName::Specweb99) {
            true => Some(OriginServer::start((Ipv4Addr::LOCALHOST, 0).into(), DriverChoice::default()).map_err(
                |error| Failure::unreachable(format!("cannot start the origin for dynamic content: {error}")),
            )?),
            false => None,
        };
    let settings = TableSettings {
        suites,
        servers,
        setting: ServerSetting {
            root: std::fs::canonicalize(&root).map_err(|error| {
                Failure::unreachable(format!("cannot use the folder of the trees {}: {error}", root.display()))
            })?,
            here: file.folder,
            cpus: server_cpus,
            origin: origin.as_ref().map(|origin| origin.address().port()),
            program: std::env::current_exe().map_err(Failure::unreachable)?,
        },
        client_cpus,
    };
    let mut line = TableLine::new(interrupt);
    let run = suite_table::run(&settings, &folder, &mut line);
    line.clear();
    let cells = run.map_err(Failure::unreachable)?;
    give_out(&cells, folder.path())
}

/// The servers with these names; all of them without names.
fn chosen(file: &ServersFile, only: &[String]) -> Result<Vec<ServerSpec>, Failure> {
    let names: Vec<&str> = file.servers.iter().map(|server| server.name.as_str()).collect();
    if let Some(unknown) = only.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(Failure::usage(format!(
            "--only {unknown}: there is no such server; there are {}",
            names.join(", ")
        )));
    }
    Ok(file.servers.iter().filter(|server| only.is_empty() || only.contains(&server.name)).cloned().collect())
}

/// The CPUs of servers and clients. A host with a single one has it for both.
fn cpus(options: &SuiteTableOptions) -> Result<(Vec<usize>, Vec<usize>), Failure> {
    let allowed = affinity::allowed_cpus().map_err(Failure::unreachable)?;
    let (first, second) = allowed.split_at((allowed.len() / 2).max(1));
    let given = |list: &Option<crate::options::CpuList>, default: &[usize], option: &str| match list {
        None => Ok(default.to_vec()),
        Some(list) => match list.0.iter().find(|cpu| !allowed.contains(cpu)) {
            None => Ok(list.0.clone()),
            Some(cpu) => Err(Failure::usage(format!(
                "{option}: CPU {cpu} is not available to this process; it may use {allowed:?}"
            ))),
        },
    };
    let client_default = if second.is_empty() { first } else { second };
    Ok((
        given(&options.server_cpus, first, "--server-cpus")?,
        given(&options.client_cpus, client_default, "--client-cpus")?,
    ))
}

/// The further arguments of `thalweg suite NAME URL`.
fn arguments(name: SuiteName, options: &SuiteTableOptions) -> Vec<OsString> {
    let mut arguments = vec![format!("--scale={}", options.scale), format!("--seed={}", options.seed)];
    match name {
        SuiteName::Specweb96 => arguments.push(format!("--load={}", options.specweb96_load)),
        SuiteName::Specweb99 => arguments.push(format!("--load={}", options.specweb99_load)),
        _ => {}
    }
    arguments.extend(options.max_connections.map(|most| format!("--max-connections={most}")));
    arguments.into_iter().map(OsString::from).collect()
}

fn give_out(cells: &[Cell], folder: &Path) -> Result<ExitCode, Failure> {
    let [page, table] = ["report.html", "table.tsv"].map(|name| folder.join(name));
    let written = write_whole(&page, report::html_of_suites(cells).as_bytes())
        .and_then(|()| write_whole(&table, report::tsv_of_suites(cells).as_bytes()));
    written.map_err(|error| {
        Failure::unreachable(format!(
            "cannot write the report {}: {error}; what was measured is in {}: make room and go on with --resume",
            page.display(),
            folder.join("cells").display()
        ))
    })?;
    output::print(&format!("{}report: {}\n", text::of(cells), page.display()))?;
    let has = |state| cells.iter().any(|cell| cell.state == state);
    Ok(match (has(CellState::Interrupted), has(CellState::Failed)) {
        (true, _) => Exit::Invalid,
        (false, true) => Exit::NotMet,
        (false, false) if cells.is_empty() => Exit::Invalid,
        (false, false) => Exit::Met,
    }
    .into())
}

impl From<ServersFileError> for Failure {
    fn from(error: ServersFileError) -> Self {
        Self::usage(error)
    }
}

impl From<FolderError> for Failure {
    fn from(error: FolderError) -> Self {
        match error {
            FolderError::HasResults(_) | FolderError::HasNone(_) => Self::usage(error),
            FolderError::Locked(_) | FolderError::Io { .. } => Self::unreachable(error),
        }
    }
}
