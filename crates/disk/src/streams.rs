//! Several sequential streams at once, each over a file of its own.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::blocks::{Access, Buffer, Passed};
use crate::plan::Cache;
use crate::supervision::{Control, Meter, PassError};

/// How the names of the files begin; the number follows.
pub(crate) const NAME: &str = "stream.";

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
    let (start, ended) = (Barrier::new(streams + 1), AtomicBool::new(false));
    let stream = |file: &File| -> Result<u64, PassError> {
        let mut buffer = Buffer::new(access.block, 0);
        start.wait();
        let until = Instant::now() + time;
        let (mut position, mut bytes) = (0, 0);
        while !ended.load(Ordering::Relaxed) && !control.is_stopped() && Instant::now() < until {
            if position + access.block > size {
                if access.cache != Cache::Warm {
                    break;
                }
                position = 0;
            }
            if let Err(error) = file.read_exact_at(buffer.block(), position) {
                ended.store(true, Ordering::Relaxed);
                return Err(error.into());
            }
            position += access.block;
            bytes += access.block;
        }
        ended.store(true, Ordering::Relaxed);
        Ok(bytes)
    };
    let (meter, read) = thread::scope(|scope| {
        let threads: Vec<_> = files.iter().map(|file| scope.spawn(|| stream(file))).collect();
        let meter = Meter::start();
        start.wait();
        let read: Vec<Result<u64, PassError>> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        (meter, read)
    });
    let usage = meter.usage();
    control.check()?;
    let bytes = read.into_iter().sum::<Result<u64, PassError>>()?;
    Ok(Passed { operations: bytes / access.block, bytes, usage })
}
