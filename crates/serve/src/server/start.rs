//! Starting a server: its sockets, its logs, its status listener, and one thread per loop.

use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::{fs, io, thread};

use thalweg_sys::socket::SocketFile;
use thalweg_sys::{DriverKind, Instant, Waker, affinity};

use super::commands::CommandQueue;
use super::control::Control;
use super::failure::StartError;
use super::layout::Layout;
use super::listeners::{Listeners, LoopGroup, Shares};
use super::loop_thread::{LoopThread, SharedParts};
use super::running::{Running, ensure_servable, ensure_tier, unix_second};
use super::shutdown::ShutdownDeadline;
use super::tls::ServerTls;
use crate::config::{Level, ServerConfig};
use crate::content::local::watch::{Outlets, Watcher};
use crate::content::tier::CacheTier;
use crate::shaping::shaper::SharedRateLimits;
use crate::telemetry::accounting;
use crate::telemetry::counters::Published;
use crate::telemetry::log::{ErrorLog, Logs};
use crate::telemetry::registry::Registry;

/// The download server.
#[derive(Debug)]
pub struct Server;

impl Server {
    /// Starts a server: probes the addresses, opens the folders, and runs one loop per CPU, or
    /// several where the limit of descriptors requires it. When this returns, connections are
    /// accepted.
    ///
    /// # Errors
    /// Something that the configuration requires is not available. Nothing is left running then.
    pub fn start(config: ServerConfig) -> Result<Running, StartError> {
        ensure_servable(&config)?;
        let listeners = Listeners::open(&config.listen, SocketFile::default(), Vec::new(), loop_count(&config)?)?;
        Self::start_on(config, listeners)
    }

    /// Starts a server on sockets that listen already.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn start_on(config: ServerConfig, listeners: Listeners) -> Result<Running, StartError> {
        let tls = ServerTls::open(&config, None, &|path| fs::read(path))?;
        Self::start_with(config, listeners, tls, None)
    }

    /// Starts a server on sockets that listen already, with the TLS of the configuration and the
    /// cache tier in front of its origins, which were opened before.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn start_with(
        config: ServerConfig,
        mut listeners: Listeners,
        tls: Option<ServerTls>,
        tier: Option<Arc<dyn CacheTier>>,
    ) -> Result<Running, StartError> {
        ensure_servable(&config)?;
        ensure_tier(&config, tier.as_ref())?;
        let layout = Layout::of(&config, &cpus_of(&config)?);
        let loops = layout.cpus.len();
        let shares = listeners.shares(loops).map_err(StartError::Loop)?;
        let addresses = listeners.addresses();
        let status_sockets =
            config.status.as_ref().map(|status| listeners.open_status(&status.listen.into())).transpose()?;
        listeners.close_spare();
        let wakers = (0..loops).map(|_| Waker::new()).collect::<io::Result<Vec<_>>>().map_err(StartError::Loop)?;
        let registry = Arc::new(Registry::new(loops, config.status.is_some()));
        registry.adopt(&config);
        registry.set_tier(tier.clone());
        let logs = Logs::start(&config.log, loops, Arc::clone(&registry))?;
        let control = Control {
            shutdown: Arc::new(ShutdownDeadline::new()),
            logs: logs.control(),
            wakers: wakers.into(),
            listeners: Arc::new(Mutex::new(listeners)),
        };
        let commands: Arc<[CommandQueue]> = (0..loops).map(|_| CommandQueue::default()).collect();
        let outlets = outlets_of_watcher(&commands, &control.wakers, &registry, logs.error_log());
        let watcher = Watcher::start(config.cache.watch, outlets);
        let config = Arc::new(config);
        let mut running = Running {
            addresses,
            driver: DriverKind::Epoll,
            cpus: layout.cpus.chunk_by(|one, other| one == other).count(),
            control,
            commands,
            channels: Vec::new(),
            threads: Vec::new(),
            published: (0..loops).map(|_| Published::default()).collect(),
            status: None,
            watcher,
            logs,
            registry,
            config: Arc::clone(&config),
            tls,
            tier,
            challenges: Arc::default(),
            started_second: unix_second(),
        };
        if let (Some(status), Some(sockets)) = (&config.status, status_sockets) {
            running.status = Some(running.start_status(status, sockets)?);
        }
        if let Err(error) = start_loops(&mut running, &layout, shares) {
            running.stop();
            // The reason is known already.
            let _ = running.join();
            return Err(error);
        }
        running.error_log().say(Level::Notice, format_args!("started on {} CPUs", running.cpus()));
        Ok(running)
    }
}

