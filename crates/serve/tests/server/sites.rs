//! Hosts, mounts, rules, error pages: which file a request is for, and what holds for it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use thalweg_serve::{MountConfig, Rule, ServerConfig, Settings, SiteConfig, Symlinks, UnknownHost};

use crate::naive::{Response, take};
use crate::served::{Served, each_driver};

/// Two hosts: the first has a tree with a second one inside, the second one follows no links and
/// shows dot files.
fn configure(config: &mut ServerConfig) {
    let folder = config.sites[0].mounts[0].root.clone();
    fill(&folder);
    let rule = |folder: Option<&str>, files: Option<&str>, settings: Settings| Rule {
        folder: folder.map(str::to_owned),
        files: files.map(str::to_owned),
        settings,
        ..Rule::default()
    };
    let headers = |all: &[(&str, &str)]| all.iter().map(|&(name, value)| (name.into(), value.into())).collect();
    let first = SiteConfig {
        names: vec!["one.example".to_owned(), "*.one.example".to_owned()],
        mounts: vec![MountConfig::new("/", folder.join("one")), MountConfig::new("/pub/big/", folder.join("big"))],
        rules: vec![
            rule(
                None,
                None,
                Settings { headers: headers(&[("X-All", "1"), ("X-Kind", "any")]), ..Settings::default() },
            ),
            rule(
                None,
                Some("*.{iso,img}"),
                Settings {
                    headers: headers(&[("x-kind", "image")]),
                    content_type: Some("application/x-image".to_owned()),
                    ..Settings::default()
                },
            ),
            rule(
                Some("/docs/"),
                None,
                Settings {
                    cache_control: Some("max-age=60".to_owned()),
                    index: Some(vec!["first.html".to_owned(), "second.html".to_owned()]),
                    ..Settings::default()
                },
            ),
            rule(
                Some("/pub/big/"),
                Some("*.iso"),
                Settings { cache_control: Some("immutable".to_owned()), ..Settings::default() },
            ),
        ],
        error_pages: vec![(404, "/404.html".to_owned()), (405, "/missing.html".to_owned())],
        ..SiteConfig::default()
    };
    let mut second = SiteConfig::new(folder.join("two"));
    second.names = vec!["Two.Example.".to_owned(), "[::1]".to_owned()];
    second.mounts[0].symlinks = Symlinks::Deny;
    second.mounts[0].dot_files = true;
    config.sites = vec![first, second];
}

fn fill(folder: &Path) {
    let file = |name: &str| {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // Each file contains its path.
        fs::write(path, name).unwrap();
    };
    for name in [
        "one/index.html",
        "one/404.html",
        "one/a.iso",
        "one/.secret",
        "one/.git/config",
        "one/.well-known/security.txt",
        "one/.well-known/.hidden",
        "one/docs/second.html",
        "one/docs/deeper/second.html",
        "one/docs/deeper/index.html",
        "one/pub/small.iso",
        "one/pub/big/shadowed",
        "big/large.iso",
        "big/index.html",
        "big/.well-known/x",
        "two/index.html",
        "two/.secret",
    ] {
        file(name);
    }
    symlink("index.html", folder.join("one/link")).unwrap();
    symlink("../two/index.html", folder.join("one/out")).unwrap();
    symlink("index.html", folder.join("two/link")).unwrap();
}

fn exchange(served: &Served, request: &str) -> Response {
    take(&mut served.exchange(request.as_bytes()).as_slice(), "GET").unwrap_or_else(|| panic!("{request}: no response"))
}

/// Checks the response to a request: its status and its body; an empty `body` is not compared.
#[track_caller]
fn check(served: &Served, request: &str, status: u16, body: &str) -> Response {
    let response = exchange(served, request);
    assert_eq!(response.status, status, "{request}");
    if !body.is_empty() {
        assert_eq!(String::from_utf8_lossy(&response.body), body, "{request}");
    }
    response
}

