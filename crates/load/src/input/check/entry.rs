//! A line of a URL list or check file: a target, then its weight, then conditions on its response.

use std::fmt;

use super::condition::Check;
use crate::input::text::{InputError, Line, excerpt, target_fault};
use crate::weights::is_weight;

/// A line of a URL list.
#[derive(Clone, Debug, PartialEq)]
pub struct ListEntry {
    /// The request target.
    pub target: String,
    /// The weight, if the line has one.
    pub weight: Option<f64>,
    /// The conditions on the response, if the line has some.
    pub check: Option<Check>,
    /// The line at which the target stands, from 1.
    pub line: usize,
    /// And the column, from 1.
    pub column: usize,
}

impl ListEntry {
    /// An error at the entry's target.
    pub fn error(&self, file: &str, what: impl Into<String>) -> InputError {
        InputError::new(file, self.line, self.column, what)
    }
}

/// Reads a line of a URL list or check file.
pub(crate) fn entry<E: fmt::Display>(
    line: Line<'_>,
    target_of: &mut impl FnMut(&str) -> Result<String, E>,
) -> Result<Option<ListEntry>, InputError> {
    let text = line.text()?;
    let at = text.len() - text.trim_start().len();
    let word = text[at..].split(char::is_whitespace).next().unwrap_or_default();
    if word.is_empty() || word.starts_with('#') {
        return Ok(None);
    }
    if let Some(fragment) = word.find('#') {
        return Err(line.error(at + fragment, "a fragment is never sent to a server; remove it"));
    }
    let target = if word.starts_with('/') {
        word.to_owned()
    } else {
        target_of(word).map_err(|error| line.error(at, error.to_string()))?
    };
    if let Some((fault, what)) = target_fault(target.as_bytes()) {
        // A target that was made of a URL has no place of its own.
        let fault = if word == target { fault } else { 0 };
        return Err(line.error(at + fault, format!("{}: {what}", excerpt(word.as_bytes()))));
    }
    let (weight, end) = weight(line, text, at + word.len())?;
    let has_check = !text[end..].trim().is_empty();
    let check = has_check.then(|| Check::parse_at(line, text.trim_end(), end)).transpose()?;
    Ok(Some(ListEntry { target, weight, check, line: line.number, column: line.column(at) }))
}

/// Reads the weight behind the byte `at` of a line, if there is one, and says where it ends. No
/// condition begins as a number does.
fn weight(line: Line<'_>, text: &str, at: usize) -> Result<(Option<f64>, usize), InputError> {
    let rest = text[at..].trim_start();
    if !rest.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) {
        return Ok((None, at));
    }
    let start = text.len() - rest.len();
    let word = rest.split(char::is_whitespace).next().unwrap_or_default();
    match word.parse().ok().filter(|&weight| is_weight(weight)) {
        Some(weight) => Ok((Some(weight), start + word.len())),
        None => {
            let shown = excerpt(word.as_bytes());
            let what = format!("{shown} is not a weight; expected a number greater than 0 and at most 1e100");
            Err(line.error(start, what))
        }
    }
}
