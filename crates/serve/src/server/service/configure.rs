//! Another configuration for a loop that runs.

use std::sync::Arc;

use thalweg_sys::{Driver, SocketId};

use super::Service;
use super::{forwarder_of, open_gate};
use crate::catalog::site::Sites;
use crate::config::ServerConfig;
use crate::content::local::origin::LocalOrigin;
use crate::http::clients::Remote;
use crate::listing::Listings;
use crate::server::commands::ConfigUpdate;
use crate::server::connection::{Connection, Times};
use crate::server::failure::StartError;
use crate::server::loop_tls::{self, LoopTls, TlsSetup};
use crate::shaping::shaper::{RateScope, Shaper, SharedRateLimits};
use crate::telemetry::accounting::Accounting;
use crate::telemetry::log::RecordQueue;
use crate::telemetry::registry::Registry;

impl Service {
    /// Serves by another configuration from now on. Responses under way go on as they began.
    pub(super) fn configure<D: Driver>(
        &mut self,
        driver: &mut D,
        ConfigUpdate { config, tls, proxied_groups, tier, limits, record_queue, registry }: ConfigUpdate,
    ) -> Result<(), StartError> {
        let config = &*config;
        let sites = Sites::open(config)?;
        let times = Times::new(&config.limits);
        self.look_ns = loop_tls::look_ns(&times, config.tls.as_ref());
        self.shared.times = times;
        self.configure_tls(tls, config);
        self.announcements.configure(proxied_groups, &self.listeners, &self.leaving());
        let requests = limits.requests().cloned();
        let responder = &mut self.shared.responder;
        let subscription = self.subscription.clone().filter(|_| config.cache.watch);
        let origin = LocalOrigin::new(Arc::new(sites), &config.cache, subscription).succeeding(&responder.origin);
        responder.listings = Listings::new(Arc::clone(origin.namespace()), &config.cache, Arc::clone(&self.inbox));
        responder.origin = origin;
        // The tier that goes on gets the counts of those of before.
        if let Some(forwarder) = &mut responder.forwarder {
            forwarder.report_hits();
        }
        // Held objects may be of other mounts.
        responder.forwarder = tier.map(|tier| forwarder_of(responder, tier, &self.inbox, &config.cache));
        open_gate(responder, requests, config.client_field);
        self.update_rate_limits(driver, limits);
        self.configure_accounting(config, record_queue, registry);
        if self.wants_remotes() {
            for index in 0..self.slots.len() {
                let Some(socket) = self.slots[index].connection.as_ref().map(Connection::socket) else { continue };
                self.introduce(driver, socket);
            }
        }
        Ok(())
    }

    /// Listeners that are about to be closed.
    fn leaving(&self) -> Vec<SocketId> {
        self.retiring.iter().chain(&self.retired).copied().collect()
    }

    /// Has listeners speak TLS, or not, with these settings from the next connection on.
    fn configure_tls(&mut self, setup: Option<TlsSetup>, config: &ServerConfig) {
        let leaving = self.leaving();
        let before = self.tls.take();
        self.shared.redirect_port = setup.as_ref().and_then(|setup| setup.redirect_port);
        let Some((setup, config)) = setup.zip(config.tls.as_ref()) else { return };
        let mut tls = LoopTls::new(setup, config).succeeding(before, &leaving);
        self.listeners.iter().for_each(|&(group, listener)| tls.add_listener(group, listener));
        self.tls = Some(Box::new(tls));
    }

    /// Begins, goes on, or ceases to write down what is done.
    fn configure_accounting(
        &mut self,
        config: &ServerConfig,
        record_queue: Option<RecordQueue>,
        registry: Arc<Registry>,
    ) {
        let accounting = match (self.shared.accounting.take(), record_queue) {
            (Some(mut accounting), Some(_)) => {
                accounting.configure(config);
                accounting
            }
            (None, Some(record_queue)) => Accounting::new(self.loop_index, record_queue, registry, config),
            (Some(accounting), None) => {
                accounting.close();
                let connections = self.slots.iter_mut().filter_map(|slot| slot.connection.as_mut());
                return connections.for_each(|connection| drop(connection.take_records()));
            }
            (None, None) => return,
        };
        let accounting = self.shared.accounting.insert(accounting);
        accounting.clients().trust(self.shared.responder.origin.namespace().proxies.clone());
    }

    /// Has other limits hold, for the connections that are open too.
    pub(crate) fn update_rate_limits<D: Driver>(&mut self, driver: &mut D, limits: Arc<SharedRateLimits>) {
        let now = driver.now();
        self.shared.shaper = limits.are_on().then(|| Shaper::new(limits, now));
        for index in 0..self.slots.len() {
            let Some(socket) = self.slots[index].connection.as_ref().map(Connection::socket) else { continue };
            let remote = if self.wants_remotes() { self.remote_of(driver, socket) } else { Remote::default() };
            let Some(connection) = &mut self.slots[index].connection else { continue };
            if let Some(shaper) = &mut self.shared.shaper {
                let before = connection.shaping_state().take();
                let address = remote.of_connection().filter(|_| shaper.shared().knows_clients());
                let shaping_state = shaper.take_over(before, socket, address, now);
                *connection.shaping_state() = Some(shaping_state);
            } else {
                // Nothing to wait for any more.
                self.react(driver, socket, |connection, driver, shared| {
                    connection.on_grant(driver, shared, RateScope::Total)
                });
            }
        }
    }
}
