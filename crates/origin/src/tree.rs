//! A tree of local files on a slow file system, as an origin for reading. All calls run in threads
//! that may wait; a call that hangs keeps its place among the requests at once, so that threads do
//! not pile up.
//!
//! The media type follows from the name and is the server's to add.

mod conditions;
mod look;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use thalweg_sys::Root;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::admission::Permit;
use crate::body::{Body, FileBody, Report, Source};
use crate::config::OriginConfig;
use crate::exchange::AttemptFailure;
use crate::failure::{Failure, FailureKind, Phase};
use crate::listing::Listing;
use crate::message::Request;
use crate::path::split_query;
use crate::refusals::{folder, folder_at, read_only, status};
use crate::response::Answer;
use crate::standing::Standing;

use look::{Found, Selected};

/// A tree and how it is read.
pub(crate) struct Tree {
    root: Root,
    head_time: Duration,
    between_bytes: Duration,
    entries_max: usize,
    standing: Arc<Standing>,
}

impl Tree {
    /// Opens the root.
    pub(crate) fn new(config: &OriginConfig, root: &Path, standing: &Arc<Standing>) -> Result<Self, String> {
        Ok(Self {
            root: Root::open(root).map_err(|error| format!("opening the folder {}: {error}", root.display()))?,
            head_time: config.times.head,
            between_bytes: config.times.between_bytes,
            entries_max: config.limits.entries_max,
            standing: Arc::clone(standing),
        })
    }

    /// One attempt of a request.
    pub(crate) async fn fetch(&self, request: &Request, permit: Permit) -> Result<Answer, AttemptFailure> {
        if !request.is_repeatable() {
            return Ok(read_only());
        }
        let (root, asked) = (self.root.clone(), request.clone());
        let found = self.in_thread(&permit, move || look::at(&root, &asked)).await?;
        let selected = match found {
            Found::File(selected) => selected,
            Found::Folder { has_slash: true } => return Ok(folder()),
            Found::Folder { has_slash: false } => return Ok(folder_at(&location(&request.path))),
            Found::Nothing(code) => return Ok(status(code)),
        };
        let Selected { status, fields, file, first, end } = selected;
        let report = Report { standing: Arc::clone(&self.standing), is_success: true, _permit: Permit::clone(&permit) };
        let length = end - first;
        let end = if request.method == Method::HEAD { first } else { end };
        let source = Source::File(FileBody::new(file, first, end, self.between_bytes, permit));
        let body = Body::new(source, Some(end - first), report);
        Ok(Answer { status, fields, length: Some(length), body, version: None, address: None, note: None })
    }

    /// The entries of a folder, at most so many; `None` if there is no such folder.
    pub(crate) async fn list(
        &self,
        path: &str,
        entries_max: usize,
        permit: Permit,
    ) -> Result<Option<Listing>, AttemptFailure> {
        let (root, path, entries_max) = (self.root.clone(), path.to_owned(), entries_max.min(self.entries_max));
        self.in_thread(&permit, move || look::list(&root, &path, entries_max)).await
    }

    async fn in_thread<T: Send + 'static>(
        &self,
        permit: &Permit,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, AttemptFailure> {
        let place = Permit::clone(permit);
        let job = spawn_blocking(move || {
            let outcome = work();
            drop(place);
            outcome
        });
        let failed = |failure| AttemptFailure { is_unsent: false, ..AttemptFailure::unsent(failure) };
        match timeout(self.head_time, job).await {
            Ok(Ok(outcome)) => outcome.map_err(failed),
            Ok(Err(_)) => Err(failed(Failure::new(FailureKind::Read, "the thread that opened the file has failed"))),
            Err(_) => {
                let text = format!("the file system did not answer within {:?}", self.head_time);
                Err(failed(Failure::timeout(Phase::Head, text)))
            }
        }
    }
}

/// The path of a folder with its slash. It is relative to the last segment, since the mount may be
/// elsewhere than the tree's root.
fn location(path: &str) -> Vec<u8> {
    let (path, query) = split_query(path);
    let name = path.rsplit('/').next().unwrap_or_default();
    // A colon in the first segment would be that of a scheme (RFC 3986, 4.2).
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("./{name}/{query}").into_bytes()
}
