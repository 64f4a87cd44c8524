//! Measurements that are made for the bottleneck alone: the *diagnosis*, a trial above the upper
//! bound with samples of path and server beside it.
//!
//! They are made after the search, since a sample costs the server a little: a connection that
//! carries nothing, ten times a second. Samples are taken by `environment`; judging them is the
//! part of `bottleneck`.

mod diagnosis;
mod observed;

pub use diagnosis::Diagnosis;

use std::time::Duration;

use thalweg_load::{LoadError, Plan};
use thalweg_measure::Verdict;
use thalweg_measure::search::{EndReason, SearchResult};
use thalweg_report::document::Trial;

use crate::client_process::{TwoClients, compare};
use crate::path_check;
use crate::trial::{TestBed, TrialRequest, Watcher};

/// The phase of the diagnosis in documents.
pub const PHASE: &str = "diagnose";
/// Length of the trial.
pub const LENGTH: Duration = Duration::from_secs(3);
/// Its length in a search of short trials.
pub const LENGTH_MIN: Duration = Duration::from_secs(1);
/// The load, as a multiple of the upper bound: an overload that a search meets anyway.
pub const OVERLOAD: f64 = 1.25;
/// The share of its ceiling that the client is sure to offer.
pub const CEILING_SHARE: f64 = 0.9;
/// A pause before the trial in which queues of the trial before drain.
const PAUSE: Duration = Duration::from_millis(300);
/// Trials that are made if the client does not keep up.
const ATTEMPTS: usize = 2;

/// A client with less headroom than this is compared with two.
const HEADROOM: f64 = 3.0;
/// A CPU that is busy for less than this share has room for a second client.
const IDLE: f64 = 0.2;

/// The comparison of one client process with two.
#[derive(Clone, Debug, Default)]
pub enum SecondClient {
    /// The client had room enough, or the search found nothing to offer.
    #[default]
    NotNeeded,
    /// There was no idle CPU beside the load threads' and the server's.
    NoSpareCpu,
    /// The processes have returned no result.
    Failed(String),
    /// The result.
    Compared(TwoClients),
}

/// Compares one client process with two, a little above what one has carried, if the client is
/// near its ceiling.
pub fn second_client(
    test_bed: &TestBed,
    plan: &Plan,
    result: &SearchResult,
    ceiling: f64,
    diagnosis: Option<&Diagnosis>,
) -> SecondClient {
    let reached = result.lower_bound.or(result.upper_bound);
    let (Some(reached), Some(command)) = (reached, &test_bed.client_command) else { return SecondClient::NotNeeded };
    let cut_short = matches!(result.ended, EndReason::Interrupted | EndReason::NotRecovered);
    if cut_short || ceiling >= HEADROOM * reached {
        return SecondClient::NotNeeded;
    }
    let mut spare = test_bed.environment.cpus();
    spare.retain(|cpu| !plan.cpus.contains(cpu));
    if test_bed.shared_host {
        let busy = diagnosis.and_then(|diagnosis| diagnosis.trial.server.as_ref()).map(|server| &server.cpus_busy);
        spare.retain(|cpu| busy.is_some_and(|busy| busy.get(cpu).is_some_and(|share| *share < IDLE)));
    }
    if spare.is_empty() {
        return SecondClient::NoSpareCpu;
    }
    spare.truncate(plan.cpus.len());
    match compare(command, reached * OVERLOAD, &plan.cpus, &spare) {
        Ok(compared) => SecondClient::Compared(compared),
        Err(error) => SecondClient::Failed(error.to_string()),
    }
}

/// Makes the trial of `plan`, an overload, with the samples beside it. Appends it to `trials`.
///
/// # Errors
/// The trial could not be made.
pub fn diagnose(
    test_bed: &TestBed,
    plan: &Plan,
    trials: &mut Vec<Trial>,
    watcher: &mut dyn Watcher,
) -> Result<Option<Diagnosis>, LoadError> {
    let environment = &test_bed.environment;
    let mut diagnosis = None;
    for _ in 0..ATTEMPTS {
        environment.pause(PAUSE);
        if watcher.wants_stop() {
            break;
        }
        let request = TrialRequest::new(PHASE, plan.clone());
        let mut trial = None;
        let mut overload = || trial = Some(test_bed.trial(&request, watcher));
        let examination = environment.examine(test_bed.server.as_ref(), plan, &mut overload);
        let made = trial.expect("an examination is of an overload")?;
        trials.push(made.trial.clone());
        let is_valid = made.trial.verdict != Verdict::Invalid;
        let diagnosis = diagnosis.insert(Diagnosis::new(made.trial, examination));
        if let Some(sample) = &made.observation.sample {
            diagnosis.observe(sample);
        }
        if is_valid {
            break;
        }
    }
    if let Some(diagnosis) = &mut diagnosis {
        let check = test_bed.path_check.as_ref().map(path_check::PathCheck::capacity);
        diagnosis.path_capacity = check.map(|result| result.map_err(|error| error.to_string()));
        if is_short_of_connections(&diagnosis.trial, trials) && plan.connections <= CONNECTIONS_MAX {
            let more = Plan { connections: plan.connections * 2, ..plan.clone() };
            let trial = test_bed.trial(&TrialRequest::new(PHASE, more), watcher)?.trial;
            diagnosis.on_more_connections = Some(trial.rates.good);
            trials.push(trial);
        }
    }
    Ok(diagnosis)
}

/// Connections that can be doubled without a thought of descriptors and ports.
const CONNECTIONS_MAX: usize = 1000;
/// Growth of the service time between ease and overload that is no growth.
const STEADY: f64 = 1.3;

/// Whether requests waited for connections although the target was as fast as it ever was.
fn is_short_of_connections(overload: &Trial, trials: &[Trial]) -> bool {
    let passed = trials.iter().filter(|trial| trial.is_judged() && trial.verdict == Verdict::Pass);
    let fastest = passed.map(|trial| trial.service_time_us.mean).fold(f64::INFINITY, f64::min);
    let service = overload.service_time_us.mean;
    overload.outcomes.errors() == 0 && overload.queue_us.p50 >= service / 2.0 && service <= STEADY * fastest
}
