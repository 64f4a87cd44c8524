//! Faults of origins, of the disk cache, and of mounts that origins answer for.

use std::path::Path;

use thalweg_caching::RedirectHost;
use thalweg_wire::encode::FieldBlock;

use crate::catalog::forwarding::ForwardingMount;
use crate::config::{Forwarding, MountConfig, Network, OriginConfig, RequestHeaders, ServerConfig, without_user};

/// The smallest volume and the smallest memory of a disk cache.
const SIZE_MIN: u64 = 64 << 20;

/// Most bytes of the content of a request: many of them are kept at once.
const CONTENT_BYTES_MAX: usize = 64 << 20;

/// The faults of the values: each with its place.
pub(super) fn of_values(config: &ServerConfig) -> Vec<(String, String)> {
    let mut faults = Vec::new();
    for (index, origin) in config.origins.iter().enumerate() {
        let at = format!("origin.{index}");
        if config.origins[..index].iter().any(|other| other.name == origin.name) {
            faults.push((format!("{at}.name"), format!("there is already an origin {:?}", origin.name)));
        }
        of_origin(origin, &at, &mut faults);
    }
    let has_token = config.status.as_ref().is_some_and(|status| status.purge_token.is_some());
    if has_token && !config.forwards() {
        let what = "there is nothing to purge: no mount has origins".to_owned();
        faults.push(("status.purge_token".to_owned(), what));
    }
    let has_read_token = config.status.as_ref().is_some_and(|status| status.read_token.is_some());
    if has_read_token && !config.forwards() {
        let what = "there is nothing to read: no mount has origins".to_owned();
        faults.push(("status.read_token".to_owned(), what));
    }
    if config.disk_cache.memory < SIZE_MIN {
        faults.push(("disk_cache.memory".to_owned(), "expected at least 64MiB".to_owned()));
    }
    for (index, volume) in config.disk_cache.volumes.iter().enumerate() {
        let at = format!("disk_cache.volumes.{index}");
        if volume.size.is_some_and(|size| size < SIZE_MIN) {
            faults.push((at.clone(), "a volume has at least 64MiB".to_owned()));
        }
        if config.disk_cache.volumes[..index].iter().any(|other| other.path == volume.path) {
            faults.push((at, format!("{} is listed twice", volume.path.display())));
        }
    }
    for (number, site) in config.sites.iter().enumerate() {
        for (index, mount) in site.mounts.iter().enumerate() {
            of_mount(mount, config, &format!("site.{number}.mount.{index}"), &mut faults);
        }
    }
    faults
}

fn of_origin(origin: &OriginConfig, at: &str, faults: &mut Vec<(String, String)>) {
    let mut add = |key: &str, what: &str| faults.push((format!("{at}{key}"), what.to_owned()));
    match [origin.url.is_some(), origin.s3.is_some(), origin.tree.is_some()]
        .into_iter()
        .filter(|is_set| *is_set)
        .count()
    {
        0 => add("", "the origin has no place; set url = \"https://mirror.example.org/debian/\", s3 or tree"),
        1 => {}
        _ => add("", "an origin has one place; keep one of url, s3 and tree"),
    }
    if origin.name.is_empty() {
        add(".name", "the name is empty");
    }
    let is_http =
        |url: &str| url.strip_prefix("http://").or(url.strip_prefix("https://")).is_some_and(|rest| !rest.is_empty());
    if origin.url.as_deref().is_some_and(|url| !is_http(url)) {
        add(".url", "expected a URL that begins with http:// or https://");
    }
    if origin.s3.as_ref().is_some_and(|s3| !is_http(&s3.endpoint)) {
        add(".s3.endpoint", "expected the URL of the service, that begins with http:// or https://");
    }
    if origin.s3.as_ref().is_some_and(|s3| s3.bucket.is_empty()) {
        add(".s3.bucket", "the name of the bucket is missing");
    }
    let times =
        [("connect_time", origin.connect_time), ("head_time", origin.head_time), ("idle_time", origin.idle_time)];
    for (key, _) in times.into_iter().filter(|(_, time)| time.is_zero()) {
        add(&format!(".{key}"), "expected a time longer than 0");
    }
    if origin.connections_max == 0 {
        add(".connections_max", "an origin has at least one connection");
    }
    if origin.requests_max == 0 {
        add(".requests_max", "an origin has at least one request at once");
    }
    if origin.s3.as_ref().is_some_and(|s3| without_user(&s3.endpoint) != s3.endpoint) {
        add(".s3.endpoint", "a bucket has its credentials in a file; set credentials instead");
    }
    of_redirects(origin, at, faults);
    of_request_headers(&origin.request_headers, at, faults);
}

