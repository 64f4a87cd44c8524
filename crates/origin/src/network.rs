//! Connections to an origin: resolving its name, connecting to one of its addresses, the TLS
//! handshake. Which protocol is spoken on them is the matter of `connection`.

mod dial;
mod io_error;
mod link;
mod resolver;
mod service;
mod tls;

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::config::{OriginConfig, Protocol};
use crate::failure::{Failure, FailureKind, Phase};
use crate::reach::Reach;
pub(crate) use link::{Connect, Connecting, Link, Spoken};
pub use service::{Service, look_up_service};

use dial::dial;
use resolver::Resolver;
use tls::Tls;

/// Connects to the server of a URL.
pub(crate) struct Network {
    resolver: Resolver,
    tls: Option<Tls>,
    protocol: Protocol,
    connect_time: Duration,
    reach: Reach,
}

impl Network {
    /// A connector for the server of a URL. Nothing is resolved yet.
    ///
    /// # Errors
    /// The URL has no host or another scheme than `http` and `https`, or the authorities cannot be
    /// had.
    pub(crate) fn new(config: &OriginConfig, url: &Url) -> Result<Self, String> {
        let is_tls = match url.scheme() {
            "http" => false,
            "https" => true,
            other => return Err(format!("{url} has the scheme {other}; use http or https")),
        };
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err(format!("{url} has no host"));
        };
        let tls = is_tls.then(|| Tls::new(&config.trust, config.protocol, &host)).transpose()?;
        let resolver = Resolver::new(&host, port, config.times.resolve);
        let (protocol, connect_time, reach) = (config.protocol, config.times.connect, config.reach.clone());
        Ok(Self { resolver, tls, protocol, connect_time, reach })
    }

    async fn link(&self) -> Result<Link, Failure> {
        let limit = self.connect_time;
        let deadline = Instant::now() + limit;
        let late = |phase, what: String| move |_| Failure::timeout(phase, format!("{what} took more than {limit:?}"));
        let name = self.resolver.name();
        let addresses = timeout_at(deadline, self.resolver.addresses())
            .await
            .map_err(late(Phase::Resolve, format!("resolving {name}")))?
            .map_err(|error| Failure::new(FailureKind::Unresolved, format!("{name} has no address: {error}")))?;
        let count = addresses.len();
        let allowed = addresses.into_iter().filter(|address| self.reach.allows(address.ip())).collect::<Vec<_>>();
        if allowed.is_empty() {
            let text = format!("none of the {count} addresses of {name} is public, and redirects lead to no others");
            return Err(Failure::new(FailureKind::Unreachable, text));
        }
        let addresses = allowed;
        let (socket, address) = timeout_at(deadline, dial(&addresses))
            .await
            .map_err(late(Phase::Connect, format!("connecting to {name}")))?
            .map_err(|failures| dial::failure(name, &failures))?;
        match &self.tls {
            None => {
                let spoken = if self.protocol == Protocol::Http2 { Spoken::Http2 } else { Spoken::Http1 };
                Ok(Link { io: Box::new(socket), spoken, address: Some(address) })
            }
            Some(tls) => {
                let connected = timeout_at(deadline, tls.handshake(socket)).await;
                let (io, spoken) =
                    connected.map_err(late(Phase::Handshake, format!("the TLS handshake with {address}")))??;
                Ok(Link { io, spoken, address: Some(address) })
            }
        }
    }
}

impl Connect for Network {
    fn connect(&self) -> Connecting<'_> {
        Box::pin(self.link())
    }

    fn may_multiplex(&self) -> bool {
        match self.protocol {
            Protocol::Auto => self.tls.is_some(),
            Protocol::Http1 => false,
            Protocol::Http2 => true,
        }
    }
}
