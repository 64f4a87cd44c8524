//! Folders of trees and buckets behind the cache tier: listings, indexes, redirects, types by name,
//! and paths with encoded slashes.

use std::fs;
use std::path::Path;
use std::thread;

use tempfile::TempDir;

use crate::curl::{Reply, fetch};
use crate::recorder::{RecordedRequest, Recorder, Response};
use crate::server::{Server, Tree};

/// A server with a mount of one origin; `rules` are those of its site.
fn mirror(folder: &Path, origin: &str, rules: &str) -> Server {
    let file = folder.join("mirror.toml");
    let text = format!(
        "[[origin]]\nname = \"o\"\n{origin}\n[[site]]\n[[site.mount]]\npath = \"/\"\norigins = [\"o\"]\n{rules}"
    );
    fs::write(&file, text).unwrap();
    Server::configured(&file, &[])
}

const LISTING: &str = "[[site.rule]]\nlisting = true\n";

fn json(reply: &Reply) -> serde_json::Value {
    assert_eq!((reply.status, reply.field("content-type")), (200, "application/json"));
    serde_json::from_slice(&reply.body).unwrap()
}

#[test]
fn a_slow_tree_is_served_like_a_folder_of_this_host() {
    let (tree, folder) = (Tree::new(), TempDir::new().unwrap());
    let bare = tree.root().join("bare");
    for name in ["50% + a.deb", ".hidden", "ä.unknown", "-dash"] {
        fs::write(bare.join(name), name).unwrap();
    }
    fs::create_dir(bare.join("sub")).unwrap();
    let local = Server::of(&tree, &["--listing"]);
    let server = mirror(folder.path(), &format!("tree = {:?}", tree.root()), LISTING);
    for query in ["?format=json", "?format=json&sort=size&order=desc", "?format=json&filter=A", "", "?C=M;O=D"] {
        let [ours, theirs] = [&server, &local].map(|server| fetch(&[], &format!("{}/bare/{query}", server.url)));
        assert_eq!(String::from_utf8_lossy(&ours.body), String::from_utf8_lossy(&theirs.body), "{query}");
        assert_eq!(ours.field("content-type"), theirs.field("content-type"));
        assert_eq!(ours.field("content-security-policy"), theirs.field("content-security-policy"));
        assert_eq!(ours.field("etag"), theirs.field("etag"), "{query}");
        let condition = format!("If-None-Match: {}", ours.field("etag"));
        assert_eq!(fetch(&["--header", &condition], &format!("{}/bare/{query}", server.url)).status, 304);
    }
    // Each entry of the list is there, of the same type.
    let list = json(&fetch(&[], &format!("{}/bare/?format=json", server.url)));
    let entries = list["entries"].as_array().unwrap();
    assert!(entries.len() >= 4, "{list}");
    for entry in entries {
        let address = format!("bare/{}", entry["href"].as_str().unwrap());
        let [ours, theirs] = [&server, &local].map(|server| fetch(&[], &format!("{}/{address}", server.url)));
        assert_eq!((ours.status, ours.field("content-type")), (200, theirs.field("content-type")), "{address}");
        assert_eq!(ours.body, theirs.body, "{address}");
    }
    assert_eq!(fetch(&[], &format!("{}/bare/?page=2", server.url)).status, 404);
    assert_eq!(fetch(&[], &format!("{}/none/", server.url)).status, 404);
    assert_eq!(fetch(&[], &format!("{}/folder/", server.url)).body, b"<h1>folder</h1>");
    assert_eq!(fetch(&[], &format!("{}/", server.url)).field("content-type"), "text/html; charset=utf-8");
    let head = fetch(&["--head"], &format!("{}/bare/", server.url));
    assert_eq!((head.status, head.body.len()), (200, 0));
    let moved = fetch(&["--location"], &format!("{}/bare?format=json", server.url));
    assert_eq!((moved.status, moved.field("location")), (301, "./bare/?format=json"));
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&moved.body).unwrap()["path"], "/bare/");
}

#[test]
fn a_folder_is_404_where_no_rule_has_it_listed() {
    let (tree, folder) = (Tree::new(), TempDir::new().unwrap());
    let rules = "[[site.rule]]\nfolder = \"/folder/\"\nlisting = true\n[[site.rule]]\nfiles = \"*.txt\"\n\
                 content_type = \"text/x-own\"\n";
    let server = mirror(folder.path(), &format!("tree = {:?}", tree.root()), rules);
    assert_eq!(fetch(&[], &format!("{}/bare/", server.url)).status, 404);
    assert_eq!(fetch(&[], &format!("{}/bare/file.txt", server.url)).field("content-type"), "text/x-own");
}

