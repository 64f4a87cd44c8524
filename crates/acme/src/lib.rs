//! Certificates by ACME (RFC 8555): a [`Client`] obtains one for the names of a server, keeps it in
//! a state directory, and renews it when the authority suggests (ARI, RFC 9773).
//!
//! The client blocks; it is meant for a process of its own. The server is a [`Host`]: it answers
//! challenges, takes certificates into use and writes reports. [`Client::step`] does what is due
//! and returns when to call it again. Everything that has to outlive the process is in the state
//! directory before it matters, so that the process may be killed at any time.
//!
//! Lacking on purpose: processes, signals, listening sockets, and challenges by DNS, without which
//! no certificate for a wildcard is to be had.

#![forbid(unsafe_code)]

mod account;
mod authority;
mod certificate;
mod challenge;
mod challenge_certificate;
mod client;
mod failures;
mod host;
mod order;
mod problem;
mod random;
mod refusal;
mod renewal;
mod report;
mod schedule;
mod settings;
mod state;
mod time;
mod transport;

pub use certificate::StoredCertificate;
pub use challenge::{Challenge, ChallengeKind};
pub use client::Client;
pub use host::Host;
pub use problem::Problem;
pub use report::{Reason, Report};
pub use settings::{LETS_ENCRYPT, Settings};
