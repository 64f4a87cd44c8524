//! What a service manager such as systemd gives to a service, and what it wants to be told (sd_listen_fds(3), sd_notify(3)).
//! Without one, nothing is given and nobody is told.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sd_notify::NotifyState;

/// What can be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News<'n> {
    /// Started, or done with a reload; this process is the service's main one.
    Ready,
    /// Reads its configuration anew; [`News::Ready`] follows.
    Reloading,
    /// Ends.
    Stopping,
    /// Is alive.
    Watchdog,
    /// What it does, in a few words for people.
    Status(&'n str),
}

/// Tells the service manager.
///
/// # Errors
/// There is one, and it does not listen.
pub fn tell(news: &[News<'_>]) -> io::Result<()> {
    let mut states = Vec::with_capacity(news.len() + 1);
    for news in news {
        match *news {
            News::Ready => states.extend([NotifyState::Ready, NotifyState::MainPid(std::process::id())]),
            News::Reloading => states.extend([NotifyState::Reloading, NotifyState::monotonic_usec_now()?]),
            News::Stopping => states.push(NotifyState::Stopping),
            News::Watchdog => states.push(NotifyState::Watchdog),
            News::Status(text) => states.push(NotifyState::Status(text)),
        }
    }
    sd_notify::notify(&states)
}

/// How often at least it wants to hear that this process is alive; `None` if it does not.
pub fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled()
}

/// The sockets that it has opened for this process, with their names. They are given once; a second call has none.
///
/// # Errors
/// The environment speaks of sockets in words that make no sense, or of such as are not there.
pub fn sockets() -> io::Result<Vec<(OwnedFd, String)>> {
    static GIVEN: AtomicBool = AtomicBool::new(false);
    if GIVEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let given = sd_notify::listen_fds_with_names()?;
    // SAFETY: the service manager has opened these descriptors for this process, which the environment says by naming its number; they
    // were found open just now, and nothing else takes them: this runs once.
    Ok(given.map(|(fd, name)| (unsafe { OwnedFd::from_raw_fd(fd) }, name)).collect())
}
