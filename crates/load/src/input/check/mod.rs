//! Checks: conditions that a response must meet to be good, and where they stand.
//!
//! [`condition`] reads and judges one check, [`packed`] keeps many in few bytes, [`entry`] reads
//! the line of a file that has one, [`table`] looks checks up by target. The engine decides when a
//! response is whole, and computes its digest.

mod condition;
mod entry;
mod packed;
mod table;

pub use condition::{Check, CheckError, FieldCheck, FieldValue, StatusSet};
pub use entry::ListEntry;
pub(crate) use entry::entry;
pub(crate) use packed::{CheckOf, PackedCheck, push_check};
pub(crate) use table::CheckId;
pub use table::CheckTable;
