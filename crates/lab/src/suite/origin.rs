//! The origin behind a server under test that answers the dynamic requests of a load like
//! SPECweb99's. Minimal, bounded, and not SPEC-compliant: it makes as many bytes as the file that a
//! request names has, and rotates an advertisement in a cookie; it reads no file and keeps no log
//! of POST requests.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use thalweg_httpd::{Handler, Response, Server, Settings, WhenFull};
use thalweg_reactor::{App, LoopControl, run};
use thalweg_sys::driver::Listen;
use thalweg_sys::{AnyDriver, Completion, Driver, DriverChoice, DriverConfig, Instant, Waker};
use thalweg_wire::{Method, RequestHead};

/// Most connections at once: those of the server in front.
const CONNECTIONS_MAX: usize = 4096;
/// Most bytes of a response. The largest file of the tree is below it.
const BYTES_MAX: usize = 1 << 20;
/// Advertisements in the rotation.
const ADVERTISEMENTS: u64 = 360;

/// A running origin; dropping it ends it.
#[derive(Debug)]
pub struct OriginServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl OriginServer {
    /// Listens at `address` and answers.
    ///
    /// # Errors
    /// The address cannot be had, or the kernel refuses a thread or a driver.
    pub fn start(address: SocketAddr, driver: DriverChoice) -> io::Result<Self> {
        let waker = Waker::new()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (send, receive) = mpsc::channel();
        let config = DriverConfig::new(CONNECTIONS_MAX + 8, waker.clone());
        let ended = Arc::clone(&stop);
        let body = move || match AnyDriver::open(driver, &config) {
            Ok(AnyDriver::Uring(driver)) => serve(driver, address, ended, &send),
            Ok(AnyDriver::Epoll(driver)) => serve(driver, address, ended, &send),
            Err(error) => drop(send.send(Err(error))),
        };
        let thread = thread::Builder::new().name("suite-origin".to_owned()).spawn(body)?;
        let address = receive.recv().unwrap_or_else(|_| Err(io::Error::other("the origin's thread has ended")))?;
        Ok(Self { address, stop, waker, thread: Some(thread) })
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for OriginServer {
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
    stop: Arc<AtomicBool>,
    opened: &mpsc::Sender<io::Result<SocketAddr>>,
) {
    let settings =
        Settings { when_full: WhenFull::CloseOldest { connections_max: CONNECTIONS_MAX }, ..Settings::default() };
    let content = vec![b'x'; BYTES_MAX];
    let server = Server::new(settings, move |request: &RequestHead<'_>| respond(request, &content));
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

impl<D: Driver, H: Handler> App<D> for StoppedApp<H> {
    fn on_completion(&mut self, driver: &mut D, completion: Completion) {
        self.server.on_completion(driver, completion);
    }

    fn on_iteration(&mut self, driver: &mut D, now: Instant) -> LoopControl {
        if self.stop.load(Ordering::Acquire) { LoopControl::Stop } else { self.server.on_iteration(driver, now) }
    }
}

/// The response to a dynamic request; its body's bytes are the first ones of `content`.
fn respond(request: &RequestHead<'_>, content: &[u8]) -> Response {
    let target = str::from_utf8(request.target).unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let kind = path.rsplit('/').next().unwrap_or_default();
    let is_post = match (kind, request.method) {
        ("get" | "ad" | "cgi", Method::Get | Method::Head) => false,
        ("post", Method::Post) => true,
        ("get" | "ad" | "cgi" | "post", _) => return text(405, "get, ad and cgi are for GET, post is for POST\n"),
        _ => return text(404, "there are get, ad, cgi and post, each with ?file=PATH&bytes=N\n"),
    };
    let bytes = parameter(query, "bytes").and_then(|bytes| bytes.parse().ok());
    let Some(bytes) = bytes.filter(|bytes: &usize| *bytes <= content.len()) else {
        return text(400, "bytes is a number of at most 1048576\n");
    };
    let cookie = request.fields.get("cookie").and_then(|cookie| str::from_utf8(cookie).ok()).unwrap_or_default();
    let response = Response::new(200).field("Content-Type", "text/html").field("Cache-Control", "no-store");
    let response = match kind {
        "ad" => response.field("Set-Cookie", next_advertisement(cookie)),
        _ if is_post => response.field("Set-Cookie", cookie_of(parameter(cookie, "user_id").unwrap_or("0"), 0)),
        _ => response,
    };
    response.body(content[..bytes].to_vec())
}

/// The cookie with the advertisement after the one that it names.
fn next_advertisement(cookie: &str) -> String {
    let user = parameter(cookie, "user_id").filter(|user| user.bytes().all(|byte| byte.is_ascii_digit()));
    let last: u64 = parameter(cookie, "last_ad").and_then(|last| last.parse().ok()).unwrap_or(0);
    cookie_of(user.unwrap_or("0"), last.wrapping_add(1) % ADVERTISEMENTS)
}

fn cookie_of(user: &str, advertisement: u64) -> String {
    let digits: String = user.chars().filter(char::is_ascii_digit).collect();
    format!("my_cookie=user_id={digits}&last_ad={advertisement}")
}

/// The value of a parameter of a query or a cookie.
fn parameter<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let text = text.strip_prefix("my_cookie=").unwrap_or(text);
    text.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

fn text(status: u16, message: &'static str) -> Response {
    Response::new(status).field("Content-Type", "text/plain").body(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    /// The response to one request, as text.
    fn ask(origin: &OriginServer, request: &str) -> String {
        let mut stream = TcpStream::connect(origin.address()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    #[test]
    fn dynamic_requests_are_answered() {
        let origin = OriginServer::start("127.0.0.1:0".parse().unwrap(), DriverChoice::Epoll).unwrap();
        let check = |request: &str, status: &str, parts: &[&str], bytes: usize| {
            let response = ask(&origin, request);
            assert!(response.starts_with(&format!("HTTP/1.1 {status}")), "{request}: {response}");
            let (head, body) = response.split_once("\r\n\r\n").unwrap();
            assert!(parts.iter().all(|part| head.contains(part)), "{request}: {head}");
            assert!(bytes == 0 || body.len() == bytes, "{request}: {} bytes", body.len());
        };
        let end = "HTTP/1.1\r\nHost: a\r\nConnection: close\r\n";
        check(&format!("GET /x/get?file=a&bytes=1000 {end}\r\n"), "200", &[], 1000);
        check(&format!("GET /cgi?file=a&bytes=0 {end}\r\n"), "200", &["Content-Length: 0"], 0);
        let cookie = "Cookie: my_cookie=user_id=10001&last_ad=359\r\n";
        let rotated = ["Set-Cookie: my_cookie=user_id=10001&last_ad=0"];
        check(&format!("GET /x/ad?file=a&bytes=7 {end}{cookie}\r\n"), "200", &rotated, 7);
        check(&format!("POST /post?file=a&bytes=9 {end}{cookie}Content-Length: 3\r\n\r\na=b"), "200", &rotated, 9);
        check(&format!("GET /post?file=a&bytes=9 {end}\r\n"), "405", &[], 0);
        check(&format!("GET /other {end}\r\n"), "404", &[], 0);
        for wrong in ["", "?bytes=x", "?bytes=1048577", "?bytes=-1"] {
            check(&format!("GET /get{wrong} {end}\r\n"), "400", &[], 0);
        }
    }
}
