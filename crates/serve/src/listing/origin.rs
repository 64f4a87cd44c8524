//! Folders of trees and buckets behind the cache tier: their indexes, their pages, and the media
//! types of their objects, by the same rules as for local folders.
//!
//! Lacking on purpose: headers, readmes and digests, each of which would be fetched for each
//! listing.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use percent_encoding::{percent_decode_str, percent_encode};
use thalweg_tier::{
    FolderBody, FolderEntry, FolderListing, FolderPage, FolderPages, FolderView, IncompleteListing, ListedFolder,
};

use super::folder::Folder;
use super::index::{Builder, Item, Kind};
use super::read::{FIELDS, PageBody, UNKNOWN_S, render, view_fields};
use super::style::{Style, Styles};
use super::view::View;
use crate::catalog::error::CatalogError;
use crate::catalog::rules::{Rules, relative};
use crate::config::{MountConfig, Rule};
use crate::content::local::tree::has_hidden_part;
use crate::content::media_type::type_of;
use crate::content::name::{PATH_ESCAPED, canonical_name};

/// The pages of the folders of a mount that trees and buckets answer for.
pub struct OriginPages {
    rules: Rules,
    styles: Mutex<Styles>,
    /// The mount's path as canonical names begin with it.
    prefix: Box<[u8]>,
    /// The paths of the site's other mounts, in the same form.
    others: Vec<Box<[u8]>>,
    shows_dot_files: bool,
    bytes_max: usize,
}

/// A folder that was listed.
struct OriginFolder {
    folder: Arc<Folder>,
    /// On the site, with a slash at both ends.
    path: Vec<u8>,
    style: Arc<Style>,
}

impl OriginPages {
    /// The pages of a mount, by the rules of its site, which has mounts of these other paths. The
    /// folders that were listed may take so many bytes, and one of them half of it.
    ///
    /// # Errors
    /// A rule cannot be as it is set.
    pub fn new(rules: &[Rule], mount: &MountConfig, others: &[String], bytes_max: usize) -> Result<Self, CatalogError> {
        let prefix: Box<[u8]> = relative(&mount.path).into();
        let others = others.iter().map(|path| relative(path));
        let beneath = others.filter(|path| path.len() > prefix.len() && path.starts_with(&prefix));
        Ok(Self {
            rules: Rules::compile(rules)?,
            styles: Mutex::default(),
            others: beneath.map(Box::from).collect(),
            shows_dot_files: mount.dot_files,
            bytes_max,
            prefix,
        })
    }

    /// The canonical name of a folder of the site, as the names of its entries begin; `None` if the
    /// path is none of a folder.
    fn name(&self, path: &str) -> Option<Vec<u8>> {
        let mut below = Vec::new();
        canonical_name(path.as_bytes(), &mut below).ok()?;
        match &*below {
            b"/" => Some(self.prefix.to_vec()),
            below => below.ends_with(b"/").then(|| [&self.prefix, below].concat()),
        }
    }

    fn style(&self, folder: &[u8]) -> Arc<Style> {
        let settings = self.rules.effective(folder, None).settings;
        let style = self.styles.lock().unwrap_or_else(PoisonError::into_inner).of(&settings);
        // The patterns of all rules were compiled when they were read.
        style.unwrap_or_else(|| Arc::new(Style::plain()))
    }

    /// Whether an entry is not listed, whatever it is.
    fn hides(&self, folder: &[u8], name: &[u8], style: &Style) -> bool {
        let is_hidden = || has_hidden_part(&[folder, name].concat(), true);
        style.hides(name) || (!self.shows_dot_files && name.starts_with(b".") && is_hidden())
    }

