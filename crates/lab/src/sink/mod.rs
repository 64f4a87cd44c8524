//! The built-in sink: a server that sends one prepared response to every request, to find the
//! client's own ceiling.
//!
//! Its responses have the size of the target's, and its protocol is that of the load, with or
//! without TLS, so that the client does the same work. It reads requests with the parser of the
//! download server but resolves nothing, opens nothing and logs nothing: the client's rate against
//! it is higher than against any other server on the same CPU. Plain HTTP/1 is spoken by `httpd`,
//! which sends the prepared response as it is; `server` speaks the rest.

mod connection;
mod response;
mod server;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use thalweg_httpd::{Handler, Response, Server, Settings, WhenFull};
use thalweg_reactor::{App, LoopControl, run};
use thalweg_sys::affinity::pin_to;
use thalweg_sys::driver::Listen;
use thalweg_sys::{AnyDriver, Completion, Driver, DriverChoice, DriverConfig, Instant, Waker};
use thalweg_tls::{
    Certificate, CertificateStore, ClientSettings, ServerOptions, ServerSettings, SettingsError, TicketKeys,
    self_signed,
};
use thalweg_wire::{RequestHead, Version};

/// A running sink; dropping it stops it.
#[derive(Debug)]
pub struct Sink {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
    certificate: Option<Certificate>,
}

/// The sink to be started.
#[derive(Clone, Copy, Debug)]
pub struct SinkSettings {
    /// Bytes of each response's body.
    pub body_bytes: usize,
    /// The version of HTTP.
    pub version: Version,
    /// TLS is spoken.
    pub tls: bool,
    /// The CPU of its thread, if there is one to spare.
    pub cpu: Option<usize>,
    /// The driver.
    pub driver: DriverChoice,
    /// Connections open at once.
    pub connections_max: usize,
}

/// The name that the sink's certificate is for.
pub const NAME: &str = "localhost";

impl Sink {
    /// Starts a sink.
    ///
    /// # Errors
    /// The thread, the driver, the certificate or the listener could not be created.
    pub fn start(settings: SinkSettings) -> io::Result<Self> {
        let SinkSettings { cpu, driver, connections_max, .. } = settings;
        let certificate =
            settings.tls.then(|| self_signed(&[NAME.to_owned()])).transpose().map_err(io::Error::other)?;
        let tls = certificate.as_ref().map(server_settings).transpose()?;
        let waker = Waker::new()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (send, receive) = mpsc::channel();
        let config = DriverConfig::new(connections_max + 64, waker.clone());
        let ended = stop.clone();
        let body = move || {
            let opened = cpu.map_or(Ok(()), |cpu| pin_to(&[cpu])).and_then(|()| AnyDriver::open(driver, &config));
            match opened {
                Ok(AnyDriver::Uring(driver)) => serve(driver, settings, tls, ended, &send),
                Ok(AnyDriver::Epoll(driver)) => serve(driver, settings, tls, ended, &send),
                Err(error) => drop(send.send(Err(error))),
            }
        };
        let thread = thread::Builder::new().name("sink".to_owned()).spawn(body)?;
        let address = receive.recv().unwrap_or_else(|_| Err(io::Error::other("the sink's thread has ended")))?;
        Ok(Self { address, stop, waker, thread: Some(thread), certificate })
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The settings of a client for the sink, which has [`NAME`]: it does the work of any other one
    /// with such settings, and trusts the sink alone.
    ///
    /// # Errors
    /// The sink's certificate cannot be trusted.
    pub fn client(&self, settings: &ClientSettings) -> Result<ClientSettings, SettingsError> {
        client(self.certificate.as_ref(), settings)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic has been printed, and the calibration that used the sink has failed already.
            let _ = thread.join();
        }
    }
}

/// The sink as an application of a loop of the caller, such as one over the simulated network.
pub struct SinkApp {
    server: server::Server,
    certificate: Option<Certificate>,
}

