//! TLS of a loop: its settings, the listeners that speak it, the handshakes under way.

use std::collections::VecDeque;
use std::time::Duration;

use thalweg_sys::SocketId;
use thalweg_tls::ServerSettings;

use crate::config::TlsConfig;
use crate::server::connection::Times;

/// TLS of a loop.
pub(crate) struct LoopTls {
    pub(crate) settings: ServerSettings,
    /// The groups whose listeners speak TLS.
    groups: Vec<u32>,
    pub(crate) listeners: Vec<SocketId>,
    /// Connections in the order in which their handshakes began; some have completed it, or have
    /// gone.
    pub(crate) begun: VecDeque<SocketId>,
    pub(crate) handshakes_max: usize,
    /// How long a handshake may take; `None`: as long as a head.
    pub(crate) handshake_ns: Option<u64>,
}

/// The parts of TLS that a loop is given.
#[derive(Clone)]
pub(crate) struct TlsSetup {
    pub(crate) settings: ServerSettings,
    /// The groups whose listeners speak TLS.
    pub(crate) groups: Vec<u32>,
    /// The port of the first of them, if plain HTTP is redirected to it.
    pub(crate) redirect_port: Option<u16>,
}

/// The shortest of all times, that of handshakes among them: no deadline is set nearer than that.
pub(crate) fn look_ns(times: &Times, tls: Option<&TlsConfig>) -> u64 {
    let handshake_time = tls.and_then(|tls| tls.handshake_time);
    times.shortest_ns().min(handshake_time.map_or(u64::MAX, ns))
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl LoopTls {
    pub(crate) fn new(setup: TlsSetup, config: &TlsConfig) -> Self {
        Self {
            settings: setup.settings,
            groups: setup.groups,
            listeners: Vec::new(),
            begun: VecDeque::new(),
            handshakes_max: config.handshakes_max,
            handshake_ns: config.handshake_time.map(ns),
        }
    }

    /// Takes over the connections of the loop's TLS before, and its listeners that are `leaving`:
    /// they speak on as they did.
    pub(crate) fn succeeding(mut self, before: Option<Box<Self>>, leaving: &[SocketId]) -> Self {
        if let Some(before) = before {
            self.begun = before.begun;
            self.listeners = before.listeners;
            self.listeners.retain(|listener| leaving.contains(listener));
        }
        self
    }

    /// Has a listener speak TLS, if its group does.
    pub(crate) fn add_listener(&mut self, group: u32, listener: SocketId) {
        if self.groups.contains(&group) {
            self.listeners.push(listener);
        }
    }
}
