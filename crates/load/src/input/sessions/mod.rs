//! Session files: bursts of calls with think times between them, in httperf's format ([`wsesslog`])
//! or in TOML ([`tables`]).
//!
//! Both formats give the same text model ([`text`]), of which [`load`] keeps numbers of requests
//! only. The engine plays them; `docs/workloads.md` describes the formats.

mod load;
mod tables;
mod text;
mod wsesslog;

pub use load::{Sessions, load_sessions, read_sessions};
pub use text::{BurstText, CallText, SessionFile, SessionText};
