//! `thalweg demo`: both halves of the tool against each other, on this host, in under two minutes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::time::Duration;

use thalweg_lab::document::Kind;
use thalweg_lab::result::{self, Invocation, Measurement};
use thalweg_lab::search::{self, SearchSettings};
use thalweg_lab::target::Target;
use thalweg_lab::trial::TestBed;
use thalweg_load::{Check, Extent, LoopPlan, Pick, Plan, RequestText, template};
use thalweg_sys::affinity::allowed_cpus;
use thalweg_wire::Version;

use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::options::DemoOptions;
use crate::output;
use crate::progress::Line;
use crate::text;

/// The files that the demo serves, in number and size those of the small-file test of the
/// Afterburner comparison.
const FILES: usize = 1000;
const FILE_BYTES: usize = 512;

const CONNECTIONS: usize = 64;
const LIMIT: &str = "p99<10ms";

/// Runs the command.
///
/// # Errors
/// The tree cannot be written, the server cannot start, or the report has no place.
pub fn demo(options: &DemoOptions) -> Result<ExitCode, Failure> {
    output::check_report_path(&options.out)?;
    let interrupt = Interrupt::listen().map_err(Failure::unreachable)?;
    let tree = tempfile::tempdir()
        .map_err(|error| Failure::unreachable(format!("cannot make a temporary folder: {error}")))?;
    let paths = write_tree(tree.path()).map_err(|error| {
        Failure::unreachable(format!("cannot write the demo's files to {}: {error}", tree.path().display()))
    })?;
    let cpus = allowed_cpus().map_err(Failure::unreachable)?;
    let (server_cpu, load_cpu) = (cpus[0], *cpus.last().unwrap_or(&cpus[0]));
    let server = ServerProcess::start(tree.path(), server_cpu, options)?;
    output::print(&format!(
        "serving {FILES} files of {FILE_BYTES} bytes at {} on CPU {server_cpu}, searching for the capacity from CPU \
         {load_cpu}\n\n",
        server.url
    ))?;

    let target = Target::resolve(&server.url, None)?;
    target.reach(Duration::from_secs(5), &[])?;
    let settings = SearchSettings {
        base: plan(&target, &paths, load_cpu, options)?,
        lowest_rate: 100.0,
        initial_trial: Duration::from_millis(500),
        final_trial: Duration::from_secs(3),
        width: 0.05,
        budget: Duration::from_secs(75),
        recovery: Duration::from_secs(20),
    };
    let invocation = Invocation {
        kind: Kind::Find,
        command: output::command_line(),
        target: server.url.clone(),
        settings: [("demo".to_owned(), format!("{FILES} files of {FILE_BYTES} bytes"))].into(),
        started: jiff::Timestamp::now(),
    };
    let test_bed = TestBed::new(target, vec![LIMIT.parse().expect("a valid limit")]);
    let mut line = Line::new(interrupt, true, &test_bed.limits);
    let found = search::find(&test_bed, &settings, &mut line);
    line.clear();
    let found = found?;
    let measurement =
        Measurement { find: Some(found.find), ..Measurement::new(found.verdict, found.reasons, found.trials) };
    let document = result::document(&invocation, &test_bed, &settings.base, measurement);
    output::print(&text::of(&document))?;
    output::write_report(&document, &options.out)?;
    output::print(&format!("\nreport: {}\n", absolute(&options.out)))?;
    Ok(Exit::from(document.verdict).into())
}

fn absolute(path: &Path) -> String {
    path.canonicalize().unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// Writes the files, whose contents differ, and gives their paths as requests name them.
fn write_tree(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut paths = Vec::with_capacity(FILES);
    for number in 0..FILES {
        let name = format!("{number:03}.txt");
        let mut text = format!("file {number} of a demonstration\n").repeat(FILE_BYTES / 16);
        text.truncate(FILE_BYTES);
        fs::write(folder.join(&name), text)?;
        paths.push(format!("/{name}"));
    }
    Ok(paths)
}

fn plan(target: &Target, paths: &[String], cpu: usize, options: &DemoOptions) -> Result<Plan, Failure> {
    let request = |path: &String| {
        let (authority, version) = (target.authority.as_str(), Version::Http11);
        template(&RequestText { method: "GET", authority, target: path, version, fields: &[], body: b"" })
    };
    let requests: Vec<_> = paths.iter().map(request).collect::<Result<_, _>>().map_err(Failure::unreachable)?;
    let extent = Extent::Duration(Duration::from_secs(1));
    Ok(Plan {
        pick: Pick::Random,
        timeout: Duration::from_secs(2),
        drain: Duration::ZERO,
        connections: CONNECTIONS,
        check: Check { length: Some(FILE_BYTES as u64), ..Check::default() },
        cpus: vec![cpu],
        driver: options.driver.into(),
        ..Plan::new(target.address.clone(), requests.into(), LoopPlan::at_rate(1.0), extent)
    })
}

/// The server in a process of its own, so that its CPU time is counted apart. Dropping it ends the
/// process.
struct ServerProcess {
    child: Child,
    url: String,
    /// Kept open, so that the server's last messages have a reader.
    _stdout: BufReader<ChildStdout>,
}

impl ServerProcess {
    fn start(folder: &Path, cpu: usize, options: &DemoOptions) -> Result<Self, Failure> {
        let failed = |what: String| Failure::unreachable(format!("cannot start the demo's server: {what}"));
        let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
        let mut command = Command::new(program);
        command.arg("serve").arg(folder).args(["--listen", "127.0.0.1:0", "--cores", &cpu.to_string()]);
        if let Some(name) = clap::ValueEnum::to_possible_value(&options.driver) {
            command.args(["--driver", name.get_name()]);
        }
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(|error| failed(error.to_string()))?;
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let mut line = String::new();
        while stdout.read_line(&mut line).is_ok_and(|read| read > 0) {
            if let Some(url) = line.trim_end().strip_prefix("listening on ") {
                return Ok(Self { child, url: url.to_owned(), _stdout: stdout });
            }
            line.clear();
        }
        // The server has printed the reason on stderr.
        let _ = child.wait();
        Err(failed("it exited immediately".to_owned()))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Both calls fail only if the server has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
