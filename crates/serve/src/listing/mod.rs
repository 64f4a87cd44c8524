//! Listings: pages of folders that have no index.
//!
//! [`Listings`] keeps, per loop and bounded in bytes, the folders that were read and the pages that
//! were made of them; a page is an [`Object`] like any file, so that conditions, HEAD and ranges
//! mean the same. A job reads and renders, because that may take long, and compresses pages that
//! are worth it: the compressed page is a variant of the page, kept and forgotten with it. A
//! program gets all entries of a folder, which are written while they are sent.
//!
//! Lacking on purpose: scripts, thumbnails, and a tree that is walked.

mod checksums;
mod folder;
mod frame;
mod index;
mod json;
mod natural;
mod origin;
mod page;
mod read;
mod style;
mod text;
mod view;
mod whole;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use foldhash::quality::RandomState;
use thalweg_sys::{Instant, Wait};
use thalweg_wire::coding::Coding;

pub use self::origin::OriginPages;

use self::folder::Folder;
use self::read::{Page, PageBody, Rendering, Task, Trust};
use self::style::{Style, Styles};
use self::view::View;
use self::whole::WholeBody;
use crate::catalog::site::Sites;
use crate::config::{CacheConfig, Settings};
use crate::content::blocking_pool::{Job, JobKind};
use crate::content::local::namespace::Namespace;
use crate::content::local::watch::{FolderId, Folders};
use crate::content::object::{Digests, Metadata, Object};
use crate::content::origin::{Opening, Outcome};
use crate::content::policy::ResponsePolicy;
use crate::content::refusal::Refusal;
use crate::content::tier::Inbox;
use crate::date_cache::DateCache;

/// A file that grows in place leaves no trace in its folder: without one, a folder is read again
/// after this long.
const READ_AGAIN_NS: u64 = 10_000_000_000;

/// Nor is a folder looked at more often than this times its number of entries, about twenty times
/// what reading takes: however often it changes and is requested, reading it cannot become the
/// server's main work.
const REST_NS_PER_ENTRY: u64 = 50_000;

/// Most pages of a folder, and most folders, that are kept.
const PAGES_MAX: usize = 16;
const FOLDERS_MAX: usize = 1024;

/// A request for a page of a folder.
#[derive(Clone, Copy)]
pub(crate) struct ListingRequest<'a> {
    pub(crate) site: usize,
    /// The folder's canonical name.
    pub(crate) name: &'a [u8],
    pub(crate) query: Option<&'a [u8]>,
    /// The client names HTML among the media types that it accepts.
    pub(crate) names_html: bool,
}

/// The folders that a loop knows.
pub(crate) struct Listings {
    sites: Arc<Sites>,
    styles: Styles,
    age_ns: u64,
    bytes_max: usize,
    /// By canonical names that are marked with the site.
    folders: HashMap<Box<[u8]>, CachedFolder, RandomState>,
    bytes: usize,
    /// Counts uses, to tell which one was last.
    uses: u64,
    /// Folders that were to be sent whole: responses hold them longer than they are kept here.
    sent: Vec<Weak<Folder>>,
    inbox: Arc<Inbox>,
}

/// The result of a job: a page that was made.
pub(crate) struct LoadedListing {
    /// The sites that the folder was looked up in.
    sites: Arc<Sites>,
    key: Box<[u8]>,
    epoch: FolderEpoch,
    rendering: Result<Rendering, Refusal>,
}

/// The changes of a folder that are taken into account. It holds the folder, so that its changes
/// are reported.
#[derive(Clone, Copy)]
struct FolderEpoch {
    folder: FolderId,
    changes: u64,
}

/// A folder, and the pages that were made of it.
struct CachedFolder {
    folder: Arc<Folder>,
    read: Instant,
    checked: Instant,
    epoch: FolderEpoch,
    used: u64,
    pages: Vec<CachedPage>,
}

struct CachedPage {
    view: View,
    object: Object,
    used: u64,
}

/// A page of a folder with the settings that hold for it.
struct PageKey {
    key: Box<[u8]>,
    settings: Arc<Settings>,
    style: Arc<Style>,
    view: View,
}

