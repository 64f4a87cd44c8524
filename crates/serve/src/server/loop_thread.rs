//! The thread of one loop: its CPU, its table of descriptors, its driver, and the service that it
//! runs.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::{io, thread};

use thalweg_sys::driver::Listen;
use thalweg_sys::handover::Channel;
use thalweg_sys::resource_limits::own_table_with;
use thalweg_sys::{AnyDriver, Driver, DriverConfig, DriverKind, affinity, clock};

use super::commands::{CommandQueue, take_listener};
use super::control::Control;
use super::failure::StartError;
use super::loop_tls::TlsSetup;
use super::service::{Service, Setup};
use crate::catalog::site::Sites;
use crate::config::ServerConfig;
use crate::content::blocking_pool::BlockingPool;
use crate::content::local::watch::Subscription;
use crate::content::tier::{CacheTier, Inbox};
use crate::http::challenges::HttpChallenges;
use crate::shaping::admission::WITHOUT_SLOT_MAX;
use crate::shaping::shaper::SharedRateLimits;
use crate::telemetry::accounting::Accounting;
use crate::telemetry::counters::Published;
use crate::telemetry::log::{ErrorLog, RecordQueue};
use crate::telemetry::registry::Registry;

/// Requests are small, and a connection that sends more is read in several steps. All buffers
/// together should stay in a CPU's own cache, because the kernel goes round them.
const RECEIVE_BUFFER_BYTES: usize = 8 << 10;
const RECEIVE_BUFFERS: u16 = 64;

/// Threads of a loop's blocking pool. More of them make a rotating disk seek more.
const BLOCKING_THREADS_MAX: usize = 4;

/// The parts of a server that all its loops share.
pub(super) struct SharedParts {
    pub(super) config: Arc<ServerConfig>,
    pub(super) tls: Option<TlsSetup>,
    /// The groups whose listeners begin with a PROXY header.
    pub(super) proxied_groups: Vec<u32>,
    /// The cache tier, if origins answer for any mount.
    pub(super) tier: Option<Arc<dyn CacheTier>>,
    /// All CPUs that this process may use, for threads that do not belong to a loop.
    pub(super) cpus: Vec<usize>,
    /// Most connections of one loop.
    pub(super) connections_max: usize,
    pub(super) commands: Arc<[CommandQueue]>,
    pub(super) control: Control,
    pub(super) challenges: Arc<HttpChallenges>,
    pub(super) rate_limits: Arc<SharedRateLimits>,
    pub(super) published: Arc<[Published]>,
    pub(super) error_log: ErrorLog,
    pub(super) registry: Arc<Registry>,
}

/// The thread of a loop, before it runs.
pub(super) struct LoopThread {
    pub(super) shared: Arc<SharedParts>,
    pub(super) loop_index: usize,
    pub(super) cpu: usize,
    /// The groups of the listeners.
    pub(super) groups: Vec<u32>,
    /// The listeners, unless they come by the channel.
    pub(super) listeners: Vec<(u32, OwnedFd)>,
    /// The channel to the listeners, if the thread gets a table of descriptors of its own.
    pub(super) table: Option<Channel>,
    pub(super) record_queue: Option<RecordQueue>,
    pub(super) subscription: Option<Subscription>,
}

impl LoopThread {
    pub(super) fn run(mut self, started: SyncSender<Result<DriverKind, StartError>>) -> io::Result<()> {
        let _guard = StopOnPanic(self.shared.control.clone());
        let opened = affinity::pin_to(&[self.cpu])
            .map_err(|error| StartError::Pin { cpu: self.cpu, error })
            .and_then(|()| self.leave_table().map_err(StartError::Loop))
            .and_then(|()| self.open_driver().map_err(StartError::Driver));
        let driver = match opened {
            Ok(driver) => driver,
            Err(error) => {
                // The thread that starts the server may have failed already, because of another
                // loop.
                let _ = started.send(Err(error));
                return Ok(());
            }
        };
        match driver {
            AnyDriver::Uring(driver) => self.run_over(driver, started),
            AnyDriver::Epoll(driver) => self.run_over(driver, started),
        }
    }

