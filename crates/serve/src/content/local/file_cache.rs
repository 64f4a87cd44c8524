//! The cache of open files. Loading, freshness and watching are the [origin](super::origin)'s.

use std::rc::Rc;

use thalweg_sys::Instant;

use crate::content::clock_cache::{self, ClockCache};
use crate::content::local::metadata::FileState;
use crate::content::local::watch::FolderId;
use crate::content::object::Object;

/// Open files by key.
pub(super) type FileCache = ClockCache<Entry>;

/// An open file.
pub(super) struct Entry {
    /// The canonical name, marked with the site.
    pub(super) key: Rc<[u8]>,
    pub(super) site: usize,
    pub(super) mount: u16,
    /// The folder of the name, which is watched for the entry.
    pub(super) folder: FolderId,
    pub(super) object: Object,
    pub(super) state: FileState,
    /// The file had this state then.
    pub(super) checked: Instant,
    /// The changes of folders that the state takes into account.
    pub(super) epoch: u64,
    pub(super) is_used: bool,
}

impl clock_cache::Entry for Entry {
    fn key(&self) -> &Rc<[u8]> {
        &self.key
    }

    fn bytes(&self) -> usize {
        self.key.len() + self.object.bytes()
    }

    fn is_used(&mut self) -> &mut bool {
        &mut self.is_used
    }
}
