//! `thalweg demo`: both halves of the tool against each other, on this host, within a minute: the
//! capacity of a server with its overload, and a comparison of two, in one report.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use thalweg_lab::command::Parameter;
use thalweg_lab::compare::metric::Metric;
use thalweg_lab::compare::{self, CompareSettings, RoundLoad, Side};
use thalweg_lab::environment::ThisHost;
use thalweg_lab::result::{self, Invocation, Measurement};
use thalweg_lab::search::{self, SearchError, SearchSettings};
use thalweg_lab::target::Target;
use thalweg_lab::trial::TestBed;
use thalweg_load::{Check, Extent, LoopPlan, Pick, Plan, RequestText, template};
use thalweg_measure::Limit;
use thalweg_measure::limit::Statistic;
use thalweg_measure::search::EstimateEnd;
use thalweg_measure::statistics::rounds::PairPlan;
use thalweg_measure::trial::OnInterrupt;
use thalweg_report::document::{Compare, Difference, Document, Kind};
use thalweg_sys::AnyDriver;
use thalweg_sys::affinity::allowed_cpus;
use thalweg_sys::proc::{CpuBusy, cpus_busy};
use thalweg_units::display;
use thalweg_wire::Version;

use crate::client_tls;
use crate::exit::{Exit, Failure, remark};
use crate::interrupt::Interrupt;
use crate::options::{ClientTlsOptions, DemoOptions, DriverOption, ProgressOptions};
use crate::output;
use crate::preflight;
use crate::progress::{Progress, SearchGoal, Task};
use crate::stored_run;
use crate::terminal;
use crate::text;

/// The files that the demo serves, in number and size those of the small-file test of the
/// Afterburner comparison.
const FILES: usize = 1000;
const FILE_BYTES: usize = 512;

const CONNECTIONS: usize = 64;
const LIMIT: &str = "p99<10ms";

/// The time that the demo takes at most, but for the end of a trial under way.
const WHOLE: Duration = Duration::from_secs(57);
/// The trials of a search may take this much of it; calibration and diagnosis come on top.
const SEARCH_BUDGET: Duration = Duration::from_secs(24);
/// A search that other programs have spoiled is repeated, if it can end within this time.
const SEARCHED_BY: Duration = Duration::from_secs(36);
/// The least time for another search.
const SEARCH_MIN: Duration = Duration::from_secs(10);
/// A comparison in less time would have too few rounds for an answer.
const COMPARISON_MIN: Duration = Duration::from_secs(12);

/// The time in which the use of the CPUs is watched, to find the quietest.
const WATCHED: Duration = Duration::from_millis(400);

/// Pairs of rounds: with fewer than eight, no difference could be called one.
const PAIRS: usize = 8;
/// The load of a round, as a share of what the slower side carries.
const MODERATE_SHARE: f64 = 0.5;

/// Runs the command.
///
/// # Errors
/// The tree cannot be written, a server cannot start, or the report has no place.
pub(crate) fn demo(options: &DemoOptions) -> Result<ExitCode, Failure> {
    let begun = Instant::now();
    output::check_report_path(&options.out)?;
    let interrupt = Interrupt::listen().map_err(Failure::unreachable)?;
    let tree = tempfile::tempdir()
        .map_err(|error| Failure::unreachable(format!("cannot make a temporary folder: {error}")))?;
    let paths = write_tree(tree.path()).map_err(|error| {
        Failure::unreachable(format!("cannot write the demo's files to {}: {error}", tree.path().display()))
    })?;
    let cpus = allowed_cpus().map_err(Failure::unreachable)?;
    let (server_cpu, load_cpu) = quietest(&cpus);
    let server = ServerProcess::start(tree.path(), server_cpu, options.driver, options.tls)?;
    output::print(&format!(
        "serving {FILES} files of {FILE_BYTES} bytes at {} on CPU {server_cpu}, searching for the capacity from CPU \
         {load_cpu}\n\n",
        server.url
    ))?;
    let goal = SearchGoal { end: EstimateEnd::within(SEARCH_BUDGET), budget: SEARCH_BUDGET };
    let (target, limits) = (server.url.clone(), vec![limit()]);
    let task = Task { command: "demo", target, limits, has_trials: true, goal: Some(goal) };
    let mut progress = Progress::new(interrupt.clone(), &ProgressOptions::default(), task);
    let base = |server: &ServerProcess| -> Result<(Target, Plan), Failure> {
        let target = Target::resolve(&server.url, None)?;
        let plan = plan(&target, &paths, load_cpu, options)?;
        Ok((target, plan))
    };
    let (target, found_plan) = base(&server)?;
    target.reach(Duration::from_secs(5), &[])?;
    let mut budget = SEARCH_BUDGET;
    let mut document = loop {
        let found = find(&server, target.clone(), found_plan.clone(), budget, &mut progress);
        let left = SEARCHED_BY.saturating_sub(begun.elapsed());
        if !is_spoiled(&found) || left < SEARCH_MIN || interrupt.is_wanted() {
            break found?;
        }
        remark("other programs have spoiled the search; it is made again");
        budget = left.mul_f64(0.7);
    };
    output::print_text(&text::of(&document, terminal::columns_of_stdout()))?;

    let left = WHOLE.saturating_sub(begun.elapsed());
    if left >= COMPARISON_MIN {
        let (other, difference) = Contestant::choose(tree.path(), server_cpu, options)?;
        let (other_target, other_plan) =
            other.server.as_ref().map_or(Ok((target.clone(), found_plan.clone())), base)?;
        let other_plan = Plan { calls: other.calls, ..other_plan };
        output::print(&format!("\ncomparing {difference}, for at most {} s\n\n", left.as_secs()))?;
        let sides = [(target, found_plan), (other_target, other_plan)];
        document.compare = compared(sides, &difference, left, &document, &mut progress)?;
        if let (Some(find), Some(compare)) = (&mut document.find, &document.compare) {
            find.notes.push(format!("comparing {difference}: {}", compare.sentence));
        }
    }
    if let (false, Some(bound)) = (has_answer(&document), document.compare.as_ref().and_then(bound_by_cpu)) {
        output::print(&format!("\n{bound}\n"))?;
        document.reasons.push(bound);
    }
    document = document.ended_by_user(OnInterrupt::Invalid);
    stored_run::store(&document, &options.store);
    output::write_report(&document, &options.out)?;
    output::print(&format!("\nreport: {}\n", absolute(&options.out)))?;
    Ok(Exit::from(document.verdict).into())
}

