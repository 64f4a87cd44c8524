//! The requests of a suite: the files of its tree beneath the target's URL, each with the status
//! and length of a good response.

use thalweg_load::{Check, PackedRequests, RequestList, RequestParts};
use thalweg_trees::TreeFile;
use thalweg_wire::Version;

use super::settings::{SuiteError, SuiteSettings};
use crate::target::Target;

/// One request for each of these files.
///
/// # Errors
/// A path or a field of the settings cannot be written.
pub(super) fn of<'a>(
    files: impl IntoIterator<Item = &'a TreeFile>,
    target: &Target,
    version: Version,
    settings: &SuiteSettings,
) -> Result<RequestList, SuiteError> {
    let mut requests = PackedRequests::new(&target.authority, version, &settings.fields, b"");
    let base = base_path(target);
    let mut weights = Vec::new();
    for file in files {
        weights.push(file.weight);
        let path = format!("{base}{}", file.path);
        let parts = RequestParts { method: "GET", target: &path, fields: &[], body: b"" };
        let check = whole(file.size);
        requests
            .push(&parts, Some(&check), None)
            .map_err(|source| SuiteError::Request { path: path.clone(), source })?;
    }
    let list = RequestList::from(requests.finish(None));
    Ok(list.weighted(weights).expect("the weights of a tree are shares"))
}

/// The path beneath which the target has the tree, with a slash at its end.
pub(super) fn base_path(target: &Target) -> String {
    format!("{}/", target.url.path().trim_end_matches('/'))
}

/// The check of a response: all of the file.
pub(super) fn whole(bytes: u64) -> Check {
    Check::parse(&format!("status=200,length={bytes}")).expect("a valid check")
}
