//! `thalweg compare`: two sides in interleaved rounds.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use thalweg_lab::command::Parameter;
use thalweg_lab::compare::metric::Metric;
use thalweg_lab::compare::{self, CompareError, CompareSettings, RoundLoad, Side};
use thalweg_lab::environment::ThisHost;
use thalweg_lab::result::{self, Invocation, Measurement};
use thalweg_lab::target::Target;
use thalweg_lab::trial::TestBed;
use thalweg_load::{Extent, LoopPlan, RateProfile};
use thalweg_measure::statistics::rounds::PairPlan;
use thalweg_report::document::Kind;
use thalweg_units::display;

use crate::arrivals::Shape;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::load_options;
use crate::options::{CompareOptions, RoundsOption};
use crate::output;
use crate::preflight;
use crate::progress::{Progress, Task};
use crate::requests;
use crate::stored_run::StoredRun;

/// The share of the slower side's rate at which CPU and times are compared: well loaded, and
/// without the queues of a load near the capacity.
const MODERATE_SHARE: f64 = 0.6;

/// Default bound on connections, and the workers of a closed loop at full speed.
const CONNECTIONS_DEFAULT: usize = 64;

/// Cycles of a scaling: enough for an interval of 95 % and a margin.
const SCALE_CYCLES: usize = 8;

/// Default time for a planned number of rounds.
const BUDGET_DEFAULT: Duration = Duration::from_secs(300);

/// Runs the command.
///
/// # Errors
/// There is no result: the options are wrong, a command fails, or a target or a resource of this
/// host is not available.
pub(crate) fn compare(options: &CompareOptions) -> Result<ExitCode, Failure> {
    output::check(&options.output)?;
    ensure_consistent(options)?;
    let settings = CompareSettings {
        environment: Rc::new(ThisHost::begin()),
        sides: sides(options)?,
        scale: options.scale.clone(),
        switch: options.switch_cmd.clone(),
        once: options.once,
        metrics: if options.scale.is_some() && options.metrics.is_empty() {
            vec![Metric::Throughput]
        } else {
            options.metrics.clone()
        },
        load: load(options),
        duration: options.duration,
        warmup: options.warmup,
        pairs: match options.rounds {
            RoundsOption::Fixed(pairs) => PairPlan::Fixed(pairs),
            RoundsOption::Auto if options.scale.is_some() => PairPlan::Fixed(SCALE_CYCLES),
            RoundsOption::Auto => PairPlan::Detect { detect: options.detect.ln_1p() },
        },
        budget: match options.rounds {
            RoundsOption::Auto => Some(options.budget.unwrap_or(BUDGET_DEFAULT)),
            RoundsOption::Fixed(_) => options.budget,
        },
        restart_timeout: options.restart_timeout,
        max_regression: options.max_regression,
        limits: options.load.limits.clone(),
        seed: options.request.seed,
    };
    let (a, b) = (&settings.sides[0], &settings.sides[1]);
    let invocation = Invocation {
        kind: Kind::Compare,
        command: output::command_line(),
        target: if options.url_b.is_some() {
            format!("{} {}", a.target.shown, b.target.shown)
        } else {
            a.target.shown.clone()
        },
        settings: settings_of(options, a),
        started: jiff::Timestamp::now(),
    };
    let findings = preflight::examine_for_search(&a.base, &a.target);
    let interrupt = Interrupt::listen().map_err(Failure::unreachable)?;
    let (target, limits) = (invocation.target.clone(), settings.limits.clone());
    let task = Task { command: "compare", target, limits, has_trials: true, goal: None };
    let mut progress = Progress::new(interrupt, &options.output.progress, task);
    let test_bed = TestBed::new(a.target.clone(), settings.limits.clone());
    let mut stored = StoredRun::begin(&invocation, &test_bed, &a.base, &options.output.store);
    let compared = compare::compare(&settings, &mut stored.watching(&mut progress));
    progress.clear();
    let measurement = match compared {
        Ok(compared) => Measurement {
            compare: Some(compared.compare),
            ..Measurement::new(compared.verdict, compared.reasons, compared.trials)
        },
        Err(CompareError::Interrupted { trials }) => Measurement::interrupted("first pair of rounds", trials),
        Err(error) => return Err(error.into()),
    };
    let document = result::document(&invocation, &test_bed, &a.base, measurement).with_findings(findings);
    let document = document.ended_by_user(options.output.on_interrupt.into());
    output::give_out(&document, &options.output)
}

