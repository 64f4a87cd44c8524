//! Counts of a volume since its opening, and its state. Rates and the display are the caller's.

/// The counts of a volume, or their sum over all volumes of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "each is said by its name and the comment of its group")]
pub struct Statistics {
    /// Look-ups that found their fragment, and the bytes of their bodies.
    pub hits: u64,
    pub hit_bytes: u64,
    /// Look-ups that did not.
    pub misses: u64,
    /// Fragments that the caller appended, and the bytes of their bodies.
    pub appended: u64,
    pub appended_bytes: u64,
    /// Bytes written to stripes and to checkpoints.
    pub stripe_bytes_written: u64,
    pub checkpoint_bytes_written: u64,
    pub checkpoints: u64,
    /// Fragments moved from probation to the main area, and those that came there by the ghost
    /// list.
    pub promoted: u64,
    pub ghost_hits: u64,
    /// Fragments of the main area that were appended anew before their stripe was overwritten.
    pub second_chances: u64,
    /// Fragments whose entry another one displaced from the directory.
    pub displaced: u64,
    /// Stripes that the cursor passed over because of a lease.
    pub skipped_stripes: u64,
    /// Purges of keys and groups.
    pub purges: u64,
    /// Records with a wrong checksum.
    pub damaged: u64,
    /// Records that were written before a crash and did not become durable.
    pub unwritten: u64,
    /// Fragments whose segment could not be written.
    pub dropped: u64,
    /// Checkpoints that were damaged at opening, summaries behind the checkpoint that were, and
    /// fragments that were taken from behind it.
    pub damaged_checkpoints: u64,
    pub damaged_summaries: u64,
    pub replayed: u64,
    /// Volumes that began empty, because both checkpoints were damaged or something was missing
    /// behind them.
    pub emptied: u64,
    /// Reads and writes that the medium failed.
    pub failures: u64,
    /// Volumes that were taken out.
    pub lost_volumes: u64,
    /// Bytes of all stripes, of those that have been written, of the directory, and of the
    /// directory with ghost list, purges and buffers.
    pub capacity_bytes: u64,
    pub filled_bytes: u64,
    pub directory_bytes: u64,
    pub memory_bytes_max: u64,
    /// The time at which the stripe that is overwritten next was written, in seconds since 1970;
    /// `None` before the first lap is over.
    pub oldest_s: Option<u64>,
}

impl Statistics {
    /// Adds those of another volume.
    pub fn add(&mut self, other: &Self) {
        let mut other = *other;
        for (sum, count) in self.counts().into_iter().zip(other.counts()) {
            *sum += *count;
        }
        self.oldest_s = [self.oldest_s, other.oldest_s].into_iter().flatten().min();
    }

    fn counts(&mut self) -> [&mut u64; 27] {
        [
            &mut self.hits,
            &mut self.hit_bytes,
            &mut self.misses,
            &mut self.appended,
            &mut self.appended_bytes,
            &mut self.stripe_bytes_written,
            &mut self.checkpoint_bytes_written,
            &mut self.checkpoints,
            &mut self.promoted,
            &mut self.ghost_hits,
            &mut self.second_chances,
            &mut self.displaced,
            &mut self.skipped_stripes,
            &mut self.purges,
            &mut self.damaged,
            &mut self.unwritten,
            &mut self.dropped,
            &mut self.damaged_checkpoints,
            &mut self.damaged_summaries,
            &mut self.replayed,
            &mut self.emptied,
            &mut self.failures,
            &mut self.lost_volumes,
            &mut self.capacity_bytes,
            &mut self.filled_bytes,
            &mut self.directory_bytes,
            &mut self.memory_bytes_max,
        ]
    }
}
