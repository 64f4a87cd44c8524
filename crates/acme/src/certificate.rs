//! The certificate in the state directory: one file with its key and its chain, so that the two
//! cannot fall apart.

use std::path::Path;
use std::time::{Duration, SystemTime};
use std::{fs, io};

use rustls_pki_types::CertificateDer;
use thalweg_tls::{Certificate, certificates_of_pem};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;
use x509_parser::time::ASN1Time;

use crate::problem::Problem;

/// Its file in the state directory.
pub(crate) const FILE: &str = "certificate.pem";

const CHAIN_BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const KEY_BEGIN: &str = "-----BEGIN PRIVATE KEY-----";

/// Begins the line, before the sections in PEM, with the URL of the authority's directory.
const DIRECTORY: &str = "Directory: ";

/// A certificate with its key, as it is in the state directory.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredCertificate {
    /// The host names that it is for, in lower case and order.
    pub names: Vec<String>,
    /// The chain in PEM, the server's own certificate first.
    pub chain_pem: Vec<u8>,
    /// The key in PEM.
    pub key_pem: Vec<u8>,
    /// The begin of its validity.
    pub not_before: SystemTime,
    /// The end of its validity.
    pub not_after: SystemTime,
    /// The URL of the directory of its authority.
    pub directory: String,
}

impl StoredCertificate {
    /// Reads the certificate of a state directory, whichever process owns that: its file is
    /// replaced as a whole. `None` if there is none yet. It may be for other names, or have
    /// expired.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn read(state: &Path) -> Result<Option<Self>, Problem> {
        let path = state.join(FILE);
        let unusable = |error: String| Problem::State { path: path.clone(), error };
        match fs::read(&path) {
            Ok(text) => Self::from_file(&String::from_utf8_lossy(&text)).map(Some).map_err(unusable),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unusable(error.to_string())),
        }
    }

    /// The names and the end of a chain's first certificate, whichever authority it is of.
    ///
    /// # Errors
    /// There is none, or it is malformed.
    pub fn names_and_end(chain_pem: &[u8]) -> Result<(Vec<String>, SystemTime), String> {
        let own = own_certificate(chain_pem)?;
        let (_, parsed) = parse_x509_certificate(&own).map_err(|error| format!("it is malformed: {error}"))?;
        Ok((names_of(&parsed)?, time(parsed.validity().not_after)))
    }

    /// A certificate from an authority, checked: the key is that of the chain's first certificate.
    pub(crate) fn new(directory: &str, chain_pem: &str, key_pem: &str) -> Result<Self, String> {
        let (chain_pem, key_pem) = (chain_pem.as_bytes(), key_pem.as_bytes());
        Certificate::of_pem(chain_pem, key_pem).map_err(|error| error.to_string())?;
        let own = own_certificate(chain_pem)?;
        let (_, parsed) = parse_x509_certificate(&own).map_err(|error| format!("it is malformed: {error}"))?;
        Ok(Self {
            names: names_of(&parsed)?,
            not_before: time(parsed.validity().not_before),
            not_after: time(parsed.validity().not_after),
            chain_pem: chain_pem.into(),
            key_pem: key_pem.into(),
            directory: directory.into(),
        })
    }

    /// A certificate from the text of its file.
    fn from_file(text: &str) -> Result<Self, String> {
        let key = text.find(KEY_BEGIN).ok_or("it has no private key")?;
        let chain = text.find(CHAIN_BEGIN).ok_or("it has no certificate")?;
        let directory = text[..key].lines().find_map(|line| line.strip_prefix(DIRECTORY));
        let directory = directory.ok_or("it does not say from which authority it is")?;
        let key = text.get(key..chain).ok_or("the key does not stand before the certificate")?;
        Self::new(directory, &text[chain..], key)
    }

    /// The text of its file. Text before the sections is allowed (RFC 7468, 2), so servers read it
    /// as a certificate and as a key.
    pub(crate) fn to_file(&self) -> Vec<u8> {
        let head = format!("{DIRECTORY}{}\n", self.directory);
        [head.as_bytes(), &self.key_pem, &self.chain_pem].concat()
    }

    /// The chain's first certificate in DER.
    pub(crate) fn own(&self) -> CertificateDer<'static> {
        own_certificate(&self.chain_pem).expect("it was checked when it was read")
    }
}

/// The host names that a certificate is for, in lower case and order.
fn names_of(certificate: &X509Certificate<'_>) -> Result<Vec<String>, String> {
    let subjects = certificate.subject_alternative_name().map_err(|error| format!("it is malformed: {error}"))?;
    let subjects = subjects.map(|extension| &extension.value.general_names[..]).unwrap_or_default();
    let names = subjects.iter().filter_map(|subject| match subject {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        _ => None,
    });
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// Without the key, which belongs in no log.
impl std::fmt::Debug for StoredCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredCertificate")
            .field("names", &self.names)
            .field("not_before", &self.not_before)
            .field("not_after", &self.not_after)
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

fn own_certificate(chain_pem: &[u8]) -> Result<CertificateDer<'static>, String> {
    let chain = certificates_of_pem(chain_pem).map_err(|error| error.to_string())?;
    Ok(chain.into_iter().next().expect("such a chain has one certificate at least"))
}

fn time(time: ASN1Time) -> SystemTime {
    let seconds = u64::try_from(time.timestamp()).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}
