//! The server's configuration: a TOML file, and the options that override it.
//!
//! Each key is declared once, in [`keys`], with its explanation and its form; reading a file,
//! printing one and the check of the manual use that declaration. The server's crate checks how
//! values go together and knows nothing of files; this module adds line and column to its findings.

mod client_keys;
mod cluster;
mod fault;
mod form;
mod keys;
mod listen_form;
mod origin_keys;
mod print;
mod read;
mod report;
mod settings;
mod status_keys;
mod tls_keys;
mod visitor;

use std::fs;
use std::io::{self, Read};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use thalweg_serve::{
    ConfigFault, Forwarding, Level, ListenAddr, LogTarget, MountConfig, MountOrigin, OriginConfig, Rule, ServerConfig,
    Settings, SiteConfig, StatusConfig, VolumeConfig,
};

use crate::exit::Failure;
use crate::options::{CpuList, ServeOptions, TlsOption};

pub(crate) use cluster::{ClusterConfig, server_url};
pub(crate) use print::print;
use read::Reading;
pub(crate) use settings::{Configuration, UnixSocket};

/// A function that opens the configuration's file.
pub(crate) type Open<'f> = &'f dyn Fn(&Path) -> io::Result<fs::File>;

/// The ports of `http` and `https` (RFC 9110, 4.2), which certification authorities connect to.
pub(crate) const HTTP_PORT: u16 = 80;
pub(crate) const HTTPS_PORT: u16 = 443;

/// Largest configuration file.
const FILE_BYTES_MAX: u64 = 4 << 20;

impl Configuration {
    /// The configuration of file and options; options override the file. All faults that can be
    /// found without a start are found.
    ///
    /// # Errors
    /// The file cannot be read or parsed, or settings contradict one another or name something that
    /// is not there.
    pub(crate) fn of(options: &ServeOptions) -> Result<Self, Failure> {
        Self::from_opened(options, &|path| fs::File::open(path))
    }

    /// The same with a file that `open` opens.
    ///
    /// # Errors
    /// As for [`of`](Self::of).
    pub(crate) fn from_opened(options: &ServeOptions, open: Open<'_>) -> Result<Self, Failure> {
        let loaded = Loaded::read(options, open)?;
        // A configuration without a site can still be printed.
        if options.config.is_some() || !loaded.configuration.server.sites.is_empty() {
            loaded.ensure(loaded.configuration.faults())?;
        }
        Ok(loaded.configuration)
    }

    /// Applies the options, and the defaults that depend on them. `is_written` is whether the file
    /// has a key.
    fn obey(&mut self, options: &ServeOptions, is_written: &dyn Fn(&str) -> bool) -> Result<(), String> {
        if let Some(directory) = options.served_directory() {
            self.serve_directory(directory)?;
        }
        if !options.origin.is_empty() {
            self.serve_origins(options)?;
        }
        if !options.listen.is_empty() {
            self.server.listen = options.listen.concat();
        }
        self.speak_tls(options, is_written("listen") || !options.listen.is_empty())?;
        if let Some(CpuList(cpus)) = &options.cores {
            self.server.cpus.clone_from(cpus);
        }
        if options.listing {
            // Of several rules the last one wins.
            let settings = Settings { listing: Some(true), ..Settings::default() };
            let rule = Rule { settings, ..Rule::default() };
            self.server.sites.iter_mut().for_each(|site| site.rules.push(rule.clone()));
        }
        if let Some(driver) = options.driver {
            self.server.driver = driver.into();
        }
        if let Some(drain) = options.drain {
            self.drain = drain;
        }
        self.write_down(options);
        if !is_written("log.level") && self.server.log.error != LogTarget::Stderr {
            // Standard error has the start lines already; a log of its own records everything.
            self.server.log.level = Level::Notice;
        }
        if let Some(sandbox) = options.sandbox {
            self.sandbox = sandbox;
        }
        self.user = options.user.clone().or(self.user.take());
        self.upgrade_drain = options.upgrade_drain.or(self.upgrade_drain);
        if let Some(path) = &options.pid_file {
            self.pid_file = Some(std::path::absolute(path).unwrap_or_else(|_| path.clone()));
        }
        Ok(())
    }

