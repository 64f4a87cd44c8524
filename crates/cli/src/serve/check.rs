//! `thalweg serve --check`: the faults on which a start with this configuration, by this user,
//! would fail.
//!
//! The check does what a start does and leaves no trace: it becomes the user, checks files and
//! folders as that user, and confines itself if the configuration requires it. It does not listen,
//! write, or start threads.

use std::env;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime};

use thalweg_acme::StoredCertificate;
use thalweg_serve::{ConfigFault, ListenAddr, ServerTls};
use thalweg_sys::process::may_give_files_to;
use thalweg_sys::{file, socket};

use super::acme;
use super::confinement::{Identity, file_access, socket_file};
use super::description::counted;
use super::{purging, secrets, tier, volumes};
use crate::configuration::{Configuration, Loaded};
use crate::exit::Failure;
use crate::load_options::ensure_driver;
use crate::options::{SandboxOption, ServeOptions};

/// The variable by which systemd names each run of a unit. It passes the unit's sockets to the
/// server alone, not to a check.
const SYSTEMD_RUN: &str = "INVOCATION_ID";

/// Makes all checks and returns a summary.
///
/// # Errors
/// The faults with their places in the file.
pub(super) fn check(options: &ServeOptions) -> Result<String, Failure> {
    let loaded = Loaded::read(options, &|path| File::open(path))?;
    let configuration = &loaded.configuration;
    let fault = |at: &str, failure: Failure| ConfigFault { at: at.to_owned(), what: failure.to_string() };
    // A start opens ports before it changes the user, and files after that.
    let (places, mut faults) = check_addresses(configuration);
    faults.extend(check_socket_files(configuration));
    let (certificates, tls) = check_tls(configuration);
    faults.extend(check_tokens(configuration));
    // A start reads these files before it changes the user.
    let origins = check_origins(configuration);
    let warnings: Vec<_> = secrets::warnings(configuration).iter().map(|what| format!("warning: {what}")).collect();
    let identity = Identity::choose(configuration.user.as_deref(), &configuration.server.listen);
    let was_root = identity.as_ref().is_ok_and(|identity| identity.account().is_some());
    let confinement = match identity {
        Ok(identity) => Some(identity.assume()?),
        Err(failure) => {
            faults.push(fault("user", failure));
            None
        }
    };
    faults.extend(configuration.faults());
    // A file that is missing is found there, too.
    faults.extend(tls.filter(|_| !faults.iter().any(|known| known.at.starts_with("tls"))));
    let is_about_origins = |known: &ConfigFault| {
        ["origin", "cluster", "site"].iter().any(|place| known.at.starts_with(place)) || known.at.contains("token")
    };
    faults.extend(origins.filter(|_| !faults.iter().any(is_about_origins)));
    faults.extend(volumes::unusable_volume(&configuration.server).map(|failure| fault("disk_cache.volumes", failure)));
    faults.extend(unwritable(configuration, was_root));
    loaded.ensure(faults)?;
    ensure_driver(configuration.server.driver)?;
    let mut confinement = confinement.unwrap_or_default();
    if configuration.sandbox == SandboxOption::On {
        let file_access = file_access(configuration).map_err(Failure::unreachable)?;
        let confined = confinement.confine_files(configuration.sandbox, &file_access);
        confined
            .and_then(|()| confinement.confine_calls(configuration.sandbox))
            .or_else(|failure| loaded.refuse(vec![fault("sandbox", failure)]))?;
    }
    Ok(summary(configuration, &[places, certificates, warnings].concat()))
}

