//! Tables in texts: columns side by side where they fit, else each row as a paragraph.

use std::fmt::{self, Write};

use textwrap::core::display_width;

/// The side of its column at which a cell stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Texts.
    Left,
    /// Numbers.
    Right,
}

/// A table. The first cell of a row is the row's name.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub(crate) fn new(columns: &[(&str, Align)]) -> Self {
        Self { columns: columns.iter().map(|(name, align)| ((*name).to_owned(), *align)).collect(), rows: Vec::new() }
    }

    /// Adds a row with a cell for each column.
    pub(crate) fn push(&mut self, row: impl IntoIterator<Item = String>) {
        self.rows.push(row.into_iter().collect());
    }

    /// Writes the table so many spaces from the margin. If it does not fit, each row is written as
    /// its name, and below it the other cells with the names of their columns.
    pub(crate) fn write(&self, out: &mut String, indent: usize, columns: Option<usize>) -> fmt::Result {
        let widths: Vec<usize> = (0..self.columns.len()).map(|column| self.width(column)).collect();
        let whole = indent + widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        let margin = " ".repeat(indent);
        if columns.is_some_and(|columns| whole > columns) {
            return self.rows.iter().try_for_each(|row| self.write_apart(out, &margin, row));
        }
        let names: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        for row in std::iter::once(&names).chain(&self.rows) {
            let cells = row.iter().zip(&widths).zip(&self.columns).map(|((cell, width), (_, align))| {
                let blanks = " ".repeat(width.saturating_sub(display_width(cell)));
                if *align == Align::Left { format!("{cell}{blanks}") } else { format!("{blanks}{cell}") }
            });
            let line = cells.collect::<Vec<_>>().join("  ");
            writeln!(out, "{margin}{}", line.trim_end())?;
        }
        Ok(())
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| display_width(cell));
        cells.chain([display_width(&self.columns[column].0)]).max().unwrap_or(0)
    }

    fn write_apart(&self, out: &mut String, margin: &str, row: &[String]) -> fmt::Result {
        let mut cells = row.iter().zip(&self.columns);
        if let Some((name, _)) = cells.next() {
            writeln!(out, "{margin}{name}")?;
        }
        // A dash keeps a place in a column; here there is none to keep.
        let known = cells.filter(|(cell, _)| !["", "-"].contains(&cell.as_str()));
        let cells: Vec<String> = known.map(|(cell, (name, _))| format!("{name} {cell}")).collect();
        if cells.is_empty() { Ok(()) } else { writeln!(out, "{margin}  {}", cells.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(columns: Option<usize>, expected: &str) {
        let mut table = Table::new(&[("", Align::Left), ("A", Align::Right), ("notes", Align::Left)]);
        table.push(["rate".to_owned(), "1,000/s".to_owned(), "x".to_owned()]);
        table.push(["p99".to_owned(), "2 ms".to_owned(), String::new()]);
        table.push(["p50".to_owned(), "-".to_owned(), "none".to_owned()]);
        let mut text = String::new();
        table.write(&mut text, 2, columns).expect("a string takes everything");
        assert_eq!(text, expected);
    }

    #[test]
    fn columns_stand_side_by_side_where_they_fit() {
        let whole = "              A  notes\n  rate  1,000/s  x\n  p99      2 ms\n  p50         -  none\n";
        check(None, whole);
        check(Some(22), whole);
        check(Some(21), "  rate\n    A 1,000/s, notes x\n  p99\n    A 2 ms\n  p50\n    notes none\n");
    }
}
