//! Several sequential streams at once, each over a file of its own.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::blocks::{Access, Buffer, Passed};
use crate::plan::Cache;
use crate::supervision::{Control, Meter, PassError, joined, spawn};

/// How the names of the files begin; the number follows.
pub(crate) const NAME: &str = "stream.";

/// Bytes after which a stream counts them as done.
const COUNTED_BYTES: u64 = 1 << 20;

/// The file of a stream.
pub(crate) fn path(folder: &Path, stream: usize) -> PathBuf {
    folder.join(format!("{NAME}{stream}"))
}

/// Reads as many files as there are streams, each from its beginning, until the first is at its end
/// or the time is over: all streams read during the whole time. From a warm page cache each begins
/// again at its end.
pub(crate) fn read(
    folder: &Path,
    streams: usize,
    access: Access,
    size: u64,
    time: Duration,
    control: &Control,
) -> Result<Passed, PassError> {
    let files: Vec<File> =
        (0..streams).map(|stream| access.open(&path(folder, stream), false)).collect::<Result<_, _>>()?;
    // Locked for writing until all threads are there.
    let (start, ended) = (RwLock::new(()), AtomicBool::new(false));
    let stream = |file: &File| -> Result<u64, PassError> {
        let mut buffer = Buffer::new(access.block, 0);
        drop(start.read());
        let until = Instant::now() + time;
        let (mut position, mut bytes, mut counted) = (0, 0, 0);
        loop {
            if let Err(error) = file.read_exact_at(buffer.block(), position) {
                ended.store(true, Ordering::Relaxed);
                return Err(error.into());
            }
            position += access.block;
            bytes += access.block;
            if bytes - counted >= COUNTED_BYTES {
                control.advance(bytes - counted)?;
                counted = bytes;
            }
            if position + access.block > size {
                if access.cache != Cache::Warm {
                    break;
                }
                position = 0;
            }
            // After the read: a thread that had to wait for a CPU all the time has read one block.
            if ended.load(Ordering::Relaxed) || control.is_stopped() || Instant::now() >= until {
                break;
            }
        }
        ended.store(true, Ordering::Relaxed);
        Ok(bytes)
    };
    let (meter, read) = thread::scope(|scope| -> Result<_, PassError> {
        let closed = start.write().unwrap_or_else(PoisonError::into_inner);
        let threads: Result<Vec<_>, _> = files.iter().map(|file| spawn(scope, || stream(file))).collect();
        // Threads that are there end after a block if one cannot be started.
        ended.store(threads.is_err(), Ordering::Relaxed);
        let meter = Meter::start();
        drop(closed);
        let read: Vec<Result<u64, PassError>> = threads?.into_iter().map(joined).collect();
        Ok((meter, read))
    })?;
    let usage = meter.usage();
    control.check()?;
    let bytes = read.into_iter().sum::<Result<u64, PassError>>()?;
    Ok(Passed { operations: bytes / access.block, bytes, usage })
}
