//! What of files was found in memory a moment ago.
//!
//! Before a part of a file is sent, it is looked up whether the kernel has it in memory, since a send that has to wait for a disk
//! keeps all connections waiting. The look is a sample: the kernel reads, and throws out, runs of pages, and a look that is
//! wrong costs a wait, not an error. It takes a system call for each byte that is looked at, a tenth of what it costs to send
//! a large file that is in memory. Such files are sent to several clients at once, or again soon; so what was found in memory
//! is taken to be there for a moment longer.

use thalweg_sys::{File, Instant};

/// What is looked at as a whole, by its first and its last byte.
const GRAIN_BYTES: u64 = 128 << 10;

/// How many grains are remembered: those of 256 MB.
const GRAINS: usize = 2048;

/// For how long a grain counts as in memory.
const TRUSTED_NS: u64 = 1_000_000_000;

/// Grains of files that were found in memory. Each has one place, which another may take.
#[derive(Default)]
pub(crate) struct Warm {
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

impl Warm {
    /// Whether `len` bytes from `offset` on are in memory, as far as a sample tells.
    pub(crate) fn has(&mut self, file: &File, offset: u64, len: u64, now: Instant) -> bool {
        let end = offset.saturating_add(len);
        (offset / GRAIN_BYTES..end.div_ceil(GRAIN_BYTES)).all(|number| {
            let start = number * GRAIN_BYTES;
            self.has_grain(file, number, offset.max(start)..end.min(start + GRAIN_BYTES), now)
        })
    }

    fn has_grain(&mut self, file: &File, number: u64, bytes: std::ops::Range<u64>, now: Instant) -> bool {
        let (device, inode) = (file.stamp.device, file.stamp.inode);
        let place = place(device, inode, number);
        let seen = self.grains.get(place).copied().flatten();
        let is_known = seen.is_some_and(|seen| {
            (seen.device, seen.inode, seen.number) == (device, inode, number) && now.ns_since(seen.seen) < TRUSTED_NS
        });
        if is_known {
            return true;
        }
        let is_there = file.is_in_memory(bytes.start) && file.is_in_memory(bytes.end - 1);
        if is_there {
            self.grains.resize(GRAINS, None);
            self.grains[place] = Some(Grain { device, inode, number, seen: now });
        }
        is_there
    }
}

/// Where a grain stands. Those of one file follow one another.
fn place(device: u64, inode: u64, number: u64) -> usize {
    // 2^64 divided by the golden ratio spreads neighbouring inodes (Knuth, The Art of Computer Programming 3, 6.4).
    let spread = (inode ^ device.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (spread.wrapping_add(number) % GRAINS as u64) as usize
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use thalweg_sys::Root;

    use super::*;

    #[test]
    fn places_are_within_the_table_and_apart() {
        let places: Vec<usize> = (0..100).map(|number| place(7, u64::MAX, number)).collect();
        assert!(places.iter().all(|&place| place < GRAINS));
        assert!(places.windows(2).all(|pair| pair[0] != pair[1]));
    }

    /// Whether a look at a file that was just thrown out of memory says so, in one of ten attempts, which it is told by number: a look
    /// at what is not in memory has the kernel read it, and a fast disk may be done before the next look, or before this one answers.
    fn is_seen_cold(path: &Path, mut look: impl FnMut(u64) -> bool) -> bool {
        let of = format!("of={}", path.display());
        (1..=10).any(|attempt| {
            let dd = Command::new("dd")
                .args([&of, "oflag=nocache", "conv=notrunc,fdatasync", "count=0", "status=none"])
                .status();
            assert!(dd.expect("dd can be run").success());
            !look(attempt)
        })
    }

    #[test]
    fn what_was_found_is_trusted_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7; 3 << 17]).unwrap();
        let file = Root::open(folder.path()).unwrap().open_beneath(c"file").unwrap();
        if !is_seen_cold(&path, |_| file.is_in_memory(0)) {
            // A file system that keeps its files in memory.
            return;
        }
        let start = Instant::now();
        assert!(is_seen_cold(&path, |_| Warm::default().has(&file, 0, 1, start)));
        let mut warm = Warm::default();
        std::fs::read(&path).unwrap();
        assert!(warm.has(&file, 5, 2 << 17, start));
        let just_trusted = start.plus_ns(TRUSTED_NS - 1);
        assert!(!is_seen_cold(&path, |_| warm.has(&file, 0, 3 << 17, just_trusted)), "it is not looked at again");
        let later = |attempt| start.plus_ns(attempt * TRUSTED_NS);
        assert!(
            is_seen_cold(&path, |attempt| warm.has(&file, 0, 3 << 17, later(attempt))),
            "it was found too long ago"
        );
    }
}
