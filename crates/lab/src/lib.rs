//! Trials, searches, the observation of hosts, and reports: what turns the load engine into answers.
//!
//! A command prepares a [`trial::Bench`] for its target, makes trials on it (one, or as many as [`search::find`] asks for), and
//! turns what they gave into a [`document::Document`] with [`session::document`]. The document is the result; texts and
//! [`report`]s are made of it alone.
//!
//! What is deliberately not here: reading options, printing, exit codes, and every judgement that is pure (see `measure`).
#![forbid(unsafe_code)]

pub mod conclusion;
pub mod credentials;
pub mod document;
pub mod file;
pub mod limit;
pub mod observe;
pub mod report;
pub mod search;
pub mod session;
pub mod sink;
pub mod target;
pub mod trial;
