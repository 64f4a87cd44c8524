//! Reading a folder and rendering a page of it: the part of a listing that waits for the file
//! system or takes long.
//!
//! A [`Task`] owns what it needs and can be done on any thread. Nothing is listed that would not be
//! served: hidden names, devices, files that this process may not read, and links that lead out are
//! left out here.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::hash::{BuildHasher, Hasher};
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use flate2::Compression;
use flate2::write::GzEncoder;
use foldhash::quality::FixedState;
use thalweg_sys::file::{FileKind, Stamp};
use thalweg_sys::folder::{EntryKind, EntryState};
use thalweg_sys::{File, Wait};
use thalweg_wire::encode::push_hex;

use super::checksums::FileLists;
use super::folder::{Folder, Form, Fragment};
use super::frame::Shown;
use super::index::{Builder, Item, Kind};
use super::json;
use super::page;
use super::style::Style;
use super::view::{Extent, Format, View};
use super::whole::Whole;
use crate::catalog::site::Sites;
use crate::config::Settings;
use crate::content::local::miss::Miss;
use crate::content::local::namespace::{Namespace, Place};
use crate::content::local::tree::{Tree, has_hidden_part};
use crate::content::policy::ResponsePolicy;
use crate::content::refusal::Refusal;

/// Headers and readmes that are larger than this are not shown.
const FRAGMENT_BYTES_MAX: u64 = 64 << 10;

/// The endings of the names of headers and readmes that are shown as text, where there is none in
/// HTML.
const TEXT_ENDINGS: [&str; 3] = [".md", ".txt", ""];

/// A folder that changed less than this before it was read may have changed after, within one tick
/// of the file system's clock.
const SETTLED_AFTER_S: i64 = 2;

/// Smaller pages are not compressed: they fit a few packets either way.
const COMPRESSED_BYTES_MIN: usize = 2 << 10;

/// The level of gzip: most of what the highest one saves, for a fraction of its time.
const COMPRESSION_LEVEL: u32 = 5;

/// Fields of all listings, unless the settings have others of these names. The page needs nothing
/// from elsewhere; what a header or readme brings along may be styled and have pictures from this
/// site, but cannot run.
pub(super) const FIELDS: [(&str, &str); 2] = [
    (
        "Content-Security-Policy",
        "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; form-action 'self'; \
         frame-ancestors 'self'",
    ),
    ("X-Content-Type-Options", "nosniff"),
];

/// The time of an entry of which none is known; no year of a date is as early.
pub(super) const UNKNOWN_S: i64 = i64::MIN;

/// A page of a folder that is to be made.
pub(super) struct Task {
    pub(super) sites: Arc<Sites>,
    pub(super) site: usize,
    /// The folder's canonical name.
    pub(super) name: Box<[u8]>,
    pub(super) settings: Arc<Settings>,
    pub(super) style: Arc<Style>,
    pub(super) view: View,
    /// The folder as it was read before, and how far that is to be relied on.
    pub(super) known: Option<(Arc<Folder>, Trust)>,
    /// The page was made already of what was read before.
    pub(super) is_made: bool,
    pub(super) index_bytes_max: usize,
    /// The second that it is.
    pub(super) now_s: i64,
}

/// The trust in a folder that was read before.
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
    /// The view that the page is of.
    pub(super) view: View,
    /// The folder was looked at.
    pub(super) was_checked: bool,
    /// The policy of the page.
    pub(super) policy: Arc<ResponsePolicy>,
    pub(super) folder: Arc<Folder>,
    /// `None` if the folder has no such page, or if it is the one that was made before.
    pub(super) page: Option<Page>,
}

/// A page as it is sent.
pub(super) struct Page {
    pub(super) body: PageBody,
    /// The opaque part of its entity tag: depends on the content alone, so that all loops and
    /// servers agree.
    pub(super) tag: Vec<u8>,
    /// The address of the next page, relative to the folder.
    pub(super) next: Option<String>,
    /// When anything in the folder changed last, to the second.
    pub(super) last_modified: Option<i64>,
}

/// The bytes of a page.
pub(super) enum PageBody {
    Memory {
        plain: Vec<u8>,
        /// The same by gzip, if that is worth it.
        compressed: Option<Vec<u8>>,
    },
    /// All entries of a folder that has more than fit a page.
    Whole(Arc<Whole>),
}

