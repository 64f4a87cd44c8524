//! Readahead: the units in which a file that is not all in memory is read for a download.
//!
//! Many clients that stream different files from one disk make it seek from one to the other, and
//! what a seek takes is the same for a page as for a megabyte. So a fast client's file is read in
//! large units, that double as long as the client takes them quickly. A slow client's units stay
//! small: they stay in memory until they are taken, or are evicted before and have to be read once
//! more. The threads of the [blocking pool](crate::content::blocking_pool) bound how many are read
//! at once.

use std::ops::Range;

use thalweg_sys::{File, FileSpan, Instant};

use crate::content::blocking_pool::{Job, JobKind};

/// The unit that a download begins with.
const UNIT_BYTES_FIRST: u64 = 512 << 10;

/// The unit of slow clients; see bench/TRIED.md, "Steps of reading ahead".
const UNIT_BYTES_MIN: u64 = 128 << 10;

/// The unit of fast clients: several seeks' worth.
const UNIT_BYTES_MAX: u64 = 4 << 20;

/// A client that takes a unit in less is given larger ones, one that takes four times as long
/// smaller ones.
const UNIT_TIME_NS: u64 = 500_000_000;

/// A download whose file is not all in memory.
#[derive(Default)]
pub(crate) struct Readahead {
    /// The unit that was read last.
    known: Range<u64>,
    submitted: Instant,
}

impl Readahead {
    /// The bytes from an offset on that were read just now, if any were.
    pub(crate) fn known_from(&self, offset: u64) -> Option<u64> {
        self.known.contains(&offset).then(|| self.known.end - offset)
    }

    /// The job that reads the next unit of a span that is to be sent.
    pub(crate) fn read_ahead(&mut self, span: &FileSpan, now: Instant) -> Job<()> {
        let last = self.known.end - self.known.start;
        let unit = match now.ns_since(self.submitted) {
            _ if last == 0 => UNIT_BYTES_FIRST,
            ..UNIT_TIME_NS => last * 2,
            ns if ns > 4 * UNIT_TIME_NS => last / 2,
            _ => last,
        };
        let len = span.len.min(unit.clamp(UNIT_BYTES_MIN, UNIT_BYTES_MAX));
        self.known = span.offset..span.offset + len;
        self.submitted = now;
        let (file, offset) = (File::clone(&span.file), span.offset);
        // An error is met again, and reported, when the bytes are sent.
        Job::new(JobKind::Read, Vec::new(), (), move || drop(file.read_ahead(offset, len)))
    }
}
