//! The choices of the operator.

use std::net::IpAddr;
use std::path::PathBuf;

use ureq::http::Uri;

use crate::challenge::ChallengeKind;
use crate::problem::Problem;

/// The directory of Let's Encrypt, the default authority.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

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
        if !self.directory.starts_with("https://") || self.directory.parse::<Uri>().is_err() {
            let directory = &self.directory;
            let text = format!("{directory}: expected the URL of an ACME directory, which begins with https://");
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

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(names: &[&str]) -> Settings {
        Settings { names: names.iter().map(|&name| name.into()).collect(), ..Settings::default() }
    }

    #[test]
    fn names_are_in_lower_case_and_order_and_once() {
        let checked = settings(&["www.Example.org", "example.org.", "EXAMPLE.org"]).checked().expect("they are names");
        assert_eq!(checked.names, ["example.org", "www.example.org"]);
    }

    #[test]
    fn names_without_a_certificate_by_acme_are_refused() {
        let check = |name: &str, expected: &str| {
            let problem = settings(&["a.example", name]).checked().expect_err(name).to_string();
            assert!(problem.starts_with(&format!("{name}: ")) && problem.contains(expected), "{problem}");
        };
        check("*.example.org", "challenges by DNS");
        check("192.0.2.1", "an IP address");
        check("2001:db8::1", "an IP address");
        check("localhost", "its own network");
        check("bücher.example", "Punycode");
        check("a..example", "no host name");
        check("-a.example", "no host name");
        check("", "no host name");
        check(&format!("{}.example", "a".repeat(64)), "no host name");
        check(&"a.".repeat(128), "no host name");
    }

    #[test]
    fn settings_without_which_nothing_can_be_obtained_are_refused() {
        let check = |settings: Settings, expected: &str| {
            let problem = settings.checked().expect_err(expected).to_string();
            assert!(problem.contains(expected), "{problem}");
        };
        check(settings(&[]), "needs a host name");
        check(Settings { challenges: Vec::new(), ..settings(&["a.example"]) }, "no kind of challenge");
        for directory in ["http://ca.example/", "https://", "https://ca.example/a b"] {
            check(Settings { directory: directory.into(), ..settings(&["a.example"]) }, "begins with https://");
        }
    }
}
