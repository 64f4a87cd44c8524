//! The table as text: for each figure of a suite the servers, one a line.

use std::fmt::Write as _;

use thalweg_report::cell::{Cell, CellState};
use thalweg_report::document::SuiteName;

/// The figures of all cells. It fits 60 columns, so that it can be mailed.
pub(super) fn of(cells: &[Cell]) -> String {
    let mut text = String::new();
    for suite in SuiteName::ALL {
        let of_suite: Vec<&Cell> = cells.iter().filter(|cell| cell.suite == suite).collect();
        if of_suite.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{}", suite.title());
        let width = of_suite.iter().map(|cell| cell.server.len()).max().unwrap_or(0);
        let longest = of_suite.iter().filter_map(|cell| cell.measured()).max_by_key(|measured| measured.figures.len());
        for figure in longest.map_or(&[][..], |measured| &measured.figures) {
            let _ = writeln!(text, "  {}", figure.title);
            for cell in &of_suite {
                if let Some(figure) = cell.measured().and_then(|measured| measured.figure(&figure.name)) {
                    let _ = writeln!(text, "    {:width$}  {}", cell.server, figure.text());
                }
            }
        }
        for cell in of_suite.iter().filter(|cell| cell.state != CellState::Complete) {
            let _ = writeln!(text, "  {}: {}", cell.server, cell.sentence());
        }
        text.push('\n');
    }
    text
}
