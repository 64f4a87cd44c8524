//! Every key of the configuration: its name, what it is for, its form, and what it sets.

use std::path::PathBuf;

use thalweg_serve::{
    Bandwidth, CacheConfig, Limits, ListingStyle, LogConfig, MountConfig, Rule, ServerConfig, SiteConfig, StatusConfig,
    TlsConfig,
};

use super::client_keys::{networks, redirect, request_limit, routing, trusted_proxies};
use super::form::{
    BOOL, CORES, COUNT, COUNT_32, ERROR_PAGES, FILE_NAME, FOLDER, HEAD_SIZE, HEADERS, LOG, MAYBE_BOOL, MAYBE_LOG,
    MAYBE_PATH, MAYBE_TEXT, MAYBE_TEXTS, MAYBE_TIME, MODE, RATE, RATE_MIN, SIZE, TEXT, TEXTS, TIME, maybe_name, name,
};
use super::listen_form::{LISTENING, Listening};
use super::origin_keys::{forwarding, origins};
use super::settings::{Configuration, UnixSocket};
use super::status_keys::status;
use super::tls_keys::tls;
use super::visitor::Keys;

pub(super) fn configuration<K: Keys>(keys: &mut K, all: &mut Configuration) {
    let server = &mut all.server;
    listening(keys, server);
    keys.value(
        "cores",
        "CPUs to serve from, one loop on each, such as \"1\" or \"0,2-3\"; \"all\" means all that this \
         process may use.",
        &CORES,
        &mut server.cpus,
    );
    keys.value(
        "driver",
        "Kernel interface: \"uring\", \"epoll\", or \"auto\" for io_uring if available, else epoll.",
        &name("\"auto\""),
        &mut server.driver,
    );
    keys.value(
        "user",
        "User to switch to after opening all sockets and roots.",
        &MAYBE_TEXT.like("\"www-data\""),
        &mut all.user,
    );
    keys.value("drain", "Time for downloads in progress to finish when the server stops.", &TIME, &mut all.drain);
    keys.value(
        "upgrade_drain",
        "Time for downloads in progress to finish after an upgrade (USR2); unlimited if not set.",
        &MAYBE_TIME.like("\"12h\""),
        &mut all.upgrade_drain,
    );
    keys.value(
        "sandbox",
        "Restricts file access and system calls to those needed: \"auto\" as far as the kernel supports it, \
         \"on\" to fail if full sandboxing is unavailable, \"off\".",
        &name("\"auto\""),
        &mut all.sandbox,
    );
    keys.value("pid_file", "File for the process ID.", &MAYBE_PATH.like("\"/run/thalweg/pid\""), &mut all.pid_file);
    keys.value(
        "unknown_host",
        "Response to requests for a host that no site names: \"first\" serves the first site, \"refuse\" returns 421.",
        &name("\"first\""),
        &mut server.unknown_host,
    );
    networks(keys, &mut server.networks);
    keys.value(
        "denied_clients",
        "Treatment of clients that `allow` and `deny` above do not let in: \"respond\" answers their requests with \
         403, \"close\" closes their connections at once.",
        &name("\"respond\""),
        &mut server.denied_clients,
    );
    trusted_proxies(keys, server);
    keys.table(
        "unix_socket",
        "Permissions of the Unix sockets that the server creates. Changes take effect at a restart.",
        &mut all.unix_socket,
        unix_socket,
    );
    keys.table("limits", "Limits on connections, requests and slow clients.", &mut server.limits, limits);
    keys.table(
        "bandwidth",
        "Rate limits for responses. All of them apply together with those of mounts; the lowest rate decides.",
        &mut server.bandwidth,
        bandwidth,
    );
    keys.table("cache", "Memory that each loop uses between requests.", &mut server.cache, cache);
    origins(keys, &mut server.disk_cache, &mut server.origins, &mut all.cluster);
    keys.table("log", "Access log and error log.", &mut server.log, log);
    keys.optional(
        "tls",
        "TLS. Certificates and keys are files in PEM, read at the start and at each reload.",
        &mut server.tls,
        TlsConfig::default,
        tls,
    );
    keys.optional(
        "status",
        "Status page, JSON, Prometheus metrics and a health check for operators. They are not protected by a password.",
        &mut server.status,
        || StatusConfig::new(([127, 0, 0, 1], 9180).into()),
        status,
    );
    keys.tables(
        "site",
        "A virtual host. The first one also serves requests without a host.",
        &mut server.sites,
        SiteConfig::default,
        site,
    );
}

