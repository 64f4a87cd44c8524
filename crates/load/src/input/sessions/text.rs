//! The calls of a session file as they were read, in either format.

use std::borrow::Cow;
use std::time::Duration;

use crate::input::text::InputError;

/// A session file as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFile<'a> {
    /// Its name, for messages.
    pub file: &'a str,
    /// In the order of the file; never empty.
    pub sessions: Vec<SessionText<'a>>,
}

/// One session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionText<'a> {
    /// In order; never empty.
    pub bursts: Vec<BurstText<'a>>,
}

/// Calls without think time between them: one, and those that follow when it has been responded to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BurstText<'a> {
    /// In order; never empty.
    pub calls: Vec<CallText<'a>>,
    /// From the burst's last response to the next burst; `None`: as the command says.
    pub think: Option<Duration>,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallText<'a> {
    /// The method.
    pub method: Cow<'a, str>,
    /// The request target.
    pub target: Cow<'a, str>,
    /// Further fields.
    pub fields: Vec<(String, String)>,
    /// The body; empty for none.
    pub body: Cow<'a, [u8]>,
    /// The line at which its target stands, from 1.
    pub line: u32,
    /// And the column, from 1.
    pub column: u32,
}

impl CallText<'_> {
    /// An error at the call's target.
    pub fn error(&self, file: &str, what: impl Into<String>) -> InputError {
        InputError::new(file, self.line as usize, self.column as usize, what)
    }
}
