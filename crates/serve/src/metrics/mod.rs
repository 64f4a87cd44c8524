//! What the server tells about itself: counters by core and mount, and what can be seen in the stream of records.
//!
//! Cores count for themselves and publish once per wake-up; whoever wants to know adds up.

mod register;

pub(crate) use register::{MountCells, Observed, Tally};
