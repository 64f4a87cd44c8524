//! Printing a configuration as a file that gives the same configuration when it is read: every key
//! with its explanation and its value. Keys without a value are printed as comments.

use toml::Value;

use super::form::Form;
use super::keys;
use super::settings::Configuration;
use super::visitor::Keys;

/// Width of explanations.
const COLUMNS: usize = 100;

/// The file's text.
pub(crate) fn print(configuration: &Configuration) -> String {
    let mut printer = Printer { text: String::new(), path: Vec::new(), is_example: false, explains: true };
    printer.push_prose("The effective configuration of `thalweg serve`. Keys after a bare # are not set.");
    // The printer changes nothing; the interface is mutable for the reader.
    keys::configuration(&mut printer, &mut configuration.clone());
    printer.text
}

struct Printer {
    text: String,
    /// The tables that the present one is in.
    path: Vec<&'static str>,
    /// The present table is not set: it shows the keys that it could have.
    is_example: bool,
    /// Whether keys are explained, and shown although they are not set.
    explains: bool,
}

impl Printer {
    fn push_prose(&mut self, says: &str) {
        let mut column = 0;
        for word in says.split_whitespace() {
            let begins = column == 0;
            if begins || column + 1 + word.len() > COLUMNS {
                self.text.push_str(if begins { "# " } else { "\n# " });
                column = 2;
            } else {
                self.text.push(' ');
                column += 1;
            }
            self.text.push_str(word);
            column += word.len();
        }
        self.text.push('\n');
    }