    /// The mounts beneath a folder by their names in it, and whether the name is a mount itself and
    /// not the parent of one.
    fn mounts_beneath<'m>(&'m self, folder: &[u8]) -> BTreeMap<&'m [u8], bool> {
        let mut mounts = BTreeMap::new();
        for path in self.others.iter().filter_map(|path| path.strip_prefix(folder)) {
            let path = path.strip_suffix(b"/").unwrap_or(path);
            let name = path.split(|&byte| byte == b'/').next().unwrap_or(path);
            if !name.is_empty() {
                *mounts.entry(name).or_default() |= name == path;
            }
        }
        mounts
    }

    fn index(&self, name: &[u8], listing: FolderListing, style: &Style) -> Folder {
        let mut builder = Builder::new(style.folders_first, self.bytes_max / 2);
        let mut mounts = self.mounts_beneath(name);
        for FolderEntry { name: entry, is_folder, size, modified, .. } in &listing.entries {
            if self.hides(name, entry, style) || mounts.get(&**entry) == Some(&true) {
                continue;
            }
            // A parent of mounts is listed as the origin has it.
            mounts.remove(&**entry);
            let kind = if *is_folder { Kind::Folder } else { Kind::File };
            let modified_s = modified.map_or(UNKNOWN_S, seconds);
            let item = Item { name: entry, kind, size: size.unwrap_or(0), modified_s, digest: None };
            builder.push(item, modified_s);
        }
        for mounted in mounts.into_keys().filter(|mounted| !self.hides(name, mounted, style)) {
            let item = Item { name: mounted, kind: Kind::Folder, size: 0, modified_s: UNKNOWN_S, digest: None };
            builder.push(item, UNKNOWN_S);
        }
        if !listing.is_complete {
            builder.cut_off();
        }
        Folder::of_index(builder.finish())
    }
}

impl FolderPages for OriginPages {
    fn index_names(&self, folder: &str) -> Arc<[String]> {
        let Some(name) = self.name(folder) else { return Arc::default() };
        let names = self.rules.effective(&name, None).index_names;
        names.iter().map(|name| percent_encode(name.as_bytes(), PATH_ESCAPED).to_string()).collect()
    }

    fn is_listed(&self, folder: &str) -> bool {
        self.name(folder).is_some_and(|name| self.rules.effective(&name, None).settings.listing == Some(true))
    }

    fn media_type(&self, path: &str) -> Cow<'static, str> {
        type_of(&percent_decode_str(path).collect::<Vec<_>>())
    }

    fn folder(&self, path: &str, listing: FolderListing) -> Arc<dyn ListedFolder> {
        let name = self.name(path).unwrap_or_default();
        let style = self.style(&name);
        let folder = Arc::new(self.index(&name, listing, &style));
        Arc::new(OriginFolder { folder, path: [b"/", &*name].concat(), style })
    }

    fn bytes_max(&self) -> usize {
        self.bytes_max
    }
}

impl ListedFolder for OriginFolder {
    fn bytes(&self) -> usize {
        self.folder.bytes() + self.path.len()
    }

    fn page(&self, asked: FolderView<'_>) -> Result<Option<FolderPage>, IncompleteListing> {
        let view = View::parse(asked.query.map(str::as_bytes), asked.names_html);
        let view = self.folder.settled(view, &self.style);
        if self.folder.would_deceive(view) {
            return Err(IncompleteListing);
        }
        let Some(page) = render(&self.folder, &self.path, &self.style, view) else { return Ok(None) };
        let (varies, is_gzip, body) = match page.body {
            PageBody::Whole(whole) => (true, asked.is_gzip, FolderBody::Pieces(Box::new(whole.pieces(asked.is_gzip)))),
            PageBody::Memory { plain, compressed } => {
                let varies = compressed.is_some();
                let compressed = compressed.filter(|_| asked.is_gzip);
                (varies, compressed.is_some(), FolderBody::Memory(compressed.unwrap_or(plain).into()))
            }
        };
        let ending = if is_gzip { "-gzip" } else { "" };
        let tag = format!("\"{}{ending}\"", String::from_utf8_lossy(&page.tag)).into_bytes();
        let mut fields = vec![("Content-Type", view.format.media_type().into()), ("ETag", tag.clone())];
        fields.extend(FIELDS.map(|(name, value)| (name, value.into())));
        fields.extend(view_fields(view, page.next.as_deref()).map(|(name, value)| (name, value.into_bytes())));
        if varies {
            fields.push(("Vary", b"Accept-Encoding".to_vec()));
        }
        if is_gzip {
            fields.push(("Content-Encoding", b"gzip".to_vec()));
        }
        Ok(Some(FolderPage { fields, tag, body }))
    }
}

