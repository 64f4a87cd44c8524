//! Descriptions of a server for people: its folders, its addresses, its totals.

use thalweg_serve::{ListenAddr, Running, Totals};
use thalweg_units::display;

use super::confinement::Confinement;
use crate::configuration::Configuration;

/// A number with its noun.
pub fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The served folders.
pub fn roots(configuration: &Configuration) -> String {
    let mut mounts = configuration.server.sites.iter().flat_map(|site| &site.mounts);
    match (mounts.next(), mounts.count()) {
        (Some(first), 0) => first.root.display().to_string(),
        (_, others) => format!("{} folders of {}", others + 1, counted(configuration.server.sites.len(), "site")),
    }
}

/// The lines at a server's start; `certified` is about the certificate by ACME, if there is to be
/// one.
pub fn announcement(roots: &str, running: &Running, confinement: &Confinement, certified: Option<&str>) -> String {
    let cpus = counted(running.cpus(), "CPU");
    let certified = certified.map_or_else(String::new, |line| format!("{line}\n"));
    let driver = running.driver().name();
    format!("serving {roots} on {cpus} over {driver}\n{confinement}\n{certified}{}", places(running))
}

/// The addresses of the server, one line each.
pub fn places(running: &Running) -> String {
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
pub fn describe(totals: &Totals) -> String {
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
