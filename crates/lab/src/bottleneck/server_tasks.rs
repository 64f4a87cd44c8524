//! The server's processes and their threads, where they run on this host.

use thalweg_report::document::{Finding, LimitedBy, Strength};
use thalweg_units::display;

use super::collected::Evidence;
use crate::environment::{ServerFigures, TaskFigures};

const KIND: &str = "server's threads";

/// The share of a CPU that saturates a thread.
const SATURATED: f64 = 0.9;
/// The share of the allowed CPUs that a server whose threads wait for them uses at least.
const OWN_SHARE: f64 = 0.3;
/// Threads in the wait for storage, on average, from which on the disk is what the server does.
const AT_DISK: f64 = 0.5;
/// Descriptors that are left to a server which has run out of them, or nearly.
const DESCRIPTORS_LEFT: u64 = 3;
/// The share of the time for which a control group stopped the server that matters.
const THROTTLED: f64 = 0.02;

pub(super) fn findings(seen: &Evidence<'_>) -> Vec<Finding> {
    let Some(server) = seen.diagnosis.and_then(|diagnosis| diagnosis.server.as_ref()) else { return Vec::new() };
    let findings = [descriptors(server), storage(server), throttled(server), cpu(server)];
    findings.into_iter().flatten().collect()
}

fn proven(sentence: String, cause: &str) -> Finding {
    Finding::of(LimitedBy::Server, Strength::Proves, KIND, sentence).caused_by(cause)
}

fn descriptors(server: &ServerFigures) -> Option<Finding> {
    let (open, limit) = server.descriptors?;
    let sentence =
        format!("{} had {} of its {} descriptors open", server.name, display::count(open), display::count(limit));
    let ran_out = limit.saturating_sub(open) <= DESCRIPTORS_LEFT;
    let finding = proven(sentence, "server's descriptors").figure("descriptors", open as f64);
    ran_out.then(|| finding.figure("descriptors_max", limit as f64))
}

fn storage(server: &ServerFigures) -> Option<Finding> {
    let sentence = format!(
        "{:.1} threads of {} waited for storage at any time, and {:.1} ran or wanted to",
        server.storage, server.name, server.runnable
    );
    let at_disk = server.storage >= AT_DISK && server.storage >= server.runnable;
    let finding = proven(sentence, "server's disk").figure("storage", server.storage);
    at_disk.then(|| finding.figure("runnable", server.runnable))
}

fn throttled(server: &ServerFigures) -> Option<Finding> {
    let share = display::percent(server.throttled);
    let sentence = format!("the CPU quota of the control group of {} stopped it for {share} of the time", server.name);
    let finding = proven(sentence, "server throttled by its control group").figure("throttled", server.throttled);
    (server.throttled > THROTTLED).then_some(finding)
}

fn cpu(server: &ServerFigures) -> Option<Finding> {
    let used: f64 = server.tasks.iter().map(|task| task.cpu).sum();
    let wanted: f64 = server.tasks.iter().map(|task| task.cpu + task.wait).sum();
    let allowed = server.cpus_allowed as f64;
    let name = &server.name;
    let figures = |finding: Finding| finding.figure("cpus_used", used).figure("cpus_allowed", allowed);
    let waits = if wanted - used >= 1.0 - SATURATED {
        format!(", and its threads waited for a CPU, which ran something else, for {:.2} more", wanted - used)
    } else {
        String::new()
    };
    if wanted >= SATURATED * allowed && used >= OWN_SHARE * allowed && allowed > 0.0 {
        let plural = if server.cpus_allowed == 1 { "CPU" } else { "CPUs" };
        let sentence = format!("{name} used {used:.2} of the {allowed} {plural} that it may run on{waits}");
        return Some(figures(proven(sentence, "server CPU")));
    }
    let busy = |task: &&TaskFigures| task.cpu + task.wait >= SATURATED && task.cpu >= OWN_SHARE;
    let saturated: Vec<_> = server.tasks.iter().filter(busy).collect();
    let first = saturated.first()?;
    let share = display::percent(first.cpu);
    let others = match server.tasks.len() - 1 {
        0 => format!("which is its only one, and it may run on {allowed} CPUs"),
        1 => format!("and its other thread {:.2} CPUs", used - first.cpu),
        count => format!("and its other {count} threads {:.2} CPUs together", used - first.cpu),
    };
    if let [one] = saturated[..] {
        let sentence = format!("one thread of {name} ({}) used {share} of a CPU, {others}{waits}", one.name);
        return Some(figures(proven(sentence, "one core of the server")));
    }
    let count = saturated.len();
    let sentence = format!("{count} threads of {name} had no idle time: it used {used:.2} CPUs of {allowed}{waits}");
    Some(figures(proven(sentence, "server CPU")))
}
