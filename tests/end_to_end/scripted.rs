//! A server that follows a test's script, conforming or not.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// The action of a connection upon a request.
#[derive(Clone, Copy)]
pub(crate) enum Act {
    /// Sends this, and waits for the next request.
    Answer(&'static str),
    /// The same, but only after this time.
    AnswerAfter(Duration, &'static str),
    /// Sends this, and once more after this time.
    AnswerTwice(&'static str, Duration),
    /// Sends this and closes.
    AnswerAndClose(&'static str),
    /// Resets the connection.
    Reset,
    /// Says nothing.
    KeepSilent,
}

/// A complete and good response.
pub(crate) const GOOD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A listening server. It stops to listen when dropped; its connections end with their clients.
pub(crate) struct ScriptedServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    stopped: AtomicBool,
    requests: AtomicUsize,
    /// Stops to listen once so many requests have come.
    requests_max: usize,
    script: fn(usize) -> Act,
}

impl ScriptedServer {
    /// Starts a server; `script` returns the action for the request with this number, from 0.
    pub(crate) fn start(script: fn(usize) -> Act) -> Self {
        Self::start_for(usize::MAX, script)
    }

    /// The same, but it no longer listens once so many requests have come.
    pub(crate) fn start_for(requests_max: usize, script: fn(usize) -> Act) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the kernel has a port");
        let address = listener.local_addr().expect("a listener has an address");
        let requests = AtomicUsize::new(0);
        let shared = Arc::new(Shared { stopped: AtomicBool::new(false), requests, requests_max, script });
        let for_thread = Arc::clone(&shared);
        thread::spawn(move || listen(&listener, &for_thread));
        Self { address, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// How many requests have come.
    pub(crate) fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::SeqCst)
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.shared.stop(self.address);
    }
}

impl Shared {
    fn stop(&self, address: SocketAddr) {
        self.stopped.store(true, Ordering::SeqCst);
        // Wakes the listener up. It may have ended already.
        let _ = TcpStream::connect(address);
    }
}

fn listen(listener: &TcpListener, shared: &Arc<Shared>) {
    let address = listener.local_addr().expect("a listener has an address");
    while let Ok((stream, _)) = listener.accept() {
        if shared.stopped.load(Ordering::SeqCst) {
            return;
        }
        let shared = Arc::clone(shared);
        // The client is free to go away in the middle.
        thread::spawn(move || converse(stream, &shared, address).unwrap_or_default());
    }
}

fn converse(mut stream: TcpStream, shared: &Shared, address: SocketAddr) -> io::Result<()> {
    loop {
        // Only looked at, so that what is to be reset still has unread bytes: closing then resets.
        let mut peeked = [0; 4096];
        let length = stream.peek(&mut peeked)?;
        if length == 0 {
            return Ok(());
        }
        let Some(end) = peeked[..length].windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
        let number = shared.requests.fetch_add(1, Ordering::SeqCst);
        if number + 1 == shared.requests_max {
            shared.stop(address);
        }
        let act = (shared.script)(number);
        if let Act::Reset = act {
            return Ok(());
        }
        stream.read_exact(&mut peeked[..end + 4])?;
        match act {
            Act::Answer(text) => stream.write_all(text.as_bytes())?,
            Act::AnswerAfter(time, text) => {
                thread::sleep(time);
                stream.write_all(text.as_bytes())?;
            }
            Act::AnswerTwice(text, time) => {
                stream.write_all(text.as_bytes())?;
                thread::sleep(time);
                stream.write_all(text.as_bytes())?;
            }
            Act::AnswerAndClose(text) => return stream.write_all(text.as_bytes()),
            Act::KeepSilent | Act::Reset => {}
        }
    }
}
