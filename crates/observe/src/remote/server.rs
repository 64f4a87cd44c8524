//! The answering side: a thread with an HTTP server that gives out what the sampler's thread has
//! collected. It reads nothing but requests and starts nothing.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use thalweg_httpd::{Response, Server, Settings, WhenFull};
use thalweg_reactor::{App, LoopControl, run};
use thalweg_sys::driver::Listen;
use thalweg_sys::{AnyDriver, Completion, Driver, DriverChoice, DriverConfig, Instant, Waker};
use thalweg_wire::{Method, RequestHead};

use super::token::Token;
use super::{HostReply, PATH_BYTES_MAX, SAMPLES_PER_REPLY_MAX, SamplesReply};
use crate::local::Samples;

/// Measuring clients, and the connections of a path check.
const CONNECTIONS_MAX: usize = 32;
/// The piece that the body of `/path` is made of.
const PIECE_BYTES: usize = 256 << 10;

/// A running server; dropping it ends it.
#[derive(Debug)]
pub struct ObserverServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl ObserverServer {
    /// Listens at `address` and answers requests that show the token.
    ///
    /// # Errors
    /// The address cannot be had, or there is no token and the address is not a loopback one.
    pub fn start(address: SocketAddr, token: Option<Token>, samples: Samples) -> io::Result<Self> {
        if token.is_none() && !address.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "an observer without a token listens on loopback only",
            ));
        }
        let waker = Waker::new()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (send, receive) = mpsc::channel();
        let config = DriverConfig::new(CONNECTIONS_MAX + 8, waker.clone());
        let ended = Arc::clone(&stop);
        let body = move || {
            let answers = Answers { token, samples, piece: Rc::new(vec![b'x'; PIECE_BYTES]) };
            match AnyDriver::open(DriverChoice::Epoll, &config) {
                Ok(AnyDriver::Uring(driver)) => serve(driver, address, answers, ended, &send),
                Ok(AnyDriver::Epoll(driver)) => serve(driver, address, answers, ended, &send),
                Err(error) => drop(send.send(Err(error))),
            }
        };
        let thread = thread::Builder::new().name("observer-http".to_owned()).spawn(body)?;
        let address = receive.recv().unwrap_or_else(|_| Err(io::Error::other("the server's thread has ended")))?;
        Ok(Self { address, stop, waker, thread: Some(thread) })
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for ObserverServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic has been printed already.
            let _ = thread.join();
        }
    }
}

fn serve<D: Driver>(
    mut driver: D,
    address: SocketAddr,
    answers: Answers,
    stop: Arc<AtomicBool>,
    opened: &mpsc::Sender<io::Result<SocketAddr>>,
) {
    // A client pulls once a second, and keeps its connection in between.
    let mut settings =
        Settings { when_full: WhenFull::CloseOldest { connections_max: CONNECTIONS_MAX }, ..Settings::default() };
    if let Some(times) = &mut settings.times {
        times.request_ns = 60_000_000_000;
    }
    let server = Server::new(settings, move |request: &RequestHead<'_>| answers.respond(request));
    let mut app = StoppedApp { server, stop };
    let listening = app.server.listen(&mut driver, Listen::Address(address));
    let listening = listening.map(|address| address.expect("a TCP listener has an address"));
    let failed = listening.is_err();
    if opened.send(listening).is_err() || failed {
        return;
    }
    // The driver fails only if the kernel takes its descriptor away; clients notice that.
    let _ = run(&mut driver, &mut app);
}

/// The server, until it is to stop.
struct StoppedApp<H> {
    server: Server<H>,
    stop: Arc<AtomicBool>,
}

impl<D: Driver, H: thalweg_httpd::Handler> App<D> for StoppedApp<H> {
    fn on_completion(&mut self, driver: &mut D, completion: Completion) {
        self.server.on_completion(driver, completion);
    }

    fn on_iteration(&mut self, driver: &mut D, now: Instant) -> LoopControl {
        if self.stop.load(Ordering::Acquire) { LoopControl::Stop } else { self.server.on_iteration(driver, now) }
    }
}

/// Makes the responses.
struct Answers {
    token: Option<Token>,
    samples: Samples,
    piece: Rc<Vec<u8>>,
}

impl Answers {
    fn respond(&self, request: &RequestHead<'_>) -> Response {
        let shown = request.fields.get("authorization").unwrap_or_default();
        if self.token.as_ref().is_some_and(|token| !token.is_shown_by(shown)) {
            return text(401, "this observer needs a token: Authorization: Bearer TOKEN\n")
                .field("WWW-Authenticate", "Bearer");
        }
        if !matches!(request.method, Method::Get | Method::Head) {
            return text(405, "only GET and HEAD\n").field("Allow", "GET, HEAD");
        }
        let target = str::from_utf8(request.target).unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        match path {
            "/host" => json(&HostReply { host: self.samples.facts(), now_s: self.samples.unix_s() }),
            "/samples" => self.samples(query),
            "/path" => self.path(query),
            _ => text(404, "there are /host, /samples?since=N and /path?bytes=N\n"),
        }
    }

    fn samples(&self, query: &str) -> Response {
        let Some(since) = number(query, "since", 0) else {
            return text(400, "since is the number of a sample\n");
        };
        if query.split('&').any(|part| part == "cut") {
            self.samples.cut();
        }
        let mut samples = self.samples.since(since);
        samples.truncate(SAMPLES_PER_REPLY_MAX);
        json(&SamplesReply { now_s: self.samples.unix_s(), started_s: self.samples.started_s(), samples })
    }

    fn path(&self, query: &str) -> Response {
        match number(query, "bytes", PATH_BYTES_MAX) {
            Some(bytes) => Response::repeated(Rc::clone(&self.piece), bytes.min(PATH_BYTES_MAX)),
            None => text(400, "bytes is a number\n"),
        }
    }
}

/// The value of a query's parameter; `None` if it is no number.
fn number(query: &str, name: &str, default: u64) -> Option<u64> {
    let value = query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    value.map_or(Some(default), |value| value.parse().ok())
}

fn text(status: u16, message: &'static str) -> Response {
    Response::new(status).field("Content-Type", "text/plain").body(message)
}

fn json<T: serde::Serialize>(reply: &T) -> Response {
    let body = serde_json::to_vec(reply).expect("figures are numbers and strings");
    Response::new(200).field("Content-Type", "application/json").field("Cache-Control", "no-store").body(body)
}
