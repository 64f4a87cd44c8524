//! Runs as they are entered and listed.

/// The facts of a run that are known when it begins.
#[derive(Clone, Copy, Debug)]
pub struct NewRun<'a> {
    /// The document's id.
    pub id: &'a str,
    /// The command.
    pub kind: &'a str,
    /// When it began, RFC 3339 in UTC; lists are in this order.
    pub started: &'a str,
    /// The target as it was given.
    pub target: &'a str,
    /// A name that the user gave, not necessarily unique.
    pub label: Option<&'a str>,
    /// A remark of the user.
    pub note: Option<&'a str>,
}

/// The facts of a run that are known at its end.
#[derive(Clone, Copy, Debug)]
pub struct FinishedRun<'a> {
    /// The verdict on the whole.
    pub verdict: &'a str,
    /// Requests per second, where the command was to find them.
    pub capacity: Option<f64>,
    /// The answer in one sentence.
    pub answer: &'a str,
    /// The user ended it before its time.
    pub interrupted: bool,
}

/// A run as a list shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// The document's id.
    pub id: String,
    /// The command.
    pub kind: String,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    /// The target as it was given.
    pub target: String,
    /// A name that the user gave.
    pub label: Option<String>,
    /// A remark of the user.
    pub note: Option<String>,
    /// How far it came.
    pub state: State,
    /// The verdict on the whole; `None` if it did not end by itself.
    pub verdict: Option<String>,
    /// Requests per second, where the command found them.
    pub capacity: Option<f64>,
    /// The answer in one sentence.
    pub answer: Option<String>,
    /// Its size in the store, compressed.
    pub bytes: u64,
}

/// How far a run came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its process is at work.
    Running,
    /// It came to its end.
    Complete,
    /// The user ended it before its time, or its process is gone.
    Interrupted,
}

impl State {
    /// The state's name in lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Interrupted => "interrupted",
        }
    }
}

/// A document in JSON. That of a run that did not come to its end has no trials; they stand beside
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDocument {
    /// The document.
    pub document: String,
    /// The trials of a run that did not come to its end, in their order.
    pub trials: Vec<String>,
}