/// The second of a time.
fn seconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(UNKNOWN_S, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use std::iter;
    use std::time::Duration;

    use super::*;
    use crate::config::{ListingStyle, Settings};

    fn rule(folder: &str, settings: Settings) -> Rule {
        Rule { folder: Some(folder.to_owned()), settings, ..Rule::default() }
    }

    fn pages(mount: &str, others: &[&str]) -> OriginPages {
        let style = ListingStyle { hide: vec!["*.tmp".to_owned()], page_entries: 2, ..ListingStyle::default() };
        let rules = [
            rule("/pub/", Settings { listing: Some(true), listing_style: Some(style), ..Settings::default() }),
            rule("/pub/off/", Settings { listing: Some(false), ..Settings::default() }),
            rule("/pub/own/", Settings { index: Some(vec!["my index.htm".to_owned()]), ..Settings::default() }),
        ];
        let others: Vec<_> = others.iter().map(|&path| path.to_owned()).collect();
        OriginPages::new(&rules, &MountConfig::new(mount, ""), &others, 1 << 20).unwrap()
    }

    fn entry(name: &str, size: u64) -> FolderEntry {
        let is_folder = name.ends_with('/');
        let modified = (!is_folder).then(|| SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777));
        let name = name.trim_end_matches('/').into();
        FolderEntry { name, is_folder, size: Some(size).filter(|_| !is_folder), modified, etag: None }
    }

    fn listing(names: &[&str]) -> FolderListing {
        FolderListing { entries: names.iter().map(|name| entry(name, 5)).collect(), is_complete: true }
    }

    /// The page that a browser gets.
    fn page(folder: &Arc<dyn ListedFolder>, query: &str, is_gzip: bool) -> Option<FolderPage> {
        folder.page(FolderView { query: Some(query), names_html: true, is_gzip }).unwrap()
    }

    fn body(page: FolderPage) -> Vec<u8> {
        match page.body {
            FolderBody::Memory(body) => body.into(),
            FolderBody::Pieces(mut pieces) => iter::from_fn(|| pieces.next()).flatten().collect(),
        }
    }

    fn document(folder: &Arc<dyn ListedFolder>, query: &str) -> serde_json::Value {
        serde_json::from_slice(&body(page(folder, query, false).unwrap())).unwrap()
    }

    #[test]
    fn rules_of_the_site_hold_below_the_mount() {
        let check = |mount: &str, path: &str, is_listed: bool, index: &[&str]| {
            let pages = pages(mount, &[]);
            let names = pages.index_names(path);
            assert_eq!((pages.is_listed(path), names.join(" ")), (is_listed, index.join(" ")), "{mount} {path}");
        };
        check("/", "/", false, &["index.html"]);
        check("/", "/pub/", true, &["index.html"]);
        check("/", "/pub/a%20b/", true, &["index.html"]);
        check("/pub/", "/", true, &["index.html"]);
        check("/pub/", "/off/x/", false, &["index.html"]);
        check("/pub/", "/own/", true, &["my%20index.htm"]);
        // Not one folder of the site.
        check("/pub/", "/a%2Fb/", false, &[]);
        check("/pub/", "/a", false, &[]);
    }

    #[test]
    fn entries_are_those_that_may_be_shown_and_mounts() {
        let pages = pages("/pub/", &["/pub/mounted/", "/pub/deep/er/", "/pub/there/deep/", "/elsewhere/", "/pub/"]);
        let folder = pages.folder("/", listing(&["a+b %41", "x.tmp", ".hidden", "mounted", "there/", "z"]));
        let names = |query: &str| {
            let document = document(&folder, query);
            let entries = document["entries"].as_array().unwrap();
            entries.iter().map(|entry| entry["href"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names("format=json"), ["deep/", "mounted/"]);
        assert_eq!(names("format=json&page=2"), ["there/", "a%2Bb%20%2541"]);
        let document = document(&folder, "format=json&page=3");
        assert_eq!((&document["path"], &document["entries"][0]["name"]), (&"/pub/".into(), &"z".into()));
        assert_eq!(document["entries"][0]["modified"], "1994-11-06T08:49:37Z");
        assert!(document.get("incomplete").is_none());
        assert!(page(&folder, "page=4", false).is_none());
    }

    #[test]
    fn a_page_of_a_listing_that_was_cut_off_says_so() {
        let folder = pages("/pub/", &[]).folder("/", FolderListing { is_complete: false, ..listing(&["a", "b"]) });
        assert_eq!(document(&folder, "format=json")["incomplete"], true);
        let text = body(page(&folder, "", false).unwrap());
        assert!(String::from_utf8_lossy(&text).contains("This list is not complete"));
        // A program would take it for the folder; JSON and pages tell.
        let asked = |query| folder.page(FolderView { query: Some(query), names_html: false, is_gzip: false });
        assert_eq!(asked("").err(), Some(IncompleteListing));
        assert!(asked("page=1").is_ok() && asked("format=json").is_ok());
    }

    #[test]
    fn a_program_gets_all_entries_of_a_bucket() {
        let names: Vec<String> = (0..5000).map(|number| format!("object {number}")).collect();
        let folder = pages("/pub/", &[]).folder("/", listing(&names.iter().map(|name| &**name).collect::<Vec<_>>()));
        let asked = |query, is_gzip| {
            folder.page(FolderView { query: Some(query), names_html: false, is_gzip }).unwrap().unwrap()
        };
        for (query, entry) in [("", "<tr><th scope=\"row\"><a href=\"object"), ("format=json", "\"href\"")] {
            let [plain, gzip] = [false, true].map(|is_gzip| asked(query, is_gzip));
            assert_ne!(plain.tag, gzip.tag);
            assert_eq!(plain.tag, asked(query, false).tag);
            let vary: Vec<_> =
                plain.fields.iter().filter(|(name, _)| *name == "Vary").map(|(_, value)| &value[..]).collect();
            assert_eq!(vary, [b"Accept".as_slice(), b"Accept-Encoding"]);
            let text = String::from_utf8(body(plain)).unwrap();
            assert_eq!(text.matches(entry).count(), 5000, "{query}");
            assert!(body(gzip).starts_with(b"\x1f\x8b"));
        }
        let first = page(&folder, "", false).unwrap();
        let link = first.fields.iter().find(|(name, _)| *name == "Link").map(|(_, value)| &value[..]);
        assert_eq!(link, Some(&b"<?page=2>; rel=\"next\""[..]));
    }

    #[test]
    fn a_compressed_page_has_a_tag_of_its_own() {
        let folder = pages("/pub/", &[]).folder("/", listing(&["a", "b", "c"]));
        let [plain, gzip] = [false, true].map(|is_gzip| page(&folder, "", is_gzip).unwrap());
        assert_ne!(plain.tag, gzip.tag);
        let has = |page: &FolderPage, name: &str| page.fields.iter().any(|(field, _)| *field == name);
        assert!(has(&plain, "Vary") && has(&gzip, "Vary") && has(&gzip, "Content-Encoding"));
        assert!(!has(&plain, "Content-Encoding") && has(&plain, "Content-Security-Policy"));
        let [plain, gzip] = [plain, gzip].map(body);
        assert!(gzip.len() < plain.len() && gzip.starts_with(b"\x1f\x8b"));
    }

    #[test]
    fn names_of_a_bucket_may_be_longer_than_files() {
        let name = "n".repeat(1000);
        let folder = pages("/pub/", &[]).folder("/", listing(&[&name]));
        assert_eq!(document(&folder, "format=json")["entries"][0]["name"], name);
    }

    #[test]
    fn types_follow_the_name() {
        let check = |path: &str, expected: &str| assert_eq!(pages("/", &[]).media_type(path), expected, "{path}");
        check("/a.html", "text/html; charset=utf-8");
        check("/a%2Fb.iso", "application/x-iso9660-image");
        check("/%61.%64eb", "application/vnd.debian.binary-package");
        check("/letters", "application/octet-stream");
    }
}
