//! The interface to a service manager such as systemd: sockets passed to the service and
//! notifications from it (sd_listen_fds(3), sd_notify(3)). Without a service manager there are no
//! sockets, and notifications go nowhere.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sd_notify::NotifyState;

/// A change of state that the service manager is notified of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notification<'t> {
    /// The service has started or completed a reload; this process is its main one.
    Ready,
    /// The service reads its configuration again; [`Notification::Ready`] follows.
    Reloading,
    /// The service is about to end.
    Stopping,
    /// The service is alive.
    Watchdog,
    /// A short status text for people.
    Status(&'t str),
}

/// Notifies the service manager, if there is one.
///
/// # Errors
/// Its socket cannot be reached.
pub fn notify(notifications: &[Notification<'_>]) -> io::Result<()> {
    let mut states = Vec::with_capacity(notifications.len() + 1);
    for notification in notifications {
        match *notification {
            Notification::Ready => states.extend([NotifyState::Ready, NotifyState::MainPid(std::process::id())]),
            Notification::Reloading => states.extend([NotifyState::Reloading, NotifyState::monotonic_usec_now()?]),
            Notification::Stopping => states.push(NotifyState::Stopping),
            Notification::Watchdog => states.push(NotifyState::Watchdog),
            Notification::Status(text) => states.push(NotifyState::Status(text)),
        }
    }
    sd_notify::notify(&states)
}

/// The longest time between two [`Notification::Watchdog`]; `None` if the service manager has no
/// watchdog for this process.
pub fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled()
}

/// The sockets that the service manager has opened for this process, with their names. Only the
/// first call returns them.
///
/// # Errors
/// The environment variables are malformed, or name descriptors that are not open.
pub fn sockets() -> io::Result<Vec<(OwnedFd, String)>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let passed = sd_notify::listen_fds_with_names()?;
    // SAFETY: the service manager has opened these descriptors for this process, as the process id
    // in the environment shows; they were found open just now, and nothing else takes them: this
    // code runs once.
    Ok(passed.map(|(fd, name)| (unsafe { OwnedFd::from_raw_fd(fd) }, name)).collect())
}
