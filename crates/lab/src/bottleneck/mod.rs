//! The bottleneck of a search: the server, the client or the path between them, as far as the
//! evidence shows.
//!
//! Each kind of evidence has a module, which turns figures into `Finding`s; `rule` combines
//! them. Nothing is concluded by elimination: a part is named only by a finding that points at it.
//! The modules read no clock and no file; what has to be measured for them is in
//! [`crate::evidence`].

mod calibration;
mod client_cpu;
mod clients;
mod collected;
mod history;
mod path;
mod refusals;
mod resources;
mod rule;
mod server_cpu;
mod server_tasks;
#[cfg(test)]
mod tests;
mod trials;
mod waiting;

pub use collected::Evidence;
pub use rule::Bottleneck;

use trials::Selection;

/// Names the bottleneck, with all findings.
pub fn name_bottleneck(seen: &Evidence<'_>) -> Bottleneck {
    let selection = Selection::of(seen.result, seen.trials);
    let findings = [
        calibration::findings(seen, &selection),
        client_cpu::findings(seen, &selection),
        clients::findings(seen),
        resources::findings(&selection),
        server_tasks::findings(seen),
        server_cpu::findings(seen, &selection),
        refusals::findings(&selection),
        path::findings(seen),
        waiting::findings(seen),
        history::findings(seen),
    ];
    rule::combine(seen, findings.into_iter().flatten().collect())
}
