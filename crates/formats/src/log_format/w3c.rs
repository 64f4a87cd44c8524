//! W3C's extended format, whose `#Fields` name the columns: IIS with blanks between them,
//! CloudFront with tabs. A log may have several such lines, each for those behind it.

use super::parts::{Part, Parts};
use super::time::TimeForm;
use crate::access_log::LogFault;

/// The columns of the lines that follow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Columns {
    columns: Vec<Column>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Date,
    Time,
    Part(Part),
    Other,
}

/// Columns at most.
const COLUMNS_MAX: usize = 200;

/// Whether a line is a directive.
pub(super) fn is_directive(line: &[u8]) -> bool {
    line.starts_with(b"#")
}

impl Columns {
    /// Takes a directive; all but `#Fields` mean nothing here.
    pub(super) fn take(&mut self, directive: &[u8]) {
        let Some(names) = directive.strip_prefix(b"#Fields:") else { return };
        let names = names.split(u8::is_ascii_whitespace).filter(|name| !name.is_empty());
        self.columns = names.take(COLUMNS_MAX).map(column).collect();
    }

    /// Whether lines can be read: there are a time and a request.
    pub(super) fn suffice(&self) -> bool {
        let has = |column| self.columns.contains(&column);
        has(Column::Time) && has(Column::Part(Part::Method)) && has(Column::Part(Part::Path))
    }

    /// Takes a line apart.
    ///
    /// # Errors
    /// It has other columns.
    pub(super) fn read<'a>(&self, line: &'a [u8]) -> Result<Parts<'a>, LogFault> {
        if !self.suffice() {
            return Err(LogFault {
                at: 0,
                expected: "a line with #Fields, among them time, cs-method and cs-uri-stem",
            });
        }
        let separator = if line.contains(&b'\t') { b'\t' } else { b' ' };
        let mut parts = Parts { is_plain: true, ..Parts::default() };
        let (mut at, mut found) = (0, 0);
        let (mut date, mut clock): (&[u8], &[u8]) = (b"", b"");
        for (text, column) in line.split(|byte| *byte == separator).zip(&self.columns) {
            match column {
                Column::Date => date = text,
                Column::Time => clock = text,
                Column::Part(part) => parts.set(*part, text),
                Column::Other => {}
            }
            at += text.len() + 1;
            found += 1;
        }
        if found < self.columns.len() {
            return Err(LogFault { at: at.saturating_sub(1), expected: "as many columns as #Fields has" });
        }
        let text = [date, if date.is_empty() { b"" } else { b"T" }, clock].concat();
        let moment = TimeForm::Iso.read(&text);
        parts.moment =
            Some(moment.ok_or(LogFault { at: 0, expected: "a date and a time such as 2000-10-10 13:55:36" })?);
        Ok(parts)
    }
}

fn column(name: &[u8]) -> Column {
    let part = match name.to_ascii_lowercase().as_slice() {
        b"date" => return Column::Date,
        b"time" => return Column::Time,
        b"c-ip" => Part::Client,
        b"x-forwarded-for" | b"cs(x-forwarded-for)" => Part::Forwarded,
        b"cs-method" => Part::Method,
        b"cs-uri-stem" => Part::Path,
        b"cs-uri-query" => Part::Query,
        b"sc-status" => Part::Status,
        b"sc-bytes" => Part::Bytes,
        b"x-host-header" | b"cs-host" | b"cs(host)" => Part::Host,
        b"cs(referer)" => Part::Referer,
        b"cs(user-agent)" => Part::Agent,
        _ => return Column::Other,
    };
    Column::Part(part)
}
