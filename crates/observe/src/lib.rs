//! The observation of a host and of a server on it: samples of the kernel's accounts at a steady
//! pace, taken here or pulled from an observer on another host.
//!
//! A [`Sample`] is the activity in one interval; consecutive ones add up ([`Sample::joined_all`]),
//! so that the summary of a trial is a sample, too. A [`Series`] holds the course in columns. A
//! [`Sampler`] takes samples, a [`LocalObserver`] is a thread that does so. Files that a kernel
//! does not have leave their figures absent; they are no errors.
//!
//! Deliberately not here: judging what was seen, drawing it, and starting any program.
#![forbid(unsafe_code)]

pub mod clock;
mod facts;
mod host;
mod kernel_file;
pub mod local;
mod pace;
pub mod parse;
pub mod remote;
pub mod sample;
mod sampler;
pub mod series;
mod server;

pub use facts::HostFacts;
pub use local::{LocalObserver, Samples, Settings};
pub use sample::Sample;
pub use sampler::Sampler;
pub use series::Series;
pub use server::ServerName;
