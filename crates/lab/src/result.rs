//! The result of a command: its invocation, its host and its measurement, put into one document.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use thalweg_load::{Plan, UserPlan};
use thalweg_measure::Verdict;
use thalweg_report::document::{
    Compare, Document, Find, HostDocument, INTERRUPTED_AT_ONCE, Kind, Measured, PlanDocument, SCHEMA, Sweep, Trial,
};
use thalweg_sys::proc;
use thalweg_sys::resource_limits::descriptors;
use thalweg_units::display;
use thalweg_wire::Version;

use crate::disclosure;
use crate::trial::{TestBed, describe_load};

/// Kernel settings that bear on how much a client or a server on this host can do.
const SYSCTLS: [&str; 8] = [
    "net.core.somaxconn",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_max_syn_backlog",
    "fs.nr_open",
];

/// The measurement of a command.
#[derive(Debug)]
pub struct Measurement {
    /// The verdict on the whole.
    pub verdict: Verdict,
    /// The reasons of the verdict.
    pub reasons: Vec<String>,
    /// Every trial in order.
    pub trials: Vec<Trial>,
    /// The bounds that a search found.
    pub find: Option<Find>,
    /// The comparison of two sides.
    pub compare: Option<Compare>,
    /// The rates of a sweep.
    pub sweep: Option<Sweep>,
    /// The figures of a suite, without their trials.
    pub suite: Option<Measured>,
}

impl Measurement {
    /// The outcome of trials that no search and no comparison made.
    pub fn new(verdict: Verdict, reasons: Vec<String>, trials: Vec<Trial>) -> Self {
        Self { verdict, reasons, trials, find: None, compare: None, sweep: None, suite: None }
    }

    /// The outcome of a command that makes one trial: the trial's own verdict.
    pub fn of(trial: Trial) -> Self {
        Self::new(trial.verdict, trial.reasons.clone(), vec![trial])
    }

    /// The rest of a command that the user ended before it had a result: trials, perhaps none.
    /// `unfinished` is the part without which there is none.
    pub fn interrupted(unfinished: &str, trials: Vec<Trial>) -> Self {
        let reason = format!("{INTERRUPTED_AT_ONCE} before the end of the {unfinished}");
        Self::new(Verdict::Invalid, vec![reason], trials)
    }

    /// The outcome of a suite.
    pub fn of_suite(mut measured: Measured) -> Self {
        let trials = std::mem::take(&mut measured.trials);
        let new = Self::new(measured.verdict, measured.reasons.clone(), trials);
        Self { suite: Some(measured), ..new }
    }
}

/// The invocation of a command, as far as it does not follow from the plan.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The command.
    pub kind: Kind,
    /// The command line.
    pub command: Vec<String>,
    /// The target as it was given.
    pub target: String,
    /// Every setting by its option's name.
    pub settings: BTreeMap<String, String>,
    /// The time of the invocation.
    pub started: jiff::Timestamp,
}

/// Puts a result into the form of a document.
pub fn document(invocation: &Invocation, test_bed: &TestBed, plan: &Plan, outcome: Measurement) -> Document {
    let plan_document = PlanDocument {
        command: invocation.command.clone(),
        target: invocation.target.clone(),
        address: test_bed.target.address.to_string(),
        addresses: test_bed.target.addresses.iter().map(ToString::to_string).collect(),
        load: describe(invocation.kind, plan),
        limits: test_bed.limits.iter().map(ToString::to_string).collect(),
        settings: invocation.settings.clone(),
    };
    let plan_sha256 = digest(&plan_document);
    Document {
        schema: SCHEMA.to_owned(),
        kind: invocation.kind,
        id: format!("{}-{}", invocation.started.strftime("%Y%m%dT%H%M%S%3fZ"), &plan_sha256[..8]),
        started: format!("{:.3}", invocation.started),
        plan: plan_document,
        plan_sha256,
        seed: plan.seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        host: host(test_bed, plan),
        verdict: outcome.verdict,
        reasons: outcome.reasons,
        trials: outcome.trials,
        find: outcome.find,
        compare: outcome.compare,
        sweep: outcome.sweep,
        suite: outcome.suite,
        observation: test_bed.observation(),
        log: None,
    }
}

fn describe(kind: Kind, plan: &Plan) -> String {
    let load = match kind {
        Kind::Run | Kind::Replay => describe_load(plan),
        Kind::Find => "open loop, the rate searched".to_owned(),
        Kind::Sweep => "open loop, rates from low to high".to_owned(),
        Kind::Compare => "interleaved rounds".to_owned(),
        // Each of its loads stands in its rules.
        Kind::Suite => return "the loads of the suite".to_owned(),
    };
    let calls = if let Some(UserPlan::Calls(calls)) = plan.user { Some(calls) } else { plan.calls };
    let reuse = match calls {
        None if plan.user.is_some() => "one connection per session".to_owned(),
        None => "keep-alive".to_owned(),
        Some(1) => "one request per connection".to_owned(),
        Some(calls) => format!("{calls} requests per connection"),
    };
    let requests = match plan.requests.len() {
        // A recorded load has its requests in the log.
        0 | 1 => String::new(),
        many => format!(", {many} URLs"),
    };
    let mut parts = vec![load, format!("{} connections", plan.connections), reuse + &requests];
    parts.extend(describe_streams(plan));
    if let Some(pace) = plan.pace {
        let line = pace.bytes_per_s.map(|rate| format!("read at {}", display::link_rate(rate * 8)));
        let delay = (!pace.delay.is_zero()).then(|| format!("{} before each read", display::exact_time(pace.delay)));
        parts.extend(line.into_iter().chain(delay));
    }
    parts.join(", ")
}

/// The protocol, where it is not HTTP/1.1, and the requests under way at once on a connection.
fn describe_streams(plan: &Plan) -> Option<String> {
    match (plan.version(), plan.pipeline) {
        (Version::Http2, 1) => Some("HTTP/2 with 1 stream".to_owned()),
        (Version::Http2, streams) => Some(format!("HTTP/2 with up to {streams} streams")),
        (_, 1) => None,
        (_, requests) => Some(format!("up to {requests} requests pipelined")),
    }
}

/// The plan's canonical form is its JSON as `serde_json` writes it: fields in the order of the
/// type, maps sorted by key. The command line is left out, since other options can come to the same
/// plan.
fn digest(plan: &PlanDocument) -> String {
    let asked = PlanDocument { command: Vec::new(), ..plan.clone() };
    let json = serde_json::to_vec(&asked).expect("a plan is made of strings and maps");
    Sha256::digest(&json).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn host(test_bed: &TestBed, plan: &Plan) -> HostDocument {
    let host = proc::host();
    let settings = SYSCTLS.iter().filter_map(|name| Some(((*name).to_owned(), proc::sysctl(name)?)));
    HostDocument {
        name: host.name,
        kernel: host.kernel,
        machine: host.machine,
        cpu_model: host.cpu_model,
        cpus: host.cpus,
        load_cpus: plan.cpus.clone(),
        memory_bytes: host.memory_bytes,
        clock_source: host.clock_source,
        descriptors: descriptors().soft,
        sysctls: settings.collect(),
        shared_with_target: test_bed.shared_host,
        disclosure: disclosure::collect(),
        findings: Vec::new(),
    }
}
