//! Passes over one large file, by threads of this process.
//!
//! The kernel gets no hints about the order of accesses: a server gives none either.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::seq::index;
use rand_pcg::Pcg64Mcg;
use thalweg_sys::page_cache;

use crate::plan::{Cache, DIRECT_ALIGNMENT};
use crate::supervision::{Control, Meter, PassError, Usage, joined, spawn};

/// Threads of the random seeks: as many as bonnie++ has processes.
pub(crate) const SEEKERS: usize = 5;

/// A pass: what it has moved, and what it has used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Passed {
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    pub(crate) usage: Usage,
}

/// The way in which a file is accessed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    /// Bytes of a read or write.
    pub(crate) block: u64,
    /// The page cache.
    pub(crate) cache: Cache,
}

impl Access {
    pub(crate) fn open(self, path: &Path, writes: bool) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(writes);
        if self.cache == Cache::Direct {
            page_cache::bypass(&mut options);
        }
        options.open(path).map_err(|error| self.refused(error))
    }

    fn create(self, path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        if self.cache == Cache::Direct {
            page_cache::bypass(&mut options);
        }
        options.open(path).map_err(|error| self.refused(error))
    }

    /// An error of opening a file, in words where direct access is the cause.
    pub(crate) fn refused(self, error: io::Error) -> io::Error {
        if self.cache == Cache::Direct && error.kind() == io::ErrorKind::InvalidInput {
            return io::Error::new(error.kind(), "this file system has no direct access: use --cache cold");
        }
        error
    }

    /// Brings the page cache into the state that a pass which reads begins with.
    pub(crate) fn prepare(self, path: &Path, control: &Control) -> Result<(), PassError> {
        match self.cache {
            // Direct reads look for each page in the page cache.
            Cache::Cold | Cache::Direct => Ok(forget(path)?),
            Cache::Warm => read_once(path, control),
        }
    }
}

/// Drops a file from the page cache.
fn forget(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    file.sync_all()?;
    page_cache::forget(&file)
}

fn read_once(path: &Path, control: &Control) -> Result<(), PassError> {
    let file = File::open(path)?;
    let mut block = vec![0; 1 << 20];
    let mut position = 0;
    loop {
        control.check()?;
        match file.read_at(&mut block, position)? {
            0 => return Ok(()),
            read => position += read as u64,
        }
    }
}

/// Random bytes at an address that direct access accepts, and of which every block differs.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    pub(crate) fn new(block: u64, seed: u64) -> Self {
        let mut bytes = vec![0; (block + DIRECT_ALIGNMENT) as usize];
        rand::Rng::fill_bytes(&mut Pcg64Mcg::seed_from_u64(seed), &mut bytes);
        let start = bytes.as_ptr().align_offset(DIRECT_ALIGNMENT as usize);
        Self { bytes, start }
    }

    pub(crate) fn block(&mut self) -> &mut [u8] {
        let end = self.bytes.len() - (DIRECT_ALIGNMENT as usize - self.start);
        &mut self.bytes[self.start..end]
    }

    /// The block with its position in each page, so that no two are the same.
    fn at(&mut self, position: u64) -> &[u8] {
        let block = self.block();
        for page in block.chunks_mut(4096) {
            let stamp = position.to_ne_bytes();
            let length = stamp.len().min(page.len());
            page[..length].copy_from_slice(&stamp[..length]);
        }
        block
    }
}

/// Writes a new file of `size` bytes and has the device take it.
pub(crate) fn write(path: &Path, size: u64, access: Access, seed: u64, control: &Control) -> Result<Passed, PassError> {
    let mut buffer = Buffer::new(access.block, seed);
    let file = access.create(path)?;
    let meter = Meter::start();
    let mut position = 0;
    while position < size {
        let length = access.block.min(size - position);
        file.write_all_at(&buffer.at(position)[..length as usize], position)?;
        position += length;
        control.advance(length)?;
    }
    file.sync_all()?;
    Ok(Passed { operations: size.div_ceil(access.block), bytes: size, usage: meter.usage() })
}

/// Reads each block, changes it, and writes it back.
pub(crate) fn rewrite(path: &Path, size: u64, access: Access, control: &Control) -> Result<Passed, PassError> {
    access.prepare(path, control)?;
    let file = access.open(path, true)?;
    let mut buffer = Buffer::new(access.block, 0);
    let meter = Meter::start();
    let mut position = 0;
    while position < size {
        let block = buffer.block();
        file.read_exact_at(block, position)?;
        block[0] = block[0].wrapping_add(1);
        file.write_all_at(block, position)?;
        position += access.block;
        control.advance(access.block)?;
    }
    file.sync_all()?;
    Ok(Passed { operations: size / access.block, bytes: size, usage: meter.usage() })
}

