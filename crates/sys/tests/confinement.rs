//! The sandbox as a process feels it. Alone in its program, because what is taken away here is
//! taken from all of it.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use tempfile::TempDir;
use thalweg_sys::Root;
use thalweg_sys::inotify::{Event, Inotify};
use thalweg_sys::sandbox::{Enforcement, FileAccess, confine_calls, confine_files};

/// A folder that is removed at the end by a thread started before the sandbox: sandboxed threads
/// have no right to do it.
struct Folder {
    path: PathBuf,
    ends: Option<mpsc::Sender<()>>,
    janitor: Option<JoinHandle<()>>,
}

impl Folder {
    fn new() -> Self {
        let (ends, end) = mpsc::channel::<()>();
        let folder = TempDir::new().unwrap();
        let path = folder.path().to_owned();
        let work = move || {
            // The other end closes without a request.
            let _ = end.recv();
            folder.close().unwrap();
        };
        Self { path, ends: Some(ends), janitor: Some(thread::spawn(work)) }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.ends.take());
        let removed = self.janitor.take().map(JoinHandle::join);
        assert!(thread::panicking() || matches!(removed, Some(Ok(()))), "the folder stays");
    }
}

#[test]
fn rights_given_up_are_gone_and_the_rest_works() {
    let guard = Folder::new();
    let folder = &guard.path;
    fs::create_dir_all(folder.join("read")).unwrap();
    fs::write(folder.join("read/file"), "content").unwrap();
    fs::write(folder.join("outside"), "secret").unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    Command::new("true").status().expect("programs can be started");

    let root = Root::open(folder).unwrap();
    for name in ["log", "run", "state", "write"] {
        fs::create_dir_all(folder.join(name)).unwrap();
        fs::write(folder.join(name).join("secret"), "secret").unwrap();
    }
    fs::write(folder.join("log/log"), "line\n").unwrap();
    let file_access = FileAccess {
        readable: vec![folder.join("read"), folder.join("write")],
        appended: vec![folder.join("log/log")],
        replaced: vec![folder.join("run/pid")],
        kept: vec![folder.join("state/state"), folder.join("write/new")],
        sockets: vec![folder.join("run/socket")],
        connects: false,
    };
    let enforced = confine_files(&file_access).unwrap();
    if enforced != Enforcement::None {
        // Files: also for a thread that starts from here.
        let denied = |path: &str| fs::read(folder.join(path)).unwrap_err().kind() == ErrorKind::PermissionDenied;
        thread::scope(|scope| assert!(scope.spawn(|| denied("outside")).join().unwrap()));
        assert!(denied("/etc/passwd") && denied("/proc/self/status"));
        assert_eq!(fs::read(folder.join("read/file")).unwrap(), b"content");
        assert!(fs::write(folder.join("read/file"), "changed").is_err());
        fs::write(folder.join("read/new"), "made").unwrap_err();
        // A log grows, is cut off, and is made anew. What else lies in its folder is not read and
        // not removed.
        let append = || fs::OpenOptions::new().append(true).create(true).open(folder.join("log/log"));
        append().unwrap().write_all(b"half").unwrap();
        append().unwrap().set_len(5).unwrap();
        assert_eq!(fs::read(folder.join("log/log")).unwrap(), b"line\n");
        fs::OpenOptions::new().append(true).create(true).open(folder.join("log/new")).unwrap();
        assert!(denied("log/secret") && fs::remove_file(folder.join("log/secret")).is_err());
        assert!(fs::read_dir(folder.join("log")).is_err());
        // A file with a number is replaced and removed, not read; one with figures is read, too.
        for (name, is_read) in [("run/pid", false), ("state/state", true)] {
            let new = folder.join(format!("{name}.new"));
            fs::write(&new, "7\n").unwrap();
            fs::rename(&new, folder.join(name)).unwrap();
            assert_eq!(fs::read(folder.join(name)).is_ok(), is_read, "{name}");
            fs::remove_file(folder.join(name)).unwrap();
        }
        assert!(denied("run/secret"));
        drop(std::os::unix::net::UnixListener::bind(folder.join("run/socket")).unwrap());
        fs::remove_file(folder.join("run/socket")).unwrap();
        assert!(std::os::unix::net::UnixListener::bind(folder.join("state/socket")).is_err());
    }
    if enforced == Enforcement::Full {
        assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::PermissionDenied);
    }

    confine_calls().unwrap();
    let refused = Command::new("true").status().unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(38), "as if the kernel could not: {refused}");
    assert!(thalweg_sys::process::stand_apart(listener.try_clone().unwrap().into(), |_| 0).is_err());
    // A server's own operations go on: threads, memory, connections, files.
    thread::spawn(|| vec![1u8; 10 << 20].len()).join().unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    accepted.write_all(b"answer").unwrap();
    drop(accepted);
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "answer");
    assert_eq!(fs::read(folder.join("read/file")).unwrap(), b"content");
    assert!(TcpListener::bind(("127.0.0.1", 0)).is_ok());
    // Folders of the file_access can be watched, though `/proc` is not one of them.
    let inotify = Inotify::open().unwrap();
    let watched = inotify.watch(&root.open_beneath(c"write").unwrap()).unwrap();
    fs::write(folder.join("write/new"), "written").unwrap();
    let mut told = None;
    inotify.take_events(|event| told = Some(event)).unwrap();
    assert_eq!(told, Some(Event::Changed(watched)));
}
