//! Which certificate a client gets: by the name that it asks for and the signatures that it knows.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::certificates::Certificate;
use crate::observed;

/// The application protocol of a challenge by TLS (RFC 8737, 6.2).
pub const TLS_ALPN_CHALLENGE: &[u8] = b"acme-tls/1";

/// The certificates of a server, which can be exchanged while it serves.
///
/// Names are found exactly, then by a wildcard of one label; a client that asks for another name,
/// or for none, gets the default certificate. Of several certificates for one name a client gets
/// the first whose kind of key it supports. If it supports none of them, rustls finds nothing in
/// common with it (`handshake_failure`); without a certificate it would say `access_denied`.
#[derive(Default)]
pub struct CertificateStore {
    known: RwLock<Known>,
    /// The certificates that prove the control of a name (RFC 8737), by name.
    challenges: RwLock<HashMap<Box<str>, Arc<CertifiedKey>>>,
}

#[derive(Default)]
struct Known {
    /// By name, in lower case; those of a wildcard without their star, so with a leading dot.
    by_name: HashMap<Box<str>, Vec<Arc<CertifiedKey>>>,
    default: Vec<Arc<CertifiedKey>>,
}

impl CertificateStore {
    /// Serves with these certificates from the next handshake on. Each is for its own
    /// [names](Certificate::names), and for those given beside it. The default ones are those that
    /// share all names with the first.
    pub fn set(&self, certificates: &[(Vec<String>, Certificate)]) {
        let mut known = Known::default();
        for (names, certificate) in certificates {
            for name in names.iter().chain(&certificate.names) {
                let name = name.to_ascii_lowercase();
                let keys = known.by_name.entry(name.strip_prefix('*').unwrap_or(&name).into()).or_default();
                if !keys.iter().any(|key| Arc::ptr_eq(key, &certificate.key)) {
                    keys.push(Arc::clone(&certificate.key));
                }
            }
        }
        if let Some((first_names, first)) = certificates.first() {
            let is_default =
                |names: &Vec<String>, other: &Certificate| *names == *first_names && other.names == first.names;
            known.default = certificates
                .iter()
                .filter(|(names, certificate)| is_default(names, certificate))
                .map(|(_, certificate)| Arc::clone(&certificate.key))
                .collect();
        }
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
    }

    /// Presents a certificate to clients that ask for this name with [`TLS_ALPN_CHALLENGE`] alone;
    /// `None` ends that.
    pub fn set_challenge(&self, name: &str, certificate: Option<&Certificate>) {
        let mut challenges = self.challenges.write().unwrap_or_else(PoisonError::into_inner);
        let name = name.to_ascii_lowercase().into_boxed_str();
        match certificate {
            Some(certificate) => challenges.insert(name, Arc::clone(&certificate.key)),
            None => challenges.remove(&name),
        };
    }

    /// Presents the certificates of challenges of another store, too.
    pub fn adopt_challenges(&self, other: &Self) {
        let others = other.challenges.read().unwrap_or_else(PoisonError::into_inner).clone();
        self.challenges.write().unwrap_or_else(PoisonError::into_inner).extend(others);
    }

    fn find(&self, hello: &ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name();
        if is_validation(hello) {
            let challenges = self.challenges.read().unwrap_or_else(PoisonError::into_inner);
            return challenges.get(name?).cloned();
        }
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let keys = name.and_then(|name| known.of_name(name)).unwrap_or(&known.default);
        let schemes = hello.signature_schemes();
        keys.iter().find(|key| key.key.choose_scheme(schemes).is_some()).or_else(|| keys.first()).cloned()
    }
}

/// Whether a client asks for the certificate of a challenge.
fn is_validation(hello: &ClientHello<'_>) -> bool {
    let protocols = hello.alpn();
    protocols.is_some_and(|mut protocols| protocols.next() == Some(TLS_ALPN_CHALLENGE) && protocols.next().is_none())
}

impl Known {
    /// The certificates of a name, which rustls has put in lower case.
    fn of_name(&self, name: &str) -> Option<&Vec<Arc<CertifiedKey>>> {
        let parent = || name.find('.').map(|dot| &name[dot..]);
        self.by_name.get(name).or_else(|| self.by_name.get(parent()?))
    }
}

impl ResolvesServerCert for CertificateStore {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        observed::note_hello(hello.server_name(), is_validation(&hello));
        self.find(&hello)
    }
}

impl fmt::Debug for CertificateStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateStore").finish_non_exhaustive()
    }
}
