//! What all threads of a server share for its figures: the mounts' counters of each loop, and the totals of the logs.
//!
//! Mounts are numbered in the order in which they were first seen, and keep number and counters when a new configuration
//! names them again.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::stream::Stream;
use crate::config::ServerConfig;
use crate::telemetry::log::LineCounts;

/// What was done for one mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tally {
    /// Requests that were answered.
    pub(crate) requests: u64,
    /// Bytes of responses that the kernel has taken, heads included.
    pub(crate) bytes: u64,
    /// Downloads: files of which the last byte was sent as a part of a whole response to GET.
    pub(crate) downloads: u64,
    /// Responses to GET that carry a file, or a part of one, and are under way now.
    pub(crate) under_way: u64,
}

impl Tally {
    /// Adds another loop's, or another mount's.
    pub(crate) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.downloads += other.downloads;
        self.under_way += other.under_way;
    }
}

/// One loop's published tally of one mount, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Cell([AtomicU64; 4]);

impl Cell {
    /// Replaces what is published. Plain stores: readers may see some fields before others.
    pub(crate) fn publish(&self, tally: &Tally) {
        let values = [tally.requests, tally.bytes, tally.downloads, tally.under_way];
        for (cell, value) in self.0.iter().zip(values) {
            cell.store(value, Relaxed);
        }
    }

    /// What was published last.
    pub(crate) fn tally(&self) -> Tally {
        let [requests, bytes, downloads, under_way] = self.0.each_ref().map(|cell| cell.load(Relaxed));
        Tally { requests, bytes, downloads, under_way }
    }
}

/// What a loop says of its cache and of its end of the log's queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LoopFigures {
    /// Look-ups for which a file was opened, or looked at again because of its age or of a change.
    pub(crate) cache_misses: u64,
    pub(crate) cache_entries: u64,
    pub(crate) cache_bytes: u64,
    /// Records that the log thread had no room for.
    pub(crate) records_dropped: u64,
}

/// One loop's published figures, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct LoopCells([AtomicU64; 4]);

impl LoopCells {
    /// Replaces what is published.
    pub(crate) fn publish(&self, figures: &LoopFigures) {
        let LoopFigures { cache_misses, cache_entries, cache_bytes, records_dropped } = *figures;
        for (cell, value) in self.0.iter().zip([cache_misses, cache_entries, cache_bytes, records_dropped]) {
            cell.store(value, Relaxed);
        }
    }

    /// What was published last.
    pub(crate) fn figures(&self) -> LoopFigures {
        let [cache_misses, cache_entries, cache_bytes, records_dropped] =
            self.0.each_ref().map(|cell| cell.load(Relaxed));
        LoopFigures { cache_misses, cache_entries, cache_bytes, records_dropped }
    }
}

/// What is heard of changes.
#[derive(Debug, Default)]
pub(crate) struct WatchCounts {
    /// Folders that are watched now.
    pub(crate) folders: AtomicU64,
    pub(crate) events: AtomicU64,
    /// How often the kernel had no room for events.
    pub(crate) overflows: AtomicU64,
    /// How often it would not watch a folder.
    pub(crate) refused: AtomicU64,
}

/// A mount and what all loops have done for it.
#[derive(Debug)]
pub(crate) struct MountCells {
    pub(crate) number: u16,
    pub(crate) label: Arc<str>,
    loops: Box<[Cell]>,
}

impl MountCells {
    /// One loop's.
    pub(crate) fn of_loop(&self, loop_index: usize) -> &Cell {
        &self.loops[loop_index]
    }

    /// All loops together.
    pub(crate) fn tally(&self) -> Tally {
        let mut sum = Tally::default();
        self.loops.iter().for_each(|cell| sum.add(&cell.tally()));
        sum
    }
}

/// What all threads of a server share for its figures.
#[derive(Debug)]
pub(crate) struct Observed {
    mounts: Mutex<Vec<Arc<MountCells>>>,
    pub(crate) lines: LineCounts,
    pub(crate) watch: WatchCounts,
    pub(crate) loops: Box<[LoopCells]>,
    stream: Mutex<Option<Stream>>,
}