impl Listings {
    /// Listings that know nothing yet, of the loop with this inbox.
    pub(crate) fn new(sites: Arc<Sites>, cache: &CacheConfig, inbox: Arc<Inbox>) -> Self {
        Self {
            sites,
            styles: Styles::default(),
            age_ns: u64::try_from(cache.age.as_nanos()).unwrap_or(u64::MAX),
            bytes_max: cache.listing_bytes_max,
            folders: HashMap::default(),
            bytes: 0,
            uses: 0,
            sent: Vec::new(),
            inbox,
        }
    }

    /// Opens the page that a request names, which has waited for a job with this outcome, or for
    /// none.
    #[cold]
    pub(crate) fn open(
        &mut self,
        request: ListingRequest<'_>,
        outcome: Option<Outcome>,
        folders: &mut Folders<Sites>,
        date_cache: &DateCache,
        now: Instant,
    ) -> Opening<'_, LoadedListing> {
        let Some(page) = self.page_key(request) else { return Opening::Refused(Refusal::NotFound) };
        let is_waited_for = match outcome {
            None | Some(Outcome::Void) => false,
            Some(Outcome::Ready | Outcome::Folder) => true,
            Some(Outcome::Refused(refusal)) => return Opening::Refused(refusal),
        };
        match self.find(&page, is_waited_for, folders, now) {
            Ok(Some(at)) => {
                let folder = self.folders.get_mut(&page.key).expect("its page was found");
                let mount = self.sites.mount_number(request.site, request.name);
                Opening::Object(&mut folder.pages[at].object, mount)
            }
            // A page that has gone already leaves too little memory for all that is requested at
            // once.
            Ok(None) if is_waited_for => Opening::Refused(Refusal::Exhausted),
            Ok(None) => Opening::Pending(Box::new(self.job(request, page, folders, date_cache, now))),
            Err(refusal) => Opening::Refused(refusal),
        }
    }

    /// Finds a page among those of its folder.
    fn find(
        &mut self,
        page: &PageKey,
        is_waited_for: bool,
        folders: &Folders<Sites>,
        now: Instant,
    ) -> Result<Option<usize>, Refusal> {
        let age_ns = self.age_ns;
        let is_fresh = |folder: &CachedFolder| now.ns_since(folder.checked) < folder.fresh_ns(age_ns, folders);
        // A page that was made for a request is good enough for it, however fast it ages.
        let known = self.folders.get_mut(&page.key).filter(|folder| is_waited_for || is_fresh(folder));
        let Some(known) = known else { return Ok(None) };
        // How many pages a filter leaves is found out when they are made.
        if page.view.filter.is_empty() && known.folder.pages(&page.style) <= u64::from(page.view.page) {
            return Err(Refusal::NotFound);
        }
        if known.folder.would_deceive(page.view) {
            return Err(Refusal::Failed);
        }
        let view = known.folder.settled(page.view, &page.style);
        self.uses += 1;
        known.used = self.uses;
        let at = known.pages.iter().position(|cached| cached.view == view);
        if let Some(at) = at {
            known.pages[at].used = self.uses;
        }
        Ok(at)
    }

    /// The job that makes a page.
    fn job(
        &mut self,
        request: ListingRequest<'_>,
        page: PageKey,
        folders: &mut Folders<Sites>,
        date_cache: &DateCache,
        now: Instant,
    ) -> Job<LoadedListing> {
        let PageKey { key, settings, style, view } = page;
        let folder = folders.join(request.site, request.name, Wait::Never, now);
        let mut epoch = FolderEpoch { folder, changes: folders.changes() };
        let known = self.folders.get(&key);
        let is_made = known.is_some_and(|known| {
            let view = known.folder.settled(view, &style);
            known.pages.iter().any(|page| page.view == view)
        });
        let known = known.map(|known| {
            let has_changed = folders.has_changed(known.epoch.folder, known.epoch.changes);
            let trust = if now.ns_since(known.checked) < known.fresh_ns(self.age_ns, folders) {
                epoch.changes = known.epoch.changes;
                Trust::Blind
            } else if !has_changed && now.ns_since(known.read) < READ_AGAIN_NS {
                Trust::Checked
            } else {
                Trust::None
            };
            (Arc::clone(&known.folder), trust)
        });
        let task = Task {
            sites: Arc::clone(&self.sites),
            site: request.site,
            name: request.name.into(),
            settings,
            style,
            view,
            known,
            is_made,
            index_bytes_max: self.bytes_max / 2,
            now_s: date_cache.second(),
        };
        let job_key = [&*key, view.link().as_bytes(), &[view.extent as u8]].concat();
        let sites = Arc::clone(&self.sites);
        let result = move |rendering| LoadedListing { sites, key, epoch, rendering };
        let on_panic = result.clone()(Err(Refusal::Failed));
        Job::new(JobKind::List, job_key, on_panic, move || result(task.run()))
    }

    /// The page that a request names; `None` if the folder is not listed.
    fn page_key(&mut self, request: ListingRequest<'_>) -> Option<PageKey> {
        let folder = if request.name == b"/" { b"" } else { request.name };
        let settings = self.sites.site(request.site).settings(folder, None);
        if settings.listing != Some(true) {
            return None;
        }
        let style = self.styles.of(&settings)?;
        let mut key = request.name.to_vec();
        self.sites.mark(&mut key, request.site);
        Some(PageKey { key: key.into(), settings, style, view: View::parse(request.query, request.names_html) })
    }

    /// Takes the result of a job: keeps the page that was made. The outcome is for all requests
    /// that wait for the job.
    #[cold]
    pub(crate) fn complete(&mut self, loaded: LoadedListing, folders: &mut Folders<Sites>, now: Instant) -> Outcome {
        let LoadedListing { sites, key, epoch, rendering } = loaded;
        if !Arc::ptr_eq(&sites, &self.sites) {
            // The epoch's folder is another configuration's, too.
            return Outcome::Void;
        }
        let rendering = rendering.and_then(|rendering| self.bound_sent(&rendering).map(|()| rendering));
        match rendering {
            Ok(rendering) => {
                let known = self.renew(&key, rendering, epoch, folders, now);
                self.keep(key, known, folders);
                Outcome::Ready
            }
            Err(refusal) => {
                folders.leave(epoch.folder);
                self.forget(&key, folders);
                Outcome::Refused(refusal)
            }
        }
    }

    /// Notes a folder that is to be sent whole. It is refused if slow clients hold too many that
    /// are kept for nothing else: twice the room of all listings is what they may take together.
    fn bound_sent(&mut self, rendering: &Rendering) -> Result<(), Refusal> {
        let Some(Page { body: PageBody::Whole(_), .. }) = &rendering.page else { return Ok(()) };
        self.sent.retain(|folder| folder.strong_count() > 0);
        let is_kept = |folder: &Arc<Folder>| self.folders.values().any(|kept| Arc::ptr_eq(&kept.folder, folder));
        let sent = self.sent.iter().filter_map(Weak::upgrade);
        let bytes: usize = sent.filter(|folder| !is_kept(folder)).map(|folder| folder.bytes()).sum();
        if bytes > self.bytes_max {
            return Err(Refusal::Exhausted);
        }
        if !self.sent.iter().any(|sent| std::ptr::eq(sent.as_ptr(), &*rendering.folder)) {
            self.sent.push(Arc::downgrade(&rendering.folder));
        }
        Ok(())
    }

    /// Takes out a folder, with the page that was made of it.
    fn renew(
        &mut self,
        key: &[u8],
        Rendering { view, was_checked, folder, page, policy }: Rendering,
        epoch: FolderEpoch,
        folders: &mut Folders<Sites>,
        now: Instant,
    ) -> CachedFolder {
        self.uses += 1;
        let used = self.uses;
        let before = self.take_out(key);
        if let Some(before) = &before {
            folders.leave(before.epoch.folder);
        }
        let mut known = match before {
            Some(known) if Arc::ptr_eq(&known.folder, &folder) => {
                let (checked, changes) =
                    if was_checked { (now, epoch.changes) } else { (known.checked, known.epoch.changes) };
                CachedFolder { checked, epoch: FolderEpoch { changes, ..epoch }, used, ..known }
            }
            _ => CachedFolder { folder, read: now, checked: now, epoch, used, pages: Vec::new() },
        };
        if let Some(page) = page {
            known.pages.retain(|cached| cached.view != view);
            if known.pages.len() >= PAGES_MAX {
                let oldest = known.pages.iter().enumerate().min_by_key(|(_, page)| page.used).map(|(at, _)| at);
                oldest.map(|at| known.pages.swap_remove(at));
            }
            known.pages.push(CachedPage { view, object: self.object(view, page, policy), used });
        }
        known
    }

    /// The object of a page.
    fn object(&self, view: View, page: Page, policy: Arc<ResponsePolicy>) -> Object {
        let metadata = Metadata {
            tag: page.tag,
            last_modified: page.last_modified,
            content_type: Cow::Borrowed(view.format.media_type()),
            coding: None,
            varies: !matches!(page.body, PageBody::Memory { compressed: None, .. }),
            digests: Digests::default(),
            policy,
            forwarded: None,
        };
        match page.body {
            PageBody::Memory { plain, compressed } => {
                let variant = |body| Object::in_memory(compressed_metadata(&metadata), body, Box::default());
                let variants = compressed.map(variant).into_iter().collect();
                Object::in_memory(metadata, plain, variants)
            }
            PageBody::Whole(whole) => {
                let body = |is_gzip| Arc::new(WholeBody { whole: Arc::clone(&whole), is_gzip });
                let made = |metadata, body, variants| Object::made(metadata, (body, Arc::clone(&self.inbox)), variants);
                let variant = made(compressed_metadata(&metadata), body(true), Box::default());
                made(metadata, body(false), Box::new([variant]))
            }
        }
    }

    fn keep(&mut self, key: Box<[u8]>, known: CachedFolder, folders: &mut Folders<Sites>) {
        let bytes = known.bytes(&key);
        while !self.folders.is_empty() && (self.folders.len() >= FOLDERS_MAX || self.bytes + bytes > self.bytes_max) {
            self.evict_one(folders);
        }
        self.bytes += bytes;
        self.folders.insert(key, known);
    }

    fn take_out(&mut self, key: &[u8]) -> Option<CachedFolder> {
        let known = self.folders.remove(key)?;
        self.bytes -= known.bytes(key);
        Some(known)
    }

    fn forget(&mut self, key: &[u8], folders: &mut Folders<Sites>) {
        if let Some(known) = self.take_out(key) {
            folders.leave(known.epoch.folder);
        }
    }

    fn evict_one(&mut self, folders: &mut Folders<Sites>) {
        let oldest = self.folders.iter().min_by_key(|(_, known)| known.used).map(|(key, _)| key.clone());
        if let Some(key) = oldest {
            self.forget(&key, folders);
        }
    }
}

