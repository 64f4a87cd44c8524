//! Folders without an index, over both drivers.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use thalweg_serve::{ListingStyle, MountConfig, Rule, ServerConfig, Settings, SiteConfig, Symlinks};

use crate::naive::{Response, take_all};
use crate::served::{Served, each_driver};

/// Turns listings on, from a folder on.
fn list(config: &mut ServerConfig, folder: &str, listing: bool, listing_style: Option<ListingStyle>) {
    let settings = Settings { listing: Some(listing), listing_style, ..Settings::default() };
    config.sites[0].rules.push(Rule { folder: Some(folder.to_owned()), settings, ..Rule::default() });
}

fn everywhere(config: &mut ServerConfig) {
    list(config, "/", true, None);
}

fn ask(served: &Served, method: &str, path: &str, fields: &str) -> Response {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
    let mut responses = take_all(&served.exchange(request.as_bytes()), &[method]);
    assert_eq!(responses.len(), 1, "{method} {path}");
    responses.remove(0)
}

fn get(served: &Served, path: &str) -> Response {
    ask(served, "GET", path, "")
}

/// The addresses in the JSON of a folder, in order.
fn hrefs(served: &Served, path: &str) -> Vec<String> {
    let response = get(served, path);
    assert_eq!((response.status, response.field("Content-Type")), (200, Some("application/json")), "{path}");
    let text = String::from_utf8(response.body).unwrap();
    let hrefs = text.split("\"href\":\"").skip(1).filter_map(|rest| rest.split('"').next());
    hrefs.map(str::to_owned).collect()
}

#[test]
fn folders_without_an_index_are_listed_where_that_is_wanted() {
    each_driver(|driver| {
        let Some(served) = Served::start(driver, |config| {
            list(config, "/sub/", true, None);
            list(config, "/sub/private/", false, None);
        }) else {
            return;
        };
        fs::create_dir_all(served.path().join("sub/private/deeper")).unwrap();
        for (path, status) in [
            ("/", 404),
            ("/sub/", 200),
            ("/sub", 301),
            ("/sub/private/", 404),
            ("/sub/private/deeper/", 404),
            ("/sub/missing/", 404),
            ("/sub/page.html/", 404),
            ("/sub/?page=1", 200),
            ("/sub/?page=2", 404),
            ("/sub/?page=2&format=json", 404),
            ("/sub/?nonsense", 200),
        ] {
            // Twice: the second time from the cache.
            for round in ["first", "again"] {
                assert_eq!(get(&served, path).status, status, "{driver:?} {round} {path}");
            }
        }
        let index = get(&served, "/sub/with%20index/");
        assert_eq!(index.body, b"<p>index</p>", "a folder with an index is not listed");
        served.stop();
    });
}

#[test]
fn a_listing_has_the_files_that_are_served() {
    each_driver(|driver| {
        let Some(served) = Served::start(driver, everywhere) else { return };
        let odd: &[&[u8]] = &[
            b"\"quoted\"&'x'<b>",
            b"line\nbreak",
            b"\xff\xfe",
            b"100%25 %2F",
            b"a:b",
            b"-rf",
            b"question?#",
            b"...",
            b" ",
            b"back\\slash",
            "z\u{202e}x".as_bytes(),
        ];
        fs::create_dir(served.path().join("odd")).unwrap();
        for name in odd {
            fs::write(served.path().join("odd").join(OsStr::from_bytes(name)), name).unwrap();
        }
        let expected = "sub/ empty.txt large.bin letters sparse with%20space.txt";
        assert_eq!(hrefs(&served, "/?format=json").join(" "), expected.replace("sub/", "odd/ sub/"));
        assert_eq!(hrefs(&served, "/sub/?format=json"), ["with%20index/", "inside", "page.html", "up"]);

        let odd_hrefs = hrefs(&served, "/odd/?format=json");
        // A name that begins with a dot is hidden, whatever follows.
        assert_eq!(odd_hrefs.len(), odd.len() - 1);
        let mut found: Vec<Vec<u8>> = Vec::new();
        for href in &odd_hrefs {
            let response = get(&served, &format!("/odd/{}", href.strip_prefix("./").unwrap_or(href)));
            assert_eq!(response.status, 200, "{driver:?} {href}");
            found.push(response.body);
        }
        found.sort();
        let mut names: Vec<_> = odd.iter().filter(|name| !name.starts_with(b".")).map(|name| name.to_vec()).collect();
        names.sort();
        assert_eq!(found, names);
        served.stop();
    });
}

