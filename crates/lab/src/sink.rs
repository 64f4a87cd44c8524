//! The built-in sink: a server that sends one prepared response to every request, to find the
//! client's own ceiling.
//!
//! Its responses have the size of the target's, so that the client does the same work. It reads
//! requests with the parser of the download server but resolves nothing, opens nothing and logs
//! nothing: the client's rate against it is higher than against any other server on the same CPU.

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
use thalweg_wire::encode::HeadWriter;
use thalweg_wire::{RequestHead, Version};

/// A running sink; dropping it stops it.
#[derive(Debug)]
pub struct Sink {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Sink {
    /// Starts a sink whose responses have bodies of `body_bytes`, on `cpu` if there is one to
    /// spare, for `connections_max`.
    ///
    /// # Errors
    /// The thread, the driver or the listener could not be created.
    pub fn start(
        body_bytes: usize,
        cpu: Option<usize>,
        driver: DriverChoice,
        connections_max: usize,
    ) -> io::Result<Self> {
        let waker = Waker::new()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (send, receive) = mpsc::channel();
        let config = DriverConfig::new(connections_max + 64, waker.clone());
        let ended = stop.clone();
        let body = move || {
            let opened = cpu.map_or(Ok(()), |cpu| pin_to(&[cpu])).and_then(|()| AnyDriver::open(driver, &config));
            match opened {
                Ok(AnyDriver::Uring(driver)) => serve(driver, body_bytes, ended, &send),
                Ok(AnyDriver::Epoll(driver)) => serve(driver, body_bytes, ended, &send),
                Err(error) => drop(send.send(Err(error))),
            }
        };
        let thread = thread::Builder::new().name("sink".to_owned()).spawn(body)?;
        let address = receive.recv().unwrap_or_else(|_| Err(io::Error::other("the sink's thread has ended")))?;
        Ok(Self { address, stop, waker, thread: Some(thread) })
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
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

fn serve<D: Driver>(
    mut driver: D,
    body_bytes: usize,
    stop: Arc<AtomicBool>,
    opened: &mpsc::Sender<io::Result<SocketAddr>>,
) {
    // The client is the project's own, so that deadlines would only cost time.
    let settings =
        Settings { when_full: WhenFull::Wait, responses_waiting_max: 1024, times: None, ..Settings::default() };
    let prepared = Rc::new(response(body_bytes));
    let server = Server::new(settings, move |_: &RequestHead<'_>| Response::prepared(Rc::clone(&prepared)));
    let mut app = SinkApp { server, stop };
    let at = Listen::Address(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let listening = app.server.listen(&mut driver, at).map(|address| address.expect("a TCP listener has an address"));
    let failed = listening.is_err();
    if opened.send(listening).is_err() || failed {
        return;
    }
    // The driver can only fail in ways that the calibration notices by itself: it gets no
    // responses.
    let _ = run(&mut driver, &mut app);
}

fn response(body_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut head = HeadWriter::response(&mut bytes, Version::Http11, 200).expect("200 is a status");
    // As many fields, and about as many bytes of them, as common servers send.
    let fields: [(&str, &[u8]); 6] = [
        ("Server", b"thalweg-sink"),
        ("Date", b"Thu, 01 Jan 1970 00:00:00 GMT"),
        ("Content-Type", b"application/octet-stream"),
        ("Last-Modified", b"Thu, 01 Jan 1970 00:00:00 GMT"),
        ("ETag", b"\"0000000000-000\""),
        ("Accept-Ranges", b"bytes"),
    ];
    for (name, value) in fields {
        head.field(name, value).expect("a valid field");
    }
    head.field_number("Content-Length", body_bytes as u64).expect("a valid field");
    head.end();
    bytes.resize(bytes.len() + body_bytes, b'x');
    bytes
}

/// The sink's application: the server, until it receives the stop command.
struct SinkApp<H> {
    server: Server<H>,
    stop: Arc<AtomicBool>,
}

impl<D: Driver, H: Handler> App<D> for SinkApp<H> {
    fn on_completion(&mut self, driver: &mut D, completion: Completion) {
        self.server.on_completion(driver, completion);
    }

    fn on_iteration(&mut self, driver: &mut D, now: Instant) -> LoopControl {
        if self.stop.load(Ordering::Acquire) { LoopControl::Stop } else { self.server.on_iteration(driver, now) }
    }
}
