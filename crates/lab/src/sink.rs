//! The built-in sink: a server that does nothing but answer, to find the client's own ceiling.
//!
//! Its answers have the size of the target's, so that the client does the same work. It understands requests with the same parser
//! as the real server but resolves nothing, opens nothing and logs nothing: whatever the client reaches against it is more than
//! the client would reach against any server on that CPU.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use thalweg_reactor::{App, LoopControl, run};
use thalweg_sys::affinity::pin_to;
use thalweg_sys::driver::Listen;
use thalweg_sys::{AnyDriver, Completion, Driver, DriverChoice, DriverConfig, Instant, SendBuf, SocketId, Waker};
use thalweg_wire::encode::HeadWriter;
use thalweg_wire::{Bounds, FieldSlots, RequestEvent, RequestReader, Version};

/// A sink that is running. It ends when it is dropped.
#[derive(Debug)]
pub struct Sink {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Sink {
    /// Starts a sink whose responses have bodies of `body_bytes`, on `cpu` if there is one to spare, for `connections_max`.
    ///
    /// # Errors
    /// No thread, driver or listener could be had.
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
                Ok(AnyDriver::Uring(driver)) => answer(driver, body_bytes, ended, &send),
                Ok(AnyDriver::Epoll(driver)) => answer(driver, body_bytes, ended, &send),
                Err(error) => drop(send.send(Err(error))),
            }
        };
        let thread = thread::Builder::new().name("sink".to_owned()).spawn(body)?;
        let address = receive.recv().unwrap_or_else(|_| Err(io::Error::other("the sink's thread has ended")))?;
        Ok(Self { address, stop, waker, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A sink that has panicked has printed why; the calibration that used it has failed already.
            let _ = thread.join();
        }
    }
}

fn answer<D: Driver>(
    mut driver: D,
    body_bytes: usize,
    stop: Arc<AtomicBool>,
    opened: &mpsc::Sender<io::Result<SocketAddr>>,
) {
    let at = Listen::Address(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let listening = driver.listen(at).and_then(|listener| driver.local_addr(listener));
    let failed = listening.is_err();
    if opened.send(listening).is_err() || failed {
        return;
    }
    let mut app = Answerer { response: Rc::new(response(body_bytes)), connections: Vec::new(), stop };
    // The driver can only fail in ways that the calibration notices by itself: it gets no answers.
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

struct Answerer {
    response: Rc<Vec<u8>>,
    connections: Vec<Option<Peer>>,
    stop: Arc<AtomicBool>,
}

struct Peer {
    reader: RequestReader,
    sending: bool,
    /// Requests that came while a response was on its way.
    owed: usize,
    close_after: bool,
}

impl Answerer {
    fn on_received<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        let Some(peer) = &mut self.connections[socket.index()] else { return };
        let mut input = driver.received();
        loop {
            let mut slots = FieldSlots::new();
            let Ok(progress) = peer.reader.read(input, &mut slots) else {
                return self.close(driver, socket);
            };
            input = &input[progress.consumed..];
            match progress.event {
                Some(RequestEvent::Head(head)) => peer.close_after |= !head.keep_alive(),
                Some(RequestEvent::Body(_)) => {}
                Some(RequestEvent::End) => peer.owed += 1,
                None => break,
            }
        }
        self.respond(driver, socket);
    }

    fn respond<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        let Some(peer) = &mut self.connections[socket.index()] else { return };
        if peer.owed > 0 && !peer.sending {
            peer.owed -= 1;
            peer.sending = true;
            driver.send(socket, SendBuf::Shared(self.response.clone()));
        }
    }

    fn close<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        self.connections[socket.index()] = None;
        driver.close(socket);
    }
}

impl<D: Driver> App<D> for Answerer {
    fn on_completion(&mut self, driver: &mut D, completion: Completion) {
        match completion {
            Completion::Accepted { socket, .. } => {
                if self.connections.len() <= socket.index() {
                    self.connections.resize_with(socket.index() + 1, || None);
                }
                let reader = RequestReader::new(Bounds::requests());
                self.connections[socket.index()] = Some(Peer { reader, sending: false, owed: 0, close_after: false });
            }
            Completion::Received { socket } => self.on_received(driver, socket),
            Completion::Sent { socket } => {
                let Some(peer) = &mut self.connections[socket.index()] else { return };
                peer.sending = false;
                if peer.close_after && peer.owed == 0 {
                    self.close(driver, socket);
                } else {
                    self.respond(driver, socket);
                }
            }
            Completion::Ended { socket } | Completion::Failed { socket, .. } => self.close(driver, socket),
            Completion::AcceptFailed { .. } | Completion::Connected { .. } | Completion::Woken => {}
        }
    }

    fn on_iteration(&mut self, _: &mut D, _: Instant) -> LoopControl {
        if self.stop.load(Ordering::Acquire) { LoopControl::Stop } else { LoopControl::WaitUntil(None) }
    }
}
