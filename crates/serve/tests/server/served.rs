//! A server of a temporary folder, and a client that sends bytes and reads bytes.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use thalweg_serve::{ListenAddr, Running, Server, ServerConfig, StartError};
use thalweg_sys::DriverChoice;

/// A server and its folder, which lasts as long.
pub(crate) struct Served {
    folder: TempDir,
    pub(crate) server: Running,
}

/// No response takes that long, whatever else the machine does: a test that waits longer has
/// failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The content of the file `letters`.
pub(crate) fn letters() -> Vec<u8> {
    (b'a'..=b'z').cycle().take(1000).collect()
}

/// Larger than any small file and than the bytes sent in one iteration.
pub(crate) fn large() -> Vec<u8> {
    (0..750_000u32).flat_map(u32::to_be_bytes).collect()
}

impl Served {
    /// A server over this driver; `None` if the kernel refuses it.
    pub(crate) fn start(driver: DriverChoice, change: impl FnOnce(&mut ServerConfig)) -> Option<Self> {
        let folder = TempDir::new().unwrap();
        fill(folder.path());
        let mut config = ServerConfig::new(folder.path(), ["127.0.0.1:0".parse::<SocketAddr>().unwrap()]);
        config.driver = driver;
        change(&mut config);
        match Server::start(config) {
            Ok(server) => Some(Self { folder, server }),
            Err(StartError::Driver(_)) if driver == DriverChoice::Uring => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// The folder that is served.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        tcp(&self.server.addresses()[0])
    }

    pub(crate) fn connect(&self) -> TcpStream {
        connect(self.address())
    }

    /// Sends a request, ends the direction, and reads to the end.
    pub(crate) fn exchange(&self, request: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        stream.write_all(request).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        read_to_end(&mut stream)
    }

    /// Stops the server. It must not have failed.
    pub(crate) fn stop(self) {
        self.server.stop();
        self.server.join().unwrap();
    }
}

/// Waits until something is there. `state` describes what is there instead.
#[track_caller]
pub(crate) fn wait_for<T>(state: impl Fn() -> String, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{}", state());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(|| what.to_owned(), || is_so().then_some(()));
}

/// Waits until every loop has replied.
pub(crate) fn await_liveness(server: &Running) {
    let mut check = server.check_liveness();
    until("a loop does not answer", || check.is_complete());
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

pub(crate) fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Both drivers, as far as the kernel grants them.
pub(crate) fn each_driver(test: impl Fn(DriverChoice)) {
    test(DriverChoice::Epoll);
    test(DriverChoice::Uring);
}

fn fill(folder: &Path) {
    let file = |name: &str, bytes: &[u8]| fs::write(folder.join(name), bytes).unwrap();
    fs::create_dir_all(folder.join("sub/with index")).unwrap();
    file("letters", &letters());
    file("large.bin", &large());
    file("empty.txt", b"");
    file(".hidden", b"hidden");
    file("with space.txt", b"space");
    file("sub/page.html", b"<p>page</p>");
    file("sub/with index/index.html", b"<p>index</p>");
    symlink("page.html", folder.join("sub/inside")).unwrap();
    symlink("../letters", folder.join("sub/up")).unwrap();
    symlink("/etc/passwd", folder.join("absolute")).unwrap();
    symlink("../../../../../../../../etc/passwd", folder.join("outside")).unwrap();
    symlink("/", folder.join("root")).unwrap();
    let status = std::process::Command::new("mkfifo").arg(folder.join("fifo")).status().unwrap();
    assert!(status.success());
    fs::File::create(folder.join("sparse")).unwrap().set_len(5 << 30).unwrap();
}

/// The TCP address that it is.
pub(crate) fn tcp(address: &ListenAddr) -> SocketAddr {
    match address {
        ListenAddr::Tcp(address) => *address,
        ListenAddr::Unix(path) => panic!("{} is no TCP address", path.display()),
    }
}
