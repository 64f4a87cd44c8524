//! The tier as loops and commands see it.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use rand::random;
use thalweg_cache::{Cache, Error, Key, Maintenance, Part};
use thalweg_caching::{GatewayName, UncacheableMemory};
use tokio::runtime::{Builder, Runtime};

use crate::activity::Bodies;
use crate::answer::{Answer, Failure};
use crate::ask::{Answered, Ask};
use crate::consistent::Sets;

use crate::counters::{Counters, Counts};
use crate::environment::{Clock, Log};
use crate::exchange::Exchange;
use crate::mount::Mount;
use crate::mounted::Mounted;
use crate::purge::{Purge, PurgeKind, PurgeLog};
use crate::shared::Shared;
use crate::store::Store;
use crate::upstream::UpstreamFailure;

/// Names whose responses are not stored, that are remembered: some 5 MB.
const UNCACHEABLE_MAX: usize = 65_536;

/// How often tables are tidied.
const UPKEEP_TIME: Duration = Duration::from_secs(5);

/// The settings of a tier.
pub struct TierConfig {
    /// The store.
    pub cache: Arc<Cache>,
    /// Threads that answer requests; others wait for disks.
    pub threads: usize,
    /// This cache's name in Cache-Status (RFC 9211), such as `thalweg`.
    pub name: Box<str>,
    /// The time.
    pub clock: Clock,
    /// Takes messages for the log.
    pub log: Log,
}

/// The tier of a process.
pub struct Tier {
    shared: Arc<Shared>,
    /// `None` while it is dropped.
    runtime: Option<Runtime>,
    _maintenance: Maintenance,
}

impl Tier {
    /// Starts the tier's threads.
    pub fn start(config: TierConfig) -> io::Result<Self> {
        let TierConfig { cache, threads, name, clock, log } = config;
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .thread_name("tier")
            .max_blocking_threads(16)
            .enable_all()
            .build()?;
        let maintenance = Maintenance::begin(&cache)?;
        let shared = Arc::new(Shared {
            mounts: RwLock::new(Vec::new()),
            object_bytes_max: cache.statistics().capacity_bytes,
            store: Store::new(cache),
            entries: Arc::default(),
            uncacheable: Mutex::new(UncacheableMemory::new(UNCACHEABLE_MAX)),
            bodies: Bodies::default(),
            sets: Sets::default(),
            counters: Counters::default(),
            purges: PurgeLog::default(),
            generation: AtomicU64::new(0),
            clock,
            log,
            runtime: runtime.handle().clone(),
            instance: format!("{name}-{:016x}", random::<u64>()).into(),
            name,
        });
        runtime.spawn(upkeep(Arc::clone(&shared)));
        Ok(Self { shared, runtime: Some(runtime), _maintenance: maintenance })
    }

    /// Adds a mount: its number, by which loops ask for it. Numbers are not used again.
    pub fn add_mount(&self, mount: Mount) -> usize {
        let mut mounts = self.shared.mounts.write().unwrap_or_else(PoisonError::into_inner);
        let known = mounts.iter().find(|known| known.name == mount.name);
        let counters = known.map(|known| Arc::clone(&known.counters)).unwrap_or_default();
        let gateway = GatewayName::new(format!("{}.{}", self.shared.instance, mounts.len()));
        mounts.push(Arc::new(Mounted::new(mount, counters, gateway)));
        mounts.len() - 1
    }

    /// The threads of the tier, for origins that have tasks of their own.
    pub fn runtime(&self) -> &tokio::runtime::Handle {
        &self.shared.runtime
    }