/// A folder that is a mount, or the parent of mounts.
#[derive(Clone, Copy)]
struct MountedFolder {
    modified_s: i64,
    changed_s: i64,
    is_mount: bool,
    /// The tree has an entry of this name, which is listed instead of a parent.
    is_in_tree: bool,
}

type Mounted<'n> = BTreeMap<&'n [u8], MountedFolder>;

/// The location of a folder: its tree, if it is in one, and its name there, which is empty or ends
/// with a slash.
#[derive(Clone, Copy)]
struct Location<'t> {
    tree: Option<&'t Tree>,
    within: &'t [u8],
}

impl Task {
    /// Reads the folder, unless it is as it was read before, and makes the page. May take seconds.
    pub(super) fn run(&self) -> Result<Rendering, Refusal> {
        let folder = self.folder()?;
        let view = folder.settled(self.view, &self.style);
        let is_made = self.is_made && self.known.as_ref().is_some_and(|(known, _)| Arc::ptr_eq(known, &folder));
        let page = if is_made { None } else { render(&folder, &[b"/", self.path()].concat(), &self.style, view) };
        let was_checked = !matches!(self.known, Some((_, Trust::Blind)));
        let next = page.as_ref().and_then(|page| page.next.as_deref());
        Ok(Rendering { view, was_checked, policy: self.policy(view, next)?, page, folder })
    }

    fn folder(&self) -> Result<Arc<Folder>, Refusal> {
        if let Some((known, Trust::Blind)) = &self.known {
            return Ok(Arc::clone(known));
        }
        let location = match self.sites.place(self.site, &self.name) {
            Place::Within { tree, name, .. } => Location { tree: Some(tree), within: name },
            Place::MountPoint | Place::Outside => Location { tree: None, within: self.path() },
        };
        let Some(opened) = location.open_folder()? else {
            return self.folder_of_mounts(location).map(Arc::new);
        };
        match &self.known {
            Some((known, Trust::Checked)) if !known.unsettled && known.stamp == opened.stamp => Ok(Arc::clone(known)),
            _ => Ok(Arc::new(self.read(&opened, location)?)),
        }
    }

    /// The name as the names of its entries begin.
    fn path(&self) -> &[u8] {
        if *self.name == *b"/" { b"" } else { &self.name }
    }

    fn read(&self, folder: &File, location: Location<'_>) -> Result<Folder, Refusal> {
        let mut builder = Builder::new(self.style.folders_first, self.index_bytes_max);
        let mut mounted = self.mounted(location);
        let knows_digests = self.sites.site(self.site).knows_digests();
        let mut file_lists = FileLists::default();
        let read = folder.visit_entries(|name, kind| {
            if knows_digests {
                file_lists.see(name.to_bytes());
            }
            let seen = match mounted.get_mut(name.to_bytes()) {
                // The entry in the tree is out of reach.
                Some(mounted) if mounted.is_mount => None,
                covered => {
                    covered.into_iter().for_each(|parent| parent.is_in_tree = true);
                    self.examine(folder, location, name, kind)
                }
            };
            if let Some((kind, state)) = seen {
                let size = if kind == Kind::File { state.size } else { 0 };
                let item = Item { name: name.to_bytes(), kind, size, modified_s: state.modified_s, digest: None };
                builder.push(item, state.changed_s);
            }
            ControlFlow::Continue(())
        });
        read.map_err(|error| Miss::of(&error))?;
        push_mounted(&mut builder, &mounted);
        let (header, header_changed) = location.fragment(self.style.header.as_deref(), &self.style).unzip();
        let (readme, readme_changed) = location.fragment(self.style.readme.as_deref(), &self.style).unzip();
        let mut index = builder.finish();
        if knows_digests {
            let shows = |name: &[u8]| self.sites.policy(self.site, self.path(), name).digests;
            file_lists.apply(&mut index, |name| location.open(name), shows);
        }
        let stamp = folder.stamp;
        let changed_s =
            [Some(seconds(&stamp)), index.tally.changed_s, header_changed, readme_changed].into_iter().flatten().max();
        let is_settled = |second: i64| self.now_s.saturating_sub(second) >= SETTLED_AFTER_S;
        Ok(Folder {
            version: OnceLock::new(),
            stamp,
            unsettled: !is_settled(seconds(&stamp)),
            index,
            header,
            readme,
            // A date cannot distinguish two changes in one second.
            last_modified: changed_s.filter(|&second| second >= 0 && is_settled(second)),
        })
    }

