//! Starting the loops of a server, one thread per core, and what can be done with them from outside.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use thalweg_sys::driver::Listen;
use thalweg_sys::handover::Channel;
use thalweg_sys::limits::own_table_with;
use thalweg_sys::{AnyDriver, Driver, DriverConfig, DriverKind, Instant, Waker, affinity, clock};

use crate::aside::Aside;
use crate::books::Books;
use crate::check::ConfigFault;
use crate::config::{Level, ListenAddr, ServerConfig};
use crate::counters::{Published, Totals};
use crate::layout::Layout;
use crate::limit::pacer::SharedLimits;
use crate::listeners::{Change, Files, Listeners, Shares};
use crate::log::{ErrorLog, Feed, LogControl, Logs, OpenError, Opened};
use crate::metrics::{Board, Observed, Sources, StatusListener};
use crate::orders::{Inbox, Order, Settlement, send_listener, take_listener};
use crate::service::{Curfew, Service, Setup, TURNED_AWAY_MAX};
use crate::site::Sites;

/// Requests are small, and a connection that sends more is read in several turns. All buffers together should stay in a
/// core's own cache, because the kernel goes round them.
const RECEIVE_BUFFER_BYTES: usize = 8 << 10;
const RECEIVE_BUFFERS: u16 = 64;

/// Threads of a core that wait for disks in its place. More of them make a disk that turns seek more.
const ASIDE_THREADS_MAX: usize = 4;
/// Longer than any download takes, and short enough for all clocks.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// How long a core may take to answer an order. It takes one turn, unless the machine stands still.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// How often it is looked whether a core has ended instead of answering.
const ANSWER_GLANCE: Duration = Duration::from_millis(10);

/// The download server.
#[derive(Debug)]
pub struct Server;

/// A server that runs. Dropping it stops it without waiting.
#[derive(Debug)]
pub struct Running {
    addresses: Vec<ListenAddr>,
    driver: DriverKind,
    cores: usize,
    control: Control,
    orders: Arc<[Inbox]>,
    /// To loops with tables of descriptors of their own.
    channels: Vec<Channel>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    published: Arc<[Published]>,
    status: Option<StatusListener>,
    logs: Logs,
    observed: Arc<Observed>,
    /// What it runs by.
    config: Arc<ServerConfig>,
    started_second: i64,
}

/// Stops a server and has it reopen its logs, from any thread.
#[derive(Clone, Debug)]
pub struct Control {
    curfew: Arc<Curfew>,
    logs: LogControl,
    wakers: Arc<[Waker]>,
    listeners: Arc<Mutex<Listeners>>,
}

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is nothing to listen on.
    #[error("no address to listen on")]
    NoAddress,
    /// The configuration contradicts itself.
    #[error("{0}")]
    Config(ConfigFault),
    /// The folder cannot be served.
    #[error("cannot open the folder {}: {error}", path.display())]
    Root {
        /// The folder.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A rule's pattern for names of files cannot be understood.
    #[error("in the pattern of a rule: {0}")]
    Pattern(globset::Error),
    /// A field that settings add cannot be written.
    #[error("a header of a rule: {0}")]
    Header(thalweg_wire::encode::EncodeError),
    /// A log cannot be written.
    #[error("cannot open the log {}: {error}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// An address cannot be had.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: ListenAddr,
        /// Why.
        error: io::Error,
    },
    /// A thread cannot run on the CPU that it was meant for.
    #[error("cannot run on CPU {cpu}: {error}")]
    Pin {
        /// The CPU.
        cpu: usize,
        /// Why.
        error: io::Error,
    },
    /// The driver was refused by the kernel.
    #[error("cannot open the I/O driver: {0}")]
    Driver(io::Error),
    /// The process or host has no thread or descriptor left.
    #[error("cannot start a loop: {0}")]
    Loop(io::Error),
}

impl From<OpenError> for StartError {
    fn from(OpenError { path, error }: OpenError) -> Self {
        Self::Log { path, error }
    }
}

/// Why a server ended that nobody has stopped.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The driver of a core has become unusable.
    #[error("the I/O driver failed: {0}")]
    Driver(#[from] io::Error),
    /// A core has met a broken invariant.
    #[error("a core has panicked: {0}")]
    Panicked(String),
}

