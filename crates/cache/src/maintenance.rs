//! The threads that make checkpoints, one for each volume, so that no append has to, and that write
//! what was appended last. When a checkpoint is due, and how it is made, is with the volume.

use crate::{cache::Cache, volume::Turn};
use std::{
    io,
    sync::Arc,
    thread::{Builder, JoinHandle},
    time::Duration,
};

/// When nothing is appended for as long as this, what is in memory alone is written.
const PAUSE: Duration = Duration::from_secs(10);

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
                let mut last = 0;
                loop {
                    match cache.volumes()[volume].turns.wait(PAUSE) {
                        // A failure counts against the volume, and the next step of a cursor asks
                        // again.
                        Turn::Due => drop(cache.maintain_volume(volume)),
                        Turn::Pause => last = cache.volumes()[volume].write_idle(last),
                        Turn::Ended => return,
                    }
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
