//! A store without a disk, for servers that are given none: the same store on a file in memory.

use std::path::{Path, PathBuf};
use std::process;

use rand::random;
use thalweg_cache::medium::Allocation;
use thalweg_cache::{Cache, Error, Settings, Shape};

/// Makes an empty store of `size` bytes in memory, which ends with the process.
pub fn memory_cache(size: u64, settings: Settings) -> Result<Cache, Error> {
    let shared = Path::new("/dev/shm");
    let folder = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
    let path = folder.join(format!("thalweg-{}-{:x}", process::id(), random::<u64>()));
    let _name = Removed(path.clone());
    Cache::create(&path, size, Allocation::Sparse, Shape::default())?;
    Cache::open(&[path], settings)
}

/// A name that is removed; the file stays until it is closed.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // Nothing is lost if it stays but some memory.
        let _ = std::fs::remove_file(&self.0);
    }
}