/// Most redirects that are followed one after the other.
const HOPS_MAX: u32 = 10;

fn of_redirects(origin: &OriginConfig, at: &str, faults: &mut Vec<(String, String)>) {
    let mut add = |key: &str, what: String| faults.push((format!("{at}.{key}"), what));
    if origin.follow_redirects > 0 && origin.url.is_none() {
        add("follow_redirects", "only origins with a url have redirects to follow".to_owned());
    }
    if origin.follow_redirects > HOPS_MAX {
        add("follow_redirects", format!("expected at most {HOPS_MAX}"));
    }
    if origin.follow_redirects == 0 && !origin.redirect_hosts.is_empty() {
        let what = "no redirect is followed; set follow_redirects = 3, or remove the hosts";
        add("redirect_hosts", what.to_owned());
    }
    for (index, host) in origin.redirect_hosts.iter().enumerate() {
        if RedirectHost::parse(host).is_none() {
            let what =
                format!("{host:?} is not a host; expected for example \"objects.example.org\" or \"*.example.org\"");
            add(&format!("redirect_hosts.{index}"), what);
        }
    }
    if origin.redirect_networks.contains(&Network::Unix) {
        add("redirect_networks", "redirects do not lead to Unix sockets".to_owned());
    }
}

/// Fields of requests that are made here, or say what is asked for.
const OWN_FIELDS: [&str; 15] = [
    "cdn-loop",
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "max-forwards",
    "proxy-connection",
    "range",
    "te",
    "thalweg-peer",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// Why a field of requests cannot be set, removed, dropped, or be a part of keys.
fn field_fault(name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    if FieldBlock::new().field(name, b"").is_err() {
        Some(format!("{name:?} is not the name of a field"))
    } else if OWN_FIELDS.contains(&&*lower) || lower.starts_with("if-") {
        Some(format!("{name} is set by the server itself"))
    } else {
        None
    }
}

fn of_request_headers(headers: &RequestHeaders, at: &str, faults: &mut Vec<(String, String)>) {
    let mut add = |key: String, what: String| faults.push((format!("{at}.request_headers.{key}"), what));
    for (name, value) in &headers.set {
        if let Some(what) = field_fault(name) {
            add(format!("set.{name}"), what);
        } else if FieldBlock::new().field(name, value.as_bytes()).is_err() {
            add(format!("set.{name}"), "the value has characters that no field can have".to_owned());
        }
    }
    for (name, _) in &headers.files {
        let is_set = headers.set.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        if let Some(what) = field_fault(name) {
            add(format!("files.{name}"), what);
        } else if is_set {
            add(format!("files.{name}"), format!("{name} is set twice; keep it in one of set and files"));
        }
    }
    let removed = headers.remove.iter().enumerate().map(|(index, name)| (format!("remove.{index}"), name));
    let passed = headers.pass.iter().flatten().enumerate().map(|(index, name)| (format!("pass.{index}"), name));
    for (key, name) in removed.chain(passed) {
        if let Some(what) = field_fault(name) {
            add(key, what);
        }
    }
}

/// The faults of what a mount keeps, for how long, and under which keys.
fn of_keeping(forwarding: &Forwarding, at: &str, faults: &mut Vec<(String, String)>) {
    let mut add = |key: String, what: String| faults.push((format!("{at}.{key}"), what));
    for (status, time) in &forwarding.lifetimes {
        let is_negative = matches!(status, 404 | 410 | 500..=599);
        if !matches!(status, 200..=599) || matches!(status, 206 | 304 | 412 | 416) {
            add(format!("lifetimes.{status}"), format!("responses with status {status} have no lifetime of their own"));
        } else if is_negative && *time > forwarding.negative_time_max {
            let what = "the time is longer than negative_time_max, which bounds it; raise that, too".to_owned();
            add(format!("lifetimes.{status}"), what);
        }
    }
    let keys = forwarding.key_headers.iter().enumerate().map(|(index, name)| (format!("key_headers.{index}"), name));
    let dropped =
        forwarding.drop_headers.iter().enumerate().map(|(index, name)| (format!("drop_headers.{index}"), name));
    for (key, name) in keys.chain(dropped) {
        if let Some(what) = field_fault(name) {
            add(key, what);
        }
    }
    let is_dropped = |name: &String| forwarding.drop_headers.iter().any(|other| other.eq_ignore_ascii_case(name));
    if let Some((index, name)) = forwarding.key_headers.iter().enumerate().find(|(_, name)| is_dropped(name)) {
        add(format!("key_headers.{index}"), format!("{name} is dropped by drop_headers; remove it from one of them"));
    }
}

fn of_mount(mount: &MountConfig, config: &ServerConfig, at: &str, faults: &mut Vec<(String, String)>) {
    let forwarding = &mount.forwarding;
    let mut add = |key: &str, what: String| faults.push((format!("{at}.{key}"), what));
    if forwarding.origins.is_empty() {
        return;
    }
    if !mount.root.as_os_str().is_empty() {
        add("origins", "a mount has a root or origins; remove one of them".to_owned());
    }
    for (index, origin) in forwarding.origins.iter().enumerate() {
        if !config.origins.iter().any(|known| known.name == origin.name) {
            add(&format!("origins.{index}"), format!("there is no [[origin]] named {:?}", origin.name));
        }
        if forwarding.origins[..index].iter().any(|other| other.name == origin.name) {
            add(&format!("origins.{index}"), format!("the origin {:?} is listed twice", origin.name));
        }
        if origin.weight == Some(0) {
            add(&format!("origins.{index}"), "a weight is at least 1".to_owned());
        }
    }
    let weighted = forwarding.origins.iter().filter(|origin| origin.weight.is_some()).count();
    if weighted != 0 && weighted != forwarding.origins.len() {
        add("origins", "either all origins of a mount have a weight, or none".to_owned());
    }
    for (index, method) in forwarding.methods.iter().enumerate() {
        if method == "CONNECT" || method == "TRACE" {
            add(&format!("methods.{index}"), format!("{method} is not forwarded"));
        } else if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-') {
            add(&format!("methods.{index}"), format!("{method:?} is no method; expected capitals, as in \"POST\""));
        }
    }
    let methods = ForwardingMount::of(mount, 0, false);
    if !methods.forwards("GET") || !methods.forwards("HEAD") {
        add("methods", "GET and HEAD are always forwarded; list them, too".to_owned());
    }
    if forwarding.content_bytes_max > CONTENT_BYTES_MAX {
        add("content_bytes_max", "expected at most 64MiB; contents are kept in memory".to_owned());
    }
    for (index, pattern) in forwarding.consistent.iter().enumerate() {
        if let Err(error) = globset::Glob::new(pattern) {
            add(&format!("consistent.{index}"), format!("{pattern:?} is not a pattern: {}", error.kind()));
        }
    }
    of_keeping(forwarding, at, faults);
    let mut add = |key: &str, what: String| faults.push((format!("{at}.{key}"), what));
    if forwarding.heuristic_percent > 100 {
        add("heuristic_percent", "expected at most 100".to_owned());
    }
}

