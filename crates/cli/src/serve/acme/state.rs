//! The state directory of ACME: its place, and whether the server's user can write there.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};

use thalweg_serve::ConfigFault;
use thalweg_sys::file::may_make;
use thalweg_sys::process::{Account, is_root};

use crate::configuration::Configuration;
use crate::exit::Failure;

/// The directory of a server that root starts.
const OF_ROOT: &str = "/var/lib/thalweg/acme";

/// The variable in which systemd names the directories of `StateDirectory=`, with colons between.
const OF_SERVICE: &str = "STATE_DIRECTORY";

/// The state directory; `None` if no certificate is to be obtained.
pub(super) fn folder(configuration: &Configuration) -> Option<PathBuf> {
    let tls = configuration.server.tls.as_ref().filter(|tls| tls.auto)?;
    if let Some(state) = &tls.acme.state {
        return Some(state.clone());
    }
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    if let Some(folders) = variable(OF_SERVICE) {
        let first = folders.as_bytes().split(|&byte| byte == b':').next().unwrap_or_default();
        return Some(Path::new(OsStr::from_bytes(first)).join("acme"));
    }
    // A process that has become the configured user, or is a successor of one, was root's.
    if is_root() || configuration.user.is_some() {
        return Some(OF_ROOT.into());
    }
    let of_user = variable("XDG_STATE_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let home = || PathBuf::from(variable("HOME").unwrap_or_default()).join(".local/state");
    Some(of_user.unwrap_or_else(home).join("thalweg/acme"))
}

/// Makes the directory while this process is root's, and gives it to the user that will serve.
///
/// # Errors
/// The directory cannot be made.
pub(crate) fn prepare(configuration: &Configuration, account: Option<&Account>) -> Result<(), Failure> {
    let (Some(folder), Some(account)) = (folder(configuration), account) else { return Ok(()) };
    if folder.exists() {
        return Ok(());
    }
    let made = folder.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
        DirBuilder::new().mode(0o700).create(&folder)?;
        chown(&folder, Some(account.uid()), Some(account.gid()))
    });
    made.map_err(|error| unusable(&folder, &error)).map_err(Failure::usage)
}

/// The fault of a directory that this user cannot write. One that is missing is made by root at a
/// start, if the process `was_root`.
pub(crate) fn fault(configuration: &Configuration, was_root: bool) -> Option<ConfigFault> {
    let folder = folder(configuration).filter(|folder| !was_root || folder.exists())?;
    let error = ensure_writable(&folder).err()?;
    Some(ConfigFault { at: "tls.acme.state".to_owned(), what: unusable(&folder, &error) })
}

/// Whether files can be made in a directory, or the directory itself.
fn ensure_writable(folder: &Path) -> io::Result<()> {
    let mut missing = folder.join("account");
    while let Some(parent) = missing.parent().filter(|parent| !parent.exists()) {
        missing = parent.to_owned();
    }
    may_make(&missing)
}

fn unusable(folder: &Path, error: &io::Error) -> String {
    format!(
        "cannot keep a certificate in {}: {error}; set tls.acme.state to a folder that the server's user may write to",
        folder.display()
    )
}
