//! Every key of the configuration: its name, what it is for, its form, and what it sets.

use std::path::PathBuf;

use thalweg_serve::{
    Bandwidth, CacheConfig, Limits, ListingStyle, LogConfig, MountConfig, Rule, SiteConfig, StatusConfig,
};

use super::form::{
    ADDRESS, BOOL, CORES, COUNT, COUNT_32, ERROR_PAGES, FILE_NAME, Form, HEAD_SIZE, HEADERS, LISTEN, LOG, MAYBE_BOOL,
    MAYBE_LOG, MAYBE_PATH, MAYBE_TEXT, MAYBE_TEXTS, MAYBE_TIME, MODE, PATH, RATE, RATE_MIN, SIZE, TEXT, TEXTS, TIME,
    maybe_name, name,
};
use super::settings::{Configuration, UnixSocket};

/// What goes through all keys: to read them, or to print them.
pub(super) trait Keys {
    /// A key that may be left out.
    fn value<T>(&mut self, name: &'static str, says: &'static str, form: &Form<T>, value: &mut T);

    /// A key that every such table has.
    fn required<T>(&mut self, name: &'static str, says: &'static str, form: &Form<T>, value: &mut T);

    /// A table of keys that is always there.
    fn table<T>(&mut self, name: &'static str, says: &'static str, value: &mut T, keys: fn(&mut Self, &mut T));

    /// A table that means something by being there.
    fn optional<T>(
        &mut self,
        name: &'static str,
        says: &'static str,
        value: &mut Option<T>,
        new: fn() -> T,
        keys: fn(&mut Self, &mut T),
    );

    /// Any number of tables.
    fn tables<T>(
        &mut self,
        name: &'static str,
        says: &'static str,
        values: &mut Vec<T>,
        new: fn() -> T,
        keys: fn(&mut Self, &mut T),
    );
}

pub(super) fn configuration<K: Keys>(keys: &mut K, all: &mut Configuration) {
    let server = &mut all.server;
    keys.value(
        "listen",
        "Where to listen: addresses with their port, or unix:PATH for a Unix socket. 0.0.0.0 and [::] stand for all \
         addresses of the host.",
        &LISTEN,
        &mut server.listen,
    );
    keys.value(
        "cores",
        "The CPUs to serve from, one loop on each, such as \"1\" or \"0,2-3\"; \"all\" are all that this process may use.",
        &CORES,
        &mut server.cpus,
    );
    keys.value(
        "driver",
        "How to talk to the kernel: \"uring\", \"epoll\", or \"auto\" for io_uring where it is granted.",
        &name("\"auto\""),
        &mut server.driver,
    );
    keys.value(
        "user",
        "The user to become once all sockets and roots are open.",
        &MAYBE_TEXT.like("\"www-data\""),
        &mut all.user,
    );
    keys.value("drain", "How long downloads may go on after the server was told to end.", &TIME, &mut all.drain);
    keys.value(
        "upgrade_drain",
        "The same after an upgrade (USR2); without it, they go on as long as they take.",
        &MAYBE_TIME.like("\"12h\""),
        &mut all.upgrade_drain,
    );
    keys.value(
        "sandbox",
        "Whether the server gives up the rest of the file system and most system calls: \"auto\" as far as the kernel can, \"on\", \"off\".",
        &name("\"auto\""),
        &mut all.sandbox,
    );
    keys.value(
        "pid_file",
        "The file to write the number of the process to.",
        &MAYBE_PATH.like("\"/run/thalweg/pid\""),
        &mut all.pid_file,
    );
    keys.value(
        "unknown_host",
        "What becomes of requests for hosts that no site names: \"first\" for the first site's answer, \"refuse\" for 421.",
        &name("\"first\""),
        &mut server.unknown_host,
    );
    keys.table(
        "unix_socket",
        "The files of the Unix sockets that the server makes. Those of a running server stay as they are until a restart.",
        &mut all.unix_socket,
        unix_socket,
    );
    keys.table("limits", "What a client may demand.", &mut server.limits, limits);
    keys.table(
        "bandwidth",
        "How fast responses leave. All of these hold at once, with those of mounts: the slowest decides.",
        &mut server.bandwidth,
        bandwidth,
    );
    keys.table("cache", "What each core keeps in memory between requests.", &mut server.cache, cache);
    keys.table("log", "What is written down.", &mut server.log, log);
    keys.optional(
        "status",
        "Figures for operators: a page, JSON, metrics for Prometheus, a health check. Whoever reaches the address sees them.",
        &mut server.status,
        || StatusConfig::new(([127, 0, 0, 1], 9180).into()),
        status,
    );
    keys.tables(
        "site",
        "A virtual host. The first one answers those who name no host.",
        &mut server.sites,
        || SiteConfig { names: Vec::new(), mounts: Vec::new(), rules: Vec::new(), error_pages: Vec::new() },
        site,
    );
}

