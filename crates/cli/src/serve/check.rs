//! `thalweg serve --check`: what a start with this configuration, by this user, would fail on.
//!
//! The process that checks does what a start does and leaves no trace: it becomes the user, looks at files and folders as that one, and
//! confines itself if it has to. What it does not do is listen, write, and start threads.

use std::env;
use std::fs::File;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;

use thalweg_serve::{ConfigFault, ListenAddr};
use thalweg_sys::process::may_give_files_to;
use thalweg_sys::{file, socket};

use super::confinement::{Identity, SandboxOption, file_access, socket_file};
use super::counted;
use crate::configuration::{Configuration, Loaded};
use crate::exit::Failure;
use crate::load_options::ensure_driver;
use crate::options::ServeOptions;

/// systemd names each run of a unit by this. What it has opened for the unit it gives to the server alone, not to who checks.
const SYSTEMD_RUN: &str = "INVOCATION_ID";

/// Looks at all of it. In words, what there is.
///
/// # Errors
/// Something is wrong, with its place in the file.
pub fn check(options: &ServeOptions) -> Result<String, Failure> {
    let loaded = Loaded::read(options, &|path| File::open(path))?;
    let configuration = &loaded.configuration;
    let fault = |at: &str, failure: Failure| ConfigFault { at: at.to_owned(), what: failure.to_string() };
    // Ports are opened before the user changes, files after that.
    let (places, mut faults) = look_at_addresses(configuration);
    faults.extend(look_at_socket_files(configuration));
    let identity = Identity::choose(configuration.user.as_deref(), &configuration.server.listen);
    let confinement = match identity {
        Ok(identity) => Some(identity.assume()?),
        Err(failure) => {
            faults.push(fault("user", failure));
            None
        }
    };
    faults.extend(configuration.faults());
    faults.extend(unwritable(configuration));
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
    Ok(summary(configuration, &places))
}

/// What each address would be, in words, and those that cannot be had.
fn look_at_addresses(configuration: &Configuration) -> (Vec<String>, Vec<ConfigFault>) {
    let mut places = Vec::new();
    let mut faults = Vec::new();
    let mut look = |at: String, what: &str, address: &ListenAddr| match state_of(address) {
        Ok(state) => places.push(format!("{what} {address}{state}")),
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

/// Whether the files of Unix sockets can be given to whom they are to belong.
fn look_at_socket_files(configuration: &Configuration) -> Option<ConfigFault> {
    let fault = |at: &str, what: String| Some(ConfigFault { at: at.to_owned(), what });
    let file = match socket_file(configuration) {
        Ok(file) => file,
        // The user who serves is looked at by themselves.
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

/// How an address is at this time, or why it cannot be had at any.
fn state_of(address: &ListenAddr) -> Result<&'static str, String> {
    let error = match address {
        ListenAddr::Tcp(address) => match socket::probe(*address) {
            Ok(()) => return Ok(""),
            // The port may be free in another moment, but for an address that this host does not have.
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

/// Says which file this user could not write.
///
/// # Errors
/// There is one.
pub fn ensure_writable(configuration: &Configuration) -> Result<(), Failure> {
    unwritable(configuration).into_iter().next().map_or(Ok(()), |fault| Err(Failure::usage(fault.what)))
}

/// The files that this user could not write. Logs and state are among the server's own findings.
fn unwritable(configuration: &Configuration) -> Vec<ConfigFault> {
    let folder_of = |path: &Path| file::may_make(path).err();
    let pid_file = configuration.pid_file.as_deref().and_then(|path| folder_of(path).map(|error| (path, error)));
    let fault = |(path, error): (&Path, std::io::Error)| ConfigFault {
        at: "pid_file".to_owned(),
        what: format!("cannot write {}: {error}; use a folder that the server's user may write to", path.display()),
    };
    pid_file.map(fault).into_iter().collect()
}

/// What was checked.
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
            text.push_str(&format!("  {} is {}\n", mount.path, mount.root.display()));
        }
    }
    if let Some(user) = &configuration.user {
        text.push_str(&format!("would run as user {user}\n"));
    }
    for place in places {
        text.push_str(&format!("{place}\n"));
    }
    text
}
