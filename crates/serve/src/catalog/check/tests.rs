use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::config::{MountConfig, Rule};

fn sound() -> ServerConfig {
    let mut config = ServerConfig::new("/", ["127.0.0.1:80".parse::<std::net::SocketAddr>().unwrap()]);
    config.sites[0].names = vec!["a.example".to_owned()];
    config
}

/// Checks the faults that a change to a sound configuration brings, by their paths and parts of
/// their texts.
#[track_caller]
fn check(change: impl FnOnce(&mut ServerConfig), expected: &[(&str, &str)]) {
    let mut config = sound();
    change(&mut config);
    let faults = config.check();
    let places: Vec<_> = faults.iter().map(|fault| fault.at.as_str()).collect();
    assert_eq!(places, expected.iter().map(|(at, _)| *at).collect::<Vec<_>>(), "{faults:?}");
    for (fault, (_, part)) in faults.iter().zip(expected) {
        assert!(fault.what.contains(part), "{fault}");
    }
}

fn check_name(name: &str, part: Option<&str>) {
    let expected = part.map(|part| ("site.0.names.0", part));
    check(|config| config.sites[0].names = vec![name.to_owned()], expected.as_slice());
}

fn check_rule(rule: Rule, expected: Option<(&str, &str)>) {
    let expected = expected.map(|(at, part)| (format!("site.0.rule.0.{at}"), part));
    let expected: Vec<_> = expected.iter().map(|(at, part)| (at.as_str(), *part)).collect();
    check(|config| config.sites[0].rules = vec![rule], &expected);
}

#[test]
fn a_sound_configuration_has_no_faults() {
    check(|_| {}, &[]);
    assert_eq!(sound().check_host(), []);
}

#[test]
fn names_of_hosts() {
    for name in ["a", "A.Example.", "*.example.org", "[::1]", "127.0.0.1", "xn--nxasmq6b", "a_b.c-d"] {
        check_name(name, None);
    }
    for (name, part) in [
        ("", "host name"),
        ("a.example:80", "port"),
        ("b\u{fc}cher.example", "xn--"),
        ("a b", "host name"),
        ("a..b", "host name"),
        ("*", "host name"),
        ("a.*.b", "host name"),
        ("[::1]:80", "not an address"),
        ("[x]", "not an address"),
        (&"a".repeat(64), "host name"),
    ] {
        check_name(name, Some(part));
    }
}

#[test]
fn a_host_is_of_one_site_only() {
    let with_second = |names: &[&str]| {
        let mut second = SiteConfig::new("/");
        second.names = names.iter().map(|&name| name.to_owned()).collect();
        move |config: &mut ServerConfig| config.sites.push(second)
    };
    check(with_second(&["b.example", "*.a.example"]), &[]);
    check(with_second(&["b.example", "A.EXAMPLE."]), &[("site.1.names.1", "site 1")]);
    check(with_second(&["b.example", "B.example"]), &[("site.1.names.1", "this site")]);
    check(with_second(&[]), &[("site.1.names", "no names")]);
}

#[test]
fn paths_of_mounts_rules_and_pages() {
    for (path, part) in [
        ("pub/", "begin"),
        ("", "begin"),
        ("/pub", "end"),
        ("//", "empty"),
        ("/a//b/", "empty"),
        ("/../", "empty"),
        ("/", "already"),
    ] {
        let change = |config: &mut ServerConfig| config.sites[0].mounts.push(MountConfig::new(path, "/"));
        check(change, &[("site.0.mount.1.path", part)]);
    }
    check(|config| config.sites[0].mounts.clear(), &[("site.0.mount", "root")]);
    for (status, path, part) in [(200, "/a", "not an error"), (404, "a", "not a path"), (404, "/a/", "not a path")] {
        let at = format!("site.0.error_pages.{status}");
        let change = |config: &mut ServerConfig| config.sites[0].error_pages = vec![(status, path.to_owned())];
        check(change, &[(&at, part)]);
    }
}

