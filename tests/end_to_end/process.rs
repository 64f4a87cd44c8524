//! Child processes that cannot outlive their test, and waiting for what they do.

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::priority;

/// Longer than any wait of a test; a test that waits longer has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The variable that says where runs are stored.
pub(crate) const STORE: &str = "THALWEG_STORE";

/// A running program. Its output goes to files, so that no full pipe can hold it up. It is killed
/// when dropped.
pub(crate) struct Process {
    child: Child,
    name: String,
    stdout: File,
    stderr: File,
}

/// The output and the exit code of a program.
#[derive(Debug)]
pub(crate) struct ExitedProcess {
    /// The exit code; `None` if a signal has killed it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The program under test.
pub(crate) fn thalweg(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(arguments);
    command
}

/// Runs the program under test to its end.
pub(crate) fn run_thalweg(arguments: &[&str]) -> ExitedProcess {
    Process::start(&mut thalweg(arguments)).wait(PATIENCE)
}

/// Whether this is the run of all tests at their full length, as `make test-full` makes it.
pub(crate) fn is_full() -> bool {
    std::env::var_os("THALWEG_TEST_FULL").is_some()
}

/// The name of the test with its modules. nextest says it in all threads of the test's process.
pub(crate) fn test_name() -> String {
    let of_nextest = std::env::var("NEXTEST_TEST_NAME").ok();
    of_nextest.or_else(|| thread::current().name().map(str::to_owned)).unwrap_or_default()
}

/// A port of 127.0.0.1 at which nobody listens. It is below the ports that connections are made
/// from, and no other process of tests gets the same, so that it is still free when a program has
/// been started to listen there.
pub(crate) fn free_port() -> u16 {
    const FIRST: u32 = 12_000;
    const BLOCKS: u32 = 1000;
    const BLOCK_PORTS: u32 = 16;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id() % BLOCKS * BLOCK_PORTS;
    for _ in 0..BLOCKS {
        let port = FIRST + (begin + NEXT.fetch_add(1, Relaxed)) % (BLOCKS * BLOCK_PORTS);
        let port = u16::try_from(port).expect("the range ends below 65536");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("a port is free")
}

/// Finds a program that the tests need. A test must not pass because it is missing.
pub(crate) fn program(names: &[&str], package: &str) -> PathBuf {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let candidates = names.iter().flat_map(|name| path.split(':').map(move |folder| PathBuf::from(folder).join(name)));
    candidates.into_iter().find(|candidate| candidate.is_file()).unwrap_or_else(|| {
        panic!("this test needs {}, which is not installed; on Debian and Ubuntu: apt-get install {package}", names[0])
    })
}

/// Finds a program that no package has and `tests/setup` builds.
pub(crate) fn built_program(name: &str) -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").expect("a user has a folder")).join(".cache"),
        PathBuf::from,
    );
    let path = cache.join("thalweg-tests/bin").join(name);
    assert!(path.is_file(), "this test needs {}, which is not there; build it: tests/setup test", path.display());
    path
}

/// Waits until `condition` returns a value. It is for actions of another process that sends no
/// notification.
pub(crate) fn until<T>(what: &str, patience: Duration, mut condition: impl FnMut() -> Option<T>) -> T {
    const GLANCE: Duration = Duration::from_millis(3);
    let begun = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(begun.elapsed() < patience, "waited {patience:?} in vain for {what}");
        thread::sleep(GLANCE);
    }
}

/// Sends a signal, by the shell's own `kill`, which every host has.
pub(crate) fn signal(name: &str, pid: u32) {
    let script = format!("kill -{name} {pid}");
    let status = Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status().expect("sh can be run");
    assert!(status.success(), "{script}: {status}");
}

/// Copies the program by another one: a process that another test starts while this one writes
/// would have the copy open for writing too for a moment, and it could not be started ("text file
/// busy").
pub(crate) fn copy_program(to: impl AsRef<Path>) {
    let status =
        Command::new("cp").arg(env!("CARGO_BIN_EXE_thalweg")).arg(to.as_ref()).status().expect("cp can be run");
    assert!(status.success(), "cp: {status}");
}

impl Process {
    /// Starts a program, without input unless `command` has some.
    pub(crate) fn start(command: &mut Command) -> Self {
        priority::raise_for(&test_name());
        let name = format!("{command:?}");
        // No test writes into the runs of the person who starts it. Those that are about the store
        // name one.
        if !command.get_envs().any(|(name, _)| name == STORE) {
            command.env(STORE, "none");
        }
        let (stdout, stderr) = (output_file(), output_file());
        let handle = |file: &File| Stdio::from(file.try_clone().expect("a file can be duplicated"));
        command.stdout(handle(&stdout)).stderr(handle(&stderr));
        let child = command.spawn().unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        Self { child, name, stdout, stderr }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The output so far.
    pub(crate) fn stdout(&self) -> String {
        contents(&self.stdout)
    }

    pub(crate) fn stderr(&self) -> String {
        contents(&self.stderr)
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(name, self.id());
    }

    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self, patience: Duration) -> ExitedProcess {
        let begun = Instant::now();
        let status = until(&format!("the end of {}", self.name), patience, || self.ended());
        let ended = ExitedProcess { code: status.code(), stdout: self.stdout(), stderr: self.stderr() };
        assert!(!ended.stderr.contains("panicked"), "{} panicked after {:?}: {ended:?}", self.name, begun.elapsed());
        ended
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Either fails only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn output_file() -> File {
    tempfile::tempfile().expect("a temporary file can be made")
}

/// Reads without moving the position, which the file shares with the process that writes to it.
fn contents(file: &File) -> String {
    let length = file.metadata().expect("an open file has metadata").len();
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, 0).expect("what was written can be read");
    String::from_utf8_lossy(&bytes).into_owned()
}
