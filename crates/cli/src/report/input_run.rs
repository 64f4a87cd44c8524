//! A run that a report is about, and the page about several of them.

use thalweg_report as report;
use thalweg_report::document::{Document, SCHEMA};

use crate::exit::Failure;

/// A run with the text that it was read from, which a bundle keeps as it is.
pub(super) struct InputRun {
    pub(super) label: Option<String>,
    pub(super) text: String,
    pub(super) document: Document,
}

impl InputRun {
    /// Reads the text of a document; `from` names it in messages.
    pub(super) fn parse(from: &str, label: Option<String>, text: String) -> Result<Self, Failure> {
        let wrong = |what: String| Failure::usage(format!("{from} is no result of thalweg: {what}"));
        let document: Document = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        if document.schema != SCHEMA {
            return Err(wrong(format!("its schema is {:?}, expected {SCHEMA:?}", document.schema)));
        }
        Ok(Self { label, text, document })
    }

    pub(super) fn labelled(&self) -> (Option<&str>, &Document) {
        (self.label.as_deref(), &self.document)
    }
}

/// The page about the inputs: a function of them alone.
pub(super) fn page(inputs: &[InputRun]) -> String {
    match inputs {
        [one] => report::html(&one.document),
        several => report::html_of_several(&several.iter().map(InputRun::labelled).collect::<Vec<_>>()),
    }
}
