//! The activity of the host over a second: time stolen by the hypervisor, other programs.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use thalweg_units::display;

use crate::finding::{Finding, Level};
use crate::host::Host;
use crate::load::PlannedLoad;

/// Long enough that a tick of 10 ms is a hundredth.
const WATCHED: Duration = Duration::from_secs(1);

/// Shares of the load's CPUs from which on a finding is a hint, and a warning.
const STOLEN: [f64; 2] = [0.001, 0.01];
const USED: [f64; 2] = [0.05, 0.2];

/// Use of the CPUs and of each process since the start, in ticks.
#[derive(Debug, Default, Clone, PartialEq)]
struct Snapshot {
    /// By CPU: busy without stolen time, stolen, in all.
    cpus: BTreeMap<usize, [u64; 3]>,
    /// By process: name and time.
    processes: BTreeMap<u32, (String, u64)>,
    /// Tasks that run or wait for a CPU now.
    running: u64,
}

impl Snapshot {
    fn of(host: &Host) -> Self {
        let stat = host.text("/proc/stat").unwrap_or_default();
        let pids = host.names("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
        Self {
            cpus: stat.lines().filter_map(cpu).collect(),
            processes: pids
                .filter_map(|pid| Some((pid, process(&host.text(&format!("/proc/{pid}/stat"))?)?)))
                .collect(),
            running: stat
                .lines()
                .find_map(|line| line.strip_prefix("procs_running ")?.trim().parse().ok())
                .unwrap_or(0),
        }
    }
}

/// user, nice, system, idle, iowait, irq, softirq, steal (proc_stat(5)).
fn cpu(line: &str) -> Option<(usize, [u64; 3])> {
    let mut fields = line.split_whitespace();
    let number = fields.next()?.strip_prefix("cpu")?.parse().ok()?;
    let ticks: Vec<u64> = fields.take(8).filter_map(|field| field.parse().ok()).collect();
    let [user, nice, system, idle, iowait, irq, softirq, stolen] = ticks[..] else { return None };
    let busy = user + nice + system + irq + softirq;
    Some((number, [busy, stolen, busy + stolen + idle + iowait]))
}

/// Name and CPU time. The name stands in parentheses and may itself hold spaces and parentheses.
fn process(stat: &str) -> Option<(String, u64)> {
    let (start, end) = (stat.find('(')?, stat.rfind(')')?);
    let fields: Vec<&str> = stat.get(end + 2..)?.split(' ').collect();
    let ticks = |place: usize| fields.get(place)?.parse::<u64>().ok();
    Some((stat[start + 1..end].to_owned(), ticks(11)? + ticks(12)?))
}

/// Watches the host for a second.
pub(super) fn watched(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    if !host.is_this() {
        return Vec::new();
    }
    let before = Snapshot::of(host);
    thread::sleep(WATCHED);
    judge(&before, &Snapshot::of(host), &load.cpus, std::process::id())
}

/// The findings between two snapshots, without the process `own`.
fn judge(before: &Snapshot, after: &Snapshot, cpus: &[usize], own: u32) -> Vec<Finding> {
    let mut of_load = [0_u64; 3];
    for (cpu, now) in after.cpus.iter().filter(|(cpu, _)| cpus.is_empty() || cpus.contains(cpu)) {
        let earlier = before.cpus.get(cpu).copied().unwrap_or(*now);
        of_load
            .iter_mut()
            .zip(now.iter().zip(earlier))
            .for_each(|(sum, (now, earlier))| *sum += now.saturating_sub(earlier));
    }
    let [busy, stolen, all] = of_load.map(|ticks| ticks as f64);
    if all == 0.0 {
        return Vec::new();
    }
    vec![steal(stolen / all), others(before, after, busy / all, own)]
}

fn level(share: f64, [hint, warning]: [f64; 2]) -> Level {
    if share >= warning {
        Level::Warning
    } else if share >= hint {
        Level::Hint
    } else {
        Level::Ok
    }
}

fn steal(share: f64) -> Finding {
    let is = format!(
        "the hypervisor gave {} of the load's CPU time to other machines, over a second",
        display::percent(share)
    );
    match level(share, STOLEN) {
        Level::Ok => Finding::ok(is),
        level => {
            let spoils =
                "requests wait for CPUs that are away, which looks like a slow server; such seconds are left out";
            Finding::of(level, is, spoils).mended_by("another hour, another host, or one with CPUs of its own")
        }
    }
}

fn others(before: &Snapshot, after: &Snapshot, share: f64, own: u32) -> Finding {
    let all: u64 = after
        .cpus
        .iter()
        .map(|(cpu, now)| now[2] - before.cpus.get(cpu).map_or(now[2], |then| then[2].min(now[2])))
        .sum();
    let ticks_per_cpu = all as f64 / after.cpus.len().max(1) as f64;
    let used = |(pid, (name, now)): (&u32, &(String, u64))| {
        let earlier = before.processes.get(pid).map_or(*now, |(_, ticks)| *ticks);
        (now.saturating_sub(earlier), *pid, name.clone())
    };
    let busiest = after.processes.iter().filter(|(pid, _)| **pid != own).map(used).max();
    let is = format!("other programs used {} of the load's CPUs over a second", display::percent(share));
    let busiest = match busiest.filter(|(ticks, ..)| *ticks > 0) {
        Some((ticks, pid, name)) => {
            format!("; the busiest, {name} (process {pid}), took {:.2} CPUs", ticks as f64 / ticks_per_cpu)
        }
        None => String::new(),
    };
    match level(share, USED) {
        Level::Ok => Finding::ok(is + &busiest),
        level => {
            let waiting = after.running.saturating_sub(1);
            let spoils = format!(
                "the load gets what they leave, {}, and waits its turn ({waiting} others are ready to run now)",
                display::percent(1.0 - share)
            );
            Finding::of(level, is + &busiest, spoils)
                .mended_by("end them, or keep them off these CPUs (taskset, --cores)")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(cpus: &[[u64; 3]], processes: &[(u32, &str, u64)]) -> Snapshot {
        Snapshot {
            cpus: cpus.iter().copied().enumerate().collect(),
            processes: processes.iter().map(|&(pid, name, ticks)| (pid, (name.to_owned(), ticks))).collect(),
            running: 3,
        }
    }

    #[test]
    fn shares_are_of_the_cpus_of_the_load() {
        let before = snapshot(&[[0, 0, 0], [100, 10, 1000]], &[(1, "init", 5), (7, "rustc", 50), (9, "self", 0)]);
        let after = snapshot(&[[90, 0, 100], [101, 10, 1100]], &[(1, "init", 5), (7, "rustc", 140), (9, "self", 99)]);
        let on = |cpus: &[usize]| judge(&before, &after, cpus, 9);
        let [steal, others] = &on(&[1])[..] else { panic!("two findings") };
        assert_eq!((steal.level, others.level), (Level::Ok, Level::Ok), "{others:?}");
        let others = &on(&[0])[1];
        assert!(others.level == Level::Warning && others.is.contains("90.0 %"), "{others:?}");
        assert!(others.is.contains("rustc (process 7), took 0.90 CPUs"), "{others:?}");
        assert!(others.spoils.contains("10.0 %") && others.spoils.contains("2 others"), "{others:?}");
        let robbed = snapshot(&[[90, 5, 100], [101, 10, 1100]], &[]);
        assert_eq!(judge(&before, &robbed, &[0], 9)[0].level, Level::Warning);
        assert!(judge(&before, &before, &[0], 9).is_empty(), "no time has passed");
    }

    #[test]
    fn names_with_parentheses_are_read() {
        let stat = "12 (a (b) c) S 1 1 1 0 -1 4194560 1 2 3 4 10 20 0 0 20 0 1 0 100 0 0";
        assert_eq!(process(stat), Some(("a (b) c".to_owned(), 30)));
        assert_eq!(cpu("cpu  1 2 3 4 5 6 7 8"), None, "the sum of all is no CPU");
    }
}
