//! The life of a server between its start and its end: signals are followed, the service manager hears what it wants to, and who
//! sits at a terminal sees figures.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use thalweg_serve::Running;
use thalweg_sys::service_manager::{self, News};

use super::launcher::Launcher;
use super::signals::Signals;
use super::takeover::{Progress, Successor};
use crate::configuration::Configuration;
use crate::exit::{Failure, remark};

/// How often signals are looked for and the status line is drawn.
const GLANCE: Duration = Duration::from_millis(100);

/// Why watching has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Somebody wants the server to stop.
    Asked,
    /// Another process serves from now on.
    HandedOver,
    /// A core has ended.
    Failed,
}

/// A running server and all that it is watched for.
pub struct Watch<'w> {
    /// The server.
    pub running: Running,
    /// What operators ask for.
    pub signals: &'w Signals,
    /// What starts successors.
    pub launcher: &'w Launcher,
    /// Reads the configuration again.
    pub configure: &'w dyn Fn() -> Result<Configuration, Failure>,
    /// What the server runs by.
    pub configuration: Configuration,
}

impl Watch<'_> {
    /// Until the end.
    pub fn until_end(&mut self) -> End {
        let line = StatusLine::new();
        let mut pulse = Pulse::new();
        let mut successor = None;
        loop {
            if self.signals.wants_end() {
                return End::Asked;
            }
            if self.running.has_ended() {
                return End::Failed;
            }
            if self.signals.wants_reload() {
                self.reload();
            }
            if self.signals.wants_upgrade() && successor.is_none() {
                successor = self.start_successor();
            }
            match successor.as_ref().map(Successor::look) {
                Some(Progress::Ready) => return End::HandedOver,
                Some(Progress::Failed(why)) => {
                    remark(&format!("the upgrade has failed, this server goes on: {why}"));
                    successor = None;
                }
                Some(Progress::Starting) | None => {}
            }
            pulse.beat(&self.running);
            line.draw(&self.running);
            thread::sleep(GLANCE);
        }
    }

    /// After a successor has taken over: until all responses have ended, or somebody does not want to wait for that.
    pub fn until_drained(&self) {
        let mut is_hurried = false;
        while !self.running.is_over() {
            if self.signals.wants_end() && !is_hurried {
                is_hurried = true;
                self.running.drain(self.configuration.drain);
            }
            thread::sleep(GLANCE);
        }
    }

    fn reload(&mut self) {
        tell(&[News::Reloading]);
        self.running.control().reopen_logs();
        let configured = (self.configure)().and_then(|configuration| {
            let server = Arc::new(configuration.server.clone());
            self.running.configure(&server).map_err(super::refuse).map(|()| configuration)
        });
        match configured {
            Ok(configuration) => {
                for setting in kept_until_upgrade(&self.configuration, &configuration) {
                    remark(&format!("the new configuration holds, but for {setting}: that takes an upgrade (USR2)"));
                }
                remark("the configuration was read again");
                self.configuration = configuration;
            }
            Err(failure) => remark(&format!(
                "the configuration is refused, the old one holds: {failure} (folders that the sandbox was not made for take an \
                 upgrade, USR2)"
            )),
        }
        tell(&[News::Ready]);
    }

    fn start_successor(&self) -> Option<Successor> {
        match self.running.with_listeners(|listeners| Successor::start(self.launcher, listeners)) {
            Ok(successor) => {
                remark(&format!("process {} is to follow this one", successor.number()));
                Some(successor)
            }
            Err(error) => {
                remark(&format!("the upgrade has failed, this server goes on: {error}"));
                None
            }
        }
    }
}

/// Settings that differ and that a running server keeps as they were at its start.
fn kept_until_upgrade(old: &Configuration, new: &Configuration) -> Vec<&'static str> {
    let settings = [
        ("cores", old.server.cores == new.server.cores),
        ("driver", old.server.driver == new.server.driver),
        ("limits.connections_max", old.server.limits.connections_max == new.server.limits.connections_max),
        ("user", old.user == new.user),
        ("sandbox", old.sandbox == new.sandbox),
        ("pid_file", old.pid_file == new.pid_file),
    ];
    settings.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
}

/// Tells the service manager. That it does not listen is no reason to stop serving.
pub fn tell(news: &[News<'_>]) {
    if let Err(error) = service_manager::tell(news) {
        remark(&format!("the service manager does not listen: {error}"));
    }
}

/// What a service manager takes as a sign of life: that each core's loop goes round, not only this thread.
struct Pulse {
    every: Option<Duration>,
    asked: Option<(Instant, Receiver<()>, usize)>,
}

impl Pulse {
    fn new() -> Self {
        // Twice as often as is wanted, so that one late answer is not the last.
        Self { every: service_manager::watchdog().map(|interval| interval / 2), asked: None }
    }

    fn beat(&mut self, running: &Running) {
        let Some(every) = self.every else { return };
        let Some((at, answers, missing)) = &mut self.asked else {
            self.asked = Some((Instant::now(), running.ask(), running.cores()));
            return;
        };
        let before = *missing;
        *missing -= answers.try_iter().take(before).count();
        if before > 0 && *missing == 0 {
            tell(&[News::Watchdog]);
        }
        if *missing == 0 && at.elapsed() >= every {
            self.asked = None;
        }
    }
}

/// Figures for who sits at a terminal.
struct StatusLine(ProgressBar);

impl StatusLine {
    fn new() -> Self {
        let bar = if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        bar.set_style(ProgressStyle::with_template("{spinner} {wide_msg}").expect("a valid template"));
        Self(bar)
    }

    fn draw(&self, running: &Running) {
        if !self.0.is_hidden() {
            self.0.set_message(super::describe(&running.totals()));
            self.0.tick();
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
