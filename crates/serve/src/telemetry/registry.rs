//! The registry of counters that all threads of a server share: of each mount by loop, of caches,
//! logs and the watcher, and the statistics of downloads.
//!
//! Mounts are numbered in the order in which they were first seen, and keep number and counters
//! when a new configuration names them again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::ServerConfig;
use crate::content::local::watch::WatchCounts;
use crate::content::tier::CacheTier;
use crate::telemetry::downloads::DownloadStatistics;

/// The totals of one mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct MountTotals {
    /// Requests that got a response.
    pub(crate) requests: u64,
    /// Bytes of responses that the kernel has taken, heads included.
    pub(crate) bytes: u64,
    /// Downloads: files of which the last byte was sent as a part of a whole response to GET.
    pub(crate) downloads: u64,
    /// Responses to GET that carry a file, or a part of one, and are under way now.
    pub(crate) under_way: u64,
}

impl MountTotals {
    /// Adds another loop's, or another mount's, totals.
    pub(crate) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.downloads += other.downloads;
        self.under_way += other.under_way;
    }
}

/// One loop's published totals of one mount, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Cell([AtomicU64; 4]);

impl Cell {
    /// Replaces the published values. Plain stores: readers may see some fields before others.
    pub(crate) fn publish(&self, totals: &MountTotals) {
        let values = [totals.requests, totals.bytes, totals.downloads, totals.under_way];
        for (cell, value) in self.0.iter().zip(values) {
            cell.store(value, Relaxed);
        }
    }

    /// The values that were published last.
    pub(crate) fn totals(&self) -> MountTotals {
        let [requests, bytes, downloads, under_way] = self.0.each_ref().map(|cell| cell.load(Relaxed));
        MountTotals { requests, bytes, downloads, under_way }
    }
}

/// A loop's figures of its cache and of its end of the log's queue.
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
    /// Replaces the published values.
    pub(crate) fn publish(&self, figures: &LoopFigures) {
        let LoopFigures { cache_misses, cache_entries, cache_bytes, records_dropped } = *figures;
        for (cell, value) in self.0.iter().zip([cache_misses, cache_entries, cache_bytes, records_dropped]) {
            cell.store(value, Relaxed);
        }
    }

    /// The values that were published last.
    pub(crate) fn figures(&self) -> LoopFigures {
        let [cache_misses, cache_entries, cache_bytes, records_dropped] =
            self.0.each_ref().map(|cell| cell.load(Relaxed));
        LoopFigures { cache_misses, cache_entries, cache_bytes, records_dropped }
    }
}

/// Counters of the lines of the access log.
#[derive(Debug, Default)]
pub(crate) struct LineCounts {
    pub(crate) written: AtomicU64,
    /// Lines that the file did not take. A record that the queue did not take is counted by its
    /// loop.
    pub(crate) lost: AtomicU64,
}

/// A mount and its totals by loop.
#[derive(Debug)]
pub(crate) struct MountCells {
    pub(crate) number: u16,
    pub(crate) label: Arc<str>,
    loops: Box<[Cell]>,
}

impl MountCells {
    /// One loop's published totals.
    pub(crate) fn of_loop(&self, loop_index: usize) -> &Cell {
        &self.loops[loop_index]
    }

    /// The totals of all loops together.
    pub(crate) fn totals(&self) -> MountTotals {
        let mut sum = MountTotals::default();
        self.loops.iter().for_each(|cell| sum.add(&cell.totals()));
        sum
    }
}

/// The counters that all threads of a server share.
pub(crate) struct Registry {
    mounts: Mutex<Vec<Arc<MountCells>>>,
    pub(crate) lines: LineCounts,
    pub(crate) watch: Arc<WatchCounts>,
    pub(crate) loops: Box<[LoopCells]>,
    statistics: Mutex<Option<DownloadStatistics>>,
    /// TLS is spoken, or was since the start.
    pub(crate) speaks_tls: AtomicBool,
    certificate: Mutex<Option<CertificateState>>,
    tier: Mutex<Option<Arc<dyn CacheTier>>>,
}