impl Server {
    /// Starts to serve: probes the addresses, opens the folder, and runs one loop per core. When this returns, connections
    /// are accepted.
    ///
    /// # Errors
    /// What the configuration asks for cannot be had. Nothing is left running then.
    pub fn start(config: ServerConfig) -> Result<Running, StartError> {
        ensure_servable(&config)?;
        let listeners = Listeners::open(&config.listen, Vec::new(), core_count(&config)?)?;
        Self::start_on(config, listeners)
    }

    /// The same, on sockets that listen already.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn start_on(config: ServerConfig, mut listeners: Listeners) -> Result<Running, StartError> {
        ensure_servable(&config)?;
        let cpus = affinity::allowed_cpus().map_err(StartError::Loop)?;
        let Layout { cpus: cores, own_tables, connections_max } = Layout::of(&config, &cores_of(&config)?);
        let core_count = cores.chunk_by(|one, other| one == other).count();
        let mut shares = listeners.shares(cores.len()).map_err(StartError::Loop)?;
        let addresses = listeners.addresses();
        let status_socket = config.status.as_ref().map(|status| listeners.aside(&status.listen.into())).transpose()?;
        listeners.close_spare();
        let wakers = cores.iter().map(|_| Waker::new()).collect::<io::Result<Vec<_>>>().map_err(StartError::Loop)?;
        let observed = Arc::new(Observed::new(cores.len(), config.status.is_some()));
        observed.adopt(&config);
        let logs = Logs::start(&config.log, cores.len(), Arc::clone(&observed))?;
        let control = Control {
            curfew: Arc::new(Curfew::new()),
            logs: logs.control(),
            wakers: wakers.into(),
            listeners: Arc::new(Mutex::new(listeners)),
        };
        let orders: Arc<[Inbox]> = cores.iter().map(|_| Inbox::default()).collect();
        let published: Arc<[Published]> = cores.iter().map(|_| Published::default()).collect();
        let driver = DriverKind::Epoll;
        let shared_limits = Arc::new(SharedLimits::of(&config, Instant::now()));
        let config = Arc::new(config);
        let (channels, threads) = (Vec::new(), Vec::new());
        let mut running = Running {
            addresses,
            driver,
            cores: core_count,
            control,
            orders,
            channels,
            threads,
            published,
            status: None,
            logs,
            observed,
            config,
            started_second: unix_second(),
        };
        let config = Arc::clone(&running.config);
        running.status = running.show_status(&config, status_socket)?;
        let (started, starts) = mpsc::sync_channel(cores.len());
        for (core, &cpu) in cores.iter().enumerate() {
            let listeners = shares.pop().unwrap_or_default();
            let table =
                if own_tables { Some(running.open_channel(&listeners).map_err(StartError::Loop)?) } else { None };
            let task = Task {
                config: Arc::clone(&config),
                core,
                cpu,
                cpus: cpus.clone(),
                connections_max,
                groups: listeners.iter().map(|(group, _)| *group).collect(),
                listeners: if own_tables { Vec::new() } else { listeners },
                table,
                orders: Arc::clone(&running.orders),
                control: running.control.clone(),
                shared_limits: Arc::clone(&shared_limits),
                published: Arc::clone(&running.published),
                feed: has_books(&config).then(|| running.logs.feed()),
                observed: Arc::clone(&running.observed),
            };
            let started = started.clone();
            let builder = thread::Builder::new().name(format!("serve-{cpu}"));
            let thread = builder.spawn(move || task.run(started)).map_err(StartError::Loop)?;
            running.threads.push(thread);
        }
        drop(started);
        // Ends when each thread has reported, or has gone without a report.
        let reports: Vec<_> = starts.into_iter().collect();
        let complete = reports.len() == cores.len();
        let kinds: Result<Vec<_>, _> = reports.into_iter().collect();
        let panicked = || StartError::Loop(io::Error::other("a core has panicked"));
        match kinds.and_then(|kinds| kinds.last().copied().filter(|_| complete).ok_or_else(panicked)) {
            Ok(kind) => running.driver = kind,
            Err(error) => {
                running.stop();
                // What went wrong is known already.
                let _ = running.join();
                return Err(error);
            }
        }
        running.error_log().say(Level::Notice, format_args!("started on {} cores", running.cores()));
        Ok(running)
    }
}

/// Whether anybody wants to know about single responses.
fn has_books(config: &ServerConfig) -> bool {
    config.log.access.is_some() || config.status.is_some()
}

