//! A closed loop over kept connections: `thalweg run --workers CONNECTIONS --requests REQUESTS`.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use thalweg_load::{Extent, LoopPlan, Plan, RequestText, start, template};
use thalweg_measure::Outcome;
use thalweg_sys::{DriverChoice, PeerAddr};
use thalweg_wire::Version;

/// A request waits for a server that a busy machine may not let run for a while.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Load {
    pub(crate) driver: DriverChoice,
    pub(crate) cpu: usize,
    /// The server.
    pub(crate) address: SocketAddr,
    pub(crate) connections: usize,
    /// Requests under way at once on a connection of HTTP/2; 0: HTTP/1.1, one after the other.
    pub(crate) streams: u32,
    pub(crate) requests: u64,
}

/// Makes the requests.
///
/// # Errors
/// A thread fails, or one of the requests.
pub(crate) fn run(load: &Load) -> Result<(), Box<dyn Error>> {
    let figures = start(plan(load)?)?.join()?;
    let good = figures.trial.outcomes.count(Outcome::Good);
    if good == load.requests {
        Ok(())
    } else {
        Err(format!("{good} of {} requests were good: {:?}", load.requests, figures.trial.outcomes).into())
    }
}

fn plan(load: &Load) -> Result<Plan, Box<dyn Error>> {
    let authority = load.address.to_string();
    let request = template(&RequestText {
        method: "GET",
        authority: &authority,
        target: "/000.txt",
        version: if load.streams == 0 { Version::Http11 } else { Version::Http2 },
        fields: &[],
        body: b"",
    })?;
    let workers = LoopPlan::of_workers(load.connections * load.streams.max(1) as usize, Duration::ZERO);
    Ok(Plan {
        connections: load.connections,
        pipeline: load.streams.max(1),
        timeout: TIMEOUT,
        drain: TIMEOUT,
        cpus: vec![load.cpu],
        driver: load.driver,
        ..Plan::new(PeerAddr::Tcp(load.address), [request].into(), workers, Extent::Requests(load.requests))
    })
}