/// The number of loops that a server of this configuration runs with the present limit of
/// descriptors: it listens best on as many sockets for each address.
///
/// # Errors
/// The kernel does not report the CPUs that this process may use.
pub fn loop_count(config: &ServerConfig) -> Result<usize, StartError> {
    Ok(Layout::of(config, &cpus_of(config)?).cpus.len())
}

/// The CPUs to run on.
fn cpus_of(config: &ServerConfig) -> Result<Vec<usize>, StartError> {
    if config.cpus.is_empty() { affinity::allowed_cpus().map_err(StartError::Loop) } else { Ok(config.cpus.clone()) }
}

/// The outlets of the watcher: notices become loop commands, and errors messages to the operator.
fn outlets_of_watcher(
    commands: &Arc<[CommandQueue]>,
    wakers: &Arc<[Waker]>,
    registry: &Registry,
    error_log: &ErrorLog,
) -> Outlets {
    let (commands, wakers, error_log) = (Arc::clone(commands), Arc::clone(wakers), error_log.clone());
    Outlets {
        loops: commands.len(),
        deliver: Box::new(move |loop_index, notices| commands[loop_index].notify(notices, &wakers[loop_index])),
        report: Box::new(move |message| error_log.say(Level::Warning, message)),
        counts: Arc::clone(&registry.watch),
    }
}

/// Starts the threads and waits until each accepts connections.
fn start_loops(running: &mut Running, layout: &Layout, mut shares: Shares) -> Result<(), StartError> {
    let groups = running.control.listeners().groups_of_loops();
    let tls = running.tls.as_ref().zip(running.config.tls.as_ref());
    let tls = tls.map(|(tls, config)| tls.setup(config, &groups));
    let shared = Arc::new(SharedParts {
        config: Arc::clone(&running.config),
        tls,
        proxied_groups: LoopGroup::proxied(&groups, &running.config),
        tier: running.tier.clone(),
        cpus: affinity::allowed_cpus().map_err(StartError::Loop)?,
        connections_max: layout.connections_max,
        commands: Arc::clone(&running.commands),
        control: running.control.clone(),
        challenges: Arc::clone(&running.challenges),
        rate_limits: Arc::new(SharedRateLimits::of(&running.config, Instant::now())),
        published: Arc::clone(&running.published),
        error_log: running.logs.error_log().clone(),
        registry: Arc::clone(&running.registry),
    });
    let (started, starts) = mpsc::sync_channel(layout.cpus.len());
    for (loop_index, &cpu) in layout.cpus.iter().enumerate() {
        let listeners: Vec<(u32, OwnedFd)> = shares.pop().unwrap_or_default();
        let groups = listeners.iter().map(|(group, _)| *group).collect();
        let (table, listeners) = if layout.own_tables {
            (Some(running.open_channel(&listeners).map_err(StartError::Loop)?), Vec::new())
        } else {
            (None, listeners)
        };
        let thread = LoopThread {
            shared: Arc::clone(&shared),
            loop_index,
            cpu,
            groups,
            listeners,
            table,
            record_queue: accounting::is_wanted(&running.config).then(|| running.logs.record_queue()),
            subscription: running.watcher.as_ref().map(|watcher| watcher.subscription(loop_index)),
        };
        let started = started.clone();
        let builder = thread::Builder::new().name(format!("serve-{cpu}"));
        running.threads.push(builder.spawn(move || thread.run(started)).map_err(StartError::Loop)?);
    }
    drop(started);
    // Ends when each thread has reported, or has gone without a report.
    let reports: Vec<_> = starts.into_iter().collect();
    let is_complete = reports.len() == layout.cpus.len();
    let kinds: Result<Vec<_>, _> = reports.into_iter().collect();
    let panicked = || StartError::Loop(io::Error::other("a loop has panicked"));
    running.driver = kinds.and_then(|kinds| kinds.last().copied().filter(|_| is_complete).ok_or_else(panicked))?;
    Ok(())
}
