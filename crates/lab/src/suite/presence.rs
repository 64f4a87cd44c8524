//! Whether the server has the suite's tree, and answers dynamic requests where some are made: a few
//! requests before anything is measured.

use std::ops::ControlFlow;
use std::time::Duration;

use thalweg_load::{Extent, LoopPlan, Plan, RunFigures};
use thalweg_measure::Outcome;
use thalweg_report::document::SuiteName;
use thalweg_trees::{Tree, TreeFile, TreeName};
use thalweg_units::display;
use thalweg_wire::Version;

use super::dynamic;
use super::requests::base_path;
use super::settings::SuiteError;
use super::stage::{Stage, Stop};

/// The least that a request of the check may take.
const TIMEOUT_MIN: Duration = Duration::from_secs(10);

/// Requests the first, the last and the largest file of the tree.
///
/// # Errors
/// One of them is not there, or not as it should be.
pub(super) fn check(stage: &Stage<'_>) -> Result<(), Stop> {
    for file in samples(stage.tree) {
        if stage.watcher.wants_stop() {
            return Err(Stop::Interrupted);
        }
        let arrivals = LoopPlan::of_workers(1, Duration::ZERO);
        let plan = stage.plan_of(std::slice::from_ref(file), Version::Http11, arrivals, Extent::Requests(1))?;
        let figures = request(stage, plan)?;
        if figures.trial.outcomes.count(Outcome::Good) == 0 {
            return Err(Stop::Failed(not_there(stage, file, &figures)));
        }
    }
    check_dynamic(stage)
}

/// Requests the first file's size from the path of dynamic requests, once in each way.
fn check_dynamic(stage: &Stage<'_>) -> Result<(), Stop> {
    let (Some(path), SuiteName::Specweb99) = (&stage.settings.dynamic, stage.measured.suite) else { return Ok(()) };
    let (file, target) = (&stage.tree.files()[..1], &stage.test_bed.target);
    let requests = dynamic::requests(file, path, target, Version::Http11, stage.settings)?;
    let total = Extent::Requests(requests.len() as u64);
    let figures = request(stage, stage.plan_with(requests, LoopPlan::of_workers(1, Duration::ZERO), total))?;
    if figures.trial.outcomes.errors() == 0 {
        return Ok(());
    }
    let codes: Vec<String> =
        figures.trial.status_codes.iter().map(|(code, count)| format!("{count} x {code}")).collect();
    Err(Stop::Failed(SuiteError::NotDynamic { path: path.clone(), what: codes.join(", ") }))
}

/// Makes the requests of a plan one after the other, each on a connection of its own.
fn request(stage: &Stage<'_>, plan: Plan) -> Result<RunFigures, Stop> {
    let timeout = stage.settings.timeout.max(TIMEOUT_MIN);
    let plan = Plan { calls: Some(1), timeout, cpus: plan.cpus[..1].to_vec(), ..plan };
    let run = stage.test_bed.environment.run(plan, &mut |_| ControlFlow::Continue(()))?;
    Ok(run.figures)
}

fn samples(tree: &Tree) -> Vec<&TreeFile> {
    let files = tree.files();
    let mut samples: Vec<&TreeFile> = files.first().into_iter().chain(files.last()).collect();
    samples.extend(files.iter().max_by_key(|file| file.size));
    samples.dedup_by(|a, b| a.path == b.path);
    samples
}

fn not_there(stage: &Stage<'_>, file: &TreeFile, figures: &RunFigures) -> SuiteError {
    let trial = &figures.trial;
    let path = format!("GET {}{}", base_path(&stage.test_bed.target), file.path);
    let what = match trial.status_codes.iter().next() {
        Some((200, _)) => {
            format!("{path} has {} of {} bytes", display::count(trial.bytes.body_received), display::count(file.size))
        }
        Some((code, _)) => format!("{path} is {code}"),
        None => {
            let ended = trial.outcomes.iter().find(|(outcome, count)| *count > 0 && outcome.is_error());
            let ended = ended.map_or("no response", |(outcome, _)| outcome.name());
            format!("{path} ends with {}", ended.replace('_', " "))
        }
    };
    let load = stage.settings.load.map_or_else(String::new, |load| format!(" --load {load}"));
    let seed = if stage.settings.seed == 1 { String::new() } else { format!(" --seed {}", stage.settings.seed) };
    let name: TreeName = stage.tree.name();
    SuiteError::NotThere {
        suite: stage.measured.suite,
        url: stage.test_bed.target.shown.clone(),
        what,
        files: format!("{name} DIR{load}{seed}"),
    }
}
