//! The signals by which an operator controls a running server.
//!
//! A signal without a meaning does not end the server, as most do by the kernel's default: it is
//! recorded, so that it can be reported. Faults of the program itself (SEGV, BUS, ILL, FPE, ABRT,
//! TRAP, SYS) still end it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGALRM, SIGHUP, SIGIO, SIGPROF, SIGQUIT, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU, SIGXFSZ};
use thalweg_sys::process::{SIGPWR, SIGSTKFLT, real_time_signals};

use crate::interrupt::Interrupt;

/// The signals without a meaning here that would end the process, but for the real-time ones.
/// Rust's runtime ignores PIPE already, which a handler would undo.
const MEANINGLESS: [(i32, &str); 8] = [
    (SIGALRM, "ALRM"),
    (SIGVTALRM, "VTALRM"),
    (SIGPROF, "PROF"),
    (SIGIO, "IO"),
    (SIGPWR, "PWR"),
    (SIGSTKFLT, "STKFLT"),
    (SIGXCPU, "XCPU"),
    (SIGXFSZ, "XFSZ"),
];

/// The signals of a server. Several signals of one kind count as one until they are read.
#[derive(Debug)]
pub(super) struct Signals {
    end: Interrupt,
    reload: Arc<AtomicBool>,
    reopen: Arc<AtomicBool>,
    upgrade: Arc<AtomicBool>,
    meaningless: Vec<IgnoredSignal>,
}

/// A signal without a meaning.
#[derive(Debug)]
struct IgnoredSignal {
    name: String,
    raised: Arc<AtomicBool>,
    told: AtomicBool,
}

impl Signals {
    /// Installs handlers for them.
    ///
    /// # Errors
    /// The kernel refuses a handler, which it does for no signal used here.
    pub(super) fn listen() -> io::Result<Self> {
        let flag = |signal| {
            let raised = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(signal, Arc::clone(&raised)).map(|_| raised)
        };
        let real_time = real_time_signals();
        let first = *real_time.start();
        let named = MEANINGLESS.iter().map(|&(signal, name)| (signal, name.to_owned()));
        let named = named.chain(real_time.map(|signal| (signal, format!("RTMIN+{}", signal - first))));
        let ignore =
            |(signal, name)| flag(signal).map(|raised| IgnoredSignal { name, raised, told: AtomicBool::new(false) });
        Ok(Self {
            end: Interrupt::listen_to(&[SIGQUIT])?,
            reload: flag(SIGHUP)?,
            reopen: flag(SIGUSR1)?,
            upgrade: flag(SIGUSR2)?,
            meaningless: named.map(ignore).collect::<io::Result<_>>()?,
        })
    }

    /// Whether an end is requested: TERM, INT or QUIT. A second one of these ends the process at
    /// once.
    pub(super) fn wants_end(&self) -> bool {
        self.end.is_wanted()
    }

    /// Whether the configuration is to be read again: HUP since the last call.
    pub(super) fn wants_reload(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }

    /// Whether the files of the logs are to be opened again: USR1 since the last call.
    pub(super) fn wants_logs_reopened(&self) -> bool {
        self.reopen.swap(false, Ordering::Relaxed)
    }

    /// Whether a new process is to follow: USR2 since the last call.
    pub(super) fn wants_upgrade(&self) -> bool {
        self.upgrade.swap(false, Ordering::Relaxed)
    }

    /// The names of signals without a meaning that have come, each once.
    pub(super) fn meaningless(&self) -> impl Iterator<Item = &str> {
        let is_new = |signal: &&IgnoredSignal| {
            signal.raised.load(Ordering::Relaxed) && !signal.told.swap(true, Ordering::Relaxed)
        };
        self.meaningless.iter().filter(is_new).map(|signal| signal.name.as_str())
    }
}
