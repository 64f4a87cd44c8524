//! Reading a folder and making a page of it: all of a listing that waits for the file system or takes long.
//!
//! A [`Task`] owns what it needs and can be done on any thread. Nothing is listed that would not be served: hidden names,
//! devices, files that this process may not read, and links that lead out are left out here.

use std::ffi::CStr;
use std::hash::{BuildHasher, Hasher};
use std::ops::ControlFlow;
use std::sync::Arc;

use foldhash::quality::FixedState;
use thalweg_sys::file::{FileKind, Stamp};
use thalweg_sys::folder::{EntryKind, EntryState};
use thalweg_sys::{File, Wait};
use thalweg_wire::encode::push_hex;

use super::index::{Builder, Index, Item, Kind};
use super::json;
use super::page;
use super::style::Style;
use super::view::{Format, View};
use crate::catalog::site::Sites;
use crate::config::Settings;
use crate::content::local::namespace::{Namespace, Place};
use crate::content::local::tree::Tree;
use crate::content::policy::ResponsePolicy;
use crate::content::refusal::Refusal;

/// Headers and readmes that are larger than this are not shown.
const FRAGMENT_BYTES_MAX: u64 = 64 << 10;

/// A folder that changed less than this before it was read may have changed after, within one tick of the file system's clock.
const SETTLED_AFTER_S: i64 = 2;

/// Fields of all listings, unless the settings have others of these names. The page needs nothing from elsewhere; what a header or
/// readme brings along may be styled and have pictures from this site, but cannot run.
const FIELDS: [(&str, &str); 2] = [
    (
        "Content-Security-Policy",
        "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'self'",
    ),
    ("X-Content-Type-Options", "nosniff"),
];

/// A page of a folder that is to be made.
pub(super) struct Task {
    pub(super) sites: Arc<Sites>,
    pub(super) site: usize,
    /// The folder's canonical name.
    pub(super) name: Box<[u8]>,
    pub(super) settings: Arc<Settings>,
    pub(super) style: Arc<Style>,
    pub(super) view: View,
    /// What was read before, and how far that is to be relied on.
    pub(super) known: Option<(Arc<Folder>, Trust)>,
    /// The page was made already of what was read before.
    pub(super) is_made: bool,
    pub(super) index_bytes_max: usize,
    /// The second that it is.
    pub(super) now_s: i64,
}

/// How far what is known of a folder is relied on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Trust {
    /// Without a look.
    Blind,
    /// If the folder has the same stamp.
    Checked,
    /// Not at all: it is read again, in order to see what has changed in its files.
    None,
}

/// The result of a task.
pub(super) struct Rendering {
    pub(super) view: View,
    /// The folder was looked at.
    pub(super) was_checked: bool,
    /// What holds for the page.
    pub(super) policy: Arc<ResponsePolicy>,
    pub(super) folder: Arc<Folder>,
    /// `None` if the folder has no such page, or if it is the one that was made before.
    pub(super) page: Option<Page>,
}

/// What was read of a folder.
pub(super) struct Folder {
    stamp: Stamp,
    /// An equal stamp later does not prove that nothing has changed.
    unsettled: bool,
    pub(super) index: Index,
    pub(super) header: Option<Fragment>,
    pub(super) readme: Option<Fragment>,
    last_modified: Option<i64>,
}

/// A part of a page that the operator has written.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Fragment {
    /// Put in as it is.
    Html(String),
    /// Put in as text.
    Text(String),
}

/// A page as it is sent.
pub(super) struct Page {
    pub(super) body: Vec<u8>,
    /// The opaque part of its entity tag: depends on the content alone, so that all cores and servers agree.
    pub(super) tag: Vec<u8>,
    /// When anything in the folder changed last, to the second.
    pub(super) last_modified: Option<i64>,
}

/// A folder where it lies: its tree, and its name there, which is empty or ends with a slash.
#[derive(Clone, Copy)]
struct Location<'t> {
    tree: &'t Tree,
    within: &'t [u8],
}