/// Files and folders that the configuration names and this host lacks.
pub(super) fn of_files(config: &ServerConfig) -> Vec<(String, String)> {
    let mut faults = Vec::new();
    for (index, origin) in config.origins.iter().enumerate() {
        if let Some(tree) = origin.tree.as_deref().filter(|tree| !tree.is_dir()) {
            faults.push((format!("origin.{index}.tree"), format!("{} is no folder", tree.display())));
        }
        let credentials = origin.s3.as_ref().and_then(|s3| s3.credentials.as_deref());
        let named = [("ca".to_owned(), origin.ca.as_deref()), ("s3.credentials".to_owned(), credentials)];
        let fields = origin.request_headers.files.iter();
        let fields = fields.map(|(name, path)| (format!("request_headers.files.{name}"), Some(path.as_path())));
        for (key, file) in named.into_iter().chain(fields) {
            if let Some(path) = file.filter(|path| !path.is_file()) {
                faults.push((format!("origin.{index}.{key}"), format!("there is no file {}", path.display())));
            }
        }
    }
    for (index, volume) in config.disk_cache.volumes.iter().enumerate() {
        let at = || format!("disk_cache.volumes.{index}");
        let folder = volume.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if volume.path.is_dir() {
            faults
                .push((at(), format!("{} is a folder; use the path of a file or block device", volume.path.display())));
        } else if !volume.path.exists() && volume.size.is_none() {
            let path = volume.path.display();
            let what = format!(
                "the volume {path} does not exist; create it with `thalweg cache create {path} --size 20GiB`, or set \
                 {{ path = \"{path}\", size = \"20GiB\" }}"
            );
            faults.push((at(), what));
        } else if !folder.is_dir() {
            faults.push((at(), format!("the folder {} does not exist", folder.display())));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ListenAddr, MountOrigin, VolumeConfig};

    fn valid() -> ServerConfig {
        let mut config = ServerConfig::new("", Vec::<ListenAddr>::new());
        config.sites[0].mounts[0].forwarding.origins = vec![MountOrigin::new("a")];
        config.origins = vec![OriginConfig { url: Some("http://a.example/".to_owned()), ..OriginConfig::new("a") }];
        config
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut ServerConfig), expected: &[&str]) {
        let mut config = valid();
        change(&mut config);
        let places: Vec<_> = of_values(&config).into_iter().map(|(at, _)| at).collect();
        assert_eq!(places, expected);
    }

    #[test]
    fn values_that_contradict_one_another() {
        check(|_| {}, &[]);
        check(|config| config.origins.clear(), &["site.0.mount.0.origins.0"]);
        check(|config| config.origins[0].url = None, &["origin.0"]);
        check(|config| config.origins[0].tree = Some("/".into()), &["origin.0"]);
        check(|config| config.origins[0].url = Some("ftp://a/".to_owned()), &["origin.0.url"]);
        check(|config| config.origins[0].connections_max = 0, &["origin.0.connections_max"]);
        check(|config| config.origins.push(config.origins[0].clone()), &["origin.1.name"]);
        check(|config| config.disk_cache.memory = 1, &["disk_cache.memory"]);
        let small = VolumeConfig { path: "/v".into(), size: Some(1) };
        check(|config| config.disk_cache.volumes = vec![small], &["disk_cache.volumes.0"]);
        let mount =
            |change: fn(&mut MountConfig)| move |config: &mut ServerConfig| change(&mut config.sites[0].mounts[0]);
        check(mount(|mount| mount.root = "/".into()), &["site.0.mount.0.origins"]);
        check(mount(|mount| mount.forwarding.origins[0].weight = Some(0)), &["site.0.mount.0.origins.0"]);
        check(mount(|mount| mount.forwarding.methods = vec!["GET".to_owned()]), &["site.0.mount.0.methods"]);
        check(mount(|mount| mount.forwarding.methods.push("TRACE".to_owned())), &["site.0.mount.0.methods.2"]);
        check(mount(|mount| mount.forwarding.methods.push("post".to_owned())), &["site.0.mount.0.methods.2"]);
        check(mount(|mount| mount.forwarding.consistent = vec!["a[".to_owned()]), &["site.0.mount.0.consistent.0"]);
        check(mount(|mount| mount.forwarding.heuristic_percent = 101), &["site.0.mount.0.heuristic_percent"]);
    }

    #[test]
    fn redirects_and_fields_that_contradict_one_another() {
        let origin = |change: fn(&mut OriginConfig)| move |config: &mut ServerConfig| change(&mut config.origins[0]);
        let hosts = |hosts: &[&str]| hosts.iter().map(|&host| host.to_owned()).collect::<Vec<_>>();
        check(origin(|origin| origin.follow_redirects = 11), &["origin.0.follow_redirects"]);
        check(
            origin(|origin| (origin.url, origin.tree, origin.follow_redirects) = (None, Some("/".into()), 1)),
            &["origin.0.follow_redirects"],
        );
        check(|config| config.origins[0].redirect_hosts = hosts(&["a.example"]), &["origin.0.redirect_hosts"]);
        check(
            |config| {
                config.origins[0].follow_redirects = 1;
                config.origins[0].redirect_hosts = hosts(&["a.example", "https://a.example/"]);
            },
            &["origin.0.redirect_hosts.1"],
        );
        check(
            origin(|origin| origin.request_headers.set = vec![("Host".to_owned(), "x".to_owned())]),
            &["origin.0.request_headers.set.Host"],
        );
        check(
            origin(|origin| origin.request_headers.set = vec![("X".to_owned(), "a\nb".to_owned())]),
            &["origin.0.request_headers.set.X"],
        );
        check(
            origin(|origin| origin.request_headers.pass = Some(vec!["Accept".to_owned(), "If-Range".to_owned()])),
            &["origin.0.request_headers.pass.1"],
        );
        check(
            origin(|origin| origin.request_headers.remove = vec!["a b".to_owned()]),
            &["origin.0.request_headers.remove.0"],
        );
        let mount = |change: fn(&mut Forwarding)| {
            move |config: &mut ServerConfig| change(&mut config.sites[0].mounts[0].forwarding)
        };
        let second = std::time::Duration::from_secs(1);
        check(
            mount(|mount| mount.lifetimes = vec![(304, std::time::Duration::ZERO)]),
            &["site.0.mount.0.lifetimes.304"],
        );
        check(
            move |config| {
                let forwarding = &mut config.sites[0].mounts[0].forwarding;
                let longer = forwarding.negative_time_max + second;
                forwarding.lifetimes = vec![(404, longer), (301, longer)];
            },
            &["site.0.mount.0.lifetimes.404"],
        );
        check(
            mount(|mount| (mount.key_headers, mount.drop_headers) = (vec!["a".to_owned()], vec!["A".to_owned()])),
            &["site.0.mount.0.key_headers.0"],
        );
        check(mount(|mount| mount.drop_headers = vec!["Range".to_owned()]), &["site.0.mount.0.drop_headers.0"]);
    }
}
