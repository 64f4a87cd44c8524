//! Page-cache residency: the parts of files that were in the kernel's memory a moment ago.
//!
//! Before a part of a file is sent, the loop looks whether the kernel has it in memory, since a
//! send that has to wait for a disk keeps all connections waiting. The look is a sample: the kernel
//! reads, and evicts, runs of pages, and a look that is wrong costs a wait, not an error. It takes
//! a system call for each byte that is looked at (bench/TRIED.md, "Page-cache residency"). Such
//! files are sent to several clients at once, or again soon, so a part that was found in memory is
//! taken to be there for a moment longer.

use std::ops::Range;

use thalweg_sys::{File, Instant};

/// A grain is looked at as a whole, by its first and its last byte.
const GRAIN_BYTES: u64 = 128 << 10;

/// So many grains are remembered: those of 256 MB.
const GRAINS: usize = 2048;

/// A grain counts as in memory for so long after it was found there.
const TRUSTED_NS: u64 = 1_000_000_000;

/// Grains of files that were found in memory. Each has one slot, which another may take.
#[derive(Default)]
pub(crate) struct Residency {
    /// Empty until something is found.
    grains: Vec<Option<Grain>>,
}

#[derive(Clone, Copy)]
struct Grain {
    device: u64,
    inode: u64,
    number: u64,
    seen: Instant,
}

impl Residency {
    /// Whether `len` bytes from `offset` on are in memory, judged by a sample.
    pub(crate) fn has(&mut self, file: &File, offset: u64, len: u64, now: Instant) -> bool {
        self.has_of((file.stamp.device, file.stamp.inode), offset..offset.saturating_add(len), now, |at| {
            file.is_in_memory(at)
        })
    }

    /// The same of a file with this device and inode, which `look` looks at.
    fn has_of(&mut self, file: (u64, u64), bytes: Range<u64>, now: Instant, look: impl Fn(u64) -> bool) -> bool {
        (bytes.start / GRAIN_BYTES..bytes.end.div_ceil(GRAIN_BYTES)).all(|number| {
            let start = number * GRAIN_BYTES;
            let part = bytes.start.max(start)..bytes.end.min(start + GRAIN_BYTES);
            self.has_grain(file, number, now, || look(part.start) && look(part.end - 1))
        })
    }

    fn has_grain(&mut self, (device, inode): (u64, u64), number: u64, now: Instant, look: impl Fn() -> bool) -> bool {
        let slot = slot(device, inode, number);
        let seen = self.grains.get(slot).copied().flatten();
        let is_known = seen.is_some_and(|seen| {
            (seen.device, seen.inode, seen.number) == (device, inode, number) && now.ns_since(seen.seen) < TRUSTED_NS
        });
        if is_known {
            return true;
        }
        let is_there = look();
        if is_there {
            self.grains.resize(GRAINS, None);
            self.grains[slot] = Some(Grain { device, inode, number, seen: now });
        }
        is_there
    }
}

/// The slot of a grain. Those of one file follow one another.
fn slot(device: u64, inode: u64, number: u64) -> usize {
    // 2^64 divided by the golden ratio spreads neighbouring inodes (Knuth, The Art of Computer
    // Programming 3, 6.4).
    let spread = (inode ^ device.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (spread.wrapping_add(number) % GRAINS as u64) as usize
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn slots_are_within_the_table_and_apart() {
        let slots: Vec<usize> = (0..100).map(|number| slot(7, u64::MAX, number)).collect();
        assert!(slots.iter().all(|&slot| slot < GRAINS));
        assert!(slots.windows(2).all(|pair| pair[0] != pair[1]));
    }

    /// The result, and the bytes that were looked at for it.
    fn has(
        residency: &mut Residency,
        bytes: Range<u64>,
        now: Instant,
        is_in_memory: impl Fn(u64) -> bool,
    ) -> (bool, Vec<u64>) {
        let looks = RefCell::new(Vec::new());
        let answer = residency.has_of((7, 8), bytes, now, |at| {
            looks.borrow_mut().push(at);
            is_in_memory(at)
        });
        (answer, looks.into_inner())
    }

    #[test]
    fn each_grain_is_looked_at_by_its_first_and_last_byte_until_one_is_missing() {
        let (bytes, now) = (5..2 * GRAIN_BYTES + 3, Instant::now());
        let all = vec![5, GRAIN_BYTES - 1, GRAIN_BYTES, 2 * GRAIN_BYTES - 1, 2 * GRAIN_BYTES, 2 * GRAIN_BYTES + 2];
        for missing in 0..all.len() {
            let looked = has(&mut Residency::default(), bytes.clone(), now, |at| at != all[missing]);
            assert_eq!(looked, (false, all[..=missing].to_vec()));
        }
        assert_eq!(has(&mut Residency::default(), bytes, now, |_| true), (true, all));
    }

    #[test]
    fn resident_grains_are_trusted_for_a_while() {
        let (mut residency, start, grain) = (Residency::default(), Instant::now(), 0..GRAIN_BYTES);
        assert_eq!(
            has(&mut residency, grain.clone(), start, |_| false),
            (false, vec![0]),
            "what is missing is not remembered"
        );
        assert_eq!(has(&mut residency, 9..10, start, |_| true), (true, vec![9, 9]));
        assert_eq!(has(&mut residency, grain.clone(), start.plus_ns(TRUSTED_NS - 1), |_| false), (true, vec![]));
        assert_eq!(has(&mut residency, grain.clone(), start.plus_ns(TRUSTED_NS), |_| false), (false, vec![0]));
        let another_file = residency.has_of((7, 9), grain.clone(), start, |_| false);
        assert!(
            !another_file && has(&mut residency, GRAIN_BYTES..2 * GRAIN_BYTES, start, |_| false).1 == [GRAIN_BYTES]
        );
    }
}