    /// Applies the options on TLS. Addresses that speak TLS are listened on, too.
    fn speak_tls(&mut self, options: &ServeOptions, has_listen: bool) -> Result<(), String> {
        if !(options.tls.is_empty() && options.tls_listen.is_empty() && !options.tls_redirect) {
            let tls = self.server.tls.get_or_insert_default();
            if !options.tls.is_empty() {
                let files = options.tls.iter().filter_map(|option| match option {
                    TlsOption::Files(files) => Some(files.clone()),
                    TlsOption::SelfSigned | TlsOption::Auto => None,
                });
                tls.certificates = files.collect();
                tls.self_signed = options.tls.contains(&TlsOption::SelfSigned);
                tls.auto = options.tls.contains(&TlsOption::Auto);
            }
            if !options.tls_listen.is_empty() {
                tls.listen = options.tls_listen.concat();
            }
            tls.redirect |= options.tls_redirect;
        }
        self.obtain_certificate(options)?;
        let Some(tls) = &mut self.server.tls else { return Ok(()) };
        if tls.auto && !has_listen && tls.listen.is_empty() {
            // A certificate for a public name is of use where the public connects.
            self.server.listen = public_addresses(HTTP_PORT);
            tls.listen = public_addresses(HTTPS_PORT);
            tls.redirect = true;
        }
        for address in &tls.listen {
            if !self.server.listen.contains(address) {
                self.server.listen.push(address.clone());
            }
        }
        Ok(())
    }

    /// Applies the options on a certificate by ACME.
    fn obtain_certificate(&mut self, options: &ServeOptions) -> Result<(), String> {
        let ServeOptions { host, acme_directory, acme_contact, acme_roots, .. } = options;
        let has_options =
            !host.is_empty() || acme_directory.is_some() || acme_contact.is_some() || acme_roots.is_some();
        if !has_options {
            return Ok(());
        }
        let Some(tls) = self.server.tls.as_mut().filter(|tls| tls.auto) else {
            return Err("--host and --acme-... are for a certificate by ACME; add --tls auto".to_owned());
        };
        if !host.is_empty() {
            tls.hosts.clone_from(host);
        }
        let acme = &mut tls.acme;
        acme.directory = acme_directory.clone().unwrap_or_else(|| acme.directory.clone());
        acme.contact = acme_contact.clone().or(acme.contact.take());
        if let Some(path) = acme_roots {
            acme.roots = Some(std::path::absolute(path).unwrap_or_else(|_| path.clone()));
        }
        Ok(())
    }

    /// Listens on the addresses that a service manager has opened, too; they replace the default
    /// addresses.
    #[must_use]
    pub(crate) fn with_given(mut self, given: &[ListenAddr]) -> Self {
        let is_public = is_public_default(&self.server);
        let server = &mut self.server;
        if !given.is_empty() && (is_public || server.listen == Self::default().server.listen) {
            server.listen.clear();
        }
        for address in given {
            if !server.listen.contains(address) {
                server.listen.push(address.clone());
            }
        }
        if let Some(tls) = server.tls.as_mut().filter(|_| is_public && !given.is_empty()) {
            let is_plain = |address: &&ListenAddr| matches!(address, ListenAddr::Tcp(tcp) if tcp.port() == HTTP_PORT);
            tls.redirect = given.iter().any(|address| is_plain(&address));
            // Without another port the check of the whole finds that no address speaks TLS.
            let secure: Vec<_> = given.iter().filter(|address| !is_plain(address)).cloned().collect();
            if !secure.is_empty() {
                tls.listen = secure;
            }
        }
        self
    }

