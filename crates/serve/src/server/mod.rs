//! Starting the loops of a server, one thread per loop, and what can be done with them from outside.

mod change;
pub(crate) mod commands;
pub(crate) mod connection;
mod control;
mod failure;
mod layout;
pub(crate) mod listeners;
mod liveness;
pub(crate) mod service;
pub(crate) mod shutdown;
mod task;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use thalweg_sys::handover::Channel;
use thalweg_sys::socket::SocketFile;
use thalweg_sys::{DriverKind, Instant, Waker, affinity, clock};

use crate::catalog::site::Sites;
use crate::config::{Level, ListenAddr, ServerConfig};
use crate::content::local::watch::{Outlets, Watcher};
use crate::server::commands::{CommandQueue, LoopCommand, send_listener};
use crate::server::layout::Layout;
use crate::server::listeners::Listeners;
use crate::server::shutdown::ShutdownDeadline;
use crate::shaping::shaper::SharedRateLimits;
use crate::telemetry::counters::{Published, Totals};
use crate::telemetry::log::{ErrorLog, Logs};
use crate::telemetry::metrics::{Collector, KnownHosts, Sources, StatusListener};
use crate::telemetry::registry::Registry;

pub use self::control::Control;
pub use self::failure::{RunError, StartError};
pub use self::liveness::LivenessCheck;
use self::task::Task;

/// How long a loop may take to answer an order. It takes one turn, unless the machine stands still.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// How often it is looked whether a loop has ended instead of answering.
const ANSWER_GLANCE: Duration = Duration::from_millis(10);

/// The download server.
#[derive(Debug)]
pub struct Server;

/// A server that runs. Dropping it stops it without waiting.
#[derive(Debug)]
pub struct Running {
    addresses: Vec<ListenAddr>,
    driver: DriverKind,
    /// How many CPUs the loops run on.
    cpus: usize,
    control: Control,
    commands: Arc<[CommandQueue]>,
    /// To loops with tables of descriptors of their own.
    channels: Vec<Channel>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    published: Arc<[Published]>,
    status: Option<StatusListener>,
    /// Tells the loops of changes, until this is dropped.
    watcher: Option<Watcher>,
    logs: Logs,
    registry: Arc<Registry>,
    /// What it runs by.
    config: Arc<ServerConfig>,
    started_second: i64,
}

impl Server {
    /// Starts to serve: probes the addresses, opens the folder, and runs one loop per CPU. When this returns, connections
    /// are accepted.
    ///
    /// # Errors
    /// What the configuration asks for cannot be had. Nothing is left running then.
    pub fn start(config: ServerConfig) -> Result<Running, StartError> {
        ensure_servable(&config)?;
        let listeners = Listeners::open(&config.listen, SocketFile::default(), Vec::new(), loop_count(&config)?)?;
        Self::start_on(config, listeners)
    }

