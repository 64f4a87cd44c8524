//! The settings of a server, shared by all its connections.

use std::fmt;
use std::sync::Arc;

use rustls::server::{NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use rustls::{ServerConfig, SupportedProtocolVersion};

use crate::client_verifier::NotingClientVerifier;
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

/// Whether clients have certificates.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum ClientCertificates {
    /// None is asked for.
    #[default]
    None,
    /// One is asked for, and has to be issued by one of these authorities (PEM) if it is sent.
    Optional(Vec<u8>),
    /// One is required, issued by one of these authorities (PEM).
    Required(Vec<u8>),
}

impl ClientCertificates {
    /// The part of a session's meaning that they are.
    fn context(&self) -> Vec<u8> {
        match self {
            Self::None => b"none".to_vec(),
            Self::Optional(authorities) => [b"optional ", &authorities[..]].concat(),
            Self::Required(authorities) => [b"required ", &authorities[..]].concat(),
        }
    }
}

/// The settings of a server. Clones are cheap and share the certificates.
#[derive(Clone)]
pub struct ServerSettings {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) verifies_clients: bool,
}

impl ServerSettings {
    /// Settings for the certificates of a store, which may change later.
    ///
    /// # Errors
    /// The selection leaves nothing to negotiate, or an authority is malformed.
    pub fn new(options: ServerOptions, store: &Arc<CertificateStore>) -> Result<Self, SettingsError> {
        let ServerOptions { selection, alpn, tickets, clients } = options;
        let provider = selection.provider()?;
        let verifier = match &clients {
            ClientCertificates::None => WebPkiClientVerifier::no_client_auth(),
            ClientCertificates::Optional(authorities) => {
                Arc::new(NotingClientVerifier::new(authorities, false, &provider)?)
            }
            ClientCertificates::Required(authorities) => {
                Arc::new(NotingClientVerifier::new(authorities, true, &provider)?)
            }
        };
        let versions: Vec<&'static SupportedProtocolVersion> = selection.versions_of(&provider);
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(|error| SettingsError::Selection(error.to_string()))?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::clone(store) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = alpn;
        // The last: a client that can speak anything else does not ask for the challenge.
        config.alpn_protocols.push(TLS_ALPN_CHALLENGE.to_vec());
        // A session's state is the client's, in a ticket, so that clients take no memory here.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        match tickets {
            Some(tickets) => config.ticketer = Arc::new(tickets.of_context(&clients.context())),
            None => config.send_tls13_tickets = 0,
        }
        Ok(Self { config: Arc::new(config), verifies_clients: clients != ClientCertificates::None })
    }
}

impl fmt::Debug for ServerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSettings").finish_non_exhaustive()
    }
}
