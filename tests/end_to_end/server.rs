//! `thalweg serve` as a child process, with a tree of files to serve.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use crate::content::numbered;
use crate::process::{ExitedProcess, PATIENCE, Process, thalweg, until};

/// The content of `text.txt`.
pub(crate) const TEXT: &[u8] = b"0123456789";
/// A text that no response may contain.
pub(crate) const SECRET: &str = "not for the world";
/// Length of the sparse file, beyond what 32 bits count.
pub(crate) const SPARSE_BYTES: u64 = 5_000_000_000;
/// The bytes at its end.
pub(crate) const SPARSE_END: &[u8] = b"the end";

/// Ports are the kernel's choice.
const LISTEN: &[&str] = &["--listen", "127.0.0.1:0", "--listen", "[::1]:0"];

/// A folder with the tree in `root`, and a secret beside it.
pub(crate) struct Tree(TempDir);

impl Tree {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().expect("a temporary folder can be made");
        fill(&folder.path().join("root"));
        fs::write(folder.path().join("secret.txt"), SECRET).expect("a file can be written");
        Self(folder)
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.0.path().join("root")
    }
}

/// A running server.
pub(crate) struct Server {
    pub(crate) process: Process,
    /// Without a slash at the end.
    pub(crate) url: String,
    pub(crate) url_v6: String,
    /// `uring` or `epoll`, as the server reports it.
    pub(crate) driver: String,
}

impl Server {
    /// Starts to serve `root` and waits until it listens; what it has left behind if it has ended
    /// instead.
    pub(crate) fn start(
        root: &Path,
        options: &[&str],
        launch: impl FnOnce(&[&str]) -> Command,
    ) -> Result<Self, ExitedProcess> {
        let root = root.to_str().expect("temporary folders have plain names");
        Self::listening(launch(&[&["serve", root], LISTEN, options].concat()))
    }

    /// Starts what a configuration names, with the options beside it.
    pub(crate) fn configured(file: &Path, options: &[&str]) -> Self {
        let file = file.to_str().expect("temporary folders have plain names");
        Self::listening(thalweg(&[&["serve", "--config", file], LISTEN, options].concat()))
            .unwrap_or_else(|ended| panic!("the server has not started: {ended:?}"))
    }

    /// The same with another start of the process.
    pub(crate) fn configured_for(file: &Path, change: impl FnOnce(&mut Command)) -> Self {
        let file = file.to_str().expect("temporary folders have plain names");
        let mut command = thalweg(&[&["serve", "--config", file], LISTEN].concat());
        change(&mut command);
        Self::listening(command).unwrap_or_else(|ended| panic!("the server has not started: {ended:?}"))
    }

    /// Waits until both addresses are listened on.
    fn listening(mut command: Command) -> Result<Self, ExitedProcess> {
        let mut process = Process::start(&mut command);
        let said = until("the server to listen or to end", PATIENCE, || {
            let said = process.stdout();
            (said.matches("listening on ").count() >= 2 || process.ended().is_some()).then_some(said)
        });
        if process.ended().is_some() {
            return Err(process.wait(PATIENCE));
        }
        let urls: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("listening on ")).collect();
        let [url, url_v6] = [urls[0], urls[1]].map(|url| url.trim_end_matches('/').to_owned());
        let driver = said.lines().find_map(|line| line.rsplit_once(" over ")).map_or("", |(_, driver)| driver);
        Ok(Self { url, url_v6, driver: driver.to_owned(), process })
    }

    /// The same, where nothing can be against it.
    pub(crate) fn of(tree: &Tree, options: &[&str]) -> Self {
        Self::start(&tree.root(), options, thalweg)
            .unwrap_or_else(|ended| panic!("the server has not started: {ended:?}"))
    }

    /// Host and port.
    pub(crate) fn authority(&self) -> &str {
        self.url.trim_start_matches("http://")
    }
}

/// Larger than any buffer on the way.
pub(crate) fn large() -> Vec<u8> {
    numbered(3_000_000)
}

fn fill(root: &Path) {
    let files: [(&str, &[u8]); 14] = [
        ("index.html", b"<h1>front</h1>"),
        ("text.txt", TEXT),
        ("empty.txt", b""),
        ("with space.txt", b"space"),
        ("style.css", b"p {}"),
        ("script.js", b"0"),
        ("data.json", b"{}"),
        ("picture.png", b"png"),
        ("drawing.svg", b"<svg/>"),
        ("archive.tar.gz", b"gz"),
        ("nameless", b"?"),
        ("large.bin", &large()),
        ("folder/index.html", b"<h1>folder</h1>"),
        ("bare/file.txt", b"file"),
    ];
    for (name, bytes) in files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("a folder can be made");
        fs::write(&path, bytes).expect("a file can be written");
    }
    let sparse = File::create(root.join("sparse.bin")).expect("a file can be made");
    sparse.set_len(SPARSE_BYTES).expect("a sparse file can be made");
    sparse.write_all_at(SPARSE_END, SPARSE_BYTES - SPARSE_END.len() as u64).expect("its end can be written");
    symlink("text.txt", root.join("alias.txt")).expect("a link can be made");
    symlink("../secret.txt", root.join("leak.txt")).expect("a link can be made");
    symlink("..", root.join("leak")).expect("a link can be made");
    // Not just now: a file that may still change within the second has no strong date.
    let past = SystemTime::UNIX_EPOCH + Duration::from_secs(1_500_000_000);
    File::open(root.join("text.txt")).and_then(|file| file.set_modified(past)).expect("a file's date can be set");
}
