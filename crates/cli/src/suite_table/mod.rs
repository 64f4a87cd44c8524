//! `thalweg suite all`: the suites with several servers, as one table.

mod cpus;
mod text;
mod trees;
mod watcher;

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use thalweg_lab::servers::{ServerSetting, ServersFile, ServersFileError, pinned};
use thalweg_lab::suite::origin::OriginServer;
use thalweg_lab::suite_table::{self, FolderError, Table, TableFolder, TableServer, TableSettings, TableSuite};
use thalweg_report as report;
use thalweg_report::cell::CellState;
use thalweg_report::document::SuiteName;
use thalweg_report::file::write_whole;
use thalweg_sys::DriverChoice;
use thalweg_sys::resource_limits::{descriptors, raise_descriptors};

use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::options::SuiteTableOptions;
use crate::output;
use crate::page;
use crate::terminal;

use trees::SuiteTree;
use watcher::TableLine;

/// Most descriptors that a server is given: nginx takes memory for each connection that it may
/// have, and the configuration of lighttpd has 16 bits for them.
const DESCRIPTORS_MAX: u64 = 65_535;

/// Runs the command.
///
/// # Errors
/// The options or the file of servers are wrong, a tree or a result cannot be written, or this host
/// lacks something.
pub(crate) fn suite_table(options: &SuiteTableOptions) -> Result<ExitCode, Failure> {
    let file = ServersFile::read(&options.servers)?;
    let servers = servers(&file, &options.only)?;
    if !(0.001..=1.0).contains(&options.scale) {
        return Err(Failure::usage(format!("--scale {} is not a share from 0.001 to 1", options.scale)));
    }
    let (server_cpus, client_cpus) = cpus::shared_out(options)?;
    let trees = SuiteName::ALL.into_iter().map(|name| SuiteTree::of(name, options)).collect::<Result<Vec<_>, _>>()?;
    let folder = TableFolder::open(&options.out, options.resume)?;
    let interrupt = Interrupt::listen().map_err(Failure::unreachable)?;
    let root = root(options, &folder)?;
    let setting = ServerSetting {
        root,
        here: file.folder,
        cpus: server_cpus,
        descriptors: raise_descriptors(descriptors().hard.min(DESCRIPTORS_MAX))
            .map_err(Failure::unreachable)?
            .min(DESCRIPTORS_MAX),
        files: 0,
        origin: None,
        // The file of this program may be replaced while a table is measured.
        program: format!("/proc/{}/exe", std::process::id()).into(),
    };
    if let Some(folder) = setting.unusable_folder() {
        return Err(Failure::usage(format!(
            "{} is put into commands and configurations, and has characters other than letters, digits and /._+-,@:=; \
             choose another folder (by --out, --trees or TMPDIR)",
            folder.display()
        )));
    }
    let mut suites = Vec::new();
    for (name, tree) in SuiteName::ALL.into_iter().zip(trees) {
        let is_chosen = options.suites.is_empty() || options.suites.contains(&name);
        if is_chosen && !trees::ensure(&tree, &setting.root, &interrupt)? {
            return Ok(Exit::Invalid.into());
        }
        let files = tree.files();
        suites.push(TableSuite { name, is_chosen, tree: tree.folder, files, arguments: arguments(name, options) });
    }
    let origin = origin(&suites, &client_cpus)?;
    let setting = ServerSetting { origin: origin.as_ref().map(|origin| origin.address().port()), ..setting };
    let settings = TableSettings { suites, servers, setting, client_cpus };
    let mut line = TableLine::new(interrupt);
    let table = suite_table::run(&settings, &folder, &mut line);
    line.clear();
    give_out(table, folder.path())
}

/// All servers of the file; those with these names are measured, and all of them without names.
fn servers(file: &ServersFile, only: &[String]) -> Result<Vec<TableServer>, Failure> {
    let names: Vec<&str> = file.servers.iter().map(|server| server.name.as_str()).collect();
    if let Some(unknown) = only.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(Failure::usage(format!(
            "--only {unknown}: there is no such server; there are {}",
            names.join(", ")
        )));
    }
    let is_chosen = |name: &String| only.is_empty() || only.contains(name);
    let servers = file.servers.iter();
    Ok(servers.map(|spec| TableServer { spec: spec.clone(), is_chosen: is_chosen(&spec.name) }).collect())
}

/// The folder that has the trees, absolute.
fn root(options: &SuiteTableOptions, folder: &TableFolder) -> Result<PathBuf, Failure> {
    let root = options.trees.clone().unwrap_or_else(|| folder.path().join("trees"));
    std::fs::create_dir_all(&root).and_then(|()| std::fs::canonicalize(&root)).map_err(|error| {
        Failure::unreachable(format!("cannot use the folder of the trees {}: {error}", root.display()))
    })
}

/// The origin for dynamic content, on the clients' CPUs, if a suite has a use for it. A server does
/// not share its CPUs with it.
fn origin(suites: &[TableSuite], client_cpus: &[usize]) -> Result<Option<OriginServer>, Failure> {
    if !suites.iter().any(|suite| suite.is_chosen && suite.name == SuiteName::Specweb99) {
        return Ok(None);
    }
    let start = || OriginServer::start((Ipv4Addr::LOCALHOST, 0).into(), DriverChoice::default());
    let started = pinned(client_cpus, start).and_then(|started| started);
    started
        .map(Some)
        .map_err(|error| Failure::unreachable(format!("cannot start the origin for dynamic content: {error}")))
}

/// The further arguments of `thalweg suite NAME URL`: those that the suite has a use for, since
/// others would have it measured again when they change.
fn arguments(name: SuiteName, options: &SuiteTableOptions) -> Vec<OsString> {
    let mut arguments = vec![format!("--scale={}", options.scale), format!("--seed={}", options.seed)];
    match name {
        SuiteName::Specweb96 => arguments.push(format!("--load={}", options.specweb96_load)),
        SuiteName::Specweb99 => arguments.push(format!("--load={}", options.specweb99_load)),
        _ => {}
    }
    if matches!(name, SuiteName::AcmeModem | SuiteName::Heanet | SuiteName::Specweb99) {
        arguments.extend(options.max_connections.map(|most| format!("--max-connections={most}")));
    }
    arguments.into_iter().map(OsString::from).collect()
}

/// Prints the figures and writes the report. The figures are printed even if there is no room for
/// the report.
fn give_out(table: Table, folder: &Path) -> Result<ExitCode, Failure> {
    let text = text::of(&table.cells);
    let [page, lines] = ["report.html", "table.tsv"].map(|name| folder.join(name));
    let written = write_whole(&page, report::html_of_suites(&table.cells, table.absent).as_bytes())
        .and_then(|()| write_whole(&lines, report::tsv_of_suites(&table.cells).as_bytes()));
    let report = if written.is_ok() { format!("report: {}\n", page.display()) } else { String::new() };
    output::print_text(&page::fitted(&format!("{text}{report}"), terminal::columns_of_stdout()))?;
    if let Some(error) = table.error {
        return Err(Failure::unreachable(error));
    }
    written.map_err(|error| {
        Failure::unreachable(format!(
            "cannot write the report {}: {error}; what was measured is in {}: make room and go on with --resume",
            page.display(),
            folder.join("cells").display()
        ))
    })?;
    let is_all_complete = table.cells.iter().all(|cell| cell.state == CellState::Complete);
    Ok(match (table.is_interrupted, is_all_complete) {
        (true, _) => Exit::Invalid,
        (false, false) => Exit::NotMet,
        (false, true) if table.cells.is_empty() => Exit::Invalid,
        (false, true) => Exit::Met,
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
