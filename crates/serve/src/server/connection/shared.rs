//! The parts of a loop that all its connections share.

use std::rc::Rc;

use thalweg_reactor::BufferPool;
use thalweg_sys::FileChanged;

use super::times::Times;
use crate::content::blocking_pool::BlockingPool;
use crate::content::body::Payload;
use crate::content::local::residency::Residency;
use crate::http::respond::{JobResult, Responder};
use crate::http::services::Scratch;
use crate::shaping::shaper::Shaper;
use crate::telemetry::accounting::Accounting;
use crate::telemetry::counters::Totals;
use crate::telemetry::log::ErrorLog;
use crate::transport::{Memory, TlsMemory};
use crate::work_budget::{HandshakeBudget, WorkBudget};

/// The parts of a loop that all its connections share.
pub(crate) struct Shared {
    pub(crate) times: Times,
    pub(crate) responder: Responder,
    pub(crate) totals: Totals,
    /// There if responses are logged or counted by mount.
    pub(crate) accounting: Option<Accounting>,
    pub(crate) blocking: BlockingPool<JobResult>,
    pub(crate) residency: Residency,
    pub(crate) buffers: BufferPool,
    /// Memory for the header block that is decoded or encoded.
    pub(crate) scratch: Scratch,
    pub(crate) tls_memory: TlsMemory,
    /// There if anything is limited by client or by rate.
    pub(crate) shaper: Option<Shaper>,
    /// No further request is waited for on any connection.
    pub(crate) draining: bool,
    /// Work that connections may do beyond their first request in this iteration.
    pub(crate) budget: WorkBudget,
    /// The port over which plain HTTP is redirected to TLS, if it is.
    pub(crate) redirect_port: Option<u16>,
    /// TLS handshakes under way.
    pub(crate) handshakes: usize,
    /// Handshakes that may be calculated in this iteration.
    pub(crate) handshake_budget: HandshakeBudget,
    /// Receives messages for the operator.
    pub(crate) error_log: Option<ErrorLog>,
    /// Why the response of a connection could not be delivered.
    pub(crate) failure: Option<Rc<str>>,
    /// The file of a connection's response, which was modified.
    pub(crate) file_change: Option<FileChanged>,
    /// The response of a connection that [queues](Fate::QueuesForSlot) for a slot.
    pub(crate) held: Option<Box<Payload>>,
}

impl Shared {
    /// The memory of transports.
    #[inline]
    pub(crate) fn memory(&mut self) -> Memory<'_> {
        Memory { buffers: &mut self.buffers, tls: &mut self.tls_memory }
    }
}
