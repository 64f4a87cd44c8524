//! Folders of trees and buckets: pages that list them, and what a server adds to objects of origins
//! that are no HTTP servers.
//!
//! A folder is listed once for all of its pages, and again when it is older than a listing is kept:
//! requests for it at the same time wait for one listing, and are released together by its failure,
//! too. Folders that were listed are bounded in
//! bytes together. The pages are responses like others, which the store keeps.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use thalweg_origin::{Listing, OriginGroup};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::upstream::UpstreamFailure;

/// A listing is kept for this long.
const LISTING_AGE: Duration = Duration::from_secs(10);

/// It is kept for at least this many times what it took, so that listing a large bucket stays a
/// small part of its requests.
const REST_FACTOR: u32 = 20;

/// Most folders that are kept.
const FOLDERS_MAX: usize = 1024;

/// A server adds this to trees and buckets. Paths are those of targets: below the mount,
/// percent-encoded, with a slash at the beginning.
pub trait FolderPages: Send + Sync {
    /// The names of the files that are sent for a folder, percent-encoded, first the one that is
    /// preferred.
    fn index_names(&self, folder: &str) -> Arc<[String]>;

    /// Whether a folder without such a file is listed.
    fn is_listed(&self, folder: &str) -> bool;

    /// The media type of an object that has none of its own.
    fn media_type(&self, path: &str) -> Cow<'static, str>;

    /// A folder with these entries. May take long.
    fn folder(&self, path: &str, listing: Listing) -> Arc<dyn ListedFolder>;

    /// Most bytes of folders that are kept.
    fn bytes_max(&self) -> usize;
}

/// A folder that was listed.
pub trait ListedFolder: Send + Sync {
    /// Bytes of memory held.
    fn bytes(&self) -> usize;

    /// The page that a request asks for; `None` if there is no such page. May take long.
    ///
    /// # Errors
    /// The request asks for all entries in a form that does not say that some are missing.
    fn page(&self, asked: FolderView<'_>) -> Result<Option<FolderPage>, IncompleteListing>;
}

/// The properties of a request for a page.
#[derive(Clone, Copy, Debug)]
pub struct FolderView<'q> {
    /// Its query.
    pub query: Option<&'q str>,
    /// The client names HTML among the media types that it accepts.
    pub names_html: bool,
    /// It accepts gzip, which is used if that is worth it.
    pub is_gzip: bool,
}

/// Not all entries of a folder are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncompleteListing;

/// A page of a folder.
pub struct FolderPage {
    /// Its fields, ETag among them.
    pub fields: Vec<(&'static str, Vec<u8>)>,
    /// The value of its ETag.
    pub tag: Vec<u8>,
    /// Its bytes.
    pub body: FolderBody,
}

/// The bytes of a page.
pub enum FolderBody {
    /// All of them.
    Memory(Bytes),
    /// Pieces that are made one after the other, so that their length is not known.
    Pieces(Box<dyn FolderPieces>),
}

/// The pieces of a page.
pub trait FolderPieces: Send {
    /// The next one, of at least one byte; `None` after the last. May take long.
    fn next(&mut self) -> Option<Bytes>;
}

/// The folders that were listed lately.
#[derive(Default)]
pub(crate) struct ListedFolders {
    folders: Mutex<HashMap<Box<str>, Arc<Place>>>,
    uses: AtomicU64,
}

/// A folder that is or was listed.
#[derive(Default)]
struct Place {
    state: Mutex<State>,
    bytes: AtomicUsize,
    used: AtomicU64,
}

#[derive(Default)]
struct State {
    listed: Option<Listed>,
    /// The outcome of the listing that is under way. It is closed without one if the request that
    /// lists has ended.
    under_way: Option<watch::Receiver<Option<Found>>>,
}

/// The outcome of a listing; `None` if there is no such folder.
type Found = Result<Option<Listed>, UpstreamFailure>;

/// The way of a request to a folder.
enum Role {
    Knows(Listed),
    Lists(watch::Sender<Option<Found>>),
    Waits(watch::Receiver<Option<Found>>),
}

impl Place {
    fn join(&self) -> Role {
        let mut state = self.state();
        if let Some(known) = state.listed.as_ref().filter(|known| Instant::now() < known.fresh_until) {
            return Role::Knows(known.clone());
        }
        if let Some(under_way) = state.under_way.as_ref().filter(|receiver| receiver.has_changed().is_ok()) {
            return Role::Waits(under_way.clone());
        }
        let (sender, receiver) = watch::channel(None);
        state.under_way = Some(receiver);
        Role::Lists(sender)
    }

    /// Ends a listing, and releases all that wait for it.
    fn release(&self, sender: &watch::Sender<Option<Found>>, found: &Found) {
        let mut state = self.state();
        state.under_way = None;
        if let Ok(Some(listed)) = found {
            state.listed = Some(listed.clone());
        }
        sender.send_replace(Some(found.clone()));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone)]
pub(crate) struct Listed {
    pub(crate) folder: Arc<dyn ListedFolder>,
    fresh_until: Instant,
}

impl Listed {
    /// The seconds for which it is kept from now on, at least 1.
    pub(crate) fn fresh_s(&self) -> u64 {
        self.fresh_until.saturating_duration_since(Instant::now()).as_secs().max(1)
    }
}

impl ListedFolders {
    /// The folder at a path with a slash at its end, as it was listed lately or is listed now;
    /// `None` if there is no such folder.
    pub(crate) async fn find(&self, origins: &OriginGroup, pages: &Arc<dyn FolderPages>, path: &str) -> Found {
        let list = || async {
            let begun = Instant::now();
            let Some(listing) = origins.list(path).await? else { return Ok(None) };
            let age = LISTING_AGE.max(begun.elapsed() * REST_FACTOR);
            let (pages, own_path) = (Arc::clone(pages), path.to_owned());
            let folder = beside(move || pages.folder(&own_path, listing)).await?;
            Ok(Some(Listed { fresh_until: Instant::now() + age, folder }))
        };
        self.share(path, pages.bytes_max(), list).await
    }

