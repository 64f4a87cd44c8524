//! Samples of this host, parsers of what kernels show, and observers over loopback.

#![forbid(unsafe_code)]

mod kernels;
mod remote;
mod this_host;

use std::time::{Duration, Instant};

/// No wait is that long, whatever else the machine does: a test that waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something is there. `state` describes what is there instead.
#[track_caller]
fn wait_for<T>(state: impl Fn() -> String, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{}", state());
        std::thread::sleep(Duration::from_millis(10));
    }
}
