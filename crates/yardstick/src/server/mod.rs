//! The HTTP server in front of a station, on a thread of its own.

mod app;
mod config;
mod figures;
mod messages;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use thalweg_reactor::run;
use thalweg_sys::affinity::pin_to;
use thalweg_sys::clock::wake_precisely;
use thalweg_sys::driver::Listen;
use thalweg_sys::{AnyDriver, Driver, DriverConfig, DriverKind, Waker, socket};

use self::app::Work;
pub use self::app::{STATUS_PATH, YardstickApp};
pub use self::config::ServerConfig;
pub use self::figures::{Figures, Lateness};
use crate::burners::Burners;
use crate::station::Station;

/// A server that could not be started or has failed.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A CPU is not granted to this process.
    #[error("cannot run on the CPUs {cpus:?}: {error}")]
    Pin {
        /// The CPUs.
        cpus: Vec<usize>,
        /// The kernel's error.
        error: io::Error,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The kernel's error.
        error: io::Error,
    },
    /// The thread or its driver could not be set up, or has failed.
    #[error("the server's thread: {0}")]
    Thread(#[from] io::Error),
}

/// A running server. Dropping it stops it.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    driver: DriverKind,
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<io::Result<Figures>>>,
}

/// The address and the driver of a server that has started.
type Started = Result<(SocketAddr, DriverKind), ServerError>;

/// Starts a server.
///
/// # Errors
/// The CPU, the driver or the address is not available.
pub fn start(config: ServerConfig) -> Result<Running, ServerError> {
    // The driver's listener would share the address with another yardstick's.
    socket::probe(config.listen).map_err(|error| ServerError::Listen { address: config.listen, error })?;
    let waker = Waker::new()?;
    let stop = Arc::new(AtomicBool::new(false));
    let (send, receive) = mpsc::channel();
    let (wakes, stops) = (waker.clone(), Arc::clone(&stop));
    let body = move || serve(&config, wakes, stops, &send);
    let thread = thread::Builder::new().name("yardstick".to_owned()).spawn(body)?;
    let started: Started =
        receive.recv().unwrap_or_else(|_| Err(ServerError::Thread(io::Error::other("it has ended at its start"))));
    let (address, driver) = started?;
    Ok(Running { address, driver, stop, waker, thread: Some(thread) })
}

impl Running {
    /// The address on which it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The driver that it runs over.
    pub const fn driver(&self) -> DriverKind {
        self.driver
    }

    /// Whether it has ended by itself, which is a failure.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops it and returns its figures.
    ///
    /// # Errors
    /// The driver has failed.
    pub fn stop(mut self) -> Result<Figures, ServerError> {
        self.end().unwrap_or_else(|| Err(io::Error::other("it has been stopped before"))).map_err(ServerError::Thread)
    }

    fn end(&mut self) -> Option<io::Result<Figures>> {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
        let ended = self.thread.take()?.join();
        Some(
            ended.unwrap_or_else(|_| {
                Err(io::Error::other("it has panicked; this is a bug in thalweg, please report it"))
            }),
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An owner that wants to know the outcome has called `stop`.
        let _ = self.end();
    }
}

/// The thread's body.
fn serve(
    config: &ServerConfig,
    waker: Waker,
    stop: Arc<AtomicBool>,
    started: &mpsc::Sender<Started>,
) -> io::Result<Figures> {
    /// Sockets that are being closed while others open, and the listener.
    const SPARE_SOCKETS: usize = 64;
    let driver_config = DriverConfig {
        wake_early_ns: config.wake_early_ns,
        ..DriverConfig::new(config.connections_max + SPARE_SOCKETS, waker.clone())
    };
    let opened = work(config, &waker).and_then(|work| {
        // Only now, because burners inherit what their thread had when they started.
        wake_precisely();
        Ok((AnyDriver::open(config.driver, &driver_config)?, work))
    });
    match opened {
        Ok((AnyDriver::Uring(driver), work)) => serve_over(driver, config, work, stop, started),
        Ok((AnyDriver::Epoll(driver), work)) => serve_over(driver, config, work, stop, started),
        Err(error) => {
            // The owner waits for this message.
            let _ = started.send(Err(error));
            Err(io::Error::other("it could not be set up"))
        }
    }
}

/// The model's servers. Leaves this thread on the CPUs of the settings.
fn work(config: &ServerConfig, waker: &Waker) -> Result<Work, ServerError> {
    let pin = |error| ServerError::Pin { cpus: config.cpus.clone(), error };
    let work = match config.burn {
        true => Work::Burnt(Burners::start(&config.model, &config.cpus, waker).map_err(pin)?),
        false => Work::Computed(Station::new(&config.model)),
    };
    if !config.cpus.is_empty() {
        pin_to(&config.cpus).map_err(pin)?;
    }
    Ok(work)
}

fn serve_over<D: Driver>(
    mut driver: D,
    config: &ServerConfig,
    work: Work,
    stop: Arc<AtomicBool>,
    started: &mpsc::Sender<Started>,
) -> io::Result<Figures> {
    let mut app = YardstickApp::new(config, work, stop, driver.now());
    let listening = app.listen(&mut driver, Listen::Address(config.listen));
    let failed = listening.is_err();
    let kind = driver.kind();
    let message =
        listening.map(|address| (address, kind)).map_err(|error| ServerError::Listen { address: config.listen, error });
    if started.send(message).is_err() || failed {
        return Err(io::Error::other("it could not listen"));
    }
    run(&mut driver, &mut app)?;
    Ok(app.figures(driver.now()))
}
