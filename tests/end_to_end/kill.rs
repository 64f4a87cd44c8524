//! A server that is killed at any moment and started again, under load and with files that are
//! replaced all the time, never sends a client a wrong byte: a file that a client has assembled
//! from several responses is one version of the file, complete and in order.
//!
//! `tests/kill` repeats it more often.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use crate::drivers::BOTH_DRIVERS;
use crate::process::{PATIENCE, Process, free_port, is_full, thalweg, until};

/// Files by their length in words of eight bytes: in memory whole, sent at once, sent in many
/// parts. The largest is more than kernels keep for a connection: what they have of a killed server
/// they still deliver, so that nothing smaller is sure to break off.
const FILES: [(&str, u32); 4] = [("tiny", 16), ("small", 1800), ("medium", 40_000), ("large", 1_600_000)];

const CLIENTS: u64 = 4;

/// Counts of the clients' downloads.
#[derive(Default)]
struct DownloadCounts {
    whole: AtomicU32,
    /// Answers that went on where another had broken off.
    resumed: AtomicU32,
}

/// Numbers that look random (xorshift64), for times and names.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Says that it is over, however that came: threads that went on would hold the end up.
struct StopOnDrop<'b>(&'b AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn killed_at_any_moment_it_never_sends_a_wrong_byte() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let kills = number("THALWEG_KILLS").unwrap_or(if is_full() { 200 } else { 20 });
    let seed = number("THALWEG_SEED")
        .unwrap_or_else(|| SystemTime::UNIX_EPOCH.elapsed().expect("it is later than 1970").as_nanos() as u64 | 1);
    #[expect(clippy::print_stdout, reason = "who runs it for longer wants to know what it did")]
    {
        println!("THALWEG_SEED={seed}");
    }
    let folder = TempDir::new().expect("a temporary folder can be made");
    for (name, words) in FILES {
        replace(folder.path(), name, words, 0);
    }
    let (address, done, is_over) =
        (SocketAddr::from(([127, 0, 0, 1], free_port())), DownloadCounts::default(), AtomicBool::new(false));
    let mut random = Random(seed);
    thread::scope(|scope| {
        let _over = StopOnDrop(&is_over);
        scope.spawn(|| {
            for version in 1.. {
                for (name, words) in FILES {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    replace(folder.path(), name, words, version);
                    // So rarely that most downloads that break off can go on with the same version.
                    thread::sleep(Duration::from_millis(70));
                }
            }
        });
        let clients: Vec<_> = (1..=CLIENTS)
            .map(|client| {
                let (done, is_over) = (&done, &is_over);
                let mut random = Random(seed.wrapping_mul(client + 1) | 1);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        download(address, FILES[random.below(FILES.len() as u64) as usize], done, is_over);
                    }
                })
            })
            .collect();
        let is_enough =
            || done.whole.load(Ordering::Relaxed) >= kills as u32 && done.resumed.load(Ordering::Relaxed) > 0;
        // A busy machine needs longer until enough downloads were met.
        for kill in (0..10 * kills).take_while(|kill| *kill <= kills || !is_enough()) {
            // Both drivers by turns: each has its own part of the kernel at work when it is killed.
            let driver = BOTH_DRIVERS[kill as usize % BOTH_DRIVERS.len()];
            let server = start(folder.path(), address, driver);
            thread::sleep(Duration::from_millis(random.below(120)));
            // It ends as all processes of a test do: by SIGKILL.
            drop(server);
            if clients.iter().any(thread::ScopedJoinHandle::is_finished) {
                break;
            }
        }
    });
    let (whole, resumed) = (done.whole.into_inner(), done.resumed.into_inner());
    #[expect(clippy::print_stdout, reason = "who runs it for longer wants to know what it did")]
    {
        println!("{kills} kills, {whole} downloads, {resumed} answers that went on with one");
    }
    assert!(whole >= kills as u32 && resumed >= 1, "{whole} downloads, {resumed} resumed: nothing was tested");
}