    /// A folder that no tree has, and that exists only as the parent of mounts.
    fn folder_of_mounts(&self, location: Location<'_>) -> Result<Folder, Refusal> {
        let mut mounts = self.sites.site(self.site).mounts_beneath(self.path());
        if location.is_hidden(location.within) || mounts.all(|(path, _)| location.hides(path)) {
            return Err(Refusal::NotFound);
        }
        let mut builder = Builder::new(self.style.folders_first, self.index_bytes_max);
        push_mounted(&mut builder, &self.mounted(location));
        // There is nothing to compare it with later: it is read anew.
        Ok(Folder { unsettled: true, ..Folder::of_index(builder.finish()) })
    }

    /// The mounts that are to be listed in the folder, and the parents of mounts that no tree has,
    /// by their names in it: there are no more than mounts in the configuration.
    fn mounted(&self, location: Location<'_>) -> Mounted<'_> {
        let mut mounted = Mounted::default();
        for (path, tree) in self.sites.site(self.site).mounts_beneath(self.path()) {
            let name = path.split(|&byte| byte == b'/').next().unwrap_or(path);
            if self.style.hides(name) || location.hides(path) {
                continue;
            }
            let (modified_s, changed_s) = match tree.map(|tree| tree.open_folder(b"", Wait::Allowed, &mut Vec::new())) {
                Some(Ok(root)) => (root.stamp.modified_s, seconds(&root.stamp)),
                Some(Err(_)) => continue,
                None => (UNKNOWN_S, UNKNOWN_S),
            };
            let new = MountedFolder { modified_s, changed_s, is_mount: name == path, is_in_tree: false };
            let folder = mounted.entry(name).or_insert(new);
            if new.is_mount || !folder.is_mount && folder.modified_s < new.modified_s {
                *folder = new;
            }
        }
        mounted
    }

    /// The kind and state of an entry, if it is to be listed.
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

    /// The policy of the folder's settings, with the fields that listings have, and those of a
    /// view.
    fn policy(&self, view: View, next: Option<&str>) -> Result<Arc<ResponsePolicy>, Refusal> {
        let mut settings = Settings::clone(&self.settings);
        for (name, value) in view_fields(view, next) {
            settings.headers.push((name.to_owned(), value));
        }
        for (name, value) in FIELDS {
            if !settings.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name)) {
                settings.headers.push((name.to_owned(), value.to_owned()));
            }
        }
        ResponsePolicy::of(&settings).map(Arc::new).map_err(|_| Refusal::Failed)
    }
}

/// The fields of a page of a view: whether it depends on Accept, and where the next page is (RFC
/// 8288).
pub(super) fn view_fields(view: View, next: Option<&str>) -> impl Iterator<Item = (&'static str, String)> {
    let vary = (view.extent != Extent::Named).then(|| ("Vary", "Accept".to_owned()));
    vary.into_iter().chain(next.map(|next| ("Link", format!("<{next}>; rel=\"next\""))))
}

/// A view of a folder; `None` if it has no such page, or if that must not be shown. `path` is the
/// folder's on the site.
pub(super) fn render(folder: &Arc<Folder>, path: &[u8], style: &Arc<Style>, view: View) -> Option<Page> {
    let last_modified = folder.last_modified;
    if folder.would_deceive(view) {
        return None;
    }
    if view.extent == Extent::Whole {
        let whole = Arc::new(Whole::new(folder, path, style, view));
        let tag = folder.tag(path, style, view);
        return Some(Page { body: PageBody::Whole(whole), tag, next: None, last_modified });
    }
    let (shown, items) = Shown::page(folder, style, view)?;
    let text = match view.format {
        Format::Html => page::html(folder, path, style, (shown, items)),
        Format::Json => json::json(folder, path, (shown, items)),
    };
    let mut hasher = FixedState::default().build_hasher();
    hasher.write(text.as_bytes());
    let mut tag = b"list-".to_vec();
    push_hex(&mut tag, hasher.finish());
    let plain = text.into_bytes();
    let next = shown.next().map(View::link);
    Some(Page { body: PageBody::Memory { compressed: compressed(&plain), plain }, tag, next, last_modified })
}

