//! The certificate that answers a challenge by TLS.

use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};

/// A chain and a key in PEM: self-signed, for one name, with the digest of the key authorization
/// (RFC 8737, 3).
pub(crate) fn challenge_certificate(name: &str, digest: &[u8]) -> Result<(String, String), rcgen::Error> {
    let mut params = CertificateParams::new([name.to_owned()])?;
    params.distinguished_name = DistinguishedName::new();
    params.custom_extensions.push(CustomExtension::new_acme_identifier(digest));
    let key = KeyPair::generate()?;
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}
