//! The supervision of a running server: signals, notifications of the service manager, and a status
//! line on a terminal.

use std::io::{self, IsTerminal};
use std::mem;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use thalweg_serve::{CacheTier, Level, LivenessCheck, LogTarget, Running, ServerConfig, ServerTls};
use thalweg_sys::service_manager::{self, Notification};

use super::acme::{self, AcmeProcess};
use super::description::{describe, places};
use super::launcher::Launcher;
use super::secrets;
use super::signals::Signals;
use super::takeover::{Predecessor, Progress, Successor};
use super::tier::{self, RunningTier};
use crate::configuration::{ClusterConfig, Configuration};
use crate::exit::{Failure, remark};
use crate::options::SandboxOption;
use crate::terminal;

/// The interval at which signals are handled and the status line is drawn.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The standard library's text of EACCES, the sandbox's error.
const PERMISSION_DENIED: &str = "(os error 13)";

/// The beginning of the message about a file that cannot be read.
const UNREADABLE: &str = "cannot read the configuration";

/// The advice behind a refusal that may be the sandbox's.
const SANDBOX_ADVICE: &str = " (folders outside the sandbox need an upgrade, USR2)";

/// The reason why the supervision ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// The operator or the service manager stops the server.
    Stopped,
    /// Another process serves from now on.
    HandedOver,
    /// A loop has ended.
    Failed,
}

/// A running server under supervision.
pub(super) struct Watch<'w> {
    /// The server.
    pub running: Running,
    /// The operator's signals.
    pub signals: &'w Signals,
    /// The process that starts successors.
    pub launcher: &'w Launcher,
    /// The process that obtains certificates, if there is one.
    pub acme: Option<AcmeProcess>,
    /// Reads the configuration again.
    pub configure: &'w dyn Fn() -> Result<Configuration, Failure>,
    /// The predecessor, until it has stopped accepting.
    pub predecessor: Option<Predecessor>,
    /// The successor, while it starts.
    pub successor: Option<Successor>,
    /// The cache tier, if any mount had origins at the start.
    pub tier: Option<RunningTier>,
    /// The configuration of the running server.
    pub configuration: Configuration,
}

