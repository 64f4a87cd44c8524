//! The files that are downloaded most, in bounded memory: the algorithm of Misra and Gries (1982).
//!
//! Under any sequence of downloads, a file with more than one in [`FILES_MAX`] of them is kept. Its
//! count may be too low, by at most that part of all downloads; it is never too high.

use std::collections::HashMap;

use foldhash::quality::RandomState;

/// Most files kept.
const FILES_MAX: usize = 1024;

/// The files that are downloaded most.
#[derive(Debug, Default)]
pub(crate) struct Popular {
    files: HashMap<Box<[u8]>, Popularity, RandomState>,
}

/// The downloads of a file, at least.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Popularity {
    pub(crate) downloads: u64,
    /// Bytes of those downloads.
    pub(crate) bytes: u64,
    /// Downloads that were taken back to make room for other files.
    forgotten: u64,
}

impl Popular {
    /// A file was downloaded.
    pub(crate) fn add(&mut self, file: &[u8], bytes: u64) {
        if let Some(popularity) = self.files.get_mut(file) {
            popularity.downloads += 1;
            popularity.bytes += bytes;
            return;
        }
        if self.files.len() < FILES_MAX {
            self.files.insert(file.into(), Popularity { downloads: 1, bytes, forgotten: 0 });
            return;
        }
        // This download cancels one of each other. It happens at most once for FILES_MAX downloads,
        // so one costs little.
        self.files.retain(|_, popularity| {
            popularity.forgotten += 1;
            popularity.downloads > popularity.forgotten
        });
    }

    /// The first so many.
    pub(crate) fn top(&self, count: usize) -> Vec<(&[u8], Popularity)> {
        let mut files: Vec<_> = self.files.iter().map(|(file, popularity)| (&**file, *popularity)).collect();
        files.sort_unstable_by(|(a_name, a), (b_name, b)| {
            (b.downloads, b.bytes, a_name).cmp(&(a.downloads, a.bytes, b_name))
        });
        files.truncate(count);
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_requested_files_are_found_in_a_flood_of_others() {
        let mut popular = Popular::default();
        for round in 0..200_000u32 {
            popular.add(format!("rare-{round}").as_bytes(), 1);
            if round % 10 == 0 {
                popular.add(b"ubuntu.iso", 5);
            }
            if round % 20 == 0 {
                popular.add(b"debian.iso", 7);
            }
            assert!(popular.files.len() <= FILES_MAX);
        }
        let names: Vec<_> = popular.top(2).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, [b"ubuntu.iso", b"debian.iso"]);
        let (_, ubuntu) = popular.top(1)[0];
        assert!(ubuntu.downloads <= 20_000 && ubuntu.downloads > 20_000 - 230_000 / FILES_MAX as u64);
    }

    #[test]
    fn equals_are_in_the_order_of_their_names() {
        let mut popular = Popular::default();
        for name in ["b", "a", "c", "c"] {
            popular.add(name.as_bytes(), 1);
        }
        let names: Vec<_> = popular.top(9).into_iter().map(|(name, _)| name[0]).collect();
        assert_eq!(names, *b"cab");
    }
}