    /// The folder at a path as it is known, or as it is listed now by one of the requests that want
    /// it.
    async fn share(&self, path: &str, bytes_max: usize, list: impl AsyncFnOnce() -> Found) -> Found {
        let (place, sender) = loop {
            let place = self.place(path);
            match place.join() {
                Role::Knows(listed) => return Ok(Some(listed)),
                Role::Lists(sender) => break (place, sender),
                Role::Waits(mut receiver) => {
                    if let Ok(found) = receiver.wait_for(Option::is_some).await {
                        return found.clone().unwrap_or(Ok(None));
                    }
                }
            }
        };
        let found = list().await;
        match &found {
            Ok(Some(new)) => place.bytes.store(new.folder.bytes() + path.len(), Ordering::Relaxed),
            Ok(None) | Err(_) => drop(self.folders().remove(path)),
        }
        place.release(&sender, &found);
        self.bound(bytes_max);
        found
    }

    fn place(&self, path: &str) -> Arc<Place> {
        let mut folders = self.folders();
        let place = match folders.get(path) {
            Some(place) => Arc::clone(place),
            None => Arc::clone(folders.entry(path.into()).or_default()),
        };
        place.used.store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        place
    }

    /// Lets go of the folders whose last use is longest ago, as long as there are too many. One
    /// that is larger than all together may be goes at once.
    fn bound(&self, bytes_max: usize) {
        let mut folders = self.folders();
        let mut bytes: usize = folders.values().map(|place| place.bytes.load(Ordering::Relaxed)).sum();
        while bytes > bytes_max || folders.len() > FOLDERS_MAX {
            let oldest = folders.iter().min_by_key(|(_, place)| place.used.load(Ordering::Relaxed));
            let Some(path) = oldest.map(|(path, _)| path.clone()) else { return };
            if let Some(place) = folders.remove(&path) {
                bytes -= place.bytes.load(Ordering::Relaxed).min(bytes);
            }
        }
    }

    fn folders(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Place>>> {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does what takes long on a thread for that.
pub(crate) async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, UpstreamFailure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| UpstreamFailure { status: 502, reason: "the thread that made a listing has failed".into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests for a folder whose listing takes its origin 30 s, each with what it waited and got.
    async fn asked(count: usize, known: &Arc<ListedFolders>, found: &Found) -> (usize, Vec<(Duration, bool)>) {
        let listings = Arc::new(AtomicUsize::new(0));
        let mut requests = tokio::task::JoinSet::new();
        for _ in 0..count {
            let (known, listings, found) = (Arc::clone(known), Arc::clone(&listings), found.clone());
            requests.spawn(async move {
                let begun = Instant::now();
                let list = || async {
                    listings.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_secs(30)).await;
                    found
                };
                let got = known.share("/a/", usize::MAX, list).await;
                (begun.elapsed(), got.is_ok())
            });
        }
        let waited = requests.join_all().await;
        (listings.load(Ordering::Relaxed), waited)
    }

    #[tokio::test(start_paused = true)]
    async fn requests_for_a_folder_that_hangs_are_released_together() {
        let known = Arc::new(ListedFolders::default());
        let failure = UpstreamFailure { status: 504, reason: "no answer".into() };
        let (listings, waited) = asked(100, &known, &Err(failure.clone())).await;
        assert_eq!((listings, waited.len()), (1, 100));
        // The clock of timers has milliseconds.
        assert!(waited.iter().all(|(time, is_ok)| *time <= Duration::from_millis(30_010) && !is_ok), "{waited:?}");
        assert!(known.folders().is_empty());
        // One that is not there is no failure.
        let (listings, waited) = asked(3, &known, &Ok(None)).await;
        assert!(listings == 1 && waited.iter().all(|(_, is_ok)| *is_ok), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_listing_whose_request_ends_is_begun_by_the_next() {
        let known = Arc::new(ListedFolders::default());
        let hanging = known.share("/a/", usize::MAX, std::future::pending::<Found>);
        assert!(tokio::time::timeout(Duration::from_secs(1), hanging).await.is_err());
        let (listings, waited) = asked(2, &known, &Ok(None)).await;
        assert!(listings == 1 && waited.len() == 2, "{listings} {waited:?}");
    }

    #[test]
    fn the_folders_used_last_are_kept() {
        let known = ListedFolders::default();
        for (path, bytes) in [("/a/", 40), ("/b/", 40), ("/c/", 40)] {
            known.place(path).bytes.store(bytes, Ordering::Relaxed);
        }
        known.place("/a/");
        known.bound(120);
        assert_eq!(known.folders().len(), 3);
        known.bound(100);
        let mut left: Vec<_> = known.folders().keys().map(ToString::to_string).collect();
        left.sort();
        assert_eq!(left, ["/a/", "/c/"]);
        known.bound(39);
        assert!(known.folders().is_empty());
        for number in 0..=FOLDERS_MAX {
            known.place(&format!("/{number}/"));
        }
        known.bound(0);
        assert_eq!(known.folders().len(), FOLDERS_MAX);
    }
}