impl Task {
    /// Reads the folder, unless what is known of it is still right, and makes the page. May take seconds.
    pub(super) fn run(&self) -> Result<Rendering, Refusal> {
        let folder = self.folder()?;
        let is_made = self.is_made && self.known.as_ref().is_some_and(|(known, _)| Arc::ptr_eq(known, &folder));
        let page = if is_made { None } else { self.render(&folder) };
        let was_checked = !matches!(self.known, Some((_, Trust::Blind)));
        Ok(Rendering { view: self.view, was_checked, policy: self.policy()?, page, folder })
    }

    fn folder(&self) -> Result<Arc<Folder>, Refusal> {
        if let Some((known, Trust::Blind)) = &self.known {
            return Ok(Arc::clone(known));
        }
        let Place::Within { tree, name: within, .. } = self.sites.place(self.site, &self.name) else {
            return Err(Refusal::NotFound);
        };
        let opened = tree.open_folder(within, Wait::Allowed, &mut Vec::new())?;
        if opened.kind != FileKind::Directory {
            return Err(Refusal::NotFound);
        }
        match &self.known {
            Some((known, Trust::Checked)) if !known.unsettled && known.stamp == opened.stamp => Ok(Arc::clone(known)),
            _ => Ok(Arc::new(self.read(&opened, Location { tree, within })?)),
        }
    }

    fn read(&self, folder: &File, location: Location<'_>) -> Result<Folder, Refusal> {
        let mut builder = Builder::new(self.style.folders_first, self.index_bytes_max);
        let mounted = self.mounted(location);
        for (name, stamp) in &mounted {
            let item = Item { name, kind: Kind::Folder, size: 0, modified_s: stamp.modified_s };
            builder.push(item, seconds(stamp));
        }
        // What lies in the folder where a tree is mounted is out of reach.
        let is_covered = |name: &CStr| mounted.binary_search_by_key(&name.to_bytes(), |&(of, _)| of).is_ok();
        let read = folder.visit_entries(|name, kind| {
            let seen = if is_covered(name) { None } else { self.examine(folder, location, name, kind) };
            if let Some((kind, state)) = seen {
                let size = if kind == Kind::File { state.size } else { 0 };
                let item = Item { name: name.to_bytes(), kind, size, modified_s: state.modified_s };
                builder.push(item, state.changed_s);
            }
            ControlFlow::Continue(())
        });
        read.map_err(|error| Refusal::of(&error))?;
        let (header, header_changed) = location.fragment(self.style.header.as_deref()).unzip();
        let (readme, readme_changed) = location.fragment(self.style.readme.as_deref()).unzip();
        let index = builder.finish();
        let stamp = folder.stamp;
        let changed_s =
            [Some(seconds(&stamp)), index.tally.changed_s, header_changed, readme_changed].into_iter().flatten().max();
        let is_settled = |second: i64| self.now_s.saturating_sub(second) >= SETTLED_AFTER_S;
        Ok(Folder {
            stamp,
            unsettled: !is_settled(seconds(&stamp)),
            index,
            header,
            readme,
            // Of two changes in one second, a date could tell only the first.
            last_modified: changed_s.filter(|&second| second >= 0 && is_settled(second)),
        })
    }

    /// The trees that are mounted in the folder and are to be listed, by their names in it: there are as many as the configuration has.
    fn mounted(&self, location: Location<'_>) -> Vec<(&[u8], Stamp)> {
        let folder = if *self.name == *b"/" { b"" } else { &*self.name };
        let site = self.sites.site(self.site);
        let shown = site.mounts_in(folder).filter(|(name, _)| !self.style.hides(name) && !location.hides(name));
        let mut mounted: Vec<_> = shown
            .filter_map(|(name, mount)| {
                Some((name, mount.tree.open_folder(b"", Wait::Allowed, &mut Vec::new()).ok()?.stamp))
            })
            .collect();
        mounted.sort_unstable_by_key(|&(name, _)| name);
        mounted
    }

    /// What an entry is and its state, if it is to be listed.
    fn examine(
        &self,
        folder: &File,
        location: Location<'_>,
        name: &CStr,
        kind: EntryKind,
    ) -> Option<(Kind, EntryState)> {
        let bytes = name.to_bytes();
        if kind == EntryKind::Special || self.style.hides(bytes) || location.hides(bytes) {
            return None;
        }
        let state = folder.look_at(name).ok()?;
        let kind = match state.kind {
            EntryKind::Regular => Kind::File,
            EntryKind::Directory => Kind::Folder,
            EntryKind::Link => return location.follow(bytes, state),
            EntryKind::Special | EntryKind::Unknown => return None,
        };
        folder.may_use(name, state.kind).then_some((kind, state))
    }