fn listening<K: Keys>(keys: &mut K, server: &mut ServerConfig) {
    let mut listening = Listening {
        addresses: std::mem::take(&mut server.listen),
        with_proxy_protocol: std::mem::take(&mut server.proxy_protocol),
    };
    keys.value(
        "listen",
        "Addresses to listen on, each with a port, or unix:PATH for a Unix socket. 0.0.0.0 and [::] mean all \
         addresses of the host. { address = \"0.0.0.0:80\", proxy_protocol = true } takes connections of trusted \
         proxies that begin with a PROXY header (version 1 or 2), and no others.",
        &LISTENING,
        &mut listening,
    );
    (server.listen, server.proxy_protocol) = (listening.addresses, listening.with_proxy_protocol);
}

fn unix_socket<K: Keys>(keys: &mut K, socket: &mut UnixSocket) {
    keys.value(
        "mode",
        "File mode as for chmod. A client needs write permission to connect; \"0660\" allows the owner and the group.",
        &MODE,
        &mut socket.mode,
    );
    keys.value(
        "user",
        "Owner; by default the user that the server runs as. Only a server started as root can set another one.",
        &MAYBE_TEXT.like("\"www-data\""),
        &mut socket.user,
    );
    keys.value(
        "group",
        "Group, such as that of a proxy; by default the group that the server runs as.",
        &MAYBE_TEXT.like("\"www-data\""),
        &mut socket.group,
    );
}

fn limits<K: Keys>(keys: &mut K, limits: &mut Limits) {
    keys.value("head_bytes_max", "Maximum size of a request head.", &HEAD_SIZE, &mut limits.head_bytes_max);
    keys.value(
        "head_time",
        "Maximum time for a request head, from the start of the connection or from its first byte.",
        &TIME,
        &mut limits.head_time,
    );
    keys.value(
        "idle_time",
        "Maximum time that a connection may be idle between requests.",
        &TIME,
        &mut limits.idle_time,
    );
    keys.value(
        "stall_time",
        "Maximum time without progress while a client receives a response.",
        &TIME,
        &mut limits.stall_time,
    );
    keys.value(
        "send_rate_min",
        "Minimum average rate at which a client must receive a response; with the default, seven downloads \
         can share a 28.8 kbit/s modem.",
        &RATE_MIN,
        &mut limits.send_rate_min,
    );
    keys.value(
        "linger_time",
        "Time for a client that is still sending to read the last response before the connection is closed.",
        &TIME,
        &mut limits.linger_time,
    );
    keys.value(
        "connections_max",
        "Maximum open connections, on all loops together; 0 means as many as the limit on file descriptors \
         allows one loop per CPU.",
        &COUNT,
        &mut limits.connections_max,
    );
    keys.value(
        "connections_per_client_max",
        "Maximum connections of one client (an IPv4 address or an IPv6 /64); 0 means unlimited.",
        &COUNT,
        &mut limits.connections_per_client_max,
    );
    keys.value(
        "requests_per_connection_max",
        "Maximum requests on one connection; 0 means unlimited.",
        &COUNT_32,
        &mut limits.requests_per_connection_max,
    );
    request_limit(keys, &mut limits.requests_per_client);
}

fn bandwidth<K: Keys>(keys: &mut K, bandwidth: &mut Bandwidth) {
    keys.value("total", "Rate of all connections together, or \"unlimited\".", &RATE, &mut bandwidth.total);
    keys.value("per_client", "Rate of all connections of one client.", &RATE, &mut bandwidth.per_client);
    keys.value("per_connection", "Rate of one connection.", &RATE, &mut bandwidth.per_connection);
}

fn cache<K: Keys>(keys: &mut K, cache: &mut CacheConfig) {
    keys.value("entries_max", "Maximum number of cached files.", &COUNT, &mut cache.entries_max);
    keys.value(
        "small_file_bytes_max",
        "Files up to this size are kept in memory.",
        &SIZE,
        &mut cache.small_file_bytes_max,
    );
    keys.value("bytes_max", "Maximum memory for small files and response heads.", &SIZE, &mut cache.bytes_max);
    keys.value(
        "listing_bytes_max",
        "Maximum memory for listings; one folder may use half of it.",
        &SIZE,
        &mut cache.listing_bytes_max,
    );
    keys.value("age", "Time after which a cached file is checked for changes.", &TIME, &mut cache.age);
    keys.value("watch", "Use inotify to detect changes of files sooner than `age`.", &BOOL, &mut cache.watch);
}

