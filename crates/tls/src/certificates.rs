//! Certificates and keys from PEM.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::sign::{CertifiedKey, SigningKey};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use webpki::EndEntityCert;

use crate::settings_error::SettingsError;

/// A chain of certificates and the key of its first one.
#[derive(Clone, Debug)]
pub struct Certificate {
    pub(crate) key: Arc<CertifiedKey>,
    /// The host names that it is for, in lower case; `*.` stands for one label.
    pub(crate) names: Vec<String>,
}

impl Certificate {
    /// A certificate from a chain, the server's own first, and its key, both in PEM. Each may stand
    /// in a text with other things.
    ///
    /// # Errors
    /// A part is missing or malformed, or the two do not belong together.
    pub fn of_pem(chain: &[u8], key: &[u8]) -> Result<Self, SettingsError> {
        let chain = certificates_of_pem(chain)?;
        Self::of_der(chain, key_of_pem(key)?)
    }

    /// A certificate from its parts.
    ///
    /// # Errors
    /// They do not belong together.
    pub(crate) fn of_der(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, SettingsError> {
        let names = {
            let first = chain.first().ok_or(SettingsError::NoCertificate)?;
            let malformed = |error| SettingsError::Pem(format!("the certificate is malformed: {error:?}"));
            let first = EndEntityCert::try_from(first).map_err(malformed)?;
            first.valid_dns_names().map(str::to_ascii_lowercase).collect()
        };
        let key = CertifiedKey::new(chain, supported_key(&key)?);
        key.keys_match().map_err(|_| {
            SettingsError::Key(
                "the private key is not that of the certificate; the first certificate has to be the server's own"
                    .into(),
            )
        })?;
        Ok(Self { key: Arc::new(key), names })
    }

    /// The self-signed certificate of a challenge (RFC 8737, 3) and its key, both in PEM. The
    /// certificate is not parsed, because a critical extension makes it invalid for everything
    /// else; [`names`](Self::names) is empty.
    ///
    /// # Errors
    /// A part is missing or malformed.
    pub fn of_challenge(chain: &[u8], key: &[u8]) -> Result<Self, SettingsError> {
        let chain = certificates_of_pem(chain)?;
        let key = supported_key(&key_of_pem(key)?)?;
        Ok(Self { key: Arc::new(CertifiedKey::new(chain, key)), names: Vec::new() })
    }

    /// The host names that it is for, in lower case; `*.` stands for one label.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The chain, the own certificate first, each in DER.
    pub fn chain(&self) -> impl Iterator<Item = &[u8]> {
        self.key.cert.iter().map(AsRef::as_ref)
    }
}

/// The private key of a text in PEM.
fn key_of_pem(text: &[u8]) -> Result<PrivateKeyDer<'static>, SettingsError> {
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
        pem::Error::NoItemsFound => SettingsError::Pem(
            "there is no private key in it: expected a section that begins with -----BEGIN PRIVATE KEY-----, \
             without a passphrase"
                .into(),
        ),
        error => SettingsError::Pem(format!("the private key is malformed: {error}")),
    })
}

/// A key that can sign.
fn supported_key(key: &PrivateKeyDer<'_>) -> Result<Arc<dyn SigningKey>, SettingsError> {
    any_supported_type(key).map_err(|_| SettingsError::Key("the private key is of a kind that is not supported".into()))
}

/// All certificates of a text in PEM, at least one.
///
/// # Errors
/// There is none, or one is malformed.
pub fn certificates_of_pem(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, SettingsError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(text)
        .collect::<Result<_, _>>()
        .map_err(|error| SettingsError::Pem(format!("the certificates are malformed: {error}")))?;
    if chain.is_empty() {
        let text = "there is no certificate in it: expected a section that begins with -----BEGIN CERTIFICATE-----";
        return Err(SettingsError::Pem(text.into()));
    }
    Ok(chain)
}
