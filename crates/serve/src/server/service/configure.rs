//! Another configuration for a loop that runs.

use std::sync::Arc;

use thalweg_sys::Driver;

use super::Service;
use super::forwarder_of;
use crate::catalog::site::Sites;
use crate::config::ServerConfig;
use crate::content::local::origin::LocalOrigin;
use crate::http::gate::Gate;
use crate::listing::Listings;
use crate::server::commands::ConfigUpdate;
use crate::server::connection::Times;
use crate::server::failure::StartError;
use crate::server::loop_tls::{self, LoopTls, TlsSetup};
use crate::shaping::requests::RequestLimits;
use crate::shaping::shaper::{RateScope, Shaper, SharedRateLimits};
use crate::telemetry::accounting::Accounting;
use crate::telemetry::log::RecordQueue;
use crate::telemetry::registry::Registry;

impl Service {
    /// Serves by another configuration from now on. Responses under way go on as they began.
    pub(super) fn configure<D: Driver>(
        &mut self,
        driver: &mut D,
        ConfigUpdate { config, tls, tier, limits, record_queue, registry }: ConfigUpdate,
    ) -> Result<(), StartError> {
        let config = &*config;
        let sites = Sites::open(config)?;
        let times = Times::new(&config.limits);
        self.look_ns = loop_tls::look_ns(&times, config.tls.as_ref());
        self.shared.times = times;
        self.configure_tls(tls, config);
        let requests = limits.requests().cloned();
        self.update_rate_limits(driver, limits);
        let responder = &mut self.shared.responder;
        let subscription = self.subscription.clone().filter(|_| config.cache.watch);
        let origin = LocalOrigin::new(Arc::new(sites), &config.cache, subscription).succeeding(&responder.origin);
        responder.listings = Listings::new(Arc::clone(origin.namespace()), &config.cache, Arc::clone(&self.inbox));
        responder.origin = origin;
        // Held objects may be of other mounts.
        responder.forwarder = tier.map(|tier| forwarder_of(responder, tier, &self.inbox, &config.cache));
        self.open_gate(driver, requests);
        self.configure_accounting(driver, config, record_queue, registry);
        Ok(())
    }

    /// Has listeners speak TLS, or not, with these settings from the next connection on.
    fn configure_tls(&mut self, setup: Option<TlsSetup>, config: &ServerConfig) {
        let leaving: Vec<_> = self.retiring.iter().chain(&self.retired).copied().collect();
        let before = self.tls.take();
        self.shared.redirect_port = setup.as_ref().and_then(|setup| setup.redirect_port);
        let Some((setup, config)) = setup.zip(config.tls.as_ref()) else { return };
        let mut tls = LoopTls::new(setup, config).succeeding(before, &leaving);
        self.listeners.iter().for_each(|&(group, listener)| tls.add_listener(group, listener));
        self.tls = Some(Box::new(tls));
    }

    /// Lets requests in by the networks of the present sites and by these limits.
    fn open_gate<D: Driver>(&mut self, driver: &mut D, limits: Option<Arc<RequestLimits>>) {
        let responder = &mut self.shared.responder;
        responder.gate = Gate::of(responder.origin.namespace().networks.as_ref(), limits);
        let Some(gate) = &mut responder.gate else { return };
        for connection in self.slots.iter().filter_map(|slot| slot.connection.as_ref()) {
            let socket = connection.socket();
            gate.set_client(socket, driver.peer_addr(socket).ok().map(|peer| peer.ip()));
        }
    }

    /// Begins, goes on, or ceases to write down what is done.
    fn configure_accounting<D: Driver>(
        &mut self,
        driver: &mut D,
        config: &ServerConfig,
        record_queue: Option<RecordQueue>,
        registry: Arc<Registry>,
    ) {
        let knew_clients = self.shared.accounting.as_ref().is_some_and(Accounting::wants_clients);
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
        if accounting.wants_clients() && !knew_clients {
            for connection in self.slots.iter().filter_map(|slot| slot.connection.as_ref()) {
                accounting
                    .set_client(connection.socket(), driver.peer_addr(connection.socket()).ok().map(|peer| peer.ip()));
            }
        }
    }

    /// Has other limits hold, for the connections that are open too.
    pub(crate) fn update_rate_limits<D: Driver>(&mut self, driver: &mut D, limits: Arc<SharedRateLimits>) {
        let now = driver.now();
        self.shared.shaper = limits.are_on().then(|| Shaper::new(limits, now));
        for index in 0..self.slots.len() {
            let Some(connection) = &mut self.slots[index].connection else { continue };
            let socket = connection.socket();
            if let Some(shaper) = &mut self.shared.shaper {
                let knows_clients = shaper.shared().knows_clients();
                let address = knows_clients.then(|| driver.peer_addr(socket).ok()).flatten();
                let shaping_state = shaper.take_over(
                    connection.shaping_state().take(),
                    socket,
                    address.map(|address| address.ip()),
                    now,
                );
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
