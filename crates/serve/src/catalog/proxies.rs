//! The proxies in front of a server that are believed when they say whose a request is.

use std::net::IpAddr;
use std::sync::Arc;

use thalweg_wire::Fields;
use thalweg_wire::forwarded::{ClientField, NamedClient};

use crate::config::{Network, ServerConfig};

/// The proxies that are trusted.
#[derive(Debug)]
pub(crate) struct TrustedProxies {
    networks: Box<[Network]>,
    field: ClientField,
}

impl TrustedProxies {
    /// The trusted proxies of a configuration; `None` if it names none.
    pub(crate) fn of(config: &ServerConfig) -> Option<Arc<Self>> {
        let networks: Box<[_]> = config.trusted_proxies.as_slice().into();
        (!networks.is_empty()).then(|| Arc::new(Self { networks, field: config.client_field }))
    }

    /// Whether a proxy is trusted that has this address; `None` is one on a Unix socket.
    pub(crate) fn are_at(&self, address: Option<IpAddr>) -> bool {
        self.networks.iter().any(|network| network.contains(address))
    }

    /// The client that a trusted proxy names for a request.
    pub(crate) fn client(&self, fields: Fields<'_>) -> Option<NamedClient> {
        self.field.client(fields, |address| self.are_at(Some(address)))
    }
}
