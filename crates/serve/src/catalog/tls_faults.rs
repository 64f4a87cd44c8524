//! Faults of the settings of TLS.

use std::path::Path;

use thalweg_tls::ClientCertificateMode;

use crate::catalog::access::asks_any;
use crate::config::{ListenAddr, ServerConfig, TlsConfig, is_public_name};

/// The faults of the values, each with the name of its value below `tls`.
pub(super) fn of_values(config: &ServerConfig) -> Vec<(String, String)> {
    let mut faults = Vec::new();
    let Some(tls) = &config.tls else { return faults };
    let mut add = |at: &str, what: String| faults.push((at.to_owned(), what));
    if tls.certificates.is_empty() && !tls.self_signed && !tls.auto {
        let what = "there is no certificate; name files with a chain and its key, set auto to obtain one by ACME, or \
                    set self_signed for a test";
        add("certificate", what.into());
    }
    of_acme(config, tls, &mut add);
    for (index, address) in tls.listen.iter().enumerate() {
        if !config.listen.contains(address) {
            add(&format!("listen.{index}"), format!("{address} is not among the addresses to listen on"));
        }
    }
    if let Err(error) = tls.selection.check() {
        let at = match &error {
            error if error.to_string().starts_with("group") => "groups",
            error if error.to_string().contains("suite") => "suites",
            _ => "version_min",
        };
        add(at, error.to_string());
    }
    if asks_any(config) && tls.client_authorities.is_none() {
        add("client_authorities", "client certificates need a file with the authorities that issue them".into());
    }
    let speaks_plain = config.listen.iter().any(|address| !tls.speaks_at(address));
    if tls.redirect && !speaks_plain {
        let what = "all addresses speak TLS, and there is nothing to redirect; set tls.listen to some of them";
        add("redirect", what.into());
    }
    let has_port = config.listen.iter().any(|address| tls.speaks_at(address) && matches!(address, ListenAddr::Tcp(_)));
    if tls.redirect && !has_port {
        add("redirect", "no TCP address speaks TLS, to which clients could be redirected".into());
    }
    if tls.hsts.is_some() && speaks_plain && !tls.redirect {
        let what = "browsers must not be told over plain HTTP (RFC 6797, 7.2); set redirect, so that plain HTTP \
                    serves nothing else";
        add("hsts_days", what.into());
    }
    if tls.handshakes_max == 0 {
        add("handshakes_max", "at least one handshake has to be possible".into());
    }
    if tls.handshake_time.is_some_and(|time| time.is_zero()) {
        add("handshake_time", "the time has to be above zero".into());
    }
    faults
}

/// The faults of settings for ACME.
fn of_acme(config: &ServerConfig, tls: &TlsConfig, add: &mut dyn FnMut(&str, String)) {
    if !tls.auto {
        if !tls.hosts.is_empty() {
            add("hosts", "host names are for a certificate by ACME; set auto, or --tls auto".into());
        }
        return;
    }
    if tls.hosts.is_empty() && config.acme_hosts().is_empty() {
        let what = "a certificate is obtained for host names, and there is none; name this server as its clients do, \
                    by --host (such as --host mirror.example.org), by tls.hosts, or by the names of a site";
        add("hosts", what.into());
    }
    for (index, name) in tls.hosts.iter().enumerate().filter(|(_, name)| !is_public_name(name)) {
        let why = match name.contains('*') {
            true => "is a wildcard, for which authorities verify the DNS and not a server; name each host",
            false => "is not a name that a certification authority can verify; expected one such as mirror.example.org",
        };
        add(&format!("hosts.{index}"), format!("{name:?} {why}"));
    }
    if config.acme_hosts().len() > ACME_HOSTS_MAX {
        add("hosts", format!("a certificate has at most {ACME_HOSTS_MAX} names; name those with tls.hosts"));
    }
    if !tls.acme.directory.starts_with("https://") {
        add("acme.directory", format!("{:?} is not a URL that begins with https://", tls.acme.directory));
    }
    let is_mail = |mail: &String| {
        mail.split_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty())
            && !mail.contains(|letter: char| matches!(letter, ':' | ',' | '?') || letter.is_whitespace())
    };
    if let Some(mail) = tls.acme.contact.as_ref().filter(|mail| !is_mail(mail)) {
        add("acme.contact", format!("{mail:?} is not a mail address such as admin@example.org"));
    }
    let is_spoken = config.listen.iter().any(|address| tls.speaks_at(address));
    if !is_spoken {
        let what = "no address that is listened on speaks TLS; add one, such as 0.0.0.0:443 (to the socket unit, if \
                    systemd opens the sockets)";
        add("listen", what.into());
    }
}

/// Most names of one certificate, as the largest authorities have it.
const ACME_HOSTS_MAX: usize = 100;

/// The faults of sites and mounts, each with the name of its value.
pub(super) fn of_sites(config: &ServerConfig) -> Vec<(String, String)> {
    if config.tls.is_some() {
        return Vec::new();
    }
    let sites =
        config.sites.iter().enumerate().flat_map(|(index, site)| {
            let of_site = std::iter::once((format!("site.{index}"), site.client_certificates));
            let mounts = site.mounts.iter().enumerate();
            of_site.chain(mounts.map(move |(mount_index, mount)| {
                (format!("site.{index}.mount.{mount_index}"), mount.client_certificates)
            }))
        });
    let asking = sites.filter(|(_, mode)| mode.is_some_and(|mode| mode != ClientCertificateMode::None));
    let what = "clients have certificates over TLS alone; there has to be a table [tls]";
    asking.map(|(at, _)| (format!("{at}.client_certificates"), what.to_owned())).collect()
}

/// The files that cannot be read, each with the name of its value below `tls`.
pub(super) fn of_files(config: &ServerConfig) -> Vec<(String, String)> {
    let Some(tls) = &config.tls else { return Vec::new() };
    let certificates = tls.certificates.iter().enumerate();
    let files = certificates.flat_map(|(index, files)| {
        [(format!("certificate.{index}.chain"), &*files.chain), (format!("certificate.{index}.key"), &*files.key)]
    });
    let authorities = tls.client_authorities.as_deref().map(|path| ("client_authorities".to_owned(), path));
    let roots = tls.acme.roots.as_deref().filter(|_| tls.auto).map(|path| ("acme.roots".to_owned(), path));
    let unreadable = |(at, path): (String, &Path)| {
        // Before a change of the user, root reads files that the user may not.
        let error = path.metadata().err()?;
        Some((at, format!("cannot read {}: {error}", path.display())))
    };
    files.chain(authorities).chain(roots).filter_map(unreadable).collect()
}
