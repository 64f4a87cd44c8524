//! `thalweg serve`: the download server in the foreground.
//!
//! The order of the start matters. The process opens its sockets while it still has the rights for
//! them; it becomes the user that it serves as; while it has one thread, it starts the launcher and
//! confines its files; it starts the loops; and when everything is open, it gives up most system
//! calls.

mod acme;
mod check;
mod cluster;
mod confinement;
mod description;
mod figures;
mod launcher;
mod objects;
mod origins;
mod purging;
mod secrets;
mod signals;
mod takeover;
mod tier;
mod volumes;
mod watch;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};

use thalweg_serve::{
    CatalogError, Level, ListenAddr, Listeners, LogTarget, Server, ServerTls, StartError, TlsError, loop_count,
};
use thalweg_sys::resource_limits::{descriptors, raise_descriptors};
use thalweg_sys::service_manager::Notification;

use self::acme::AcmeProcess;
use self::cluster::OriginFiles;
use self::confinement::{Identity, file_access, socket_file};
use self::description::{announcement, describe, reach, served};
use self::launcher::Launcher;
use self::signals::Signals;
use self::takeover::Inheritance;
use self::tier::RunningTier;
use self::watch::{End, Watch};
use crate::configuration::{self, Configuration, Loaded};
use crate::exit::{Exit, Failure, remark};
use crate::load_options::ensure_driver;
use crate::options::ServeOptions;
use crate::output::print;