    /// Applies the options on logs and status.
    fn write_down(&mut self, options: &ServeOptions) {
        let log = &mut self.server.log;
        if let Some(path) = &options.access_log {
            log.access = Some(LogTarget::parse(path));
        }
        if let Some(format) = options.log_format {
            log.format = format.into();
        }
        if let Some(path) = &options.error_log {
            log.error = LogTarget::parse(path);
        }
        if let Some(listen) = options.status {
            let mut status = self.server.status.take().unwrap_or_else(|| StatusConfig::new(listen));
            status.listen = listen;
            status.state = options.status_state.clone().or(status.state);
            // Beneath the present folder: the server may be in another one later.
            let token =
                options.purge_token.as_ref().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()));
            status.purge_token = token.or(status.purge_token);
            self.server.status = Some(status);
        }
    }

    /// Makes a directory the root of the sites that have none, or of one for all hosts.
    fn serve_directory(&mut self, directory: &Path) -> Result<(), String> {
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        let mount = MountConfig::new("/", &directory);
        let refusal = || format!("every site already has a root; remove {}", directory.display());
        self.mount_at_top(mount).ok_or_else(refusal)
    }

    /// Makes origins answer for the sites that have no root, or for one for all hosts.
    fn serve_origins(&mut self, options: &ServeOptions) -> Result<(), String> {
        let mut names = Vec::new();
        for (number, url) in (1..).zip(&options.origin) {
            let name = format!("origin-{number}");
            self.server.origins.push(OriginConfig { url: Some(url.clone()), ..OriginConfig::new(&name) });
            names.push(MountOrigin::new(name));
        }
        let mut mount = MountConfig::new("/", PathBuf::new());
        mount.forwarding = Forwarding::of(names);
        let cache = &mut self.server.disk_cache;
        match (&options.cache, options.cache_size) {
            (Some(path), size) => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                cache.volumes = vec![VolumeConfig { path, size }];
            }
            (None, Some(size)) => (cache.volumes, cache.memory) = (Vec::new(), size),
            (None, None) => {}
        }
        self.mount_at_top(mount).ok_or_else(|| "every site already has a root; remove --origin".to_owned())
    }

    /// Adds a mount to the sites that have none, or to a new one for all hosts; `None` if all sites
    /// have one.
    fn mount_at_top(&mut self, mount: MountConfig) -> Option<()> {
        let sites = &mut self.server.sites;
        if sites.is_empty() {
            sites.push(SiteConfig::default());
        }
        let is_rootless = |site: &&mut SiteConfig| site.mounts.is_empty() && site.routing.redirect.is_none();
        let mut rootless = sites.iter_mut().filter(is_rootless).peekable();
        rootless.peek()?;
        rootless.for_each(|site| site.mounts.push(mount.clone()));
        Some(())
    }

    /// Contradictions between values, and folders and files that are missing.
    pub(crate) fn faults(&self) -> Vec<ConfigFault> {
        let mut faults = self.server.check();
        if self.server.listen.is_empty() {
            faults.push(ConfigFault { at: "listen".to_owned(), what: "no address to listen on".to_owned() });
        }
        faults.extend(self.cluster.iter().flat_map(|cluster| cluster::faults(cluster, &self.server)));
        // A value that contradicts another is not checked against the host.
        let of_host = self.server.check_host().into_iter();
        let of_host: Vec<_> = of_host.filter(|fault| faults.iter().all(|known| known.at != fault.at)).collect();
        faults.extend(of_host);
        faults
    }
}

/// A port of all addresses of the host.
fn public_addresses(port: u16) -> Vec<ListenAddr> {
    let addresses = [SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)), (Ipv6Addr::UNSPECIFIED, port).into()];
    addresses.map(ListenAddr::Tcp).into()
}

/// Whether a server listens where one with a certificate by ACME does that names no address.
fn is_public_default(server: &ServerConfig) -> bool {
    let default = [public_addresses(HTTP_PORT), public_addresses(HTTPS_PORT)].concat();
    server.tls.as_ref().is_some_and(|tls| tls.auto) && server.listen == default
}

/// A configuration and its file, so that faults have a place.
pub(crate) struct Loaded<'o> {
    /// The configuration of file and options.
    pub configuration: Configuration,
    written: Option<(ConfigFile<'o>, read::Places)>,
}