/// A page by gzip, which all clients understand that understand any coding; `None` if it is small.
/// Nothing in it depends on the time, so that all loops and servers send the same bytes.
fn compressed(body: &[u8]) -> Option<Vec<u8>> {
    if body.len() < COMPRESSED_BYTES_MIN {
        return None;
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::new(COMPRESSION_LEVEL));
    encoder.write_all(body).and_then(|()| encoder.finish()).ok().filter(|compressed| compressed.len() < body.len())
}

/// Adds the folders that no tree has an entry for.
fn push_mounted(builder: &mut Builder, mounted: &Mounted<'_>) {
    for (name, folder) in mounted.iter().filter(|(_, folder)| !folder.is_in_tree) {
        let item = Item { name, kind: Kind::Folder, size: 0, modified_s: folder.modified_s, digest: None };
        builder.push(item, folder.changed_s);
    }
}

impl Location<'_> {
    /// Opens the folder; `None` if no tree has it.
    fn open_folder(self) -> Result<Option<File>, Refusal> {
        let Some(tree) = self.tree else { return Ok(None) };
        match tree.open_folder(self.within, Wait::Allowed, &mut Vec::new()) {
            Ok(folder) => Ok(Some(folder).filter(|folder| folder.kind == FileKind::Directory)),
            Err(Miss::NOT_FOUND) => Ok(None),
            Err(miss) => Err(miss.into()),
        }
    }

    /// Whether an entry of the folder, or something deeper in it, is not served.
    fn hides(self, path: &[u8]) -> bool {
        (path.starts_with(b".") || path.contains(&b'/')) && self.is_hidden(&self.path(path))
    }

    fn is_hidden(self, name: &[u8]) -> bool {
        self.tree.map_or_else(|| has_hidden_part(name, true), |tree| tree.hides(name))
    }

    /// The target of a link, if that would be served.
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

    /// Opens an entry of the folder as a request for it would.
    fn open(self, name: &[u8]) -> Option<File> {
        self.tree?.open_file(&self.path(name), Wait::Allowed, &mut Vec::new()).ok()
    }

    fn path(self, name: &[u8]) -> Vec<u8> {
        [self.within, name].concat()
    }

    /// The header or readme with the second of its last change, if it is there. In place of a file
    /// of HTML, one of Markdown or text serves, too.
    fn fragment(self, name: Option<&str>, style: &Style) -> Option<(Fragment, i64)> {
        let name = name?;
        let stem = name.strip_suffix(".html").filter(|stem| !stem.is_empty() && !stem.ends_with('/'));
        let others = stem.into_iter().flat_map(|stem| TEXT_ENDINGS.map(|ending| format!("{stem}{ending}")));
        std::iter::once(name.to_owned()).chain(others).find_map(|name| self.fragment_named(&name, style))
    }

    /// A fragment, if it is there and not too large.
    fn fragment_named(self, name: &str, style: &Style) -> Option<(Fragment, i64)> {
        let file = self.open(name.as_bytes())?;
        if file.kind != FileKind::Regular || file.stamp.size > FRAGMENT_BYTES_MAX {
            return None;
        }
        let mut bytes = vec![0; file.stamp.size as usize];
        let read = file.read_at(&mut bytes, 0).ok()?;
        let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
        let form = match [".html", ".htm"].iter().any(|end| name.to_ascii_lowercase().ends_with(end)) {
            true => Form::Html,
            false if style.hides(name.as_bytes()) => Form::UnnamedText,
            false => Form::Text,
        };
        Some((Fragment { name: name.as_bytes().to_vec(), text, form }, seconds(&file.stamp)))
    }
}

/// The second of the last change of any kind.
fn seconds(stamp: &Stamp) -> i64 {
    let changed_s = i64::try_from(stamp.changed_ns.div_euclid(1_000_000_000)).unwrap_or(i64::MAX);
    changed_s.max(stamp.modified_s)
}
