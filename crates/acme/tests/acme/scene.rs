//! An authority, a server, and a state directory.

use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use thalweg_acme::{ChallengeKind, Client, Problem, Report, Settings};
use ureq::tls::TlsConfig;

use crate::pebble::Pebble;
use crate::responder::Responder;

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// The lifetime of certificates.
pub(crate) const LIFETIME: Duration = Duration::from_secs(90 * 86_400);

pub(crate) struct Scene {
    pub(crate) pebble: Pebble,
    pub(crate) responder: Responder,
    folder: TempDir,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let responder = Responder::start();
        let pebble = Pebble::start(responder.http_port, responder.tls_port, LIFETIME);
        Self { pebble, responder, folder: tempfile::tempdir().expect("a folder can be made") }
    }

    pub(crate) fn settings(&self, names: &[&str], challenges: &[ChallengeKind]) -> Settings {
        Settings {
            directory: self.pebble.directory(),
            roots: Some(self.pebble.roots.clone()),
            names: names.iter().map(|&name| name.into()).collect(),
            contact: vec!["mailto:admin@example.org".into()],
            state: self.state(),
            challenges: challenges.into(),
        }
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("acme")
    }

    /// A client for one name, with challenges by HTTP.
    pub(crate) fn client(&self) -> Client {
        self.client_for(&["mirror.example"], &[ChallengeKind::Http01])
    }

    pub(crate) fn client_for(&self, names: &[&str], challenges: &[ChallengeKind]) -> Client {
        Client::open(self.settings(names, challenges)).expect("the settings make sense")
    }

    /// An HTTP client for requests of the test's own.
    pub(crate) fn agent(&self) -> ureq::Agent {
        let tls = TlsConfig::builder()
            .disable_verification(true)
            .unversioned_rustls_crypto_provider(rustls::crypto::aws_lc_rs::default_provider().into())
            .build();
        ureq::Agent::config_builder().tls_config(tls).http_status_as_error(false).build().new_agent()
    }

    /// Has the authority suggest a window for the renewal of this chain's certificate.
    pub(crate) fn suggest_renewal(&self, chain_pem: &[u8], start: &str, end: &str) {
        let suggestion = serde_json::json!({
            "suggestedWindow": {"start": start, "end": end},
            "explanationURL": "https://ca.example/why",
        });
        let request = serde_json::json!({
            "Certificate": String::from_utf8_lossy(chain_pem),
            "ARIResponse": suggestion.to_string(),
        });
        let url = format!("https://{}/set-renewal-info/", self.pebble.management);
        self.agent().post(url).send(request.to_string()).expect("pebble takes the suggestion");
    }
}

/// The problem and the time of the next attempt in the only failure among these reports.
pub(crate) fn failure(reports: &[Report]) -> (&Problem, std::time::SystemTime) {
    let mut failures = reports.iter().filter_map(|report| match report {
        Report::Failed { problem, retry, .. } => Some((problem, *retry)),
        _ => None,
    });
    match (failures.next(), failures.next()) {
        (Some(failure), None) => failure,
        _ => panic!("expected one failure: {reports:#?}"),
    }
}
