//! The place where a request waits: on the path, in the server, or in the client for a connection.
//!
//! A handshake takes the time of the path alone, since the server's kernel answers it. A first byte
//! that takes far longer has waited on the server's host, whatever the server did with its CPU.

use thalweg_measure::Outcome;
use thalweg_report::document::{Finding, LimitedBy, Strength, Trial};
use thalweg_units::display;

use super::collected::Evidence;
use super::path::{delayed_by_loss, is_known, queues, time};
use crate::environment::PathFigures;
use crate::evidence::Diagnosis;

const KIND: &str = "waiting";

/// The first byte's time, as a multiple of the handshake's, from which on the path does not explain
/// it.
const BEYOND_PATH: f64 = 5.0;
/// The share of a service time that is its greater part.
const GREATER_PART: f64 = 0.5;
/// The client's own lateness, as a share of the first byte's time, that does not matter.
const LAG_SMALL: f64 = 0.2;
/// The share of responses that loss may have delayed without an effect on the median.
const LOSS_SMALL: f64 = 0.2;
/// The growth of the goodput from which on more connections carry more.
const BETTER: f64 = 1.1;
/// The share of requests that timed out which is more than an accident.
const TIMED_OUT: f64 = 0.01;

pub(super) fn findings(seen: &Evidence<'_>) -> Vec<Finding> {
    let Some(diagnosis) = seen.diagnosis else { return Vec::new() };
    let trial = &diagnosis.trial;
    if let Some(finding) = too_few_connections(diagnosis) {
        return vec![finding];
    }
    let Some(path) = diagnosis.path.filter(|path| is_known(&path.loaded)) else { return Vec::new() };
    let in_server = in_server(trial, &path);
    [in_server, timed_out(trial, &path)].into_iter().flatten().take(1).collect()
}

/// A target that answers each request as fast as ever, on connections that are all busy, and that
/// carries more when there are more of them.
fn too_few_connections(diagnosis: &Diagnosis) -> Option<Finding> {
    let (trial, more) = (&diagnosis.trial, diagnosis.on_more_connections?);
    if more < BETTER * trial.rates.good {
        return None;
    }
    let sentence = format!(
        "all {} connections were busy, and requests waited {} for one; with twice as many the target carried {} \
         instead of {}: --connections bounds the rate",
        display::count(trial.connections.peak),
        time(trial.queue_us.p50),
        display::rate(more),
        display::rate(trial.rates.good)
    );
    let finding = Finding::of(LimitedBy::Client, Strength::Proves, KIND, sentence).caused_by("client's connections");
    Some(finding.figure("good", trial.rates.good).figure("good_on_more", more))
}

/// The median request waited in the server, or, where that is quick, the slow ones did.
fn in_server(trial: &Trial, path: &PathFigures) -> Option<Finding> {
    let lost = delayed_by_loss(trial, path);
    let (first, service) = (&trial.first_byte_us, &trial.service_time_us);
    let median = (first.p50, service.p50, trial.lag_us.p50, "half of the requests", LOSS_SMALL);
    let tail = (first.p99, service.p99, trial.lag_us.p99, "the slowest 1 % of the requests", LOSS_SMALL / 100.0);
    let handshake = path.loaded.p90_us;
    let waited = |(first, service, lag, _, loss): &(f64, f64, f64, &str, f64)| {
        *first >= BEYOND_PATH * handshake
            && *first >= GREATER_PART * service
            && *lag <= LAG_SMALL * first
            && lost <= *loss
    };
    let (first, _, _, which, _) = [median, tail].into_iter().find(waited)?;
    let sentence = format!(
        "{which} waited at least {} for the first byte of the response, while a handshake, which the server's kernel \
         answers by itself, took {}: they waited in the server",
        time(first),
        time(handshake)
    );
    let finding = Finding::of(LimitedBy::Server, Strength::Shows, KIND, sentence);
    let finding = finding.caused_by("requests wait in the server");
    Some(finding.figure("first_byte_us", first).figure("handshake_us", handshake))
}

/// Requests that got no response over a path that answers handshakes at once.
fn timed_out(trial: &Trial, path: &PathFigures) -> Option<Finding> {
    let share = trial.outcomes.count(Outcome::Timeout) as f64 / trial.counts.offered.max(1) as f64;
    if share < TIMED_OUT || queues(path) || delayed_by_loss(trial, path) > LOSS_SMALL {
        return None;
    }
    let sentence = format!(
        "{} of the requests timed out, while a handshake, which the server's kernel answers by itself, took {}: they \
         waited in the server",
        display::percent(share),
        time(path.loaded.p90_us)
    );
    let finding = Finding::of(LimitedBy::Server, Strength::Shows, KIND, sentence);
    let finding = finding.caused_by("requests wait in the server");
    Some(finding.figure("timed_out", share).figure("handshake_us", path.loaded.p90_us))
}
