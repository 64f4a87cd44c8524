//! A server that runs: its figures, its loops, and its end.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use thalweg_sys::handover::Channel;
use thalweg_sys::{DriverKind, Instant, clock};
use thalweg_tls::Certificate;

use super::commands::{CommandQueue, LoopCommand, send_listener};
use super::control::Control;
use super::failure::{RunError, StartError};
use super::listeners::Listeners;
use super::liveness::LivenessCheck;
use super::tls::ServerTls;
use crate::catalog::site::Sites;
use crate::config::{Level, ListenAddr, ServerConfig, StatusConfig};
use crate::content::local::watch::Watcher;
use crate::content::tier::CacheTier;
use crate::http::challenges::{ChallengeError, HttpChallenges};
use crate::telemetry::counters::{Published, Totals};
use crate::telemetry::log::{ErrorLog, Logs};
use crate::telemetry::metrics::{Collector, KnownHosts, Sources, StatusListener};
use crate::telemetry::registry::{CertificateState, Registry};

/// The longest time for a loop's reply to a command. It takes one iteration, unless the machine is
/// stalled.
pub(super) const ANSWER_TIME: Duration = Duration::from_secs(10);

/// The interval between two checks whether a loop has ended instead of answering.
const ANSWER_CHECK: Duration = Duration::from_millis(10);

/// A server that runs. Dropping it stops it without waiting.
pub struct Running {
    pub(super) addresses: Vec<ListenAddr>,
    pub(super) driver: DriverKind,
    /// How many CPUs the loops run on.
    pub(super) cpus: usize,
    pub(super) control: Control,
    pub(super) commands: Arc<[CommandQueue]>,
    /// Channels to loops with tables of descriptors of their own.
    pub(super) channels: Vec<Channel>,
    pub(super) threads: Vec<JoinHandle<io::Result<()>>>,
    pub(super) published: Arc<[Published]>,
    pub(super) status: Option<StatusListener>,
    /// Reports changes to the loops, until this is dropped.
    pub(super) watcher: Option<Watcher>,
    pub(super) logs: Logs,
    pub(super) registry: Arc<Registry>,
    /// The configuration by which it runs.
    pub(super) config: Arc<ServerConfig>,
    /// TLS of that configuration.
    pub(super) tls: Option<ServerTls>,
    /// The cache tier of that configuration, if origins answer for any mount.
    pub(super) tier: Option<Arc<dyn CacheTier>>,
    /// The responses to a certification authority.
    pub(super) challenges: Arc<HttpChallenges>,
    pub(super) started_second: i64,
}

impl Running {
    /// A channel to a loop with a table of its own, by which it gets its listeners. The loop's end.
    pub(super) fn open_channel(&mut self, listeners: &[(u32, OwnedFd)]) -> io::Result<Channel> {
        let (ours, its) = Channel::pair()?;
        for (_, socket) in listeners {
            send_listener(&ours, socket)?;
        }
        self.channels.push(ours);
        Ok(its)
    }

    /// The addresses at which it listens, in the order of the configuration, with the ports that
    /// the kernel chose.
    pub fn addresses(&self) -> &[ListenAddr] {
        &self.addresses
    }

    /// The driver that the loops use.
    pub fn driver(&self) -> DriverKind {
        self.driver
    }

    /// How many CPUs its loops run on. One CPU may have several loops.
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// How many loops it has.
    pub fn loops(&self) -> usize {
        self.published.len()
    }

    /// The totals of all loops, a wake-up of each behind at most.
    pub fn totals(&self) -> Totals {
        let mut sum = Totals::default();
        for published in self.published.iter() {
            sum.add(&published.totals());
        }
        sum
    }

