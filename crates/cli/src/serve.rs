//! `thalweg serve`: the download server in the foreground.
//!
//! The order of the start matters. Sockets are opened while the process may still do that; then it becomes the user that it serves as;
//! then, as long as it has one thread, the launcher is set apart and the file system is taken away; then the loops start; and when
//! all is open that is ever opened, most system calls go.

mod check;
mod confinement;
mod launcher;
mod signals;
mod takeover;
mod watch;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};

use thalweg_serve::{
    CatalogError, Level, ListenAddr, Listeners, LogTarget, Running, Server, StartError, Totals, loop_count,
};
use thalweg_sys::resource_limits::{descriptors, raise_descriptors};
use thalweg_sys::service_manager::Notification;
use thalweg_units::display;

pub use self::confinement::SandboxOption;
use self::confinement::{Confinement, Identity, file_access, socket_file};
use self::launcher::Launcher;
use self::signals::Signals;
use self::takeover::Inheritance;
use self::watch::{End, Watch};
use crate::configuration::{self, Configuration};
use crate::exit::{Exit, Failure, remark};
use crate::load_options::ensure_driver;
use crate::options::ServeOptions;
use crate::output::print;

/// Runs the command until a signal ends it.
///
/// # Errors
/// The folder or an address cannot be had, or the server has failed.
pub fn serve(options: &ServeOptions) -> Result<ExitCode, Failure> {
    if options.print_config {
        print(&configuration::print(&Configuration::of(options)?))?;
        return Ok(Exit::Met.into());
    }
    if options.check {
        print(&check::check(options)?)?;
        return Ok(Exit::Met.into());
    }
    run(options)
}

/// Serves until the end.
fn run(options: &ServeOptions) -> Result<ExitCode, Failure> {
    // From here on, no signal that has a meaning later ends the process.
    let signals = Signals::listen().map_err(Failure::unreachable)?;
    let mut inheritance = Inheritance::take()?;
    let groups = std::mem::take(&mut inheritance.groups);
    let given: Vec<_> =
        groups.iter().filter(|group| group.by_service_manager).map(|group| group.asked.clone()).collect();
    let configuration = Configuration::of(options).map(|configuration| with_given(configuration, &given))?;
    let config = &configuration.server;
    ensure_driver(config.driver)?;
    // Before there is a socket's file that would be left behind.
    check::ensure_writable(&configuration)?;
    // As many connections as the kernel lets us have; the server itself stops accepting before they run out.
    raise_descriptors(descriptors().hard).map_err(Failure::unreachable)?;
    let identity = Identity::choose(configuration.user.as_deref(), &config.listen)?;
    let loops = loop_count(config).map_err(refuse)?;
    let unknown = |(key, error)| Failure::usage(format!("cannot create Unix sockets as set by {key}: {error}"));
    let socket_file = socket_file(&configuration).map_err(unknown)?;
    let listeners = Listeners::open(&config.listen, socket_file, groups, loops).map_err(refuse)?;
    let mut confinement = identity.assume()?;
    // The user who serves may have fewer rights.
    check::ensure_writable(&configuration)?;
    let unable = |error| Failure::unreachable(format!("cannot start the launcher process: {error}"));
    let launcher = Launcher::start(options.config.as_deref()).map_err(unable)?;
    let configure = || {
        let configuration = Configuration::from_opened(options, &|_| launcher.open_configuration())?;
        Ok(with_given(configuration, &given))
    };
    let file_access = file_access(&configuration).map_err(Failure::unreachable)?;
    confinement.confine_files(configuration.sandbox, &file_access)?;
    let running = Server::start_on(config.clone(), listeners).map_err(refuse)?;
    confinement.confine_calls(configuration.sandbox)?;
    let predecessor = inheritance.settle()?;
    let pid_file = configuration.pid_file.as_deref().map(PidFile::write).transpose()?;
    say(&configuration)(&announcement(&roots(&configuration), &running, &confinement))?;
    let watch = Watch {
        running,
        signals: &signals,
        launcher: &launcher,
        configure: &configure,
        predecessor,
        successor: None,
        configuration,
    };
    watch.notify(&[Notification::Ready, Notification::Status("serving")]);
    end(watch, pid_file)
}

/// Watches the server to its end, which is one of two.
fn end(mut watch: Watch<'_>, pid_file: Option<PidFile>) -> Result<ExitCode, Failure> {
    match watch.until_end() {
        End::HandedOver => {
            // The other process has written its own number there.
            std::mem::forget(pid_file);
            watch.say(Level::Notice, "the upgrade succeeded; this process exits after its last download");
            watch.hand_over();
            watch.until_drained();
        }
        End::Asked | End::Failed => {
            watch.notify(&[Notification::Stopping]);
            watch.running.drain(watch.configuration.drain);
        }
    }
    let ended = watch.running.join();
    let totals = ended.map_err(|error| Failure::unreachable(format!("the server failed: {error}")))?;
    say(&watch.configuration)(&format!("stopped after {}\n", describe(&totals)))?;
    Ok(Exit::Met.into())
}

