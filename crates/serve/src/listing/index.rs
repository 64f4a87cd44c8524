//! The sorted entries of a folder in little memory: all names in one block, and a few bytes beside
//! each.
//!
//! An index is bounded in bytes, not in entries. Of a folder that does not fit, exactly those
//! entries are kept that come first by name, and the others are counted: a page says so, and shows
//! a beginning instead of a sample.

use std::cmp::{Ordering, Reverse};
use std::hash::{BuildHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::OnceLock;

use foldhash::quality::FixedState;

use super::natural;
use super::view::{Sort, View};

/// The entries of a folder.
pub(crate) struct Index {
    names: Vec<u8>,
    /// By name; folders before files if the style wants that.
    entries: Vec<Entry>,
    /// So many folders stand apart in front of the files, in every order.
    folders_apart: usize,
    /// The other orders, made when a request needs them: by date and by size, ascending and
    /// descending.
    orders: [OnceLock<Box<[u32]>>; 4],
    /// Counts all entries, with those that were not kept.
    pub(crate) tally: Tally,
    /// SHA-256 digests of files, by the places of their entries.
    digests: Box<[(u32, [u8; 32])]>,
}

/// Entries that are shown together.
pub(crate) struct Page<'i> {
    pub(crate) items: Vec<Item<'i>>,
    /// Its number, from 0 on, and the number of pages.
    pub(crate) page: u32,
    pub(crate) pages: u32,
    /// Entries on all pages.
    pub(crate) matching: usize,
}

/// The entries of a view on one page, by their places, to be taken one after the other.
pub(crate) struct Places {
    view: View,
    /// The entries whose names contain the text of a filter; `None` without one.
    matching: Option<Box<[u32]>>,
    len: usize,
}

impl Places {
    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory held.
    pub(crate) fn bytes(&self) -> usize {
        self.matching.as_ref().map_or(0, |matching| size_of_val(&**matching))
    }
}

/// The size of a folder's content.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) folders: u64,
    pub(crate) files: u64,
    /// Bytes of all files together.
    pub(crate) bytes: u64,
    /// Of the entries, so many were not kept.
    pub(crate) omitted: u64,
    /// The folder has more entries, whose number is not known.
    pub(crate) is_cut_off: bool,
    /// The second of the latest change to any of them, if there are any.
    pub(crate) changed_s: Option<i64>,
}

/// An entry of a folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Item<'i> {
    pub(crate) name: &'i [u8],
    pub(crate) kind: Kind,
    /// Bytes of a file; 0 for a folder.
    pub(crate) size: u64,
    /// Seconds since 1970-01-01 UTC.
    pub(crate) modified_s: i64,
    /// The SHA-256 digest of a file, if one is known.
    pub(crate) digest: Option<&'i [u8; 32]>,
}

/// The kind of an entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    Folder,
    File,
}

#[derive(Clone, Copy)]
struct Entry {
    size: u64,
    modified_s: i64,
    name_start: u32,
    /// File systems have names of 255 bytes at most, buckets of 1024.
    name_bytes: u16,
    kind: Kind,
}

/// The bytes of an entry beside its name: itself, and its place in each of the orders.
const ENTRY_BYTES: usize = size_of::<Entry>() + 4 * size_of::<u32>();

/// Less makes no sense.
const BYTES_MAX_LEAST: usize = 16 << 10;

/// Gathers the entries of a folder.
pub(crate) struct Builder {
    names: Vec<u8>,
    entries: Vec<Entry>,
    tally: Tally,
    folders_first: bool,
    bytes_max: usize,
    /// The last entry that is kept, if there was no room for all: its kind and name.
    bound: Option<(Kind, Vec<u8>)>,
}

impl Builder {
    /// Nothing yet, and never more than `bytes_max` bytes.
    pub(crate) fn new(folders_first: bool, bytes_max: usize) -> Self {
        Self {
            names: Vec::new(),
            entries: Vec::new(),
            tally: Tally::default(),
            folders_first,
            // The start of a name is kept in 32 bits.
            bytes_max: bytes_max.clamp(BYTES_MAX_LEAST, u32::MAX as usize),
            bound: None,
        }
    }