fn unix_socket<K: Keys>(keys: &mut K, socket: &mut UnixSocket) {
    keys.value(
        "mode",
        "Who may connect, as chmod has it: that takes the right to write. \"0660\" is for the owner and the group.",
        &MODE,
        &mut socket.mode,
    );
    keys.value(
        "user",
        "The owner; without it, the user who serves. Only root can give it to another one, at the start.",
        &MAYBE_TEXT.like("\"www-data\""),
        &mut socket.user,
    );
    keys.value(
        "group",
        "The group, such as that of a proxy; without it, that of the user who serves.",
        &MAYBE_TEXT.like("\"www-data\""),
        &mut socket.group,
    );
}

fn limits<K: Keys>(keys: &mut K, limits: &mut Limits) {
    keys.value("head_bytes_max", "Most bytes of a request's head.", &HEAD_SIZE, &mut limits.head_bytes_max);
    keys.value(
        "head_time",
        "How long a head may take, from the connection or its first byte on.",
        &TIME,
        &mut limits.head_time,
    );
    keys.value("idle_time", "How long a connection may wait for its next request.", &TIME, &mut limits.idle_time);
    keys.value("stall_time", "How long a client may take nothing of a response.", &TIME, &mut limits.stall_time);
    keys.value(
        "send_rate_min",
        "What a client has to take on average; seven downloads over a 28.8 kbit/s modem take the default each.",
        &RATE_MIN,
        &mut limits.send_rate_min,
    );
    keys.value(
        "linger_time",
        "How long a client that is still sending may read the last response before the connection is cut.",
        &TIME,
        &mut limits.linger_time,
    );
    keys.value(
        "connections_max",
        "Most connections open at once, on all cores together; 0 is as many as the limit of descriptors allows one loop per core.",
        &COUNT,
        &mut limits.connections_max,
    );
    keys.value(
        "connections_per_client_max",
        "Most connections of one client, which is an IPv4 address or an IPv6 /64; 0 is without limit.",
        &COUNT,
        &mut limits.connections_per_client_max,
    );
    keys.value(
        "requests_per_connection_max",
        "Most requests on one connection; 0 is without limit.",
        &COUNT_32,
        &mut limits.requests_per_connection_max,
    );
}

fn bandwidth<K: Keys>(keys: &mut K, bandwidth: &mut Bandwidth) {
    keys.value("total", "All connections together; \"unlimited\" is without limit.", &RATE, &mut bandwidth.total);
    keys.value("per_client", "All connections of one client.", &RATE, &mut bandwidth.per_client);
    keys.value("per_connection", "One connection.", &RATE, &mut bandwidth.per_connection);
}

