//! Faults of a configuration that are found before a server starts.
//!
//! [`ServerConfig::check`] looks at the values alone; [`ServerConfig::check_host`] also looks
//! whether this host has what they name. Both find all that is wrong, not only the first of it, and
//! say where. That an address is free to listen on is not looked at: it may be taken by the very
//! server that is to be replaced.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::Path;

use thalweg_sys::{Root, Wait, affinity, file};
use thalweg_wire::encode::FieldBlock;

use crate::catalog::forwarding_faults;
use crate::catalog::host::host_key;
use crate::catalog::routing;
use crate::catalog::rules::compile_pattern;
use crate::catalog::site::Sites;
use crate::catalog::tls_faults;
use crate::config::{
    DeniedClients, ListenAddr, ListingStyle, LogTarget, RequestLimit, Routing, ServerConfig, Settings, SiteConfig,
};
use crate::content::local::miss::Miss;
use crate::content::local::resolve::{self, Resolution};
use crate::content::refusal::Refusal;

/// Most sites, and most mounts of all of them.
const SITES_MAX: usize = 65_536;

/// Heads smaller than this leave no room for what browsers send; larger ones are an attack.
const HEAD_BYTES: std::ops::RangeInclusive<u32> = 512..=1 << 20;

/// Fields that the server writes itself, from what it knows of the file and of the connection.
const OWN_FIELDS: &[&str] = &[
    "Accept-Ranges",
    "Connection",
    "Content-Length",
    "Content-Range",
    "Date",
    "ETag",
    "Keep-Alive",
    "Last-Modified",
    "Proxy-Connection",
    "Server",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
];

/// A fault of a configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigFault {
    /// The value: the names of its fields with dots between, and numbers from 0 for those of a
    /// list, as `site.0.mount.1.path`. If it was left out, this is where it should be.
    pub at: String,
    /// The fault, and the remedy.
    pub what: String,
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.what)
    }
}

impl ServerConfig {
    /// All faults of the values.
    #[must_use]
    pub fn check(&self) -> Vec<ConfigFault> {
        let mut faults = Faults::default();
        check_listen(self, &mut faults);
        check_proxies(self, &mut faults);
        check_bounds(self, &mut faults);
        for (index, name) in self.status.iter().flat_map(|status| &status.allowed_hosts).enumerate() {
            if let Err(why) = check_host_name(name) {
                faults.add(format_args!("status.allowed_hosts.{index}"), format!("{name:?} {why}"));
            }
        }
        if self.sites.is_empty() {
            faults.add("site", "there is no site; set a root to serve");
        }
        if self.sites.len().max(self.sites.iter().map(|site| site.mounts.len()).sum()) > SITES_MAX {
            faults.add("site", format!("more than {SITES_MAX} sites or mounts"));
        }
        check_names(&self.sites, &mut faults);
        for (index, site) in self.sites.iter().enumerate() {
            faults.within(format!("site.{index}"), |faults| check_site(site, faults));
        }
        tls_faults::of_values(self).into_iter().for_each(|(at, what)| faults.add(format_args!("tls.{at}"), what));
        tls_faults::of_sites(self).into_iter().for_each(|(at, what)| faults.add(at, what));
        forwarding_faults::of_values(self).into_iter().for_each(|(at, what)| faults.add(at, what));
        faults.found
    }

    /// All folders, error pages and CPUs that the configuration names and this host lacks.
    #[must_use]
    pub fn check_host(&self) -> Vec<ConfigFault> {
        let mut faults = Faults::default();
        let cpus = affinity::allowed_cpus().unwrap_or_default();
        for cpu in self.cpus.iter().filter(|cpu| !cpus.contains(cpu)) {
            faults.add("cores", format!("CPU {cpu} of `cores` or `--cores` is not available to this process"));
        }
        for (index, site) in self.sites.iter().enumerate() {
            faults.within(format!("site.{index}"), |faults| check_roots(site, faults));
        }
        forwarding_faults::of_files(self).into_iter().for_each(|(at, what)| faults.add(at, what));
        tls_faults::of_files(self).into_iter().for_each(|(at, what)| faults.add(format_args!("tls.{at}"), what));
        if faults.found.is_empty() && self.check().is_empty() {
            check_error_pages(self, &mut faults);
        }
        for (at, target) in [("log.access", self.log.access.as_ref()), ("log.error", Some(&self.log.error))] {
            if let Some(LogTarget::File(path)) = target {
                check_written(at, path, file::may_write, &mut faults);
            }
        }
        if let Some(path) = self.status.as_ref().and_then(|status| status.state.as_deref()) {
            // It is replaced as a whole.
            check_written("status.state", path, file::may_make, &mut faults);
        }
        faults.found
    }
}