#[test]
fn a_listing_is_a_resource_like_any_other() {
    each_driver(|driver| {
        let Some(served) = Served::start(driver, everywhere) else { return };
        for path in ["/sub/", "/sub/?format=json", "/sub/?sort=size&order=desc"] {
            let whole = get(&served, path);
            let tag = whole.field("ETag").unwrap().to_owned();
            assert!(tag.starts_with('"'), "{driver:?} {path}: {tag}");
            assert!(whole.field("Content-Security-Policy").is_some_and(|policy| policy.contains("default-src 'none'")));
            assert_eq!(whole.field("X-Content-Type-Options"), Some("nosniff"));
            let head = ask(&served, "HEAD", path, "");
            assert_eq!((head.status, head.field("Content-Length")), (200, whole.field("Content-Length")));
            let unchanged = ask(&served, "GET", path, &format!("If-None-Match: {tag}\r\n"));
            assert_eq!((unchanged.status, unchanged.field("ETag")), (304, Some(tag.as_str())));
            let changed = ask(&served, "GET", path, "If-Match: \"other\"\r\n");
            assert_eq!(changed.status, 412);
        }
        let (html, json) = (get(&served, "/sub/"), get(&served, "/sub/?format=json"));
        assert_ne!(html.field("ETag"), json.field("ETag"));
        served.stop();
    });
}

#[test]
fn a_change_in_a_folder_is_seen_when_the_listing_has_aged() {
    each_driver(|driver| {
        let Some(served) = Served::start(driver, |config| {
            everywhere(config);
            config.cache.age = Duration::ZERO;
        }) else {
            return;
        };
        let path = "/new/?format=json";
        assert_eq!(get(&served, path).status, 404);
        fs::create_dir(served.path().join("new")).unwrap();
        assert_eq!(hrefs(&served, path), Vec::<String>::new());
        let empty = get(&served, path);
        fs::write(served.path().join("new/file"), "1").unwrap();
        assert_eq!(hrefs(&served, path), ["file"]);
        assert_ne!(get(&served, path).field("ETag"), empty.field("ETag"));
        fs::remove_file(served.path().join("new/file")).unwrap();
        assert_eq!(get(&served, path).field("ETag"), empty.field("ETag"), "the same content has the same tag");
        fs::remove_dir(served.path().join("new")).unwrap();
        assert_eq!(get(&served, path).status, 404);
        served.stop();
    });
}

#[test]
fn styles_change_what_is_shown() {
    let style = ListingStyle {
        name_width: 8,
        hide: vec!["*.txt".into(), "{sparse,large.*,read*}".into()],
        header: Some("empty.txt".into()),
        readme: Some("read me.htm".into()),
        page_entries: 2,
        folders_first: false,
    };
    each_driver(|driver| {
        let Some(served) = Served::start(driver, |config| list(config, "/", true, Some(style.clone()))) else { return };
        fs::write(served.path().join("a name to be shortened"), "").unwrap();
        fs::write(served.path().join("read me.htm"), "<p>page</p>").unwrap();
        assert_eq!(hrefs(&served, "/?format=json&page=1"), ["a%20name%20to%20be%20shortened", "letters"]);
        assert_eq!(hrefs(&served, "/?format=json&page=2"), ["sub/"]);
        assert_eq!(hrefs(&served, "/?C=N;O=D&format=json&page=1"), ["sub/", "letters"]);
        let text = String::from_utf8(get(&served, "/").body).unwrap();
        assert!(text.contains("title=\"a name to be shortened\""), "{text}");
        assert!(text.contains("a nam…ed"), "{text}");
        assert!(text.contains("<p>page</p>"), "the readme: {text}");
        // Hidden from the list is not kept back.
        assert_eq!(get(&served, "/empty.txt").status, 200);
        served.stop();
    });
}

