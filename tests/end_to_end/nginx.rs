//! A real nginx with a configuration of its own in a temporary folder.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::authority::Authority;
use crate::process::{PATIENCE, Process, free_port, program, signal, until};

/// Length of each file in the tree.
pub(crate) const FILE_BYTES: usize = 512;
/// How many there are: `/000.txt` and so on.
pub(crate) const FILES: usize = 100;
/// SHA-256 of each file: 512 times the letter x.
pub(crate) const FILE_SHA256: &str = "64164443bb63e338ef1cfdb12a57117cd1212270cc935a798f6e8a665cdf4659";

/// A running nginx: one master, one worker.
pub(crate) struct Nginx {
    process: Process,
    worker: u32,
    folder: TempDir,
    address: SocketAddr,
    /// Its other address, if it has one.
    other: Option<SocketAddr>,
}

/// A line of its access log.
#[derive(Debug)]
pub(crate) struct Entry {
    /// nginx's own number of the connection.
    pub(crate) connection: u64,
    /// Which request on this connection it was, from 1.
    pub(crate) request: u64,
    pub(crate) method: String,
    pub(crate) status: u16,
    pub(crate) uri: String,
}

impl Nginx {
    /// Starts it and waits until it responds.
    pub(crate) fn start() -> Self {
        Self::launch(None)
    }

    /// The same with another address, whose listener has these parameters: `ssl`, `http2` or both.
    /// `directives` belong to the server there.
    pub(crate) fn with_listener(parameters: &str, directives: &str) -> Self {
        // It cannot inherit two sockets from a test.
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        Self::launch(Some((address, parameters, directives)))
    }

    fn launch(other: Option<(SocketAddr, &str, &str)>) -> Self {
        let folder = TempDir::new().expect("a temporary folder can be made");
        // It inherits its socket, so that no other process can take the port between our choice and
        // its start.
        let listener = TcpListener::bind("127.0.0.1:0").expect("the kernel has a port");
        listener.set_nonblocking(true).expect("a listener can be made non-blocking");
        let address = listener.local_addr().expect("a listener has an address");
        write_tree(folder.path(), address, other);
        let mut command = Command::new(program(&["nginx"], "nginx"));
        command.arg("-p").arg(folder.path()).arg("-c").arg(folder.path().join("nginx.conf"));
        command.env("NGINX", "0;").stdin(Stdio::from(OwnedFd::from(listener)));
        let mut process = Process::start(&mut command);
        // The command still holds the socket; without this a dead nginx would seem to listen.
        drop(command);
        let worker = until("nginx to answer", PATIENCE, || {
            assert!(process.ended().is_none(), "nginx has ended: {}", process.stderr());
            child_of(process.id()).filter(|_| answers(address))
        });
        Self { process, worker, folder, address, other: other.map(|(address, ..)| address) }
    }

    /// A URL at its other address.
    pub(crate) fn other_url(&self, scheme: &str, path: &str) -> String {
        let address = self.other.expect("it has another address");
        format!("{scheme}://{address}{path}")
    }

    /// The file with the authority that has issued its certificate.
    pub(crate) fn authority(&self) -> String {
        self.folder.path().join("ca.pem").to_str().expect("temporary folders have plain names").to_owned()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Puts a file into its tree.
    pub(crate) fn add_file(&self, name: &str, content: &[u8]) {
        fs::write(self.folder.path().join("root").join(name), content).expect("a file can be written");
    }

    /// The process that responds.
    pub(crate) fn worker(&self) -> u32 {
        self.worker
    }

    /// The access log as far as it is written. A last line without its end is left out.
    pub(crate) fn log(&self) -> Vec<Entry> {
        let text = fs::read_to_string(self.folder.path().join("access.log")).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(Entry::parse).collect()
    }

    /// Lets it finish and gives the whole log.
    pub(crate) fn finish(mut self) -> Vec<Entry> {
        self.process.signal("QUIT");
        until("nginx to quit", PATIENCE, || self.process.ended());
        self.log()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        if self.process.ended().is_some() {
            return;
        }
        // The worker, which a test may have stopped, would outlive a killed master. Not through
        // `signal`: a second panic while a failed test unwinds would hide the first.
        let script = format!("kill -CONT {0}; kill -KILL {1} {0}", self.worker, self.process.id());
        let _ = Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status();
    }
}

/// Stops a process for as long as it lives.
pub(crate) struct PausedProcess(u32);

impl PausedProcess {
    pub(crate) fn now(pid: u32) -> Self {
        signal("STOP", pid);
        Self(pid)
    }

    /// Lets it go on.
    pub(crate) fn resume(self) {
        signal("CONT", self.0);
    }
}

impl Entry {
    fn parse(line: &str) -> Self {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse().unwrap_or_else(|_| panic!("access log: {line:?}"));
        Self {
            connection: number(0),
            request: number(1),
            method: words[2].to_owned(),
            status: number(3) as u16,
            uri: words[4].to_owned(),
        }
    }
}

fn write_tree(folder: &Path, address: SocketAddr, other: Option<(SocketAddr, &str, &str)>) {
    let root = folder.join("root");
    fs::create_dir(&root).expect("a folder can be made");
    for number in 0..FILES {
        fs::write(root.join(format!("{number:03}.txt")), "x".repeat(FILE_BYTES)).expect("a file can be written");
    }
    fs::write(root.join("included.html"), "y".repeat(FILE_BYTES)).expect("a file can be written");
    let authority = Authority::root("root");
    let issued = authority.server(&["127.0.0.1"]);
    for (name, content) in [("ca.pem", &authority.pem), ("cert.pem", &issued.pem), ("key.pem", &issued.key)] {
        fs::write(folder.join(name), content).expect("a file can be written");
    }
    fs::write(folder.join("nginx.conf"), configuration(folder, address, other)).expect("a file can be written");
}

fn configuration(folder: &Path, address: SocketAddr, other: Option<(SocketAddr, &str, &str)>) -> String {
    let folder = folder.display();
    let other = other.map_or_else(String::new, |(address, parameters, directives)| {
        format!(
            "server {{
                 listen {address} {parameters}; root {folder}/root; {directives}
                 ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
             }}"
        )
    });
    format!(
        "daemon off; worker_processes 1; user root root; pid {folder}/nginx.pid; error_log stderr warn;
         events {{ worker_connections 4096; }}
         http {{
             types {{ text/html html; text/plain txt; }}
             log_format counted '$connection $connection_requests $request_method $status $uri';
             access_log {folder}/access.log counted;
             client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
             uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
             keepalive_requests 1000000000;
             server {{
                 listen {address};
                 root {folder}/root;
                 location = /answers {{ access_log off; return 204; }}
                 # Includes change the length, so these come in chunks, or to the end of the connection in HTTP/1.0.
                 location = /included.html {{ ssi on; }}
             }}
             {other}
         }}"
    )
}

/// The one child of a process.
fn child_of(pid: u32) -> Option<u32> {
    let folders = fs::read_dir("/proc").expect("/proc can be read").flatten();
    let mut pids = folders.filter_map(|folder| folder.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|candidate| {
        let stat = fs::read_to_string(format!("/proc/{candidate}/stat")).unwrap_or_default();
        // Behind the name, which may hold anything: state and parent.
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        parent == Some(pid)
    })
}

fn answers(address: SocketAddr) -> bool {
    let asked = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"GET /answers HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    asked().is_ok_and(|answer| answer.contains(" 204 "))
}
