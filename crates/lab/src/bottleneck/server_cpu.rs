//! The server's CPU time, where its processes run on this host or an observer runs on theirs.

use thalweg_report::document::{Finding, LimitedBy, ServerObservation, Strength};
use thalweg_units::display;

use super::collected::Evidence;
use super::trials::{Selection, rate_of};

const KIND: &str = "server CPU";

/// A CPU busy for more than this share is saturated: just below its capacity a queue already has
/// unbounded waits.
const SATURATED: f64 = 0.9;
/// The least use of CPU time, in CPUs, by a server that saturates one.
const OWN_SHARE: f64 = 0.5;

pub(super) fn findings(seen: &Evidence<'_>, selection: &Selection<'_>) -> Vec<Finding> {
    let observed = selection.overloads.iter().filter_map(|trial| Some((*trial, trial.server.as_ref()?)));
    let saturated = observed.filter_map(|(trial, server)| Some((trial, server, saturation(server)?)));
    let mut findings = Vec::new();
    if let Some((trial, server, (cpu, busy))) = saturated.max_by(|a, b| a.2.1.total_cmp(&b.2.1)) {
        let name = if server.process.is_empty() { "the server" } else { &server.process };
        let sentence = format!(
            "{name} used {:.2} CPUs, and CPU {cpu} was busy for {} of the time, at {}",
            server.cpu_cores,
            display::percent(busy),
            display::rate(rate_of(trial))
        );
        let finding = Finding::of(LimitedBy::Server, Strength::Proves, KIND, sentence).caused_by("server CPU");
        findings.push(finding.figure("cpu_cores", server.cpu_cores).figure("busiest_cpu", busy));
    }
    if seen.shared_host {
        findings.push(Finding::context("shared host", "client and server shared this host".to_owned()));
    }
    findings
}

/// The CPU that the server saturates, with its use.
fn saturation(server: &ServerObservation) -> Option<(usize, f64)> {
    let (cpu, busy) = server.cpus_busy.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
    (*busy >= SATURATED && server.cpu_cores >= OWN_SHARE).then_some((*cpu, *busy))
}
