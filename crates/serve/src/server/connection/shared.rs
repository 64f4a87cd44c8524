//! The parts of a loop that all its connections share.

use std::rc::Rc;

use thalweg_reactor::BufferPool;

use super::times::Times;
use crate::content::blocking_pool::BlockingPool;
use crate::content::body::Payload;
use crate::content::local::residency::Residency;
use crate::http::respond::{JobResult, Responder};
use crate::http::services::Scratch;
use crate::shaping::shaper::Shaper;
use crate::telemetry::accounting::Accounting;
use crate::telemetry::counters::Totals;
use crate::work_budget::WorkBudget;

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
    /// There if anything is limited by client or by rate.
    pub(crate) shaper: Option<Shaper>,
    /// No further request is waited for on any connection.
    pub(crate) draining: bool,
    /// Work that connections may do beyond their first request in this iteration.
    pub(crate) budget: WorkBudget,
    /// Why the response of a connection could not be delivered.
    pub(crate) failure: Option<Rc<str>>,
    /// The response of a connection that [queues](Fate::QueuesForSlot) for a slot.
    pub(crate) held: Option<Box<Payload>>,
}
