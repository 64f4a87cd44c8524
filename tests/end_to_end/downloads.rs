//! As many downloads as a busy mirror has, while the server is reloaded and upgraded under them.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use thalweg_sys::resource_limits::raise_descriptors;

use crate::content::numbered;
use crate::drivers::BOTH_DRIVERS;
use crate::operation::{Place, Successor, body, ended_well, said, started};
use crate::process::{PATIENCE, signal, until};

const DOWNLOADS: usize = 2000;

/// The half of it is more than the buffers between server and client hold, so that a download of
/// which the client has taken half is under way on the server too.
const FILE_BYTES: usize = 1_500_000;

/// A client behind a typical network, which reads at a given rate.
struct Download {
    stream: TcpStream,
    /// Of the body.
    received: usize,
    ended: bool,
}

impl Download {
    fn start(address: SocketAddr, expected: &[u8]) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        // Ethernet's segments: over loopback's own the kernel takes megabytes for a client that
        // reads nothing.
        socket.set_tcp_mss(1448).unwrap();
        socket.set_recv_buffer_size(32 << 10).unwrap();
        socket.connect(&address.into()).unwrap();
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"GET /download HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        let mut first = vec![0; 1000];
        stream.read_exact(&mut first).unwrap();
        let end = first.windows(4).position(|window| window == b"\r\n\r\n").expect("the head is shorter") + 4;
        assert!(first.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&first[..end]));
        assert!(first[end..] == expected[..first.len() - end], "the first bytes are wrong");
        stream.set_nonblocking(true).unwrap();
        Self { stream, received: first.len() - end, ended: false }
    }

    /// Takes what is there, up to `bound` bytes of the body in all. Whether there was something.
    fn take(&mut self, expected: &[u8], bound: usize, buffer: &mut [u8]) -> bool {
        let room = buffer.len().min(bound - self.received);
        if self.ended || room == 0 {
            return false;
        }
        match self.stream.read(&mut buffer[..room]) {
            Ok(0) => {
                assert_eq!(self.received, expected.len(), "the download was broken off");
                self.ended = true;
            }
            Ok(count) => {
                let at = self.received;
                assert!(expected.get(at..at + count) == Some(&buffer[..count]), "wrong bytes from byte {at} on");
                self.received += count;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) => panic!("after {} bytes: {error}", self.received),
        }
        true
    }
}

/// Reads all of them side by side: half of each file, and the other half once `rest` is set.
fn read_all(downloads: &mut [Download], expected: &[u8], rest: &AtomicBool) {
    let mut buffer = vec![0; 64 << 10];
    let mut progress = Instant::now();
    while downloads.iter().any(|download| !download.ended) {
        // One more than the file, so that surplus bytes would be seen.
        let bound = if rest.load(Ordering::Relaxed) { expected.len() + 1 } else { expected.len() / 2 };
        let mut any = false;
        for download in &mut *downloads {
            any |= download.take(expected, bound, &mut buffer);
        }
        if any {
            progress = Instant::now();
        }
        assert!(progress.elapsed() < PATIENCE, "nothing arrives any more");
        if !any {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn survive_upgrades_and_reloads() {
    // Many hosts give a shell fewer than these downloads and other tests need.
    raise_descriptors(2 * DOWNLOADS as u64).unwrap();
    let expected = numbered(FILE_BYTES);
    // Both drivers: each sends files in its own way, and ends in its own way.
    for driver in BOTH_DRIVERS {
        let place = Place::new();
        fs::write(place.path("root/download"), &expected).unwrap();
        let (mut server, address) =
            started(&["serve", &place.path("root"), "--listen", "127.0.0.1:0", "--driver", driver]);
        let mut downloads: Vec<_> =
            (0..DOWNLOADS).map(|_| Download::start(address.parse().unwrap(), &expected)).collect();
        let rest = AtomicBool::new(false);
        thread::scope(|scope| {
            let reader = scope.spawn(|| read_all(&mut downloads, &expected, &rest));
            server.signal("HUP");
            said(&server, "the configuration was reloaded");
            let first = Successor::of(&server);
            assert_eq!(body(&address, "/name"), b"first", "{driver}");
            // Once more, while the first process still sends.
            let idle = TcpStream::connect(&address).unwrap();
            signal("USR2", first.0);
            let second = Successor::nth(&server, 2);
            assert_eq!(body(&address, "/name"), b"first", "{driver}");
            // The server of the start is there as long as its downloads.
            assert!(server.ended().is_none(), "{driver}: {}", server.stderr());
            rest.store(true, Ordering::Relaxed);
            reader.join().unwrap_or_else(|failure| std::panic::resume_unwind(failure));
            ended_well(&server.wait(PATIENCE));
            drop(idle);
            until("the second server to end", PATIENCE, || (!first.is_alive()).then_some(()));
            assert_eq!(body(&address, "/name"), b"first", "{driver}");
            second.end();
            assert!(TcpStream::connect(&address).is_err(), "{driver}");
        });
    }
}
