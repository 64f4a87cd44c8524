//! The choices of the operator.

use std::net::IpAddr;
use std::path::PathBuf;

use crate::challenge::ChallengeKind;
use crate::problem::Problem;

/// The directory of Let's Encrypt, the default authority.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// The directory of Let's Encrypt for trying things out: its limits are generous and browsers do
/// not trust its certificates.
pub const LETS_ENCRYPT_STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";

/// The choices of the operator. With an ACME client the operator agrees to the terms of service of
/// the authority (RFC 8555, 7.3): the client sends the agreement with the account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The URL of the authority's directory (RFC 8555, 7.1.1), `https` alone.
    pub directory: String,
    /// Authorities that sign the directory's own certificate, as a file in PEM, for a private ACME
    /// server; `None` stands for those of the system.
    pub roots: Option<PathBuf>,
    /// The host names of the certificate, at least one.
    pub names: Vec<String>,
    /// Addresses at which the authority reaches the operator: URLs such as
    /// `mailto:admin@example.org` (RFC 8555, 7.3).
    pub contact: Vec<String>,
    /// The folder of the account, the certificate and its key. It is created with mode 0700.
    pub state: PathBuf,
    /// The kinds of challenges that the server can answer, the preferred one first, at least one.
    /// After one has failed, the next one is tried.
    pub challenges: Vec<ChallengeKind>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            directory: LETS_ENCRYPT.into(),
            roots: None,
            names: Vec::new(),
            contact: Vec::new(),
            state: PathBuf::new(),
            challenges: vec![ChallengeKind::TlsAlpn01, ChallengeKind::Http01],
        }
    }
}

impl Settings {
    /// These settings, with the names in lower case and order.
    ///
    /// # Errors
    /// They make no sense.
    pub(crate) fn checked(mut self) -> Result<Self, Problem> {
        if !self.directory.starts_with("https://") {
            let directory = &self.directory;
            let text = format!("{directory}: the URL of an ACME directory begins with https://");
            return Err(Problem::Settings(text));
        }
        if self.challenges.is_empty() {
            return Err(Problem::Settings("no kind of challenge is left to prove the control of names by".into()));
        }
        for name in &mut self.names {
            *name = checked_name(name).map_err(|why| Problem::Settings(format!("{name}: {why}")))?;
        }
        self.names.sort_unstable();
        self.names.dedup();
        if self.names.is_empty() {
            return Err(Problem::Settings("a certificate needs a host name".into()));
        }
        Ok(self)
    }
}

/// A host name in lower case, without the dot of the root.
fn checked_name(name: &str) -> Result<String, &'static str> {
    let lower = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let is_label = |label: &str| {
        let is_known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(is_known)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if lower.starts_with("*.") {
        return Err("a certificate for a wildcard takes challenges by DNS, which are not supported; list the names");
    }
    if lower.parse::<IpAddr>().is_ok() {
        return Err("a certificate by ACME needs host names, and this is an IP address");
    }
    if lower.len() > 253 || !lower.split('.').all(is_label) {
        return Err("this is no host name; one with letters beyond ASCII is written in Punycode (xn--...)");
    }
    if !lower.contains('.') {
        return Err("this name is known on its own network alone; expected one such as mirror.example.org");
    }
    Ok(lower)
}
