//! The certificate in the state directory.

use std::time::SystemTime;

/// A certificate with its key, as it is in the state directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredCertificate {
    /// The host names that it is for, in lower case.
    pub names: Vec<String>,
    /// The chain in PEM, the server's own certificate first.
    pub chain_pem: Vec<u8>,
    /// The key in PEM.
    pub key_pem: Vec<u8>,
    /// The begin of its validity.
    pub not_before: SystemTime,
    /// The end of its validity.
    pub not_after: SystemTime,
}