    /// Takes in an entry and the second in which it was changed last. Names of more than 64 KiB do
    /// not exist.
    pub(crate) fn push(&mut self, item: Item<'_>, changed_s: i64) {
        let Ok(name_bytes) = u16::try_from(item.name.len()) else { return };
        match item.kind {
            Kind::Folder => self.tally.folders += 1,
            Kind::File => self.tally.files += 1,
        }
        self.tally.bytes = self.tally.bytes.saturating_add(item.size);
        self.tally.changed_s = self.tally.changed_s.max(Some(changed_s));
        loop {
            if let Some((kind, name)) = &self.bound
                && compare((item.kind, item.name), (*kind, name), self.folders_first).is_gt()
            {
                self.tally.omitted += 1;
                return;
            }
            if self.has_room(item.name.len()) {
                break;
            }
            self.keep_the_first();
        }
        // The bound keeps it below 32 bits.
        let name_start = self.names.len() as u32;
        self.names.extend_from_slice(item.name);
        let Item { kind, size, modified_s, .. } = item;
        self.entries.push(Entry { size, modified_s, name_start, name_bytes, kind });
    }

    /// Notes that there are more entries, whose number is not known.
    pub(crate) fn cut_off(&mut self) {
        self.tally.is_cut_off = true;
    }

    /// Makes room for one more entry within the bound; `false` if there is none.
    fn has_room(&mut self, name_bytes: usize) -> bool {
        let names = grown(self.names.capacity(), self.names.len() + name_bytes, 4 << 10);
        let entries = grown(self.entries.capacity(), self.entries.len() + 1, 64);
        let fits = names + entries * ENTRY_BYTES <= self.bytes_max;
        if fits {
            self.names.reserve_exact(names - self.names.len());
            self.entries.reserve_exact(entries - self.entries.len());
        }
        fits
    }

    /// Makes room by letting go of the last quarter, so that sorting is worth its while.
    #[cold]
    fn keep_the_first(&mut self) {
        self.sort();
        let kept = self.entries.len() / 4 * 3;
        self.tally.omitted += (self.entries.len() - kept) as u64;
        self.entries.truncate(kept);
        let mut names = Vec::with_capacity(self.entries.iter().map(|entry| usize::from(entry.name_bytes)).sum());
        for entry in &mut self.entries {
            let start = names.len() as u32;
            names.extend_from_slice(&self.names[entry.name()]);
            entry.name_start = start;
        }
        self.names = names;
        self.entries.shrink_to_fit();
        self.bound = self.entries.last().map(|entry| (entry.kind, self.names[entry.name()].to_vec()));
    }

    fn sort(&mut self) {
        let names = &self.names;
        let folders_first = self.folders_first;
        self.entries
            .sort_unstable_by(|a, b| compare((a.kind, &names[a.name()]), (b.kind, &names[b.name()]), folders_first));
    }

    /// The entries in order.
    pub(crate) fn finish(mut self) -> Index {
        self.sort();
        self.names.shrink_to_fit();
        self.entries.shrink_to_fit();
        let folders_apart = match self.folders_first {
            true => self.entries.partition_point(|entry| entry.kind == Kind::Folder),
            false => 0,
        };
        let orders = Default::default();
        Index {
            names: self.names,
            entries: self.entries,
            folders_apart,
            orders,
            tally: self.tally,
            digests: Box::default(),
        }
    }
}

impl Index {
    /// How many entries are kept.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of memory held, with the orders that were not made yet.
    pub(crate) fn bytes(&self) -> usize {
        self.names.len() + self.entries.len() * ENTRY_BYTES + size_of_val(&*self.digests)
    }

