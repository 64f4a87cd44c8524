//! Interruption by Ctrl-C and TERM: the first signal requests an end, the second ends the program
//! with the code by which shells name it: 130 for INT, 143 for TERM.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

/// The user's request to end.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    wanted: Arc<AtomicBool>,
}

impl Interrupt {
    /// Installs handlers for the signals.
    ///
    /// # Errors
    /// The kernel refuses a handler, which it does for no signal used here.
    pub(crate) fn listen() -> io::Result<Self> {
        Self::listen_to(&[])
    }

    /// The same with further signals that request an end.
    ///
    /// # Errors
    /// As for [`listen`](Self::listen).
    pub(crate) fn listen_to(further: &[i32]) -> io::Result<Self> {
        const KILLED_BY_SIGNAL: i32 = 128;
        let wanted = Arc::new(AtomicBool::new(false));
        for &signal in [SIGINT, SIGTERM].iter().chain(further) {
            // In this order: a second signal finds the flag set by the first.
            signal_hook::flag::register_conditional_shutdown(signal, KILLED_BY_SIGNAL + signal, wanted.clone())?;
            signal_hook::flag::register(signal, wanted.clone())?;
        }
        Ok(Self { wanted })
    }

    /// Whether a signal has come.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }
}