#[test]
fn links_are_listed_as_they_are_followed() {
    for (symlinks, expected) in
        [(Symlinks::Beneath, "with%20index/ inside page.html up"), (Symlinks::Deny, "with%20index/ page.html")]
    {
        each_driver(|driver| {
            let Some(served) = Served::start(driver, |config| {
                everywhere(config);
                config.sites[0].mounts[0].symlinks = symlinks;
            }) else {
                return;
            };
            symlink("missing", served.path().join("sub/dangling")).unwrap();
            symlink("/etc/passwd", served.path().join("sub/out")).unwrap();
            assert_eq!(hrefs(&served, "/sub/?format=json").join(" "), expected, "{driver:?} {symlinks:?}");
            served.stop();
        });
    }
}

#[test]
fn dot_files_are_listed_if_they_are_served() {
    each_driver(|driver| {
        let Some(served) = Served::start(driver, |config| {
            everywhere(config);
            config.sites[0].mounts[0].dot_files = true;
        }) else {
            return;
        };
        assert!(hrefs(&served, "/?format=json").contains(&".hidden".to_owned()));
        served.stop();
    });
}

#[test]
fn each_site_and_mount_has_listings_of_its_own() {
    each_driver(|driver| {
        let Some(served) = Served::start(driver, |config| {
            everywhere(config);
            let root = config.sites[0].mounts[0].root.clone();
            config.sites[0].mounts.push(MountConfig::new("/deep/down/", root.join("sub")));
            let mut other = SiteConfig::new(root);
            other.names.push("other".to_owned());
            config.sites.push(other);
        }) else {
            return;
        };
        // `up` leads out of this mount's root, though not out of the other's.
        assert_eq!(hrefs(&served, "/deep/down/?format=json"), ["with%20index/", "inside", "page.html"]);
        let page = String::from_utf8(get(&served, "/deep/down/").body).unwrap();
        assert!(page.contains("<title>Index of /deep/down/</title>"), "{page}");
        assert_eq!(get(&served, "/deep/down").status, 301);
        // No tree has a folder of this name: it is there for its mount.
        assert_eq!(hrefs(&served, "/deep/?format=json"), ["down/"]);
        let other = served.exchange(b"GET /sub/ HTTP/1.1\r\nHost: other\r\n\r\n");
        assert!(other.starts_with(b"HTTP/1.1 404 "), "{driver:?}: {}", other.escape_ascii());
        served.stop();
    });
}

#[test]
fn trees_that_are_mounted_in_a_folder_are_listed_there_once() {
    each_driver(|driver| {
        let elsewhere = tempfile::TempDir::new().unwrap();
        fs::write(elsewhere.path().join("file"), "12345").unwrap();
        let Some(served) = Served::start(driver, |config| {
            everywhere(config);
            let style = ListingStyle { hide: vec!["unseen".to_owned()], ..ListingStyle::default() };
            list(config, "/own/", true, Some(style));
            let paths = ["/top/", "/own/b/", "/own/file/", "/own/deep/er/", "/own/unseen/", "/own/.dot/", "/other/c/"];
            let mounts = paths.map(|path| MountConfig::new(path, elsewhere.path()));
            config.sites[0].mounts.extend(mounts);
        }) else {
            return;
        };
        for folder in ["own/a", "own/b", "own/c", "own/unseen"] {
            fs::create_dir_all(served.path().join(folder)).unwrap();
        }
        // Neither what the folder has by the name of a mount is reached, nor a file of that name.
        fs::write(served.path().join("own/b/covered"), "").unwrap();
        fs::write(served.path().join("own/file"), "covered").unwrap();
        fs::write(served.path().join("own/last"), "").unwrap();
        assert_eq!(hrefs(&served, "/own/?format=json"), ["a/", "b/", "c/", "deep/", "file/", "last"]);
        assert_eq!(hrefs(&served, "/own/?format=json&order=desc"), ["file/", "deep/", "c/", "b/", "a/", "last"]);
        let page = String::from_utf8(get(&served, "/own/").body).unwrap();
        assert_eq!((page.matches("href=\"b/\"").count(), page.matches("href=\"file/\"").count()), (1, 1), "{page}");
        assert!(page.contains("5 folders · 1 file"), "{page}");
        assert_eq!(hrefs(&served, "/own/b/?format=json"), ["file"]);
        assert!(hrefs(&served, "/?format=json").contains(&"top/".to_owned()));
        // A folder that exists only as the parent of mounts is a folder like any other.
        assert!(hrefs(&served, "/?format=json").contains(&"other/".to_owned()));
        assert_eq!(hrefs(&served, "/other/?format=json"), ["c/"]);
        assert_eq!(get(&served, "/other/c/file").body, b"12345");
    });
}

