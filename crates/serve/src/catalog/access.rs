//! Certificates of clients: which sites and mounts ask for them, and who is let in.
//!
//! A client is asked in the handshake, before its request is known: by the name that it asks for
//! there, and if any mount of that site wants a certificate. Whether the mount of a request needs
//! one is looked at with each request.

use thalweg_tls::{ClientCertificateMode, ClientCertificates};

use crate::catalog::host::host_key;
use crate::config::{MountConfig, ServerConfig, SiteConfig};

/// The knowledge of TLS about the client of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Peer {
    /// Whether its handshake asked for a certificate; `None` without TLS.
    pub(crate) mode: Option<ClientCertificateMode>,
    /// It has one that was verified.
    pub(crate) is_verified: bool,
}

impl Peer {
    /// A client without TLS.
    pub(crate) const PLAIN: Self = Self { mode: None, is_verified: false };

    /// Whether it is on the other side of TLS.
    #[inline]
    pub(crate) fn is_secure(self) -> bool {
        self.mode.is_some()
    }
}

/// The certificates that all sites ask for.
pub(crate) struct ClientAccess {
    /// The mode of each site's handshakes.
    sites: Box<[ClientCertificateMode]>,
    /// By the numbers of mounts: whether it needs one.
    mounts: Box<[bool]>,
}

impl ClientAccess {
    /// The access to the sites of a configuration; `None` if everybody has it.
    pub(crate) fn of(config: &ServerConfig) -> Option<Self> {
        let sites: Box<[_]> = config.sites.iter().map(|site| mode_of_site(config, site)).collect();
        if sites.iter().all(|mode| *mode == ClientCertificateMode::None) {
            return None;
        }
        let mounts = config.sites.iter().flat_map(|site| {
            site.mounts.iter().map(|mount| mode_of_mount(config, site, mount) == ClientCertificateMode::Required)
        });
        Some(Self { mounts: mounts.collect(), sites })
    }

    /// The status with which a request for a mount of a site is refused, if it is. A connection
    /// whose handshake was for a site with another mode cannot be used for this one (RFC 9110,
    /// 15.5.20); the client may try again with another one.
    pub(crate) fn refusal(&self, site: usize, mount: u16, peer: Peer) -> Option<u16> {
        let is_misdirected = peer.mode.is_some_and(|mode| mode != self.sites[site]);
        if is_misdirected {
            return Some(421);
        }
        (self.mounts[usize::from(mount)] && !peer.is_verified).then_some(403)
    }
}

/// The certificates that handshakes ask for, issued by these authorities (PEM).
pub(crate) fn client_certificates(config: &ServerConfig, authorities: Vec<u8>) -> ClientCertificates {
    // A client that asks for no name, or for no site's, is for the first site if it is for any.
    let otherwise = config.sites.first().map_or(ClientCertificateMode::None, |site| mode_of_site(config, site));
    let mut clients = ClientCertificates::of_all(otherwise, authorities);
    for site in &config.sites {
        for name in &site.names {
            // The first that claims a name has it.
            let key = String::from_utf8_lossy(&host_key(name)).into();
            clients.by_name.entry(key).or_insert_with(|| mode_of_site(config, site));
        }
    }
    clients
}

/// Whether any client is asked for a certificate.
pub(crate) fn asks_any(config: &ServerConfig) -> bool {
    config.tls.is_some() && config.sites.iter().any(|site| mode_of_site(config, site) != ClientCertificateMode::None)
}

/// The mode of the handshakes of a site: a certificate is required if all mounts need it, and asked
/// for if any mount wants it.
fn mode_of_site(config: &ServerConfig, site: &SiteConfig) -> ClientCertificateMode {
    let modes = || site.mounts.iter().map(|mount| mode_of_mount(config, site, mount));
    match (modes().min(), modes().max()) {
        (Some(least), Some(most)) if least == most => least,
        (Some(_), Some(_)) => ClientCertificateMode::Optional,
        _ => ClientCertificateMode::None,
    }
}

fn mode_of_mount(config: &ServerConfig, site: &SiteConfig, mount: &MountConfig) -> ClientCertificateMode {
    let of_server = config.tls.as_ref().map_or(ClientCertificateMode::None, |tls| tls.client_certificates);
    mount.client_certificates.or(site.client_certificates).unwrap_or(of_server)
}
