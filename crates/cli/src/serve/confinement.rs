//! The rights that a server gives up before it serves clients: the superuser's account,
//! capabilities, most of the file system, and most system calls.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use thalweg_serve::{ListenAddr, LogTarget};
use thalweg_sys::process::{Account, drop_capabilities, group_named, is_root};
use thalweg_sys::sandbox::{Enforcement, FileAccess, confine_calls, confine_files};
use thalweg_sys::socket::SocketFile;

use crate::configuration::{Configuration, UnixSocket};
use crate::exit::{Failure, remark};
use crate::options::SandboxOption;

/// Files that are read to resolve the names of origins, and to verify their certificates.
const FOR_ORIGINS: [&str; 10] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/ssl",
    "/etc/pki",
    "/usr/share/ca-certificates",
    "/usr/lib/ssl",
];

/// The state of the confinement, for the start lines.
#[derive(Debug, Default)]
pub(super) struct Confinement {
    user: Option<String>,
    files: Option<Enforcement>,
    calls: Option<Result<(), String>>,
}

/// The user to serve as.
#[derive(Debug)]
pub(super) enum Identity {
    /// Another user than that of the process.
    Other(Account),
    /// The user of the process.
    Own,
}

impl Identity {
    /// The identity that the configuration names. Serving the network as the superuser is warned
    /// of, unless it is configured.
    ///
    /// # Errors
    /// The user does not exist or cannot be assumed.
    pub(super) fn choose(user: Option<&str>, listen: &[ListenAddr]) -> Result<Self, Failure> {
        let Some(name) = user else {
            if let Some(address) =
                listen.iter().find(|address| is_reached_from_elsewhere(address)).filter(|_| is_root())
            {
                remark(&format!(
                    "serving {address} as root: a bug in the server would affect the whole host; set a user to \
                     switch to after the start, such as --user www-data"
                ));
            }
            return Ok(Self::Own);
        };
        let unknown = |error| Failure::usage(format!("cannot serve as user {name:?}: {error}; see --user"));
        let account = Account::named(name).map_err(unknown)?;
        if account.is_current() {
            return Ok(Self::Own);
        }
        if !is_root() {
            return Err(Failure::usage(format!(
                "only root can switch to user {name:?}; start as root, or remove --user"
            )));
        }
        Ok(Self::Other(account))
    }

    /// The user, if it is another one than that of the process.
    pub(super) fn account(&self) -> Option<&Account> {
        match self {
            Self::Other(account) => Some(account),
            Self::Own => None,
        }
    }

    /// Changes to that user and drops all capabilities. To be called before there are threads.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn assume(&self) -> Result<Confinement, Failure> {
        let given_up = match self {
            Self::Other(account) => account.assume().and_then(|()| drop_capabilities()),
            Self::Own if is_root() => Ok(()),
            Self::Own => drop_capabilities(),
        };
        given_up.map_err(|error| Failure::unreachable(format!("cannot drop privileges: {error}")))?;
        let user = match self {
            Self::Other(account) => Some(account.name.clone()),
            Self::Own => is_root().then(|| "root".to_owned()),
        };
        Ok(Confinement { user, ..Confinement::default() })
    }
}

/// Owner, group and permissions of the files of Unix sockets; the defaults are those of the serving
/// user.
///
/// # Errors
/// There is no such user or group; the error comes with its key.
pub(super) fn socket_file(configuration: &Configuration) -> Result<SocketFile, (&'static str, io::Error)> {
    let UnixSocket { mode, user, group } = &configuration.unix_socket;
    let account = |name: &Option<String>, key| {
        name.as_deref().map(|name| Account::named(name).map_err(|error| (key, error))).transpose()
    };
    // The user was checked before; a process that has this identity already needs no lookup.
    let server = account(&configuration.user, "user")?.filter(|_| is_root());
    let user = account(user, "unix_socket.user")?.or_else(|| server.clone()).map(|account| account.uid());
    let group = group.as_deref().map(group_named).transpose().map_err(|error| ("unix_socket.group", error))?;
    Ok(SocketFile { mode: *mode, uid: user, gid: group.or_else(|| server.map(|account| account.gid())) })
}