    /// Takes a table of descriptors of its own, if that is the layout: with the wakers of all
    /// loops, with its subscription, and with listeners that are in no other loop's table, so that
    /// they are closed when this loop closes them.
    fn leave_table(&mut self) -> io::Result<()> {
        let Some(channel) = &self.table else { return Ok(()) };
        let wakers = self.shared.control.wakers.iter().map(AsFd::as_fd);
        let subscription = self.subscription.as_ref().map(AsFd::as_fd);
        // Bodies of the cache tier are sent from its volumes.
        let volumes = self.shared.tier.iter().flat_map(|tier| tier.descriptors());
        own_table_with(&wakers.chain([channel.as_fd()]).chain(subscription).chain(volumes).collect::<Vec<_>>())?;
        for &group in &self.groups {
            let socket = take_listener(channel).ok_or_else(|| io::Error::other("a listener was lost"))?;
            self.listeners.push((group, socket));
        }
        Ok(())
    }

    /// The number of connection slots, of all loops together. Where one table of descriptors sets
    /// it, a part of the table is left to connections that wait for a slot.
    fn slots_max(&self) -> usize {
        match self.shared.config.limits.connections_max {
            0 => {
                let without_slot =
                    (WITHOUT_SLOT_MAX * self.shared.published.len()).min(self.shared.connections_max / 4);
                (self.shared.connections_max - without_slot).max(1)
            }
            connections_max => connections_max,
        }
    }

    fn open_driver(&self) -> io::Result<AnyDriver> {
        let sockets_max = self.shared.connections_max + WITHOUT_SLOT_MAX + self.listeners.len();
        let config = DriverConfig {
            receive_buffer_bytes: RECEIVE_BUFFER_BYTES,
            receive_buffers: RECEIVE_BUFFERS,
            ..DriverConfig::new(sockets_max, self.shared.control.wakers[self.loop_index].clone())
        };
        AnyDriver::open(self.shared.config.driver, &config)
    }

    fn run_over<D: Driver>(
        mut self,
        mut driver: D,
        started: SyncSender<Result<DriverKind, StartError>>,
    ) -> io::Result<()> {
        let sites = match Sites::open(&self.shared.config) {
            Ok(sites) => sites,
            Err(error) => {
                let _ = started.send(Err(error.into()));
                return Ok(());
            }
        };
        let shared = &*self.shared;
        let waker = shared.control.wakers[self.loop_index].clone();
        let accounting = self.record_queue.take().map(|queue| {
            let registry = Arc::clone(&shared.registry);
            let mut accounting = Accounting::new(self.loop_index, queue, registry, &shared.config);
            accounting.clients().trust(sites.proxies.clone());
            accounting
        });
        let setup = Setup {
            shared_limits: Arc::clone(&shared.rate_limits),
            sites,
            limits: &shared.config.limits,
            tls: shared.tls.clone().zip(shared.config.tls.as_ref()),
            proxied_groups: shared.proxied_groups.clone(),
            client_field: shared.config.client_field,
            slots_max: self.slots_max(),
            cache: &shared.config.cache,
            blocking: BlockingPool::new(waker, BLOCKING_THREADS_MAX, shared.cpus.clone()),
            tier: shared.tier.clone(),
            inbox: Inbox::new(Some(shared.control.wakers[self.loop_index].clone())),
            challenges: Arc::clone(&shared.challenges),
            seconds_at: |_| clock::unix_seconds(),
            accounting,
            error_log: Some(shared.error_log.clone()),
            shutdown: Arc::clone(&shared.control.shutdown),
            commands: Arc::clone(&shared.commands),
            subscription: self.subscription.take(),
            channel: self.table.take(),
            published: Arc::clone(&shared.published),
            loop_index: self.loop_index,
        };
        let mut service = Service::new(setup, driver.now());
        for (group, listener) in std::mem::take(&mut self.listeners) {
            match driver.listen(Listen::Socket(listener)) {
                Ok(listener) => service.add_listener(group, listener),
                Err(error) => {
                    let _ = started.send(Err(StartError::Loop(error)));
                    return Ok(());
                }
            }
        }
        let _ = started.send(Ok(driver.kind()));
        drop(started);
        thalweg_reactor::run(&mut driver, &mut service).inspect_err(|_| self.shared.control.end())
    }
}

/// A loop that fails takes the others along: half a server would look like a whole one.
struct StopOnPanic(Control);

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.end();
        }
    }
}