    /// Whether a loop has ended, by a stop or by a failure that [`join`](Self::join) reports.
    pub fn has_ended(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Whether all loops have ended.
    pub fn is_over(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Starts the status listener, at these sockets.
    pub(super) fn start_status(
        &self,
        status: &StatusConfig,
        sockets: Vec<OwnedFd>,
    ) -> Result<StatusListener, StartError> {
        let shutdown = Arc::clone(&self.control.shutdown);
        let sources = Sources {
            registry: Arc::clone(&self.registry),
            published: Arc::clone(&self.published),
            is_draining: Box::new(move || shutdown.is_set()),
            error_log: self.error_log().clone(),
            started_second: self.started_second,
        };
        let collector = Collector::new(sources, status.state.clone(), unix_second());
        let hosts = KnownHosts::of(&status.allowed_hosts);
        StatusListener::start(sockets, hosts, collector).map_err(StartError::Loop)
    }

    /// Asks each loop whether it goes round.
    pub fn check_liveness(&self) -> LivenessCheck {
        LivenessCheck::begin(&self.commands, &self.control.wakers)
    }

    /// Gives `look` the sockets that it listens on.
    pub fn with_listeners<T>(&self, look: impl FnOnce(&Listeners) -> T) -> T {
        look(&self.control.listeners())
    }

    /// See [`Control::hand_over`]. When this returns, no loop waits for connections any more, and
    /// the other process has to be informed, so that it can [look again](Self::look_again).
    pub fn hand_over(&mut self, time: Option<Duration>) {
        // The process that serves shows the figures, and saves them.
        drop(self.status.take());
        self.control.hand_over(time);
        self.await_driver_calls();
    }

    /// Waits until the kernel has received all operations that loops have submitted for commands so
    /// far.
    pub(super) fn await_driver_calls(&self) {
        // A reply follows the iteration in which the command ran; the next iteration submits to the
        // kernel.
        for _ in 0..2 {
            let mut check = self.check_liveness();
            let begun = Instant::now();
            while check.missing_after(ANSWER_CHECK) > self.threads.iter().filter(|thread| thread.is_finished()).count()
                && Instant::now().ns_since(begun) < ANSWER_TIME.as_nanos() as u64
            {}
        }
    }

    /// Looks at the queues of all listeners, as if a connection had come just now. The kernel
    /// reports a connection to one of the waiters at a socket, and to no other when that one has
    /// stopped waiting meanwhile: to be called when another process has.
    pub fn look_again(&self) {
        // It has saved its history, too.
        if let Some(status) = &self.status {
            status.reload_history();
        }
        for (command_queue, waker) in self.commands.iter().zip(self.control.wakers.iter()) {
            command_queue.leave([LoopCommand::LookAgain], waker);
        }
    }

    /// Whether one of its addresses speaks TLS.
    pub fn speaks_tls_at(&self, address: &ListenAddr) -> bool {
        let Some(tls) = &self.config.tls else { return false };
        self.control.listeners().asked_for(address).is_some_and(|asked| tls.speaks_at(asked))
    }

    /// TLS, if it is spoken.
    pub fn tls(&self) -> Option<&ServerTls> {
        self.tls.as_ref()
    }

    /// Serves with a certificate that was obtained by ACME from the next handshake on, where TLS is
    /// spoken.
    pub fn install_certificate(&mut self, certificate: Certificate) {
        if let Some(tls) = &mut self.tls {
            tls.install(certificate);
        }
    }

    /// Shows the state of the certificate that is obtained by ACME on the status page; `None`: none
    /// is obtained.
    pub fn show_certificate(&self, state: Option<CertificateState>) {
        self.registry.set_certificate(state);
    }

    /// Answers requests for the token of an http-01 challenge (RFC 8555, 8.3) with this key
    /// authorization, on all addresses; `None` ends that. When this returns, every request that
    /// arrives is answered so.
    ///
    /// # Errors
    /// The token is malformed, or there are too many.
    pub fn set_http_challenge(&self, token: &str, key_authorization: Option<&str>) -> Result<(), ChallengeError> {
        match key_authorization {
            Some(key_authorization) => self.challenges.add(token, key_authorization),
            None => {
                self.challenges.remove(token);
                Ok(())
            }
        }
    }

    /// Presents a certificate to clients that ask for this name by tls-alpn-01 (RFC 8737), where
    /// TLS is spoken; `None` ends that.
    pub fn set_tls_challenge(&self, name: &str, certificate: Option<&Certificate>) {
        if let Some(tls) = &self.tls {
            tls.store().set_challenge(name, certificate);
        }
    }

    /// The log of messages to the operator.
    pub fn error_log(&self) -> &ErrorLog {
        self.logs.error_log()
    }

    /// The address of the status listener, if there is one.
    pub fn status_address(&self) -> Option<SocketAddr> {
        self.status.as_ref().and_then(StatusListener::address)
    }

    /// A handle to stop it with, for signal handlers and other threads.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// See [`Control::drain`].
    pub fn drain(&self, time: Duration) {
        self.control.drain(time);
    }

    /// See [`Control::stop`].
    pub fn stop(&self) {
        self.control.stop();
    }

    /// Waits until all loops have ended, after [`drain`](Self::drain) or [`stop`](Self::stop) or a
    /// failure. Returns the totals.
    ///
    /// # Errors
    /// A loop has failed. All others were stopped then.
    pub fn join(mut self) -> Result<Totals, RunError> {
        let mut result = Ok(());
        for thread in self.threads.drain(..) {
            let ended = match thread.join() {
                Ok(ended) => ended.map_err(RunError::Driver),
                Err(panic) => Err(RunError::Panicked(message_of(&*panic))),
            };
            result = result.and(ended);
        }
        match &result {
            Ok(()) => self.error_log().say(Level::Notice, "stopped"),
            Err(error) => self.error_log().say(Level::Error, error),
        }
        if let Some(status) = &mut self.status {
            status.stop();
        }
        self.logs.stop();
        result.map(|()| self.totals())
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("addresses", &self.addresses)
            .field("driver", &self.driver)
            .finish_non_exhaustive()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.control.stop();
    }
}

fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// Checks a configuration before any loop has to refuse it.
pub(super) fn ensure_servable(config: &ServerConfig) -> Result<(), StartError> {
    if let Some(fault) = config.check().into_iter().next() {
        return Err(StartError::Config(fault));
    }
    Ok(Sites::open(config).map(drop)?)
}

/// Checks that there is a cache tier where origins answer for any mount.
pub(super) fn ensure_tier(config: &ServerConfig, tier: Option<&Arc<dyn CacheTier>>) -> Result<(), StartError> {
    match config.forwards() && tier.is_none() {
        true => Err(StartError::Loop(io::Error::other("mounts have origins, and there is no cache tier"))),
        false => Ok(()),
    }
}

/// Now, in seconds since 1970-01-01 UTC.
pub(super) fn unix_second() -> i64 {
    i64::try_from(clock::unix_seconds()).unwrap_or(i64::MAX)
}
