//! Results in the forms that other tools print and read: httperf's, ApacheBench's, a table, and a
//! log of histograms.
//!
//! Each is made of the result document alone, so that a stored result can be printed in any of
//! them. `docs/formats.md` says which figure stands for which of the other tool's, and where the
//! two differ. The text for people is in `text`.

mod ab;
mod autobench;
#[cfg(test)]
pub(crate) mod fixture;
mod hdr;
mod httperf;
mod quantities;
mod samples;
mod tsv;

pub use ab::ab;
pub use hdr::hdr_log;
pub use httperf::httperf;
pub use tsv::{csv, tsv, verdict as verdict_name};
