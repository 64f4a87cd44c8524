//! What an operator can ask a running server for by a signal.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGUSR2};

use crate::interrupt::Interrupt;

/// The signals of a server. Each is folded with its like until somebody looks.
#[derive(Debug)]
pub struct Signals {
    end: Interrupt,
    reload: Arc<AtomicBool>,
    upgrade: Arc<AtomicBool>,
}

impl Signals {
    /// Begins to listen for them.
    ///
    /// # Errors
    /// The kernel refuses a handler, which it does for no signal used here.
    pub fn listen() -> io::Result<Self> {
        let flag = |signal| {
            let raised = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(signal, Arc::clone(&raised)).map(|_| raised)
        };
        Ok(Self { end: Interrupt::listen()?, reload: flag(SIGHUP)?, upgrade: flag(SIGUSR2)? })
    }

    /// Whether an end is wanted: TERM or INT. A second one of these ends the process at once.
    pub fn wants_end(&self) -> bool {
        self.end.is_wanted()
    }

    /// Whether the configuration is to be read again: HUP since the last look.
    pub fn wants_reload(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }

    /// Whether a new process is to follow: USR2 since the last look.
    pub fn wants_upgrade(&self) -> bool {
        self.upgrade.swap(false, Ordering::Relaxed)
    }
}
