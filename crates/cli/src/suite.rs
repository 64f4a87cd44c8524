//! `thalweg suite`: the test of a source document against one server.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use thalweg_lab::result::{self, Invocation, Measurement};
use thalweg_lab::suite::origin::OriginServer;
use thalweg_lab::suite::{self, SuiteError, SuiteName, SuiteSettings};
use thalweg_lab::target::Target;
use thalweg_lab::trial::TestBed;
use thalweg_load::{Extent, LoopPlan, Plan};
use thalweg_report::document::Kind;
use thalweg_units::display;
use thalweg_wire::Version;

use crate::client_tls;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::load_options::{cpus, ensure_driver};
use crate::options::{SuiteCommand, SuiteOptions, SuiteOriginOptions};
use crate::output;
use crate::preflight;
use crate::progress::{Progress, Task};
use crate::stored_run::StoredRun;
use crate::suite_table::suite_table;

/// The interval at which a signal is looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

const AUTHORIZATION: &str = "Authorization";

/// Runs the command.
///
/// # Errors
/// There is no result: the options are wrong, the tree is not there, or the target or a resource of
/// this host is not available.
pub(crate) fn suite(options: &SuiteOptions) -> Result<ExitCode, Failure> {
    match (&options.command, options.name, &options.url) {
        (Some(SuiteCommand::All(options)), ..) => suite_table(options),
        (Some(SuiteCommand::Origin(options)), ..) => origin(options),
        (None, Some(name), Some(url)) => one(name, url, options),
        (None, ..) => Err(Failure::usage("a suite has a NAME and a URL; thalweg suite --help lists the suites")),
    }
}

/// Answers dynamic requests until a signal comes.
fn origin(options: &SuiteOriginOptions) -> Result<ExitCode, Failure> {
    ensure_driver(options.driver.into())?;
    let interrupt = Interrupt::listen().map_err(Failure::unreachable)?;
    let origin = OriginServer::start(options.listen, options.driver.into()).map_err(|error| {
        Failure::unreachable(format!("cannot listen at {}: {error}; use another --listen", options.listen))
    })?;
    output::print(&format!("listening on http://{}/\n", origin.address()))?;
    while !interrupt.is_wanted() {
        thread::sleep(POLL_INTERVAL);
    }
    Ok(Exit::Met.into())
}

/// Runs one suite.
fn one(name: SuiteName, url: &str, options: &SuiteOptions) -> Result<ExitCode, Failure> {
    output::check(&options.output)?;
    let target = Target::routed(url, &options.routing.routing(None, &options.from))?;
    let settings = settings(options, &target)?;
    let plan = plan(&settings, &target);
    let invocation = Invocation {
        kind: Kind::Suite,
        command: output::command_line(),
        target: target.shown.clone(),
        settings: shown(name, options, &settings),
        started: jiff::Timestamp::now(),
    };
    target.reach(settings.timeout, &settings.sources)?;
    let findings = preflight::examine_for_search(&plan, &target);

    let test_bed = TestBed::new(target, Vec::new());
    let interrupt = Interrupt::listen().map_err(Failure::unreachable)?;
    let target = test_bed.target.shown.clone();
    let task = Task { command: "suite", target, has_trials: true, ..Task::default() };
    let mut progress = Progress::new(interrupt, &options.output.progress, task);
    let mut stored = StoredRun::begin(&invocation, &test_bed, &plan, &options.output.store);
    let measured = suite::run(name, &test_bed, &settings, &mut stored.watching(&mut progress));
    progress.clear();
    let measurement = Measurement::of_suite(measured?);
    let document = result::document(&invocation, &test_bed, &plan, measurement).with_findings(findings);
    let document = document.ended_by_user(options.output.on_interrupt.into());
    output::give_out(&document, &options.output)
}

fn settings(options: &SuiteOptions, target: &Target) -> Result<SuiteSettings, Failure> {
    if options.timeout.is_zero() {
        return Err(Failure::usage("--timeout 0s would end every request before it is sent; the minimum is 1us"));
    }
    ensure_driver(options.driver.into())?;
    let credentials = target.credentials.as_ref();
    let fields = credentials.map(|known| (AUTHORIZATION.to_owned(), known.field_value().to_owned()));
    Ok(SuiteSettings {
        scale: options.scale,
        driver: options.driver.into(),
        seed: options.seed,
        timeout: options.timeout,
        sources: options.from.concat(),
        fields: fields.into_iter().collect(),
        tls: client_tls::plan(&options.tls, target, Version::Http11)?,
        load: options.load,
        clients: options.clients(),
        start_delay: options.start_delay,
        pace_bits_per_s: options.pace,
        connections_max: options.max_connections,
        dynamic: options.dynamic.clone(),
        ..SuiteSettings::new(cpus(options.cores.as_ref(), target.is_local())?)
    })
}

/// A plan with all that the loads of a suite have in common, for the document and the quick checks.
fn plan(settings: &SuiteSettings, target: &Target) -> Plan {
    let arrivals = LoopPlan::of_workers(1, Duration::ZERO);
    Plan {
        calls: Some(1),
        connections: settings.connections_max.unwrap_or(1),
        sources: settings.sources.clone(),
        timeout: settings.timeout,
        cpus: settings.cpus.clone(),
        driver: settings.driver,
        seed: settings.seed,
        ..Plan::new(target.address.clone(), [].into(), arrivals, Extent::Requests(1))
    }
}

/// The settings in the document, by the names of their options.
fn shown(name: SuiteName, options: &SuiteOptions, settings: &SuiteSettings) -> BTreeMap<String, String> {
    let clients: Vec<String> = settings.clients.iter().map(ToString::to_string).collect();
    let cpus: Vec<String> = settings.cpus.iter().map(ToString::to_string).collect();
    let sources: Vec<String> = settings.sources.iter().map(ToString::to_string).collect();
    let mut shown: BTreeMap<String, String> = [
        ("suite", name.to_string()),
        ("scale", settings.scale.to_string()),
        ("clients", clients.join(",")),
        ("start-delay", display::exact_time(settings.start_delay)),
        ("pace", format!("{}bit", settings.pace_bits_per_s)),
        ("timeout", display::exact_time(settings.timeout)),
        ("cores", cpus.join(",")),
        ("driver", format!("{:?}", options.driver).to_lowercase()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let optional = [
        ("load", settings.load.map(|load| load.to_string())),
        ("max-connections", settings.connections_max.map(|max| max.to_string())),
        ("dynamic", settings.dynamic.clone()),
        ("from", (!settings.sources.is_empty()).then(|| sources.join(","))),
        ("credentials", settings.fields.first().map(|_| "from the URL, not shown".to_owned())),
    ];
    shown.extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    shown.extend(options.tls.given().into_iter().map(|(name, value)| (name.to_owned(), value)));
    shown
}

impl From<SuiteError> for Failure {
    fn from(error: SuiteError) -> Self {
        match error {
            SuiteError::Tree(_) | SuiteError::Request { .. } => Self::usage(error),
            SuiteError::Search(error) => error.into(),
            SuiteError::Load(_) | SuiteError::NotThere { .. } | SuiteError::NotDynamic { .. } | SuiteError::Host(_) => {
                Self::unreachable(error)
            }
        }
    }
}