/// The keys of a bucket, with their types.
const KEYS: &[(&str, &str)] = &[
    ("a.iso", "binary/octet-stream"),
    ("own.iso", "text/x-own"),
    ("pub/50% + ä.deb", ""),
    ("pub/sub/x", ""),
    ("web/index.html", "application/octet-stream"),
    ("web/~user", ""),
    ("odd//key.txt", ""),
];

/// Answers as a bucket does, without a look at signatures. It knows nothing of the rest of S3.
fn bucket(request: &RecordedRequest) -> Response {
    let url = url::Url::parse(&format!("http://x{}", request.target)).unwrap();
    let query = |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
    let path = url.path().strip_prefix("/bucket/").unwrap_or_default();
    let key = percent_decoded(path);
    if let Some(prefix) = query("prefix") {
        return Response::good(&page(&prefix, query("max-keys").and_then(|keys| keys.parse().ok())));
    }
    match KEYS.iter().find(|(known, _)| *known == key) {
        Some((key, media_type)) => {
            let field = if media_type.is_empty() { String::new() } else { format!("Content-Type: {media_type}\r\n") };
            let length = key.len();
            let text = format!(
                "HTTP/1.1 200 OK\r\nETag: \"{length}\"\r\nCache-Control: max-age=60\r\n{field}Content-Length: {length}\r\n\r\n{key}"
            );
            Response { text, ..Response::good("") }
        }
        None => {
            let body = "<Error><Code>NoSuchKey</Code></Error>";
            let text = format!("HTTP/1.1 404 Not Found\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            Response { text, ..Response::good("") }
        }
    }
}

fn page(prefix: &str, keys_max: Option<usize>) -> String {
    let keys_max = keys_max.unwrap_or(1000);
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for key in KEYS.iter().filter_map(|(key, _)| key.strip_prefix(prefix)) {
        match key.split_once('/') {
            Some((folder, _)) if folders.contains(&folder) => {}
            Some((folder, _)) => folders.push(folder),
            None => files.push(key),
        }
    }
    let is_truncated = files.len() + folders.len() > keys_max;
    let token = if is_truncated { "<NextContinuationToken>t</NextContinuationToken>" } else { "" };
    let file = |name: &&str| {
        format!(
            "<Contents><Key>{prefix}{name}</Key><Size>{}</Size>\
             <LastModified>2026-01-31T12:00:00.000Z</LastModified></Contents>",
            prefix.len() + name.len()
        )
    };
    let files: String = files.iter().take(keys_max).map(file).collect();
    let folder = |name: &&str| format!("<CommonPrefixes><Prefix>{prefix}{name}/</Prefix></CommonPrefixes>");
    let folders: String = folders.iter().map(folder).collect();
    format!("<ListBucketResult><IsTruncated>{is_truncated}</IsTruncated>{token}{files}{folders}</ListBucketResult>")
}

fn percent_decoded(path: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            bytes.push(u8::from_str_radix(std::str::from_utf8(&rest[..2]).unwrap(), 16).unwrap());
            rest = &rest[2..];
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn bucket_settings(recorder: &Recorder) -> String {
    format!("s3 = {{ endpoint = {:?}, bucket = \"bucket\" }}", recorder.url("/"))
}

fn listings_of(recorder: &Recorder) -> usize {
    recorder.received().iter().filter(|request| request.target.contains("list-type")).count()
}

#[test]
fn all_clients_of_a_page_cost_the_bucket_one_listing() {
    let folder = TempDir::new().unwrap();
    let recorder = Recorder::start(|request| {
        let slow = std::time::Duration::from_millis(if request.target.contains("list-type") { 300 } else { 0 });
        bucket(request).after(slow)
    });
    let server = mirror(folder.path(), &bucket_settings(&recorder), LISTING);
    thread::scope(|scope| {
        for number in 0..20 {
            // Each page of a folder is made of the same listing.
            let url = format!("{}/pub/?format=json&n={}", server.url, number % 5);
            scope.spawn(move || {
                let list = json(&fetch(&[], &url));
                let names: Vec<_> =
                    list["entries"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
                assert_eq!(names, ["sub", "50% + ä.deb"]);
            });
        }
    });
    assert_eq!(listings_of(&recorder), 1);
    let again = fetch(&[], &format!("{}/pub/?format=json&n=0", server.url));
    assert!(again.field("cache-status").starts_with("thalweg;hit"), "{}", again.field("cache-status"));
}

#[test]
fn a_bucket_has_indexes_redirects_and_types() {
    let folder = TempDir::new().unwrap();
    let recorder = Recorder::start(bucket);
    let server = mirror(folder.path(), &bucket_settings(&recorder), LISTING);
    let check = |path: &str, status: u16, media_type: &str, body: Option<&str>| {
        let reply = fetch(&[], &format!("{}{path}", server.url));
        assert_eq!((reply.status, reply.field("content-type")), (status, media_type), "{path}");
        if let Some(body) = body {
            assert_eq!(String::from_utf8_lossy(&reply.body), body, "{path}");
        }
        reply
    };
    let (iso, html) = ("application/x-iso9660-image", "text/html; charset=utf-8");
    check("/a.iso", 200, iso, Some("a.iso"));
    check("/own.iso", 200, "text/x-own", Some("own.iso"));
    let deb = "application/vnd.debian.binary-package";
    check("/pub/50%25%20+%20%C3%A4.deb", 200, deb, Some("pub/50% + ä.deb"));
    check("/web/", 200, html, Some("web/index.html"));
    check("/", 200, html, None);
    let moved = fetch(&[], &format!("{}/pub/sub", server.url));
    assert_eq!((moved.status, moved.field("location")), (301, "./sub/"));
    assert_eq!(fetch(&[], &format!("{}/pub/none", server.url)).status, 404);
    assert_eq!(fetch(&[], &format!("{}/none/", server.url)).status, 404);
    // One object has one place in the cache, however it is written.
    check("/web%2F~user", 200, "application/octet-stream", Some("web/~user"));
    for path in ["/web/~user", "/web/%7Euser", "/web%2f%7euser", "/x/../web/~user"] {
        let reply = check(path, 200, "application/octet-stream", Some("web/~user"));
        assert!(reply.field("cache-status").starts_with("thalweg;hit"), "{path}: {}", reply.field("cache-status"));
    }
    check("/odd/%2Fkey.txt", 200, "text/plain; charset=utf-8", Some("odd//key.txt"));
}

#[test]
fn encoded_slashes_reach_an_origin_and_lead_out_of_nothing() {
    let (tree, folder) = (Tree::new(), TempDir::new().unwrap());
    let recorder = Recorder::start(|request| Response::good(&request.target));
    let local = format!("[[site.mount]]\npath = \"/local/\"\nroot = {:?}\n", tree.root());
    let server = mirror(folder.path(), &format!("url = {:?}", recorder.url("/base/")), &local);
    let fetch = |path: &str| {
        let reply = fetch(&["--path-as-is"], &format!("{}{path}", server.url));
        (reply.status, String::from_utf8_lossy(&reply.body).into_owned())
    };
    for (path, expected) in [
        ("/a%2Fb", "/base/a%2Fb"),
        ("/a%2fb?x=%2f", "/base/a%2Fb?x=%2f"),
        ("/%7Ea%2Fb", "/base/~a%2Fb"),
        ("/a//b%2Fc", "/base/a/b%2Fc"),
        ("/a%252F..%252Fb", "/base/a%252F..%252Fb"),
        ("/..a%2F..b", "/base/..a%2F..b"),
    ] {
        assert_eq!(fetch(path), (200, expected.to_owned()), "{path}");
    }
    let before = recorder.received().len();
    for path in [
        "/..%2Fsecret",
        "/a%2F..%2F..%2Fsecret",
        "/%2e%2e%2fsecret",
        "/.%2e%2fsecret",
        "/a/..%2f..%2fsecret",
        "/a%2F..",
        "/a%2F.%2Fb",
        "/a%2F%2e%2e%5Cb",
        "/..%5csecret",
        "/a\\..\\b",
        "/a%2F%00",
        "/a%2F%zz",
    ] {
        assert_eq!(fetch(path).0, 400, "{path}");
    }
    // A folder of this host has no such names.
    for path in ["/local%2Ftext.txt", "/local/folder%2Findex.html", "/local/%2Ftext.txt"] {
        assert_eq!(fetch(path).0, 404, "{path}");
    }
    assert_eq!(recorder.received().len(), before, "no origin was asked");
    assert_eq!(fetch("/local/text.txt").0, 200);
}

#[test]
fn a_mount_with_origins_is_listed_in_the_folder_above() {
    let (tree, folder) = (Tree::new(), TempDir::new().unwrap());
    let (root, other) = (tree.root().join("bare"), tree.root());
    let text = format!(
        "[[origin]]\nname = \"o\"\ntree = {other:?}\n[[site]]\n[[site.mount]]\npath = \"/\"\nroot = {root:?}\n\
         [[site.mount]]\npath = \"/slow/\"\norigins = [\"o\"]\n[[site.mount]]\npath = \"/deep/er/\"\norigins = [\"o\"]\n{LISTING}"
    );
    let file = folder.path().join("mirror.toml");
    fs::write(&file, text).unwrap();
    let server = Server::configured(&file, &[]);
    let names = |path: &str| -> Vec<String> {
        let list = json(&fetch(&[], &format!("{}{path}?format=json", server.url)));
        let entries = list["entries"].as_array().unwrap();
        entries.iter().map(|entry| entry["href"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("/"), ["deep/", "slow/", "file.txt"]);
    assert_eq!(names("/deep/"), ["er/"]);
    assert_eq!(names("/deep/er/bare/"), ["file.txt"]);
}
