//! The servers that the transcripts are held against, and the tree that both of them serve.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::case::Known;
use super::talk::{Conversation, PROBE_BODY};
use crate::process::{PATIENCE, Process, program, until};
use crate::server::SECRET;

/// When the files of the tree were last changed: Fri, 14 Jul 2017 02:40:00 GMT.
const CHANGED_S: u64 = 1_500_000_000;

/// Content of `text.txt`, and of the file with checksums.
const TEXT: &str = "0123456789";
const TEXT_SHA256: &str = "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882";
const TEXT_SHA512: &str = "bb96c2fc40d2d54617d6f276febe571f623a8dadf0b734855299b0e107fda32c\
                           f6b69f2da32b36445d73690b93cbd0f7bfc20e0f7f28553d2a4428f23b716e90";

/// A server under test.
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    known: RefCell<HashMap<(Known, String), String>>,
}

impl Peer {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, known: RefCell::default() }
    }

    /// Values of a file that only the server knows.
    pub(crate) fn known(&self, what: Known, path: &str) -> String {
        let key = (what, path.to_owned());
        if let Some(value) = self.known.borrow().get(&key) {
            return value.clone();
        }
        let mut conversation = Conversation::begin(self.address);
        conversation.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").as_bytes());
        let response = conversation.response(false).expect("a sound response").expect("a response");
        let name = match what {
            Known::Etag => "ETag",
            Known::Modified => "Last-Modified",
        };
        let value = response.field(name).unwrap_or_else(|| panic!("{path} has no {name}: {response:?}")).to_owned();
        self.known.borrow_mut().insert(key, value.clone());
        value
    }
}

/// Fills a folder: the tree in `root`, and a secret beside it.
pub(crate) fn fill(folder: &Path) -> PathBuf {
    let root = folder.join("root");
    let letters = ('a'..='z').collect::<String>();
    let large: Vec<u8> = (0..750_000u32).flat_map(u32::to_be_bytes).collect();
    let more_sums = format!("{TEXT_SHA512}  text.txt\n");
    let sums = format!("{TEXT_SHA256}  text.txt\n{TEXT_SHA256} *binary.txt\n{}  stale.txt\n", "0".repeat(64));
    let files: [(&str, &[u8]); 39] = [
        ("index.html", b"<h1>front</h1>"),
        ("probe.txt", PROBE_BODY),
        ("text.txt", TEXT.as_bytes()),
        ("letters", letters.as_bytes()),
        ("empty.txt", b""),
        ("large.bin", &large),
        ("with space.txt", b"space"),
        ("per%cent.txt", b"percent"),
        ("ques?tion.txt", b"question"),
        ("ha#sh.txt", b"hash"),
        ("plus+.txt", b"plus"),
        ("semi;colon=1.txt", b"semicolon"),
        ("a&b'c'.txt", b"sub-delims"),
        ("back\\slash.txt", b"backslash"),
        ("n\u{e4}me.txt", b"umlaut"),
        ("tilde~.txt", b"tilde"),
        ("archive.tar.gz", b"archive"),
        ("style.css", b"p {}"),
        ("folder/index.html", b"<h1>folder</h1>"),
        ("folder/page.html", b"<p>page</p>"),
        ("fold er/index.html", b"<h1>fold er</h1>"),
        ("bare/file.txt", b"file"),
        (".hidden", SECRET.as_bytes()),
        (".well-known/security.txt", b"Contact: mailto:a@example.org"),
        ("packed/all.html", b"plain"),
        ("packed/all.html.gz", b"by gzip"),
        ("packed/all.html.br", b"by brotli"),
        ("packed/all.html.zst", b"by zstandard"),
        ("packed/gz.html", b"plain"),
        ("packed/gz.html.gz", b"by gzip"),
        ("packed/none.html", b"plain"),
        ("sums/text.txt", TEXT.as_bytes()),
        ("sums/stale.txt", b"other"),
        ("sums/SHA256SUMS", sums.as_bytes()),
        ("sums/SHA512SUMS", more_sums.as_bytes()),
        ("sums/none.txt", b"none"),
        ("ruled/a.txt", b"ruled"),
        ("ruled/a.iso", b"image"),
        ("second/text.txt", b"second"),
    ];
    for (name, bytes) in files {
        put(&root.join(name), bytes, CHANGED_S);
    }
    // A file that is younger than its description has changed since.
    put(&root.join("sums/stale.txt"), b"stale", CHANGED_S + 1000);
    put(&root.join("packed/stale.html"), b"plain", CHANGED_S + 1000);
    put(&root.join("packed/stale.html.gz"), b"old", CHANGED_S);
    put(&folder.join("secret.txt"), SECRET.as_bytes(), CHANGED_S);
    for (target, name) in [
        ("text.txt", "alias.txt"),
        ("../text.txt", "folder/alias.txt"),
        ("file.txt", "bare/alias.txt"),
        ("folder", "way"),
        ("../secret.txt", "leak.txt"),
        ("..", "leak"),
        ("/etc/passwd", "absolute"),
        ("/", "top"),
        ("/proc/self/root", "magic"),
        ("loop", "loop"),
        ("missing", "dangling"),
    ] {
        symlink(target, root.join(name)).expect("a link can be made");
    }
    let made = Command::new("mkfifo").arg(root.join("fifo")).status().expect("mkfifo can be run");
    assert!(made.success(), "mkfifo has failed");
    root
}

