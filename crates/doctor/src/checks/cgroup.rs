//! The control group of this process: CPU quota, memory and number of tasks, in both versions.

use thalweg_units::display::{self, bytes, count};

use super::memory::needed_bytes;
use crate::finding::{Finding, Level};
use crate::host::Host;
use crate::load::PlannedLoad;

/// Tasks that a run needs beside its load threads.
const TASKS_BESIDE: u64 = 16;

/// The folders of a controller's groups, from this process's group up to the root. Within a
/// container the group's path may be the host's and not exist; the root remains.
fn folders(host: &Host, controller: &str) -> Vec<String> {
    let text = host.text("/proc/self/cgroup").unwrap_or_default();
    let mut folders = Vec::new();
    for line in text.lines() {
        let Some((controllers, path)) = line.split_once(':').and_then(|(_, rest)| rest.split_once(':')) else {
            continue;
        };
        let roots = if controllers.is_empty() {
            vec!["/sys/fs/cgroup".to_owned(), "/sys/fs/cgroup/unified".to_owned()]
        } else if controllers.split(',').any(|name| name == controller) {
            vec![format!("/sys/fs/cgroup/{controller}"), format!("/sys/fs/cgroup/{controllers}")]
        } else {
            continue;
        };
        for root in roots {
            let mut path = path.trim_end_matches('/');
            loop {
                folders.push(format!("{root}{path}"));
                let Some((above, _)) = path.rsplit_once('/') else { break };
                path = above;
            }
        }
    }
    folders.dedup();
    folders
}

/// The lowest value of a limit in any of the folders, with its folder.
fn lowest(folders: &[String], limit: impl Fn(&str) -> Option<f64>) -> Option<(f64, &str)> {
    let limits = folders.iter().filter_map(|folder| Some((limit(folder)?, &**folder)));
    limits.min_by(|a, b| a.0.total_cmp(&b.0))
}

/// CPUs' worth of time that a group may use.
fn quota(host: &Host, folder: &str) -> Option<f64> {
    if let Some(text) = host.text(&format!("{folder}/cpu.max")) {
        let (quota, period) = text.split_once(' ')?;
        return Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?);
    }
    let quota: f64 = host.text(&format!("{folder}/cpu.cfs_quota_us"))?.parse().ok()?;
    let period: f64 = host.text(&format!("{folder}/cpu.cfs_period_us"))?.parse().ok()?;
    (quota > 0.0).then_some(quota / period)
}

/// How often a group was kept from running so far, and for how long in nanoseconds.
fn throttled(host: &Host, folder: &str) -> Option<(u64, u64)> {
    let text = host.text(&format!("{folder}/cpu.stat"))?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    let ns = field("throttled_usec ").map(|us| us * 1000).or_else(|| field("throttled_time "))?;
    Some((field("nr_throttled ")?, ns))
}

/// The CPU quota.
pub(super) fn cpu_quota(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    let folders = folders(host, "cpu");
    let Some((cpus, folder)) = lowest(&folders, |folder| quota(host, folder)) else {
        return if folders.is_empty() { Vec::new() } else { vec![Finding::ok("no control group bounds the CPU time")] };
    };
    let so_far = throttled(host, folder).filter(|(times, _)| *times > 0).map_or_else(String::new, |(times, ns)| {
        format!("; it was kept from running {} times so far, for {}", count(times), display::time(ns))
    });
    let is = format!("the control group {folder} may use {cpus:.2} CPUs{so_far}");
    let wanted = load.cpus.len().max(1);
    if cpus >= wanted as f64 {
        return vec![Finding::ok(is)];
    }
    let spoils = format!(
        "{wanted} busy threads use up each period's share after {} of it, and all wait for the next: responses come late \
         by the client's own fault",
        display::percent(cpus / wanted as f64)
    );
    vec![
        Finding::of(Level::Warning, is, spoils)
            .mended_by("systemctl set-property UNIT CPUQuota=, docker --cpus, or the limits of the pod")
            .mended_by(format!("--cores with at most {} CPUs", (cpus as usize).max(1))),
    ]
}