/// The faults that were found so far, and the path of the value that is being checked.
#[derive(Default)]
struct Faults {
    prefix: String,
    found: Vec<ConfigFault>,
}

impl Faults {
    fn add(&mut self, at: impl fmt::Display, what: impl Into<String>) {
        self.found.push(ConfigFault { at: format!("{}{at}", self.prefix), what: what.into() });
    }

    fn within(&mut self, at: impl fmt::Display, check: impl FnOnce(&mut Self)) {
        let outer = self.prefix.len();
        self.prefix.push_str(&format!("{at}."));
        check(self);
        self.prefix.truncate(outer);
    }
}

fn check_listen(config: &ServerConfig, faults: &mut Faults) {
    for (index, address) in config.listen.iter().enumerate() {
        let is_free = matches!(address, ListenAddr::Tcp(address) if address.port() == 0);
        if !is_free && config.listen[..index].contains(address) {
            faults.add(format_args!("listen.{index}"), format!("{address} is listed twice"));
        }
        if let (ListenAddr::Tcp(address), Some(status)) = (address, &config.status)
            && *address == status.listen
            && !is_free
        {
            faults.add("status.listen", format!("{address} is used to serve files; choose another port"));
        }
    }
}

/// Looks at the proxies that are trusted, and where they have to be.
fn check_proxies(config: &ServerConfig, faults: &mut Faults) {
    if let (Some(address), true) = (config.proxy_protocol.first(), config.trusted_proxies.is_empty()) {
        let what = format!(
            "connections at {address} begin with a PROXY header (proxy_protocol), which is taken from trusted proxies \
             only; list their networks here, since anybody else could name any client"
        );
        faults.add("trusted_proxies", what);
    }
}

fn check_bounds(config: &ServerConfig, faults: &mut Faults) {
    let (limits, cache) = (&config.limits, &config.cache);
    if !HEAD_BYTES.contains(&limits.head_bytes_max) {
        let (least, most) = (HEAD_BYTES.start(), HEAD_BYTES.end() >> 20);
        faults.add("limits.head_bytes_max", format!("expected a size from {least} bytes to {most} MiB"));
    }
    let times = [
        ("head_time", limits.head_time),
        ("idle_time", limits.idle_time),
        ("stall_time", limits.stall_time),
        ("linger_time", limits.linger_time),
    ];
    for (name, _) in times.into_iter().filter(|(_, time)| time.is_zero()) {
        faults.add(format_args!("limits.{name}"), "the time has to be above zero");
    }
    check_burst("limits.requests_burst", &limits.requests_per_client, faults);
    if config.denied_clients == DeniedClients::Close && config.networks.is_empty() {
        let what =
            "no list of the server denies a client; set deny or allow at the top, where connections can be closed";
        faults.add("denied_clients", what);
    }
    if cache.entries_max == 0 {
        faults.add("cache.entries_max", "at least one file has to be cached");
    }
    if cache.small_file_bytes_max > cache.bytes_max {
        faults.add("cache.small_file_bytes_max", "larger than the whole cache (bytes_max)");
    }
}

/// Looks at the names of all sites: each host can be that of one only.
fn check_names(sites: &[SiteConfig], faults: &mut Faults) {
    let mut owners = HashMap::new();
    for (index, site) in sites.iter().enumerate() {
        if site.names.is_empty() && index > 0 {
            faults.add(format_args!("site.{index}.names"), "this site has no names; only the first site may have none");
        }
        for (place, name) in site.names.iter().enumerate() {
            let at = format!("site.{index}.names.{place}");
            if let Err(why) = check_host_name(name) {
                faults.add(at, format!("{name:?} {why}"));
            } else if let Some(owner) = owners.insert(host_key(name), index) {
                let whose = if owner == index { "this site".to_owned() } else { format!("site {}", owner + 1) };
                faults.add(at, format!("{name:?} is already a name of {whose}"));
            }
        }
    }
}

fn check_host_name(name: &str) -> Result<(), &'static str> {
    if name.starts_with('[') {
        let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or_default();
        let is_address = address.parse::<std::net::Ipv6Addr>().is_ok();
        return if is_address {
            Ok(())
        } else {
            Err("is not an address; expected for example \"[2001:db8::1]\", without a port")
        };
    }
    if !name.is_ascii() {
        return Err("is not ASCII; use the form of the name in DNS, which begins with xn--");
    }
    if name.contains(':') {
        return Err("has a port; remove it, since a site is served on all ports");
    }
    let host = name.strip_prefix("*.").unwrap_or(name);
    let host = host.strip_suffix('.').unwrap_or(host);
    let is_label = |label: &str| {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        !label.is_empty() && label.len() <= 63 && label.bytes().all(is_inner)
    };
    if host.len() > 253 || !host.split('.').all(is_label) {
        return Err("is not a host name; expected for example \"example.org\", or \"*.example.org\" for all names \
            below it");
    }
    Ok(())
}

