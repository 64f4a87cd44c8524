//! The page cache as a program that measures files sees it: dropping a file from it, writing it
//! back, and going around it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::{Advice, OFlags, fadvise, syncfs};

/// Drops all clean pages of a file from the page cache. Dirty ones stay: sync the file first.
///
/// # Errors
/// Those of `posix_fadvise`: this is a pipe, for example.
pub fn forget(file: &File) -> io::Result<()> {
    Ok(fadvise(file, 0, None, Advice::DontNeed)?)
}

/// Writes everything that is dirty on the file system with this file or folder to its device.
///
/// # Errors
/// Those of `syncfs`: the device has failed, for example.
pub fn sync_file_system(file: &File) -> io::Result<()> {
    Ok(syncfs(file)?)
}

/// Has a file opened so that its bytes go between the caller's buffer and the device without the
/// page cache (`O_DIRECT`). Buffers, positions and lengths then have to be multiples of the
/// device's block, and some file systems refuse to open files so (`EINVAL`).
pub fn bypass(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(OFlags::DIRECT.bits() as i32)
}