    /// How many pages of so many entries there are; an empty folder has one.
    pub(crate) fn pages(&self, page_entries: usize) -> u64 {
        self.len().div_ceil(page_entries.max(1)).max(1) as u64
    }

    /// The entries of a page in the order of the view; `None` if there is no such page. Of a filter
    /// that leaves fewer pages it is the last one.
    pub(crate) fn page(&self, view: View, page_entries: usize) -> Option<Page<'_>> {
        let page_entries = page_entries.max(1);
        if !view.filter.is_empty() {
            return Some(self.filtered_page(view, page_entries));
        }
        let (page, pages) = (u64::from(view.page), self.pages(page_entries));
        if page >= pages {
            return None;
        }
        let start = page as usize * page_entries;
        let order = self.order(view);
        let range: Range<usize> = start..self.len().min(start + page_entries);
        let items = range.map(|place| self.item(self.at_place(place, order, view))).collect();
        // A folder has fewer entries than 2^32.
        Some(Page { items, page: view.page, pages: pages as u32, matching: self.len() })
    }

    /// The page of the entries whose names contain the text of the view's filter. All names are
    /// looked at, and places are kept in 4 bytes each.
    fn filtered_page(&self, view: View, page_entries: usize) -> Page<'_> {
        let matching = self.matching(view);
        let pages = matching.len().div_ceil(page_entries).max(1) as u32;
        let page = view.page.min(pages - 1);
        let items = matching.iter().skip(page as usize * page_entries).take(page_entries);
        let items = items.map(|&at| self.item(at as usize)).collect();
        Page { items, page, pages, matching: matching.len() }
    }

    /// The entries whose names contain the text of the view's filter, in the order of the view.
    fn matching(&self, view: View) -> Box<[u32]> {
        let order = self.order(view);
        let text = view.filter.text();
        let places = (0..self.len()).map(|place| self.at_place(place, order, view));
        places.filter(|&at| contains(&self.names[self.entries[at].name()], text)).map(|at| at as u32).collect()
    }

    /// The places of all entries of a view. What takes long is done here: sorting and filtering.
    pub(crate) fn places(&self, view: View) -> Places {
        let matching = if view.filter.is_empty() { None } else { Some(self.matching(view)) };
        self.order(view);
        let len = matching.as_ref().map_or(self.len(), |matching| matching.len());
        Places { view, matching, len }
    }

    /// The entry at one of the places of a view, which has as many.
    pub(crate) fn at(&self, places: &Places, place: usize) -> Item<'_> {
        self.item(match &places.matching {
            Some(matching) => matching[place] as usize,
            None => self.at_place(place, self.order(places.view), places.view),
        })
    }

    /// A number that tells the content of the folder from that of another one, or of the same one
    /// later: all that is known of all entries goes into it.
    pub(crate) fn version(&self) -> u64 {
        let mut hasher = FixedState::default().build_hasher();
        let Tally { folders, files, bytes, omitted, is_cut_off, .. } = self.tally;
        (folders, files, bytes, omitted, is_cut_off).hash(&mut hasher);
        for entry in &self.entries {
            (&self.names[entry.name()], entry.kind as u8, entry.size, entry.modified_s).hash(&mut hasher);
        }
        self.digests.hash(&mut hasher);
        hasher.finish()
    }

    /// The entry at a place in an order.
    fn at_place(&self, place: usize, order: Option<&[u32]>, view: View) -> usize {
        match order {
            Some(order) => order[place] as usize,
            None => self.at_place_by_name(place, view.descending),
        }
    }

    /// The digest of an entry, if one is known.
    fn digest(&self, at: usize) -> Option<&[u8; 32]> {
        let found = self.digests.binary_search_by_key(&(at as u32), |(of, _)| *of).ok()?;
        Some(&self.digests[found].1)
    }

    /// Sets the digests of files, as `digest_of` gives them by name and second of modification.
    pub(crate) fn set_digests(&mut self, mut digest_of: impl FnMut(&[u8], i64) -> Option<[u8; 32]>) {
        let of_entry = |(at, entry): (usize, &Entry)| {
            let is_file = entry.kind == Kind::File;
            Some((at as u32, is_file.then(|| digest_of(&self.names[entry.name()], entry.modified_s)).flatten()?))
        };
        self.digests = self.entries.iter().enumerate().filter_map(of_entry).collect();
    }

    /// Whether any digest is known.
    pub(crate) fn has_digests(&self) -> bool {
        !self.digests.is_empty()
    }

    fn item(&self, at: usize) -> Item<'_> {
        let entry = &self.entries[at];
        let (name, digest) = (&self.names[entry.name()], self.digest(at));
        Item { name, kind: entry.kind, size: entry.size, modified_s: entry.modified_s, digest }
    }

    /// Folders stay in front when the names run backwards.
    fn at_place_by_name(&self, place: usize, descending: bool) -> usize {
        match (descending, place < self.folders_apart) {
            (false, _) => place,
            (true, true) => self.folders_apart - 1 - place,
            (true, false) => self.folders_apart + (self.entries.len() - 1 - place),
        }
    }

    /// The places in an order other than by name. Entries that are equal in it are ordered by name,
    /// in both directions.
    fn order(&self, view: View) -> Option<&[u32]> {
        let (slot, key): (usize, fn(&Entry) -> i128) = match view.sort {
            Sort::Name => return None,
            Sort::Date => (0, |entry| i128::from(entry.modified_s)),
            Sort::Size => (2, |entry| i128::from(entry.size)),
        };
        let order = self.orders[slot + usize::from(view.descending)].get_or_init(|| {
            // There are fewer than 2^32 entries: their names' places would not fit otherwise.
            let mut order: Box<[u32]> = (0..self.entries.len() as u32).collect();
            let (folders, files) = order.split_at_mut(self.folders_apart);
            for part in [folders, files] {
                if view.descending {
                    part.sort_unstable_by_key(|&at| (Reverse(key(&self.entries[at as usize])), at));
                } else {
                    part.sort_unstable_by_key(|&at| (key(&self.entries[at as usize]), at));
                }
            }
            order
        });
        Some(order)
    }
}