#[test]
fn a_folder_that_is_only_the_parent_of_mounts_is_listed_where_that_is_wanted() {
    each_driver(|driver| {
        let Some(served) = Served::start(driver, |config| {
            let root = config.sites[0].mounts[0].root.clone();
            let paths = ["/pub/a/b/", "/pub/a/c/", "/pub/d/", "/off/a/", "/.dot/a/", "/only/.dot/"];
            config.sites[0].mounts = paths.map(|path| MountConfig::new(path, root.join("sub"))).to_vec();
            everywhere(config);
            list(config, "/off/", false, None);
        }) else {
            return;
        };
        assert_eq!(hrefs(&served, "/?format=json"), ["off/", "pub/"]);
        assert_eq!(hrefs(&served, "/pub/?format=json"), ["a/", "d/"]);
        assert_eq!(hrefs(&served, "/pub/a/?format=json"), ["b/", "c/"]);
        assert_eq!(hrefs(&served, "/pub/a/b/?format=json"), ["with%20index/", "inside", "page.html"]);
        for (path, status) in [
            ("/pub/a", 301),
            ("/pub/a/", 200),
            ("/off", 301),
            ("/off/", 404),
            ("/off/a/page.html", 200),
            ("/missing", 404),
            ("/missing/", 404),
            ("/pub/a/e", 404),
            ("/pub/a/e/", 404),
            // Hidden, as elsewhere.
            ("/.dot", 404),
            ("/.dot/", 404),
            ("/only/", 404),
        ] {
            for round in ["first", "again"] {
                assert_eq!(get(&served, path).status, status, "{driver:?} {round} {path}");
            }
        }
        assert_eq!(get(&served, "/pub/a").field("Location"), Some("/pub/a/"));
        served.stop();
    });
}

/// A page, decoded if it comes by gzip.
fn decoded(response: &Response) -> String {
    let mut text = String::new();
    match response.field("Content-Encoding") {
        Some("gzip") => drop(flate2::read::GzDecoder::new(&response.body[..]).read_to_string(&mut text).unwrap()),
        other => {
            assert_eq!(other, None);
            text = String::from_utf8(response.body.clone()).unwrap();
        }
    }
    text
}

/// The fields that a response depends on.
fn vary(response: &Response) -> String {
    let values: Vec<_> = response.fields.iter().filter(|(name, _)| name == "vary").map(|(_, value)| &**value).collect();
    values.join(" ")
}

