//! Text formats that other programs write and both halves of Thalweg meet: access logs and checksum
//! files.
//!
//! A parser here takes text that is at hand and returns what it says. Opening files, bounding them
//! and deciding what to do with their contents is the caller's. Thalweg's own formats are read
//! where they are used: workloads in `load`, configurations in `cli`.
#![forbid(unsafe_code)]

pub mod access_log;
pub mod checksums;
pub mod log_format;