/// The metadata of the page in a content coding, with a tag of its own (RFC 9110, 8.8.3).
fn compressed_metadata(page: &Metadata) -> Metadata {
    Metadata {
        tag: [&page.tag[..], b"-", Coding::Gzip.name().as_bytes()].concat(),
        last_modified: page.last_modified,
        content_type: page.content_type.clone(),
        coding: Some(Coding::Gzip),
        varies: true,
        digests: Digests::default(),
        policy: Arc::clone(&page.policy),
        forwarded: None,
    }
}

impl CachedFolder {
    fn bytes(&self, key: &[u8]) -> usize {
        key.len() + self.folder.bytes() + self.pages.iter().map(|page| page.object.bytes()).sum::<usize>()
    }

    /// A folder is relied on for so long after it was looked at.
    fn fresh_ns(&self, age_ns: u64, folders: &Folders<Sites>) -> u64 {
        if folders.has_changed(self.epoch.folder, self.epoch.changes) {
            self.rest_ns()
        } else {
            age_ns.max(self.rest_ns())
        }
    }

    /// A folder is not looked at again for so long after it was looked at.
    fn rest_ns(&self) -> u64 {
        REST_NS_PER_ENTRY.saturating_mul(self.folder.entries())
    }
}

#[cfg(test)]
mod tests;
