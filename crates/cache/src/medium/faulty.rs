//! A medium in memory with the faults of disks, from a seed: of what was not made durable, a crash
//! keeps any version of each block, or by request the worst case of an order; the write under way
//! may be torn at any byte; reads and writes fail on request; bits flip.

use super::Medium;
use crate::key::mixed;
use rustix::io::Errno;
use std::{
    collections::{BTreeMap, HashMap},
    io,
    sync::{Mutex, MutexGuard},
};

const BLOCK: usize = 4096;

/// Faults that are in force until they are changed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// Writes fail because no space is left.
    pub no_space: bool,
    /// Writes and syncs fail because the medium is read-only.
    pub read_only: bool,
    /// Reads that touch this range of bytes fail.
    pub unreadable: Option<(u64, u64)>,
    /// Writes that touch this range of bytes fail.
    pub unwritable: Option<(u64, u64)>,
    /// After this many bytes have been written, the power fails: the write under way is torn there
    /// and everything after it fails, until [`Faulty::crash`].
    pub power_for_bytes: Option<u64>,
    /// After this many syncs, the power fails instead of the next one.
    pub power_for_syncs: Option<u64>,
}

/// Which of the writes that were not made durable a crash keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Of each block any version, by chance: its durable one or that of any write since.
    ByChance,
    /// The last write alone: the disk wrote it before all others.
    LastAlone,
    /// All but the first write: the disk put that one off.
    AllButFirst,
    /// None.
    Nothing,
    /// All of them, as after the end of the process alone.
    Everything,
}

/// Memory that behaves like a disk with faults.
pub struct Faulty {
    state: Mutex<State>,
}

struct State {
    /// The bytes that reads give: durable bytes and those in the disk's cache.
    bytes: Vec<u8>,
    /// For each block written since the last sync, its durable bytes.
    durable: HashMap<usize, Box<[u8]>>,
    /// The writes since the last sync, each with its blocks as it left them.
    unsynced: Vec<Vec<(usize, Box<[u8]>)>>,
    faults: Faults,
    powerless: bool,
    /// The offset and the length of the write that the last failure of the power has torn.
    torn: Option<(u64, usize)>,
    draws: u64,
    reads: u64,
    bytes_read: u64,
    writes: u64,
    bytes_written: u64,
}

impl Faulty {
    /// A zeroed medium; all that happens by chance follows from the seed.
    pub fn new(size: u64, seed: u64) -> Self {
        Self::holding(vec![0; size as usize], seed)
    }

    /// A medium with these bytes, which are durable.
    pub fn holding(bytes: Vec<u8>, seed: u64) -> Self {
        let state = State {
            bytes,
            durable: HashMap::new(),
            unsynced: Vec::new(),
            faults: Faults::default(),
            powerless: false,
            torn: None,
            draws: seed,
            reads: 0,
            bytes_read: 0,
            writes: 0,
            bytes_written: 0,
        };
        Self { state: Mutex::new(state) }
    }

    /// Sets the faults that hold from now on.
    pub fn set_faults(&self, faults: Faults) {
        let mut state = self.state();
        (state.faults, state.torn) = (faults, None);
    }

    /// The offset and the length of the write that the power failed in since faults were set last.
    pub fn torn(&self) -> Option<(u64, usize)> {
        self.state().torn
    }

    /// The power fails now: of each block that was not made durable, any version is left, by
    /// chance. The medium works again afterwards, without faults.
    pub fn crash(&self) {
        self.crash_keeping(Kept::ByChance);
    }

    /// The power fails now, and of the writes that were not made durable these are left. The medium
    /// works again afterwards, without faults.
    pub fn crash_keeping(&self, kept: Kept) {
        let mut state = self.state();
        let mut blocks: Vec<_> = std::mem::take(&mut state.durable).into_iter().collect();
        // The order of a hash map is no function of the seed.
        blocks.sort_unstable_by_key(|(block, _)| *block);
        for (block, durable) in &blocks {
            state.restore(*block, durable);
        }
        let writes = std::mem::take(&mut state.unsynced);
        let first = match kept {
            Kept::ByChance => {
                let mut versions: BTreeMap<usize, Vec<&[u8]>> = BTreeMap::new();
                for (block, bytes) in writes.iter().flatten() {
                    versions.entry(*block).or_default().push(bytes);
                }
                for (block, versions) in versions {
                    let draw = state.draw() as usize % (versions.len() + 1);
                    if let Some(bytes) = versions.get(draw) {
                        state.restore(block, bytes);
                    }
                }
                writes.len()
            }
            Kept::LastAlone => writes.len().saturating_sub(1),
            Kept::AllButFirst => 1,
            Kept::Nothing => writes.len(),
            Kept::Everything => 0,
        };
        for (block, bytes) in writes.iter().skip(first).flatten() {
            state.restore(*block, bytes);
        }
        state.faults = Faults::default();
        state.powerless = false;
    }