fn check_site(site: &SiteConfig, faults: &mut Faults) {
    if site.mounts.is_empty() && site.routing.redirect.is_none() {
        faults.add("mount", "this site has no root and no mount; set the folder to serve, or redirect");
    }
    check_routing(&site.routing, "/", None, faults);
    check_burst("requests_burst", &site.request_limit, faults);
    for (index, mount) in site.mounts.iter().enumerate() {
        let at = format!("mount.{index}.path");
        if let Err(why) = check_folder_path(&mount.path) {
            faults.add(at, format!("{:?} {why}", mount.path));
        } else if site.mounts[..index].iter().any(|other| other.path == mount.path) {
            faults.add(at, format!("there is already a mount at {:?}", mount.path));
        }
        faults.within(format!("mount.{index}"), |faults| {
            if mount.root.as_os_str().is_empty() && mount.has_root() {
                faults.add(
                    "root",
                    "`root` is missing; expected for example root = \"/srv/mirror\", origins, or a redirect",
                );
            }
            check_routing(&mount.routing, &mount.path, None, faults);
            check_burst("requests_burst", &mount.request_limit, faults);
        });
    }
    for (index, rule) in site.rules.iter().enumerate() {
        faults.within(format!("rule.{index}"), |faults| {
            if let Some(folder) = &rule.folder
                && let Err(why) = check_folder_path(folder)
            {
                faults.add("folder", format!("{folder:?} {why}"));
            }
            if let Some(files) = &rule.files {
                check_pattern("files", files, faults);
            }
            check_settings(&rule.settings, faults);
            check_routing(&rule.routing, rule.folder.as_deref().unwrap_or("/"), rule.files.as_deref(), faults);
        });
    }
    for (index, (status, path)) in site.error_pages.iter().enumerate() {
        let at = format!("error_pages.{status}");
        if !(400..=599).contains(status) {
            faults.add(&at, format!("{status} is not an error status; expected 400 to 599"));
        }
        if site.error_pages[..index].iter().any(|(other, _)| other == status) {
            faults.add(&at, format!("there are two error pages for {status}"));
        }
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        if !path.starts_with('/') || path.ends_with('/') || check_folder_path(&format!("{folder}/")).is_err() {
            faults.add(&at, format!("{path:?} is not a path of a file; expected for example \"/errors/404.html\""));
        }
    }
}

/// Redirects and rewrites of a folder, or of some files in it.
fn check_routing(routing: &Routing, folder: &str, files: Option<&str>, faults: &mut Faults) {
    routing::faults(routing, folder, files).into_iter().for_each(|(at, what)| faults.add(at, what));
}

fn check_burst(at: &str, limit: &RequestLimit, faults: &mut Faults) {
    if limit.burst > 0 && limit.rate.is_none() {
        faults.add(at, "there is no rate of requests; set requests_per_client, or remove the burst");
    }
}

/// A path of a site to a folder, as canonical names have it.
fn check_folder_path(path: &str) -> Result<(), &'static str> {
    if !path.starts_with('/') {
        return Err("does not begin with a slash; expected a path of the site, such as \"/pub/\"");
    }
    if !path.ends_with('/') {
        return Err("does not end with a slash, as the path of a folder does");
    }
    let mut names = path[1..].split_terminator('/');
    if names.any(|name| matches!(name, "" | "." | "..") || name.contains('\0')) {
        return Err("has a part that is empty, \".\" or \"..\"; no path of a request has one");
    }
    Ok(())
}

fn check_pattern(at: &str, pattern: &str, faults: &mut Faults) {
    match compile_pattern(pattern) {
        Err(error) => faults.add(at, format!("{pattern:?} is not a pattern: {}", error.kind())),
        Ok(_) if pattern.contains('/') => {
            faults.add(
                at,
                format!(
                    "{pattern:?} contains a slash; a pattern matches file names only, use `folder` \
                for the folder"
                ),
            );
        }
        Ok(_) => {}
    }
}