#[test]
fn a_program_gets_all_entries_and_a_browser_a_page() {
    each_driver(|driver| {
        let style = ListingStyle { page_entries: 10, ..ListingStyle::default() };
        let Some(served) = Served::start(driver, |config| list(config, "/", true, Some(style.clone()))) else { return };
        fs::create_dir(served.path().join("many")).unwrap();
        for number in 0..1500 {
            fs::write(served.path().join(format!("many/file-{number}.iso")), "").unwrap();
        }
        let browser = "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n";
        let entries = |fields: &str, query: &str| {
            let response = ask(&served, "GET", &format!("/many/{query}"), fields);
            assert_eq!(response.status, 200, "{query} {fields}");
            let link = response.field("Link").map(str::to_owned);
            let entry = if query.contains("format=json") { "\"href\":" } else { "<tr><th scope=\"row\">" };
            (decoded(&response).matches(entry).count(), link, response)
        };
        for (fields, query, count, next) in [
            ("", "", 1500, None),
            ("Accept: */*\r\n", "", 1500, None),
            ("Accept: text/html;q=0, */*\r\n", "", 1500, None),
            ("Accept-Encoding: gzip\r\n", "", 1500, None),
            ("", "?sort=size&order=desc", 1500, None),
            ("", "?filter=7.iso", 150, None),
            (browser, "", 10, Some("<?page=2>; rel=\"next\"")),
            (browser, "?filter=7.iso", 10, Some("<?filter=7%2Eiso&page=2>; rel=\"next\"")),
            ("", "?page=1", 10, Some("<?page=2>; rel=\"next\"")),
            ("", "?page=150", 10, None),
        ] {
            for format in ["", "format=json"] {
                let query = if query.is_empty() { format!("?{format}") } else { format!("{query}&{format}") };
                let (found, link, response) = entries(fields, &query);
                let link = link.map(|link| link.replace("format=json&", ""));
                assert_eq!((found, link.as_deref()), (count, next), "{driver:?} {query} {fields}");
                assert_eq!(vary(&response).split(' ').any(|field| field == "Accept"), !query.contains("page="));
                let tag = response.field("ETag").unwrap();
                let conditional = format!("{fields}If-None-Match: {tag}\r\n");
                let unchanged = ask(&served, "GET", &format!("/many/{query}"), &conditional);
                assert_eq!((unchanged.status, unchanged.field("ETag")), (304, Some(tag)), "{query} {fields}");
            }
        }
        let head = ask(&served, "HEAD", "/many/", "");
        assert_eq!((head.status, head.field("Content-Length"), head.body.len()), (200, None, 0));
        let part = ask(&served, "GET", "/many/", "Range: bytes=0-9\r\n");
        assert_eq!((part.status, part.field("Accept-Ranges")), (200, None), "a length that nobody knows has no parts");
        assert_eq!(ask(&served, "GET", "/many/", "If-Match: \"other\"\r\n").status, 412);
        // A client that knows no chunks gets it until the end of the connection.
        let old = served.exchange(b"GET /many/ HTTP/1.0\r\n\r\n");
        assert_eq!(String::from_utf8_lossy(&old).matches("<tr><th scope=\"row\">").count(), 1500);
        served.stop();
    });
}

#[test]
fn a_large_page_comes_compressed_to_clients_that_take_it() {
    each_driver(|driver| {
        let Some(served) = Served::start(driver, everywhere) else { return };
        fs::create_dir(served.path().join("many")).unwrap();
        for number in 0..200 {
            fs::write(served.path().join(format!("many/file-{number}.iso")), "").unwrap();
        }
        for path in ["/many/", "/many/?format=json"] {
            let plain = get(&served, path);
            assert_eq!((vary(&plain), plain.field("Content-Encoding")), ("Accept-Encoding Accept".to_owned(), None));
            let packed = ask(&served, "GET", path, "Accept-Encoding: gzip, br\r\n");
            assert_eq!((packed.status, vary(&packed)), (200, "Accept-Encoding Accept".to_owned()));
            assert_eq!(packed.field("Content-Encoding"), Some("gzip"), "{path}");
            assert!(packed.body.len() * 3 < plain.body.len(), "{} of {}", packed.body.len(), plain.body.len());
            assert_eq!(decoded(&packed), decoded(&plain), "{path}");
            let tags = [&plain, &packed].map(|response| response.field("ETag").unwrap().to_owned());
            assert_ne!(tags[0], tags[1], "{path}");
            // Each representation is validated by its own tag, over all loops.
            for (tag, fields, status) in [
                (&tags[0], "", 304),
                (&tags[1], "Accept-Encoding: gzip\r\n", 304),
                (&tags[0], "Accept-Encoding: gzip\r\n", 200),
                (&tags[1], "", 200),
            ] {
                let fields = format!("{fields}If-None-Match: {tag}\r\n");
                assert_eq!(ask(&served, "GET", path, &fields).status, status, "{path} {fields}");
            }
            let refused = ask(&served, "GET", path, "Accept-Encoding: gzip;q=0\r\n");
            assert_eq!(refused.field("Content-Encoding"), None, "{path}");
            let head = ask(&served, "HEAD", path, "Accept-Encoding: gzip\r\n");
            assert_eq!(head.field("Content-Length"), Some(&*packed.body.len().to_string()), "{path}");
        }
        fs::create_dir(served.path().join("few")).unwrap();
        let small = ask(&served, "GET", "/few/?format=json", "Accept-Encoding: gzip\r\n");
        assert_eq!((vary(&small), small.field("Content-Encoding")), ("Accept".to_owned(), None), "not worth it");
        served.stop();
    });
}

