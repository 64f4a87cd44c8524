//! The bottleneck of a search: the server, the client or the path between them, as far as the
//! evidence shows. Every claim comes with the figures that support it.

use thalweg_measure::Verdict;
use thalweg_measure::search::{EndReason, Phase, SearchResult};
use thalweg_units::display;

use crate::document::{LimitedBy, ServerObservation};
use crate::trial::TrialResult;

/// The evidence that a search has collected.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// The result of the search.
    pub result: &'a SearchResult,
    /// The client's ceiling against the sink, requests per second.
    pub ceiling: f64,
    /// Every open-loop trial that was judged.
    pub judged: &'a [TrialResult],
    /// Client and target share this host.
    pub shared_host: bool,
}

/// The ratio of the client's ceiling to the rate from which on the client is ruled out as the
/// bottleneck.
const HEADROOM: f64 = 1.5;
/// A CPU busy for more than this share is taken to be saturated.
const SATURATED: f64 = 0.9;
/// A load thread busy for less than this share had time to spare.
const UNSATURATED: f64 = 0.8;
/// A share of stolen CPU time above which the evidence mentions it.
const STOLEN: f64 = 0.02;
/// A share of segments sent again that a healthy path does not show.
const LOSSY: f64 = 0.01;

/// Names the bottleneck and gives the evidence for it, one sentence each.
pub fn name_bottleneck(seen: &Evidence<'_>) -> (LimitedBy, Vec<String>) {
    let mut evidence = Vec::new();
    let reached = seen.result.lower_bound.or(seen.result.upper_bound).unwrap_or(0.0);
    let headroom = if reached > 0.0 { seen.ceiling / reached } else { f64::INFINITY };
    if headroom.is_finite() {
        evidence.push(format!(
            "the client reached {} against the built-in sink, {headroom:.2} times the rate found",
            display::rate(seen.ceiling)
        ));
    }
    let failing = decisive(seen);
    let client_busy = failing.map_or(0.0, |made| made.trial.client.busiest_core);
    if let Some(made) = failing {
        let lag = display::time((made.trial.lag_us.p99 * 1e3) as u64);
        evidence.push(format!(
            "just above that rate the busiest load thread used {} of its CPU, with a p99 lag of {lag}",
            display::percent(client_busy)
        ));
    }
    if let Some(stolen) = failing.map(|made| made.observation.server.stolen).filter(|stolen| *stolen > STOLEN) {
        let share = display::percent(stolen);
        evidence.push(format!("the hypervisor gave {share} of this host's CPU time to other guests"));
    }
    match seen.result.ended {
        EndReason::Disturbed => {
            evidence.push("this host was too busy with other programs to find the bottleneck".to_owned())
        }
        EndReason::Interrupted => {
            evidence.push("the search was interrupted before the bottleneck was known".to_owned())
        }
        _ => {}
    }
    if matches!(seen.result.ended, EndReason::Disturbed | EndReason::Interrupted) {
        return (LimitedBy::Undetermined, evidence);
    }
    if seen.result.collapse.is_some_and(|collapse| collapse.recovery_s.is_none()) {
        evidence.push("rates that passed before an overload fail after it, and nothing else changed".to_owned());
        return (LimitedBy::Server, evidence);
    }
    if seen.result.limited_by_client {
        evidence.push("trials at higher rates were invalid: the client did not keep up".to_owned());
        let room = headroom >= HEADROOM;
        if room {
            evidence.push("according to the calibration it could have, so something disturbed it".to_owned());
        }
        return (if room { LimitedBy::Undetermined } else { LimitedBy::Client }, evidence);
    }
    if seen.result.upper_bound.is_none() && seen.result.ended != EndReason::ClientCeiling {
        evidence.push("the search ended before a rate failed".to_owned());
        return (LimitedBy::Undetermined, evidence);
    }
    if seen.result.upper_bound.is_none() {
        evidence.push("no rate that the client could offer failed".to_owned());
        return (LimitedBy::Client, evidence);
    }
    let server = failing.map(|made| &made.observation.server);
    let lossy = server.filter(|server| server.retransmitted > LOSSY && !seen.shared_host);
    if let Some(server) = lossy {
        evidence.push(format!("{} of the segments were retransmitted", display::percent(server.retransmitted)));
        return (LimitedBy::Network, evidence);
    }
    let bottleneck =
        if headroom >= HEADROOM || client_busy < UNSATURATED { LimitedBy::Server } else { LimitedBy::Undetermined };
    match server.filter(|_| seen.shared_host).and_then(saturation) {
        Some(sentence) => evidence.push(sentence),
        // By elimination: the client sent in time and the path lost nothing, so the time was spent
        // at the server.
        None if bottleneck == LimitedBy::Server => {
            evidence.push("the client sent on time and had headroom, which leaves the server".to_owned());
        }
        None => {}
    }
    if bottleneck == LimitedBy::Undetermined {
        evidence.push(format!("the client cannot be ruled out: its headroom was less than {HEADROOM} times the rate"));
    }
    if seen.shared_host {
        evidence.push("client and server shared this host".to_owned());
    }
    (bottleneck, evidence)
}

/// The trial with the most evidence: that at the lowest rate that failed. Trials that failed below
/// the upper bound met the target in another state.
fn decisive<'a>(seen: &Evidence<'a>) -> Option<&'a TrialResult> {
    let upper = seen.result.upper_bound.unwrap_or(0.0);
    let failed = seen.judged.iter().filter(|made| made.judgement.verdict == Verdict::Fail);
    let failed = failed.filter(|made| made.trial.phase != Phase::Recover.name());
    let failed = failed.filter(|made| made.trial.offered_rate.is_some_and(|rate| rate >= upper));
    failed.min_by(|a, b| a.trial.offered_rate.unwrap_or(0.0).total_cmp(&b.trial.offered_rate.unwrap_or(0.0)))
}

/// A sentence about the server's CPU, if that was saturated.
fn saturation(server: &ServerObservation) -> Option<String> {
    let (cpu, busy) = server.cpus_busy.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
    let name = if server.process.is_empty() { "the server" } else { &server.process };
    if *busy < SATURATED {
        return None;
    }
    Some(format!(
        "{name} used {:.2} CPUs, and CPU {cpu} was busy for {} of the time",
        server.cpu_cores,
        display::percent(*busy)
    ))
}