fn is_reached_from_elsewhere(address: &ListenAddr) -> bool {
    match address {
        ListenAddr::Tcp(address) => !address.ip().is_loopback(),
        ListenAddr::Unix(_) => false,
    }
}

impl Confinement {
    /// Restricts this process to `file_access`. To be called before there are threads, which
    /// inherit the restriction.
    ///
    /// # Errors
    /// The kernel cannot enforce it, and the option requires it.
    pub(super) fn confine_files(&mut self, option: SandboxOption, file_access: &FileAccess) -> Result<(), Failure> {
        if option == SandboxOption::Off {
            return Ok(());
        }
        match confine_files(file_access) {
            Ok(enforced @ (Enforcement::Partial | Enforcement::None)) if option == SandboxOption::On => {
                let how = if enforced == Enforcement::None { "does not support" } else { "does not fully support" };
                Err(Failure::unreachable(format!(
                    "--sandbox on: this kernel {how} landlock; Linux 6.12 or newer is needed, with landlock in \
                     `lsm=` on the kernel's command line"
                )))
            }
            Ok(enforced) => {
                self.files = Some(enforced);
                Ok(())
            }
            Err(error) => {
                Err(Failure::unreachable(format!("cannot restrict the server to its folders: {error}; see --sandbox")))
            }
        }
    }

    /// Restricts all threads of this process to the system calls of a server that has started.
    ///
    /// # Errors
    /// The kernel cannot enforce it, and the option requires it.
    pub(super) fn confine_calls(&mut self, option: SandboxOption) -> Result<(), Failure> {
        if option == SandboxOption::Off {
            return Ok(());
        }
        let confined = confine_calls();
        if let (SandboxOption::On, Err(error)) = (option, &confined) {
            return Err(Failure::unreachable(format!("--sandbox on: this kernel cannot filter system calls: {error}")));
        }
        self.calls = Some(confined.map_err(|error| error.to_string()));
        Ok(())
    }
}

/// Displays as one line.
impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "as user {user}, ")?;
        }
        f.write_str("sandbox: ")?;
        match self.files {
            None => return f.write_str("off"),
            Some(Enforcement::Full) => f.write_str("files")?,
            Some(Enforcement::Partial) => f.write_str("files (in part; newer kernels support more)")?,
            Some(Enforcement::None) => f.write_str("no file restrictions (this kernel has no landlock)")?,
        }
        match &self.calls {
            None => Ok(()),
            Some(Ok(())) => f.write_str(", system calls"),
            Some(Err(error)) => write!(f, ", no system call filter ({error})"),
        }
    }
}

/// The files and folders that a server of this configuration needs. The configuration itself is not
/// among them: the launcher opens it.
pub(super) fn file_access(configuration: &Configuration) -> io::Result<FileAccess> {
    let absolute = |path: &Path| std::path::absolute(path);
    let all = |paths: Vec<&Path>| paths.into_iter().map(absolute).collect::<io::Result<Vec<_>>>();
    let server = &configuration.server;
    let mounts = server.sites.iter().flat_map(|site| &site.mounts);
    let sockets = server.listen.iter().filter_map(|address| match address {
        ListenAddr::Unix(path) => Some(path.as_path()),
        ListenAddr::Tcp(_) => None,
    });
    let logs = server.log.access.iter().chain([&server.log.error]).filter_map(|target| match target {
        LogTarget::File(path) => Some(path.as_path()),
        LogTarget::Stdout | LogTarget::Stderr => None,
    });
    let state = server.status.as_ref().and_then(|status| status.state.as_deref());
    let mut readable: Vec<_> = mounts.filter(|mount| mount.has_root()).map(|mount| mount.root.clone()).collect();
    if server.forwards() {
        readable.extend(FOR_ORIGINS.iter().map(PathBuf::from));
        readable.extend(server.origins.iter().filter_map(|origin| origin.tree.clone()));
    }
    Ok(FileAccess {
        readable,
        // Origins are reached from this process. Volumes are open already.
        connects: server.forwards(),
        appended: all(logs.collect())?,
        replaced: all(configuration.pid_file.as_deref().into_iter().collect())?,
        kept: all(state.into_iter().collect())?,
        sockets: all(sockets.collect())?,
    })
}
