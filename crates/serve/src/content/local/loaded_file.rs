//! Loaded files: what is read from the file system before a file can be served, which is the file,
//! its compressed companions and its digests.
//!
//! Everything here may block, and nothing here knows of heads: a pool thread loads files for the
//! loop that serves them.
//!
//! Companions and checksum files are found by their names, under the same rules as any file that a
//! client requests, and count only if they are not older than the file: an old one is of what the
//! file was before. Whole seconds are compared, since many programs carry no finer times over from
//! the file to its companion.

use std::time::SystemTime;

use thalweg_formats::checksums::{self, Scope};
use thalweg_sys::File;
use thalweg_sys::file::Stamp;
use thalweg_wire::coding::Coding;
use thalweg_wire::digest::Algorithm;

use crate::content::local::miss::Miss;
use crate::content::object::Digests;
use crate::content::policy::ResponsePolicy;

/// Larger checksum files are not read: a folder has hardly more than 30,000 files worth it.
const CHECKSUM_FILE_BYTES_MAX: u64 = 4 << 20;

/// Opens a regular file by its name beneath the root; `None` if it is not there, or not to be
/// served. It fails only where it could not find out.
pub(crate) type OpenCompanion<'o> = dyn FnMut(&[u8]) -> Result<Option<File>, Miss> + 'o;

/// A file and all that belongs to it.
pub(crate) struct LoadedFile {
    /// The file.
    pub(crate) file: File,
    /// All of it, if it is small.
    pub(crate) bytes: Option<Vec<u8>>,
    /// The coding of a companion.
    pub(crate) coding: Option<Coding>,
    /// At the index of [`Algorithm::ALL`].
    pub(crate) digests: Digests,
    /// The same in content codings.
    pub(crate) variants: Vec<LoadedFile>,
    /// All names that were looked for beside it.
    pub(crate) companions: Vec<Companion>,
}

/// The name of a companion that a file depends on, and the state of what was there.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Companion {
    pub(crate) name: Box<[u8]>,
    pub(crate) stamp: Option<Stamp>,
}

impl LoadedFile {
    /// Reads what there is of an open file. `name` is its path beneath the root; files of up to
    /// `small_bytes_max` are read whole.
    pub(crate) fn read(
        file: File,
        name: &[u8],
        policy: &ResponsePolicy,
        small_bytes_max: usize,
        open: &mut OpenCompanion<'_>,
    ) -> Result<Self, Miss> {
        let mut surroundings = Surroundings { seen: Vec::new(), open };
        let mut loaded = Self::of(file, None, small_bytes_max)?;
        if policy.precompressed {
            for coding in Coding::ALL {
                let variant = surroundings.open(&[name, suffix(coding)].concat(), &loaded.file.stamp)?;
                let variant = variant.map(|file| Self::of(file, Some(coding), small_bytes_max));
                loaded.variants.extend(variant.transpose()?);
            }
        }
        if policy.digests {
            loaded.digests = surroundings.digests(name, &loaded.file.stamp)?;
            for variant in &mut loaded.variants {
                let name = [name, variant.coding.map_or(&b""[..], suffix)].concat();
                variant.digests = surroundings.digests(&name, &variant.file.stamp)?;
            }
        }
        loaded.companions = surroundings.seen;
        Ok(loaded)
    }

    fn of(file: File, coding: Option<Coding>, small_bytes_max: usize) -> Result<Self, Miss> {
        let is_small = file.stamp.size <= small_bytes_max as u64;
        let bytes = is_small.then(|| read_whole(&file)).transpose()?;
        // One in memory is what it was.
        let file = match is_small {
            true => file,
            false => file.sampled_if_recent(now_s()).map_err(|error| Miss::of(&error))?,
        };
        Ok(Self { file, bytes, coding, digests: Digests::default(), variants: Vec::new(), companions: Vec::new() })
    }
}