/// The state of a certificate that is obtained by ACME.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CertificateState {
    /// The end of its validity, in seconds since 1970-01-01 UTC; `None`: there is none yet.
    pub expires_second: Option<i64>,
    /// Why the last attempt to obtain one has failed, if it has.
    pub failure: Option<String>,
}

impl Registry {
    /// A registry without mounts. Statistics of downloads are made only if they will be shown.
    pub(crate) fn new(loops: usize, with_statistics: bool) -> Self {
        Self {
            mounts: Mutex::default(),
            lines: LineCounts::default(),
            watch: Arc::default(),
            loops: (0..loops).map(|_| LoopCells::default()).collect(),
            statistics: Mutex::new(with_statistics.then(DownloadStatistics::default)),
            speaks_tls: AtomicBool::new(false),
            certificate: Mutex::default(),
            tier: Mutex::default(),
        }
    }

    /// The cache tier, if origins answer for any mount.
    pub(crate) fn tier(&self) -> Option<Arc<dyn CacheTier>> {
        self.tier.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces it.
    pub(crate) fn set_tier(&self, tier: Option<Arc<dyn CacheTier>>) {
        *self.tier.lock().unwrap_or_else(PoisonError::into_inner) = tier;
    }

    /// The state of the certificate that is obtained by ACME; `None`: none is.
    pub(crate) fn certificate(&self) -> Option<CertificateState> {
        self.certificate.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces that state.
    pub(crate) fn set_certificate(&self, state: Option<CertificateState>) {
        *self.certificate.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// The mounts of a configuration, site by site in its order.
    pub(crate) fn adopt(&self, config: &ServerConfig) -> Vec<Arc<MountCells>> {
        self.speaks_tls.fetch_or(config.tls.is_some(), Relaxed);
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

    /// Adds the records of a page to the statistics, if there are any.
    pub(crate) fn add_records(&self, records: &[u8]) {
        if let Some(statistics) = &mut *self.statistics() {
            statistics.add_records(records);
        }
    }

    /// Gives `look` the statistics since the last [`restart_statistics`](Self::restart_statistics).
    pub(crate) fn with_statistics<T>(&self, look: impl FnOnce(&DownloadStatistics) -> T) -> T {
        look(self.statistics().get_or_insert_default())
    }

    /// Makes no statistics any more, until they are wanted.
    pub(crate) fn drop_statistics(&self) {
        *self.statistics() = None;
    }

    /// Begins the statistics anew.
    pub(crate) fn restart_statistics(&self) {
        *self.statistics() = Some(DownloadStatistics::default());
    }

    fn statistics(&self) -> MutexGuard<'_, Option<DownloadStatistics>> {
        self.statistics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The labels of mounts: the path, behind the first name of the site if it has one.
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
        let registry = Registry::new(2, false);
        let first = registry.adopt(&config);
        let labels: Vec<_> = first.iter().map(|mount| (mount.number, &*mount.label)).collect();
        assert_eq!(labels, [(0, "/"), (1, "b.example/")]);
        for loop_index in 0..2 {
            first[1].of_loop(loop_index).publish(&MountTotals { requests: 3, bytes: 4, downloads: 1, under_way: 1 });
        }
        config.sites[0].mounts.insert(0, MountConfig::new("/pub/", "/pub"));
        config.sites.swap(0, 1);
        let second = registry.adopt(&config);
        let labels: Vec<_> = second.iter().map(|mount| (mount.number, &*mount.label)).collect();
        assert_eq!(labels, [(1, "b.example/"), (2, "/pub/"), (0, "/")]);
        assert_eq!(second[0].totals(), MountTotals { requests: 6, bytes: 8, downloads: 2, under_way: 2 });
        assert_eq!(registry.mount_labels().len(), 3);
    }
}
