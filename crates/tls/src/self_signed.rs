//! A certificate of one's own, for a laptop and for tests.

use rcgen::{CertificateParams, DnType, KeyPair};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::certificates::Certificate;
use crate::settings_error::SettingsError;

/// A new self-signed certificate with a key on P-256 for these host names and IP addresses.
///
/// # Errors
/// A name cannot be in a certificate, or the system has no randomness.
pub fn self_signed(names: &[String]) -> Result<Certificate, SettingsError> {
    let refused = |error: rcgen::Error| SettingsError::Key(format!("a certificate cannot be made: {error}"));
    let mut params = CertificateParams::new(names.to_vec()).map_err(refused)?;
    params.distinguished_name.push(DnType::CommonName, "thalweg self-signed");
    let key = KeyPair::generate().map_err(refused)?;
    let certificate = params.self_signed(&key).map_err(refused)?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    Certificate::of_der(vec![certificate.der().clone()], key)
}
