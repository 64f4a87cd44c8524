//! The checks. Each is a function from a host and a load to findings; none knows another.

mod activity;
mod advice;
mod cgroup;
mod cpu;
mod descriptors;
mod kernel;
mod memory;
mod network;
mod ports;
mod queues;
mod storage;
mod tcp;

use crate::finding::Finding;
use crate::host::Host;
use crate::load::PlannedLoad;

/// One check.
pub struct Check {
    /// Its name in findings and in docs/doctor.md.
    pub name: &'static str,
    /// Whether it only reads a few files, so that it may run before every measurement.
    pub quick: bool,
    /// Its rule. A host that does not show what the rule needs gives no finding.
    pub examine: fn(&Host, &PlannedLoad) -> Vec<Finding>,
}

const fn quick(name: &'static str, examine: fn(&Host, &PlannedLoad) -> Vec<Finding>) -> Check {
    Check { name, quick: true, examine }
}

const fn slow(name: &'static str, examine: fn(&Host, &PlannedLoad) -> Vec<Finding>) -> Check {
    Check { name, quick: false, examine }
}

/// All checks, in the order in which their findings are shown within a level.
pub const CHECKS: &[Check] = &[
    quick("descriptors", descriptors::limits),
    quick("open-files", descriptors::open_files),
    slow("file-table", descriptors::file_table),
    quick("ports", ports::range),
    quick("time-wait", ports::time_wait),
    quick("time-wait-now", ports::time_wait_now),
    quick("listen-queue", queues::listen_queue),
    quick("syn-backlog", queues::syn_backlog),
    quick("syn-cookies", queues::syn_cookies),
    quick("packet-backlog", queues::packet_backlog),
    quick("listen-overflows", queues::listen_overflows),
    quick("connection-tracking", network::connection_tracking),
    quick("memory", memory::connections),
    quick("tcp-memory", memory::tcp_memory),
    quick("tcp-buffers", memory::buffers),
    quick("orphans", memory::orphans),
    quick("keepalive", tcp::keepalive),
    quick("slow-start", tcp::slow_start),
    quick("congestion", tcp::congestion),
    quick("clock", cpu::clock),
    quick("governor", cpu::governor),
    slow("turbo", cpu::turbo),
    quick("hardware-threads", cpu::hardware_threads),
    quick("memory-nodes", cpu::nodes),
    quick("cpu-quota", cgroup::cpu_quota),
    quick("memory-limit", cgroup::memory_limit),
    quick("task-limit", cgroup::task_limit),
    slow("activity", activity::watched),
    slow("virtual-machine", cpu::virtual_machine),
    quick("swap", memory::swap),
    quick("huge-pages", memory::huge_pages),
    quick("kernel", kernel::release),
    quick("io-uring-setting", kernel::ring_setting),
    slow("io-uring", kernel::ring),
    quick("locked-memory", kernel::locked_memory),
    slow("path", network::path),
    slow("link", network::link),
    slow("interface-queues", network::queues),
    slow("offloads", network::offloads),
    slow("firewall", network::firewall),
    slow("access-times", storage::access_times),
    slow("file-system", storage::file_system),
    slow("room", storage::room),
    slow("watches", storage::watches),
    slow("calls", advice::calls),
    slow("server-threads", advice::server_threads),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_has_a_row_in_its_document() {
        let document = include_str!("../../../../docs/doctor.md");
        let rows: Vec<&str> = document.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
        let names: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
        for name in &names {
            assert_eq!(rows.iter().filter(|row| *row == name).count(), 1, "rows of `{name}` in docs/doctor.md");
        }
        assert_eq!(rows.len(), names.len(), "rows in docs/doctor.md: {rows:?}");
    }

    /// A file that the kernel does not show must not end an examination.
    #[test]
    fn a_host_that_shows_nothing_is_examined() {
        let nothing = Host::beneath("/nonexistent");
        for text in ["hold 100000", "rate 50000/s", "conn-rate 2000/s", "find http://h/", "serve /srv 100"] {
            let load: PlannedLoad = text.parse().expect("a load");
            let found = CHECKS.iter().flat_map(|check| (check.examine)(&nothing, &load));
            assert!(found.into_iter().all(|finding| finding.level < crate::finding::Level::Warning), "{text}");
        }
    }
}
