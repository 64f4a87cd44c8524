//! A medium in memory with the faults of disks, from a seed: a crash keeps any subset of the blocks
//! that were not made durable, and the write under way may be torn at any byte; reads and writes
//! fail on request; bits flip.

use super::Medium;
use crate::key::mixed;
use rustix::io::Errno;
use std::{
    collections::HashMap,
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
    faults: Faults,
    powerless: bool,
    draws: u64,
    reads: u64,
    bytes_read: u64,
    writes: u64,
    bytes_written: u64,
}

impl Faulty {
    /// A zeroed medium; all that happens by chance follows from the seed.
    pub fn new(size: u64, seed: u64) -> Self {
        let state = State {
            bytes: vec![0; size as usize],
            durable: HashMap::new(),
            faults: Faults::default(),
            powerless: false,
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
        self.state().faults = faults;
    }

    /// The power fails now: each block that was not made durable keeps its new bytes or falls back
    /// to its durable ones, by chance. The medium works again afterwards, without faults.
    pub fn crash(&self) {
        let mut state = self.state();
        let mut blocks: Vec<_> = std::mem::take(&mut state.durable).into_iter().collect();
        // The order of a hash map is no function of the seed.
        blocks.sort_unstable_by_key(|(block, _)| *block);
        for (block, durable) in blocks {
            if state.draw().is_multiple_of(2) {
                state.bytes[block * BLOCK..][..durable.len()].copy_from_slice(&durable);
            }
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

    fn check_powered(&self) -> io::Result<()> {
        if self.powerless { Err(Errno::IO.into()) } else { Ok(()) }
    }

    fn store(&mut self, bytes: &[u8], offset: usize) {
        if bytes.is_empty() {
            return;
        }
        for block in offset / BLOCK..=(offset + bytes.len() - 1) / BLOCK {
            let start = block * BLOCK;
            let end = (start + BLOCK).min(self.bytes.len());
            let held = &self.bytes[start..end];
            self.durable.entry(block).or_insert_with(|| held.into());
        }
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
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
                state.powerless = true;
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
        state.durable.clear();
        Ok(())
    }

    fn size(&self) -> u64 {
        self.state().bytes.len() as u64
    }
}