fn check_settings(settings: &Settings, faults: &mut Faults) {
    for (name, value) in &settings.headers {
        let at = format!("headers.{name}");
        if !is_token(name) {
            faults.add(&at, format!("{name:?} is not a field name"));
        } else if OWN_FIELDS.iter().any(|own| own.eq_ignore_ascii_case(name)) {
            faults.add(&at, format!("{name} is set by the server itself"));
        } else if let Some(key) = key_for(name) {
            faults.add(&at, format!("use the key `{key}` instead"));
        }
        if !is_field_value(value) {
            faults.add(&at, "the value has a line end or another control character");
        }
    }
    if let Some(directives) = &settings.cache_control
        && (directives.is_empty() || !is_field_value(directives))
    {
        faults.add(
            "cache_control",
            "this is not a value of Cache-Control; expected for example \"public, \
            max-age=3600\"",
        );
    }
    if let Some(media_type) = &settings.content_type
        && !is_media_type(media_type)
    {
        faults.add("content_type", format!("{media_type:?} is not a media type; expected for example \"text/plain\""));
    }
    for (index, name) in settings.index.iter().flatten().enumerate() {
        check_file_name(&format!("index.{index}"), name, faults);
    }
    if let Some(style) = &settings.listing_style {
        faults.within("listing_style", |faults| check_style(style, faults));
    }
}

/// The key of a field that is set by one of its own.
fn key_for(name: &str) -> Option<&'static str> {
    match () {
        () if name.eq_ignore_ascii_case("cache-control") => Some("cache_control"),
        () if name.eq_ignore_ascii_case("content-type") => Some("content_type"),
        () => None,
    }
}

fn is_media_type(text: &str) -> bool {
    let essence = text.split(';').next().unwrap_or_default().trim_end();
    let is_pair = essence.split_once('/').is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype));
    is_pair && is_field_value(text)
}

/// RFC 9110, 5.6.2, as the encoder of fields has it.
fn is_token(text: &str) -> bool {
    FieldBlock::new().field(text, b"").is_ok()
}

/// Whether this cannot be taken for more than a value: a line end would begin another field, or
/// another response.
fn is_field_value(text: &str) -> bool {
    FieldBlock::new().field("x", text.as_bytes()).is_ok()
}

fn check_style(style: &ListingStyle, faults: &mut Faults) {
    for (index, pattern) in style.hide.iter().enumerate() {
        check_pattern(&format!("hide.{index}"), pattern, faults);
    }
    for (at, name) in [("header", &style.header), ("readme", &style.readme)] {
        // It may lie in a folder of the folder.
        for part in name.iter().flat_map(|name| name.split('/')) {
            check_file_name(at, part, faults);
        }
    }
    if style.page_entries == 0 {
        faults.add("page_entries", "a page has at least one entry");
    }
}

fn check_file_name(at: &str, name: &str, faults: &mut Faults) {
    if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
        faults.add(at, format!("{name:?} is not a name of a file in the folder"));
    }
}

fn check_roots(site: &SiteConfig, faults: &mut Faults) {
    for (index, mount) in site.mounts.iter().enumerate().filter(|(_, mount)| mount.has_root()) {
        let root = &mount.root;
        if let Err(error) = Root::open(root) {
            let what =
                format!("cannot open the folder {}: {error}; use a directory that this user may read", root.display());
            faults.add(format_args!("mount.{index}.root"), what);
        }
    }
}

/// Checks that the error pages can be opened as requests will open them.
fn check_error_pages(config: &ServerConfig, faults: &mut Faults) {
    let Ok(sites) = Sites::open(config) else { return };
    let mut room = Vec::new();
    for (index, site) in config.sites.iter().enumerate() {
        for (status, path) in &site.error_pages {
            let name = sites.site(index).error_page(*status).unwrap_or_default();
            let what = match resolve::open(&sites, index, name, Wait::Allowed, &mut room) {
                Ok(Resolution::File(_)) => continue,
                Ok(Resolution::Folder) => format!("{path} is a folder"),
                Err(Miss::Refused(Refusal::Forbidden)) => format!("{path} cannot be read by this user"),
                Err(_) => format!("{path} is not served by this site, so it cannot be an error page"),
            };
            faults.add(format_args!("site.{index}.error_pages.{status}"), what);
        }
    }
}

/// Checks a file that is written, in the way that `may` finds possible or not.
fn check_written(at: &str, path: &Path, may: fn(&Path) -> io::Result<()>, faults: &mut Faults) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if path.is_dir() {
        faults.add(at, format!("{} is a folder; use the path of a file", path.display()));
    } else if !folder.is_dir() {
        faults.add(at, format!("cannot write {}: the folder {} does not exist", path.display(), folder.display()));
    } else if let Err(error) = may(path) {
        let who = "the server's user needs write permission for the file";
        faults.add(at, format!("cannot write {}: {error}; {who} and its folder", path.display()));
    }
}

#[cfg(test)]
mod tests;
