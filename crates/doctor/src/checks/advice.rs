//! Advice about the load and the server that is no setting of the host.

use thalweg_sys::proc::listeners;
use thalweg_units::display;

use crate::finding::{Finding, Level};
use crate::host::Host;
use crate::load::PlannedLoad;

/// Requests that a browser sends on a connection.
const CALLS_USUAL: u32 = 5;

/// Requests per connection.
pub(super) fn calls(_: &Host, load: &PlannedLoad) -> Vec<Finding> {
    let Some(calls) = load.calls.filter(|_| load.measures()) else { return Vec::new() };
    let is = format!(
        "each connection carries {}",
        if calls == 1 { "one request".to_owned() } else { format!("{calls} requests") }
    );
    if calls >= CALLS_USUAL {
        return vec![Finding::ok(is)];
    }
    let spoils = format!(
        "{} opens {} connections; the server's time goes into accepting them, where clients in the field send 5 to 20 \
         requests on each",
        load.requests_per_s.map_or_else(|| "the load".to_owned(), display::rate),
        display::rate(load.opened_per_s)
    );
    vec![
        Finding::of(Level::Hint, is, spoils)
            .mended_by("--calls 10, unless clients without keep-alive are the question"),
    ]
}

/// Threads of the server against CPUs, where the server runs on this host.
pub(super) fn server_threads(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    let Some(target) = load.target.filter(|_| load.measures() && load.shared_host && host.is_this()) else {
        return Vec::new();
    };
    let pids = listeners(target.port());
    let threads: Vec<(String, u64)> = pids.iter().filter_map(|&pid| process(host, pid)).collect();
    judge_threads(&threads, host.cpus_online())
}

/// Name and number of threads of a process.
fn process(host: &Host, pid: u32) -> Option<(String, u64)> {
    let status = host.text(&format!("/proc/{pid}/status"))?;
    let field =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned());
    Some((field("Name:")?, field("Threads:")?.parse().ok()?))
}

fn judge_threads(processes: &[(String, u64)], cpus: usize) -> Vec<Finding> {
    let Some((name, _)) = processes.first() else { return Vec::new() };
    let threads: u64 = processes.iter().map(|(_, threads)| threads).sum();
    let is =
        format!("the server {name} has {} processes with {threads} threads in all, on {cpus} CPUs", processes.len());
    let too_many = (cpus as u64).saturating_mul(8).max(64);
    if threads < cpus as u64 {
        let spoils = format!("it can use {threads} of {cpus} CPUs at most");
        return vec![
            Finding::of(Level::Hint, is, spoils)
                .mended_by("one process (or thread) per core, such as worker_processes auto in nginx"),
        ];
    }
    if threads > too_many {
        let spoils =
            "with a process or thread per connection, switching between them takes a growing share of the CPUs";
        return vec![
            Finding::of(Level::Hint, is, spoils)
                .mended_by("an event-driven server or module, with one process per core"),
        ];
    }
    vec![Finding::ok(is)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_few_requests_are_unlike_those_of_browsers() {
        let host = Host::beneath("/nonexistent");
        let check = |text: &str| calls(&host, &text.parse().unwrap()).first().map(|finding| finding.level);
        assert_eq!(check("conn-rate 200/s"), Some(Level::Hint));
        assert_eq!(check("conn-rate 200/s calls 10"), Some(Level::Ok));
        assert_eq!(check("rate 200/s"), None);
    }

    #[test]
    fn threads_are_held_against_cpus() {
        let of = |threads: &[u64]| threads.iter().map(|&n| ("nginx".to_owned(), n)).collect::<Vec<_>>();
        let level = |threads: &[u64], cpus| judge_threads(&of(threads), cpus).first().map(|finding| finding.level);
        assert_eq!(level(&[1], 4), Some(Level::Hint));
        assert_eq!(level(&[1, 1, 1, 1, 1], 4), Some(Level::Ok));
        assert_eq!(level(&[1; 200], 4), Some(Level::Hint));
        assert_eq!(level(&[], 4), None);
    }
}
