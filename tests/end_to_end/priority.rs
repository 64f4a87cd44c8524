//! The scheduling priority of measurements.
//!
//! A test that measures, and all that it starts, runs before compilers and other programs where the
//! host allows it, as it does to root: without that, each demonstration of seven beside two
//! compilers was INVALID. Other tests, and hosts that forbid it, keep the usual priority.

use std::cell::Cell;
use std::fs;
use std::process::{Command, Stdio};

/// Far from the usual 0, and below what the kernel's own threads have.
const NICENESS: &str = "-10";

thread_local! {
    static IS_RAISED: Cell<bool> = const { Cell::new(false) };
}

/// Raises the priority of this thread, and with it of the processes and threads that it starts, if
/// the test measures.
pub(crate) fn raise_for(test: &str) {
    let measures = ["alone::", "small_load::"].iter().any(|module| test.contains(module));
    if !measures || IS_RAISED.replace(true) {
        return;
    }
    // The number of the thread behind those of its process: PID/task/TID.
    let Ok(link) = fs::read_link("/proc/thread-self") else { return };
    let Some(thread) = link.file_name() else { return };
    let mut renice = Command::new("renice");
    renice.args(["-n", NICENESS, "-p"]).arg(thread);
    // A host that forbids it measures as well, and repeats more.
    let _ = renice.stdout(Stdio::null()).stderr(Stdio::null()).status();
}
