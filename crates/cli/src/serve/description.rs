//! Descriptions of a server for people: its folders, its addresses, its totals.

use thalweg_serve::{ListenAddr, Running, Totals, without_user};
use thalweg_units::display;

use super::confinement::Confinement;
use crate::configuration::Configuration;
use crate::options::ServeOptions;

/// A number with its noun.
pub(super) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The served folders.
pub(super) fn roots(configuration: &Configuration) -> String {
    let mut mounts = configuration.server.sites.iter().flat_map(|site| &site.mounts);
    match (mounts.next(), mounts.count()) {
        (Some(first), 0) if first.root.as_os_str().is_empty() => match configuration.server.origins.first() {
            Some(origin) => origin.url.as_deref().map_or_else(|| format!("origin {}", origin.name), without_user),
            None => "redirects".to_owned(),
        },
        (Some(first), 0) => first.root.display().to_string(),
        (_, others) => format!("{} folders of {}", others + 1, counted(configuration.server.sites.len(), "site")),
    }
}

/// The served folders, with a hint that the current one is served because none was named.
pub(super) fn served(options: &ServeOptions, configuration: &Configuration) -> String {
    let roots = roots(configuration);
    let is_current = options.directory.is_none() && options.served_directory().is_some();
    if is_current { format!("the current folder, {roots},") } else { roots }
}

/// The lines at a server's start, for folders as [`served`] has them; `certified` is about the
/// certificate by ACME, if there is to be one.
pub(super) fn announcement(
    served: &str,
    running: &Running,
    confinement: &Confinement,
    certified: Option<&str>,
) -> String {
    let cpus = counted(running.cpus(), "CPU");
    let certified = certified.map_or_else(String::new, |line| format!("{line}\n"));
    let driver = running.driver().name();
    let places = places(running);
    format!("serving {served} on {cpus} over {driver}\n{confinement}\n{certified}{places}")
}

/// A line for those who expect others to connect, where none but this host can.
pub(super) fn reach(addresses: &[ListenAddr]) -> String {
    let port = |address: &ListenAddr| match address {
        ListenAddr::Tcp(tcp) if tcp.ip().is_loopback() => Some(tcp.port()),
        ListenAddr::Tcp(_) | ListenAddr::Unix(_) => None,
    };
    let ports: Option<Vec<u16>> = addresses.iter().map(port).collect();
    match ports.as_deref() {
        Some([first, ..]) => format!("only this host can connect; --listen :{first} is for all\n"),
        _ => String::new(),
    }
}

/// The addresses of the server, one line each.
pub(super) fn places(running: &Running) -> String {
    let mut text = String::new();
    for address in running.addresses() {
        match address {
            ListenAddr::Tcp(tcp) => {
                let scheme = if running.speaks_tls_at(address) { "https" } else { "http" };
                text.push_str(&format!("listening on {scheme}://{tcp}/\n"));
            }
            ListenAddr::Unix(_) => text.push_str(&format!("listening on {address}\n")),
        }
    }
    if let Some(address) = running.status_address() {
        text.push_str(&format!("status on http://{address}/\n"));
    }
    text
}

/// One line of totals.
pub(super) fn describe(totals: &Totals) -> String {
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
