//! A server that records its requests: target, time, connection and address of the client.
//!
//! It reads and responds in separate threads, so that it also sees requests that a client sends
//! before it has its responses. Its connections end with their clients.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    /// Since the server has begun to listen.
    pub(crate) at: Duration,
    /// The number of its connection, from 0.
    pub(crate) connection: usize,
    /// The address of the client, if it has one.
    pub(crate) from: Option<IpAddr>,
    /// Earlier requests of its connection without a response so far.
    pub(crate) ahead: usize,
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) version: String,
    /// Names in lower case.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// The response to a request.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    /// The whole response.
    pub(crate) text: String,
    /// Time before it is sent, from the one before, or from the request if that came later.
    pub(crate) after: Duration,
    /// Whether the server closes behind it.
    pub(crate) closes: bool,
}

/// A listening server. It stops to listen when dropped.
pub(crate) struct Recorder {
    address: Option<SocketAddr>,
    shared: Arc<Shared>,
}

struct Shared {
    begun: Instant,
    stopped: AtomicBool,
    accepted: AtomicUsize,
    received: Mutex<Vec<RecordedRequest>>,
    answer: Box<dyn Fn(&RecordedRequest) -> Response + Send + Sync>,
}

impl Response {
    /// A good one, at once.
    pub(crate) fn good(content: &str) -> Self {
        let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{content}", content.len());
        Self { text, after: Duration::ZERO, closes: false }
    }

    pub(crate) fn after(self, after: Duration) -> Self {
        Self { after, ..self }
    }
}

impl RecordedRequest {
    /// The value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(candidate, _)| candidate == name).map(|(_, value)| value.as_str())
    }
}

impl Recorder {
    /// Listens on a port of 127.0.0.1.
    pub(crate) fn start(answer: impl Fn(&RecordedRequest) -> Response + Send + Sync + 'static) -> Self {
        Self::on("127.0.0.1:0", answer)
    }

    /// Listens on an address.
    pub(crate) fn on(address: &str, answer: impl Fn(&RecordedRequest) -> Response + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(address).unwrap_or_else(|error| panic!("cannot listen on {address}: {error}"));
        let address = listener.local_addr().expect("a listener has an address");
        let shared = Arc::new(Shared::new(answer));
        let accept = move || {
            let (stream, from) = listener.accept()?;
            // A server that waits to fill segments would respond to pipelined requests late.
            stream.set_nodelay(true)?;
            Ok((stream, Some(from.ip())))
        };
        listen(shared.clone(), accept);
        Self { address: Some(address), shared }
    }

    /// Listens on a Unix socket.
    pub(crate) fn on_unix(
        listener: UnixListener,
        answer: impl Fn(&RecordedRequest) -> Response + Send + Sync + 'static,
    ) -> Self {
        let shared = Arc::new(Shared::new(answer));
        listen(shared.clone(), move || Ok((listener.accept()?.0, None)));
        Self { address: None, shared }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.map_or(0, |address| address.port())
    }

    pub(crate) fn url(&self, path: &str) -> String {
        self.address.map_or_else(|| format!("http://localhost{path}"), |address| format!("http://{address}{path}"))
    }

    /// All requests so far, in the order in which they came.
    pub(crate) fn received(&self) -> Vec<RecordedRequest> {
        self.shared.received.lock().expect("no thread panics with it").clone()
    }

    /// How many connections were made.
    pub(crate) fn connections(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        if let Some(address) = self.address {
            // Wakes the listener up.
            let _ = TcpStream::connect(address);
        }
    }
}

impl Shared {
    fn new(answer: impl Fn(&RecordedRequest) -> Response + Send + Sync + 'static) -> Self {
        Self {
            begun: Instant::now(),
            stopped: AtomicBool::new(false),
            accepted: AtomicUsize::new(0),
            received: Mutex::new(Vec::new()),
            answer: Box::new(answer),
        }
    }
}

/// A connection of either kind.
trait Line: Read + Write + Send + Sized + 'static {
    /// The same connection again.
    fn twin(&self) -> io::Result<Self>;
    /// Ends the server's direction.
    fn end(&self) -> io::Result<()>;
}

impl Line for TcpStream {
    fn twin(&self) -> io::Result<Self> {
        self.try_clone()
    }

    fn end(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl Line for UnixStream {
    fn twin(&self) -> io::Result<Self> {
        self.try_clone()
    }

    fn end(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

/// Takes connections for as long as there are some to take.
fn listen<L: Line>(shared: Arc<Shared>, accept: impl Fn() -> io::Result<(L, Option<IpAddr>)> + Send + 'static) {
    thread::spawn(move || {
        while let Ok((line, from)) = accept() {
            if shared.stopped.load(Ordering::SeqCst) {
                return;
            }
            let connection = shared.accepted.fetch_add(1, Ordering::SeqCst);
            let shared = shared.clone();
            // The client is free to go away in the middle.
            thread::spawn(move || converse(&line, &shared, connection, from).unwrap_or_default());
        }
    });
}

/// Reads the requests of a connection, and has another thread respond to them.
fn converse<L: Line>(line: &L, shared: &Arc<Shared>, connection: usize, from: Option<IpAddr>) -> io::Result<()> {
    let (asked, answering) = channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    let (replying, still_waiting, answers) = (line.twin()?, waiting.clone(), shared.clone());
    thread::spawn(move || reply(replying, &answers, &answering, &still_waiting).unwrap_or_default());
    let mut reader = BufReader::new(line.twin()?);
    while let Some(mut received) = read(&mut reader)? {
        received.at = shared.begun.elapsed();
        (received.connection, received.from) = (connection, from);
        received.ahead = waiting.fetch_add(1, Ordering::SeqCst);
        shared.received.lock().expect("no thread panics with it").push(received.clone());
        if asked.send(received).is_err() {
            break;
        }
    }
    Ok(())
}

fn reply(
    mut line: impl Line,
    shared: &Shared,
    asked: &Receiver<RecordedRequest>,
    waiting: &AtomicUsize,
) -> io::Result<()> {
    while let Ok(received) = asked.recv() {
        let answer = (shared.answer)(&received);
        thread::sleep(answer.after);
        // Before it can be seen, so that what it gives rise to cannot come ahead of it.
        waiting.fetch_sub(1, Ordering::SeqCst);
        line.write_all(answer.text.as_bytes())?;
        if answer.closes {
            return line.end();
        }
    }
    Ok(())
}

/// The next request; `None` at the end of the connection.
fn read(reader: &mut impl BufRead) -> io::Result<Option<RecordedRequest>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.trim_end().splitn(3, ' ').map(str::to_owned);
    let mut word = || words.next().unwrap_or_default();
    let mut received = RecordedRequest {
        at: Duration::ZERO,
        connection: 0,
        from: None,
        ahead: 0,
        method: word(),
        target: word(),
        version: word(),
        fields: Vec::new(),
        body: Vec::new(),
    };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        received.fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = received.field("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    received.body = vec![0; length];
    reader.read_exact(&mut received.body)?;
    Ok(Some(received))
}