impl Watch<'_> {
    /// Supervises the server until its end.
    pub(super) fn until_end(&mut self) -> End {
        let line = StatusLine::new();
        let mut watchdog = Watchdog::new();
        loop {
            if self.signals.wants_end() {
                return End::Stopped;
            }
            if self.running.has_ended() {
                return End::Failed;
            }
            if self.signals.wants_reload() {
                self.reload();
            }
            if self.predecessor.take_if(|predecessor| predecessor.has_stopped()).is_some() {
                self.running.look_again();
            }
            self.apply_acme();
            self.follow_peers();
            self.reopen_logs();
            if self.signals.wants_upgrade() {
                self.upgrade();
            }
            for name in self.signals.meaningless() {
                let what = format!("the signal {name} has no meaning here and is ignored; further ones are not logged");
                self.say(Level::Warning, &what);
            }
            match self.successor.as_ref().map(Successor::progress) {
                Some(Progress::Ready) => return End::HandedOver,
                Some(Progress::Failed(why)) => {
                    self.say(Level::Error, &format!("the upgrade failed, this server continues: {why}"));
                    self.successor = None;
                }
                Some(Progress::Starting) | None => {}
            }
            if let Err(error) = watchdog.beat(&self.running) {
                self.report_unreachable_manager(&error);
            }
            line.draw(&self.running);
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Stops accepting in favour of the successor, which is notified when that is done.
    pub(super) fn hand_over(&mut self) {
        // The successor's process waits for the end of this one, because of their state directory.
        self.acme = None;
        self.running.hand_over(self.configuration.upgrade_drain);
        self.successor = None;
    }

    /// Waits after a takeover until all responses have ended, or a signal ends the wait.
    pub(super) fn until_drained(&self) {
        let mut is_hurried = false;
        while !self.running.is_over() {
            if self.signals.wants_end() && !is_hurried {
                is_hurried = true;
                self.running.drain(self.configuration.drain);
            }
            self.reopen_logs();
            for (is_wanted, name) in [(self.signals.wants_reload(), "HUP"), (self.signals.wants_upgrade(), "USR2")] {
                if is_wanted {
                    let what = format!(
                        "{name} is ignored: another process serves, and this one exits after its last \
                            download"
                    );
                    self.say(Level::Warning, &what);
                }
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Reports an event: in the error log, and on standard error if there is no such log or
    /// standard error is a terminal.
    pub(super) fn say(&self, level: Level, text: &str) {
        let is_logged = self.configuration.server.log.error != LogTarget::Stderr;
        if is_logged {
            // A message about a file has several lines, and an entry of the log has one.
            text.lines().for_each(|line| self.running.error_log().say(level, line));
        }
        if !is_logged || io::stderr().is_terminal() {
            remark(text);
        }
    }

    /// Notifies the service manager. A failure is reported and does not end the server.
    pub(super) fn notify(&self, notifications: &[Notification<'_>]) {
        if let Err(error) = service_manager::notify(notifications) {
            self.report_unreachable_manager(&error);
        }
    }

    fn report_unreachable_manager(&self, error: &io::Error) {
        self.say(Level::Warning, &format!("cannot notify the service manager: {error}"));
    }

    fn reload(&mut self) {
        self.notify(&[Notification::Reloading]);
        let before = places(&self.running);
        self.running.control().reopen_logs();
        let configured = (self.configure)().and_then(|mut configuration| {
            let mut kept = keep(&self.configuration, &mut configuration);
            if self.acme.is_none() && acme::settings(&configuration).is_some() {
                // The process that obtains certificates is set apart at the start.
                kept.until_upgrade.push("tls.auto");
            }
            let server = Arc::new(configuration.server.clone());
            // The advice to give other options makes no sense for a running server.
            let read = |path: &Path| self.launcher.read_named(path);
            let tls = ServerTls::open(&server, self.running.tls(), &read).map_err(Failure::unreachable)?;
            let mounts = self.mount(&server, configuration.cluster.as_ref(), &read)?;
            let configured = self.running.configure_with(&server, tls, mounts);
            configured.map_err(Failure::unreachable).map(|()| (configuration, kept))
        });
        match configured {
            Ok((configuration, kept)) => {
                let replaced = mem::replace(&mut self.configuration, configuration);
                self.reload_acme(&replaced);
                secrets::warnings(&self.configuration).iter().for_each(|what| self.say(Level::Warning, what));
                let moved = places(&self.running);
                if moved != before {
                    self.say(Level::Notice, moved.trim_end());
                }
                for (keys, way) in [(kept.until_upgrade, "an upgrade (USR2)"), (kept.until_restart, "a restart")] {
                    if !keys.is_empty() {
                        let keys = keys.join(", ");
                        let what = format!("the new configuration is in effect, except for {keys} (needs {way})");
                        self.say(Level::Warning, &what);
                    }
                }
                self.say(Level::Notice, "the configuration was reloaded");
            }
            Err(failure) => {
                let why = failure.line();
                // The launcher opens the configuration itself outside the sandbox.
                let is_confined = self.configuration.sandbox != SandboxOption::Off && !why.starts_with(UNREADABLE);
                let advice = if is_confined && why.contains(PERMISSION_DENIED) { SANDBOX_ADVICE } else { "" };
                self.say(
                    Level::Error,
                    &format!(
                        "the new configuration is rejected, the old one stays in effect: \
                    {why}{advice}"
                    ),
                );
            }
        }
        self.notify(&[Notification::Ready]);
    }

    /// The mounts with origins that a new configuration has.
    fn mount(
        &mut self,
        config: &ServerConfig,
        cluster: Option<&ClusterConfig>,
        read: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
    ) -> Result<Option<Arc<dyn CacheTier>>, Failure> {
        match &mut self.tier {
            Some(tier) => tier.mount(config, cluster, &tier::read_files(config, cluster, read)?).map(Some),
            // The sandbox of a server that began without origins lets it connect nowhere.
            None if config.forwards() => {
                Err(Failure::usage("no mount had origins at the start; origins need a restart"))
            }
            None => Ok(None),
        }
    }

    /// Applies changes of the list of the cluster's servers.
    fn follow_peers(&mut self) {
        let read = |path: &Path| self.launcher.read_named(path);
        if let Some((level, what)) = self.tier.as_mut().and_then(|tier| tier.follow_peers(&read)) {
            self.say(level, &what);
        }
    }

    /// Applies the events of the process that obtains certificates.
    fn apply_acme(&mut self) {
        let Some(acme) = &mut self.acme else { return };
        match acme.apply(&mut self.running) {
            Ok(messages) => messages.iter().for_each(|(level, text)| self.say(*level, text)),
            Err(error) => self.lose_acme(&error),
        }
    }

    /// Has the process that obtains certificates read its settings again, if they have changed.
    fn reload_acme(&mut self, before: &Configuration) {
        let Some(process) = &self.acme else { return };
        if acme::settings(&self.configuration).is_none() {
            self.running.show_certificate(None);
        }
        if acme::settings(before) != acme::settings(&self.configuration)
            && let Err(error) = process.reload()
        {
            self.lose_acme(&error);
        }
    }

    fn lose_acme(&mut self, error: &io::Error) {
        self.acme = None;
        let what = format!(
            "the process that obtains certificates has failed ({error}): the present certificate stays in use and is \
             not renewed; an upgrade (USR2) starts the process again"
        );
        self.say(Level::Error, &what);
    }

    /// Reopens the files of the logs if that is requested, and changes nothing else.
    fn reopen_logs(&self) {
        if self.signals.wants_logs_reopened() {
            self.running.control().reopen_logs();
            self.say(Level::Notice, "the logs were reopened");
        }
    }

    fn upgrade(&mut self) {
        match &self.successor {
            Some(successor) => {
                let number = successor.number();
                let what = format!("USR2 is ignored: an upgrade is in progress, process {number} is not ready yet");
                self.say(Level::Warning, &what);
            }
            None => self.successor = self.start_successor(),
        }
    }

    fn start_successor(&self) -> Option<Successor> {
        let tickets = self.running.tls().map(|tls| tls.tickets().export());
        match self.running.with_listeners(|listeners| Successor::start(self.launcher, listeners, tickets.as_deref())) {
            Ok(successor) => {
                self.say(Level::Notice, &format!("process {} is starting to take over", successor.number()));
                Some(successor)
            }
            Err(error) => {
                self.say(Level::Error, &format!("the upgrade failed, this server continues: {error}"));
                None
            }
        }
    }
}

/// The keys of a new configuration that a running server leaves as they were at its start.
#[derive(Default)]
struct UnappliedKeys {
    until_upgrade: Vec<&'static str>,
    /// Keys that a successor cannot apply either: it starts with the rights of this process, which
    /// has given up those needed.
    until_restart: Vec<&'static str>,
}

/// Restores the values that a running server cannot change.
fn keep(old: &Configuration, new: &mut Configuration) -> UnappliedKeys {
    fn put_back<T: PartialEq + Clone>(name: &'static str, old: &T, new: &mut T, kept: &mut Vec<&'static str>) {
        if old != new {
            new.clone_from(old);
            kept.push(name);
        }
    }
    let mut kept = UnappliedKeys::default();
    let (server, new_server, names) = (&old.server, &mut new.server, &mut kept.until_upgrade);
    put_back("cores", &server.cpus, &mut new_server.cpus, names);
    put_back("driver", &server.driver, &mut new_server.driver, names);
    let places = (&server.limits.connections_max, &mut new_server.limits.connections_max);
    put_back("limits.connections_max", places.0, places.1, names);
    put_back("sandbox", &old.sandbox, &mut new.sandbox, names);
    put_back("disk_cache", &server.disk_cache, &mut new_server.disk_cache, &mut kept.until_restart);
    let names = &mut kept.until_upgrade;
    put_back("pid_file", &old.pid_file, &mut new.pid_file, names);
    put_back("user", &old.user, &mut new.user, &mut kept.until_restart);
    put_back("unix_socket", &old.unix_socket, &mut new.unix_socket, &mut kept.until_restart);
    kept
}

/// The watchdog of the service manager: it is notified only while each loop responds, not only this
/// thread.
struct Watchdog {
    every: Option<Duration>,
    /// The check that is under way or over, when it began, and whether the service manager has been
    /// told.
    check: Option<(Instant, LivenessCheck, bool)>,
}

impl Watchdog {
    fn new() -> Self {
        // Twice as often as required, so that one late response does no harm.
        Self { every: service_manager::watchdog().map(|interval| interval / 2), check: None }
    }

    fn beat(&mut self, running: &Running) -> io::Result<()> {
        let Some(every) = self.every else { return Ok(()) };
        let Some((began, check, is_told)) = &mut self.check else {
            self.check = Some((Instant::now(), running.check_liveness(), false));
            return Ok(());
        };
        if !check.is_complete() {
            return Ok(());
        }
        let is_news = !mem::replace(is_told, true);
        if began.elapsed() >= every {
            self.check = None;
        }
        if is_news { service_manager::notify(&[Notification::Watchdog]) } else { Ok(()) }
    }
}

/// The status line, if stderr is a terminal.
struct StatusLine {
    has_terminal: bool,
}

impl StatusLine {
    fn new() -> Self {
        Self { has_terminal: io::stderr().is_terminal() }
    }

    fn draw(&self, running: &Running) {
        if self.has_terminal {
            terminal::show_line(&describe(&running.totals()));
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        terminal::clear();
    }
}