fn unix_second() -> i64 {
    i64::try_from(clock::unix_seconds()).unwrap_or(i64::MAX)
}

/// What is wrong with a configuration is better known now than by each core.
fn ensure_servable(config: &ServerConfig) -> Result<(), StartError> {
    if let Some(fault) = config.check().into_iter().next() {
        return Err(StartError::Config(fault));
    }
    Sites::open(config).map(drop)
}

/// The CPUs to run on.
fn cores_of(config: &ServerConfig) -> Result<Vec<usize>, StartError> {
    if config.cores.is_empty() { affinity::allowed_cpus().map_err(StartError::Loop) } else { Ok(config.cores.clone()) }
}

/// How many loops a server of this configuration runs with the present limit of descriptors, and so on how many sockets it
/// listens best.
///
/// # Errors
/// The kernel does not tell which CPUs this process may use.
pub fn core_count(config: &ServerConfig) -> Result<usize, StartError> {
    Ok(Layout::of(config, &cores_of(config)?).cpus.len())
}

/// What the thread of a core is given.
struct Task {
    config: Arc<ServerConfig>,
    core: usize,
    cpu: usize,
    /// All that this process may use, for threads that do not belong to a core.
    cpus: Vec<usize>,
    connections_max: usize,
    /// The groups of the listeners.
    groups: Vec<u32>,
    /// The listeners, unless they come by the channel.
    listeners: Vec<(u32, OwnedFd)>,
    /// The thread gets a table of descriptors of its own, and its listeners by this.
    table: Option<Channel>,
    orders: Arc<[Inbox]>,
    control: Control,
    shared_limits: Arc<SharedLimits>,
    published: Arc<[Published]>,
    feed: Option<Feed>,
    observed: Arc<Observed>,
}

impl Task {
    fn run(mut self, started: SyncSender<Result<DriverKind, StartError>>) -> io::Result<()> {
        let _guard = StopOnPanic(self.control.clone());
        let opened = affinity::pin_to(&[self.cpu])
            .map_err(|error| StartError::Pin { cpu: self.cpu, error })
            .and_then(|()| self.leave_table().map_err(StartError::Loop))
            .and_then(|()| self.open_driver().map_err(StartError::Driver));
        let driver = match opened {
            Ok(driver) => driver,
            Err(error) => {
                // Who started the server may have given up already, because of another core.
                let _ = started.send(Err(error));
                return Ok(());
            }
        };
        match driver {
            AnyDriver::Uring(driver) => self.run_over(driver, started),
            AnyDriver::Epoll(driver) => self.run_over(driver, started),
        }
    }

    /// Takes a table of descriptors of its own, if that is the layout: with the wakers of all, and with listeners that are in
    /// no other loop's, so that they are closed when this loop closes them.
    fn leave_table(&mut self) -> io::Result<()> {
        let Some(channel) = &self.table else { return Ok(()) };
        let wakers = self.control.wakers.iter().map(AsFd::as_fd);
        own_table_with(&wakers.chain([channel.as_fd()]).collect::<Vec<_>>())?;
        for &group in &self.groups {
            let socket = take_listener(channel).ok_or_else(|| io::Error::other("a listener was lost"))?;
            self.listeners.push((group, socket));
        }
        Ok(())
    }

    fn open_driver(&self) -> io::Result<AnyDriver> {
        let sockets_max = self.connections_max + TURNED_AWAY_MAX + self.listeners.len();
        let config = DriverConfig {
            receive_buffer_bytes: RECEIVE_BUFFER_BYTES,
            receive_buffers: RECEIVE_BUFFERS,
            ..DriverConfig::new(sockets_max, self.control.wakers[self.core].clone())
        };
        AnyDriver::open(self.config.driver, &config)
    }

