//! Results in the forms that other tools print and read: httperf's, ApacheBench's, a table, and a log of histograms.
//!
//! Each is made of the result document alone, so that a stored result can be given out in any of them. Which figure stands for
//! which of the other tool's, and where the two differ, is written down in `docs/formats.md`. What is for people is in
//! [`crate::text`].

mod ab;
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
pub use tsv::tsv;
