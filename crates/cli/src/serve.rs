//! `thalweg serve`: the download server in the foreground.

use std::io::IsTerminal;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use thalweg_measure::units::display;
use thalweg_serve::{ListenAddr, Running, Server, ServerConfig, StartError, Totals};
use thalweg_sys::limits::{descriptors, raise_descriptors};

use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::load_options::ensure_driver;
use crate::options::{CpuList, ServeOptions};
use crate::output::print;

/// How often signals are looked for and the status line is drawn.
const GLANCE: Duration = Duration::from_millis(100);

/// Runs the command until a signal ends it.
///
/// # Errors
/// The folder or an address cannot be had, or the server has failed.
pub fn serve(options: &ServeOptions) -> Result<ExitCode, Failure> {
    ensure_driver(options.driver)?;
    let interrupt = Interrupt::listen().map_err(Failure::unreachable)?;
    // As many connections as the kernel lets us have; the server itself stops accepting before they run out.
    raise_descriptors(descriptors().hard).map_err(Failure::unreachable)?;
    let running = start(options)?;
    announce(options, &running)?;
    watch(&running, &interrupt);
    running.drain(options.drain);
    let totals = running.join().map_err(|error| Failure::unreachable(format!("the server has failed: {error}")))?;
    print(&format!("stopped after {}\n", describe(&totals)))?;
    Ok(Exit::Met.into())
}

fn start(options: &ServeOptions) -> Result<Running, Failure> {
    let defaults = [SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)), SocketAddr::from((Ipv6Addr::LOCALHOST, 8080))];
    let listen =
        if options.listen.is_empty() { defaults.map(ListenAddr::Tcp).to_vec() } else { options.listen.clone() };
    let mut config = ServerConfig::new(&options.directory, listen);
    config.driver = options.driver.into();
    if let Some(CpuList(cpus)) = &options.cores {
        config.cores.clone_from(cpus);
    }
    Server::start(config).map_err(refuse)
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
        StartError::Config(_) | StartError::Pattern(_) => Failure::usage(error),
        StartError::Pin { .. } => Failure::usage(format!("{error}; see --cores")),
        StartError::NoAddress | StartError::Driver(_) | StartError::Loop(_) => Failure::unreachable(error),
    }
}

fn announce(options: &ServeOptions, running: &Running) -> Result<(), Failure> {
    let mut text = format!(
        "serving {} on {} core{} over {}\n",
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

/// Waits for the end, with a status line where somebody can see it.
fn watch(running: &Running, interrupt: &Interrupt) {
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    bar.set_style(ProgressStyle::with_template("{spinner} {wide_msg}").expect("a valid template"));
    while !interrupt.is_wanted() && !running.has_ended() {
        thread::sleep(GLANCE);
        bar.set_message(describe(&running.totals()));
        bar.tick();
    }
    bar.finish_and_clear();
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