#[test]
fn a_filter_shows_the_names_that_contain_its_text() {
    each_driver(|driver| {
        let Some(served) = Served::start(driver, everywhere) else { return };
        fs::create_dir(served.path().join("many")).unwrap();
        for number in 0..60 {
            fs::write(served.path().join(format!("many/Debian {number}.iso")), "").unwrap();
        }
        fs::write(served.path().join("many/other"), "").unwrap();
        let names = |query: &str| hrefs(&served, &format!("/many/?format=json{query}")).len();
        assert_eq!(
            [names(""), names("&filter=debian+1"), names("&filter=OTHER"), names("&filter=none")],
            [61, 11, 1, 0]
        );
        // A page that a filter does not leave is the last that it does.
        assert_eq!(names("&filter=other&page=7"), 1);
        let page = get(&served, "/many/?filter=other");
        let policy = page.field("Content-Security-Policy").unwrap().to_owned();
        assert!(policy.contains("form-action 'self'") && policy.contains("default-src 'none'"), "{policy}");
        assert!(!policy.contains("script"), "{policy}");
        let text = decoded(&page);
        assert!(text.contains("1 name contains it") && !text.contains("Debian") && !text.contains("<script"), "{text}");
        served.stop();
    });
}

#[test]
fn checksums_are_shown_where_their_rule_wants_them() {
    each_driver(|driver| {
        let Some(served) = Served::start(driver, |config| {
            everywhere(config);
            let settings = Settings { digests: Some(true), ..Settings::default() };
            let files = Some("*.iso".to_owned());
            config.sites[0].rules.push(Rule { folder: Some("/sums/".to_owned()), files, settings, ..Rule::default() });
        }) else {
            return;
        };
        let digits = |digit: &str| digit.repeat(64);
        for folder in ["sums", "plain"] {
            let folder = served.path().join(folder);
            fs::create_dir(&folder).unwrap();
            let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
            let put = |name: &str, content: &str, at: SystemTime| {
                fs::write(folder.join(name), content).unwrap();
                fs::File::options().write(true).open(folder.join(name)).unwrap().set_modified(at).unwrap();
            };
            for name in ["a.iso", "b.iso", "c.txt", "twice.iso"] {
                put(name, "", old);
            }
            let list =
                ["a.iso", "b.iso", "c.txt", "new.iso", "twice.iso"].map(|name| format!("{}  {name}\n", digits("1")));
            let list = list.concat() + &format!("{}  twice.iso\n", digits("2"));
            put("SHA256SUMS", &list, old + Duration::from_secs(5));
            put("b.iso.sha256", &format!("{}  elsewhere/b.iso\n", digits("3")), old + Duration::from_secs(5));
            // Younger than the list, which is of what it was before.
            put("new.iso", "", old + Duration::from_secs(10));
        }
        let sums = |path: &str| {
            let value: serde_json::Value = serde_json::from_slice(&get(&served, path).body).unwrap();
            let entries = value["entries"].as_array().unwrap().iter();
            let known = entries
                .filter_map(|entry| Some((entry["name"].as_str()?.to_owned(), entry["sha256"].as_str()?.to_owned())));
            known.collect::<Vec<_>>()
        };
        let expected = [("a.iso".to_owned(), digits("1")), ("b.iso".to_owned(), digits("3"))];
        assert_eq!(sums("/sums/?format=json"), expected, "{driver:?}");
        assert!(sums("/plain/?format=json").is_empty(), "{driver:?}");
        let page = decoded(&get(&served, "/sums/"));
        assert!(page.contains(&format!("<code>{}</code>", digits("3"))), "{page}");
        assert!(!decoded(&get(&served, "/plain/")).contains("<code>"));
        served.stop();
    });
}