    fn run_over<D: Driver>(self, mut driver: D, started: SyncSender<Result<DriverKind, StartError>>) -> io::Result<()> {
        let sites = match Sites::open(&self.config) {
            Ok(sites) => sites,
            Err(error) => {
                let _ = started.send(Err(error));
                return Ok(());
            }
        };
        let setup = Setup {
            shared_limits: self.shared_limits,
            sites,
            limits: &self.config.limits,
            cache: &self.config.cache,
            aside: Aside::new(self.control.wakers[self.core].clone(), ASIDE_THREADS_MAX, self.cpus),
            seconds_at: |_| clock::unix_seconds(),
            books: self.feed.map(|feed| Books::new(self.core, feed, self.observed, &self.config)),
            curfew: Arc::clone(&self.control.curfew),
            orders: self.orders,
            channel: self.table,
            published: self.published,
            core: self.core,
        };
        let mut service = Service::new(setup, driver.now());
        for (group, listener) in self.listeners {
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
        thalweg_reactor::run(&mut driver, &mut service).inspect_err(|_| self.control.end())
    }
}

/// A core that fails takes the others along: half a server would look like a whole one.
struct StopOnPanic(Control);

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.end();
        }
    }
}

impl Control {
    /// Stops accepting, closes idle connections, lets the responses under way end, and closes after `time` what is still
    /// open.
    pub fn drain(&self, time: Duration) {
        self.listeners().give_up(Files::Remove);
        self.curfew.set(Instant::now() + time);
        self.wake();
    }

    /// Leaves the listeners to another process, which has them already, and lets the responses under way end, which may take as
    /// long as `time`; for ever without one. Connections that wait for a request may ask for one more.
    pub fn hand_over(&self, time: Option<Duration>) {
        self.listeners().give_up(Files::Keep);
        self.curfew.set_gently(Instant::now() + time.unwrap_or(FOR_EVER));
        self.wake();
    }

    fn wake(&self) {
        for waker in self.wakers.iter() {
            waker.wake();
        }
    }

    fn listeners(&self) -> MutexGuard<'_, Listeners> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes everything at once.
    pub fn stop(&self) {
        self.drain(Duration::ZERO);
    }

    /// Closes the files of the logs and opens what has their names now, after they were moved away.
    pub fn reopen_logs(&self) {
        self.logs.reopen();
    }

    /// Has all loops end, for one of them. The listeners here are left to the threads whose table they are in.
    fn end(&self) {
        self.curfew.set(Instant::now());
        self.wake();
    }
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

    /// Which driver the cores use.
    pub fn driver(&self) -> DriverKind {
        self.driver
    }

    /// How many cores it runs on.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// What all cores have done so far, a wake-up of each behind at most.
    pub fn totals(&self) -> Totals {
        let mut sum = Totals::default();
        for published in self.published.iter() {
            sum.add(&published.totals());
        }
        sum
    }

