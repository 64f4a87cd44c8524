//! The checks. Each is a function from a host and a load to findings; none knows another.

mod descriptors;
mod ports;
mod queues;

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
];