    /// Flips `count` bits at random places of a range.
    pub fn flip_bits(&self, from: u64, to: u64, count: usize) {
        let mut state = self.state();
        for _ in 0..count {
            let draw = state.draw();
            let at = (from + draw % (to - from)) as usize;
            state.bytes[at] ^= 1 << (draw >> 61);
        }
    }

    /// Reads and writes since the start, and their bytes: reads, bytes read, writes, bytes written.
    pub fn work(&self) -> (u64, u64, u64, u64) {
        let state = self.state();
        (state.reads, state.bytes_read, state.writes, state.bytes_written)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics inside the medium")
    }
}

impl State {
    fn draw(&mut self) -> u64 {
        self.draws = self.draws.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed(self.draws)
    }

    fn restore(&mut self, block: usize, bytes: &[u8]) {
        self.bytes[block * BLOCK..][..bytes.len()].copy_from_slice(bytes);
    }

    fn check_powered(&self) -> io::Result<()> {
        if self.powerless { Err(Errno::IO.into()) } else { Ok(()) }
    }

    fn store(&mut self, bytes: &[u8], offset: usize) {
        if bytes.is_empty() {
            return;
        }
        let blocks = offset / BLOCK..=(offset + bytes.len() - 1) / BLOCK;
        let range = |block: usize, size: usize| block * BLOCK..((block + 1) * BLOCK).min(size);
        for block in blocks.clone() {
            let held = &self.bytes[range(block, self.bytes.len())];
            self.durable.entry(block).or_insert_with(|| held.into());
        }
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
        let written = blocks.map(|block| (block, self.bytes[range(block, self.bytes.len())].into()));
        let written = written.collect();
        self.unsynced.push(written);
        self.writes += 1;
        self.bytes_written += bytes.len() as u64;
    }
}

fn touches(range: Option<(u64, u64)>, offset: u64, length: usize) -> bool {
    range.is_some_and(|(from, to)| offset < to && from < offset + length as u64)
}

impl Medium for Faulty {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut state = self.state();
        state.check_powered()?;
        if touches(state.faults.unreadable, offset, buffer.len()) {
            return Err(Errno::IO.into());
        }
        let bytes = state.bytes.get(offset as usize..offset as usize + buffer.len());
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        state.reads += 1;
        state.bytes_read += buffer.len() as u64;
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.state();
        state.check_powered()?;
        assert!(offset + bytes.len() as u64 <= state.bytes.len() as u64, "a write beyond the volume's size");
        if state.faults.read_only {
            return Err(Errno::ROFS.into());
        }
        if state.faults.no_space {
            return Err(Errno::NOSPC.into());
        }
        if touches(state.faults.unwritable, offset, bytes.len()) {
            return Err(Errno::IO.into());
        }
        if let Some(left) = state.faults.power_for_bytes {
            if left < bytes.len() as u64 {
                state.store(&bytes[..left as usize], offset as usize);
                (state.powerless, state.torn) = (true, Some((offset, bytes.len())));
                return Err(Errno::IO.into());
            }
            state.faults.power_for_bytes = Some(left - bytes.len() as u64);
        }
        state.store(bytes, offset as usize);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        state.check_powered()?;
        if state.faults.read_only {
            return Err(Errno::ROFS.into());
        }
        match &mut state.faults.power_for_syncs {
            Some(0) => {
                state.powerless = true;
                return Err(Errno::IO.into());
            }
            Some(left) => *left -= 1,
            None => {}
        }
        state.durable.clear();
        state.unsynced.clear();
        Ok(())
    }

    fn size(&self) -> u64 {
        self.state().bytes.len() as u64
    }
}
