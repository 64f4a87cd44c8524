//! Reads of a file in the page cache, of one size after the other.
//!
//! The file never comes from the device here: the curve's height tells of system calls, copies and
//! the memory, its jitter of the scheduler.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::curve::{jitter, median, sizes};
use crate::document::{ReadSize, ReadSizes};
use crate::supervision::{Control, PassError, spawn};

/// Sizes per power of ten.
const PER_DECADE: u32 = 24;

/// Bytes and reads between two looks at the clock.
const BATCH_BYTES: u64 = 1 << 20;
const BATCH_READS: u64 = 256;

/// Share of the highest throughput with which a size is sufficient.
const SUFFICIENT: f64 = 0.9;

/// The sizes of the reads, and the time of each.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) sizes: Vec<u64>,
    pub(crate) rounds: usize,
    pub(crate) slice: Duration,
    /// Threads that use CPU time meanwhile.
    pub(crate) busy_threads: usize,
    /// Bytes of the file.
    pub(crate) file_bytes: u64,
}

impl Reading {
    pub(crate) fn new(range: (u64, u64), file_bytes: u64, rounds: usize, slice: Duration, busy_threads: usize) -> Self {
        let sizes = sizes(range.0, range.1.min(file_bytes), PER_DECADE);
        Self { sizes, rounds, slice, busy_threads, file_bytes }
    }

    /// Slices in all.
    pub(crate) fn steps(&self) -> u64 {
        (self.sizes.len() * self.rounds) as u64
    }

    /// Reads the file of `path`, which is in the page cache after the first round at the latest;
    /// each round goes through all sizes in ascending order.
    pub(crate) fn run(&self, path: &Path, control: &Control) -> Result<ReadSizes, PassError> {
        let file = File::open(path)?;
        let mut buffer = vec![0; self.sizes.iter().max().map_or(1, |most| *most as usize).max(1 << 20)];
        self.fill_page_cache(&file, &mut buffer)?;
        let done = AtomicBool::new(false);
        let rounds = thread::scope(|scope| {
            let busy = (0..self.busy_threads).try_for_each(|_| spawn(scope, || burn(&done)).map(drop));
            let rounds = busy.map_err(PassError::from).and_then(|()| self.rounds(&file, &mut buffer, control));
            done.store(true, Ordering::Relaxed);
            rounds
        })?;
        Ok(self.judged(&rounds))
    }

    fn fill_page_cache(&self, file: &File, buffer: &mut [u8]) -> Result<(), PassError> {
        let mut position = 0;
        while position < self.file_bytes {
            match file.read_at(buffer, position)? {
                0 => break,
                read => position += read as u64,
            }
        }
        Ok(())
    }

    fn rounds(&self, file: &File, buffer: &mut [u8], control: &Control) -> Result<Vec<Vec<f64>>, PassError> {
        let mut rounds = Vec::new();
        for _ in 0..self.rounds {
            let mut round = Vec::new();
            for size in &self.sizes {
                round.push(self.throughput(file, &mut buffer[..*size as usize], control)?);
                control.advance(1)?;
            }
            rounds.push(round);
        }
        Ok(rounds)
    }

    /// Bytes per second of reads of the buffer's size, from the file's beginning over and over.
    fn throughput(&self, file: &File, buffer: &mut [u8], control: &Control) -> Result<f64, PassError> {
        let size = buffer.len() as u64;
        let batch = (BATCH_BYTES / size).clamp(1, BATCH_READS);
        let (mut position, mut bytes) = (0, 0);
        let began = Instant::now();
        loop {
            for _ in 0..batch {
                if position + size > self.file_bytes {
                    position = 0;
                }
                file.read_exact_at(buffer, position)?;
                position += size;
                bytes += size;
            }
            control.check()?;
            let elapsed = began.elapsed();
            if elapsed >= self.slice {
                return Ok(bytes as f64 / elapsed.as_secs_f64());
            }
        }
    }

    fn judged(&self, rounds: &[Vec<f64>]) -> ReadSizes {
        let of = |index: usize| -> Vec<f64> { rounds.iter().map(|round| round[index]).collect() };
        let points: Vec<ReadSize> = self
            .sizes
            .iter()
            .enumerate()
            .map(|(index, size)| ReadSize { size: *size, bytes_per_s: median(of(index)), rounds: of(index) })
            .collect();
        let curve = |round: &[f64]| jitter(&self.sizes.iter().copied().zip(round.iter().copied()).collect::<Vec<_>>());
        let jitter_rounds: Vec<f64> = rounds.iter().map(|round| curve(round)).collect();
        let medians: Vec<f64> = points.iter().map(|point| point.bytes_per_s).collect();
        let height_max = medians.iter().copied().fold(0.0, f64::max);
        let first_with =
            |least: f64| points.iter().find(|point| point.bytes_per_s >= least).map_or(0, |point| point.size);
        ReadSizes {
            busy_threads: self.busy_threads,
            file_bytes: self.file_bytes,
            height_max,
            height_median: median(medians.iter().copied()),
            best_size: first_with(height_max),
            sufficient_size: first_with(height_max * SUFFICIENT),
            jitter: median(jitter_rounds.iter().copied()),
            jitter_rounds,
            bands: curve(&medians),
            points,
        }
    }
}

/// Uses CPU time until the reads are done.
fn burn(done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn height_and_jitter_are_those_of_the_medians_and_of_the_rounds() {
        let reading =
            Reading { sizes: vec![1, 10, 100], rounds: 3, slice: Duration::ZERO, busy_threads: 0, file_bytes: 100 };
        let read = reading.judged(&[vec![1.0, 10.0, 100.0], vec![1.0, 10.0, 10.0], vec![1.0, 95.0, 100.0]]);
        let medians: Vec<f64> = read.points.iter().map(|point| point.bytes_per_s).collect();
        assert_eq!(medians, [1.0, 10.0, 100.0]);
        assert_eq!((read.height_max, read.height_median, read.best_size), (100.0, 10.0, 100));
        assert_eq!((read.sufficient_size, read.bands), (100, 0.0));
        assert!(read.jitter_rounds[0] < 1e-9 && read.jitter == read.jitter_rounds[1], "{read:?}");
    }
}