/// The addresses that a service manager listens on already count as configured, and nothing else does if nobody has chosen an address.
fn with_given(mut configuration: Configuration, given: &[ListenAddr]) -> Configuration {
    let listen = &mut configuration.server.listen;
    if !given.is_empty() && *listen == Configuration::default().server.listen {
        listen.clear();
    }
    for address in given {
        if !listen.contains(address) {
            listen.push(address.clone());
        }
    }
    configuration
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The folders that are served, in words.
fn roots(configuration: &Configuration) -> String {
    let mut mounts = configuration.server.sites.iter().flat_map(|site| &site.mounts);
    match (mounts.next(), mounts.count()) {
        (Some(first), 0) => first.root.display().to_string(),
        (_, others) => format!("{} folders of {}", others + 1, counted(configuration.server.sites.len(), "site")),
    }
}

/// Says what to do about a server that cannot start. What the user named wrongly is a usage error; what the host does not grant
/// is the host's.
fn refuse(error: StartError) -> Failure {
    use std::io::ErrorKind;
    match &error {
        StartError::Catalog(CatalogError::Root { .. }) => {
            Failure::usage(format!("{error}; use a directory that this user may read"))
        }
        StartError::Listen { address, error: cause } => {
            let advice = match cause.kind() {
                ErrorKind::AddrInUse => {
                    "the address is in use by another program; stop it, or choose another port \
                    with --listen"
                }
                ErrorKind::AddrNotAvailable => "this host does not have that address; `ip addr` lists its addresses",
                ErrorKind::PermissionDenied if matches!(address, ListenAddr::Unix(_)) => {
                    "use a folder that this user may write to; [unix_socket] sets the owner"
                }
                ErrorKind::PermissionDenied => {
                    "ports below 1024 need CAP_NET_BIND_SERVICE; choose a higher port with --listen"
                }
                _ => "choose another address with --listen",
            };
            Failure::unreachable(format!("{error}; {advice}"))
        }
        StartError::Log { .. } => Failure::usage(format!("{error}; use a file that this user may write")),
        StartError::Config(_) | StartError::Catalog(_) => Failure::usage(error),
        StartError::Pin { .. } => Failure::usage(format!("{error}; see --cores")),
        StartError::NoAddress | StartError::Driver(_) | StartError::Loop(_) => Failure::unreachable(error),
    }
}

/// How to say what is no error.
fn say(configuration: &Configuration) -> fn(&str) -> Result<(), Failure> {
    if configuration.server.log.access == Some(LogTarget::Stdout) { say_aside } else { print }
}

/// Says something on the standard error, because the access log has the standard output.
fn say_aside(text: &str) -> Result<(), Failure> {
    text.lines().for_each(remark);
    Ok(())
}

fn announcement(roots: &str, running: &Running, confinement: &Confinement) -> String {
    let cpus = counted(running.cpus(), "loop");
    format!("serving {roots} on {cpus} over {}\n{confinement}\n{}", running.driver().name(), places(running))
}

/// Where the server is to be found, a line each.
fn places(running: &Running) -> String {
    let mut text = String::new();
    for address in running.addresses() {
        match address {
            ListenAddr::Tcp(address) => text.push_str(&format!("listening on http://{address}/\n")),
            ListenAddr::Unix(_) => text.push_str(&format!("listening on {address}\n")),
        }
    }
    if let Some(address) = running.status_address() {
        text.push_str(&format!("status on http://{address}/\n"));
    }
    text
}

/// The file that names this process, for scripts. It is removed at the end, unless another process has put its own there by then.
#[derive(Debug)]
struct PidFile {
    path: PathBuf,
    /// Device and inode. The sandbox does not let the file be read.
    identity: (u64, u64),
}

impl PidFile {
    /// Replaces the file as a whole, so that nobody reads half a number.
    fn write(path: &Path) -> Result<Self, Failure> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let written = fs::write(&beside, format!("{}\n", process::id()))
            .and_then(|()| fs::metadata(&beside))
            .and_then(|there| fs::rename(&beside, path).map(|()| there));
        let there = written.map_err(|error| {
            Failure::unreachable(format!(
                "cannot write {}: {error}; use a folder that the server's user may write to",
                path.display()
            ))
        })?;
        Ok(Self { path: path.to_owned(), identity: (there.dev(), there.ino()) })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|there| (there.dev(), there.ino()) == self.identity) {
            // A number that is left behind names no process, which scripts have to expect anyhow.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn describe(totals: &Totals) -> String {
    let [good, moved, refused, failed] = totals.responses;
    format!(
        "{} requests ({} good, {} redirected or unchanged, {} refused, {} failed), {} sent, {} connections open",
        display::count(totals.requests),
        display::count(good),
        display::count(moved),
        display::count(refused),
        display::count(failed),
        display::bytes(totals.bytes),
        display::count(totals.open),
    )
}