impl Entry {
    fn name(&self) -> Range<usize> {
        self.name_start as usize..self.name_start as usize + usize::from(self.name_bytes)
    }
}

/// Whether a name contains a text in lower case, without regard to the case of ASCII letters.
fn contains(name: &[u8], text: &[u8]) -> bool {
    name.windows(text.len().max(1)).any(|part| part.eq_ignore_ascii_case(text)) || text.is_empty()
}

fn compare(a: (Kind, &[u8]), b: (Kind, &[u8]), folders_first: bool) -> Ordering {
    let by_kind = if folders_first { a.0.cmp(&b.0) } else { Ordering::Equal };
    by_kind.then_with(|| natural::compare(a.1, b.1))
}

/// The capacity that has room for `needed`, growing by quarters.
fn grown(capacity: usize, needed: usize, least: usize) -> usize {
    if needed <= capacity { capacity } else { needed.max(capacity + capacity / 4).max(least) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str, size: u64, modified_s: i64) -> Item<'_> {
        let kind = if name.ends_with('/') { Kind::Folder } else { Kind::File };
        Item { name: name.trim_end_matches('/').as_bytes(), kind, size, modified_s, digest: None }
    }

    fn view(sort: Sort, descending: bool) -> View {
        View { sort, descending, ..View::default() }
    }

    fn names(index: &Index, view: View, page_entries: usize) -> Option<Vec<String>> {
        let page = index.page(view, page_entries)?;
        Some(page.items.into_iter().map(|item| String::from_utf8(item.name.to_vec()).unwrap()).collect())
    }

    fn index(folders_first: bool) -> Index {
        let mut builder = Builder::new(folders_first, 1 << 20);
        for (name, size, modified_s) in
            [("b10", 5, 30), ("B2", 5, 10), ("zoo/", 0, 20), ("a", 7, 20), ("C/", 0, 40), ("empty", 0, 20)]
        {
            builder.push(item(name, size, modified_s), modified_s + 1);
        }
        builder.finish()
    }

    #[test]
    fn entries_are_in_the_order_of_the_view() {
        for (sort, descending, apart, mixed) in [
            (Sort::Name, false, "C zoo a B2 b10 empty", "a B2 b10 C empty zoo"),
            (Sort::Name, true, "zoo C empty b10 B2 a", "zoo empty C b10 B2 a"),
            (Sort::Date, false, "zoo C B2 a empty b10", "B2 a empty zoo b10 C"),
            (Sort::Date, true, "C zoo b10 a empty B2", "C b10 a empty zoo B2"),
            (Sort::Size, false, "C zoo empty B2 b10 a", "C empty zoo B2 b10 a"),
            (Sort::Size, true, "C zoo a B2 b10 empty", "a B2 b10 C empty zoo"),
        ] {
            for (folders_first, expected) in [(true, apart), (false, mixed)] {
                let index = index(folders_first);
                let found = names(&index, view(sort, descending), 100).unwrap().join(" ");
                assert_eq!(found, expected, "{sort:?} {descending} {folders_first}");
            }
        }
        let tally = Tally { folders: 2, files: 4, bytes: 17, omitted: 0, is_cut_off: false, changed_s: Some(41) };
        assert_eq!(index(true).tally, tally);
    }

    #[test]
    fn pages() {
        let index = index(true);
        for (page, page_entries, expected) in [
            (0, 4, Some("C zoo a B2")),
            (1, 4, Some("b10 empty")),
            (2, 4, None),
            (u32::MAX - 1, 4, None),
            (5, 1, Some("empty")),
            (6, 1, None),
            (0, 6, Some("C zoo a B2 b10 empty")),
            (1, 6, None),
            (0, usize::MAX, Some("C zoo a B2 b10 empty")),
        ] {
            let view = View { page, ..View::default() };
            let found = names(&index, view, page_entries).map(|names| names.join(" "));
            assert_eq!(found.as_deref(), expected, "{page} {page_entries}");
        }
        let empty = Builder::new(true, 1 << 20).finish();
        assert_eq!((empty.pages(10), names(&empty, View::default(), 10)), (1, Some(Vec::new())));
    }

    #[test]
    fn a_filter_leaves_the_names_that_contain_its_text() {
        let index = index(true);
        for (query, page_entries, expected, matching, page, pages) in [
            ("filter=b", 9, "B2 b10", 2, 0, 1),
            ("filter=B&order=desc", 9, "b10 B2", 2, 0, 1),
            ("filter=b&sort=date", 9, "B2 b10", 2, 0, 1),
            ("filter=o", 9, "zoo", 1, 0, 1),
            ("filter=nowhere", 9, "", 0, 0, 1),
            ("filter=e", 1, "empty", 1, 0, 1),
            ("filter=b&page=2", 1, "b10", 2, 1, 2),
            ("filter=b&page=99", 1, "b10", 2, 1, 2),
            ("filter=a-name-that-is-longer-than-all", 9, "", 0, 0, 1),
        ] {
            let found = index.page(View::parse(Some(query.as_bytes()), true), page_entries).unwrap();
            let names: Vec<_> = found.items.iter().map(|item| str::from_utf8(item.name).unwrap()).collect();
            let figures = (found.matching, found.page, found.pages);
            assert_eq!((names.join(" ").as_str(), figures), (expected, (matching, page, pages)), "{query}");
        }
    }

    #[test]
    fn all_entries_are_those_of_one_page_of_all() {
        for folders_first in [true, false] {
            let index = index(folders_first);
            for query in ["", "order=desc", "sort=date", "sort=size&order=desc", "filter=b&sort=date", "filter=nowhere"]
            {
                let view = View::parse(Some(query.as_bytes()), false);
                let places = index.places(view);
                let all: Vec<_> = (0..places.len()).map(|place| index.at(&places, place)).collect();
                assert_eq!(all, index.page(view, usize::MAX).unwrap().items, "{query}");
            }
        }
    }

    #[test]
    fn whatever_is_known_of_an_entry_is_part_of_the_version() {
        let version = |items: &[Item<'_>], digest: Option<[u8; 32]>| {
            let mut builder = Builder::new(true, 1 << 20);
            items.iter().for_each(|&item| builder.push(item, 0));
            let mut index = builder.finish();
            index.set_digests(|_, _| digest);
            index.version()
        };
        let plain = version(&[item("a", 5, 30), item("b", 5, 30)], None);
        assert_eq!(
            version(&[item("b", 5, 30), item("a", 5, 30)], None),
            plain,
            "the order in the folder does not matter"
        );
        for other in [
            version(&[item("a", 5, 30)], None),
            version(&[item("a", 5, 30), item("c", 5, 30)], None),
            version(&[item("a", 5, 30), item("b", 6, 30)], None),
            version(&[item("a", 6, 30), item("b", 4, 30)], None),
            version(&[item("a", 5, 30), item("b", 5, 31)], None),
            version(&[item("a", 5, 30), item("b/", 5, 30)], None),
            version(&[item("ab", 5, 30), item("", 5, 30)], None),
            version(&[item("a", 5, 30), item("b", 5, 30)], Some([1; 32])),
        ] {
            assert_ne!(other, plain);
        }
    }

    #[test]
    fn digests_are_those_of_their_files() {
        for folders_first in [true, false] {
            let mut index = index(folders_first);
            assert!(!index.has_digests());
            index.set_digests(|name, modified_s| (modified_s >= 20).then_some([name[0]; 32]));
            let digests = index.page(View::default(), 100).unwrap().items.into_iter();
            let digests: String = digests.filter_map(|item| Some(char::from(item.digest?[0]))).collect();
            assert_eq!((digests.as_str(), index.has_digests()), ("abe", true));
            let bytes = index.bytes();
            index.set_digests(|_, _| None);
            assert!(index.bytes() < bytes);
        }
    }

    /// A million names that come in a scrambled order, and what becomes of them.
    #[test]
    fn a_million_entries_stay_within_the_bound_and_the_first_by_name_are_kept() {
        const ENTRIES: u64 = 1_000_000;
        const BYTES_MAX: usize = 8 << 20;
        let mut builder = Builder::new(true, BYTES_MAX);
        let mut name = String::new();
        for step in 0..ENTRIES {
            // The factor shares no divisor with the number of entries: every one comes once.
            let number = step * 7_654_321 % ENTRIES;
            name.clear();
            std::fmt::Write::write_fmt(&mut name, format_args!("file number {number}.tar")).unwrap();
            builder.push(item(&name, number, number as i64), 0);
            if step % 997 == 0 {
                let held = builder.names.capacity() + builder.entries.capacity() * ENTRY_BYTES;
                assert!(held <= BYTES_MAX, "{held} bytes after {step} entries");
            }
        }
        let index = builder.finish();
        assert!(index.bytes() <= BYTES_MAX, "{}", index.bytes());
        assert!(index.bytes() >= BYTES_MAX / 2, "{}", index.bytes());
        assert_eq!((index.tally.files, index.tally.omitted), (ENTRIES, ENTRIES - index.len() as u64));
        assert_eq!(index.tally.bytes, ENTRIES * (ENTRIES - 1) / 2);
        for view in [view(Sort::Name, false), view(Sort::Date, false), view(Sort::Size, false)] {
            for (number, item) in index.page(view, usize::MAX).unwrap().items.into_iter().enumerate() {
                assert_eq!(item.size, number as u64, "by {}", view.sort.name());
            }
        }
        let largest = index.page(view(Sort::Size, true), 1).unwrap().items[0];
        assert_eq!(largest.size, index.len() as u64 - 1);
    }
}
