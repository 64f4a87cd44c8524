//! The checksums of a folder's files, as checksum files in the folder have them: `NAME.sha256`, and
//! `SHA256SUMS`.
//!
//! They are those that Want-Repr-Digest is answered with: an older list than the file says nothing
//! of it. Reading them is bounded by the size of a list and by the number of lists.

use std::collections::HashMap;

use foldhash::quality::RandomState;
use thalweg_formats::checksums::{self, Scope};
use thalweg_sys::File;
use thalweg_sys::file::FileKind;
use thalweg_wire::digest::Algorithm;

use super::index::Index;

/// The list of a folder, and the end of the name of a list for one file.
const FOLDER_LIST: &[u8] = b"SHA256SUMS";
const FILE_LIST_END: &[u8] = b".sha256";

/// Most lists for one file that are read in a folder, and the size of the largest.
const FILE_LISTS_MAX: usize = 1000;
const FILE_LIST_BYTES_MAX: u64 = 4 << 10;

/// Larger lists of a folder are not read.
const FOLDER_LIST_BYTES_MAX: u64 = 4 << 20;

/// The digest of a file by SHA-256.
type Sha256 = [u8; 32];

/// The names of lists for one file that were seen in a folder.
#[derive(Default)]
pub(super) struct FileLists(Vec<Box<[u8]>>);

impl FileLists {
    /// Takes notice of an entry of the folder, which may be left out of its listing.
    pub(super) fn see(&mut self, name: &[u8]) {
        if name.ends_with(FILE_LIST_END) && self.0.len() < FILE_LISTS_MAX {
            self.0.push(name.into());
        }
    }

    /// Sets the digests of the files in an index. `open` opens a file of the folder if it would be
    /// served, and `shows` is whether the digest of a file is to be shown.
    pub(super) fn apply(self, index: &mut Index, open: impl Fn(&[u8]) -> Option<File>, shows: impl Fn(&[u8]) -> bool) {
        let mut of_files: HashMap<Box<[u8]>, (Sha256, i64), RandomState> = HashMap::default();
        for list in self.0 {
            let name = list.strip_suffix(FILE_LIST_END).unwrap_or_default();
            let Some((text, modified_s)) = read(open(&list), FILE_LIST_BYTES_MAX) else { continue };
            if let Some(digest) =
                checksums::find(&text, name, Algorithm::Sha256, Scope::OneFile).as_deref().and_then(sha256)
            {
                of_files.insert(name.into(), (digest, modified_s));
            }
        }
        let folder = read(open(FOLDER_LIST), FOLDER_LIST_BYTES_MAX);
        let (of_folder, folder_modified_s) = match &folder {
            Some((text, modified_s)) => (checksums::all(text, Algorithm::Sha256), *modified_s),
            None => (HashMap::new(), i64::MIN),
        };
        if of_files.is_empty() && of_folder.is_empty() {
            return;
        }
        index.set_digests(|name, modified_s| {
            let of_file = of_files.get(name).filter(|(_, listed_s)| *listed_s >= modified_s).map(|(digest, _)| *digest);
            let of_folder = || {
                let digest = of_folder.get(name).filter(|_| folder_modified_s >= modified_s)?;
                digest.as_deref().and_then(sha256)
            };
            of_file.or_else(of_folder).filter(|_| shows(name))
        });
    }
}

fn sha256(digest: &[u8]) -> Option<Sha256> {
    digest.first_chunk().copied()
}

/// The content of a list and the second of its modification.
fn read(file: Option<File>, bytes_max: u64) -> Option<(Vec<u8>, i64)> {
    let file = file.filter(|file| file.kind == FileKind::Regular && file.stamp.size <= bytes_max)?;
    let mut bytes = vec![0; file.stamp.size as usize];
    let read = file.read_at(&mut bytes, 0).ok()?;
    // Half a list has half a digest at its end, which is none.
    bytes.truncate(read);
    Some((bytes, file.stamp.modified_s))
}
