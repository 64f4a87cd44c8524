//! The path's capacity, measured by a bulk transfer from an observer on the server's host.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Connections of the transfer: one alone may be held up by its window.
const CONNECTIONS: usize = 4;
/// Time in which the connections come up to speed.
const WARM_UP: Duration = Duration::from_millis(500);
/// Time that is measured.
const MEASURED: Duration = Duration::from_millis(1_500);
/// Longest silence.
const PATIENCE: Duration = Duration::from_secs(5);

/// The transfer to make.
#[derive(Clone, Debug)]
pub struct PathCheck {
    /// The observer's address.
    pub peer: SocketAddr,
    /// The request for a body that is longer than the transfer lasts.
    pub request: Vec<u8>,
}

impl PathCheck {
    /// Bits per second that arrive over the path, above TCP.
    ///
    /// # Errors
    /// The peer cannot be reached, or its response is no transfer.
    pub fn capacity(&self) -> io::Result<f64> {
        capacity(self.peer, &self.request)
    }
}

fn capacity(peer: SocketAddr, request: &[u8]) -> io::Result<f64> {
    let begun = Instant::now();
    let counted = AtomicU64::new(0);
    let connections: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| {
            let mut stream = TcpStream::connect_timeout(&peer, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(request)?;
            Ok(stream)
        })
        .collect::<io::Result<_>>()?;
    thread::scope(|scope| {
        let receive = |stream| scope.spawn(|| receive(stream, begun, &counted));
        let threads: Vec<_> = connections.into_iter().map(receive).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    Ok(counted.into_inner() as f64 * 8.0 / MEASURED.as_secs_f64())
}

fn receive(mut stream: TcpStream, begun: Instant, counted: &AtomicU64) -> io::Result<()> {
    let mut buffer = vec![0; 256 * 1024];
    let head = stream.read(&mut buffer)?;
    let is_good = buffer[..head].split(|byte| *byte == b' ').nth(1) == Some(b"200");
    if !is_good {
        let line = String::from_utf8_lossy(&buffer[..head]);
        let line = line.lines().next().unwrap_or_default().to_owned();
        return Err(io::Error::other(format!("the observer's response is {line:?}")));
    }
    while begun.elapsed() < WARM_UP + MEASURED {
        let bytes = stream.read(&mut buffer)?;
        if bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if begun.elapsed() >= WARM_UP {
            counted.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A peer that answers so and then sends as fast as it can.
    fn peer(head: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || {
                    let mut stream = stream;
                    let _ = stream.read(&mut [0; 1024]);
                    let _ = stream.write_all(head.as_bytes());
                    while head.contains("200") && stream.write_all(&[0; 65536]).is_ok() {}
                });
            }
        });
        address
    }

    #[test]
    fn a_transfer_tells_the_capacity() {
        let bits =
            capacity(peer("HTTP/1.1 200 OK\r\n\r\n"), b"GET /path?bytes=1000000000000 HTTP/1.1\r\n\r\n").unwrap();
        assert!(bits > 1e6, "{bits}");
        let refused = capacity(peer("HTTP/1.1 401 Unauthorized\r\n\r\n"), b"GET / HTTP/1.1\r\n\r\n");
        assert!(refused.unwrap_err().to_string().contains("401"));
    }
}
