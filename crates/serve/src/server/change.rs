//! Another configuration for a server that runs: what is new is had first, then what was old is let go.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};

use thalweg_sys::Instant;

use super::{ANSWER_TIME, Running, StartError, ensure_servable, has_accounting};
use crate::config::ServerConfig;
use crate::server::commands::{ConfigUpdate, LoopCommand, send_listener};
use crate::server::listeners::{Change, Shares};
use crate::shaping::shaper::SharedRateLimits;
use crate::telemetry::log::LogFiles;
use crate::telemetry::metrics::KnownHosts;

impl Running {
    /// Serves by another configuration from now on: other folders, limits, addresses, logs and status listener. Connections stay, and
    /// responses under way go on as they began. CPUs and driver are those of the start.
    ///
    /// # Errors
    /// The configuration cannot be had. The server goes on as before.
    pub fn configure(&mut self, config: &Arc<ServerConfig>) -> Result<(), StartError> {
        ensure_servable(config)?;
        let logs = if config.log == self.config.log { None } else { Some(LogFiles::open(&config.log)?) };
        let blocking = config.status.as_ref().map(|status| status.listen.into());
        let loops = self.threads.len();
        let Change { added, removed, blocking } =
            self.control.listeners().change(&config.listen, blocking.as_ref(), loops)?;
        self.addresses = self.control.listeners().addresses();
        self.change_status(config, blocking)?;
        // What loops write down from now on stands in the new logs.
        if let Some(logs) = logs {
            self.logs.change(logs);
        }
        self.settle(config, added, &removed)?;
        if config.status.is_none() {
            self.registry.drop_statistics();
        }
        self.config = Arc::clone(config);
        Ok(())
    }

    /// Has all loops serve by a configuration, and waits until they do.
    fn settle(&self, config: &Arc<ServerConfig>, added: Shares, removed: &[u32]) -> Result<(), StartError> {
        let loops = self.threads.len();
        let (done, answers) = mpsc::sync_channel(loops);
        let limits = Arc::new(SharedRateLimits::of(config, Instant::now()));
        for (loop_index, ((share, command_queue), waker)) in
            added.into_iter().zip(self.commands.iter()).zip(self.control.wakers.iter()).enumerate()
        {
            let channel = self.channels.get(loop_index);
            let update = ConfigUpdate {
                config: Arc::clone(config),
                limits: Arc::clone(&limits),
                record_queue: has_accounting(config).then(|| self.logs.record_queue()),
                registry: Arc::clone(&self.registry),
            };
            let configure = LoopCommand::Configure(update, done.clone());
            let retire = removed.iter().map(|&group| LoopCommand::Retire(group));
            let listen = share.into_iter().map(|(group, socket)| {
                // What is lost here the loop does not find, and goes on without.
                let sent = channel.map(|channel| send_listener(channel, &socket));
                LoopCommand::Listen(group, if sent.is_some() { None } else { Some(socket) })
            });
            command_queue.leave([configure].into_iter().chain(retire).chain(listen), waker);
        }
        drop(done);
        for _ in 0..loops {
            let silent = || StartError::Loop(io::Error::new(io::ErrorKind::TimedOut, "a loop does not answer"));
            answers.recv_timeout(ANSWER_TIME).map_err(|_| silent())??;
        }
        Ok(())
    }

    /// Shows the status as a configuration has it, at this socket. The days are those of the file that it names.
    fn change_status(&mut self, config: &ServerConfig, socket: Option<OwnedFd>) -> Result<(), StartError> {
        if config.status == self.config.status {
            return Ok(());
        }
        let state = |config: &ServerConfig| config.status.as_ref().map(|status| status.state.clone());
        match (&mut self.status, socket) {
            (Some(status), Some(socket)) if state(config) == state(&self.config) => {
                let allowed = config.status.as_ref().map_or(&[][..], |status| &status.allowed_hosts);
                status.move_to(socket.into(), KnownHosts::of(allowed)).map_err(StartError::Loop)?;
            }
            (_, socket) => self.status = self.show_status(config, socket)?,
        }
        Ok(())
    }
}
