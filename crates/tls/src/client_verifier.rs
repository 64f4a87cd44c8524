//! Verifying the certificates of clients: rustls' verifier, and a note of what it has found.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};

use crate::certificates::certificates_of_pem;
use crate::fault::CertificateFault;
use crate::observed;
use crate::settings_error::SettingsError;

/// A verifier that notes the fault of a certificate which it refuses.
#[derive(Debug)]
pub(crate) struct NotingClientVerifier(Arc<dyn ClientCertVerifier>);

impl NotingClientVerifier {
    /// A verifier that trusts the authorities of a text in PEM, and accepts clients without a
    /// certificate, or not.
    pub(crate) fn new(
        authorities: &[u8],
        is_required: bool,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, SettingsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates_of_pem(authorities)? {
            let refused = |error| SettingsError::Roots(format!("an authority for clients cannot be used: {error}"));
            roots.add(certificate).map_err(refused)?;
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        let builder = if is_required { builder } else { builder.allow_unauthenticated() };
        let refused = |error| SettingsError::Roots(format!("clients cannot be verified: {error}"));
        builder.build().map(Self).map_err(refused)
    }
}

impl ClientCertVerifier for NotingClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.0.verify_client_cert(end_entity, intermediates, now).inspect_err(|error| {
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
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