fn get(host: &str, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

fn with_sites(change: impl Fn(&mut ServerConfig), test: impl Fn(&Served)) {
    each_driver(|driver| {
        let Some(served) = Served::start(driver, |config| {
            configure(config);
            change(config);
        }) else {
            return;
        };
        // Twice: the second time from the cache.
        test(&served);
        test(&served);
        served.stop();
    });
}

#[test]
fn hosts_are_told_apart() {
    with_sites(
        |_| {},
        |served| {
            for (host, body) in [
                ("one.example", "one/index.html"),
                ("ONE.example:8080", "one/index.html"),
                ("a.one.example", "one/index.html"),
                ("a.b.one.example.", "one/index.html"),
                ("two.example", "two/index.html"),
                ("two.EXAMPLE.", "two/index.html"),
                ("two.example.:80", "two/index.html"),
                ("[::1]", "two/index.html"),
                ("[::1]:80", "two/index.html"),
                // Names that match neither a site nor a wildcard.
                ("a.two.example", "one/index.html"),
                ("xtwo.example", "one/index.html"),
                ("unknown", "one/index.html"),
                ("", "one/index.html"),
                (&"x".repeat(300), "one/index.html"),
                (&".".repeat(253), "one/index.html"),
            ] {
                check(served, &get(host, "/"), 200, body);
            }
            // RFC 9112, 3.2.2: the target's host counts, not the field's.
            check(served, &get("one.example", "http://two.example/"), 200, "two/index.html");
            check(served, &get("two.example", "http://one.example:80/"), 200, "one/index.html");
            check(served, "GET / HTTP/1.0\r\n\r\n", 200, "one/index.html");
            check(served, "GET / HTTP/1.0\r\nHost: two.example\r\n\r\n", 200, "two/index.html");
        },
    );
}

#[test]
fn unknown_hosts_are_refused_if_that_is_wanted() {
    let refuse = |config: &mut ServerConfig| config.unknown_host = UnknownHost::Refuse;
    with_sites(refuse, |served| {
        check(served, &get("two.example", "/"), 200, "two/index.html");
        check(served, &get("unknown", "/"), 421, "");
        check(served, "GET / HTTP/1.0\r\n\r\n", 200, "one/index.html");
    });
}

#[test]
fn the_longest_mount_wins() {
    with_sites(
        |_| {},
        |served| {
            for (path, status, body) in [
                ("/a.iso", 200, "one/a.iso"),
                ("/pub/small.iso", 200, "one/pub/small.iso"),
                ("/pub/big/large.iso", 200, "big/large.iso"),
                ("/pub/big/", 200, "big/index.html"),
                ("/pub/big/shadowed", 404, ""),
                ("/pub//big/../big/large.iso", 200, "big/large.iso"),
                ("/pub/big/../small.iso", 200, "one/pub/small.iso"),
                ("/pub/bigger", 404, ""),
            ] {
                check(served, &get("one.example", path), status, body);
            }
            let redirect = check(served, &get("one.example", "/pub/big?q"), 301, "");
            assert_eq!(redirect.field("Location"), Some("/pub/big/?q"));
            // A mount of one site is none of another's.
            check(served, &get("two.example", "/pub/big/large.iso"), 404, "");
        },
    );
}

#[test]
fn names_with_dots_are_hidden() {
    with_sites(
        |_| {},
        |served| {
            for (host, path, status) in [
                ("one.example", "/.secret", 404),
                ("one.example", "/%2esecret", 404),
                ("one.example", "/.git/config", 404),
                ("one.example", "/.git", 404),
                ("one.example", "/.well-known/security.txt", 200),
                ("one.example", "/.well-known/.hidden", 404),
                // Only at the top of the site.
                ("one.example", "/pub/big/.well-known/x", 404),
                ("two.example", "/.secret", 200),
            ] {
                check(served, &get(host, path), status, "");
            }
        },
    );
}

#[test]
fn links_are_followed_as_the_mount_has_it() {
    with_sites(
        |_| {},
        |served| {
            check(served, &get("one.example", "/link"), 200, "one/index.html");
            check(served, &get("one.example", "/out"), 404, "one/404.html");
            check(served, &get("two.example", "/link"), 404, "");
        },
    );
    let match_owner = |config: &mut ServerConfig| config.sites[0].mounts[0].symlinks = Symlinks::OwnerMatch;
    with_sites(match_owner, |served| {
        check(served, &get("one.example", "/link"), 200, "one/index.html");
        check(served, &get("one.example", "/out"), 404, "one/404.html");
        check(served, &get("one.example", "/docs/deeper/"), 200, "one/docs/deeper/second.html");
    });
}

#[test]
fn rules_hold_where_they_say() {
    with_sites(
        |_| {},
        |served| {
            for (path, kind, content_type, cache_control) in [
                ("/", Some("any"), "text/html; charset=utf-8", None),
                ("/a.iso", Some("image"), "application/x-image", None),
                ("/docs/", Some("any"), "text/html; charset=utf-8", Some("max-age=60")),
                ("/docs/deeper/", Some("any"), "text/html; charset=utf-8", Some("max-age=60")),
                ("/pub/small.iso", Some("image"), "application/x-image", None),
                ("/pub/big/large.iso", Some("image"), "application/x-image", Some("immutable")),
                ("/pub/big/", Some("any"), "text/html; charset=utf-8", None),
            ] {
                let response = check(served, &get("one.example", path), 200, "");
                assert_eq!(response.field("X-All"), Some("1"), "{path}");
                assert_eq!(response.field("X-Kind"), kind, "{path}");
                assert_eq!(response.field("Content-Type"), Some(content_type), "{path}");
                assert_eq!(response.field("Cache-Control"), cache_control, "{path}");
            }
            check(served, &get("one.example", "/docs/"), 200, "one/docs/second.html");
            assert_eq!(exchange(served, &get("two.example", "/")).field("X-All"), None);
            // A 304 carries the fields that a cache needs too (RFC 9110, 15.4.5).
            let request = "GET /docs/ HTTP/1.1\r\nHost: one.example\r\nIf-None-Match: *\r\n\r\n";
            assert_eq!(check(served, request, 304, "").field("Cache-Control"), Some("max-age=60"));
        },
    );
}

#[test]
fn error_pages_keep_the_status() {
    with_sites(
        |_| {},
        |served| {
            let page = check(served, &get("one.example", "/missing"), 404, "one/404.html");
            assert_eq!(page.field("Content-Type"), Some("text/html; charset=utf-8"));
            assert_eq!((page.field("ETag"), page.field("X-All")), (None, None));
            let head = "HEAD /missing HTTP/1.1\r\nHost: one.example\r\n\r\n";
            let head = take(&mut served.exchange(head.as_bytes()).as_slice(), "HEAD").unwrap();
            assert_eq!((head.status, head.field("Content-Length")), (404, Some("12")));
            assert!(!check(served, &get("two.example", "/missing"), 404, "").body.is_empty());
            // A page that is missing itself.
            check(served, "DELETE / HTTP/1.1\r\nHost: one.example\r\n\r\n", 405, "");
        },
    );
}

#[test]
fn a_folder_that_is_only_the_parent_of_mounts_is_a_folder() {
    with_sites(
        |config| {
            let root = config.sites[0].mounts[1].root.clone();
            config.sites[0].mounts.extend(["/a/b/", "/a/c/"].map(|path| MountConfig::new(path, root.clone())));
        },
        |served| {
            for path in ["/a", "/a/b"] {
                let redirect = check(served, &get("one.example", path), 301, "");
                assert_eq!(redirect.field("Location"), Some(&*format!("{path}/")));
            }
            // It has no index, and is not listed.
            check(served, &get("one.example", "/a/"), 404, "one/404.html");
            check(served, &get("one.example", "/a/c/"), 200, "big/index.html");
            check(served, &get("two.example", "/a"), 404, "");
        },
    );
}