/// The companions of a file.
struct Surroundings<'o, 'f> {
    seen: Vec<Companion>,
    open: &'o mut OpenCompanion<'f>,
}

impl Surroundings<'_, '_> {
    /// Opens a companion that is not older than the file with this stamp.
    fn open(&mut self, name: &[u8], of: &Stamp) -> Result<Option<File>, Miss> {
        let file = (self.open)(name)?;
        if self.seen.iter().all(|seen| *seen.name != *name) {
            self.seen.push(Companion { name: name.into(), stamp: file.as_ref().map(|file| file.stamp) });
        }
        Ok(file.filter(|file| file.stamp.modified_s >= of.modified_s))
    }

    /// The digests of a file: from a list of its own, else from that of its folder.
    fn digests(&mut self, name: &[u8], of: &Stamp) -> Result<Digests, Miss> {
        let file_name_at = name.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        let (folder, file_name) = name.split_at(file_name_at);
        let mut digests = Digests::default();
        for (algorithm, digest) in Algorithm::ALL.into_iter().zip(&mut digests) {
            let (suffix, list): (&[u8], &[u8]) = match algorithm {
                Algorithm::Sha256 => (b".sha256", b"SHA256SUMS"),
                Algorithm::Sha512 => (b".sha512", b"SHA512SUMS"),
            };
            for (list, scope) in [([name, suffix].concat(), Scope::OneFile), ([folder, list].concat(), Scope::Folder)] {
                if digest.is_none()
                    && let Some(list) = self.open(&list, of)?
                {
                    *digest = checksum(&list, file_name, algorithm, scope)?;
                }
            }
        }
        Ok(digests)
    }
}

fn checksum(list: &File, name: &[u8], algorithm: Algorithm, scope: Scope) -> Result<Option<Box<[u8]>>, Miss> {
    if list.stamp.size > CHECKSUM_FILE_BYTES_MAX {
        return Ok(None);
    }
    Ok(checksums::find(&read_whole(list)?, name, algorithm, scope))
}

/// The name of a companion in this coding ends so.
fn suffix(coding: Coding) -> &'static [u8] {
    match coding {
        Coding::Zstd => b".zst",
        Coding::Brotli => b".br",
        Coding::Gzip => b".gz",
    }
}

/// The present second.
fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Reads as much as the file had when it was opened. It fails if the file has changed by the end,
/// since what was read may then be of two versions.
fn read_whole(file: &File) -> Result<Vec<u8>, Miss> {
    let mut bytes = vec![0; file.stamp.size as usize];
    let read = file.read_at(&mut bytes, 0).map_err(|error| Miss::of(&error))?;
    if read < bytes.len() {
        return Err(Miss::FAILED);
    }
    file.ensure_unchanged().map_err(|error| Miss::of(&error))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use thalweg_sys::Root;

    use super::*;

    #[test]
    fn a_small_file_that_changes_before_it_is_read_to_the_end_is_not_kept() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("a");
        let read = |change: &dyn Fn()| {
            fs::write(&path, "old text").unwrap();
            let file = Root::open(dir.path()).unwrap().open_beneath(c"a").unwrap();
            change();
            let loaded = LoadedFile::read(file, b"a", &ResponsePolicy::default(), 100, &mut |_| Ok(None));
            loaded.map(|loaded| loaded.bytes)
        };
        assert_eq!(read(&|| ()), Ok(Some(b"old text".to_vec())));
        let rewrite = || {
            fs::write(&path, "new text").unwrap();
            // Another time even where the clock's ticks are long.
            fs::File::options().write(true).open(&path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        };
        assert_eq!(read(&rewrite), Err(Miss::FAILED));
        assert_eq!(read(&|| fs::write(&path, "longer than before").unwrap()), Err(Miss::FAILED));
        assert_eq!(read(&|| fs::write(&path, "short").unwrap()), Err(Miss::FAILED));
        assert_eq!(read(&|| fs::remove_file(&path).unwrap()), Ok(Some(b"old text".to_vec())));
    }
}