/// A description of each address, and the addresses that are not available.
fn check_addresses(configuration: &Configuration) -> (Vec<String>, Vec<ConfigFault>) {
    let mut places = Vec::new();
    let mut faults = Vec::new();
    let tls = configuration.server.tls.as_ref();
    let mut look = |at: String, what: &str, address: &ListenAddr| match state_of(address) {
        Ok(state) => {
            let speaks_tls = at.starts_with("listen") && tls.is_some_and(|tls| tls.speaks_at(address));
            let scheme = match (address, speaks_tls) {
                (ListenAddr::Tcp(_), true) => "https://",
                (ListenAddr::Tcp(_), false) => "http://",
                (ListenAddr::Unix(_), true) => "https over ",
                (ListenAddr::Unix(_), false) => "http over ",
            };
            places.push(format!("{what} {scheme}{address}{state}"));
        }
        Err(what) => faults.push(ConfigFault { at, what }),
    };
    for (index, address) in configuration.server.listen.iter().enumerate() {
        look(format!("listen.{index}"), "would listen on", address);
    }
    if let Some(status) = &configuration.server.status {
        look("status.listen".to_owned(), "would show the status page on", &status.listen.into());
    }
    (places, faults)
}

/// Checks that certificates and keys can be read and used, with the rights that a start has. A
/// description of each certificate, and the first fault.
fn check_tls(configuration: &Configuration) -> (Vec<String>, Option<ConfigFault>) {
    let opened = ServerTls::open(&configuration.server, None, &|path| fs::read(path));
    let fault = opened.err().map(|error| ConfigFault { at: "tls".to_owned(), what: error.to_string() });
    let files = configuration.server.tls.iter().flat_map(|tls| &tls.certificates);
    let described = files.filter_map(|files| {
        let (names, end) = StoredCertificate::names_and_end(&fs::read(&files.chain).ok()?).ok()?;
        Some(describe_certificate(&files.chain, &names, end, SystemTime::now()))
    });
    (described.collect(), fault)
}

/// The names of a certificate and its end.
fn describe_certificate(path: &Path, names: &[String], end: SystemTime, now: SystemTime) -> String {
    let names = if names.is_empty() { "no host".to_owned() } else { names.join(", ") };
    let days = |time: Duration| counted(usize::try_from(time.as_secs() / 86_400).unwrap_or(usize::MAX), "day");
    let left = match end.duration_since(now) {
        Ok(left) => format!("in {}", days(left)),
        Err(over) => format!("{} ago: browsers refuse it", days(over.duration())),
    };
    let end = jiff::Timestamp::try_from(end).map_or_else(|_| "at an unknown time".to_owned(), |end| end.to_string());
    format!("certificate {} for {names}, which ends {end}, {left}", path.display())
}

/// Checks that origins and a cluster can be as they are set, with the rights that a start has.
fn check_origins(configuration: &Configuration) -> Option<ConfigFault> {
    let server = &configuration.server;
    let cluster = configuration.cluster.as_ref();
    let files = tier::read_files(server, cluster, &|path| fs::read(path));
    let checked = files.and_then(|files| tier::check(server, cluster, &files));
    checked.err().map(|failure| ConfigFault { at: "origin".to_owned(), what: failure.to_string() })
}

/// Checks that the tokens of the status listener can be read and used, with the rights that a start
/// has.
fn check_tokens(configuration: &Configuration) -> Vec<ConfigFault> {
    let server = &configuration.server;
    let files = [("purge_token", purging::token_file(server)), ("read_token", purging::read_token_file(server))];
    let fault_of = |(key, path): (&str, Option<&Path>)| {
        let path = path?;
        let what = match fs::read(path) {
            Ok(bytes) => purging::token_of(path, key, &bytes).err()?.to_string(),
            Err(error) => format!("cannot read {}: {error}; use a file that this user may read", path.display()),
        };
        Some(ConfigFault { at: format!("status.{key}"), what })
    };
    files.into_iter().filter_map(fault_of).collect()
}

/// Checks that the files of Unix sockets can be given to their configured owners.
fn check_socket_files(configuration: &Configuration) -> Option<ConfigFault> {
    let fault = |at: &str, what: String| Some(ConfigFault { at: at.to_owned(), what });
    let file = match socket_file(configuration) {
        Ok(file) => file,
        // The serving user is checked apart.
        Err(("user", _)) => return None,
        Err((at, error)) => return fault(at, error.to_string()),
    };
    let has_files = configuration.server.listen.iter().any(|address| matches!(address, ListenAddr::Unix(_)));
    if !has_files || may_give_files_to(file.uid, file.gid) {
        return None;
    }
    let at = if may_give_files_to(file.uid, None) { "unix_socket.group" } else { "unix_socket.user" };
    fault(at, "only root can set another owner, or a group that the user is not in".to_owned())
}

