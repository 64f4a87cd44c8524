//! Options of `thalweg serve`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use thalweg_serve::{CertificateFiles, ListenAddr, LogFormat};
use thalweg_units::{parse_seconds, parse_size};

use super::addresses::{parse_address, parse_listen_all};
use super::values::{CpuList, DriverOption, parse_cpus};

/// Groups of the help.
const ADDRESSES: &str = "Addresses, as in --listen :8080 --status 9180";
const TLS: &str = "TLS, as in --tls auto --host mirror.example.org";
const ORIGINS: &str = "Origins, as in --origin https://deb.debian.org/debian/ --cache cache.vol";
const LOGS: &str = "Logs, as in --access-log access.log --log-format json";
const PROCESS: &str = "Process, as in --user www-data --pid-file /run/thalweg.pid";

const EXAMPLES: &str = "\
Examples:
  thalweg serve                               this folder, for this host
  thalweg serve /srv/mirror -p :80 --listing  for all, with pages for folders

--help has all options, more examples and the signals.";

const MORE_EXAMPLES: &str = "\
Examples:
  thalweg serve
  thalweg serve /srv/mirror -p 8080
  thalweg serve /srv/mirror --listen :80 --user www-data
  thalweg serve /srv/mirror --access-log /var/log/thalweg/access.log --status 9180
  thalweg serve /srv/mirror --tls auto --host mirror.example.org --user www-data
  thalweg serve /srv/mirror --tls self-signed
  thalweg serve /srv/mirror --listen :80 --tls-listen :443 --tls cert.pem:key.pem --tls-redirect
  thalweg serve --origin https://deb.debian.org/debian/ --cache cache.vol
  thalweg serve --print-config /srv/mirror > thalweg.toml
  thalweg serve --config thalweg.toml --check

Signals: TERM and INT stop the server after the downloads in progress; a second one stops it at once. HUP reloads the
configuration. USR2 upgrades: a new process takes over the sockets, and this one exits after its last download.

Exit codes: 0 stopped by a signal, 2 wrong usage or configuration, 4 this host lacks something, such as the address.";