    /// The same, on sockets that listen already.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn start_on(config: ServerConfig, mut listeners: Listeners) -> Result<Running, StartError> {
        ensure_servable(&config)?;
        let cpus = affinity::allowed_cpus().map_err(StartError::Loop)?;
        let Layout { cpus: cpu_of_loop, own_tables, connections_max } = Layout::of(&config, &cpus_of(&config)?);
        let loops = cpu_of_loop.len();
        let mut shares = listeners.shares(loops).map_err(StartError::Loop)?;
        let addresses = listeners.addresses();
        let status_socket =
            config.status.as_ref().map(|status| listeners.blocking(&status.listen.into())).transpose()?;
        listeners.close_spare();
        let wakers =
            cpu_of_loop.iter().map(|_| Waker::new()).collect::<io::Result<Vec<_>>>().map_err(StartError::Loop)?;
        let registry = Arc::new(Registry::new(loops, config.status.is_some()));
        registry.adopt(&config);
        let logs = Logs::start(&config.log, loops, Arc::clone(&registry))?;
        let control = Control {
            shutdown: Arc::new(ShutdownDeadline::new()),
            logs: logs.control(),
            wakers: wakers.into(),
            listeners: Arc::new(Mutex::new(listeners)),
        };
        let commands: Arc<[CommandQueue]> = cpu_of_loop.iter().map(|_| CommandQueue::default()).collect();
        let published: Arc<[Published]> = cpu_of_loop.iter().map(|_| Published::default()).collect();
        let driver = DriverKind::Epoll;
        let shared_limits = Arc::new(SharedRateLimits::of(&config, Instant::now()));
        let config = Arc::new(config);
        let (channels, threads) = (Vec::new(), Vec::new());
        let outlets = outlets_of_watcher(&commands, &control.wakers, &registry, logs.error_log());
        let watcher = Watcher::start(config.cache.watch, outlets);
        let mut running = Running {
            addresses,
            driver,
            cpus: cpu_of_loop.chunk_by(|one, other| one == other).count(),
            control,
            commands,
            channels,
            threads,
            published,
            status: None,
            watcher,
            logs,
            registry,
            config,
            started_second: unix_second(),
        };
        let config = Arc::clone(&running.config);
        running.status = running.show_status(&config, status_socket)?;
        let (started, starts) = mpsc::sync_channel(loops);
        for (loop_index, &cpu) in cpu_of_loop.iter().enumerate() {
            let listeners = shares.pop().unwrap_or_default();
            let table =
                if own_tables { Some(running.open_channel(&listeners).map_err(StartError::Loop)?) } else { None };
            let task = Task {
                config: Arc::clone(&config),
                loop_index,
                cpu,
                cpus: cpus.clone(),
                connections_max,
                groups: listeners.iter().map(|(group, _)| *group).collect(),
                listeners: if own_tables { Vec::new() } else { listeners },
                table,
                commands: Arc::clone(&running.commands),
                control: running.control.clone(),
                shared_limits: Arc::clone(&shared_limits),
                published: Arc::clone(&running.published),
                record_queue: has_accounting(&config).then(|| running.logs.record_queue()),
                error_log: running.logs.error_log().clone(),
                registry: Arc::clone(&running.registry),
                subscription: running.watcher.as_ref().map(|watcher| watcher.subscription(loop_index)),
            };
            let started = started.clone();
            let builder = thread::Builder::new().name(format!("serve-{cpu}"));
            let thread = builder.spawn(move || task.run(started)).map_err(StartError::Loop)?;
            running.threads.push(thread);
        }
        drop(started);
        // Ends when each thread has reported, or has gone without a report.
        let reports: Vec<_> = starts.into_iter().collect();
        let complete = reports.len() == loops;
        let kinds: Result<Vec<_>, _> = reports.into_iter().collect();
        let panicked = || StartError::Loop(io::Error::other("a loop has panicked"));
        match kinds.and_then(|kinds| kinds.last().copied().filter(|_| complete).ok_or_else(panicked)) {
            Ok(kind) => running.driver = kind,
            Err(error) => {
                running.stop();
                // What went wrong is known already.
                let _ = running.join();
                return Err(error);
            }
        }
        running.error_log().say(Level::Notice, format_args!("started on {} loops", running.cpus()));
        Ok(running)
    }
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

/// Whether anybody wants to know about single responses.
fn has_accounting(config: &ServerConfig) -> bool {
    config.log.access.is_some() || config.status.is_some()
}

fn unix_second() -> i64 {
    i64::try_from(clock::unix_seconds()).unwrap_or(i64::MAX)
}

/// What is wrong with a configuration is better known now than by each loop.
fn ensure_servable(config: &ServerConfig) -> Result<(), StartError> {
    if let Some(fault) = config.check().into_iter().next() {
        return Err(StartError::Config(fault));
    }
    Ok(Sites::open(config).map(drop)?)
}

/// The CPUs to run on.
fn cpus_of(config: &ServerConfig) -> Result<Vec<usize>, StartError> {
    if config.cpus.is_empty() { affinity::allowed_cpus().map_err(StartError::Loop) } else { Ok(config.cpus.clone()) }
}

/// The number of loops that a server of this configuration runs with the present limit of descriptors: it listens best on as many
/// sockets for each address.
///
/// # Errors
/// The kernel does not tell which CPUs this process may use.
pub fn loop_count(config: &ServerConfig) -> Result<usize, StartError> {
    Ok(Layout::of(config, &cpus_of(config)?).cpus.len())
}

impl Running {
    /// A channel to a loop with a table of its own, by which it gets its listeners. The loop's end.
    fn open_channel(&mut self, listeners: &[(u32, OwnedFd)]) -> io::Result<Channel> {
        let (ours, its) = Channel::pair()?;
        for (_, socket) in listeners {
            send_listener(&ours, socket)?;
        }
        self.channels.push(ours);
        Ok(its)
    }

    /// Where it listens, in the order of the configuration, with the ports that the kernel chose.
    pub fn addresses(&self) -> &[ListenAddr] {
        &self.addresses
    }

    /// Which driver the loops use.
    pub fn driver(&self) -> DriverKind {
        self.driver
    }