/// The memory limit.
pub(super) fn memory_limit(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    let folders = folders(host, "memory");
    let limit = |folder: &str| {
        let names = ["memory.max", "memory.limit_in_bytes"];
        let max = names.iter().find_map(|name| host.number(&format!("{folder}/{name}")))?;
        // Without a limit, version 1 shows the greatest number of pages.
        (max < 1 << 60).then_some(max as f64)
    };
    let Some((max, folder)) = lowest(&folders, limit) else { return Vec::new() };
    let names = ["memory.current", "memory.usage_in_bytes"];
    let used = names.iter().find_map(|name| host.number(&format!("{folder}/{name}"))).unwrap_or(0);
    let left = (max as u64).saturating_sub(used);
    let is = format!(
        "the control group {folder} may use {} of memory and has {left} left",
        bytes(max as u64),
        left = bytes(left)
    );
    let needed = needed_bytes(load);
    if needed.saturating_mul(2) <= left {
        return vec![Finding::ok(is)];
    }
    let level = if needed > left { Level::Error } else { Level::Warning };
    let spoils = format!(
        "{} ends of connections need at least {}; beyond the limit the kernel kills the program",
        count(load.ends()),
        bytes(needed)
    );
    vec![
        Finding::of(level, is, spoils)
            .mended_by("systemctl set-property UNIT MemoryMax=, docker --memory, or the limits of the pod"),
    ]
}

/// The limit on tasks: processes and threads.
pub(super) fn task_limit(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    let folders = folders(host, "pids");
    let Some((max, folder)) = lowest(&folders, |folder| Some(host.number(&format!("{folder}/pids.max"))? as f64))
    else {
        return Vec::new();
    };
    let used = host.number(&format!("{folder}/pids.current")).unwrap_or(0);
    let (left, wanted) = ((max as u64).saturating_sub(used), load.cpus.len() as u64 + TASKS_BESIDE);
    let is = format!("the control group {folder} may have {} tasks and has {}", count(max as u64), count(used));
    if wanted <= left {
        return vec![Finding::ok(is)];
    }
    let spoils = format!("the load needs up to {} more; a thread that cannot start ends the run", count(wanted));
    vec![
        Finding::of(Level::Error, is, spoils)
            .mended_by("systemctl set-property UNIT TasksMax=, or docker --pids-limit"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::FakeHost;

    fn load(text: &str, cpus: usize) -> PlannedLoad {
        PlannedLoad { cpus: (0..cpus).collect(), ..text.parse().unwrap() }
    }

    #[test]
    fn the_lowest_quota_above_the_process_counts() {
        let fake = FakeHost::with(&[
            ("/proc/self/cgroup", "0::/system.slice/run.service\n"),
            ("/sys/fs/cgroup/system.slice/run.service/cpu.max", "max 100000\n"),
            ("/sys/fs/cgroup/system.slice/cpu.max", "50000 100000\n"),
            (
                "/sys/fs/cgroup/system.slice/cpu.stat",
                "usage_usec 5\nnr_periods 10\nnr_throttled 3\nthrottled_usec 70000\n",
            ),
        ]);
        let finding = &cpu_quota(&fake.host, &load("rate 5/s", 2))[0];
        assert_eq!(finding.level, Level::Warning);
        assert!(
            finding
                .is
                .contains("/system.slice may use 0.50 CPUs; it was kept from running 3 times so far, for 70.0 ms"),
            "{finding:?}"
        );
        assert!(finding.spoils.contains("25.0 %"), "{finding:?}");
        fake.write("/sys/fs/cgroup/system.slice/cpu.max", "400000 100000\n");
        assert_eq!(cpu_quota(&fake.host, &load("rate 5/s", 2))[0].level, Level::Ok);
    }

    #[test]
    fn version_1_is_read_too() {
        let fake = FakeHost::with(&[
            ("/proc/self/cgroup", "4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n1:pids:/\n0::/\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "20000\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "104857600\n"),
            ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "4857600\n"),
            ("/sys/fs/cgroup/pids/pids.max", "100\n"),
            ("/sys/fs/cgroup/pids/pids.current", "95\n"),
        ]);
        assert!(cpu_quota(&fake.host, &load("rate 5/s", 1))[0].is.contains("0.20 CPUs"));
        assert_eq!(memory_limit(&fake.host, &load("hold 20000", 1))[0].level, Level::Error);
        assert_eq!(memory_limit(&fake.host, &load("hold 5000", 1))[0].level, Level::Ok);
        assert_eq!(task_limit(&fake.host, &load("rate 5/s", 1))[0].level, Level::Error);
        fake.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert!(memory_limit(&fake.host, &load("hold 20000", 1)).is_empty());
    }
}
