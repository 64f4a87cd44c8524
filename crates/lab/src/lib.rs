//! Trials, searches and the observation of hosts: the steps from a load engine to a result.
//!
//! A command prepares a [`trial::TestBed`] for its target, makes trials on it (one, or as many as
//! [`search::find`] requests), and turns their results into the document of `report` with
//! [`result::document`]. Clock, load threads and sockets are those of an
//! [`environment::Environment`], which tests can replace.
//!
//! Deliberately not here: reading options, printing, exit codes, reports, and every judgement that
//! is pure (see `measure`).
#![forbid(unsafe_code)]

pub mod bottleneck;
pub mod client_process;
pub mod command;
pub mod compare;
pub mod conclusion;
pub mod credentials;
mod disclosure;
pub mod environment;
pub mod evidence;
mod first_ends;
pub mod observe;
pub mod path_check;
mod redirects;
pub mod restarts;
pub mod result;
pub mod routing;
pub mod search;
pub mod servers;
pub mod sink;
pub mod suite;
pub mod suite_table;
pub mod sweep;
pub mod target;
pub mod trial;
