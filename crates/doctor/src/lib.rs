//! The examination of a host: its settings and its state that would spoil a planned run or server,
//! and the commands that mend them.
//!
//! [`examine`] carries out all checks, [`examine_quickly`] those that only read a few files: they
//! run before every measurement. A check sees the host through its files ([`Host`]) and the load
//! through [`PlannedLoad`], and gives [`Finding`]s with the figure computed for that load.
//! [`needs`] has the rules about descriptors, addresses and ports that a run itself follows.
//! [`repair`] writes the settings that findings propose, and puts them back.
//!
//!
//! Deliberately not here: options, printing, exit codes, questions to the user.
#![forbid(unsafe_code)]

mod checks;
mod finding;
mod host;
mod load;
pub mod needs;
pub mod repair;

pub use checks::{CHECKS, Check};
pub use finding::{Change, Finding, Level};
pub use host::Host;
pub use load::{LoadError, PlannedLoad, Role};

/// Carries out all checks, the gravest findings first. Some of them watch the host for a second.
pub fn examine(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    findings(host, load, |_| true)
}

/// Carries out the checks that only read files: some milliseconds, and nothing is opened or tried.
pub fn examine_quickly(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    findings(host, load, |check| check.quick)
}

fn findings(host: &Host, load: &PlannedLoad, chosen: impl Fn(&Check) -> bool) -> Vec<Finding> {
    let checks = CHECKS.iter().filter(|check| chosen(check));
    let mut findings: Vec<Finding> = checks
        .flat_map(|check| {
            let found = (check.examine)(host, load);
            found.into_iter().map(|finding| Finding { check: check.name.to_owned(), ..finding })
        })
        .collect();
    // The order of the checks remains within a level.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    findings
}
