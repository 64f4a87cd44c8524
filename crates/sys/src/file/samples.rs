//! Samples of a file: a few of its blocks, to tell a file that has grown from one that was written
//! to elsewhere as well.
//!
//! Not seen: a write between the sampled blocks to a file that has grown, too.

use std::fs;
use std::hash::Hasher;
use std::io;

use rustix::io::{Errno, pread};

/// Bytes of a block: a page of the page cache.
const BLOCK_BYTES: u64 = 4 << 10;

/// Most blocks of a file: the first, the last, and others between them at equal distances.
const BLOCKS: u64 = 8;

/// The hashes of blocks of a file, as it was when it had so many bytes.
#[derive(Debug)]
pub(super) struct Samples {
    bytes: u64,
    hashes: Box<[u64]>,
}

/// The offsets of the blocks of a file of so many bytes.
fn offsets(bytes: u64) -> impl Iterator<Item = u64> {
    let last = bytes.saturating_sub(BLOCK_BYTES);
    let blocks = bytes.div_ceil(BLOCK_BYTES).min(BLOCKS);
    (0..blocks).map(move |block| match blocks {
        1 => 0,
        // No product of this: a file may have 2^63 bytes.
        _ if block + 1 == blocks => last,
        _ => last / (blocks - 1) * block,
    })
}

fn hash(block: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(block);
    hasher.finish()
}

impl Samples {
    /// Takes samples of a file of so many bytes, from which `read` reads at an offset.
    pub(super) fn take(bytes: u64, read: impl Fn(&mut [u8], u64) -> io::Result<usize>) -> io::Result<Self> {
        let mut block = [0; BLOCK_BYTES as usize];
        let hashes = offsets(bytes).map(|offset| {
            let read = read(&mut block, offset)?;
            Ok(hash(&block[..read.min((bytes - offset) as usize)]))
        });
        Ok(Self { bytes, hashes: hashes.collect::<io::Result<_>>()? })
    }

    /// Whether a file has these blocks now. It waits for a disk if it must: that a file has changed
    /// while it was sent is rare, and most of its pages have just been read.
    pub(super) fn are_in(&self, file: &fs::File) -> bool {
        let mut block = [0; BLOCK_BYTES as usize];
        offsets(self.bytes).zip(&self.hashes).all(|(offset, expected)| {
            let len = BLOCK_BYTES.min(self.bytes - offset) as usize;
            read_exact(file, &mut block[..len], offset).is_ok() && hash(&block[..len]) == *expected
        })
    }
}

/// Fills a buffer, waiting for a disk.
fn read_exact(file: &fs::File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        match pread(file, &mut buffer[filled..], offset + filled as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::unix::fs::FileExt;
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::file::RECENT_S;
    use crate::{File, Root};

    #[test]
    fn blocks_cover_a_small_file_and_both_ends_of_a_large_one() {
        let at = |bytes: u64| offsets(bytes).collect::<Vec<_>>();
        assert_eq!(at(0), [0; 0]);
        assert_eq!(at(1), [0]);
        assert_eq!(at(4096), [0]);
        assert_eq!(at(4097), [0, 1]);
        assert_eq!(at(3 * 4096), [0, 4096, 8192]);
        for bytes in [8 * 4096, 100_001, 1 << 40, i64::MAX as u64] {
            let at = at(bytes);
            assert_eq!((at.len(), at[0], at[7]), (8, 0, bytes - 4096), "{bytes}");
            assert!(at.windows(2).all(|pair| pair[0] < pair[1]), "{at:?}");
        }
    }

    const NOW_S: i64 = 2_000_000_000;

    fn opened(folder: &Path, modified_s: i64) -> File {
        let path = folder.join("a");
        fs::write(&path, (0..200_000u32).map(|byte| byte as u8).collect::<Vec<_>>()).unwrap();
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(modified_s as u64);
        OpenOptions::new().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        Root::open(folder).unwrap().open_beneath(c"a").unwrap().sampled_if_recent(NOW_S).unwrap()
    }

    #[test]
    fn a_file_that_changes_before_it_is_sampled_is_what_it_is_then() {
        let folder = tempfile::TempDir::with_prefix("before").unwrap();
        fs::write(folder.path().join("a"), "old").unwrap();
        let file = Root::open(folder.path()).unwrap().open_beneath(c"a").unwrap();
        fs::write(folder.path().join("a"), "another").unwrap();
        let file = file.sampled_if_recent(0).unwrap();
        assert_eq!((file.stamp.size, file.samples.is_some()), (7, true));
        file.ensure_unchanged().unwrap();
    }

    #[test]
    fn a_file_that_only_grows_has_not_changed() {
        let folder = tempfile::TempDir::with_prefix("grows").unwrap();
        let write = |at: u64, bytes: &[u8]| {
            OpenOptions::new().write(true).open(folder.path().join("a")).unwrap().write_all_at(bytes, at).unwrap();
        };
        let check = |modified_s: i64, change: &dyn Fn(), is_same: bool| {
            let file = opened(folder.path(), modified_s);
            file.ensure_unchanged().unwrap();
            change();
            let clone = file.clone();
            assert_eq!((clone.ensure_unchanged().is_ok(), clone.has_changed()), (is_same, !is_same));
        };
        let recent = NOW_S - 3600;
        check(recent, &|| write(200_000, b"one more line\n"), true);
        check(recent, &|| (200_000..200_100).for_each(|at| write(at, b"x")), true);
        // Not one that nobody expected to grow.
        check(NOW_S - RECENT_S, &|| write(200_000, b"x"), false);
        // Written to in place, which leaves it as long as it was, or not.
        check(recent, &|| write(0, b"x"), false);
        check(recent, &|| write(100_000, b"\0"), false);
        for at in [0, 4095, 199_999, 195_904] {
            check(recent, &|| (write(at, b"\xaa\xaa"), write(200_000, b"x")).0, false);
        }
        let shorten = |bytes: u64| OpenOptions::new().write(true).open(folder.path().join("a")).unwrap().set_len(bytes);
        check(recent, &|| shorten(199_999).unwrap(), false);
        check(recent, &|| (shorten(0).unwrap(), shorten(300_000).unwrap()).0, false);
    }
}