impl Observed {
    /// Nothing has been done yet. The stream of records is looked at only if somebody will ask.
    pub(crate) fn new(loops: usize, with_stream: bool) -> Self {
        Self {
            mounts: Mutex::default(),
            lines: LineCounts::default(),
            watch: WatchCounts::default(),
            loops: (0..loops).map(|_| LoopCells::default()).collect(),
            stream: Mutex::new(with_stream.then(Stream::default)),
        }
    }

    /// The mounts of a configuration, site by site in its order.
    pub(crate) fn adopt(&self, config: &ServerConfig) -> Vec<Arc<MountCells>> {
        let mut mounts = self.mounts.lock().unwrap_or_else(PoisonError::into_inner);
        labels(config).map(|label| self.find_or_add(&mut mounts, &label)).collect()
    }

    fn find_or_add(&self, mounts: &mut Vec<Arc<MountCells>>, label: &str) -> Arc<MountCells> {
        if let Some(there) = mounts.iter().find(|mount| *mount.label == *label) {
            return Arc::clone(there);
        }
        // More mounts than there are numbers share the last one.
        let Ok(number) = u16::try_from(mounts.len()) else { return Arc::clone(&mounts[usize::from(u16::MAX)]) };
        let loops = (0..self.loops.len()).map(|_| Cell::default()).collect();
        let mount = Arc::new(MountCells { number, label: label.into(), loops });
        mounts.push(Arc::clone(&mount));
        mount
    }

    /// All mounts that were ever seen, at the index of their number.
    pub(crate) fn mounts(&self) -> Vec<Arc<MountCells>> {
        self.mounts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Their names.
    pub(crate) fn mount_labels(&self) -> Vec<Arc<str>> {
        self.mounts().iter().map(|mount| Arc::clone(&mount.label)).collect()
    }

    /// Looks at the records of a page.
    pub(crate) fn take_in(&self, records: &[u8]) {
        if let Some(stream) = &mut *self.stream() {
            stream.take_in(records);
        }
    }

    /// What was seen of the stream since the last [`forget`](Self::forget).
    pub(crate) fn with_stream<T>(&self, look: impl FnOnce(&Stream) -> T) -> T {
        look(self.stream().get_or_insert_default())
    }

    /// Looks at the stream no more, until somebody asks.
    pub(crate) fn look_away(&self) {
        *self.stream() = None;
    }

    /// Begins anew with what is seen of the stream.
    pub(crate) fn forget(&self) {
        *self.stream() = Some(Stream::default());
    }

    fn stream(&self) -> MutexGuard<'_, Option<Stream>> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What mounts are called: by their path, behind the first name of their site if it has one.
fn labels(config: &ServerConfig) -> impl Iterator<Item = String> {
    config.sites.iter().flat_map(|site| {
        let name = site.names.first().map_or("", String::as_str);
        site.mounts.iter().map(move |mount| format!("{name}{}", mount.path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{MountConfig, SiteConfig};

    #[test]
    fn mounts_keep_their_counters_over_configurations() {
        let mut config = ServerConfig::new("/srv", Vec::<crate::config::ListenAddr>::new());
        config.sites.push(SiteConfig { names: vec!["b.example".to_owned()], ..SiteConfig::new("/b") });
        let observed = Observed::new(2, false);
        let first = observed.adopt(&config);
        let labels: Vec<_> = first.iter().map(|mount| (mount.number, &*mount.label)).collect();
        assert_eq!(labels, [(0, "/"), (1, "b.example/")]);
        for loop_index in 0..2 {
            first[1].of_loop(loop_index).publish(&Tally { requests: 3, bytes: 4, downloads: 1, under_way: 1 });
        }
        config.sites[0].mounts.insert(0, MountConfig::new("/pub/", "/pub"));
        config.sites.swap(0, 1);
        let second = observed.adopt(&config);
        let labels: Vec<_> = second.iter().map(|mount| (mount.number, &*mount.label)).collect();
        assert_eq!(labels, [(1, "b.example/"), (2, "/pub/"), (0, "/")]);
        assert_eq!(second[0].tally(), Tally { requests: 6, bytes: 8, downloads: 2, under_way: 2 });
        assert_eq!(observed.mount_labels().len(), 3);
    }
}