    fn render(&self, folder: &Folder) -> Option<Page> {
        let path = if *self.name == *b"/" { self.name.to_vec() } else { [b"/", &*self.name].concat() };
        let body = match self.view.format {
            Format::Html => page::html(folder, &path, &self.style, self.view)?,
            Format::Json => json::json(folder, &path, &self.style, self.view)?,
        };
        let mut hasher = FixedState::default().build_hasher();
        hasher.write(body.as_bytes());
        let mut tag = b"list-".to_vec();
        push_hex(&mut tag, hasher.finish());
        Some(Page { body: body.into_bytes(), tag, last_modified: folder.last_modified })
    }

    /// What the settings of the folder come to, with what all listings have.
    fn policy(&self) -> Result<Arc<ResponsePolicy>, Refusal> {
        let mut settings = Settings::clone(&self.settings);
        for (name, value) in FIELDS {
            if !settings.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name)) {
                settings.headers.push((name.to_owned(), value.to_owned()));
            }
        }
        ResponsePolicy::of(&settings).map(Arc::new).map_err(|_| Refusal::Failed)
    }
}

impl Location<'_> {
    fn hides(self, name: &[u8]) -> bool {
        name.starts_with(b".") && self.tree.hides(&self.path(name))
    }

    /// What a link leads to, if that would be served.
    fn follow(self, name: &[u8], link: EntryState) -> Option<(Kind, EntryState)> {
        let target = self.open(name)?;
        let kind = match target.kind {
            FileKind::Regular => Kind::File,
            FileKind::Directory => Kind::Folder,
            FileKind::Special => return None,
        };
        let Stamp { size, modified_s, .. } = target.stamp;
        let changed_s = seconds(&target.stamp).max(link.changed_s);
        Some((kind, EntryState { size, modified_s, changed_s, ..link }))
    }

    /// Opens what has this name in the folder as a request for it would.
    fn open(self, name: &[u8]) -> Option<File> {
        self.tree.open_file(&self.path(name), Wait::Allowed, &mut Vec::new()).ok()
    }

    fn path(self, name: &[u8]) -> Vec<u8> {
        [self.within, name].concat()
    }

    /// The header or readme with the second of its last change, if it is there and not too large.
    fn fragment(self, name: Option<&str>) -> Option<(Fragment, i64)> {
        let name = name?;
        let file = self.open(name.as_bytes())?;
        if file.kind != FileKind::Regular || file.stamp.size > FRAGMENT_BYTES_MAX {
            return None;
        }
        let mut bytes = vec![0; file.stamp.size as usize];
        let read = file.read_at(&mut bytes, 0).ok()?;
        let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
        let is_html = [".html", ".htm"].iter().any(|end| name.to_ascii_lowercase().ends_with(end));
        Some((if is_html { Fragment::Html(text) } else { Fragment::Text(text) }, seconds(&file.stamp)))
    }
}

impl Folder {
    /// How many pages it has.
    pub(super) fn pages(&self, style: &Style) -> u64 {
        self.index.pages(style.page_entries)
    }

    /// How many entries it was read from.
    pub(super) fn entries(&self) -> u64 {
        self.index.tally.folders + self.index.tally.files
    }

    /// A folder with these entries and nothing else to it.
    #[cfg(test)]
    pub(super) fn of_index(index: Index) -> Self {
        let stamp = Stamp::default();
        Self { stamp, unsettled: false, index, header: None, readme: None, last_modified: None }
    }

    /// Bytes of memory held.
    pub(super) fn bytes(&self) -> usize {
        let fragment = |fragment: &Option<Fragment>| match fragment {
            Some(Fragment::Html(text) | Fragment::Text(text)) => text.len(),
            None => 0,
        };
        self.index.bytes() + fragment(&self.header) + fragment(&self.readme)
    }
}

/// The second of the last change of any kind.
fn seconds(stamp: &Stamp) -> i64 {
    let changed_s = i64::try_from(stamp.changed_ns.div_euclid(1_000_000_000)).unwrap_or(i64::MAX);
    changed_s.max(stamp.modified_s)
}