fn ensure_consistent(options: &CompareOptions) -> Result<(), Failure> {
    let is_one_side = options.url_b.is_none() && options.restart_a.is_none() && options.switch_cmd.is_none();
    if is_one_side && options.scale.is_none() {
        return Err(Failure::usage(
            "compare needs two sides: a second URL, --restart-a and --restart-b, --switch-cmd, or --scale",
        ));
    }
    let url_b = options.url_b.as_ref();
    if let (Some(name), Some(other)) = (&options.url_a.name, url_b.and_then(|url_b| url_b.name.as_ref()))
        && name == other
    {
        return Err(Failure::usage(format!("compare {name}=URL {other}=URL: the sides need different names")));
    }
    let is_half = url_b.is_some_and(|url_b| url_b.name.is_some() != options.url_a.name.is_some());
    if is_half || (url_b.is_none() && options.url_a.name.is_some()) {
        let name = [Some(&options.url_a), url_b].into_iter().flatten().find_map(|url| url.name.as_deref());
        return Err(Failure::usage(format!(
            "{}=URL names one side only; name both (compare NAME=URL NAME=URL), or none",
            name.unwrap_or_default()
        )));
    }
    if options.duration < Duration::from_millis(100) {
        return Err(Failure::usage("rounds shorter than 100ms are too short; use a longer --duration"));
    }
    if options.detect <= 0.0 {
        return Err(Failure::usage("--detect 0% would need endless rounds; use for example --detect 2%"));
    }
    let twice =
        options.metrics.iter().enumerate().find(|(position, metric)| options.metrics[..*position].contains(metric));
    if let Some((_, metric)) = twice {
        return Err(Failure::usage(format!("--metric {metric} is given twice")));
    }
    if let Some(scale) = &options.scale {
        let is_rate =
            |metric: &Metric| matches!(metric, Metric::Capacity | Metric::Throughput | Metric::BytesPerSecond);
        if options.metrics.len() > 1 || !options.metrics.iter().all(is_rate) {
            return Err(Failure::usage("--scale takes one --metric: throughput, bytes_per_s or capacity"));
        }
        if options.rate.is_some() {
            return Err(Failure::usage(format!(
                "--rate with --scale would measure this rate at every level; leave it out, or use --workers to load each \
                 of the {} levels in a closed loop",
                scale.levels.len()
            )));
        }
    }
    if options.once && options.rounds == RoundsOption::Auto {
        return Err(Failure::usage("--once needs --rounds N: no pilot of B can be made before the switch"));
    }
    Ok(())
}

fn sides(options: &CompareOptions) -> Result<Vec<Side>, Failure> {
    if let Some(scale) = &options.scale {
        let level = |n: &u32| {
            let parameter = Parameter { name: "THALWEG_N", placeholder: "{n}", value: n.to_string() };
            let name = format!("{}={n}", scale.parameter);
            side(options, &name, &options.url_a.url, &options.restart_cmd, parameter)
        };
        return scale.levels.iter().map(level).collect();
    }
    let parameter = |value: &str| Parameter { name: "THALWEG_SIDE", placeholder: "{side}", value: value.to_owned() };
    let (url_a, url_b) = (&options.url_a, options.url_b.as_ref().unwrap_or(&options.url_a));
    let name_b = options.url_b.as_ref().and_then(|url_b| url_b.name.as_deref()).unwrap_or("B");
    Ok(vec![
        side(options, url_a.name.as_deref().unwrap_or("A"), &url_a.url, &options.restart_a, parameter("A"))?,
        side(options, name_b, &url_b.url, &options.restart_b, parameter("B"))?,
    ])
}

fn side(
    options: &CompareOptions,
    name: &str,
    url: &str,
    restart: &Option<String>,
    parameter: Parameter,
) -> Result<Side, Failure> {
    let target = Target::routed(url, &options.load.routing())?;
    let requests = requests::of(&options.load, &options.request, &target)?;
    let (arrivals, connections) = match options.workers {
        Some(workers) => (LoopPlan::of_workers(workers, Duration::ZERO), workers),
        None => {
            // The rate is known when the sides have been tried.
            let rate = Arc::new(RateProfile::constant(options.rate.unwrap_or(1.0)));
            (LoopPlan::Open { rate, spacing: options.request.arrivals.into() }, CONNECTIONS_DEFAULT)
        }
    };
    let shape = Shape {
        arrivals,
        user: None,
        extent: Extent::Duration(options.duration),
        connections,
        opening_rate: None,
        hold: None,
        pipeline: 1,
    };
    let base = load_options::plan(&options.load, &options.request, &target, shape, requests)?;
    Ok(Side { name: name.to_owned(), target, base, restart: restart.clone(), parameter })
}

fn load(options: &CompareOptions) -> RoundLoad {
    match (options.rate, options.workers) {
        (Some(rate), _) => RoundLoad::Rate(rate),
        (None, Some(workers)) => RoundLoad::Workers(workers),
        (None, None) => RoundLoad::Share(MODERATE_SHARE),
    }
}

fn settings_of(options: &CompareOptions, side: &Side) -> BTreeMap<String, String> {
    let mut settings = load_options::settings(&options.load, &options.request, &side.target, &side.base);
    let mut set = |name: &str, value: Option<String>| settings.extend(value.map(|value| (name.to_owned(), value)));
    set("restart-a", options.restart_a.clone());
    set("restart-b", options.restart_b.clone());
    set("switch-cmd", options.switch_cmd.clone());
    set("scale", options.scale.as_ref().map(|scale| format!("{}={}", scale.parameter, joined(&scale.levels))));
    set("restart-cmd", options.restart_cmd.clone());
    set("once", options.once.then(|| "true".to_owned()));
    set("metric", (!options.metrics.is_empty()).then(|| joined(&options.metrics)));
    set("rate", options.rate.map(display::rate));
    set("workers", options.workers.map(|workers| workers.to_string()));
    set("duration", Some(display::exact_time(options.duration)));
    set("warmup", Some(display::exact_time(options.warmup)));
    match options.rounds {
        RoundsOption::Auto => {
            set("detect", Some(display::percent(options.detect)));
            set("budget", Some(display::exact_time(options.budget.unwrap_or(BUDGET_DEFAULT))));
        }
        RoundsOption::Fixed(pairs) => {
            set("rounds", Some(pairs.to_string()));
            set("budget", options.budget.map(display::exact_time));
        }
    }
    set("max-regression", options.max_regression.map(display::percent));
    settings
}

fn joined(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
