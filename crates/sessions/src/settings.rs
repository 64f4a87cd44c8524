//! The settings of a conversion.

use std::fmt;

use thalweg_formats::log_format::LogFormat;

use crate::filter::Filter;

/// Settings of a conversion.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The log's format. Where a virtual host is selected, the common one has it in front of each
    /// line.
    pub format: LogFormat,
    /// Which requests are of one client.
    pub client: Client,
    /// Seconds without a request after which a client's next one begins another session; at most
    /// [`GAP_S_MAX`].
    pub gap_s: u32,
    /// Requests belong to the burst of a page if they came at most so many seconds after the page.
    pub burst_s: u32,
    /// Longer think times are shortened to this, in seconds; `None`: none is.
    pub think_max_s: Option<u32>,
    /// Only so many sessions, the first ones to begin; `None`: all.
    pub sessions_max: Option<u64>,
    /// About how many bytes open and finished sessions may take before sessions are closed early.
    pub memory_bytes: usize,
    /// The body of requests whose method has one, which no log contains; `None`: they are dropped.
    pub contents: Option<Contents>,
    /// Which requests are taken.
    pub filter: Filter,
}

/// Which requests are of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// Those from one address.
    Address,
    /// Those from one address with one user agent.
    AddressAndAgent,
}

/// A body, as it is written in a session file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    quoted: String,
}

/// A body is too long, as it is written: this many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentsError(pub usize);

/// The longest gap: a day.
pub const GAP_S_MAX: u32 = 86_400;

/// The longest body, as it is written. httperf 0.9 reads lines of at most 9,999 bytes.
pub const CONTENTS_BYTES_MAX: usize = 8_000;

impl Contents {
    /// A body with this text.
    ///
    /// # Errors
    /// It takes more than [`CONTENTS_BYTES_MAX`] as it is written.
    pub fn new(text: &str) -> Result<Self, ContentsError> {
        let mut quoted = String::with_capacity(text.len() + 2);
        quoted.push('"');
        for character in text.chars() {
            match character {
                '\n' => quoted.push_str("\\n"),
                '\r' => quoted.push_str("\\r"),
                '\t' => quoted.push_str("\\t"),
                '"' | '\\' => quoted.extend(['\\', character]),
                other => quoted.push(other),
            }
        }
        quoted.push('"');
        if quoted.len() > CONTENTS_BYTES_MAX { Err(ContentsError(quoted.len())) } else { Ok(Self { quoted }) }
    }

    /// The body in quotes, with escapes.
    pub(crate) fn quoted(&self) -> &str {
        &self.quoted
    }
}

impl fmt::Display for ContentsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the contents take {} bytes with quotes; expected at most {CONTENTS_BYTES_MAX}", self.0)
    }
}

impl std::error::Error for ContentsError {}
