//! A listing without its entries: the text in front of them and the text behind them.

use super::folder::Folder;
use super::index::{Item, Page};
use super::style::Style;
use super::view::View;

/// The two texts.
pub(super) struct Frame {
    pub(super) before: String,
    pub(super) after: String,
}

/// The part of a folder that a listing shows.
#[derive(Clone, Copy)]
pub(super) struct Shown {
    /// With the page that it is.
    pub(super) view: View,
    pub(super) pages: u32,
    /// Entries on all pages.
    pub(super) matching: usize,
}

impl Shown {
    /// A page of a folder, and its entries; `None` if there is no such page.
    pub(super) fn page<'f>(folder: &'f Folder, style: &Style, view: View) -> Option<(Self, Vec<Item<'f>>)> {
        let Page { items, page, pages, matching } = folder.index.page(view, style.page_entries)?;
        Some((Self { view: View { page, ..view }, pages, matching }, items))
    }

    /// The view of the next page, if there is one.
    pub(super) fn next(&self) -> Option<View> {
        (self.view.page + 1 < self.pages).then(|| View { page: self.view.page + 1, ..self.view })
    }
}
