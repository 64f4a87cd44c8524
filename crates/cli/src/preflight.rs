//! The quick checks of this host before a measurement: warnings on stderr, all findings into the
//! result.

use std::time::Duration;

use thalweg_doctor::{Finding, Host, Level, PlannedLoad, Role, examine_quickly};
use thalweg_lab::target::Target;
use thalweg_load::{LoopPlan, Plan, UserPlan};
use thalweg_sys::PeerAddr;

use crate::exit::remark;

/// Examines this host for a plan, and prints warnings: what is, its effect, the first remedy. The
/// measurement goes on in any case; it shows the effect in its outcomes.
pub(crate) fn examine(plan: &Plan, target: &Target) -> Vec<Finding> {
    let load = PlannedLoad { length: length(plan), ..planned(plan, target) };
    report(examine_quickly(&Host::this(), &load))
}

/// The same for a search, whose rates and length are not known in advance.
pub(crate) fn examine_for_search(base: &Plan, target: &Target) -> Vec<Finding> {
    let load = PlannedLoad { requests_per_s: None, opened_per_s: 0.0, ..planned(base, target) };
    report(examine_quickly(&Host::this(), &load))
}

/// Prints warnings, and keeps what is more than as it should be.
fn report(findings: Vec<Finding>) -> Vec<Finding> {
    for finding in findings.iter().filter(|finding| finding.level >= Level::Warning) {
        let remedy = finding.mend.first().map_or_else(String::new, |remedy| format!(" (mend: {remedy})"));
        remark(&format!("{}: {}{remedy}; thalweg doctor says more", Level::Warning, finding.sentence()));
    }
    findings.into_iter().filter(|finding| finding.level > Level::Ok).collect()
}

fn planned(plan: &Plan, target: &Target) -> PlannedLoad {
    let requests_per_s = plan.offered_rate();
    let calls = if let Some(UserPlan::Calls(calls)) = plan.user { Some(calls) } else { plan.calls };
    let opened_per_s = match (&plan.user, &plan.arrivals) {
        (Some(_), LoopPlan::Open { rate, .. }) => rate.highest(),
        _ => requests_per_s.zip(calls).map_or(0.0, |(rate, calls)| rate / f64::from(calls)),
    };
    // The bound on the connections of users is far above what is open at a lifetime of a second.
    let open_at_once = if plan.user.is_some() && opened_per_s > 0.0 {
        plan.connections.min(opened_per_s.ceil() as usize)
    } else {
        plan.connections
    };
    PlannedLoad {
        requests_per_s,
        opened_per_s,
        calls,
        asks_to_close: true,
        url: Some(target.shown.clone()),
        target: if let PeerAddr::Tcp(address) = target.address { Some(address) } else { None },
        shared_host: target.is_local(),
        sources: plan.sources.len().max(1),
        cpus: plan.cpus.clone(),
        ..PlannedLoad::new("this load", Role::Client, open_at_once as u64)
    }
}

fn length(plan: &Plan) -> Option<Duration> {
    let length = plan.schedule_length();
    (!length.is_zero()).then(|| length.saturating_add(plan.warmup))
}

#[cfg(test)]
mod tests {
    use thalweg_load::{Extent, RequestText, template};
    use thalweg_wire::Version;

    use super::*;

    fn plan(arrivals: LoopPlan) -> (Plan, Target) {
        let target = Target::resolve("http://127.0.0.1:81/", None).unwrap();
        let (authority, version) = (target.authority.as_str(), Version::Http11);
        let request = RequestText { method: "GET", authority, target: "/", version, fields: &[], body: b"" };
        let requests = vec![template(&request).unwrap()];
        let extent = Extent::Duration(Duration::from_secs(3));
        (Plan { connections: 500, ..Plan::new(target.address.clone(), requests.into(), arrivals, extent) }, target)
    }

    #[test]
    fn a_plan_is_a_planned_load() {
        let (open, target) = plan(LoopPlan::at_rate(100.0));
        let load = planned(&Plan { calls: Some(4), ..open.clone() }, &target);
        assert_eq!((load.requests_per_s, load.opened_per_s, load.connections), (Some(100.0), 25.0, 500));
        assert!(load.shared_host && load.target.is_some() && length(&open) == Some(Duration::from_secs(3)));
        let users = planned(&Plan { user: Some(UserPlan::Calls(10)), ..open }, &target);
        assert_eq!((users.requests_per_s, users.opened_per_s, users.connections), (Some(1000.0), 100.0, 100));
        let (closed, target) = plan(LoopPlan::of_workers(5, Duration::ZERO));
        let load = planned(&closed, &target);
        assert_eq!((load.requests_per_s, load.opened_per_s, load.calls), (None, 0.0, None));
    }
}