fn put(path: &Path, bytes: &[u8], changed_s: u64) {
    fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("a folder can be made");
    fs::write(path, bytes).expect("a file can be written");
    let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(changed_s);
    File::open(path).and_then(|file| file.set_modified(changed)).expect("a file's date can be set");
}

/// nginx, set up as the transcripts expect a server to be, as far as it can be: a master and one
/// worker.
pub(crate) struct Nginx {
    pub(crate) peer: Peer,
    process: Process,
}

impl Nginx {
    /// Starts it over a tree that [`fill`] has made in `folder`.
    pub(crate) fn start(folder: &Path) -> Self {
        // It inherits its socket, so that no other process can take the port between our choice and
        // its start.
        let listener = TcpListener::bind("127.0.0.1:0").expect("the kernel has a port");
        listener.set_nonblocking(true).expect("a listener can be made non-blocking");
        let address = listener.local_addr().expect("a listener has an address");
        let file = folder.join("nginx.conf");
        fs::write(&file, configuration(folder, address)).expect("a file can be written");
        let mut command = Command::new(program(&["nginx"], "nginx"));
        command.arg("-p").arg(folder).arg("-c").arg(file);
        command.env("NGINX", "0;").stdin(Stdio::from(OwnedFd::from(listener)));
        let process = Process::start(&mut command);
        // The command still holds the socket; without this a dead nginx would seem to listen.
        drop(command);
        // The socket listened before nginx was started; a response to a probe shows that nginx is
        // ready.
        let peer = Peer::new(address);
        assert_eq!(peer.known(Known::Modified, "/probe.txt"), "Fri, 14 Jul 2017 02:40:00 GMT", "{}", process.stderr());
        Self { peer, process }
    }

    /// Its name and version.
    pub(crate) fn version() -> String {
        let said = Process::start(Command::new(program(&["nginx"], "nginx")).arg("-v")).wait(PATIENCE).stderr;
        said.trim().trim_start_matches("nginx version: ").replace('/', " ")
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // A master that is killed would leave its worker behind.
        self.process.signal("TERM");
        until("nginx to end", PATIENCE, || self.process.ended());
    }
}

/// The same tree, types and settings as ours; limits that are the same where nginx has them.
fn configuration(folder: &Path, address: SocketAddr) -> String {
    let folder = folder.display();
    format!(
        "daemon off; worker_processes 1; user root root; pid {folder}/nginx.pid; error_log {folder}/error.log;
         events {{ worker_connections 1024; }}
         http {{
             types {{ text/html html; text/plain txt; text/css css; application/gzip gz; }}
             default_type application/octet-stream;
             charset utf-8;
             access_log off;
             client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
             uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
             absolute_redirect off;
             client_max_body_size 64k;
             large_client_header_buffers 4 8k;
             lingering_timeout 100ms;
             server {{
                 listen {address};
                 root {folder}/root;
                 location / {{ }}
                 location ~ /\\.(?!well-known/) {{ return 404; }}
                 location /packed/ {{ gzip_static on; gzip_vary on; }}
                 location /ruled/ {{ add_header X-Content-Type-Options nosniff; add_header Cache-Control 'public, max-age=3600'; }}
                 location ~ ^/ruled/.*\\.iso$ {{
                     types {{ }}
                     default_type application/x-iso9660-image;
                     add_header X-Content-Type-Options nosniff; add_header Cache-Control immutable;
                 }}
             }}
             server {{
                 listen {address};
                 server_name second.example *.wild.example;
                 location / {{ root {folder}/root/second; }}
                 location /up/ {{ alias {folder}/root/folder/; }}
                 location /up/higher/ {{ disable_symlinks on; alias {folder}/root/bare/; }}
             }}
         }}"
    )
}

/// Writes Thalweg's configuration, which names the roots, into a folder that [`fill`] has filled.
pub(crate) fn configure(folder: &Path) -> PathBuf {
    let file = folder.join("thalweg.toml");
    fs::copy(super::case::folder().join("thalweg.toml"), &file).expect("a file can be copied");
    file
}

/// A folder that has been filled, for as long as it is needed.
pub(crate) struct Tree {
    pub(crate) folder: TempDir,
    pub(crate) root: PathBuf,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().expect("a temporary folder can be made");
        let root = fill(folder.path());
        Self { folder, root }
    }
}
