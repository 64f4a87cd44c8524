//! Another configuration for a server that runs: everything new is opened before anything old is
//! closed, and nothing changes if something cannot be had.

use std::fs;
use std::io;
use std::mem;
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};

use thalweg_sys::Instant;

use super::commands::{ConfigUpdate, LoopCommand, send_listener};
use super::failure::StartError;
use super::listeners::{Change, LoopGroup};
use super::loop_tls::TlsSetup;
use super::running::{ANSWER_TIME, Running, ensure_servable, ensure_tier};
use super::tls::ServerTls;
use crate::config::ServerConfig;
use crate::content::tier::CacheTier;
use crate::shaping::shaper::SharedRateLimits;
use crate::telemetry::accounting;
use crate::telemetry::log::LogFiles;
use crate::telemetry::metrics::{KnownHosts, StatusListener};

impl Running {
    /// Serves by another configuration from now on: other folders, limits, addresses, logs and
    /// status listener. Connections stay, and responses that are being sent go on as they began.
    /// CPUs and driver are those of the start.
    ///
    /// An address may change between `listen` and `status`: the sockets stay open, and the
    /// connections that come meanwhile wait in their queues.
    ///
    /// # Errors
    /// The configuration cannot be had. The server goes on as before.
    pub fn configure(&mut self, config: &Arc<ServerConfig>) -> Result<(), StartError> {
        let tls = ServerTls::open(config, self.tls.as_ref(), &|path| fs::read(path))?;
        self.configure_with(config, tls, self.tier.clone())
    }

    /// The same, with the TLS of the configuration and its cache tier, which were opened before.
    ///
    /// # Errors
    /// As for [`configure`](Self::configure).
    pub fn configure_with(
        &mut self,
        config: &Arc<ServerConfig>,
        tls: Option<ServerTls>,
        tier: Option<Arc<dyn CacheTier>>,
    ) -> Result<(), StartError> {
        ensure_servable(config)?;
        ensure_tier(config, tier.as_ref())?;
        let files = if config.log == self.config.log { None } else { Some(LogFiles::open(&config.log)?) };
        let status_address = config.status.as_ref().map(|status| status.listen.into());
        let mut change = self.control.listeners().prepare(&config.listen, status_address.as_ref(), self.loops())?;
        let new_status = self.prepare_status(config)?;
        // Records of responses by the new configuration go to the new logs.
        if let Some(files) = files {
            self.logs.change(files);
        }
        let groups = change.groups_of_loops(&self.control.listeners());
        let tls_setup = tls.as_ref().zip(config.tls.as_ref()).map(|(tls, config)| tls.setup(config, &groups));
        let proxied_groups = LoopGroup::proxied(&groups, config);
        self.configure_loops(config, (tls_setup.as_ref(), &proxied_groups), tier.as_ref())?;
        self.exchange_listeners(config, &mut change, new_status);
        self.control.listeners().apply(change);
        self.addresses = self.control.listeners().addresses();
        if config.status.is_none() {
            self.registry.drop_statistics();
        }
        self.config = Arc::clone(config);
        self.tls = tls;
        self.registry.set_tier(tier.clone());
        self.tier = tier;
        Ok(())
    }

    /// Has all loops serve by a configuration, and waits until they do.
    fn configure_loops(
        &self,
        config: &Arc<ServerConfig>,
        (tls, proxied_groups): (Option<&TlsSetup>, &[u32]),
        tier: Option<&Arc<dyn CacheTier>>,
    ) -> Result<(), StartError> {
        let (done, answers) = mpsc::sync_channel(self.loops());
        let limits = Arc::new(SharedRateLimits::of(config, Instant::now()));
        for (command_queue, waker) in self.commands.iter().zip(self.control.wakers.iter()) {
            let update = ConfigUpdate {
                config: Arc::clone(config),
                tls: tls.cloned(),
                proxied_groups: proxied_groups.to_vec(),
                tier: tier.filter(|_| config.forwards()).cloned(),
                limits: Arc::clone(&limits),
                record_queue: accounting::is_wanted(config).then(|| self.logs.record_queue()),
                registry: Arc::clone(&self.registry),
            };
            command_queue.leave([LoopCommand::Configure(Box::new(update), done.clone())], waker);
        }
        drop(done);
        for _ in 0..self.loops() {
            let silent = || StartError::Loop(io::Error::new(io::ErrorKind::TimedOut, "a loop does not answer"));
            answers.recv_timeout(ANSWER_TIME).map_err(|_| silent())??;
        }
        Ok(())
    }

    /// Has loops and status listener accept from the sockets that a change assigns to them. Where
    /// sockets move between the two, one stops before the other begins, so that no connection
    /// reaches the wrong one or is missed: the kernel wakes one waiter of a socket, and no other
    /// one when that waiter stops.
    fn exchange_listeners(&mut self, config: &ServerConfig, change: &mut Change, new_status: Option<StatusListener>) {
        if change.takes_from_status
            && let Some(status) = &self.status
        {
            status.release();
        }
        self.change_loops_listeners(change);
        if !change.released.is_empty() {
            self.await_driver_calls();
        }
        let sockets = mem::take(&mut change.status);
        self.change_status(config, sockets, new_status);
    }

    fn change_loops_listeners(&self, change: &mut Change) {
        for (loop_index, ((sockets, command_queue), waker)) in mem::take(&mut change.added)
            .into_iter()
            .zip(self.commands.iter())
            .zip(self.control.wakers.iter())
            .enumerate()
        {
            let channel = self.channels.get(loop_index);
            let release = change.released.iter().map(|&group| LoopCommand::Release(group));
            let retire = change.removed.iter().map(|&group| LoopCommand::Retire(group));
            let listen = sockets.into_iter().map(|(group, socket)| {
                // The loop does not find a socket that is lost here, and goes on without it.
                let sent = channel.map(|channel| send_listener(channel, &socket));
                LoopCommand::Listen(group, if sent.is_some() { None } else { Some(socket) })
            });
            command_queue.leave(release.chain(retire).chain(listen), waker);
        }
    }

    /// Starts the status listener that a configuration needs, if it is not the one that runs. It
    /// does not listen yet. The daily history is that of the file that the configuration names.
    fn prepare_status(&self, config: &ServerConfig) -> Result<Option<StatusListener>, StartError> {
        match (&config.status, &self.config.status) {
            (Some(new), Some(old)) if new.state == old.state && self.status.is_some() => Ok(None),
            (Some(new), _) => self.start_status(new, Vec::new()).map(Some),
            (None, _) => Ok(None),
        }
    }

    /// Shows the status as a configuration has it, at these sockets.
    fn change_status(&mut self, config: &ServerConfig, sockets: Vec<OwnedFd>, new: Option<StatusListener>) {
        let Some(status_config) = &config.status else {
            self.status = None;
            return;
        };
        if config.status == self.config.status {
            return;
        }
        if new.is_some() {
            self.status = new;
        }
        if let Some(status) = &mut self.status {
            status.listen(sockets, KnownHosts::of(&status_config.allowed_hosts));
        }
    }
}
