//! The result of one suite with one server.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::document::{Document, Measured, SuiteName};

/// One suite with one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The suite.
    pub suite: SuiteName,
    /// The server's name.
    pub server: String,
    /// SHA-256 of all that the cell depends on; one with another key is measured again.
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
    /// CPUs of the client process.
    #[serde(default)]
    pub client_cpus: Vec<usize>,
    /// The table's own choices beside those of the suite, one clause each.
    #[serde(default)]
    pub choices: Vec<String>,
    /// The result of the client process, if it gave one.
    pub document: Option<Document>,
}

/// The facts about a server that a reader needs to start the same one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerFacts {
    /// The first line of the version.
    pub version: Option<String>,
    /// The command, filled in, with `thalweg` for this program.
    pub command: String,
    /// The CPUs that it was pinned to.
    pub cpus: Vec<usize>,
    /// Its configurations by name, filled in.
    pub configurations: BTreeMap<String, String>,
    /// The limit on its descriptors.
    #[serde(default)]
    pub descriptors: u64,
    /// The descriptors that are left for connections: the bound of servers that have one.
    #[serde(default)]
    pub connections: u64,
}

/// How a cell has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CellState {
    /// The suite came to its end and has all its figures, whatever its verdict.
    Complete,
    /// The suite came to its end and lacks figures: it is measured again when the table goes on.
    Partial,
    /// The user ended it: it is measured again when the table goes on.
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

    /// Whether the suite came to its end, so that its figures can be compared.
    pub fn is_whole(&self) -> bool {
        matches!(self.state, CellState::Complete | CellState::Partial)
    }

    /// The titles of the figures that were not measured.
    pub fn missing(&self) -> Vec<String> {
        let figures = self.measured().map_or(&[][..], |measured| &measured.figures);
        figures.iter().filter(|figure| figure.value.is_none()).map(|figure| figure.title.clone()).collect()
    }

    /// Its worth as a result: of two cells with one key, the one with less is dropped.
    pub fn worth(&self) -> (bool, usize, bool) {
        let figures = self.measured().map_or(&[][..], |measured| &measured.figures);
        let values = figures.iter().filter(|figure| figure.value.is_some()).count();
        (self.state == CellState::Complete, values, self.is_whole())
    }

    /// Its result in one sentence.
    pub fn sentence(&self) -> String {
        match (self.state, self.measured()) {
            (CellState::Complete, Some(measured)) => measured.sentence(),
            (CellState::Partial, Some(measured)) => {
                format!("{} Not measured: {}.", measured.sentence(), self.missing().join(", "))
            }
            (CellState::Interrupted, _) => "interrupted".to_owned(),
            _ => format!("failed: {}", self.reasons.join("; ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Figure, Kind, Unit};
    use crate::sample;

    #[test]
    fn a_result_with_more_figures_is_worth_more() {
        let cell = |state: CellState, values: [Option<f64>; 2]| {
            let figure = |(name, value): (&str, Option<f64>)| Figure { value, ..Figure::new(name, name, Unit::Share) };
            let figures = ["first", "second"].into_iter().zip(values).map(figure).collect();
            let measured = Measured { figures, ..Measured::new(SuiteName::Heanet, 1.0) };
            Cell {
                suite: SuiteName::Heanet,
                server: "one".into(),
                key: String::new(),
                state,
                reasons: Vec::new(),
                started: String::new(),
                seconds: 0.0,
                server_facts: None,
                client_cpus: Vec::new(),
                choices: Vec::new(),
                document: Some(Document { suite: Some(measured), ..sample::document(Kind::Suite, Vec::new()) }),
            }
        };
        let ascending = [
            cell(CellState::Failed, [None, None]),
            cell(CellState::Interrupted, [Some(0.5), None]),
            cell(CellState::Partial, [Some(0.5), None]),
            cell(CellState::Failed, [Some(0.5), Some(0.5)]),
            cell(CellState::Complete, [Some(0.5), Some(0.5)]),
        ];
        assert!(ascending.iter().map(Cell::worth).is_sorted_by(|less, more| less < more));
        assert_eq!(ascending[2].sentence(), "heanet: first 50.0 %. Not measured: second.");
        assert_eq!(ascending.map(|cell| cell.is_whole()), [false, false, true, false, true]);
    }
}
