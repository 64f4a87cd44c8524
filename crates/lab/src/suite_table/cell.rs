//! The result of one suite with one server.

use serde::{Deserialize, Serialize};

use crate::document::{Document, Measured, SuiteName};
use crate::servers::ServerFacts;

/// One suite with one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The suite.
    pub suite: SuiteName,
    /// The server's name.
    pub server: String,
    /// SHA-256 of all that the cell depends on; another one is measured again.
    pub key: String,
    /// Whether it was measured.
    pub state: CellState,
    /// Why it was not, or not completely; one sentence each.
    pub reasons: Vec<String>,
    /// When it began, RFC 3339, UTC.
    pub started: String,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The server, if it has started.
    pub server_facts: Option<ServerFacts>,
    /// The result of the client process, if it gave one.
    pub document: Option<Document>,
}

/// How a cell has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CellState {
    /// The suite came to its end and has a figure, whatever its verdict.
    Complete,
    /// The user ended it, or the disk was full: it is measured again when the table goes on.
    Interrupted,
    /// The server did not start, has ended, or the suite gave no figure: it is tried again when the
    /// table goes on.
    Failed,
}

impl Cell {
    /// The figures, if there are any.
    pub fn measured(&self) -> Option<&Measured> {
        self.document.as_ref()?.suite.as_ref()
    }

    /// Its result in one sentence.
    pub fn sentence(&self) -> String {
        match (self.state, self.measured()) {
            (CellState::Complete, Some(measured)) => measured.sentence(),
            (CellState::Interrupted, _) => "interrupted".to_owned(),
            _ => format!("failed: {}", self.reasons.join("; ")),
        }
    }
}
