//! The threads that make checkpoints, one for each volume, so that no append has to. When one is
//! due, and how it is made, is with the volume.

use crate::cache::Cache;
use std::{
    io,
    sync::Arc,
    thread::{Builder, JoinHandle},
};

/// The threads that make the checkpoints of a cache, until it is dropped. Without them, an append
/// makes the checkpoint that it may not go on without.
pub struct Maintenance {
    cache: Arc<Cache>,
    threads: Vec<JoinHandle<()>>,
}

impl Maintenance {
    /// Starts the threads.
    pub fn begin(cache: &Arc<Cache>) -> io::Result<Self> {
        let mut maintenance = Self { cache: Arc::clone(cache), threads: Vec::new() };
        for volume in 0..cache.volumes().len() {
            let cache = Arc::clone(cache);
            let thread = Builder::new().name("cache-volume".to_owned()).spawn(move || {
                while cache.volumes()[volume].turns.wait() {
                    // A failure counts against the volume, and the next step of a cursor asks
                    // again.
                    let _ = cache.maintain_volume(volume);
                }
            });
            maintenance.threads.push(thread?);
        }
        Ok(maintenance)
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.cache.volumes().iter().for_each(|volume| volume.turns.end());
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}
