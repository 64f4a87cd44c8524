//! The state of a volume, in memory: its tables under the lock of the index, its open segments
//! under that of the writer. What is done with it is in the modules beside this one.
//!
//! The writer's lock is held over writes, the index' over look-ups in memory only. A look-up never
//! waits for a write. A checkpoint has a lock of its own, and takes the others for moments. Their
//! order: that of checkpoints, the writer's, the index'.

use super::{turns::Turns, verifications::Verifications};
use crate::{
    aligned::Aligned,
    bytes::UNIT_BYTES,
    cursor::{Log, MAIN},
    directory::{Directory, Entry},
    error::Error,
    geometry::{Geometry, Membership},
    ghost::Ghost,
    key::{Key, Part, PartHash},
    leases::Leases,
    medium::Medium,
    pieces::Pieces,
    purges::Purges,
    record::{Description, Header},
    segment::{self, Durable},
    statistics::Statistics,
};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
};

/// A source of the time, in seconds since 1970.
pub type Clock = fn() -> u64;

/// How a volume is used.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Fragments with bodies up to this size are returned in memory, and verified at every look-up;
    /// longer ones as a location, verified at the first.
    pub memory_bytes_max: u32,
    /// Hits in probation that move a fragment to the main area.
    pub promoting_hits: u8,
    /// The share of a stripe of the main area that fragments with a second chance may take. The
    /// fragment that is appended has room in any case.
    pub second_chance_share: f64,
    /// Failures of the medium after which the volume is taken out.
    pub failures_max: u64,
    /// The time for records and stripes.
    pub clock: Clock,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            memory_bytes_max: 16 << 10,
            promoting_hits: 1,
            second_chance_share: 0.75,
            failures_max: 16,
            clock: system_clock,
        }
    }
}

fn system_clock() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

/// An open volume.
pub struct Volume {
    pub(super) medium: Arc<dyn Medium>,
    pub(super) geometry: Geometry,
    pub(super) settings: Settings,
    pub(super) read_only: bool,
    pub(super) leases: Arc<Leases>,
    pub(super) verifications: Verifications,
    pub(super) failures: AtomicU64,
    pub(super) index: Mutex<Index>,
    pub(super) writer: Mutex<Writer>,
    pub(crate) turns: Turns,
}

/// Everything that a look-up needs.
pub(super) struct Index {
    pub(super) directory: Directory,
    pub(super) ghost: Ghost,
    pub(super) purges: Purges,
    pub(super) log: Log,
    /// Records that are not on the medium yet, by their offset in units.
    pub(super) pending: HashMap<u32, Arc<Pending>>,
    /// When each stripe was last written, in seconds since 1970; 0 for never.
    pub(super) stripe_times: Vec<u32>,
    pub(super) statistics: Statistics,
}

/// A record in memory.
pub(super) struct Pending {
    pub(super) header: Header,
    pub(super) body: Pieces,
}

/// The state of appending.
pub(super) struct Writer {
    pub(super) open: [Open; 2],
    pub(super) sequence: u64,
    /// Durable purges in the life of the volume. Summaries have the number, so that a start notices
    /// if one is missing.
    pub(super) purges: u64,
    /// Records written in the life of the volume.
    pub(super) records: u64,
    /// The part of the log that is known to be durable.
    pub(super) durable: Durable,
    pub(super) epoch: u32,
    /// The counts of both open stripes at the last checkpoint.
    pub(super) checkpointed: [u64; 2],
    /// The number of the next checkpoint; its slot follows from it.
    pub(super) checkpoint: u64,
    /// The bytes of a segment while it is written.
    pub(super) buffer: Aligned,
    /// The set of volumes, as the superblock has it.
    pub(super) set: Membership,
}

/// The open segment of an area.
pub(super) struct Open {
    /// The count of its stripe.
    pub(super) count: u64,
    /// The offset of the segment in its stripe.
    pub(super) start: u32,
    /// The offset of the next record.
    pub(super) end: u32,
    pub(super) entries: Vec<segment::Entry>,
    pub(super) records: Vec<Arc<Pending>>,
}

/// A fragment on its way into an open segment.
pub(super) struct Item {
    pub(super) key: Key,
    pub(super) part: Part,
    pub(super) description: Description,
    pub(super) stored_s: u64,
    pub(super) body: Pieces,
    pub(super) body_checksum: u64,
    /// For a fragment that the store moves, the number with which the caller appended it.
    pub(super) first_sequence: Option<u64>,
    pub(super) hits: u8,
}

