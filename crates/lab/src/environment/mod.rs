//! The world that trials are made in: a client that carries loads out, a clock, a sink to calibrate
//! the client with, and what can be seen of path and server.
//!
//! Searches, sweeps, comparisons and suites ask an [`Environment`] for all of that, and have no
//! clock, thread or socket of their own. [`ThisHost`] is the real one. Tests have others: one whose
//! trials are answered by a function, and one in virtual time (the crate `virtual-lab`).
//!
//! Deliberately not here: which trials are made, and judging them.

mod cpu_watch;
mod figures;
mod sampler;
#[cfg(test)]
pub(crate) mod scripted;
mod summary;
mod this_host;

use std::any::Any;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use thalweg_load::{LoadError, Plan, Progress, RunFigures};

use crate::command::{CommandError, Parameter};
use crate::observe::LocalServer;
use crate::target::{Target, TargetError};
pub use cpu_watch::{CpuUseOfOthers, Taken};
pub use figures::{Examination, HandshakeTimes, InterfaceFigures, PathFigures, ServerFigures, TaskFigures};
pub use this_host::ThisHost;

/// A world that trials are made in.
pub trait Environment: fmt::Debug {
    /// The time since the command began.
    fn now(&self) -> Duration;

    /// Lets time pass in which nothing is offered.
    fn pause(&self, length: Duration);

    /// The CPUs that the client may use, those of the load threads among them.
    fn cpus(&self) -> Vec<usize>;

    /// Carries a load out. `follow` looks at its progress every [`FOLLOW_INTERVAL`], and ends it by
    /// [`ControlFlow::Break`].
    ///
    /// # Errors
    /// The load threads could not be set up, or have failed.
    fn run(&self, plan: Plan, follow: &mut Follow<'_>) -> Result<ObservedRun, LoadError>;

    /// Starts the built-in sink, whose responses have bodies of that size.
    ///
    /// # Errors
    /// It cannot be started.
    fn sink(&self, plan: &Plan, body_bytes: usize) -> io::Result<SinkTarget>;

    /// Looks at path and server while `overload` offers the load of `plan`.
    fn examine(&self, _server: Option<&LocalServer>, _plan: &Plan, overload: &mut dyn FnMut()) -> Examination {
        overload();
        Examination::default()
    }

    /// Whether client and target share a host.
    fn is_host_of(&self, _target: &Target) -> bool {
        false
    }

    /// The processes of a target, if they can be seen from here.
    fn server_of(&self, _target: &Target) -> Option<LocalServer> {
        None
    }

    /// Checks that the target accepts connections from these local addresses, if some are given.
    ///
    /// # Errors
    /// It does not within `patience`.
    fn reach(&self, _target: &Target, _patience: Duration, _sources: &[IpAddr]) -> Result<(), TargetError> {
        Ok(())
    }

    /// Sets a server up by a command and waits until it accepts connections. The server may end
    /// when the returned value is dropped.
    ///
    /// # Errors
    /// The command has failed, the server did not come up, or `wants_stop` has ended the wait.
    fn set_up(&self, server: &ServerSetUp<'_>, wants_stop: &dyn Fn() -> bool) -> Result<Box<dyn Any>, CommandError>;
}

/// A look at a running load; whether it goes on.
pub type Follow<'a> = dyn FnMut(&Progress) -> ControlFlow<()> + 'a;

/// The interval at which a running load is followed.
pub const FOLLOW_INTERVAL: Duration = Duration::from_millis(50);

/// A load that was carried out.
#[derive(Debug)]
pub struct ObservedRun {
    /// The engine's measurements.
    pub figures: RunFigures,
    /// Its progress up to the end.
    pub progress: Arc<Progress>,
    /// The time that others took of the CPUs of the load.
    pub others: CpuUseOfOthers,
    /// Nanoseconds in which the quota of the client's control group kept it from running.
    pub throttled_ns: u64,
}

/// The built-in sink, and a load directed at it.
#[derive(Debug)]
pub struct SinkTarget {
    /// The load, with the sink as its peer.
    pub plan: Plan,
    /// The sink, which ends when this is dropped.
    pub sink: Box<dyn Any>,
}

/// A server to be set up.
#[derive(Clone, Copy, Debug)]
pub struct ServerSetUp<'a> {
    /// The command that starts it or restarts it.
    pub command: &'a str,
    /// The variable that the command sees.
    pub parameter: &'a Parameter,
    /// The server.
    pub target: &'a Target,
    /// How long the server may take to accept connections.
    pub patience: Duration,
}