impl<'o> Loaded<'o> {
    /// Reads the file, if there is one, and applies the options.
    ///
    /// # Errors
    /// The file cannot be read or parsed, or the options contradict it. For a file with malformed
    /// values the faults of the other values are reported as well.
    pub(crate) fn read(options: &'o ServeOptions, open: Open<'_>) -> Result<Self, Failure> {
        let Some(path) = &options.config else {
            let mut configuration = Configuration::default();
            configuration.obey(options, &|_| false).map_err(Failure::usage)?;
            return Ok(Self { configuration, written: None });
        };
        let file = ConfigFile::read(path, open)?;
        let Reading { mut configuration, places, mut faults, is_whole } = read::read_all(&file.text, &file.folder());
        let obeyed = configuration.obey(options, &|key| places.has(key));
        if faults.is_empty() {
            obeyed.map_err(|what| Failure::usage(format!("{}: {what}", path.display())))?;
            return Ok(Self { configuration, written: Some((file, places)) });
        }
        if is_whole {
            let others = configuration.faults().into_iter();
            let others = others.filter(|other| !faults.iter().any(|fault| fault.concerns(&other.at)));
            let others: Vec<_> = others.map(|fault| fault::Fault::new(places.find(&fault.at), fault.what)).collect();
            faults.extend(others);
        }
        Err(file.refuse(faults))
    }

    /// # Errors
    /// There is a fault.
    pub(crate) fn ensure(&self, faults: Vec<ConfigFault>) -> Result<(), Failure> {
        if faults.is_empty() { Ok(()) } else { self.refuse(faults) }
    }

    /// The failure that reports these faults with their places.
    ///
    /// # Errors
    /// In any case.
    pub(crate) fn refuse<T>(&self, faults: Vec<ConfigFault>) -> Result<T, Failure> {
        let Some((file, places)) = &self.written else { return Err(Failure::usage(listed(&faults))) };
        let faults = faults.into_iter().map(|fault| fault::Fault::new(places.find(&fault.at), fault.what));
        Err(file.refuse(faults.collect()))
    }
}

/// Faults of the options alone, one line each.
fn listed(faults: &[ConfigFault]) -> String {
    faults.iter().map(|fault| fault.what.as_str()).collect::<Vec<_>>().join("\n")
}

/// A file with its text.
struct ConfigFile<'p> {
    path: &'p Path,
    text: String,
}

impl<'p> ConfigFile<'p> {
    fn read(path: &'p Path, open: Open<'_>) -> Result<Self, Failure> {
        let refuse = |why: String| Failure::usage(format!("cannot read the configuration {}: {why}", path.display()));
        let mut text = String::new();
        let read = open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
        let bytes = read.map_err(|error| refuse(error.to_string()))?;
        if bytes as u64 > FILE_BYTES_MAX {
            return Err(refuse(format!("it has more than {FILE_BYTES_MAX} bytes")));
        }
        Ok(Self { path, text })
    }

    /// The folder to which paths in the file are relative.
    fn folder(&self) -> PathBuf {
        let path = std::path::absolute(self.path).unwrap_or_else(|_| self.path.to_owned());
        path.parent().unwrap_or(Path::new("/")).to_owned()
    }

    fn refuse(&self, faults: Vec<fault::Fault>) -> Failure {
        let path = self.path.to_string_lossy();
        let line = report::report_in_one_line(&path, &self.text, &faults);
        Failure::usage(report::report(&path, &self.text, faults)).in_one_line(line)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use thalweg_serve::TlsConfig;

    use super::*;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        serve: ServeOptions,
    }

    fn arguments(options: &[&str]) -> ServeOptions {
        let arguments = [&["serve", "/"], options].concat();
        let Ok(arguments) = Arguments::try_parse_from(&arguments) else { panic!("{arguments:?}") };
        arguments.serve
    }

    fn configured(options: &[&str]) -> Configuration {
        let mut configuration = Configuration::default();
        configuration.obey(&arguments(options), &|_| false).unwrap();
        configuration
    }

    fn addresses(texts: &[&str]) -> Vec<ListenAddr> {
        texts.iter().map(|text| ListenAddr::Tcp(text.parse().unwrap())).collect()
    }

    const AUTO: [&str; 4] = ["--tls", "auto", "--host", "a.example"];

