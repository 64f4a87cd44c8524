//! A folder in memory: its entries, and the texts that its pages have above and beneath them.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::OnceLock;

use foldhash::quality::FixedState;
use thalweg_sys::file::Stamp;
use thalweg_wire::encode::push_hex;

use super::index::Index;
use super::style::Style;
use super::view::{Extent, Format, View};

/// A folder as it was read.
pub(super) struct Folder {
    pub(super) stamp: Stamp,
    /// An equal stamp later does not prove that nothing has changed.
    pub(super) unsettled: bool,
    pub(super) index: Index,
    pub(super) header: Option<Fragment>,
    pub(super) readme: Option<Fragment>,
    /// When anything in the folder changed last, to the second.
    pub(super) last_modified: Option<i64>,
    /// That of the index, once it is needed.
    pub(super) version: OnceLock<u64>,
}

/// A part of a page that the operator has written: a header or a readme.
#[derive(PartialEq, Eq, Hash, Debug)]
pub(super) struct Fragment {
    /// Its name, relative to the folder.
    pub(super) name: Vec<u8>,
    pub(super) text: String,
    pub(super) form: Form,
}

/// The form in which a fragment is shown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Form {
    /// Becomes part of the page as it is.
    Html,
    /// Becomes part of the page as text, below its name.
    Text,
    /// The same without its name, which is hidden.
    UnnamedText,
}

impl Folder {
    /// How many pages it has.
    pub(super) fn pages(&self, style: &Style) -> u64 {
        self.index.pages(style.page_entries)
    }

    /// The view that a request for a view gets: all entries are one page if they fit it.
    pub(super) fn settled(&self, view: View, style: &Style) -> View {
        // A page does not list the files that it shows, which a program wants, too.
        let lists_all = view.format == Format::Json || (self.header.is_none() && self.readme.is_none());
        let is_page = view.extent == Extent::Whole && self.pages(style) <= 1 && self.is_whole() && lists_all;
        if is_page { View { extent: Extent::First, ..view } } else { view }
    }

    /// Whether a page shows an entry above or below the list.
    pub(super) fn shows(&self, name: &[u8]) -> bool {
        [&self.header, &self.readme].into_iter().flatten().any(|fragment| fragment.name == name)
    }

    /// Whether all entries can be listed.
    pub(super) fn is_whole(&self) -> bool {
        self.index.tally.omitted == 0 && !self.index.tally.is_cut_off
    }

    /// Whether a view must not be shown, because it would be taken for all that the folder has. In
    /// JSON it says that it is not.
    pub(super) fn would_deceive(&self, view: View) -> bool {
        view.extent == Extent::Whole && view.format == Format::Html && !self.is_whole()
    }

    /// The opaque part of the tag of a document that is not in memory: of the content of the
    /// folder, of the settings and the version of the program that writes it, and of the view.
    pub(super) fn tag(&self, path: &[u8], style: &Style, view: View) -> Vec<u8> {
        let index = self.version.get_or_init(|| self.index.version());
        let mut hasher = FixedState::default().build_hasher();
        (index, &self.header, &self.readme, path, style.name_width).hash(&mut hasher);
        (view.link(), env!("CARGO_PKG_VERSION")).hash(&mut hasher);
        let mut tag = b"list-".to_vec();
        push_hex(&mut tag, hasher.finish());
        tag
    }

    /// How many entries it was read from.
    pub(super) fn entries(&self) -> u64 {
        self.index.tally.folders + self.index.tally.files
    }

    /// A folder with these entries and nothing else to it.
    pub(super) fn of_index(index: Index) -> Self {
        let stamp = Stamp::default();
        let (unsettled, version) = (false, OnceLock::new());
        Self { stamp, unsettled, index, header: None, readme: None, last_modified: None, version }
    }

    /// Bytes of memory held.
    pub(super) fn bytes(&self) -> usize {
        let fragment = |fragment: &Option<Fragment>| match fragment {
            Some(Fragment { name, text, .. }) => name.len() + text.len(),
            None => 0,
        };
        self.index.bytes() + fragment(&self.header) + fragment(&self.readme)
    }
}