#[test]
fn rules_cannot_break_out_of_the_head() {
    let header = |name: &str, value: &str| Settings {
        headers: vec![(name.to_owned(), value.to_owned())],
        ..Settings::default()
    };
    let rule = |settings| Rule { settings, ..Rule::default() };
    for (name, value, expected) in [
        ("X-Frame-Options", "DENY", None),
        ("X", "a\r\nSet-Cookie: b", Some("line end")),
        ("X", "a\nb", Some("line end")),
        ("X", "a\0", Some("line end")),
        ("X: y", "a", Some("not a field name")),
        ("", "a", Some("not a field name")),
        ("content-LENGTH", "1", Some("by the server")),
        ("Transfer-Encoding", "chunked", Some("by the server")),
        ("Cache-Control", "no-store", Some("cache_control")),
    ] {
        let at = format!("headers.{name}");
        check_rule(rule(header(name, value)), expected.map(|part| (at.as_str(), part)));
    }
    for (text, is_sound) in
        [("text/plain", true), ("text/html; charset=utf-8", true), ("text", false), ("a/b\r\n", false)]
    {
        let settings = Settings { content_type: Some(text.to_owned()), ..Settings::default() };
        check_rule(rule(settings), (!is_sound).then_some(("content_type", "not a media type")));
    }
    let settings = Settings { index: Some(vec!["a.html".to_owned(), "../b".to_owned()]), ..Settings::default() };
    check_rule(rule(settings), Some(("index.1", "not a name of a file")));
    check_rule(Rule { folder: Some("/a".to_owned()), ..Rule::default() }, Some(("folder", "end")));
    for (pattern, part) in [("[a", "not a pattern"), ("{a", "not a pattern"), ("a/*.iso", "slash")] {
        check_rule(Rule { files: Some(pattern.to_owned()), ..Rule::default() }, Some(("files", part)));
    }
}

#[test]
fn a_site_or_a_mount_that_redirects_needs_no_folder() {
    let redirect = || Routing { redirect: Some("https://h/{path}".to_owned()), ..Routing::default() };
    let moved = |path: &str| MountConfig { routing: redirect(), ..MountConfig::new(path, "") };
    let change = |config: &mut ServerConfig| {
        config.sites[0].mounts.push(moved("/old/"));
        let site = SiteConfig { names: vec!["b".to_owned()], routing: redirect(), ..SiteConfig::default() };
        config.sites.push(site);
    };
    check(change, &[]);
    let mut config = sound();
    change(&mut config);
    assert_eq!(config.check_host(), []);
    let rootless = |config: &mut ServerConfig| config.sites[0].mounts.push(MountConfig::new("/a/", ""));
    check(rootless, &[("site.0.mount.1.root", "missing")]);
    let circle = |config: &mut ServerConfig| config.sites[0].routing.redirect = Some("/{path}".to_owned());
    check(circle, &[("site.0.redirect", "circles")]);
    let routing = Routing { redirect: Some("https://h{path}".to_owned()), ..Routing::default() };
    check_rule(Rule { routing, ..Rule::default() }, Some(("redirect", "choose the host")));
    let routing = Routing { rewrite: Some("/../{path}".to_owned()), ..Routing::default() };
    check_rule(Rule { routing, ..Rule::default() }, Some(("rewrite", "\"..\"")));
}

#[test]
fn settings_that_nothing_uses() {
    check(|config| config.limits.requests_per_client.burst = 5, &[("limits.requests_burst", "no rate")]);
    check(|config| config.sites[0].request_limit.burst = 5, &[("site.0.requests_burst", "no rate")]);
    check(|config| config.sites[0].mounts[0].request_limit.burst = 5, &[("site.0.mount.0.requests_burst", "no rate")]);
    check(|config| config.denied_clients = DeniedClients::Close, &[("denied_clients", "no list")]);
}

#[test]
fn bounds_that_nobody_could_live_with() {
    check(|config| config.limits.head_bytes_max = 10, &[("limits.head_bytes_max", "512")]);
    check(|config| config.limits.idle_time = Duration::ZERO, &[("limits.idle_time", "above zero")]);
    check(|config| config.cache.small_file_bytes_max = 1 << 30, &[("cache.small_file_bytes_max", "bytes_max")]);
    check(|config| config.listen.push(config.listen[0].clone()), &[("listen.1", "twice")]);
    let proxied = |config: &mut ServerConfig| config.proxy_protocol = config.listen.clone();
    check(proxied, &[("trusted_proxies", "PROXY header")]);
}

#[test]
fn all_shortages_of_the_host_are_found() {
    let mut config = sound();
    config.sites[0].mounts[0].root = PathBuf::from("/nowhere/at/all");
    config.cpus = vec![100_000];
    config.log.access = Some(LogTarget::File("/nowhere/access.log".into()));
    config.log.error = LogTarget::File("/".into());
    let places: Vec<_> = config.check_host().into_iter().map(|fault| fault.at).collect();
    assert_eq!(places, ["cores", "site.0.mount.0.root", "log.access", "log.error"]);
    let mut config = sound();
    config.sites[0].error_pages = vec![(404, "/nowhere/at/all.html".to_owned()), (500, "/etc".to_owned())];
    let places: Vec<_> = config.check_host().into_iter().map(|fault| fault.at).collect();
    assert_eq!(places, ["site.0.error_pages.404", "site.0.error_pages.500"]);
}