fn start(root: &Path, address: SocketAddr, driver: &str) -> Process {
    let (root, address) = (root.to_str().expect("temporary folders have plain names"), address.to_string());
    // The kernel may go on working for a process that was killed, the ring's operations above all,
    // and its sockets stay open until then.
    until("the port to be free", PATIENCE, || {
        let mut process = Process::start(&mut thalweg(&["serve", root, "--listen", &address, "--driver", driver]));
        until("the server to listen or to end", PATIENCE, || {
            (process.ended().is_some() || process.stdout().contains("listening on ")).then_some(())
        });
        let has_ended = process.ended().is_some();
        assert!(!has_ended || process.stderr().contains("in use"), "the server has ended: {}", process.stderr());
        (!has_ended).then_some(process)
    })
}

/// Replaces a file by a new version, atomically. Each word contains its version and its position.
fn replace(root: &Path, name: &str, words: u32, version: u32) {
    let mut content = Vec::with_capacity(words as usize * 8);
    for index in 0..words {
        content.extend_from_slice(&(u64::from(version) << 32 | u64::from(index)).to_be_bytes());
    }
    let new = root.join(format!("{name}.new"));
    fs::write(&new, content).and_then(|()| fs::rename(new, root.join(name))).expect("a file can be replaced");
}

/// Downloads a file as a persistent client does: after a loss it requests the rest, unless the file
/// has changed.
fn download(address: SocketAddr, (name, words): (&str, u32), done: &DownloadCounts, is_over: &AtomicBool) {
    let bytes = words as usize * 8;
    let (mut has, mut etag) = (Vec::new(), String::new());
    while has.len() < bytes {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        if let Err(lost) = fetch(address, name, &mut has, &mut etag, done) {
            assert!(lost.kind() != std::io::ErrorKind::InvalidData, "{name}: {lost}");
            thread::sleep(Duration::from_millis(2));
        }
    }
    assert_eq!(has.len(), bytes, "{name}");
    let version = &has[..4];
    for (index, word) in has.chunks(8).enumerate() {
        assert!(
            &word[..4] == version && word[4..] == (index as u32).to_be_bytes(),
            "{name}: word {index} of {version:?} is {word:?}"
        );
    }
    done.whole.fetch_add(1, Ordering::Relaxed);
}

/// Requests the missing part once, and appends the bytes received. An inconsistent response is
/// [`InvalidData`](std::io::ErrorKind).
fn fetch(
    address: SocketAddr,
    name: &str,
    has: &mut Vec<u8>,
    etag: &mut String,
    done: &DownloadCounts,
) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let from = has.len();
    let part = if from == 0 { String::new() } else { format!("Range: bytes={from}-\r\nIf-Range: {etag}\r\n") };
    stream.write_all(format!("GET /{name} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{part}\r\n").as_bytes())?;
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).map_err(std::io::Error::other)?;
    let wrong = || std::io::Error::new(std::io::ErrorKind::InvalidData, head.clone());
    let field = |name: &str| {
        let line = head.lines().find_map(|line| line.strip_prefix(name));
        line.map(|value| value.trim_start_matches(": ").to_owned()).ok_or_else(wrong)
    };
    if head.starts_with("HTTP/1.1 206 ") {
        if from == 0 || field("ETag")? != *etag || !field("Content-Range")?.starts_with(&format!("bytes {from}-")) {
            return Err(wrong());
        }
        done.resumed.fetch_add(1, Ordering::Relaxed);
    } else if head.starts_with("HTTP/1.1 200 ") {
        has.clear();
        *etag = field("ETag")?;
    } else {
        return Err(wrong());
    }
    let length: u64 = field("Content-Length")?.parse().map_err(|_| wrong())?;
    // Taken bit by bit, so that a kill meets downloads half way.
    let mut left = length;
    while left > 0 {
        let read = (&stream).take(left.min(64 << 10)).read_to_end(has)? as u64;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        left -= read;
        thread::sleep(Duration::from_micros(300));
    }
    Ok(())
}