fn cache<K: Keys>(keys: &mut K, cache: &mut CacheConfig) {
    keys.value("entries_max", "Most files known at once.", &COUNT, &mut cache.entries_max);
    keys.value("small_file_bytes_max", "Files up to this size are kept whole.", &SIZE, &mut cache.small_file_bytes_max);
    keys.value("bytes_max", "Most bytes of small files and of heads together.", &SIZE, &mut cache.bytes_max);
    keys.value(
        "listing_bytes_max",
        "Most bytes of listings; the names of one folder may take half of them.",
        &SIZE,
        &mut cache.listing_bytes_max,
    );
    keys.value("age", "How long a file is taken to be unchanged before it is looked at again.", &TIME, &mut cache.age);
    keys.value(
        "watch",
        "Whether the kernel tells of changes (inotify), so that files are looked at again without waiting for that age.",
        &BOOL,
        &mut cache.watch,
    );
}

fn log<K: Keys>(keys: &mut K, log: &mut LogConfig) {
    keys.value("access", "Where a line for each request goes: a file, or \"stdout\".", &MAYBE_LOG, &mut log.access);
    keys.value(
        "format",
        "How those lines look: \"common\", \"combined\" or \"json\".",
        &name("\"combined\""),
        &mut log.format,
    );
    keys.value(
        "error",
        "Where the server says what its operator should know: a file, or \"stderr\".",
        &LOG,
        &mut log.error,
    );
    keys.value(
        "level",
        "The least severe of what is said there: \"error\", \"warning\" or \"notice\". If it is not given, it is \"warning\" on the \
         standard error and \"notice\" elsewhere.",
        &name("\"warning\""),
        &mut log.level,
    );
}

fn status<K: Keys>(keys: &mut K, status: &mut StatusConfig) {
    keys.required("listen", "Where they are served.", &ADDRESS, &mut status.listen);
    keys.value(
        "allowed_hosts",
        "The names by which they may be asked for, beside localhost and the name of this host; IP addresses always may. Requests for \
         other names get 421, so that no web page reads the figures through a browser on this host.",
        &TEXTS,
        &mut status.allowed_hosts,
    );
    keys.value(
        "state",
        "The file in which the figures of the last days survive a restart.",
        &MAYBE_PATH.like("\"/var/lib/thalweg/state\""),
        &mut status.state,
    );
}

fn site<K: Keys>(keys: &mut K, site: &mut SiteConfig) {
    keys.value(
        "names",
        "The hosts, without ports; \"*.example.org\" stands for all beneath example.org. Only the first site can do without.",
        &TEXTS,
        &mut site.names,
    );
    let mut root = None;
    keys.value(
        "root",
        "Short for a mount at \"/\" with the defaults: the folder that is served.",
        &MAYBE_PATH,
        &mut root,
    );
    keys.value(
        "error_pages",
        "The files, by their paths in the site, that are the body of responses with these status codes.",
        &ERROR_PAGES,
        &mut site.error_pages,
    );
    keys.tables(
        "mount",
        "A folder, and where it is served. The longest path that a request's begins with wins.",
        &mut site.mounts,
        || MountConfig::new("/", PathBuf::new()),
        mount,
    );
    site.mounts.extend(root.map(|root| MountConfig::new("/", root)));
    keys.tables(
        "rule",
        "Settings of a folder or of kinds of files. Of rules that say something about the same setting the last one wins; \
         headers add up unless they have the same name.",
        &mut site.rules,
        Rule::default,
        rule,
    );
}

fn mount<K: Keys>(keys: &mut K, mount: &mut MountConfig) {
    keys.required("path", "Begins and ends with a slash.", &TEXT, &mut mount.path);
    keys.required("root", "The folder; relative to that of this file.", &PATH, &mut mount.root);
    keys.value(
        "symlinks",
        "Which symbolic links are followed: none with \"deny\", those that stay beneath the root with \"beneath\", of these \
         only links whose owner owns what they lead to with \"owner\", which takes more system calls.",
        &name("\"beneath\""),
        &mut mount.symlinks,
    );
    keys.value(
        "dot_files",
        "Whether names that begin with a dot are served. /.well-known/ is, either way.",
        &BOOL,
        &mut mount.dot_files,
    );
    keys.value("bandwidth", "How fast all bodies from here together leave.", &RATE, &mut mount.bytes_per_s_max);
}

