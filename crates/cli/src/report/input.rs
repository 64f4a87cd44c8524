//! The runs that a report is about: from the store, from a file, from a bundle.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use serde_json::Value;
use thalweg_store::{StoreError, StoredDocument};

use super::bundle;
use super::input_run::InputRun;
use crate::exit::Failure;
use crate::options::StorePlace;
use crate::runs;

/// Reads all runs in the order in which they were named.
///
/// # Errors
/// A run is unknown, or cannot be read.
pub(super) fn read(names: &[String], place: &StorePlace) -> Result<Vec<InputRun>, Failure> {
    let mut inputs = Vec::new();
    for name in names {
        let path = Path::new(name);
        if name == "-" {
            let mut text = String::new();
            io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| Failure::usage(format!("cannot read stdin: {error}")))?;
            inputs.push(InputRun::parse("stdin", None, text)?);
        } else if bundle::is_bundle(path) {
            inputs.extend(bundle::read(path)?);
        } else if path.is_file() {
            let text =
                fs::read_to_string(path).map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
            inputs.push(InputRun::parse(name, None, text)?);
        } else {
            inputs.push(stored(name, place)?);
        }
    }
    Ok(inputs)
}

fn stored(name: &str, place: &StorePlace) -> Result<InputRun, Failure> {
    let unknown = || Failure::usage(format!("{name:?} is neither a file nor a stored run: no runs are stored"));
    let store = runs::open(place)?.ok_or_else(unknown)?;
    let run = store.find(name).map_err(|error| match error {
        StoreError::Unknown { .. } => Failure::usage(format!("{name:?} is no file, and {error}")),
        other => Failure::usage(other),
    })?;
    let text = whole(store.document(&run.id).map_err(Failure::usage)?)
        .map_err(|error| Failure::usage(format!("the stored run {} cannot be read: {error}", run.id)))?;
    InputRun::parse(&format!("the stored run {}", run.id), run.label, text)
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
