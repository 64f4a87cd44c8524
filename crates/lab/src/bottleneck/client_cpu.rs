//! The CPU time of the load threads: what the control group, other programs and the hypervisor
//! kept from them.

use thalweg_report::document::{Finding, LimitedBy, Strength, Trial};
use thalweg_units::display;

use super::collected::Evidence;
use super::trials::{Selection, highest, length_of, rate_of};

const KIND: &str = "client CPU";

/// A share of the time in which the control group's quota stopped the client. One per cent is a
/// stop of a millisecond in each period of 100 ms, which is the whole p99.
const THROTTLED: f64 = 0.01;
/// A share of the time that a load thread was ready to run and another program ran.
const WAITED: f64 = 0.05;
/// A share of stolen CPU time that is worth mentioning.
const STOLEN: f64 = 0.02;

pub(super) fn findings(seen: &Evidence<'_>, selection: &Selection<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some((trial, share)) =
        highest(&selection.shortfalls, |trial| (trial.client.throttled_s / length_of(trial)).min(1.0))
        && share > THROTTLED
    {
        let sentence = format!(
            "the CPU quota of the client's control group stopped it for {} of the time at {}",
            display::percent(share),
            display::rate(rate_of(trial))
        );
        let strength = if selection.client_decides { Strength::Proves } else { Strength::Supports };
        let finding = Finding::of(LimitedBy::Client, strength, KIND, sentence);
        findings.push(finding.caused_by("client throttled by its control group").figure("throttled", share));
    }
    // A thread that the quota has stopped counts as ready to run.
    let waited = |trial: &Trial| (trial.client.run_queue_wait_s - trial.client.throttled_s).max(0.0) / length_of(trial);
    if let Some((trial, share)) = highest(&selection.shortfalls, waited)
        && share > WAITED
    {
        let sentence = format!(
            "load threads waited for their CPU, which ran something else, for {} of the time at {}",
            display::percent(share),
            display::rate(rate_of(trial))
        );
        let finding = Finding::of(LimitedBy::Client, Strength::Supports, KIND, sentence);
        findings.push(finding.figure("run_queue_wait", share));
    }
    // The observation is of the target's host.
    let own = |trial: &Trial| trial.server.as_ref().filter(|_| seen.shared_host).map(|server| server.stolen);
    let stolen = |trial: &Trial| own(trial).unwrap_or(0.0);
    let trials = [&selection.overloads[..], &selection.shortfalls[..]].concat();
    if let Some((_, share)) = highest(&trials, stolen)
        && share > STOLEN
    {
        let sentence =
            format!("the hypervisor gave {} of this host's CPU time to other guests", display::percent(share));
        findings.push(Finding::context(KIND, sentence).figure("stolen", share));
    }
    findings
}
