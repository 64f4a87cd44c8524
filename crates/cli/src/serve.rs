//! `thalweg serve`: the download server in the foreground.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use thalweg_measure::units::display;
use thalweg_serve::{ListenAddr, Running, Server, StartError, Totals};
use thalweg_sys::limits::{descriptors, raise_descriptors};

use crate::configuration::{self, Configuration};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::load_options::ensure_driver;
use crate::options::ServeOptions;
use crate::output::print;

/// How often signals are looked for and the status line is drawn.
const GLANCE: Duration = Duration::from_millis(100);

/// Runs the command until a signal ends it.
///
/// # Errors
/// The folder or an address cannot be had, or the server has failed.
pub fn serve(options: &ServeOptions) -> Result<ExitCode, Failure> {
    let configuration = Configuration::of(options)?;
    if options.print_config {
        print(&configuration::print(&configuration))?;
        return Ok(Exit::Met.into());
    }
    if options.check {
        print(&summary(&configuration))?;
        return Ok(Exit::Met.into());
    }
    ensure_driver(configuration.server.driver)?;
    let interrupt = Interrupt::listen().map_err(Failure::unreachable)?;
    // As many connections as the kernel lets us have; the server itself stops accepting before they run out.
    raise_descriptors(descriptors().hard).map_err(Failure::unreachable)?;
    let drain = configuration.drain;
    let roots = roots(&configuration);
    let running = Server::start(configuration.server).map_err(refuse)?;
    announce(&roots, &running)?;
    watch(&running, &interrupt);
    running.drain(drain);
    let totals = running.join().map_err(|error| Failure::unreachable(format!("the server has failed: {error}")))?;
    print(&format!("stopped after {}\n", describe(&totals)))?;
    Ok(Exit::Met.into())
}

/// What was checked.
fn summary(configuration: &Configuration) -> String {
    let server = &configuration.server;
    let mut text = String::from("the configuration is sound\n");
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
    for address in &server.listen {
        text.push_str(&format!("would listen on {address}\n"));
    }
    text
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

fn announce(roots: &str, running: &Running) -> Result<(), Failure> {
    let mut text =
        format!("serving {roots} on {} over {}\n", counted(running.cores(), "core"), running.driver().name(),);
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