    /// Whether a core has ended, by being stopped or by a failure that [`join`](Self::join) tells of.
    pub fn has_ended(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Whether all cores have ended.
    pub fn is_over(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Serves by another configuration from now on: other folders, limits, addresses, logs and status listener. Connections stay, and
    /// responses under way go on as they began. Cores and driver are those of the start.
    ///
    /// # Errors
    /// The configuration cannot be had. The server goes on as before.
    pub fn configure(&mut self, config: &Arc<ServerConfig>) -> Result<(), StartError> {
        ensure_servable(config)?;
        let logs = if config.log == self.config.log { None } else { Some(Opened::open(&config.log)?) };
        let aside = config.status.as_ref().map(|status| status.listen.into());
        let cores = self.threads.len();
        let Change { added, removed, aside } =
            self.control.listeners().change(&config.listen, aside.as_ref(), cores)?;
        self.addresses = self.control.listeners().addresses();
        self.change_status(config, aside)?;
        // What cores write down from now on stands in the new logs.
        if let Some(logs) = logs {
            self.logs.change(logs);
        }
        self.settle(config, added, &removed)?;
        if config.status.is_none() {
            self.observed.look_away();
        }
        self.config = Arc::clone(config);
        Ok(())
    }

    /// Has all cores serve by a configuration, and waits until they do.
    fn settle(&self, config: &Arc<ServerConfig>, added: Shares, removed: &[u32]) -> Result<(), StartError> {
        let cores = self.threads.len();
        let (done, answers) = mpsc::sync_channel(cores);
        let limits = Arc::new(SharedLimits::of(config, Instant::now()));
        for (core, ((share, inbox), waker)) in
            added.into_iter().zip(self.orders.iter()).zip(self.control.wakers.iter()).enumerate()
        {
            let channel = self.channels.get(core);
            let settlement = Settlement {
                config: Arc::clone(config),
                limits: Arc::clone(&limits),
                feed: has_books(config).then(|| self.logs.feed()),
                observed: Arc::clone(&self.observed),
            };
            let configure = Order::Configure(settlement, done.clone());
            let retire = removed.iter().map(|&group| Order::Retire(group));
            let listen = share.into_iter().map(|(group, socket)| {
                // What is lost here the loop does not find, and goes on without.
                let sent = channel.map(|channel| send_listener(channel, &socket));
                Order::Listen(group, if sent.is_some() { None } else { Some(socket) })
            });
            inbox.leave([configure].into_iter().chain(retire).chain(listen), waker);
        }
        drop(done);
        for _ in 0..cores {
            let silent = || StartError::Loop(io::Error::new(io::ErrorKind::TimedOut, "a core does not answer"));
            answers.recv_timeout(ANSWER_TIME).map_err(|_| silent())??;
        }
        Ok(())
    }

    /// Shows the status at this socket, if it is to be shown.
    fn show_status(
        &self,
        config: &ServerConfig,
        socket: Option<OwnedFd>,
    ) -> Result<Option<StatusListener>, StartError> {
        let (Some(status), Some(socket)) = (&config.status, socket) else { return Ok(None) };
        let sources = Sources {
            observed: Arc::clone(&self.observed),
            published: Arc::clone(&self.published),
            curfew: Arc::clone(&self.control.curfew),
            error_log: self.error_log().clone(),
            started_second: self.started_second,
        };
        let board = Board::new(sources, status.state.clone(), unix_second());
        StatusListener::start(socket.into(), board).map(Some).map_err(StartError::Loop)
    }

    /// Shows the status as a configuration has it, at this socket. The days are those of the file that it names.
    fn change_status(&mut self, config: &ServerConfig, socket: Option<OwnedFd>) -> Result<(), StartError> {
        if config.status == self.config.status {
            return Ok(());
        }
        let state = |config: &ServerConfig| config.status.as_ref().map(|status| status.state.clone());
        match (&mut self.status, socket) {
            (Some(status), Some(socket)) if state(config) == state(&self.config) => {
                status.move_to(socket.into()).map_err(StartError::Loop)?;
            }
            (_, socket) => self.status = self.show_status(config, socket)?,
        }
        Ok(())
    }

    /// Asks each core whether its loop goes round. As many answers come as there are cores that do.
    pub fn ask(&self) -> mpsc::Receiver<()> {
        let (done, answers) = mpsc::sync_channel(self.threads.len());
        for (inbox, waker) in self.orders.iter().zip(self.control.wakers.iter()) {
            inbox.leave([Order::Answer(done.clone())], waker);
        }
        answers
    }

    /// Gives `look` the sockets that it listens on.
    pub fn with_listeners<T>(&self, look: impl FnOnce(&Listeners) -> T) -> T {
        look(&self.control.listeners())
    }

    /// See [`Control::hand_over`]. When this returns, no core waits for connections any more, and the other process is to be told, so that
    /// it can [look again](Self::look_again).
    pub fn hand_over(&mut self, time: Option<Duration>) {
        // The figures are shown, and kept over restarts, by the process that serves.
        drop(self.status.take());
        self.control.hand_over(time);
        // An answer follows the turn in which accepting was stopped; at the one after that the kernel has been told.
        for _ in 0..2 {
            let answers = self.ask();
            let begun = Instant::now();
            let mut missing = self.threads.len();
            while missing > self.threads.iter().filter(|thread| thread.is_finished()).count()
                && Instant::now().ns_since(begun) < ANSWER_TIME.as_nanos() as u64
            {
                missing -= usize::from(answers.recv_timeout(ANSWER_GLANCE).is_ok());
            }
        }
    }

    /// Looks at the queues of all listeners, as if somebody had come in just now. The kernel tells one of those who wait at a socket of a
    /// connection, and not another one when that one has stopped waiting meanwhile: to be called when another process has.
    pub fn look_again(&self) {
        // It has left its figures, too.
        if let Some(status) = &self.status {
            status.take_over_days();
        }
        for (inbox, waker) in self.orders.iter().zip(self.control.wakers.iter()) {
            inbox.leave([Order::LookAgain], waker);
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

    /// Waits until all cores have ended, after [`drain`](Self::drain) or [`stop`](Self::stop) or a failure. What they have
    /// done in all.
    ///
    /// # Errors
    /// A core has failed. All others were stopped then.
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