/// Runs the command until a signal ends it.
///
/// # Errors
/// The folder or an address is not available, or the server has failed.
pub(crate) fn serve(options: &ServeOptions) -> Result<ExitCode, Failure> {
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

/// Reads what origins and a cluster need, and warns of secrets that others can read.
fn read_origin_files(configuration: &Configuration) -> Result<OriginFiles, Failure> {
    secrets::warnings(configuration).iter().for_each(|what| remark(&format!("warning: {what}")));
    tier::read_files(&configuration.server, configuration.cluster.as_ref(), &|path| fs::read(path))
}

/// Serves until the end.
fn run(options: &ServeOptions) -> Result<ExitCode, Failure> {
    // From here on, a signal that the server handles later does not end the process.
    let signals = Signals::listen().map_err(Failure::unreachable)?;
    let mut inheritance = Inheritance::take()?;
    let groups = std::mem::take(&mut inheritance.groups);
    let by_manager = groups.iter().filter(|group| group.by_service_manager);
    let given: Vec<_> = by_manager.map(|group| group.asked.clone()).collect();
    let configuration = Configuration::of(options)?.with_given(&given);
    let config = &configuration.server;
    ensure_driver(config.driver)?;
    // This check comes before a socket's file is made, which a failure would leave behind.
    check::ensure_writable(&configuration)?;
    // The most descriptors that the kernel grants; the server itself stops accepting before they
    // run out.
    raise_descriptors(descriptors().hard).map_err(Failure::unreachable)?;
    let identity = Identity::choose(configuration.user.as_deref(), &config.listen)?;
    let loops = loop_count(config).map_err(refuse)?;
    let socket_file = socket_file(&configuration)
        .map_err(|(key, error)| Failure::usage(format!("cannot create Unix sockets as set by {key}: {error}")))?;
    let listeners = Listeners::open(&config.listen, socket_file, groups, loops).map_err(refuse)?;
    // Keys are often readable by root alone.
    let mut tls = ServerTls::open(config, None, &|path| fs::read(path)).map_err(StartError::from).map_err(refuse)?;
    if let (Some(tls), Some(tickets)) = (&tls, &inheritance.tickets) {
        // Keys of another version's making leave clients with full handshakes.
        let _ = tls.tickets().import(tickets);
    }
    let origin_files = read_origin_files(&configuration)?;
    acme::prepare(&configuration, identity.account())?;
    let mut confinement = identity.assume()?;
    // The user who serves may have fewer rights.
    check::ensure_writable(&configuration)?;
    let store = volumes::open_store(config, inheritance.has_predecessor())?;
    let certified = acme::install_stored(&configuration, tls.as_mut());
    let unable = |error| Failure::unreachable(format!("cannot start a process beside the server: {error}"));
    let launcher = Launcher::start(options.config.as_deref(), || named_files(options)).map_err(unable)?;
    let acme = start_acme(options, &configuration, &given).map_err(unable)?;
    let read = || Configuration::from_opened(options, &|_| launcher.open_configuration());
    let configure = || Ok(read()?.with_given(&given));
    let file_access = file_access(&configuration).map_err(Failure::unreachable)?;
    confinement.confine_files(configuration.sandbox, &file_access)?;
    let mut tier = store.map(RunningTier::start).transpose().map_err(Failure::unreachable)?;
    let cluster = configuration.cluster.as_ref();
    let mounts = tier.as_mut().map(|tier| tier.mount(config, cluster, &origin_files)).transpose()?;
    let running = Server::start_with(config.clone(), listeners, tls, mounts).map_err(refuse)?;
    tier.iter().for_each(|tier| tier.report_to(running.error_log()));
    running.show_certificate(certified.as_ref().map(|certified| certified.state.clone()));
    confinement.confine_calls(configuration.sandbox)?;
    let predecessor = inheritance.settle()?;
    let pid_file = configuration.pid_file.as_deref().map(PidFile::write).transpose()?;
    let line = certified.as_ref().map(|certified| &*certified.line);
    let mut lines = announcement(&served(options, &configuration), &running, &confinement, line);
    if options.config.is_none() {
        // The person who has written a configuration has chosen the addresses there.
        lines += &reach(running.addresses());
    }
    say(&configuration)(&lines)?;
    let watch = Watch {
        running,
        signals: &signals,
        launcher: &launcher,
        acme,
        configure: &configure,
        predecessor,
        successor: None,
        tier,
        configuration,
    };
    watch.notify(&[Notification::Ready, Notification::Status("serving")]);
    end(watch, pid_file)
}

/// Watches the server until it is told to stop or has passed its sockets to a successor.
fn end(mut watch: Watch<'_>, pid_file: Option<PidFile>) -> Result<ExitCode, Failure> {
    match watch.until_end() {
        End::HandedOver => {
            // The successor has written its own number there.
            std::mem::forget(pid_file);
            watch.say(Level::Notice, "the upgrade succeeded; this process exits after its last download");
            watch.hand_over();
            watch.until_drained();
        }
        End::Stopped | End::Failed => {
            watch.notify(&[Notification::Stopping]);
            watch.running.drain(watch.configuration.drain);
        }
    }
    let (tier, configuration) = (watch.tier, watch.configuration);
    let ended = watch.running.join();
    if let Some(tier) = tier {
        tier.end();
    }
    let totals = ended.map_err(|error| Failure::unreachable(format!("the server failed: {error}")))?;
    say(&configuration)(&format!("stopped after {}\n", describe(&totals)))?;
    Ok(Exit::Met.into())
}

/// Starts the process that obtains certificates, if any is to be obtained. It reads the
/// configuration itself for a reload.
fn start_acme(
    options: &ServeOptions,
    configuration: &Configuration,
    given: &[ListenAddr],
) -> io::Result<Option<AcmeProcess>> {
    let Some(settings) = acme::settings(configuration) else { return Ok(None) };
    let configure = || {
        let configuration = Configuration::of(options).map_err(|failure| failure.line())?;
        Ok(acme::settings(&configuration.with_given(given)))
    };
    AcmeProcess::start(settings, configure).map(Some)
}

/// The files that the configuration names by now; none if it cannot be read.
fn named_files(options: &ServeOptions) -> Vec<PathBuf> {
    let Ok(loaded) = Loaded::read(options, &|path| fs::File::open(path)) else { return Vec::new() };
    let Configuration { server, cluster, .. } = &loaded.configuration;
    let tls = ServerTls::files(server).into_iter().map(Path::to_owned);
    tls.chain(tier::named_files(server, cluster.as_ref())).collect()
}

/// The failure of a server that cannot start, with advice. A wrong setting is a usage error; a
/// refusal by the host is not.
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
        StartError::Tls(TlsError::Read { .. }) => {
            Failure::usage(format!("{error}; use a file that this user may read"))
        }
        StartError::Config(_) | StartError::Catalog(_) | StartError::Tls(_) => Failure::usage(error),
        StartError::Pin { .. } => Failure::usage(format!("{error}; see --cores")),
        StartError::NoAddress | StartError::Driver(_) | StartError::Loop(_) => Failure::unreachable(error),
    }
}

/// The function that prints messages that are no errors.
fn say(configuration: &Configuration) -> fn(&str) -> Result<(), Failure> {
    if configuration.server.log.access == Some(LogTarget::Stdout) { print_on_stderr } else { print }
}

/// Prints on standard error, because the access log has the standard output.
fn print_on_stderr(text: &str) -> Result<(), Failure> {
    text.lines().for_each(remark);
    Ok(())
}

/// The file with this process's number, for scripts. It is removed at the end, unless another
/// process has replaced it by then.
#[derive(Debug)]
struct PidFile {
    path: PathBuf,
    /// Device and inode. The sandbox does not let the file be read.
    identity: (u64, u64),
}

impl PidFile {
    /// Replaces the file atomically, so that no reader sees a part of the number.
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
            // A file that is left behind names no process, which scripts have to expect anyhow.
            let _ = fs::remove_file(&self.path);
        }
    }
}
