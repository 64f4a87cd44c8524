//! The parts of the loop that an HTTP/1 session uses.

use thalweg_sys::{Instant, SocketId};

use crate::catalog::access::Peer;
use crate::content::blocking_pool::{BlockingPool, Waiter, WaitingPart};
use crate::http::h1::batch::Batch;
use crate::http::respond::{JobResult, RequestContext, Responder};
use crate::http::response::Recorder;
use crate::http::services::{self, Bounds};
use crate::work_budget::WorkBudget;

/// Parts of the loop that a session uses, and the batch of its responses.
pub(crate) struct Services<'s> {
    pub(crate) responder: &'s mut Responder,
    pub(crate) blocking: &'s mut BlockingPool<JobResult>,
    /// Empty: responses are gathered in it.
    pub(crate) batch: Batch<'s>,
    pub(crate) budget: &'s mut WorkBudget,
    pub(crate) recorder: &'s mut dyn Recorder,
    pub(crate) bounds: Bounds,
    /// Requests are sent to TLS, at this port.
    pub(crate) tls_port: Option<u16>,
    /// No further request is waited for on any connection.
    pub(crate) is_draining: bool,
    pub(crate) now: Instant,
    /// The connection, which jobs are done for.
    pub(crate) socket: SocketId,
    /// Its client.
    pub(crate) peer: Peer,
}

impl<'s> Services<'s> {
    /// These parts of the loop.
    #[inline]
    pub(crate) fn of(services: &'s mut services::Services<'_>) -> Self {
        Self {
            responder: services.responder,
            blocking: services.blocking,
            batch: Batch::new(services.buffers),
            budget: services.budget,
            recorder: services.recorder,
            bounds: services.bounds,
            tls_port: services.tls_port,
            is_draining: services.is_draining,
            now: services.now,
            socket: services.socket,
            peer: services.peer,
        }
    }

    /// The context of a request that is answered now.
    #[inline]
    pub(super) fn context(&self) -> RequestContext {
        RequestContext { waiter: self.socket, stream: 0, peer: self.peer, now: self.now }
    }

    pub(super) fn waiter(&self) -> Waiter {
        Waiter { socket: self.socket, part: WaitingPart::Request(0) }
    }
}
