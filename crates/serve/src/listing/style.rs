//! Styles of listings, compiled from the settings of folders.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::config::{ListingStyle, Settings};

/// More entries on a page would make browsers slow.
const PAGE_ENTRIES_MAX: usize = 10_000;

/// The style in which a folder is listed.
#[derive(Debug)]
pub(super) struct Style {
    pub(super) name_width: usize,
    hide: GlobSet,
    pub(super) header: Option<String>,
    pub(super) readme: Option<String>,
    pub(super) page_entries: usize,
    pub(super) folders_first: bool,
}

/// The styles that were needed so far, with the settings that they were compiled from. There are no
/// more than combinations of rules.
#[derive(Default)]
pub(super) struct Styles(Vec<(Arc<Settings>, Arc<Style>)>);

impl Styles {
    /// The style that settings have; `None` if a pattern in them is none, which was looked for at
    /// start.
    pub(super) fn of(&mut self, settings: &Arc<Settings>) -> Option<Arc<Style>> {
        if let Some((_, style)) = self.0.iter().find(|(known, _)| Arc::ptr_eq(known, settings)) {
            return Some(Arc::clone(style));
        }
        let style = match &settings.listing_style {
            Some(style) => Style::compile(style),
            None => Style::compile(&ListingStyle::default()),
        };
        let style = Arc::new(style.ok()?);
        self.0.push((Arc::clone(settings), Arc::clone(&style)));
        Some(style)
    }
}

impl Style {
    /// Compiles the patterns.
    ///
    /// # Errors
    /// One of them is no pattern.
    pub(super) fn compile(style: &ListingStyle) -> Result<Self, globset::Error> {
        let mut hide = GlobSetBuilder::new();
        for pattern in &style.hide {
            hide.add(Glob::new(pattern)?);
        }
        Ok(Self::of(style, hide.build()?))
    }

    /// The style of settings that say nothing.
    pub(super) fn plain() -> Self {
        Self::of(&ListingStyle::default(), GlobSet::empty())
    }

    fn of(style: &ListingStyle, hide: GlobSet) -> Self {
        Self {
            name_width: style.name_width,
            hide,
            header: style.header.clone(),
            readme: style.readme.clone(),
            page_entries: style.page_entries.clamp(1, PAGE_ENTRIES_MAX),
            folders_first: style.folders_first,
        }
    }

    /// Whether a name is not shown.
    pub(super) fn hides(&self, name: &[u8]) -> bool {
        !self.hide.is_empty() && self.hide.is_match(Path::new(OsStr::from_bytes(name)))
    }
}