/// The two CPUs with the least use by other programs, for the server and for the load. They are the
/// same if there is only one.
fn quietest(cpus: &[usize]) -> (usize, usize) {
    let before = cpus_busy();
    thread::sleep(WATCHED);
    by_use(cpus, &before, &cpus_busy())
}

fn by_use(cpus: &[usize], before: &[CpuBusy], after: &[CpuBusy]) -> (usize, usize) {
    let used = |cpu: &usize| {
        let busy = |all: &[CpuBusy]| all.iter().find(|one| one.cpu == *cpu).map_or(0, |one| one.busy_ns);
        busy(after).saturating_sub(busy(before))
    };
    let mut cpus = cpus.to_vec();
    cpus.sort_by_key(used);
    // The load needs a quiet CPU more than the server does: its lateness makes a trial invalid.
    (*cpus.get(1).unwrap_or(&cpus[0]), cpus[0])
}

/// Whether the search has found a rate that passes.
fn has_answer(document: &Document) -> bool {
    document.find.as_ref().is_some_and(|find| find.lower_bound.is_some())
}

/// Whether another search may find what this one has not. The server is known to respond, so that a
/// trial without a response had no time on its CPU.
fn is_spoiled(found: &Result<Document, SearchError>) -> bool {
    match found {
        Ok(document) => !has_answer(document),
        Err(error) => matches!(error, SearchError::NothingGood { .. }),
    }
}

/// Whether a comparison has an answer: a difference, or none where the interval allows for none.
fn has_difference_or_none(compare: &Compare) -> bool {
    match compare.difference {
        Difference::More | Difference::Less => true,
        Difference::None => compare.interval95.is_some_and(|[low, high]| low <= 1.0 && 1.0 <= high),
        Difference::Undetermined => false,
    }
}

/// The highest rate that the server's CPU time per request allows, in a sentence. CPU time is the
/// figure that other programs spoil least.
fn bound_by_cpu(compare: &Compare) -> Option<String> {
    let cpu_us = compare.a.filter(|&us| us > 0.0)?;
    let rate = display::rate(1e6 / cpu_us);
    Some(format!("the server takes {cpu_us:.1} us of CPU time for a request, so that one CPU carries {rate} at most"))
}

fn limit() -> Limit {
    LIMIT.parse().expect("a valid limit")
}

/// The capacity of the server.
fn find(
    server: &ServerProcess,
    target: Target,
    base: Plan,
    budget: Duration,
    progress: &mut Progress,
) -> Result<Document, SearchError> {
    let findings = preflight::examine_for_search(&base, &target);
    let settings = SearchSettings {
        base,
        lowest_rate: 100.0,
        initial_trial: Duration::from_millis(500),
        final_trial: Duration::from_secs(3),
        end: EstimateEnd::within(budget),
        budget,
        recovery: Duration::from_secs(8),
        overload: true,
        bottleneck: true,
    };
    let invocation = invocation(Kind::Find, server.url.clone());
    let test_bed = TestBed::new(target, vec![limit()]);
    let found = search::find(&test_bed, &settings, progress);
    progress.clear();
    let found = found?;
    let measurement =
        Measurement { find: Some(found.find), ..Measurement::new(found.verdict, found.reasons, found.trials) };
    let document = result::document(&invocation, &test_bed, &settings.base, measurement).with_findings(findings);
    Ok(document.ended_by_user(OnInterrupt::Invalid))
}

