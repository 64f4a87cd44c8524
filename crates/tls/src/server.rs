//! The settings of a server, shared by all its connections.

use std::fmt;
use std::sync::Arc;

use rustls::server::{NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use rustls::{ServerConfig, SupportedProtocolVersion};

use crate::client_certificates::ClientCertificates;
use crate::client_verifier::ClientVerifier;
use crate::resolver::{CertificateStore, TLS_ALPN_CHALLENGE};
use crate::selection::Selection;
use crate::settings_error::SettingsError;
use crate::tickets::TicketKeys;

/// The choices of a server.
#[derive(Debug, Default)]
pub struct ServerOptions {
    /// Versions, suites and groups.
    pub selection: Selection,
    /// Application protocols (RFC 7301), the preferred one first.
    pub alpn: Vec<Vec<u8>>,
    /// The keys of session tickets; `None`: no session is resumed.
    pub tickets: Option<TicketKeys>,
    /// Whether clients have certificates.
    pub clients: ClientCertificates,
}

/// The settings of a server. Clones are cheap and share the certificates.
#[derive(Clone)]
pub struct ServerSettings {
    pub(crate) config: Arc<ServerConfig>,
    /// There if any client is asked for a certificate.
    pub(crate) clients: Option<Arc<ClientCertificates>>,
}

impl ServerSettings {
    /// Settings for the certificates of a store, which may change later.
    ///
    /// # Errors
    /// The selection leaves nothing to negotiate, or an authority is malformed.
    pub fn new(options: ServerOptions, store: &Arc<CertificateStore>) -> Result<Self, SettingsError> {
        let ServerOptions { selection, alpn, tickets, clients } = options;
        let provider = selection.provider()?;
        let context = clients.context();
        let clients = clients.ask_any().then(|| Arc::new(clients));
        let verifier = match &clients {
            None => WebPkiClientVerifier::no_client_auth(),
            Some(clients) => Arc::new(ClientVerifier::new(clients, &provider)?),
        };
        let versions: Vec<&'static SupportedProtocolVersion> = selection.versions_of(&provider);
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(|error| SettingsError::Selection(error.to_string()))?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::clone(store) as Arc<dyn ResolvesServerCert>);
        // The selection's order, which has the suites that this host calculates fastest first.
        config.ignore_client_order = true;
        config.alpn_protocols = alpn;
        // The last: a client that can speak anything else does not ask for the challenge.
        config.alpn_protocols.push(TLS_ALPN_CHALLENGE.to_vec());
        // A session's state is the client's, in a ticket, so that clients take no memory here.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        match tickets {
            Some(tickets) => config.ticketer = Arc::new(tickets.of_context(&context)),
            None => config.send_tls13_tickets = 0,
        }
        Ok(Self { config: Arc::new(config), clients })
    }
}

impl fmt::Debug for ServerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSettings").finish_non_exhaustive()
    }
}
