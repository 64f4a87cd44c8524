//! TLS of a server: its certificates, keys and settings, opened before the server starts and again
//! for each reload.
//!
//! The starting program reads the files, because the server may have given up the rights for
//! that by the time of a reload. Loops share the settings; connections keep those that they began
//! with.

use std::io;
use std::path::Path;
use std::sync::Arc;

use thalweg_tls::{
    Certificate, CertificateStore, ClientCertificates, ServerOptions, ServerSettings, SettingsError, TicketKeys,
    certificates_of_pem, self_signed,
};

use super::listeners::LoopGroup;
use super::loop_tls::TlsSetup;
use super::tls_error::TlsError;
use crate::catalog::access;
use crate::config::{CertificateFiles, ListenAddr, ServerConfig, TlsConfig};

/// The application protocols that are offered, the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// TLS of a server, ready to be spoken. Clones share certificates and keys.
#[derive(Clone, Debug)]
pub struct ServerTls {
    settings: ServerSettings,
    store: Arc<CertificateStore>,
    tickets: TicketKeys,
    /// The certificates of files.
    of_files: Vec<Certificate>,
    /// The one that was obtained by ACME.
    obtained: Option<Certificate>,
    /// The self-signed certificate, and the names that it is for.
    own: Option<(Vec<String>, Certificate)>,
}

impl ServerTls {
    /// Opens what a configuration names; `None` if it has no TLS. The keys of tickets, a
    /// self-signed certificate and one that was obtained by ACME are taken over from `before`.
    /// `read` reads a file.
    ///
    /// # Errors
    /// A file cannot be read or used, or the settings contradict each other.
    pub fn open(
        config: &ServerConfig,
        before: Option<&Self>,
        read: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
    ) -> Result<Option<Self>, TlsError> {
        let Some(tls) = &config.tls else { return Ok(None) };
        let of_files = tls.certificates.iter().map(|files| read_certificate(files, read)).collect::<Result<_, _>>()?;
        let own = match tls.self_signed || tls.auto {
            true => Some(own_certificate(config, before)?),
            false => None,
        };
        let store = Arc::new(CertificateStore::default());
        if let Some(before) = before.filter(|_| tls.auto) {
            store.adopt_challenges(&before.store);
        }
        let tickets = match before {
            Some(before) => before.tickets.clone(),
            None => TicketKeys::new()?,
        };
        let options = ServerOptions {
            selection: tls.selection.clone(),
            alpn: PROTOCOLS.iter().map(|name| name.to_vec()).collect(),
            tickets: tls.tickets.then(|| tickets.clone()),
            clients: client_certificates(config, tls, read)?,
        };
        let settings = ServerSettings::new(options, &store)?;
        let obtained = before.filter(|_| tls.auto).and_then(|before| before.obtained.clone());
        let opened = Self { settings, store, tickets, of_files, obtained, own };
        if opened.certificates().is_empty() {
            return Err(SettingsError::NoCertificate.into());
        }
        opened.store.set(&opened.certificates());
        Ok(Some(opened))
    }

    /// Serves with a certificate that was obtained by ACME from the next handshake on, instead of
    /// the one before.
    pub fn install(&mut self, certificate: Certificate) {
        self.obtained = Some(certificate);
        self.store.set(&self.certificates());
    }

    /// The certificates with names beside their own, the default one first.
    fn certificates(&self) -> Vec<(Vec<String>, Certificate)> {
        let obtained = self.of_files.iter().chain(&self.obtained);
        obtained.map(|certificate| (Vec::new(), certificate.clone())).chain(self.own.clone()).collect()
    }

    /// The files that a configuration names, each once.
    pub fn files(config: &ServerConfig) -> Vec<&Path> {
        let mut files: Vec<&Path> = Vec::new();
        let Some(tls) = &config.tls else { return files };
        for CertificateFiles { chain, key } in &tls.certificates {
            files.extend([&**chain, &**key]);
        }
        files.extend(tls.client_authorities.as_deref());
        files.sort_unstable();
        files.dedup();
        files
    }

    /// The parts for loops that accept from these groups.
    pub(super) fn setup(&self, config: &TlsConfig, groups: &[LoopGroup]) -> TlsSetup {
        let speaking = || groups.iter().filter(|group| config.speaks_at(&group.asked));
        let mut ports = speaking().filter_map(|group| match &group.at {
            ListenAddr::Tcp(address) => Some(address.port()),
            ListenAddr::Unix(_) => None,
        });
        TlsSetup {
            settings: self.settings.clone(),
            groups: speaking().map(|group| group.number).collect(),
            redirect_port: ports.next().filter(|_| config.redirect),
        }
    }

    /// The certificates, which may be exchanged while the server runs.
    pub fn store(&self) -> &Arc<CertificateStore> {
        &self.store
    }

    /// The keys of session tickets, which a successor process takes over.
    pub fn tickets(&self) -> &TicketKeys {
        &self.tickets
    }
}

/// The self-signed certificate, the same as before unless it has to be for other names.
fn own_certificate(
    config: &ServerConfig,
    before: Option<&ServerTls>,
) -> Result<(Vec<String>, Certificate), SettingsError> {
    let names = own_names(config);
    match before.and_then(|before| before.own.clone()).filter(|(known, _)| *known == names) {
        Some(known) => Ok(known),
        None => self_signed(&names).map(|certificate| (names, certificate)),
    }
}

fn read_certificate(
    CertificateFiles { chain, key }: &CertificateFiles,
    read: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
) -> Result<Certificate, TlsError> {
    let unreadable = |path: &Path, error| TlsError::Read { path: path.to_owned(), error };
    let chain_pem = read(chain).map_err(|error| unreadable(chain, error))?;
    let key_pem = read(key).map_err(|error| unreadable(key, error))?;
    let refused = |path: &Path| {
        let path = path.to_owned();
        move |error| TlsError::File { path, error }
    };
    // An error of the chain is told apart from one of the key, by the file.
    certificates_of_pem(&chain_pem).map_err(refused(chain))?;
    Certificate::of_pem(&chain_pem, &key_pem).map_err(refused(key))
}

fn client_certificates(
    config: &ServerConfig,
    tls: &TlsConfig,
    read: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
) -> Result<ClientCertificates, TlsError> {
    let Some(path) = tls.client_authorities.as_deref().filter(|_| access::asks_any(config)) else {
        return Ok(ClientCertificates::default());
    };
    let text = read(path).map_err(|error| TlsError::Read { path: path.to_owned(), error })?;
    certificates_of_pem(&text).map_err(|error| TlsError::File { path: path.to_owned(), error })?;
    Ok(access::client_certificates(config, text))
}

/// The names of a self-signed certificate: those of the sites, and the addresses.
fn own_names(config: &ServerConfig) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let of_sites = config.sites.iter().flat_map(|site| &site.names);
    names.extend(config.acme_hosts());
    names.extend(of_sites.map(|name| name.trim_matches(['[', ']']).to_ascii_lowercase()));
    for address in &config.listen {
        if let ListenAddr::Tcp(address) = address
            && !address.ip().is_unspecified()
        {
            names.push(address.ip().to_string());
        }
    }
    let mut known = std::collections::HashSet::new();
    names.retain(|name| known.insert(name.clone()));
    names
}