impl SinkApp {
    /// A sink whose responses have bodies of that size.
    ///
    /// # Errors
    /// It is to speak TLS, and the certificate could not be created.
    pub fn new(version: Version, tls: bool, body_bytes: usize) -> io::Result<Self> {
        let certificate = tls.then(|| self_signed(&[NAME.to_owned()])).transpose().map_err(io::Error::other)?;
        let settings = certificate.as_ref().map(server_settings).transpose()?;
        Ok(Self { server: server::Server::new(version, settings, body_bytes, Arc::default()), certificate })
    }

    /// Listens at an address.
    ///
    /// # Errors
    /// It cannot be had.
    pub fn listen<D: Driver>(&self, driver: &mut D, at: Listen) -> io::Result<SocketAddr> {
        self.server.listen(driver, at)
    }

    /// The settings of a client, as [`Sink::client`] has them.
    ///
    /// # Errors
    /// The sink's certificate cannot be trusted.
    pub fn client(&self, settings: &ClientSettings) -> Result<ClientSettings, SettingsError> {
        client(self.certificate.as_ref(), settings)
    }
}

impl<D: Driver> App<D> for SinkApp {
    fn on_completion(&mut self, driver: &mut D, completion: Completion) {
        self.server.on_completion(driver, completion);
    }

    fn on_iteration(&mut self, driver: &mut D, now: Instant) -> LoopControl {
        self.server.on_iteration(driver, now)
    }
}

fn client(certificate: Option<&Certificate>, settings: &ClientSettings) -> Result<ClientSettings, SettingsError> {
    certificate.map_or_else(|| Ok(settings.clone()), |certificate| settings.trusting(certificate))
}

fn server_settings(certificate: &Certificate) -> io::Result<ServerSettings> {
    let store = Arc::new(CertificateStore::default());
    store.set(&[(Vec::new(), certificate.clone())]);
    let alpn = [&b"h2"[..], b"http/1.1", b"http/1.0"].map(<[u8]>::to_vec).to_vec();
    let options = ServerOptions { alpn, tickets: Some(TicketKeys::new()?), ..ServerOptions::default() };
    ServerSettings::new(options, &store).map_err(io::Error::other)
}

fn serve<D: Driver>(
    mut driver: D,
    settings: SinkSettings,
    tls: Option<ServerSettings>,
    stop: Arc<AtomicBool>,
    opened: &mpsc::Sender<io::Result<SocketAddr>>,
) {
    let at = Listen::Address(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    // The driver can only fail in ways that the calibration notices by itself: it gets no
    // responses.
    if tls.is_none() && settings.version != Version::Http2 {
        let mut app = PlainSink { server: plain(settings.body_bytes), stop };
        let address = app.server.listen(&mut driver, at);
        let address = address.map(|address| address.expect("a TCP listener has an address"));
        let failed = address.is_err();
        if opened.send(address).is_ok() && !failed {
            let _ = run(&mut driver, &mut app);
        }
    } else {
        let mut app = server::Server::new(settings.version, tls, settings.body_bytes, stop);
        let address = app.listen(&mut driver, at);
        let failed = address.is_err();
        if opened.send(address).is_ok() && !failed {
            let _ = run(&mut driver, &mut app);
        }
    }
}

/// A server of plain HTTP/1.
fn plain(body_bytes: usize) -> Server<impl Handler> {
    // The client is the project's own, so that deadlines would only cost time.
    let settings =
        Settings { when_full: WhenFull::Wait, responses_waiting_max: 1024, times: None, ..Settings::default() };
    let mut bytes = response::head(body_bytes);
    bytes.resize(bytes.len() + body_bytes, b'x');
    let prepared = Rc::new(bytes);
    Server::new(settings, move |_: &RequestHead<'_>| Response::prepared(Rc::clone(&prepared)))
}

/// The application of plain HTTP/1: the server, until it receives the stop command.
struct PlainSink<H> {
    server: Server<H>,
    stop: Arc<AtomicBool>,
}

impl<D: Driver, H: Handler> App<D> for PlainSink<H> {
    fn on_completion(&mut self, driver: &mut D, completion: Completion) {
        self.server.on_completion(driver, completion);
    }

    fn on_iteration(&mut self, driver: &mut D, now: Instant) -> LoopControl {
        if self.stop.load(Ordering::Acquire) { LoopControl::Stop } else { self.server.on_iteration(driver, now) }
    }
}