fn log<K: Keys>(keys: &mut K, log: &mut LogConfig) {
    keys.value("access", "Access log: a file, or \"stdout\".", &MAYBE_LOG, &mut log.access);
    keys.value(
        "format",
        "Format of the access log: \"common\", \"combined\" or \"json\".",
        &name("\"combined\""),
        &mut log.format,
    );
    keys.value("error", "Error log: a file, or \"stderr\".", &LOG, &mut log.error);
    keys.value(
        "level",
        "Lowest severity in the error log: \"error\", \"warning\" or \"notice\". The default is \"warning\" \
         on standard error and \"notice\" in a file.",
        &name("\"warning\""),
        &mut log.level,
    );
}

fn site<K: Keys>(keys: &mut K, site: &mut SiteConfig) {
    keys.value(
        "names",
        "Host names without ports; \"*.example.org\" matches all names below example.org. Only the first site \
         may have none.",
        &TEXTS,
        &mut site.names,
    );
    let mut root = None;
    keys.value("root", "Folder to serve; short for a mount at \"/\" with default settings.", &MAYBE_PATH, &mut root);
    keys.value(
        "error_pages",
        "Files, as paths of the site, to send as the body of responses with these status codes.",
        &ERROR_PAGES,
        &mut site.error_pages,
    );
    keys.value(
        "client_certificates",
        "Certificates of clients, as in [tls]; the default is the value there.",
        &maybe_name("\"required\""),
        &mut site.client_certificates,
    );
    networks(keys, &mut site.networks);
    request_limit(keys, &mut site.request_limit);
    redirect(keys, &mut site.routing);
    keys.tables(
        "mount",
        "A folder and the path at which it is served. The mount with the longest matching path prefix applies.",
        &mut site.mounts,
        || MountConfig::new("/", PathBuf::new()),
        mount,
    );
    site.mounts.extend(root.map(|root| MountConfig::new("/", root)));
    keys.tables(
        "rule",
        "Settings for a folder or for file names. If several rules set the same key, the last one applies; \
         headers with different names are combined.",
        &mut site.rules,
        Rule::default,
        rule,
    );
}

fn mount<K: Keys>(keys: &mut K, mount: &mut MountConfig) {
    keys.required("path", "Path prefix; begins and ends with a slash.", &TEXT, &mut mount.path);
    keys.value(
        "root",
        "Folder to serve; relative paths start at the folder of this file. Only a mount with origins or a redirect needs none.",
        &FOLDER,
        &mut mount.root,
    );
    forwarding(keys, &mut mount.forwarding);
    keys.value(
        "symlinks",
        "Symbolic links to follow: \"deny\" none; \"beneath\" those that stay beneath the root; \"owner\" of \
         these, only links whose owner also owns the target (takes more system calls).",
        &name("\"beneath\""),
        &mut mount.symlinks,
    );
    keys.value(
        "dot_files",
        "Serve names that begin with a dot. /.well-known/ is always served.",
        &BOOL,
        &mut mount.dot_files,
    );
    keys.value("bandwidth", "Rate of all responses from this mount together.", &RATE, &mut mount.bytes_per_s_max);
    keys.value(
        "client_certificates",
        "Certificates of clients, as in [tls]; the default is the value of the site.",
        &maybe_name("\"required\""),
        &mut mount.client_certificates,
    );
    networks(keys, &mut mount.networks);
    request_limit(keys, &mut mount.request_limit);
    redirect(keys, &mut mount.routing);
}