fn invocation(kind: Kind, target: String) -> Invocation {
    Invocation {
        kind,
        command: output::command_line(),
        target,
        settings: [("demo".to_owned(), format!("{FILES} files of {FILE_BYTES} bytes"))].into(),
        started: jiff::Timestamp::now(),
    }
}

/// The side that the server is compared with.
struct Contestant {
    /// A server of its own; `None` if only the load differs.
    server: Option<ServerProcess>,
    /// Requests per connection.
    calls: Option<u32>,
}

impl Contestant {
    /// The same server over epoll, where the first one is over io_uring; otherwise the same server
    /// with a connection for each request. Also the difference in words.
    fn choose(folder: &Path, cpu: usize, options: &DemoOptions) -> Result<(Self, String), Failure> {
        if options.driver != DriverOption::Epoll && AnyDriver::refusal().is_none() {
            let server = ServerProcess::start(folder, cpu, DriverOption::Epoll, options.tls)?;
            let difference = "the server over io_uring (A) with the same server over epoll (B)".to_owned();
            return Ok((Self { server: Some(server), calls: None }, difference));
        }
        let difference = "kept connections (A) with a new connection for each request (B)".to_owned();
        Ok((Self { server: None, calls: Some(1) }, difference))
    }
}

/// The comparison of two sides in interleaved rounds; `None` if it could not be made, which is no
/// reason to withhold the capacity.
fn compared(
    sides: [(Target, Plan); 2],
    difference: &str,
    left: Duration,
    found: &Document,
    progress: &mut Progress,
) -> Result<Option<Compare>, Failure> {
    let side = |name: &str, (target, base): (Target, Plan)| {
        let parameter = Parameter { name: "THALWEG_SIDE", placeholder: "{side}", value: name.to_owned() };
        Side { name: name.to_owned(), target, base, restart: None, parameter }
    };
    let [a, b] = sides;
    let settings = CompareSettings {
        environment: Rc::new(ThisHost::begin()),
        sides: vec![side("A", a), side("B", b)],
        scale: None,
        switch: None,
        once: false,
        metrics: vec![Metric::ServerCpu, Metric::ResponseTime(Statistic::Percentile(99.0))],
        load: RoundLoad::Share(MODERATE_SHARE),
        duration: Duration::from_millis(800),
        warmup: Duration::from_millis(150),
        pairs: PairPlan::Fixed(PAIRS),
        budget: Some(left.saturating_sub(Duration::from_secs(4))),
        restart_timeout: Duration::from_secs(5),
        max_regression: None,
        limits: Vec::new(),
        seed: 1,
    };
    let comparison = compare::compare(&settings, progress);
    progress.clear();
    let comparison = match comparison {
        Ok(comparison) => comparison,
        Err(error) => {
            remark(&format!("the comparison could not be made: {error}"));
            return Ok(None);
        }
    };
    let mut compare = comparison.compare;
    if !has_difference_or_none(&compare) {
        remark("the comparison has no answer in this time, and is left out");
        return Ok(None);
    }
    compare.notes.insert(0, format!("this compares {difference}"));
    // The trials of a search alone make its charts; the rounds carry their values.
    compare.rounds.iter_mut().for_each(|round| round.trials.clear());
    let shown = Document {
        kind: Kind::Compare,
        find: None,
        compare: Some(compare.clone()),
        reasons: comparison.reasons,
        ..found.clone()
    };
    output::print_text(&text::of(&shown, terminal::columns_of_stdout()))?;
    Ok(Some(compare))
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
    // Its certificate was made for this demonstration.
    let tls = ClientTlsOptions { insecure: target.is_tls(), ..ClientTlsOptions::default() };
    Ok(Plan {
        tls: client_tls::plan(&tls, target, Version::Http11)?,
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
    fn start(folder: &Path, cpu: usize, driver: DriverOption, tls: bool) -> Result<Self, Failure> {
        let failed = |what: String| Failure::unreachable(format!("cannot start the demo's server: {what}"));
        let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
        let mut command = Command::new(program);
        command.arg("serve").arg(folder).args(["--listen", "127.0.0.1:0", "--cores", &cpu.to_string()]);
        if let Some(name) = driver.to_possible_value() {
            command.args(["--driver", name.get_name()]);
        }
        if tls {
            command.args(["--tls", "self-signed"]);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_gets_the_quietest_cpu() {
        let busy = |busy_ns: [u64; 3]| -> Vec<CpuBusy> {
            let of = |(cpu, busy_ns)| CpuBusy { cpu, busy_ns, ..CpuBusy::default() };
            busy_ns.into_iter().enumerate().map(of).collect()
        };
        let (before, after) = (busy([5, 100, 0]), busy([5, 110, 300]));
        assert_eq!(by_use(&[0, 1, 2], &before, &after), (1, 0));
        assert_eq!(by_use(&[1, 2], &before, &after), (2, 1));
        assert_eq!(by_use(&[2], &before, &after), (2, 2));
        assert_eq!(by_use(&[0, 1], &before, &before), (1, 0), "those that are equal keep their order");
    }
}