/// The present state of an address, or the reason why it is never available.
fn state_of(address: &ListenAddr) -> Result<&'static str, String> {
    let error = match address {
        ListenAddr::Tcp(address) => match socket::probe(*address) {
            Ok(()) => return Ok(""),
            // A port may be free at another time, unless the host does not have the address.
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                socket::probe(SocketAddr::new(address.ip(), 0)).err().map(|error| (error.kind(), error))
            }
            Err(error) => Some((error.kind(), error)),
        },
        ListenAddr::Unix(path) => match file::may_make(path) {
            Ok(()) if path.exists() => return Ok(", where a file exists now"),
            Ok(()) => return Ok(""),
            Err(error) => Some((error.kind(), error)),
        },
    };
    match error {
        None => Ok(", which is in use now"),
        Some((ErrorKind::PermissionDenied, _)) if env::var_os(SYSTEMD_RUN).is_some() => Ok(", if systemd opens it"),
        Some((ErrorKind::AddrNotAvailable, error)) => {
            Err(format!("cannot listen on {address}: {error}; `ip addr` lists the addresses of this host"))
        }
        Some((ErrorKind::PermissionDenied, error)) => Err(format!(
            "cannot listen on {address}: {error}; ports below 1024 need CAP_NET_BIND_SERVICE or systemd socket \
             activation, Unix sockets need a writable folder"
        )),
        Some((_, error)) => Err(format!("cannot listen on {address}: {error}")),
    }
}

/// Checks that this user can write all files.
///
/// # Errors
/// The first file that cannot be written.
pub(super) fn ensure_writable(configuration: &Configuration) -> Result<(), Failure> {
    unwritable(configuration, false).into_iter().next().map_or(Ok(()), |fault| Err(Failure::usage(fault.what)))
}

/// The files that this user cannot write, for a process that `was_root` or not. The server's own
/// checks cover logs and state.
fn unwritable(configuration: &Configuration, was_root: bool) -> Vec<ConfigFault> {
    let folder_of = |path: &Path| file::may_make(path).err();
    let pid_file = configuration.pid_file.as_deref().and_then(|path| folder_of(path).map(|error| (path, error)));
    let fault = |(path, error): (&Path, std::io::Error)| ConfigFault {
        at: "pid_file".to_owned(),
        what: format!("cannot write {}: {error}; use a folder that the server's user may write to", path.display()),
    };
    pid_file.map(fault).into_iter().chain(acme::fault(configuration, was_root)).collect()
}

/// The summary of the checks.
fn summary(configuration: &Configuration, places: &[String]) -> String {
    let server = &configuration.server;
    let mut text = String::from("the configuration is valid\n");
    for site in &server.sites {
        let names = if site.names.is_empty() { "any host".to_owned() } else { site.names.join(", ") };
        text.push_str(&format!(
            "site {names}: {}, {}\n",
            counted(site.rules.len(), "rule"),
            counted(site.error_pages.len(), "error page")
        ));
        for mount in &site.mounts {
            text.push_str(&match &mount.routing.redirect {
                Some(address) => format!("  {} is redirected to {address}\n", mount.path),
                None if !mount.forwarding.origins.is_empty() => {
                    let names: Vec<_> = mount.forwarding.origins.iter().map(|origin| origin.name.as_str()).collect();
                    format!("  {} comes from {}\n", mount.path, names.join(", "))
                }
                None => format!("  {} is {}\n", mount.path, mount.root.display()),
            });
        }
        if let Some(address) = &site.routing.redirect {
            text.push_str(&format!("  all else is redirected to {address}\n"));
        }
    }
    if let Some(user) = &configuration.user {
        text.push_str(&format!("would run as user {user}\n"));
    }
    if let Some(settings) = acme::settings(configuration) {
        text.push_str(&acme::describe(&settings));
    }
    for place in places {
        text.push_str(&format!("{place}\n"));
    }
    text
}
