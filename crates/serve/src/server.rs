//! Starting the loops of a server, one thread per core, and what can be done with them from outside.

use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use thalweg_sys::driver::Listen;
use thalweg_sys::{AnyDriver, Driver, DriverConfig, DriverKind, Instant, Waker, affinity, clock, socket};

use crate::aside::Aside;
use crate::config::{ListenAddr, ServerConfig};
use crate::counters::{Published, Totals};
use crate::limit::pacer::SharedLimits;
use crate::service::{Curfew, Service, Setup, TURNED_AWAY_MAX};
use crate::site::Sites;

/// Requests are small, and a connection that sends more is read in several turns. All buffers together should stay in a
/// core's own cache, because the kernel goes round them.
const RECEIVE_BUFFER_BYTES: usize = 8 << 10;
const RECEIVE_BUFFERS: u16 = 64;

/// Threads of a core that wait for disks in its place. More of them make a disk that turns seek more.
const ASIDE_THREADS_MAX: usize = 4;

/// The download server.
#[derive(Debug)]
pub struct Server;

/// A server that runs. Dropping it stops it without waiting.
#[derive(Debug)]
pub struct Running {
    addresses: Vec<ListenAddr>,
    driver: DriverKind,
    control: Control,
    threads: Vec<JoinHandle<io::Result<()>>>,
    published: Arc<[Published]>,
}

/// Stops a server, from any thread.
#[derive(Clone, Debug)]
pub struct Control {
    curfew: Arc<Curfew>,
    wakers: Arc<[Waker]>,
}

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is nothing to listen on.
    #[error("no address to listen on")]
    NoAddress,
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
        let cpus = affinity::allowed_cpus().map_err(StartError::Loop)?;
        let cores = if config.cores.is_empty() { cpus.clone() } else { config.cores.clone() };
        // What cannot be opened is better known now than by each core.
        Sites::open(&config)?;
        let (addresses, mut listeners) = listen(&config.listen, cores.len())?;
        let wakers = cores.iter().map(|_| Waker::new()).collect::<io::Result<Vec<_>>>().map_err(StartError::Loop)?;
        let control = Control { curfew: Arc::new(Curfew::new()), wakers: wakers.into() };
        let published: Arc<[Published]> = cores.iter().map(|_| Published::default()).collect();
        let mut running = Running { addresses, driver: DriverKind::Epoll, control, threads: Vec::new(), published };
        let mounts = config.sites.iter().flat_map(|site| &site.mounts).map(|mount| mount.bytes_per_s_max);
        let shared_limits = SharedLimits::new(&config.limits, config.bandwidth, mounts, Instant::now());
        let shared_limits = Arc::new(shared_limits);
        let (started, starts) = mpsc::sync_channel(cores.len());
        let config = Arc::new(config);
        for (core, &cpu) in cores.iter().enumerate() {
            let task = Task {
                config: Arc::clone(&config),
                core,
                cpu,
                cpus: cpus.clone(),
                listeners: listeners.pop().unwrap_or_default(),
                control: running.control.clone(),
                shared_limits: Arc::clone(&shared_limits),
                published: Arc::clone(&running.published),
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
        Ok(running)
    }
}

/// Listens on all addresses, once for each core. The addresses as they came to be, and each core's sockets.
fn listen(asked: &[ListenAddr], cores: usize) -> Result<(Vec<ListenAddr>, Vec<Vec<OwnedFd>>), StartError> {
    if asked.is_empty() {
        return Err(StartError::NoAddress);
    }
    let mut addresses = Vec::new();
    let mut listeners: Vec<Vec<OwnedFd>> = (0..cores).map(|_| Vec::new()).collect();
    for address in asked {
        let refused = |error| StartError::Listen { address: address.clone(), error };
        match address {
            ListenAddr::Tcp(address) => {
                socket::probe(*address).map_err(refused)?;
                let mut at = *address;
                for of_core in &mut listeners {
                    let listener = TcpListener::from(socket::listen(at).map_err(refused)?);
                    // Port 0: the first core's socket has got one, which the others share.
                    at = listener.local_addr().map_err(refused)?;
                    of_core.push(listener.into());
                }
                addresses.push(ListenAddr::Tcp(at));
            }
            ListenAddr::Unix(path) => {
                let listener = UnixListener::bind(path).map_err(refused)?;
                for of_core in &mut listeners {
                    of_core.push(listener.try_clone().map_err(refused)?.into());
                }
                addresses.push(address.clone());
            }
        }
    }
    Ok((addresses, listeners))
}

/// What the thread of a core is given.
struct Task {
    config: Arc<ServerConfig>,
    core: usize,
    cpu: usize,
    /// All that this process may use, for threads that do not belong to a core.
    cpus: Vec<usize>,
    listeners: Vec<OwnedFd>,
    control: Control,
    shared_limits: Arc<SharedLimits>,
    published: Arc<[Published]>,
}

impl Task {
    fn run(self, started: SyncSender<Result<DriverKind, StartError>>) -> io::Result<()> {
        let _guard = StopOnPanic(self.control.clone());
        let opened = affinity::pin_to(&[self.cpu])
            .map_err(|error| StartError::Pin { cpu: self.cpu, error })
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

    fn open_driver(&self) -> io::Result<AnyDriver> {
        let sockets_max = self.config.limits.connections_max + TURNED_AWAY_MAX + self.listeners.len();
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
            curfew: Arc::clone(&self.control.curfew),
            published: self.published,
            core: self.core,
        };
        let mut service = Service::new(setup, driver.now());
        for listener in self.listeners {
            match driver.listen(Listen::Socket(listener)) {
                Ok(listener) => service.add_listener(listener),
                Err(error) => {
                    let _ = started.send(Err(StartError::Loop(error)));
                    return Ok(());
                }
            }
        }
        let _ = started.send(Ok(driver.kind()));
        drop(started);
        thalweg_reactor::run(&mut driver, &mut service).inspect_err(|_| self.control.stop())
    }
}

/// A core that fails takes the others along: half a server would look like a whole one.
struct StopOnPanic(Control);

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}

impl Control {
    /// Stops accepting, closes idle connections, lets the responses under way end, and closes after `time` what is still
    /// open.
    pub fn drain(&self, time: Duration) {
        self.curfew.set(Instant::now() + time);
        for waker in self.wakers.iter() {
            waker.wake();
        }
    }

    /// Closes everything at once.
    pub fn stop(&self) {
        self.drain(Duration::ZERO);
    }
}

impl Running {
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
        self.threads.len()
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