impl Open {
    /// A segment at this offset of a stripe.
    pub(super) fn at(count: u64, start: u32, summary_bytes: u32) -> Self {
        Self { count, start, end: start + summary_bytes, entries: Vec::new(), records: Vec::new() }
    }

    /// Whether `bytes` and one more entry fit.
    pub(super) fn has_room(&self, bytes: u64, stripe_bytes: u32, entries_max: usize) -> bool {
        u64::from(self.end) + bytes <= u64::from(stripe_bytes) && self.entries.len() < entries_max
    }
}

impl Index {
    pub(super) fn empty(geometry: &Geometry) -> Self {
        let directory = Directory::new(geometry.buckets);
        Self {
            ghost: Ghost::new((directory.bytes() / 8) as usize * 3 / 5),
            directory,
            purges: Purges::new(geometry.purge_slots),
            log: Log::new(geometry),
            pending: HashMap::new(),
            stripe_times: vec![0; geometry.stripes() as usize],
            statistics: Statistics::default(),
        }
    }

    /// The fragment's entry, unless its stripe has been overwritten.
    pub(super) fn living(&self, hash: PartHash) -> Option<Entry> {
        self.directory.find(hash).filter(|entry| self.log.age(*entry).is_some())
    }

    /// Clears a part of the overwritten entries: all of them once in a lap of this area.
    pub(super) fn sweep(&mut self, area: usize) {
        let log = self.log;
        let slots = self.directory.slots().len();
        let count = slots.div_ceil(log.rings[area].stripes as usize);
        self.directory.sweep(count, |entry| log.age(entry).is_some());
    }

    /// Puts an entry into the directory.
    pub(super) fn enter(&mut self, hash: PartHash, entry: Entry) {
        let log = self.log;
        if self.directory.insert(hash, entry, |held| log.age(held)) {
            self.statistics.displaced += 1;
        }
    }
}

impl Volume {
    /// The volume's id; another one after it was emptied.
    pub fn id(&self) -> u64 {
        self.geometry.id
    }

    /// The size of the volume in bytes.
    pub fn size(&self) -> u64 {
        self.geometry.size
    }

    /// Whether the volume was taken out after too many failures of its medium.
    pub fn is_lost(&self) -> bool {
        self.failures.load(Ordering::Relaxed) > self.settings.failures_max
    }

    /// Whether nothing can be appended.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The number of fragments in the directory; looks at each entry.
    pub fn fragments(&self) -> u64 {
        let index = self.index();
        index.directory.entries().filter(|entry| index.log.age(*entry).is_some()).count() as u64
    }

    /// The counts since the opening, and the state.
    pub fn statistics(&self) -> Statistics {
        let index = self.index();
        let stripe_bytes = u64::from(self.geometry.stripe_bytes);
        let filled: u64 = index.log.rings.iter().map(|ring| ring.filled()).sum();
        let directory_bytes = index.directory.bytes();
        let ring = index.log.rings[MAIN];
        let next = index.stripe_times[ring.stripe(ring.head + 1) as usize];
        let tables = Purges::bytes(self.geometry.purge_slots) + u64::from(self.geometry.stripes()) * 8;
        Statistics {
            failures: self.failures.load(Ordering::Relaxed),
            lost_volumes: u64::from(self.is_lost()),
            capacity_bytes: u64::from(self.geometry.stripes()) * stripe_bytes,
            filled_bytes: filled * stripe_bytes,
            directory_bytes,
            // Two open segments, the buffer that they are written from, and what an eviction in
            // each area holds.
            memory_bytes_max: directory_bytes + index.ghost.bytes() + tables + 5 * stripe_bytes,
            oldest_s: (next != 0).then_some(u64::from(next)),
            ..index.statistics
        }
    }

    pub(super) fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().expect("no thread panics over the index")
    }

    pub(super) fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().expect("no thread panics over the log")
    }

    /// The offset on the medium of an offset in units from the start of the log.
    pub(super) fn offset(&self, offset_units: u32) -> u64 {
        self.geometry.log_offset() + u64::from(offset_units) * UNIT_BYTES
    }

    /// Counts a failure of the medium.
    pub(super) fn failed(&self, error: Error) -> Error {
        if error.is_of_medium() {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        error
    }

    pub(super) fn check_writable(&self) -> Result<(), Error> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        if self.is_lost() {
            return Err(Error::Lost(self.failures.load(Ordering::Relaxed)));
        }
        Ok(())
    }
}
