//! Verifying the certificates of clients: rustls' verifier, asked for by name, and a note of what
//! it has found.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};

use crate::certificates::certificates_of_pem;
use crate::client_certificates::{ClientCertificateMode, ClientCertificates};
use crate::fault::CertificateFault;
use crate::observed;
use crate::settings_error::SettingsError;

/// A verifier for the clients that a server asks for certificates, by the name that they ask for.
/// It notes the fault of a certificate which it refuses.
#[derive(Debug)]
pub(crate) struct ClientVerifier {
    clients: Arc<ClientCertificates>,
    webpki: Arc<dyn ClientCertVerifier>,
}

impl ClientVerifier {
    /// A verifier that trusts the authorities of these certificates.
    pub(crate) fn new(
        clients: &Arc<ClientCertificates>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, SettingsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates_of_pem(&clients.authorities)? {
            let refused = |error| SettingsError::Roots(format!("an authority for clients cannot be used: {error}"));
            roots.add(certificate).map_err(refused)?;
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        let refused = |error| SettingsError::Roots(format!("clients cannot be verified: {error}"));
        let webpki = builder.build().map_err(refused)?;
        Ok(Self { clients: Arc::clone(clients), webpki })
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        // A connection that validates a challenge ends with its handshake.
        if observed::is_validation() {
            return false;
        }
        // A new connection, of whose client nothing is known yet, prepares for any.
        observed::with_server_name(|name| {
            name.is_none_or(|name| self.clients.mode(name) != ClientCertificateMode::None)
        })
    }

    fn client_auth_mandatory(&self) -> bool {
        let mode = observed::with_server_name(|name| self.clients.mode(name.flatten()));
        mode == ClientCertificateMode::Required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.webpki.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.webpki.verify_client_cert(end_entity, intermediates, now).inspect_err(|error| {
            if let Error::InvalidCertificate(error) = error {
                let chain: Vec<_> = std::iter::once(end_entity).chain(intermediates).collect();
                observed::note_fault(CertificateFault::of(error, &chain));
            }
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}
