//! `thalweg sweep`: rates from low to high, for one or several targets.

use std::process::ExitCode;
use std::sync::Arc;

use thalweg_lab::result::{self, Invocation, Measurement};
use thalweg_lab::sweep::{SweepSettings, SweepTarget, sweep as carry_out};
use thalweg_lab::target::Target;
use thalweg_lab::trial::TestBed;
use thalweg_load::{Extent, LoopPlan, RateProfile, UserPlan};
use thalweg_report::document::Kind;
use thalweg_units::display;

use crate::arrivals::{CONNECTIONS_DEFAULT, Shape, VISITS_DEFAULT};
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::load_options;
use crate::options::SweepOptions;
use crate::output;
use crate::preflight;
use crate::progress::{Progress, Task};
use crate::requests;
use crate::stored_run::StoredRun;

/// Rates beyond this number are taken for a mistake in the step.
const RATES_MAX: f64 = 10_000.0;

/// Runs the command.
///
/// # Errors
/// There is no result: the options are wrong, or a target or a resource of this host is not
/// available.
pub(crate) fn sweep(options: &SweepOptions) -> Result<ExitCode, Failure> {
    output::check(&options.output)?;
    let rates = rates(options)?;
    let targets = targets(options, rates[1])?;
    let settings = SweepSettings {
        targets,
        low_rate: rates[0],
        high_rate: rates[1],
        step: rates[2],
        duration: options.duration,
        warmup: options.warmup,
        failures_max: options.stop_after_failures,
    };
    let first = &settings.targets[0];
    let target = &first.test_bed.target;
    let names: Vec<&str> = settings.targets.iter().map(|target| target.test_bed.target.shown.as_str()).collect();
    let mut invocation = Invocation {
        kind: Kind::Sweep,
        command: output::command_line(),
        target: names.join(" "),
        settings: load_options::settings(&options.load, &options.request, target, &first.base),
        started: jiff::Timestamp::now(),
    };
    for (name, value) in [
        ("low-rate", display::rate(settings.low_rate)),
        ("high-rate", display::rate(settings.high_rate)),
        ("step", display::rate(settings.step)),
        ("duration", display::exact_time(options.duration)),
        ("warmup", display::exact_time(options.warmup)),
    ] {
        invocation.settings.insert(name.to_owned(), value);
    }
    for target in &settings.targets {
        target.test_bed.target.reach(target.base.timeout, &target.base.sources)?;
    }
    let findings = preflight::examine(&first.base, target);

    let interrupt = Interrupt::listen().map_err(Failure::unreachable)?;
    let (target, limits) = (invocation.target.clone(), first.test_bed.limits.clone());
    let task = Task { command: "sweep", target, limits, has_trials: true, goal: None };
    let mut progress = Progress::new(interrupt, &options.output.progress, task);
    let mut stored = StoredRun::begin(&invocation, &first.test_bed, &first.base, &options.output.store);
    let swept = carry_out(&settings, &mut stored.watching(&mut progress));
    progress.clear();
    let swept = swept?;
    let measurement =
        Measurement { sweep: Some(swept.sweep), ..Measurement::new(swept.verdict, swept.reasons, swept.trials) };
    let document = result::document(&invocation, &first.test_bed, &first.base, measurement).with_findings(findings);
    let document = document.ended_by_user(options.output.on_interrupt.into());
    output::give_out(&document, &options.output)
}

/// Lowest rate, highest rate and step.
fn rates(options: &SweepOptions) -> Result<[f64; 3], Failure> {
    let SweepOptions { low_rate: low, high_rate: high, step, .. } = *options;
    if !(low > 0.0 && step > 0.0) {
        return Err(Failure::usage("--low-rate and --step are above zero"));
    }
    if high < low {
        return Err(Failure::usage(format!(
            "--high-rate {} is below --low-rate {}",
            display::rate(high),
            display::rate(low)
        )));
    }
    if (high - low) / step > RATES_MAX {
        return Err(Failure::usage(format!(
            "--step {} is too small: more than {RATES_MAX} rates",
            display::rate(step)
        )));
    }
    if options.duration.is_zero() {
        return Err(Failure::usage("--duration 0s would measure nothing"));
    }
    Ok([low, high, step])
}

fn targets(options: &SweepOptions, high_rate: f64) -> Result<Vec<SweepTarget>, Failure> {
    let resolve = |url: &String| Target::routed(url, &options.load.routing());
    let targets: Vec<Target> = options.targets.iter().map(resolve).collect::<Result<_, _>>()?;
    let names = names(&targets);
    let prepared = targets.into_iter().zip(names).map(|(target, name)| {
        let user = options.request.calls.map(UserPlan::Calls);
        let arrivals = high_rate / f64::from(options.request.calls.unwrap_or(1));
        let shape = Shape {
            arrivals: LoopPlan::Open {
                rate: Arc::new(RateProfile::constant(arrivals)),
                spacing: options.request.arrivals.into(),
            },
            connections: if user.is_some() { VISITS_DEFAULT } else { CONNECTIONS_DEFAULT },
            user,
            extent: Extent::Duration(options.duration),
            opening_rate: None,
            hold: None,
            pipeline: 1,
        };
        let requests = requests::of(&options.load, &options.request, &target)?;
        let base = load_options::plan(&options.load, &options.request, &target, shape, requests)?;
        Ok(SweepTarget { name, test_bed: TestBed::new(target, options.load.limits.clone()), base })
    });
    prepared.collect()
}

/// Names of targets for columns, as short as they can be: the host alone, as in autobench, with the
/// port or a number where two are the same. None has a character that a file's name cannot have.
fn names(targets: &[Target]) -> Vec<String> {
    let host = |target: &Target| target.url.host_str().unwrap_or("target").to_owned();
    let with_port = |target: &Target| format!("{}:{}", host(target), target.url.port_or_known_default().unwrap_or(80));
    let numbered =
        targets.iter().enumerate().map(|(position, target)| format!("{}#{}", with_port(target), position + 1));
    let candidates = [targets.iter().map(host).collect(), targets.iter().map(with_port).collect(), numbered.collect()];
    let are_unlike = |names: &Vec<String>| {
        let mut sorted = names.clone();
        sorted.sort();
        sorted.windows(2).all(|pair| pair[0] != pair[1])
    };
    candidates.into_iter().find(are_unlike).expect("numbers differ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_named_as_briefly_as_they_can_be() {
        let check = |urls: &[&str], expected: &[&str]| {
            let targets: Vec<Target> = urls.iter().map(|url| Target::resolve(url, None).unwrap()).collect();
            assert_eq!(names(&targets), expected);
        };
        check(&["http://127.0.0.1:8080/a"], &["127.0.0.1"]);
        check(&["http://127.0.0.1:8080/", "http://127.0.0.2:8080/"], &["127.0.0.1", "127.0.0.2"]);
        check(&["http://127.0.0.1/", "http://127.0.0.1:81/"], &["127.0.0.1:80", "127.0.0.1:81"]);
        check(&["http://127.0.0.1/a", "http://127.0.0.1/b"], &["127.0.0.1:80#1", "127.0.0.1:80#2"]);
    }
}