    /// How many CPUs its loops run on. One CPU may have several loops.
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// How many loops it has.
    pub fn loops(&self) -> usize {
        self.published.len()
    }

    /// What all loops have done so far, a wake-up of each behind at most.
    pub fn totals(&self) -> Totals {
        let mut sum = Totals::default();
        for published in self.published.iter() {
            sum.add(&published.totals());
        }
        sum
    }

    /// Whether a loop has ended, by being stopped or by a failure that [`join`](Self::join) tells of.
    pub fn has_ended(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Whether all loops have ended.
    pub fn is_over(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Shows the status at this socket, if it is to be shown.
    fn show_status(
        &self,
        config: &ServerConfig,
        socket: Option<OwnedFd>,
    ) -> Result<Option<StatusListener>, StartError> {
        let (Some(status), Some(socket)) = (&config.status, socket) else { return Ok(None) };
        let shutdown = Arc::clone(&self.control.shutdown);
        let sources = Sources {
            registry: Arc::clone(&self.registry),
            published: Arc::clone(&self.published),
            is_draining: Box::new(move || shutdown.is_set()),
            error_log: self.error_log().clone(),
            started_second: self.started_second,
        };
        let collector = Collector::new(sources, status.state.clone(), unix_second());
        let hosts = KnownHosts::of(&status.allowed_hosts);
        StatusListener::start(socket.into(), hosts, collector).map(Some).map_err(StartError::Loop)
    }

    /// Asks each loop whether it goes round.
    pub fn check_liveness(&self) -> LivenessCheck {
        LivenessCheck::begin(&self.commands, &self.control.wakers)
    }

    /// Gives `look` the sockets that it listens on.
    pub fn with_listeners<T>(&self, look: impl FnOnce(&Listeners) -> T) -> T {
        look(&self.control.listeners())
    }

    /// See [`Control::hand_over`]. When this returns, no loop waits for connections any more, and the other process is to be told, so that
    /// it can [look again](Self::look_again).
    pub fn hand_over(&mut self, time: Option<Duration>) {
        // The figures are shown, and kept over restarts, by the process that serves.
        drop(self.status.take());
        self.control.hand_over(time);
        // An answer follows the turn in which accepting was stopped; at the one after that the kernel has been told.
        for _ in 0..2 {
            let mut check = self.check_liveness();
            let begun = Instant::now();
            while check.missing_after(ANSWER_GLANCE) > self.threads.iter().filter(|thread| thread.is_finished()).count()
                && Instant::now().ns_since(begun) < ANSWER_TIME.as_nanos() as u64
            {}
        }
    }

    /// Looks at the queues of all listeners, as if somebody had come in just now. The kernel tells one of those who wait at a socket of a
    /// connection, and not another one when that one has stopped waiting meanwhile: to be called when another process has.
    pub fn look_again(&self) {
        // It has left its figures, too.
        if let Some(status) = &self.status {
            status.reload_history();
        }
        for (command_queue, waker) in self.commands.iter().zip(self.control.wakers.iter()) {
            command_queue.leave([LoopCommand::LookAgain], waker);
        }
    }

    /// Where the server says what its operator should know.
    pub fn error_log(&self) -> &ErrorLog {
        self.logs.error_log()
    }

    /// Where the status is shown, if it is.
    pub fn status_address(&self) -> Option<SocketAddr> {
        self.status.as_ref().map(StatusListener::address)
    }

    /// A handle to stop it with, for signal handlers and other threads.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// See [`Control::drain`].
    pub fn drain(&self, time: Duration) {
        self.control.drain(time);
    }

    /// See [`Control::stop`].
    pub fn stop(&self) {
        self.control.stop();
    }

    /// Waits until all loops have ended, after [`drain`](Self::drain) or [`stop`](Self::stop) or a failure. What they have
    /// done in all.
    ///
    /// # Errors
    /// A loop has failed. All others were stopped then.
    pub fn join(mut self) -> Result<Totals, RunError> {
        let mut result = Ok(());
        for thread in self.threads.drain(..) {
            let ended = match thread.join() {
                Ok(ended) => ended.map_err(RunError::Driver),
                Err(panic) => Err(RunError::Panicked(message_of(&*panic))),
            };
            result = result.and(ended);
        }
        match &result {
            Ok(()) => self.error_log().say(Level::Notice, "stopped"),
            Err(error) => self.error_log().say(Level::Error, error),
        }
        if let Some(status) = &mut self.status {
            status.stop();
        }
        self.logs.stop();
        result.map(|()| self.totals())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.control.stop();
    }
}

fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
