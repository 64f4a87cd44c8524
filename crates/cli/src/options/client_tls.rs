//! The options for TLS of the commands that make a load.

use std::path::PathBuf;

use clap::Args;
use thalweg_tls::{Resume, Version};

use super::headings::TLS;

/// TLS of a client.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = TLS)]
pub(crate) struct ClientTlsOptions {
    /// Accept certificates with faults
    #[arg(long, hide_short_help = true)]
    pub insecure: bool,
    /// PEM file with the authorities to trust [default: those of the system]
    #[arg(long, value_name = "FILE", conflicts_with = "insecure", hide_short_help = true)]
    pub cacert: Option<PathBuf>,
    /// PEM file with the client's certificate
    #[arg(long, value_name = "FILE", requires = "key", hide_short_help = true)]
    pub cert: Option<PathBuf>,
    /// PEM file with the key of the client's certificate
    #[arg(long, value_name = "FILE", requires = "cert", hide_short_help = true)]
    pub key: Option<PathBuf>,
    /// Name to ask for and to verify [default: the URL's host]
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub sni: Option<String>,
    /// Lowest TLS version [default: 1.2]
    #[arg(long, value_name = "VERSION", hide_short_help = true)]
    pub tls_min: Option<Version>,
    /// Highest TLS version [default: 1.3]
    #[arg(long, value_name = "VERSION", hide_short_help = true)]
    pub tls_max: Option<Version>,
    /// Groups of the key exchange, such as X25519,secp256r1, the preferred one first [default:
    /// X25519MLKEM768 and all others]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', hide_short_help = true)]
    pub groups: Vec<String>,
    /// Cipher suites, such as TLS_AES_128_GCM_SHA256, the preferred one first [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', hide_short_help = true)]
    pub suites: Vec<String>,
    /// Resume sessions: never, with tickets where there are some, or always: a full handshake is an
    /// error after the first one of a load thread [default: never]
    #[arg(long, value_name = "WHEN", hide_short_help = true)]
    pub resume: Option<Resume>,
}

impl ClientTlsOptions {
    /// The options that were given, by their names.
    pub(crate) fn given(&self) -> Vec<(&'static str, String)> {
        let file = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let list = |names: &[String]| (!names.is_empty()).then(|| names.join(","));
        let resume = self.resume.map(|resume| match resume {
            Resume::Never => "never".to_owned(),
            Resume::Tickets => "tickets".to_owned(),
            Resume::Always => "always".to_owned(),
        });
        let all = [
            ("insecure", self.insecure.then(|| "yes".to_owned())),
            ("cacert", file(&self.cacert)),
            ("cert", file(&self.cert)),
            ("key", file(&self.key)),
            ("sni", self.sni.clone()),
            ("tls-min", self.tls_min.map(|version| version.to_string())),
            ("tls-max", self.tls_max.map(|version| version.to_string())),
            ("groups", list(&self.groups)),
            ("suites", list(&self.suites)),
            ("resume", resume),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}