    #[test]
    fn a_certificate_by_acme_is_for_all_addresses_unless_some_are_named() {
        let check = |options: &[&str], listen: &[&str], tls_listen: &[&str], redirect: bool| {
            let configuration = configured(&[&AUTO, options].concat());
            let tls = configuration.server.tls.as_ref().unwrap();
            assert_eq!(configuration.server.listen, addresses(listen), "{options:?}");
            assert_eq!((tls.listen.clone(), tls.redirect), (addresses(tls_listen), redirect), "{options:?}");
            assert_eq!(configuration.server.check(), [], "{options:?}");
        };
        let all = ["0.0.0.0:80", "[::]:80", "0.0.0.0:443", "[::]:443"];
        check(&[], &all, &all[2..], true);
        check(&["--listen", "[::]:443"], &["[::]:443"], &[], false);
        let default = ["127.0.0.1:8080", "[::1]:8080", "[::]:443"];
        check(&["--tls-listen", "[::]:443"], &default, &default[2..], false);
        // Addresses that a file names stay, even if they are the default ones.
        let mut named = Configuration::default();
        named.server.tls = Some(TlsConfig { auto: true, ..TlsConfig::default() });
        named.obey(&arguments(&AUTO), &|key| key == "listen").unwrap();
        assert_eq!(named.server.listen, addresses(&default[..2]));
    }

    #[test]
    fn a_server_without_a_folder_has_the_current_one() {
        let check = |options: &[&str], expected: Option<&str>| {
            let Ok(arguments) = Arguments::try_parse_from([&["serve"], options].concat()) else {
                panic!("{options:?}")
            };
            assert_eq!(arguments.serve.served_directory(), expected.map(Path::new), "{options:?}");
        };
        check(&[], Some("."));
        check(&["-p", "8080"], Some("."));
        check(&["/srv"], Some("/srv"));
        check(&["--check"], Some("."));
        // The file or the person who reads it names the folders.
        check(&["--config", "a.toml"], None);
        check(&["--config", "a.toml", "/srv"], Some("/srv"));
        check(&["--print-config"], None);
    }

    #[test]
    fn a_port_is_an_address() {
        let listen = |options: &[&str]| configured(options).server.listen;
        assert_eq!(listen(&["-p", "81"]), addresses(&["127.0.0.1:81", "[::1]:81"]));
        assert_eq!(
            listen(&["--port", "81", "--listen", "[::]:82"]),
            addresses(&["127.0.0.1:81", "[::1]:81", "[::]:82"])
        );
        assert_eq!(listen(&["--listen", ":80"]), addresses(&["0.0.0.0:80", "[::]:80"]));
    }

    #[test]
    fn addresses_of_a_service_manager_replace_the_default_ones() {
        let check = |options: &[&str], given: &[&str], tls_listen: &[&str], redirect: bool| {
            let configuration = configured(options).with_given(&addresses(given));
            let tls = configuration.server.tls.clone().unwrap_or_default();
            assert_eq!(configuration.server.listen, addresses(given), "{options:?}");
            assert_eq!((tls.listen, tls.redirect), (addresses(tls_listen), redirect), "{options:?} {given:?}");
        };
        check(&[], &["0.0.0.0:80"], &[], false);
        check(&AUTO, &["0.0.0.0:80", "0.0.0.0:443"], &["0.0.0.0:443"], true);
        check(&AUTO, &["[::]:443"], &["[::]:443"], false);
        check(&AUTO, &["[::]:8443", "[::]:80"], &["[::]:8443"], true);
        let without_tls = configured(&AUTO).with_given(&addresses(&["[::]:80"])).server.check();
        assert!(without_tls[0].what.contains("no address that is listened on speaks TLS"), "{without_tls:?}");
    }

    #[test]
    fn hosts_are_those_of_the_sites_unless_they_are_named() {
        let mut configuration = configured(&AUTO);
        configuration.server.sites[0].names =
            ["B.example", "*.b.example", "10.0.0.1", "[::1]", "localhost", "b.example"].map(str::to_owned).into();
        assert_eq!(configuration.server.acme_hosts(), ["a.example"]);
        configuration.server.tls.as_mut().unwrap().hosts.clear();
        assert_eq!(configuration.server.acme_hosts(), ["b.example"]);
        configuration.server.tls.as_mut().unwrap().auto = false;
        assert!(configuration.server.acme_hosts().is_empty());
    }
}
