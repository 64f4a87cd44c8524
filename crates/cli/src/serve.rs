//! `thalweg serve`: the download server in the foreground.
//!
//! The order of the start matters. Sockets are opened while the process may still do that; then it becomes the user that it serves as;
//! then, as long as it has one thread, the launcher is set apart and the file system is taken away; then the cores start; and when
//! all is open that is ever opened, most system calls go.

mod confinement;
mod launcher;
mod signals;
mod takeover;
mod watch;

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};
use std::sync::Arc;

use thalweg_measure::units::display;
use thalweg_serve::{ListenAddr, Listeners, Running, Server, ServerConfig, StartError, Totals, core_count};
use thalweg_sys::limits::{descriptors, raise_descriptors};
use thalweg_sys::service_manager::News;

pub use self::confinement::SandboxOption;
use self::confinement::{Confinement, Identity, territory};
use self::launcher::Launcher;
use self::signals::Signals;
use self::takeover::Inheritance;
use self::watch::{End, Watch, tell};
use crate::exit::{Exit, Failure, remark};
use crate::load_options::ensure_driver;
use crate::options::{CpuList, ServeOptions};
use crate::output::print;

/// Runs the command until a signal ends it.
///
/// # Errors
/// The folder or an address cannot be had, or the server has failed.
pub fn serve(options: &ServeOptions) -> Result<ExitCode, Failure> {
    ensure_driver(options.driver)?;
    let mut inheritance = Inheritance::take()?;
    let given: Vec<ListenAddr> =
        inheritance.groups.iter().filter(|group| group.given).map(|group| group.asked.clone()).collect();
    let configure = || configure(options, &given);
    let config = configure()?;
    // As many connections as the kernel lets us have; the server itself stops accepting before they run out.
    raise_descriptors(descriptors().hard).map_err(Failure::unreachable)?;
    let identity = Identity::choose(options.user.as_deref(), &config.listen)?;
    let cores = core_count(&config).map_err(refuse)?;
    let groups = std::mem::take(&mut inheritance.groups);
    let listeners = Listeners::open(&config.listen, groups, cores).map_err(refuse)?;
    let mut confinement = identity.assume()?;
    let unable = |error| Failure::unreachable(format!("cannot set the process apart that starts successors: {error}"));
    let launcher = Launcher::start().map_err(unable)?;
    let signals = Signals::listen().map_err(Failure::unreachable)?;
    let written: Vec<PathBuf> = options.pid_file.iter().cloned().collect();
    let territory = territory(&config, &[], &written).map_err(Failure::unreachable)?;
    confinement.confine_files(options.sandbox, &territory)?;
    let running = Server::start_on(config.clone(), listeners).map_err(refuse)?;
    confinement.confine_calls(options.sandbox)?;
    inheritance.settle()?;
    announce(options, &running, &confinement)?;
    let pid_file = options.pid_file.as_deref().map(PidFile::write).transpose()?;
    tell(&[News::Ready, News::Status("serving")]);
    let mut watch =
        Watch { running, signals: &signals, launcher: &launcher, configure: &configure, config: Arc::new(config) };
    match watch.until_end() {
        End::HandedOver => {
            // It has written its own number there.
            std::mem::forget(pid_file);
            remark("another process serves from now on; this one ends with its last download");
            watch.running.hand_over(options.upgrade_drain);
            watch.until_drained(options.drain);
        }
        End::Asked | End::Failed => {
            tell(&[News::Stopping]);
            watch.running.drain(options.drain);
        }
    }
    let ended = watch.running.join();
    let totals = ended.map_err(|error| Failure::unreachable(format!("the server has failed: {error}")))?;
    print(&format!("stopped after {}\n", describe(&totals)))?;
    Ok(Exit::Met.into())
}

/// What the options say, and the addresses that are listened on already because a service manager has opened them.
fn configure(options: &ServeOptions, given: &[ListenAddr]) -> Result<ServerConfig, Failure> {
    let defaults = [SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)), SocketAddr::from((Ipv6Addr::LOCALHOST, 8080))];
    let mut listen = options.listen.clone();
    listen.extend(given.iter().filter(|address| !options.listen.contains(address)).cloned());
    if listen.is_empty() {
        listen.extend(defaults.map(ListenAddr::Tcp));
    }
    let mut config = ServerConfig::new(&options.directory, listen);
    config.driver = options.driver.into();
    if let Some(CpuList(cpus)) = &options.cores {
        config.cores.clone_from(cpus);
    }
    Ok(config)
}

/// Says what to do about a server that cannot start. What the user named wrongly is a usage error; what the host does not grant
/// is the host's.
fn refuse(error: StartError) -> Failure {
    use std::io::ErrorKind;
    match &error {
        StartError::Root { .. } => Failure::usage(format!("{error}; name a directory that this user may read")),
        StartError::Listen { error: cause, .. } => {
            let advice = match cause.kind() {
                ErrorKind::AddrInUse => "another program listens there; choose another port with --listen, or stop it",
                ErrorKind::AddrNotAvailable => "this host does not have that address; see `ip addr`",
                ErrorKind::PermissionDenied => {
                    "ports below 1024 need CAP_NET_BIND_SERVICE; choose a higher one with --listen"
                }
                _ => "choose another address with --listen",
            };
            Failure::unreachable(format!("{error}; {advice}"))
        }
        StartError::Pin { .. } => Failure::usage(format!("{error}; see --cores")),
        StartError::NoAddress | StartError::Driver(_) | StartError::Loop(_) => Failure::unreachable(error),
    }
}

fn announce(options: &ServeOptions, running: &Running, confinement: &Confinement) -> Result<(), Failure> {
    let mut text = format!(
        "serving {} on {} core{} over {}\n{confinement}\n",
        options.directory.display(),
        running.cores(),
        if running.cores() == 1 { "" } else { "s" },
        running.driver().name(),
    );
    for address in running.addresses() {
        match address {
            ListenAddr::Tcp(address) => text.push_str(&format!("listening on http://{address}/\n")),
            ListenAddr::Unix(_) => text.push_str(&format!("listening on {address}\n")),
        }
    }
    print(&text)
}

/// The file that names this process, for scripts. It is removed at the end, unless it names another one by then.
#[derive(Debug)]
struct PidFile(PathBuf);

impl PidFile {
    /// Replaces the file as a whole, so that nobody reads half a number.
    fn write(path: &Path) -> Result<Self, Failure> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let written = fs::write(&beside, format!("{}\n", process::id())).and_then(|()| fs::rename(&beside, path));
        written.map_err(|error| {
            Failure::unreachable(format!(
                "cannot write {}: {error}; name a file in a folder that the server's user may write to",
                path.display()
            ))
        })?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if fs::read_to_string(&self.0).is_ok_and(|text| text.trim() == process::id().to_string()) {
            // A number that is left behind names no process, which scripts have to expect anyhow.
            let _ = fs::remove_file(&self.0);
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
