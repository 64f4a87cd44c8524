//! Verifying the certificates of servers: rustls' verifier, a note of what it has found, and the
//! choice to go on nevertheless.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::fault::CertificateFault;
use crate::observed;
use crate::settings_error::SettingsError;

/// A verifier that notes the fault of a certificate, and refuses it or not.
#[derive(Debug)]
pub(crate) struct NotingServerVerifier {
    /// `None` if no authority is trusted: no certificate is valid then.
    verifier: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
    /// Certificates with faults are accepted.
    accepts_faults: bool,
}

impl NotingServerVerifier {
    pub(crate) fn new(
        roots: RootCertStore,
        provider: &Arc<CryptoProvider>,
        accepts_faults: bool,
    ) -> Result<Self, SettingsError> {
        let verifier = if roots.is_empty() {
            None
        } else {
            let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
            let refused = |error| SettingsError::Roots(format!("servers cannot be verified: {error}"));
            Some(builder.build().map_err(refused)?)
        };
        Ok(Self { verifier, provider: Arc::clone(provider), accepts_faults })
    }
}

impl ServerCertVerifier for NotingServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = match &self.verifier {
            Some(verifier) => verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now),
            None => Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)),
        };
        let Err(error) = verified else { return verified };
        let fault = match &error {
            Error::InvalidCertificate(error) => {
                let chain: Vec<_> = std::iter::once(end_entity).chain(intermediates).collect();
                CertificateFault::of(error, &chain)
            }
            _ => CertificateFault::Other,
        };
        observed::note_fault(fault);
        if self.accepts_faults { Ok(ServerCertVerified::assertion()) } else { Err(error) }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
