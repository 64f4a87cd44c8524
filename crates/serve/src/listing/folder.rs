//! A folder in memory: its entries, and the texts that its pages have above and beneath them.

use thalweg_sys::file::Stamp;

use super::index::Index;
use super::style::Style;

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
}

/// A part of a page that the operator has written: a header or a readme.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Fragment {
    /// Becomes part of the page as it is.
    Html(String),
    /// Becomes part of the page as text.
    Text(String),
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
