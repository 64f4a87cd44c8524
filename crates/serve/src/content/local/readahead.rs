//! Downloads of files that are not all in memory: how much of them is read aside at a time.
//!
//! Many clients that stream different files from one disk make it seek from one to the other, and what a seek takes is the
//! same for a page as for a megabyte. So a fast client's file is read in large units, that double as long as the client
//! takes them quickly. What is read for a slow one stays in memory until it is taken, or is thrown out before and has to be read once
//! more; its units stay small. How many are read at once is bounded by the threads of [`aside`](crate::content::blocking_pool).

use std::ops::Range;

use thalweg_sys::{File, FileSpan, Instant};

use crate::content::blocking_pool::{Job, JobKind};

/// The unit that a download begins with.
const UNIT_BYTES_FIRST: u64 = 512 << 10;

/// The unit of slow clients. A disk that turns reads half of this in the time of a seek.
const UNIT_BYTES_MIN: u64 = 128 << 10;

/// The unit of fast clients: several seeks' worth.
const UNIT_BYTES_MAX: u64 = 4 << 20;

/// A client that takes a unit in less is given larger ones, one that takes four times as long smaller ones.
const UNIT_TIME_NS: u64 = 500_000_000;

/// A download whose file is not all in memory.
#[derive(Default)]
pub(crate) struct Readahead {
    /// What was read aside last.
    known: Range<u64>,
    asked: Instant,
}

impl Readahead {
    /// How many bytes from there on were read just now.
    pub(crate) fn known_from(&self, offset: u64) -> Option<u64> {
        self.known.contains(&offset).then(|| self.known.end - offset)
    }

    /// Reads the next unit of what is to be sent.
    pub(crate) fn read_ahead(&mut self, span: &FileSpan, now: Instant) -> Job<()> {
        let last = self.known.end - self.known.start;
        let unit = match now.ns_since(self.asked) {
            _ if last == 0 => UNIT_BYTES_FIRST,
            ..UNIT_TIME_NS => last * 2,
            ns if ns > 4 * UNIT_TIME_NS => last / 2,
            _ => last,
        };
        let len = span.len.min(unit.clamp(UNIT_BYTES_MIN, UNIT_BYTES_MAX));
        self.known = span.offset..span.offset + len;
        self.asked = now;
        let (file, offset) = (File::clone(&span.file), span.offset);
        // An error is met again, and reported, when the bytes are sent.
        Job::new(JobKind::Read, Vec::new(), (), move || drop(file.read_ahead(offset, len)))
    }
}
