//! The target of a virtual lab, and the load on it.

use std::time::Duration;

use thalweg_lab::target::Target;
use thalweg_load::{Extent, LoopPlan, Plan, RequestTemplate, RequestText, template};
use thalweg_wire::Version;

use crate::servers::TARGET;

/// The connections of `thalweg find`.
const CONNECTIONS: usize = 256;

/// The target of a virtual lab.
pub fn target() -> Target {
    Target::resolve(&format!("http://{TARGET}/"), None).expect("an address needs no resolver")
}

/// The load of a search but for its arrivals and its length: GET requests by one load thread.
pub fn plan() -> Plan {
    let (arrivals, extent) = (LoopPlan::at_rate(1.0), Extent::Duration(Duration::from_secs(1)));
    let base = Plan::new(TARGET.into(), [request(Version::Http11)].into(), arrivals, extent);
    Plan { connections: CONNECTIONS, ..base }
}

/// Its request.
pub(crate) fn request(version: Version) -> RequestTemplate {
    let authority = TARGET.to_string();
    let text = RequestText { method: "GET", authority: &authority, target: "/", version, fields: &[], body: b"" };
    template(&text).expect("a request in order")
}
