//! Access logs as sessions: which requests one client made, in bursts, with think times between
//! them, as a session file in httperf's `--wsesslog` format.
//!
//! A [`Converter`] takes a log line by line and gives each finished session to a [`Sink`] at once.
//! Its memory is bounded, however long the log is. Opening, unpacking and writing files is the
//! caller's; reading session files is `load`'s.
#![forbid(unsafe_code)]

mod converter;
mod filter;
mod method;
mod open;
mod order;
mod settings;
mod summary;
mod text;

pub use converter::{Converter, Sink};
pub use filter::{Filter, Methods, StatusRange};
pub use method::LoggedMethod;
pub use settings::{CONTENTS_BYTES_MAX, Client, Contents, ContentsError, GAP_S_MAX, Settings};
pub use summary::{DropCounts, Summary, Thinks};

pub use thalweg_formats::access_log::LogFault;
pub use thalweg_formats::log_format::{Detected, LogFormat, detect as detect_format};
