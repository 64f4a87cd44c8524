//! Trials, searches, the observation of hosts, and reports: the steps from a load engine to a
//! result.
//!
//! A command prepares a [`trial::TestBed`] for its target, makes trials on it (one, or as many as
//! [`search::find`] requests), and turns their results into a [`document::Document`] with
//! [`result::document`]. The document is the result; texts and [`report`]s are made of it alone.
//!
//! Deliberately not here: reading options, printing, exit codes, and every judgement that is pure
//! (see `measure`).
#![forbid(unsafe_code)]

pub mod bottleneck;
pub mod client_process;
pub mod command;
pub mod compare;
pub mod conclusion;
pub mod credentials;
mod disclosure;
pub mod document;
pub mod evidence;
pub mod file;
mod first_ends;
pub mod observe;
pub mod path_check;
mod redirects;
pub mod report;
pub mod restarts;
pub mod result;
pub mod search;
pub mod servers;
pub mod sink;
pub mod suite;
pub mod suite_table;
pub mod sweep;
pub mod target;
pub mod trial;
