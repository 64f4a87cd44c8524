//! Options of `thalweg serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use thalweg_serve::{CertificateFiles, ListenAddr, LogFormat};
use thalweg_units::parse_time;

use super::values::{CpuList, DriverOption, parse_cpus};

/// Options of `thalweg serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg serve /srv/mirror
  thalweg serve /srv/mirror --listen 0.0.0.0:80 --listen '[::]:80' --user www-data
  thalweg serve /srv/mirror --access-log /var/log/thalweg/access.log --status 127.0.0.1:9180
  thalweg serve /srv/mirror --tls auto --host mirror.example.org --user www-data
  thalweg serve /srv/mirror --tls self-signed
  thalweg serve /srv/mirror --listen 0.0.0.0:80 --tls-listen 0.0.0.0:443 --tls cert.pem:key.pem --tls-redirect
  thalweg serve --print-config /srv/mirror > thalweg.toml
  thalweg serve --config thalweg.toml --check

Signals: TERM and INT stop the server after the downloads in progress; a second one stops it at once. HUP reloads the
configuration. USR2 upgrades: a new process takes over the sockets, and this one exits after its last download.")]
pub struct ServeOptions {
    /// Directory to serve; with --config, for sites without a root
    #[arg(required_unless_present_any = ["config", "print_config"])]
    pub directory: Option<PathBuf>,
    /// Configuration file in TOML (docs/configuration.md); options override it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Check whether a start would succeed (files, user, CPUs, driver, addresses, sandbox) and exit
    #[arg(long, conflicts_with = "print_config")]
    pub check: bool,
    /// Print the effective configuration with explanations and exit
    #[arg(long)]
    pub print_config: bool,
    /// Address to listen on, ADDRESS:PORT or unix:PATH; repeatable [default: port 8080 of 127.0.0.1
    /// and ::1; ports 80 and 443 of all addresses with --tls auto]
    #[arg(long, value_name = "ADDR", value_parser = parse_listen)]
    pub listen: Vec<ListenAddr>,
    /// Serve TLS with this certificate; repeatable: auto (obtained by ACME for --host),
    /// CERT:KEY (two files in PEM), or self-signed (no client trusts it)
    #[arg(long, value_name = "CERTIFICATE", value_parser = parse_tls)]
    pub tls: Vec<TlsOption>,
    /// Host name of the certificate of --tls auto; repeatable [default: the names of all sites]
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,
    /// URL of the ACME directory of the certification authority [default: Let's Encrypt]
    #[arg(long, value_name = "URL")]
    pub acme_directory: Option<String>,
    /// Mail address that the certification authority may write to
    #[arg(long, value_name = "MAIL")]
    pub acme_contact: Option<String>,
    /// Certificates (PEM) that the ACME directory is verified by [default: those that this host
    /// trusts]
    #[arg(long, value_name = "FILE")]
    pub acme_roots: Option<PathBuf>,
    /// Address that speaks TLS; repeatable. Those of --listen then speak plain HTTP [default: all
    /// of --listen speak TLS]
    #[arg(long, value_name = "ADDR", value_parser = parse_listen)]
    pub tls_listen: Vec<ListenAddr>,
    /// Redirect requests over plain HTTP to TLS
    #[arg(long)]
    pub tls_redirect: bool,
    /// CPUs to serve from, one loop on each [default: all]
    #[arg(long, value_name = "LIST", value_parser = parse_cpus)]
    pub cores: Option<CpuList>,
    /// List the contents of folders without an index file (docs/listings.md)
    #[arg(long)]
    pub listing: bool,
    /// Kernel interface [default: auto]
    #[arg(long, value_name = "DRIVER")]
    pub driver: Option<DriverOption>,
    /// Time for downloads in progress to finish after TERM or Ctrl-C [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub drain: Option<Duration>,
    /// Access log: a file, or - for standard output
    #[arg(long, value_name = "FILE")]
    pub access_log: Option<PathBuf>,
    /// Format of the access log [default: combined]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormatOption>,
    /// Error log: a file [default: standard error]
    #[arg(long, value_name = "FILE")]
    pub error_log: Option<PathBuf>,
    /// Address of the status page, metrics and health check; not protected by a password
    #[arg(long, value_name = "ADDR")]
    pub status: Option<SocketAddr>,
    /// File that keeps the status page's daily figures across restarts
    #[arg(long, value_name = "FILE", requires = "status")]
    pub status_state: Option<PathBuf>,
    /// Time for downloads in progress to finish after an upgrade (USR2) [default: unlimited]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub upgrade_drain: Option<Duration>,
    /// User to switch to after opening the sockets
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Restrict file access and system calls to those needed [default: auto]
    #[arg(long, value_name = "WHEN")]
    pub sandbox: Option<SandboxOption>,
    /// File for the process ID
    #[arg(long, value_name = "FILE")]
    pub pid_file: Option<PathBuf>,
}

/// A certificate to serve TLS with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsOption {
    /// One that is obtained by ACME.
    Auto,
    /// One that is made at the start.
    SelfSigned,
    /// Files.
    Files(CertificateFiles),
}

/// The formats of an access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormatOption {
    /// Common Log Format
    Common,
    /// Common, followed by referer and user agent
    Combined,
    /// One JSON object per line
    Json,
}

impl From<LogFormatOption> for LogFormat {
    fn from(option: LogFormatOption) -> Self {
        match option {
            LogFormatOption::Common => Self::Common,
            LogFormatOption::Combined => Self::Combined,
            LogFormatOption::Json => Self::Json,
        }
    }
}

/// Whether the server confines itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum SandboxOption {
    /// As far as the kernel supports it.
    #[default]
    Auto,
    /// Fail if full sandboxing is unavailable.
    On,
    /// No sandbox.
    Off,
}

pub fn parse_listen(text: &str) -> Result<ListenAddr, String> {
    match text.strip_prefix("unix:") {
        Some("") => Err("expected the path of the socket, such as unix:/run/thalweg.sock".to_owned()),
        Some(path) => Ok(ListenAddr::Unix(path.into())),
        None => text
            .parse()
            .map(ListenAddr::Tcp)
            .map_err(|_| "expected an address with a port, such as 0.0.0.0:80 or [::]:80, or unix:PATH".to_owned()),
    }
}

fn parse_tls(text: &str) -> Result<TlsOption, String> {
    match text {
        "auto" => return Ok(TlsOption::Auto),
        "self-signed" => return Ok(TlsOption::SelfSigned),
        _ => {}
    }
    let absolute = |path: &str| std::path::absolute(path).map_err(|error| format!("{path:?}: {error}"));
    match text.rsplit_once(':') {
        Some((chain, key)) if !chain.is_empty() && !key.is_empty() => {
            Ok(TlsOption::Files(CertificateFiles { chain: absolute(chain)?, key: absolute(key)? }))
        }
        _ => Err("expected auto, self-signed, or CERT:KEY, two files in PEM such as cert.pem:key.pem".to_owned()),
    }
}
