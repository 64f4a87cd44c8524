//! The client's ceiling against the built-in sink, held against the rate that was found.

use thalweg_measure::search::EndReason;
use thalweg_report::document::{Finding, LimitedBy, Strength, Trial};
use thalweg_units::display;

use super::collected::Evidence;
use super::trials::{Selection, highest};

const KIND: &str = "calibration";

/// The ratio of the client's ceiling to the rate found from which on the client had room.
const HEADROOM: f64 = 1.5;
/// The CPU use of the busiest load thread that makes its CPU the limit against the sink.
const SATURATED: f64 = 0.8;

pub(super) fn findings(seen: &Evidence<'_>, selection: &Selection<'_>) -> Vec<Finding> {
    let reached = seen.result.lower_bound.or(seen.result.upper_bound).unwrap_or(0.0);
    let mut findings = Vec::new();
    if reached > 0.0 {
        let headroom = seen.ceiling / reached;
        let ceiling = display::rate(seen.ceiling);
        let sentence =
            format!("the client reached {ceiling} against the built-in sink, {headroom:.2} times the rate found");
        findings.push(Finding::context(KIND, sentence).figure("headroom", headroom).figure("ceiling", seen.ceiling));
        findings.extend(at_ceiling(seen, selection, headroom));
    }
    if let Some(trial) = selection.overloads.first() {
        let (busy, lag_us) = (trial.client.busiest_core, trial.lag_us.p99);
        let rate = display::rate(trial.offered_rate.unwrap_or(0.0));
        let sentence = format!(
            "at {rate}, just above the rate found, the busiest load thread used {} of its CPU, with a p99 lag of {}",
            display::percent(busy),
            display::time((lag_us * 1e3) as u64)
        );
        findings.push(Finding::context(KIND, sentence).figure("busiest_core", busy).figure("lag_p99_us", lag_us));
    }
    findings
}

/// The client is the limit if it carried everything that it can offer and nothing failed, or fell
/// short above that.
fn at_ceiling(seen: &Evidence<'_>, selection: &Selection<'_>, headroom: f64) -> Option<Finding> {
    // A client with time to spare against the sink was bound there by something else.
    let calibration = seen.trials.iter().filter(|trial| trial.phase == "calibrate");
    let used = |trial: &Trial| trial.client.busiest_core + trial.client.run_queue_wait_s / trial.seconds.max(1e-9);
    let busy = calibration.map(used).fold(0.0, f64::max);
    let strength = if busy >= SATURATED { Strength::Shows } else { Strength::Supports };
    let nothing_failed = seen.result.upper_bound.is_none() && seen.result.ended == EndReason::ClientCeiling;
    if nothing_failed && headroom < HEADROOM {
        let sentence = format!(
            "no rate that the client could offer failed; against the built-in sink its busiest load thread used {} of \
             its CPU",
            display::percent(busy)
        );
        let finding = Finding::of(LimitedBy::Client, strength, KIND, sentence).caused_by("client CPU");
        return Some(finding.figure("busy_at_ceiling", busy));
    }
    if !seen.result.limited_by_client || headroom >= HEADROOM {
        return None;
    }
    let (_, lag_us) = highest(&selection.shortfalls, |trial| trial.lag_us.p99)?;
    let sentence = format!(
        "trials at higher rates were invalid: the client did not keep up (p99 lag up to {})",
        display::time((lag_us * 1e3) as u64)
    );
    let finding = Finding::of(LimitedBy::Client, strength, KIND, sentence);
    let finding = finding.caused_by("client CPU").figure("busy_at_ceiling", busy);
    Some(finding.figure("lag_p99_us", lag_us))
}