/// Reads the file from its beginning to its end.
pub(crate) fn read(path: &Path, size: u64, access: Access, control: &Control) -> Result<Passed, PassError> {
    access.prepare(path, control)?;
    let file = access.open(path, false)?;
    let mut buffer = Buffer::new(access.block, 0);
    let meter = Meter::start();
    let mut position = 0;
    while position < size {
        file.read_exact_at(buffer.block(), position)?;
        position += access.block;
        control.advance(access.block)?;
    }
    Ok(Passed { operations: size / access.block, bytes: size, usage: meter.usage() })
}

/// Reads blocks at random positions for a time, each thread in a part of the file of its own. No
/// block is read twice through a cold page cache; otherwise each thread begins anew at its end.
pub(crate) fn seek(
    path: &Path,
    size: u64,
    access: Access,
    time: Duration,
    seed: u64,
    control: &Control,
) -> Result<Passed, PassError> {
    access.prepare(path, control)?;
    let blocks = size / access.block;
    let parts = (SEEKERS as u64).min(blocks);
    let seekers: Result<Vec<Seeker>, io::Error> = (0..parts)
        .map(|part| Seeker::new(path, access, [blocks * part / parts, blocks * (part + 1) / parts], seed))
        .collect();
    let seekers = seekers?;
    let meter = Meter::start();
    let until = Instant::now() + time;
    let counts: Vec<Result<u64, PassError>> = thread::scope(|scope| -> Result<_, PassError> {
        let seekers = seekers.into_iter().map(|seeker| spawn(scope, move || seeker.run(until, control)));
        let threads: Vec<_> = seekers.collect::<Result<_, _>>()?;
        Ok(threads.into_iter().map(joined).collect())
    })?;
    let usage = meter.usage();
    let operations = counts.into_iter().sum::<Result<u64, PassError>>()?;
    Ok(Passed { operations, bytes: operations * access.block, usage })
}

/// Blocks of one thread at most: of a larger part, a random choice with so many is read.
const POSITIONS_MAX: u64 = 1 << 20;

struct Seeker {
    file: File,
    access: Access,
    /// Block numbers in the order in which they are read.
    order: Vec<u64>,
}

impl Seeker {
    fn new(path: &Path, access: Access, [first, end]: [u64; 2], seed: u64) -> io::Result<Self> {
        let mut random = Pcg64Mcg::seed_from_u64(seed ^ first);
        let blocks = end - first;
        let offsets = index::sample(&mut random, blocks as usize, blocks.min(POSITIONS_MAX) as usize);
        let order = offsets.into_iter().map(|offset| first + offset as u64).collect();
        Ok(Self { file: access.open(path, false)?, access, order })
    }

    fn run(self, until: Instant, control: &Control) -> Result<u64, PassError> {
        let mut buffer = Buffer::new(self.access.block, 0);
        let mut reads = 0;
        loop {
            for block in &self.order {
                self.file.read_exact_at(buffer.block(), block * self.access.block)?;
                reads += 1;
                control.advance(self.access.block)?;
                // After the read: a thread that had to wait for a CPU all the time has read one
                // block.
                if Instant::now() >= until {
                    return Ok(reads);
                }
            }
            if self.access.cache == Cache::Cold {
                return Ok(reads);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_block_is_chosen_twice() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
        let access = Access { block: 512, cache: Cache::Cold };
        for (end, chosen) in [(1000, 900), (POSITIONS_MAX * 3, POSITIONS_MAX)] {
            let mut order = Seeker::new(file.path(), access, [100, end], 1).expect("the file is there").order;
            assert!(order.len() as u64 == chosen && !order.is_sorted());
            order.sort_unstable();
            order.dedup();
            assert!(order.len() as u64 == chosen && order[0] >= 100 && order[order.len() - 1] < end);
        }
    }

    #[test]
    fn a_pass_without_time_still_reads_a_block_per_thread() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
        file.as_file().set_len(1 << 20).expect("a file can be made longer");
        let access = Access { block: 4096, cache: Cache::Cold };
        let passed = seek(file.path(), 1 << 20, access, Duration::ZERO, 1, &Control::default()).expect("it is read");
        assert_eq!((passed.operations, passed.bytes), (SEEKERS as u64, 4096 * SEEKERS as u64));
    }
}