/// Options of `thalweg serve`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = MORE_EXAMPLES)]
pub(crate) struct ServeOptions {
    /// Directory to serve [default: the current one]
    ///
    /// With --config: for sites without a root, without a default.
    pub directory: Option<PathBuf>,
    /// Configuration file in TOML; options override it
    ///
    /// docs/configuration.md describes it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Check whether a start would succeed, and exit
    ///
    /// Files, user, CPUs, driver, addresses, sandbox.
    #[arg(long, conflicts_with = "print_config")]
    pub check: bool,
    /// Print the effective configuration, and exit
    ///
    /// With explanations.
    #[arg(long)]
    pub print_config: bool,
    /// Address to listen on: PORT (this host), :PORT (all)
    ///
    /// PORT and localhost:PORT stand for that port of 127.0.0.1 and ::1, which only this host
    /// reaches; :PORT for that of 0.0.0.0 and ::, all addresses. ADDRESS:PORT and unix:PATH are one
    /// address. Repeatable. [default: 8080; ports 80 and 443 of all addresses with --tls auto]
    #[arg(short = 'p', long, alias = "port", value_name = "ADDR", value_parser = parse_listen_all, help_heading = ADDRESSES)]
    pub listen: Vec<Vec<ListenAddr>>,
    /// Serve TLS: auto, CERT:KEY or self-signed
    ///
    /// The certificate, repeatable: auto (obtained by ACME for --host), CERT:KEY (two files in
    /// PEM), or self-signed (no client trusts it).
    #[arg(long, value_name = "CERT", value_parser = parse_tls, help_heading = TLS)]
    pub tls: Vec<TlsOption>,
    /// Host name of the certificate of --tls auto
    ///
    /// Repeatable [default: the names of all sites]
    #[arg(long, value_name = "NAME", help_heading = TLS)]
    pub host: Vec<String>,
    /// URL of the ACME directory of the certification authority [default: Let's Encrypt]
    #[arg(long, value_name = "URL", help_heading = TLS, hide_short_help = true)]
    pub acme_directory: Option<String>,
    /// Mail address that the certification authority may write to
    #[arg(long, value_name = "MAIL", help_heading = TLS, hide_short_help = true)]
    pub acme_contact: Option<String>,
    /// Certificates (PEM) that the ACME directory is verified by [default: those that this host
    /// trusts]
    #[arg(long, value_name = "FILE", help_heading = TLS, hide_short_help = true)]
    pub acme_roots: Option<PathBuf>,
    /// Address that speaks TLS, as of --listen
    ///
    /// Repeatable. Those of --listen then speak plain HTTP [default: all of --listen speak TLS]
    #[arg(long, value_name = "ADDR", value_parser = parse_listen_all, help_heading = TLS, hide_short_help = true)]
    pub tls_listen: Vec<Vec<ListenAddr>>,
    /// Redirect requests over plain HTTP to TLS
    #[arg(long, help_heading = TLS)]
    pub tls_redirect: bool,
    /// CPUs to serve from, one loop on each [default: all]
    #[arg(long, value_name = "LIST", value_parser = parse_cpus, help_heading = PROCESS)]
    pub cores: Option<CpuList>,
    /// List the contents of folders without an index file
    ///
    /// docs/listings.md describes the pages.
    #[arg(long)]
    pub listing: bool,
    /// Kernel interface [default: auto]
    #[arg(long, value_name = "DRIVER", help_heading = PROCESS, hide_short_help = true)]
    pub driver: Option<DriverOption>,
    /// Time for downloads to finish after TERM or Ctrl-C [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, help_heading = PROCESS, hide_short_help = true)]
    pub drain: Option<Duration>,
    /// Server to cache and pass on, instead of a directory
    ///
    /// http or https, to a folder. Repeatable: others are asked when those before them fail.
    /// docs/configuration.md has more kinds of origins.
    #[arg(long, value_name = "URL", conflicts_with = "directory", help_heading = ORIGINS)]
    pub origin: Vec<String>,
    /// File or device that keeps responses [default: memory]
    #[arg(long, value_name = "FILE", requires = "origin", help_heading = ORIGINS)]
    pub cache: Option<PathBuf>,
    /// Size with which the file is created if it does not exist; without --cache, the memory
    #[arg(long, value_name = "SIZE", requires = "origin", value_parser = parse_size, help_heading = ORIGINS, hide_short_help = true)]
    pub cache_size: Option<u64>,
    /// Access log: a file, or - for standard output
    #[arg(long, value_name = "FILE", help_heading = LOGS)]
    pub access_log: Option<PathBuf>,
    /// Format of the access log [default: combined]
    #[arg(long, value_name = "FORMAT", help_heading = LOGS, hide_short_help = true)]
    pub log_format: Option<LogFormatOption>,
    /// Error log: a file [default: standard error]
    #[arg(long, value_name = "FILE", help_heading = LOGS, hide_short_help = true)]
    pub error_log: Option<PathBuf>,
    /// Address of the status page and metrics
    ///
    /// And of the health check; not protected by a password. PORT for this host alone, :PORT for
    /// all IPv4 addresses, or ADDRESS:PORT.
    #[arg(long, value_name = "ADDR", value_parser = parse_address, help_heading = ADDRESSES)]
    pub status: Option<SocketAddr>,
    /// File that keeps the status page's daily figures across restarts
    #[arg(long, value_name = "FILE", requires = "status", help_heading = ADDRESSES, hide_short_help = true)]
    pub status_state: Option<PathBuf>,
    /// File with the token that purging from the cache needs
    ///
    /// Purges come to the status page's address: `thalweg cache purge --server ADDR --token FILE`.
    #[arg(long, value_name = "FILE", requires = "status", help_heading = ADDRESSES, hide_short_help = true)]
    pub purge_token: Option<PathBuf>,
    /// Time for downloads in progress to finish after an upgrade (USR2) [default: unlimited]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, help_heading = PROCESS, hide_short_help = true)]
    pub upgrade_drain: Option<Duration>,
    /// User to switch to after opening the sockets
    #[arg(long, value_name = "NAME", help_heading = PROCESS)]
    pub user: Option<String>,
    /// Restrict file access and system calls to those needed [default: auto]
    #[arg(long, value_name = "WHEN", help_heading = PROCESS, hide_short_help = true)]
    pub sandbox: Option<SandboxOption>,
    /// File for the process ID
    #[arg(long, value_name = "FILE", help_heading = PROCESS, hide_short_help = true)]
    pub pid_file: Option<PathBuf>,
}

impl ServeOptions {
    /// The directory to serve: the current one if none is named, not by a configuration either.
    pub(crate) fn served_directory(&self) -> Option<&Path> {
        let is_current = self.config.is_none() && !self.print_config && self.origin.is_empty();
        self.directory.as_deref().or(is_current.then_some(Path::new(".")))
    }
}

/// A certificate to serve TLS with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TlsOption {
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
pub(crate) enum SandboxOption {
    /// As far as the kernel supports it.
    #[default]
    Auto,
    /// Fail if full sandboxing is unavailable.
    On,
    /// No sandbox.
    Off,
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
