//! The entries of a folder, as buckets and trees list them.

use std::time::{Duration, SystemTime};

/// A listing that takes longer is ended after this time, and has the entries that came until then.
pub(crate) const LISTING_TIME: Duration = Duration::from_secs(30);

/// One entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its name in the folder, decoded, without a slash.
    pub name: Vec<u8>,
    /// It is a folder itself.
    pub is_folder: bool,
    /// Its length in bytes, for files.
    pub size: Option<u64>,
    /// The time of its last change, if it is known.
    pub modified: Option<SystemTime>,
    /// Its entity tag as a field has it, with quotes, if it is known.
    pub etag: Option<Vec<u8>>,
}

/// The entries of one folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listing {
    /// The entries, by name.
    pub entries: Vec<Entry>,
    /// There are no more; if not, the limit of entries or of time was reached.
    pub is_complete: bool,
}

impl Listing {
    /// A listing of entries in any order. A file and a folder of one name, which a bucket may have,
    /// become the folder.
    pub(crate) fn new(mut entries: Vec<Entry>, is_complete: bool) -> Self {
        entries.sort_by(|one, other| one.name.cmp(&other.name).then(other.is_folder.cmp(&one.is_folder)));
        entries.dedup_by(|later, kept| later.name == kept.name);
        Self { entries, is_complete }
    }
}
