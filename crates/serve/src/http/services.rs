//! The parts of a loop that the sessions of all versions of HTTP use.

use thalweg_reactor::BufferPool;
use thalweg_sys::{Instant, SocketId};
use thalweg_wire::hpack::FieldList;

use crate::catalog::access::Peer;
use crate::content::blocking_pool::{BlockingPool, Waiter, WaitingPart};
use crate::http::respond::{JobResult, RequestContext, Responder};
use crate::http::response::Recorder;
use crate::work_budget::WorkBudget;

/// The bounds of a session.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) wire: thalweg_wire::Bounds,
    /// Most requests of one connection: the response to the last of them closes it.
    pub(crate) requests_max: u32,
    /// How long a client may take less of its responses than the least rate, and that rate.
    pub(crate) stall_ns: u64,
    pub(crate) ns_per_byte: u64,
}

/// Parts of the loop that a session uses.
pub(crate) struct Services<'s> {
    pub(crate) responder: &'s mut Responder,
    pub(crate) blocking: &'s mut BlockingPool<JobResult>,
    pub(crate) buffers: &'s mut BufferPool,
    pub(crate) scratch: &'s mut Scratch,
    pub(crate) budget: &'s mut WorkBudget,
    pub(crate) recorder: &'s mut dyn Recorder,
    pub(crate) bounds: Bounds,
    /// Requests are sent to TLS, at this port.
    pub(crate) tls_port: Option<u16>,
    /// Most bytes of a frame's payload, if the client takes as many.
    pub(crate) frame_bytes_max: u32,
    /// No further request is waited for on any connection.
    pub(crate) is_draining: bool,
    pub(crate) now: Instant,
    /// The connection, which jobs are done for.
    pub(crate) socket: SocketId,
    /// Its client.
    pub(crate) peer: Peer,
}

/// Memory for a header block that is decoded or encoded, and for a value in it.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) fields: FieldList,
    pub(crate) block: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

impl Services<'_> {
    /// The context of a request that is answered on a stream now.
    #[inline]
    pub(crate) fn context(&self, stream: u32) -> RequestContext {
        RequestContext { waiter: self.socket, stream, peer: self.peer, now: self.now }
    }

    /// The request on a stream, as a waiter for a job.
    pub(crate) fn waiter(&self, stream: u32) -> Waiter {
        Waiter { socket: self.socket, part: WaitingPart::Request(stream) }
    }
}