    /// Answers a request: `answered` is called from the tier's thread.
    pub fn ask(&self, ask: Ask, answered: Answered) {
        let shared = Arc::clone(&self.shared);
        self.shared.runtime.spawn(async move {
            let mut ask = ask;
            let mount = shared.mount(ask.mount);
            let refusal = mount.as_ref().and_then(|mount| mount.begin(&mut ask));
            let answer = match (mount, refusal) {
                (Some(mount), None) => Exchange::new(shared, mount, ask).answer().await,
                (_, Some(UpstreamFailure { status, reason })) => {
                    Answer::Failed(Failure { status, reason, cache_status: shared.name.clone() })
                }
                (None, None) => Answer::Failed(Failure {
                    status: 502,
                    reason: format!("there is no mount with the number {}", ask.mount).into(),
                    cache_status: shared.name.clone(),
                }),
            };
            answered(answer);
        });
    }

    /// Purges: how many purges of the store that took, one for each object of a prefix. Once this
    /// is `Ok`, nothing of it is used any more, also after a crash, and also if it was asked for
    /// before and comes later. The caller waits for the disk.
    pub fn purge(&self, purge: &Purge, kind: PurgeKind) -> Result<u64, Error> {
        self.shared.runtime.block_on(self.shared.purge(purge, kind))
    }

    /// The same, one purge after the other, without waiting: `done` is called from the tier's
    /// thread with the numbers of all, or with the first error. Those behind an error are carried
    /// out, too.
    pub fn purge_all(
        &self,
        purges: Vec<Purge>,
        kind: PurgeKind,
        done: impl FnOnce(Result<Vec<u64>, Error>) + Send + 'static,
    ) {
        let shared = Arc::clone(&self.shared);
        self.shared.runtime.spawn(async move {
            let (mut counts, mut failed) = (Vec::new(), None);
            for purge in &purges {
                match shared.purge(purge, kind).await {
                    Ok(count) => counts.push(count),
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            done(failed.map_or(Ok(counts), Err));
        });
    }

    /// A number that grows when objects that loops hold may have become invalid before they are
    /// stale.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.shared.generation.load(Ordering::Acquire)
    }

    /// Counts requests for a mount that a loop answered with what it held, and the bytes of bodies
    /// in memory that it sent, held or not.
    pub fn count_held_hits(&self, mount: usize, requests: u64, bytes: u64) {
        if let Some(mount) = self.shared.mount(mount) {
            Counters::add(&mount.counters.held_hits, requests);
            Counters::add(&mount.counters.served_bytes, bytes);
        }
    }

    /// Notes that a loop goes on answering requests with objects that it holds, so that the store
    /// keeps them, too.
    pub fn touch(&self, objects: &[Key]) {
        objects.iter().for_each(|key| self.shared.store.cache().touch(*key, Part::HEAD));
    }

    /// The counts since the start, of all mounts.
    pub fn counts(&self) -> Counts {
        self.counts_and_mounts().0
    }

    /// The counts since the start: of all mounts, and of each mount that there ever was, by its
    /// name. Those of the store, and of purges by an operator, are no mount's.
    pub fn counts_and_mounts(&self) -> (Counts, Vec<(Box<str>, Counts)>) {
        let mounts = self.shared.mounts.read().unwrap_or_else(PoisonError::into_inner);
        let mut counts: Vec<(Box<str>, Counts)> = Vec::new();
        for mount in mounts.iter() {
            if counts.iter().all(|(name, _)| *name != mount.name) {
                counts.push((mount.name.clone(), mount.counters.read()));
            }
        }
        // Of the same readings: requests go on meanwhile.
        let mut sum = self.shared.counters.read();
        counts.iter().for_each(|(_, of_mount)| sum.add(of_mount));
        (sum, counts)
    }

    /// The store.
    pub fn cache(&self) -> &Arc<Cache> {
        self.shared.store.cache()
    }

    /// Ends all fetches, and makes a checkpoint of the store, with which the next start is quick.
    pub fn end(mut self) -> Result<(), Error> {
        self.stop();
        self.shared.store.cache().checkpoint()
    }

    fn stop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(2));
        }
    }
}

impl Drop for Tier {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Takes entries out of the tables that nothing is going on for any more.
async fn upkeep(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(UPKEEP_TIME).await;
        shared.entries.forget_old();
        shared.bodies.forget_old();
        shared.sets.forget_old();
    }
}
