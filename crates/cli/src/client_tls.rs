//! TLS of a load, from its options and the target.

use std::fs;
use std::path::Path;

use thalweg_lab::target::Target;
use thalweg_load::TlsPlan;
use thalweg_tls::{Certificate, ClientOptions, ClientSettings, Roots, Selection, SettingsError};
use thalweg_wire::Version;

use crate::exit::Failure;
use crate::options::ClientTlsOptions;
use crate::secret_file;

/// TLS on the connections of a load with this version of HTTP; `None` for a target without it.
///
/// # Errors
/// An option is wrong or has no effect, or a file cannot be read.
pub(crate) fn plan(options: &ClientTlsOptions, target: &Target, http: Version) -> Result<Option<TlsPlan>, Failure> {
    if !target.is_tls() {
        return match options.given().first() {
            None => Ok(None),
            Some((name, _)) => {
                Err(Failure::usage(format!("--{name} has no effect on {}: it needs https://", target.shown)))
            }
        };
    }
    let resume = options.resume.unwrap_or_default();
    let default = Selection::default();
    let selection = Selection {
        version_min: options.tls_min.unwrap_or(default.version_min),
        version_max: options.tls_max.unwrap_or(default.version_max),
        groups: options.groups.clone(),
        suites: options.suites.clone(),
    };
    let client = ClientOptions {
        selection,
        alpn: vec![protocol(http).to_vec()],
        roots: match &options.cacert {
            Some(file) => Roots::Pem(read("cacert", file)?),
            None => Roots::System,
        },
        insecure: options.insecure,
        certificate: certificate(options)?,
        server_name: options.sni.clone(),
        resume,
    };
    let settings = ClientSettings::new(client).map_err(refused)?;
    Ok(Some(TlsPlan { settings, server_name: target.server_name(), resume }))
}

/// The name of the protocol in ALPN (RFC 7301).
fn protocol(http: Version) -> &'static [u8] {
    match http {
        Version::Http10 => b"http/1.0",
        Version::Http11 => b"http/1.1",
        Version::Http2 => b"h2",
    }
}

fn certificate(options: &ClientTlsOptions) -> Result<Option<Certificate>, Failure> {
    let (Some(chain), Some(key)) = (&options.cert, &options.key) else { return Ok(None) };
    secret_file::warn(key);
    let (chain, key) = (read("cert", chain)?, read("key", key)?);
    let refused = |error: SettingsError| Failure::usage(format!("--cert and --key: {error}"));
    Certificate::of_pem(&chain, &key).map(Some).map_err(refused)
}

fn read(option: &str, file: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(file).map_err(|error| Failure::usage(format!("--{option}: cannot read {}: {error}", file.display())))
}

fn refused(error: SettingsError) -> Failure {
    Failure::usage(error.to_string())
}
