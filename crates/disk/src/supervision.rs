//! A pass under supervision: its threads count and end early on request, while the calling thread
//! reports progress.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use thalweg_sys::clock::process_cpu_ns;

/// How often progress is reported and an interruption is looked for.
const POLL: Duration = Duration::from_millis(50);

/// The caller's view of a run.
pub trait Watcher {
    /// A pass begins.
    fn on_pass(&mut self, pass: &str);
    /// The pass has done a part: bytes or operations, of so many.
    fn on_progress(&mut self, done: u64, of: u64);
    /// Whether the run should end.
    fn wants_stop(&self) -> bool;
}

/// The end of a pass before its time.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PassError {
    #[error("interrupted")]
    Interrupted,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("fio: {0}")]
    Fio(String),
}

/// The connection between a pass and the thread that supervises it.
#[derive(Debug, Default)]
pub(crate) struct Control {
    stop: AtomicBool,
    done: AtomicU64,
}

impl Control {
    /// Counts a part as done.
    ///
    /// # Errors
    /// The run should end.
    pub(crate) fn advance(&self, by: u64) -> Result<(), PassError> {
        self.done.fetch_add(by, Ordering::Relaxed);
        self.check()
    }

    /// # Errors
    /// The run should end.
    pub(crate) fn check(&self) -> Result<(), PassError> {
        if self.is_stopped() { Err(PassError::Interrupted) } else { Ok(()) }
    }

    /// Whether the run should end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Sets the part that is done.
    pub(crate) fn set_done(&self, done: u64) {
        self.done.store(done, Ordering::Relaxed);
    }

    /// The part that is done.
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

/// Runs `pass` on a thread of its own, and the watcher on this one. `of` is the whole of what the
/// pass counts.
pub(crate) fn supervised<T: Send>(
    watcher: &mut dyn Watcher,
    control: &Control,
    of: u64,
    pass: impl FnOnce(&Control) -> Result<T, PassError> + Send,
) -> Result<T, PassError> {
    let (ending, ended) = channel::<()>();
    thread::scope(|scope| {
        let pass = spawn(scope, move || {
            let _ending = ending;
            pass(control)
        })?;
        while ended.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
            watcher.on_progress(control.done().min(of), of);
            if watcher.wants_stop() {
                control.stop.store(true, Ordering::Relaxed);
            }
        }
        joined(pass)
    })
}

/// Starts a thread, unless the host permits no more of them.
pub(crate) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    let refused = |error: io::Error| io::Error::new(error.kind(), format!("a thread cannot be started: {error}"));
    thread::Builder::new().spawn_scoped(scope, work).map_err(refused)
}

/// The thread's result, once it has ended.
pub(crate) fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A meter of time, CPU time and the device.
#[derive(Debug)]
pub(crate) struct Meter {
    began: Instant,
    cpu_ns: u64,
    device: Option<u64>,
}

/// The resources that a pass has used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Usage {
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
    /// Bytes that the device has delivered.
    pub(crate) device_read_bytes: Option<u64>,
}

impl Meter {
    /// A meter that begins now.
    pub(crate) fn start() -> Self {
        let device = transferred(std::process::id()).map(|transferred| transferred.device_read);
        Self { device, cpu_ns: process_cpu_ns(), began: Instant::now() }
    }

    /// Its figures so far.
    pub(crate) fn usage(&self) -> Usage {
        // A clock that stands still would give infinite rates.
        let seconds = self.began.elapsed().as_secs_f64().max(1e-9);
        let cpu_seconds = process_cpu_ns().saturating_sub(self.cpu_ns) as f64 / 1e9;
        let now = transferred(std::process::id()).map(|transferred| transferred.device_read);
        let device_read_bytes = now.zip(self.device).map(|(now, before)| now.saturating_sub(before));
        Usage { seconds, cpu_seconds, device_read_bytes }
    }
}

/// Bytes that a process, and its children that have ended, have moved so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transferred {
    /// By reads and writes.
    pub(crate) calls: u64,
    /// From devices.
    pub(crate) device_read: u64,
}

/// The kernel's account of a process; `None` where it keeps none, or does not show it.
pub(crate) fn transferred(process: u32) -> Option<Transferred> {
    let text = fs::read_to_string(format!("/proc/{process}/io")).ok()?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    Some(Transferred { calls: field("rchar:")? + field("wchar:")?, device_read: field("read_bytes:")? })
}