fn rule<K: Keys>(keys: &mut K, rule: &mut Rule) {
    keys.value(
        "folder",
        "The folder, as a path of the site, from which on the rule holds; all if left out.",
        &MAYBE_TEXT,
        &mut rule.folder,
    );
    keys.value(
        "files",
        "The names of files for which it holds: *, ?, [a-z], {iso,img}. All, and folders, if left out.",
        &MAYBE_TEXT.like("\"*.{iso,img}\""),
        &mut rule.files,
    );
    let settings = &mut rule.settings;
    keys.value("headers", "Fields added to successful responses.", &HEADERS, &mut settings.headers);
    keys.value(
        "cache_control",
        "The Cache-Control field.",
        &MAYBE_TEXT.like("\"public, max-age=3600\""),
        &mut settings.cache_control,
    );
    keys.value(
        "content_type",
        "The media type, instead of the one that the name stands for.",
        &MAYBE_TEXT.like("\"application/octet-stream\""),
        &mut settings.content_type,
    );
    keys.value(
        "index",
        "Names of files that are sent for a folder, the first that exists; [\"index.html\"] if no rule says so.",
        &MAYBE_TEXTS,
        &mut settings.index,
    );
    keys.value(
        "listing",
        "Whether folders without such a file are listed; not so if no rule says so.",
        &MAYBE_BOOL,
        &mut settings.listing,
    );
    keys.value(
        "precompressed",
        "Whether a .zst, .br or .gz beside a file is sent to clients that take it; not so if no rule says so.",
        &MAYBE_BOOL,
        &mut settings.precompressed,
    );
    keys.value(
        "digests",
        "Whether SHA256SUMS and NAME.sha256 are used to answer Want-Repr-Digest; not so if no rule says so.",
        &MAYBE_BOOL,
        &mut settings.digests,
    );
    keys.value(
        "etag",
        "What entity tags are made of: \"ctime\", inode, size, modification and change time, so that none outlives its content; or \
         \"mtime\", size and modification time, which hosts with copies of a tree have in common. \"ctime\" if no rule says so.",
        &maybe_name("\"mtime\""),
        &mut settings.etag,
    );
    keys.optional(
        "listing_style",
        "How folders are listed.",
        &mut settings.listing_style,
        ListingStyle::default,
        listing_style,
    );
}

fn listing_style<K: Keys>(keys: &mut K, style: &mut ListingStyle) {
    keys.value("name_width", "Names longer than this are shortened; 0 is never.", &COUNT, &mut style.name_width);
    keys.value("hide", "Patterns of names that are not shown.", &TEXTS, &mut style.hide);
    keys.value(
        "header",
        "The file in the folder that is shown above the list; \"\" is none.",
        &FILE_NAME,
        &mut style.header,
    );
    keys.value("readme", "The same, beneath the list.", &FILE_NAME, &mut style.readme);
    keys.value("page_entries", "Entries of one page.", &COUNT, &mut style.page_entries);
    keys.value("folders_first", "Whether folders come before files.", &BOOL, &mut style.folders_first);
}

#[cfg(test)]
mod tests {
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
            Default::None if cell == "`false`" => assert!(says.contains("not so if no rule says so"), "{place}"),
            Default::None if cell.starts_with('`') => {
                assert!(says.contains(&format!("{} if no rule says so", cell.trim_matches('`'))), "{place}");
            }
            Default::None => {}
        }
    }

    #[test]
    fn the_manual_has_every_key_and_its_default_in_its_table() {
        for key in Names::of_all() {
            let Documented { table, name, .. } = &key;
            // The part of the manual whose heading, or whose sentence before a table, names this one.
            let part = match MANUAL.find(&format!("[{table}]")).filter(|_| !table.is_empty()) {
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
        assert_eq!(count, 9 + 3 + 7, "every row was looked at");
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
        assert_eq!(count, 5);
    }
}
