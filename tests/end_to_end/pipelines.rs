//! Clients with long pipelines, and what another client notices of them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::drivers::BOTH_DRIVERS;
use crate::process::PATIENCE;
use crate::repetition::{ensure, repeated};
use crate::server::{Server, Tree};

/// Sends a pipeline again and again, and reads what comes of it.
fn pipeline(authority: &str, request: &str, count: usize, is_over: &AtomicBool) {
    let pipeline = request.repeat(count);
    let mut sender = TcpStream::connect(authority).unwrap();
    let mut reader = sender.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut buffer = vec![0; 1 << 18];
            while reader.read(&mut buffer).is_ok_and(|read| read > 0) {}
        });
        while !is_over.load(Relaxed) && sender.write_all(pipeline.as_bytes()).is_ok() {}
        sender.shutdown(std::net::Shutdown::Both).unwrap();
    });
}

/// How long small requests take in the median beside ten pipelines.
fn median_beside(server: &Server, request: &str, count: usize) -> Duration {
    const ANSWERS: usize = 100;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| pipeline(server.authority(), request, count, &is_over));
        }
        thread::sleep(Duration::from_millis(500));
        let mut stream = TcpStream::connect(server.authority()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut times: Vec<Duration> = (0..ANSWERS)
            .map(|_| {
                let begun = Instant::now();
                stream.write_all(b"GET /text.txt HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
                let mut bytes = Vec::new();
                while !bytes.ends_with(b"0123456789") {
                    let mut buffer = [0; 1024];
                    let read = stream.read(&mut buffer).unwrap();
                    assert!(read > 0, "closed after {}", bytes.escape_ascii());
                    bytes.extend_from_slice(&buffer[..read]);
                }
                begun.elapsed()
            })
            .collect();
        is_over.store(true, Relaxed);
        times.sort_unstable();
        times[ANSWERS / 2]
    })
}

/// A CPU that this process may use, of which one loop is enough.
fn first_cpu() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    cpus.split([',', '-']).next().unwrap().to_owned()
}

/// These tests need all CPUs: nextest runs each of them by itself.
mod alone {
    use super::*;

    /// Before work was shared out, a server over epoll took 200 to 1000 ms for a small request
    /// beside pipelined ranges of a large file, and hundreds beside pipelined HEADs.
    #[test]
    fn a_small_request_does_not_wait_for_the_pipelines_of_others() {
        let tree = Tree::new();
        let ranges: Vec<String> = (0..64).map(|number| format!("{}-{0}", 2 * number)).collect();
        let of_ranges = format!("GET /large.bin HTTP/1.1\r\nHost: h\r\nRange: bytes={}\r\n\r\n", ranges.join(","));
        // Both drivers: each shares out the work of a loop in its own way.
        for driver in BOTH_DRIVERS {
            let server = Server::of(&tree, &["--driver", driver, "--cores", &first_cpu()]);
            for (request, count) in [("HEAD /text.txt HTTP/1.1\r\nHost: h\r\n\r\n", 20_000), (of_ranges.as_str(), 500)]
            {
                repeated(|| {
                    let median = median_beside(&server, request, count);
                    ensure(median < Duration::from_millis(60), || format!("{driver}: {median:?} beside {request}"))
                });
            }
        }
    }
}
