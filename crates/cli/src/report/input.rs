//! The runs that a report is about: from the store, from a file, from a bundle.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use serde_json::Value;
use thalweg_lab::document::{Document, SCHEMA};
use thalweg_store::{StoreError, StoredDocument};

use super::bundle;
use crate::exit::Failure;
use crate::options::StorePlace;
use crate::runs;

/// A run with the text that it was read from, which a bundle keeps as it is.
pub(super) struct Input {
    pub(super) label: Option<String>,
    pub(super) text: String,
    pub(super) document: Document,
}

impl Input {
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

/// Reads all runs in the order in which they were named.
///
/// # Errors
/// A run is unknown, or cannot be read.
pub(super) fn read(names: &[String], place: &StorePlace) -> Result<Vec<Input>, Failure> {
    let mut inputs = Vec::new();
    for name in names {
        let path = Path::new(name);
        if name == "-" {
            let mut text = String::new();
            io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| Failure::usage(format!("cannot read stdin: {error}")))?;
            inputs.push(Input::parse("stdin", None, text)?);
        } else if bundle::is_bundle(path) {
            inputs.extend(bundle::read(path)?);
        } else if path.is_file() {
            let text =
                fs::read_to_string(path).map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
            inputs.push(Input::parse(name, None, text)?);
        } else {
            inputs.push(stored(name, place)?);
        }
    }
    Ok(inputs)
}

fn stored(name: &str, place: &StorePlace) -> Result<Input, Failure> {
    let unknown = || Failure::usage(format!("{name:?} is neither a file nor a stored run: no runs are stored"));
    let store = runs::open(place)?.ok_or_else(unknown)?;
    let run = store.find(name).map_err(|error| match error {
        StoreError::Unknown { .. } => Failure::usage(format!("{name:?} is no file, and {error}")),
        other => Failure::usage(other),
    })?;
    let text = whole(store.document(&run.id).map_err(Failure::usage)?)
        .map_err(|error| Failure::usage(format!("the stored run {} cannot be read: {error}", run.id)))?;
    Input::parse(&format!("the stored run {}", run.id), run.label, text)
}

/// The document of a run; one that did not come to its end gets its trials.
fn whole(stored: StoredDocument) -> serde_json::Result<String> {
    if stored.trials.is_empty() {
        return Ok(stored.document);
    }
    let mut document: Value = serde_json::from_str(&stored.document)?;
    let trials: serde_json::Result<Vec<Value>> =
        stored.trials.iter().map(|trial| serde_json::from_str(trial)).collect();
    document["trials"] = Value::Array(trials?);
    serde_json::to_string(&document)
}
