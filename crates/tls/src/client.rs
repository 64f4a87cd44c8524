//! The settings of a client, shared by its connections.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, RootCertStore};

use crate::certificates::{Certificate, certificates_of_pem};
use crate::selection::Selection;
use crate::server_verifier::NotingServerVerifier;
use crate::sessions::Sessions;
use crate::settings_error::SettingsError;

/// The choices of a client.
#[derive(Debug, Default)]
pub struct ClientOptions {
    /// Versions, suites and groups.
    pub selection: Selection,
    /// Application protocols (RFC 7301), the preferred one first.
    pub alpn: Vec<Vec<u8>>,
    /// The authorities that are trusted.
    pub roots: Roots,
    /// Certificates are accepted that have faults, which are noted.
    pub insecure: bool,
    /// The client's own certificate.
    pub certificate: Option<Certificate>,
    /// The name to ask for, and to verify, instead of the server's.
    pub server_name: Option<String>,
    /// Whether sessions are resumed.
    pub resume: Resume,
}

/// The authorities that a client trusts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Roots {
    /// Those of the system.
    #[default]
    System,
    /// Those of a text in PEM.
    Pem(Vec<u8>),
}

/// Whether a client resumes sessions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Resume {
    /// Each handshake is a full one.
    #[default]
    Never,
    /// A handshake resumes a session if there is a ticket that was not used yet.
    Tickets,
    /// As for `Tickets`. It is for the owner of the connections to have the first one completed
    /// before others begin, and to take a full handshake after that for an error.
    Always,
}

impl FromStr for Resume {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, SettingsError> {
        match text {
            "never" => Ok(Self::Never),
            "tickets" => Ok(Self::Tickets),
            "always" => Ok(Self::Always),
            _ => Err(SettingsError::Unknown {
                what: "resumption",
                name: text.into(),
                known: "never, tickets, always".into(),
            }),
        }
    }
}

/// The settings of a client. Clones are cheap and share the sessions.
#[derive(Clone)]
pub struct ClientSettings {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) server_name: Option<Arc<str>>,
    resume: Resume,
}

impl ClientSettings {
    /// Settings, with no sessions yet. The process has gathered its randomness by then, which takes
    /// tens of milliseconds once and would be part of the first handshakes otherwise.
    ///
    /// # Errors
    /// The selection leaves nothing to negotiate, or the authorities cannot be had.
    pub fn new(options: ClientOptions) -> Result<Self, SettingsError> {
        let ClientOptions { selection, alpn, roots, insecure, certificate, server_name, resume } = options;
        aws_lc_rs::rand::fill(&mut [0]).map_err(|_| io::Error::other("the system has no randomness"))?;
        let provider = selection.provider()?;
        let verifier = NotingServerVerifier::new(root_store(&roots, insecure)?, &provider, insecure)?;
        let versions = selection.versions_of(&provider);
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider) as Arc<CryptoProvider>)
            .with_protocol_versions(&versions)
            .map_err(|error| SettingsError::Selection(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match certificate {
            Some(certificate) => {
                builder.with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(certificate.key)))
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = alpn;
        config.resumption = sessions(resume);
        Ok(Self { config: Arc::new(config), server_name: server_name.map(Into::into), resume })
    }

    /// The same settings for a client that runs rustls itself, over sockets of its own.
    pub fn rustls_config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    /// The same settings for another server, whose certificate alone is trusted: no sessions yet,
    /// and the name is the server's.
    ///
    /// # Errors
    /// The certificate cannot be trusted.
    pub fn trusting(&self, server: &Certificate) -> Result<Self, SettingsError> {
        let mut store = RootCertStore::empty();
        for certificate in server.chain() {
            let refused = |error| SettingsError::Roots(format!("a certificate cannot be trusted: {error}"));
            store.add(certificate.into()).map_err(refused)?;
        }
        let mut config = ClientConfig::clone(&self.config);
        let verifier = NotingServerVerifier::new(store, config.crypto_provider(), false)?;
        config.dangerous().set_certificate_verifier(Arc::new(verifier));
        config.resumption = sessions(self.resume);
        Ok(Self { config: Arc::new(config), server_name: None, resume: self.resume })
    }
}

fn sessions(resume: Resume) -> Resumption {
    match resume {
        Resume::Never => Resumption::disabled(),
        Resume::Tickets | Resume::Always => Resumption::store(Arc::new(Sessions::default())),
    }
}

/// The trusted authorities. A client that accepts every certificate can do without.
fn root_store(roots: &Roots, insecure: bool) -> Result<RootCertStore, SettingsError> {
    let mut store = RootCertStore::empty();
    match roots {
        Roots::Pem(text) => {
            for certificate in certificates_of_pem(text)? {
                let refused = |error| SettingsError::Roots(format!("an authority cannot be used: {error}"));
                store.add(certificate).map_err(refused)?;
            }
        }
        Roots::System => {
            let found = rustls_native_certs::load_native_certs();
            store.add_parsable_certificates(found.certs);
            if store.is_empty() && !insecure {
                return Err(SettingsError::Roots(
                    "this system has no list of trusted authorities (Debian has it in the package ca-certificates); \
                     name them in a file, with --cacert"
                        .into(),
                ));
            }
        }
    }
    Ok(store)
}

impl fmt::Debug for ClientSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSettings").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}