    fn push_line(&mut self, is_comment: bool, line: &str) {
        if is_comment {
            self.text.push('#');
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn push_key(&mut self, name: &str, says: &str, value: Option<&Value>, example: &str) {
        if value.is_none() && !self.explains {
            return;
        }
        if self.explains {
            if !self.text.ends_with("]\n") {
                self.text.push('\n');
            }
            self.push_prose(says);
        }
        match value {
            Some(value) => self.push_line(self.is_example, &format!("{name} = {value}")),
            None => self.push_line(true, &format!("{name} = {example}")),
        }
    }

    /// Prints a table with its heading.
    fn print_table<T>(&mut self, name: &'static str, is_one_of_many: bool, value: &mut T, keys: fn(&mut Self, &mut T)) {
        self.path.push(name);
        let path = self.path.join(".");
        let heading = if is_one_of_many { format!("[[{path}]]") } else { format!("[{path}]") };
        self.push_line(self.is_example, &heading);
        keys(self, value);
        self.path.pop();
    }

    /// Prints a table that is not set, as comments.
    fn print_example<T>(
        &mut self,
        name: &'static str,
        is_one_of_many: bool,
        mut value: T,
        keys: fn(&mut Self, &mut T),
    ) {
        if self.explains {
            let outer = std::mem::replace(&mut self.is_example, true);
            self.print_table(name, is_one_of_many, &mut value, keys);
            self.is_example = outer;
        }
    }

    fn begin_table(&mut self, says: &str) {
        self.text.push('\n');
        if self.explains {
            self.push_prose(says);
        }
    }
}

impl Keys for Printer {
    fn value<T>(&mut self, name: &'static str, says: &'static str, form: &Form<T>, value: &mut T) {
        self.push_key(name, says, (form.write)(value).as_ref(), form.example);
    }

    fn required<T>(&mut self, name: &'static str, says: &'static str, form: &Form<T>, value: &mut T) {
        let value = (form.write)(value).filter(|_| !self.is_example);
        self.push_key(name, says, value.as_ref(), form.example);
    }

    fn table<T>(&mut self, name: &'static str, says: &'static str, value: &mut T, keys: fn(&mut Self, &mut T)) {
        self.begin_table(says);
        self.print_table(name, false, value, keys);
    }

    fn optional<T>(
        &mut self,
        name: &'static str,
        says: &'static str,
        value: &mut Option<T>,
        new: fn() -> T,
        keys: fn(&mut Self, &mut T),
    ) {
        match value {
            None if !self.explains => {}
            None => {
                self.begin_table(says);
                self.print_example(name, false, new(), keys);
            }
            Some(value) => {
                self.begin_table(says);
                self.print_table(name, false, value, keys);
            }
        }
    }

    fn tables<T>(
        &mut self,
        name: &'static str,
        says: &'static str,
        values: &mut Vec<T>,
        new: fn() -> T,
        keys: fn(&mut Self, &mut T),
    ) {
        let explains = self.explains;
        if values.is_empty() && explains {
            self.begin_table(says);
            self.print_example(name, true, new(), keys);
        }
        for value in values {
            self.begin_table(says);
            self.print_table(name, true, value, keys);
            // The keys of a repeated table are explained once.
            self.explains = false;
        }
        self.explains = explains;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use thalweg_serve::{
        AcmeChallenge, AcmeConfig, ClientCertificateMode, ClientField, DeniedClients, EtagSource, Level, ListenAddr,
        ListingStyle, LogFormat, LogTarget, MountConfig, Network, NetworkLists, RequestLimit, Routing, Rule, Settings,
        SiteConfig, StatusConfig, Symlinks, TlsConfig, UnknownHost,
    };
    use thalweg_sys::DriverChoice;

    use super::super::UnixSocket;
    use super::super::read::read;
    use super::*;

    fn rich_tls() -> TlsConfig {
        TlsConfig {
            auto: true,
            hosts: vec!["a.example".to_owned()],
            acme: AcmeConfig {
                directory: "https://ca.example/dir".to_owned(),
                contact: Some("a@a.example".to_owned()),
                roots: Some("/root.pem".into()),
                challenges: vec![AcmeChallenge::TlsAlpn01, AcmeChallenge::Http01],
                state: Some("/var/state/acme".into()),
            },
            redirect: true,
            ..TlsConfig::default()
        }
    }

    /// A configuration in which every value differs from its default.
    fn rich() -> Configuration {
        let mut all = Configuration {
            user: Some("www-data".to_owned()),
            drain: Duration::from_millis(1500),
            unix_socket: UnixSocket { mode: 0o640, user: Some("a".to_owned()), group: Some("7".to_owned()) },
            ..Configuration::default()
        };
        let server = &mut all.server;
        server.listen = vec!["[::]:80".parse().map(ListenAddr::Tcp).unwrap(), ListenAddr::Unix("/run/a b".into())];
        server.cpus = vec![0, 2, 3];
        server.driver = DriverChoice::Epoll;
        server.unknown_host = UnknownHost::Refuse;
        server.networks.allow = vec!["192.0.2.0/24".parse().unwrap()];
        server.denied_clients = DeniedClients::Close;
        server.trusted_proxies = vec!["10.0.0.0/8".parse().unwrap(), "unix".parse().unwrap()];
        server.client_field = ClientField::Forwarded;
        server.proxy_protocol = vec![server.listen[1].clone()];
        server.limits.requests_per_client = RequestLimit { rate: Some("10/s".parse().unwrap()), burst: 30 };
        server.limits.head_bytes_max = 8000;
        server.limits.head_time = Duration::from_nanos(1_234_567_891);
        server.limits.connections_per_client_max = 7;
        server.limits.requests_per_connection_max = u32::MAX;
        server.limits.send_rate_min = 3601;
        server.bandwidth.total = 12_500_000_000;
        server.bandwidth.per_client = 4200;
        server.bandwidth.per_connection = 1_234_567_890_123;
        server.cache.small_file_bytes_max = 0;
        server.cache.bytes_max = 1_000_001;
        server.cache.listing_bytes_max = 3;
        server.log.access = Some(LogTarget::Stdout);
        server.log.format = LogFormat::Json;
        server.log.error = LogTarget::File("/var/log/error \"1\".log".into());
        server.log.level = Level::Notice;
        server.status = Some(StatusConfig {
            listen: "[::1]:9".parse().unwrap(),
            allowed_hosts: vec!["status.example".to_owned()],
            state: Some("/var/state".into()),
            purge_token: Some("/etc/token".into()),
            read_token: Some("/etc/read".into()),
        });
        server.tls = Some(rich_tls());
        let first = rich_site();
        let mut second = first.clone();
        second.mounts[0].path = "/other/".to_owned();
        second.names = vec!["b.example".to_owned()];
        server.sites = vec![first, second];
        all
    }

    fn rich_site() -> SiteConfig {
        let mut mount = MountConfig::new("/a \u{fc}/", "/srv/a\\b");
        mount.symlinks = Symlinks::OwnerMatch;
        mount.dot_files = true;
        mount.bytes_per_s_max = 1;
        mount.client_certificates = Some(ClientCertificateMode::Required);
        let network = |text: &str| text.parse::<Network>().unwrap();
        mount.networks.allow = vec![network("unix")];
        mount.request_limit.rate = Some("1/h".parse().unwrap());
        let mut moved = MountConfig::new("/moved/", "");
        moved.routing.redirect = Some("https://h/{path}".to_owned());
        moved.routing.redirect_status = Some(308);
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let settings = Settings {
            headers: vec![header("X", "a \"b\""), header("Link", "</1>"), header("Link", "</2>")],
            cache_control: Some("no-store".to_owned()),
            content_type: Some("text/x".to_owned()),
            index: Some(vec!["a".to_owned(), "b".to_owned()]),
            listing: Some(true),
            listing_style: Some(ListingStyle {
                name_width: 40,
                hide: vec!["*~".to_owned()],
                header: None,
                readme: Some("README".to_owned()),
                page_entries: 10,
                folders_first: false,
            }),
            precompressed: Some(false),
            digests: Some(true),
            etag: Some(EtagSource::ModificationTime),
        };
        let routing = Routing { rewrite: Some("/{path}".to_owned()), ..Routing::default() };
        let rule = Rule { folder: Some("/a/".to_owned()), files: Some("*.{iso,img}".to_owned()), settings, routing };
        SiteConfig {
            names: vec!["a.example".to_owned(), "*.a.example".to_owned()],
            mounts: vec![mount, moved, MountConfig::new("/", "/")],
            rules: vec![rule.clone(), Rule::default(), rule],
            error_pages: vec![(404, "/404.html".to_owned()), (503, "/e/503.html".to_owned())],
            client_certificates: Some(ClientCertificateMode::Optional),
            networks: NetworkLists { allow: Vec::new(), deny: vec![network("10.0.0.0/8"), network("::1")] },
            request_limit: RequestLimit { rate: Some("100/min".parse().unwrap()), burst: 7 },
            routing: Routing { redirect: Some("/b/{path}".to_owned()), ..Routing::default() },
        }
    }

    #[track_caller]
    fn check_round_trip(configuration: &Configuration) {
        let text = print(configuration);
        let (again, _) = read(&text, Path::new("/elsewhere")).unwrap_or_else(|faults| panic!("{faults:?}\n{text}"));
        assert_eq!(again, *configuration, "{text}");
    }

    #[test]
    fn a_printed_configuration_means_the_same() {
        check_round_trip(&Configuration::default());
        let mut plain = Configuration::default();
        plain.server.sites.push(SiteConfig::new("/srv"));
        check_round_trip(&plain);
        check_round_trip(&rich());
    }

    #[test]
    fn keys_that_are_not_set_are_there_with_an_example_that_works() {
        let text = print(&Configuration::default());
        // Prose has a space behind its mark, keys have none. A root would be a second mount at the
        // same path.
        let keys =
            text.lines().map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line));
        let text = keys.collect::<Vec<_>>().join("\n").replacen("root = \"/srv/mirror\"\n", "", 1);
        // An origin is a server, a tree or a bucket.
        let text = text.replacen("tree = \"/srv/mirror\"\n", "", 1);
        let bucket = text.find("[origin.s3]").map(|at| at..at + text[at..].find("\n[").expect("a table behind"));
        let text = bucket.map_or(text.clone(), |bucket| text.replacen(&text[bucket], "", 1));
        // Without origins, there is nothing to purge.
        let text = text.replacen("purge_token = \"/etc/thalweg/purge-token\"\n", "", 1);
        let text = text.replacen("read_token = \"/etc/thalweg/read-token\"\n", "", 1);
        // A mount has a root or origins.
        let text = text.replacen("origins = [\"debian\"]\n", "", 1);
        // A request is either redirected or rewritten.
        let text = text.replacen("rewrite = \"/new/{path}\"\n", "", 1);
        let (all, _) = read(&text, Path::new("/")).unwrap_or_else(|faults| panic!("{faults:?}\n{text}"));
        let site = &all.server.sites[0];
        assert_eq!((all.user.as_deref(), site.rules.len(), site.mounts.len()), (Some("www-data"), 1, 1));
        assert_eq!(all.server.check(), [], "{text}");
    }
}
