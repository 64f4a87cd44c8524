//! Comparing a directory with a tree.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::content::{BLOCK, Blocks, Contents};
use crate::error::TreeError;
use crate::file::TreeFile;
use crate::write::Progress;

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Files that are as the tree has them.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Everything else, in the order of the tree's files; superfluous ones last.
    pub differences: Vec<Difference>,
}

/// A path at which directory and tree differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The path in the tree.
    pub path: String,
    /// The kind.
    pub mismatch: Mismatch,
}

/// How a directory differs from a tree at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The directory does not have the file.
    Missing,
    /// The directory has something there that is no regular file.
    NotFile,
    /// The file has another size.
    Size {
        /// The tree's.
        expected: u64,
        /// The directory's.
        found: u64,
    },
    /// The file has the right size and another content.
    Content {
        /// The first byte that differs, from 0.
        offset: u64,
    },
    /// The tree has no such file.
    Superfluous,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, mismatch } = self;
        match mismatch {
            Mismatch::Missing => write!(f, "{path}: missing"),
            Mismatch::NotFile => write!(f, "{path}: not a regular file"),
            Mismatch::Size { expected, found } => write!(f, "{path}: {found} bytes instead of {expected}"),
            Mismatch::Content { offset } => write!(f, "{path}: other content from byte {offset} on"),
            Mismatch::Superfluous => write!(f, "{path}: superfluous"),
        }
    }
}

/// Compares `directory` with `files`.
pub(crate) fn verify(
    contents: Contents,
    files: &[TreeFile],
    directory: &Path,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Verified, TreeError> {
    let mut found = BTreeMap::new();
    collect(directory, "", &mut found)?;
    let mut comparison = Comparison { contents, directory, done: Progress::default() };
    let mut verified = Verified::default();
    for file in files {
        let mismatch = match found.remove(&file.path) {
            None => Some(Mismatch::Missing),
            Some(metadata) => comparison.mismatch(file, &metadata, progress)?,
        };
        match mismatch {
            Some(mismatch) => verified.differences.push(Difference { path: file.path.clone(), mismatch }),
            None => {
                verified.files += 1;
                verified.bytes += file.size;
            }
        }
    }
    let superfluous = |path| Difference { path, mismatch: Mismatch::Superfluous };
    verified.differences.extend(found.into_keys().map(superfluous));
    Ok(verified)
}

/// Everything in a directory that is not a directory, by its path below `prefix`. Names that are no
/// UTF-8 are superfluous anyway; their bytes are replaced.
fn collect(directory: &Path, prefix: &str, found: &mut BTreeMap<String, Metadata>) -> Result<(), TreeError> {
    let failed = |source: io::Error| match source.kind() {
        ErrorKind::NotADirectory => TreeError::NotDirectory(directory.to_owned()),
        _ => TreeError::Io { action: "read", path: directory.to_owned(), source },
    };
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let metadata = entry.metadata().map_err(failed)?;
        if metadata.is_dir() {
            collect(&entry.path(), &format!("{path}/"), found)?;
        } else {
            found.insert(path, metadata);
        }
    }
    Ok(())
}

/// Compares files with their contents.
struct Comparison<'a> {
    contents: Contents,
    directory: &'a Path,
    done: Progress,
}

impl Comparison<'_> {
    fn mismatch(
        &mut self,
        file: &TreeFile,
        metadata: &Metadata,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Option<Mismatch>, TreeError> {
        if !metadata.is_file() {
            return Ok(Some(Mismatch::NotFile));
        }
        if metadata.len() != file.size {
            return Ok(Some(Mismatch::Size { expected: file.size, found: metadata.len() }));
        }
        let path = self.directory.join(&file.path);
        let failed = |source| TreeError::Io { action: "read", path: path.clone(), source };
        let mut input = File::open(&path).map_err(failed)?;
        let before = self.done.bytes;
        let mut expected = Expected { blocks: self.contents.of(file), zeros: zeros_to_compare(file, metadata) };
        let mut bytes = vec![0; BLOCK];
        loop {
            let block = expected.next();
            if block.is_empty() {
                break;
            }
            let found = &mut bytes[..block.len()];
            let offset = self.done.bytes - before;
            match input.read_exact(found) {
                Ok(()) => {}
                // The file became shorter meanwhile.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Ok(Some(Mismatch::Content { offset }));
                }
                Err(error) => return Err(failed(error)),
            }
            if let Some(place) = block.iter().zip(&*found).position(|(expected, found)| expected != found) {
                return Ok(Some(Mismatch::Content { offset: offset + place as u64 }));
            }
            self.done.bytes += block.len() as u64;
            if progress(self.done).is_break() {
                return Err(TreeError::Interrupted);
            }
        }
        self.done.bytes = before + file.size;
        self.done.files += 1;
        if progress(self.done).is_break() { Err(TreeError::Interrupted) } else { Ok(None) }
    }
}

/// The expected content: random blocks, then zeros.
struct Expected {
    blocks: Blocks,
    zeros: u64,
}

impl Expected {
    /// The next block; empty after the last one.
    fn next(&mut self) -> &[u8] {
        const ZEROS: &[u8] = &[0; BLOCK];
        if !self.blocks.is_at_end() {
            return self.blocks.next();
        }
        let length = self.zeros.min(BLOCK as u64);
        self.zeros -= length;
        &ZEROS[..length as usize]
    }
}

/// How many zeros behind a file's random beginning are to be read. A hole needs no reading: if no
/// more is allocated than the block in which the beginning lies, the rest is zero. Where blocks are
/// larger than usual, all of it is read.
fn zeros_to_compare(file: &TreeFile, metadata: &Metadata) -> u64 {
    const SECTOR: u64 = 512;
    const USUAL_BLOCK: u64 = 4096;
    let rest = file.size - file.random;
    let beginning = file.random.next_multiple_of(USUAL_BLOCK);
    if metadata.blocks() * SECTOR <= beginning { rest.min(beginning - file.random) } else { rest }
}