fn rule<K: Keys>(keys: &mut K, rule: &mut Rule) {
    keys.value(
        "folder",
        "Folder, as a path of the site, that the rule applies to, with all folders below it; the whole site \
         if not set.",
        &MAYBE_TEXT,
        &mut rule.folder,
    );
    keys.value(
        "files",
        "Pattern of file names that the rule applies to: *, ?, [a-z], {iso,img}; all files and folders if not set.",
        &MAYBE_TEXT.like("\"*.{iso,img}\""),
        &mut rule.files,
    );
    routing(keys, &mut rule.routing);
    let settings = &mut rule.settings;
    keys.value("headers", "Header fields to add to successful responses.", &HEADERS, &mut settings.headers);
    keys.value(
        "cache_control",
        "Value of the Cache-Control field.",
        &MAYBE_TEXT.like("\"public, max-age=3600\""),
        &mut settings.cache_control,
    );
    keys.value(
        "content_type",
        "Media type, instead of the one derived from the file name.",
        &MAYBE_TEXT.like("\"application/octet-stream\""),
        &mut settings.content_type,
    );
    keys.value(
        "index",
        "Index files: the first one that exists is sent for a folder; [\"index.html\"] if no rule sets it.",
        &MAYBE_TEXTS,
        &mut settings.index,
    );
    keys.value(
        "listing",
        "List folders without an index file; false if no rule sets it.",
        &MAYBE_BOOL,
        &mut settings.listing,
    );
    keys.value(
        "precompressed",
        "Send NAME.zst, NAME.br or NAME.gz instead of NAME to clients that accept it; false if no rule sets it.",
        &MAYBE_BOOL,
        &mut settings.precompressed,
    );
    keys.value(
        "digests",
        "Answer Want-Repr-Digest from checksum files such as SHA256SUMS and NAME.sha256; false if no rule sets it.",
        &MAYBE_BOOL,
        &mut settings.digests,
    );
    keys.value(
        "etag",
        "Source of entity tags. \"ctime\": inode, size, modification time and change time, so that a tag \
         changes whenever the content does. \"mtime\": size and modification time, so that hosts with copies \
         of a tree have the same tags. \"ctime\" if no rule sets it.",
        &maybe_name("\"mtime\""),
        &mut settings.etag,
    );
    keys.optional(
        "listing_style",
        "Style of listings.",
        &mut settings.listing_style,
        ListingStyle::default,
        listing_style,
    );
}

fn listing_style<K: Keys>(keys: &mut K, style: &mut ListingStyle) {
    keys.value(
        "name_width",
        "Longer names are shortened to this many characters; 0 means never.",
        &COUNT,
        &mut style.name_width,
    );
    keys.value("hide", "Patterns of names to leave out.", &TEXTS, &mut style.hide);
    keys.value("header", "File in the folder to show above the list; \"\" means none.", &FILE_NAME, &mut style.header);
    keys.value("readme", "File in the folder to show below the list; \"\" means none.", &FILE_NAME, &mut style.readme);
    keys.value("page_entries", "Number of entries per page.", &COUNT, &mut style.page_entries);
    keys.value("folders_first", "Show folders before files.", &BOOL, &mut style.folders_first);
}

#[cfg(test)]
mod tests {
    use super::super::form::Form;
    use super::*;

    const MANUAL: &str = include_str!("../../../../docs/configuration.md");
    const LIMITS: &str = include_str!("../../../../docs/limits.md");
    const LISTINGS: &str = include_str!("../../../../docs/listings.md");

    /// A key as the documents should have it.
    struct Documented {
        /// The tables that it is in, with dots between.
        table: String,
        name: &'static str,
        says: &'static str,
        default: Default,
    }

    enum Default {
        Value(String),
        None,
        Needed,
    }

    /// All keys.
    #[derive(std::default::Default)]
    struct Names {
        table: Vec<&'static str>,
        found: Vec<Documented>,
    }

    impl Names {
        fn of_all() -> Vec<Documented> {
            let mut names = Self::default();
            configuration(&mut names, &mut Configuration::default());
            assert!(names.found.len() > 40);
            names.found
        }

        fn within<T>(&mut self, name: &'static str, mut value: T, keys: fn(&mut Self, &mut T)) {
            self.table.push(name);
            keys(self, &mut value);
            self.table.pop();
        }

        fn add(&mut self, name: &'static str, says: &'static str, default: Default) {
            self.found.push(Documented { table: self.table.join("."), name, says, default });
        }
    }

    impl Keys for Names {
        fn value<T>(&mut self, name: &'static str, says: &'static str, form: &Form<T>, value: &mut T) {
            let default = (form.write)(value).map_or(Default::None, |value| Default::Value(value.to_string()));
            self.add(name, says, default);
        }

        fn required<T>(&mut self, name: &'static str, says: &'static str, _: &Form<T>, _: &mut T) {
            self.add(name, says, Default::Needed);
        }

        fn table<T>(&mut self, name: &'static str, _: &'static str, value: &mut T, keys: fn(&mut Self, &mut T)) {
            self.table.push(name);
            keys(self, value);
            self.table.pop();
        }

        fn optional<T>(
            &mut self,
            name: &'static str,
            _: &'static str,
            _: &mut Option<T>,
            new: fn() -> T,
            keys: fn(&mut Self, &mut T),
        ) {
            self.within(name, new(), keys);
        }

        fn tables<T>(
            &mut self,
            name: &'static str,
            _: &'static str,
            _: &mut Vec<T>,
            new: fn() -> T,
            keys: fn(&mut Self, &mut T),
        ) {
            self.within(name, new(), keys);
        }
    }

    /// The second cell of a key's row, in the first part of the text that has one.
    fn default_in<'t>(text: &'t str, names: &[String]) -> Option<&'t str> {
        let rows = names.iter().filter_map(|name| text.split_once(&format!("\n| `{name}` |")));
        rows.map(|(_, rest)| rest.split('|').next().unwrap_or_default().trim()).next()
    }

    /// Holds a document's cell against the key.
    #[track_caller]
    fn check_default(document: &str, key: &Documented, cell: &str) {
        let Documented { table, name, says, default } = key;
        let place = format!("{document}: {name} of [{table}] has {cell:?}");
        match default {
            Default::Value(value) => assert!(cell.starts_with(&format!("`{value}`")), "{place}, and is {value}"),
            Default::Needed => assert_eq!(cell, "needed", "{place}"),
            // The key's own text names its value without any rule.
            Default::None if cell == "`false`" => assert!(says.contains("false if no rule sets it"), "{place}"),
            Default::None if cell.starts_with('`') => {
                assert!(says.contains(&format!("{} if no rule sets it", cell.trim_matches('`'))), "{place}");
            }
            Default::None => {}
        }
    }

    #[test]
    fn the_manual_has_every_key_and_its_default_in_its_table() {
        for key in Names::of_all() {
            let Documented { table, name, .. } = &key;
            // The part of the manual whose heading, or whose sentence before a table, names this
            // one. Examples elsewhere have tables too.
            let heading = MANUAL.find(&format!("# `[[{table}]]`"));
            let place = heading.or_else(|| MANUAL.find(&format!("[{table}]")));
            let part = match place.filter(|_| !table.is_empty()) {
                Some(at) => &MANUAL[at..],
                None => MANUAL,
            };
            // The root of a site is a mount in short, and `error_pages` is shown by an example.
            let cell = default_in(part, &[(*name).to_owned(), format!("{table}.{name}")]);
            check_default(
                "docs/configuration.md",
                &key,
                cell.unwrap_or_else(|| panic!("docs/configuration.md lacks {name} of [{table}]")),
            );
        }
    }

    #[test]
    fn other_documents_have_the_defaults_of_the_program() {
        let keys = Names::of_all();
        let mut count = 0;
        for (document, text, tables) in [
            ("docs/limits.md", LIMITS, &["limits", "bandwidth"][..]),
            ("docs/listings.md", LISTINGS, &["site.rule", "site.rule.listing_style"]),
        ] {
            for key in keys.iter().filter(|key| tables.contains(&&*key.table)) {
                let dotted = format!("{}.{}", key.table, key.name);
                let names = if document.contains("listings") {
                    [key.name.to_owned(), dotted]
                } else {
                    [dotted.clone(), dotted]
                };
                if let Some(cell) = default_in(text, &names) {
                    check_default(document, key, cell);
                    count += 1;
                }
            }
        }
        assert_eq!(count, 11 + 3 + 7, "every row was looked at");
    }

    #[test]
    fn the_examples_of_the_manual_are_understood() {
        const OPERATING: &str = include_str!("../../../../docs/operating.md");
        const LOGS: &str = include_str!("../../../../docs/logs-and-metrics.md");
        let blocks = |text: &'static str| text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
        let mut count = 0;
        for example in [MANUAL, LIMITS, LISTINGS, OPERATING, LOGS].into_iter().flat_map(blocks) {
            // Some show one table alone.
            let example = if example.contains("[[site]]") {
                example.to_owned()
            } else {
                format!("{example}[[site]]\nroot = \"/\"\n")
            };
            let example = example.as_str();
            let (all, _) = super::super::read::read(example, std::path::Path::new("/"))
                .unwrap_or_else(|faults| panic!("{faults:?}\n{example}"));
            assert_eq!(all.server.check(), [], "{example}");
            count += 1;
        }
        assert_eq!(count, 13);
    }
}
