//! Purging from a server that runs, over its status listener and on the command line, and the
//! figures of its cache tier.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::curl::{Reply, fetch};
use crate::process::{ExitedProcess, PATIENCE, run_thalweg, until};
use crate::recorder::{Recorder, Response};
use crate::server::Server;

const TOKEN: &str = "a-token-of-a-test-0123456789";

/// An origin whose objects are of a version that grows, and a server in front of it.
struct Mirror {
    server: Server,
    status: String,
    version: Arc<AtomicUsize>,
    origin: Recorder,
    folder: TempDir,
}

impl Mirror {
    fn start() -> Self {
        let version = Arc::new(AtomicUsize::new(1));
        let present = Arc::clone(&version);
        let origin = Recorder::start(move |request| {
            let version = present.load(Ordering::SeqCst);
            let tag = format!("\"v{version}\"");
            let fields = format!(
                "Connection: close\r\nCache-Control: max-age=600, stale-if-error=600\r\nETag: {tag}\r\nCache-Groups: \"of-{}\"\r\n",
                request.target.split('/').nth(1).unwrap_or_default()
            );
            if request.field("if-none-match") == Some(&tag) {
                return Response {
                    text: format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n"),
                    closes: true,
                    ..Response::good("")
                };
            }
            let body = format!("{} v{version}", request.target);
            let text = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len());
            Response { text, closes: true, ..Response::good("") }
        });
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("token"), format!("{TOKEN}\n")).unwrap();
        let file = folder.path().join("mirror.toml");
        fs::write(&file, Self::text(folder.path(), &origin)).unwrap();
        let server = Server::configured(&file, &[]);
        let said = server.process.stdout();
        let status = said
            .lines()
            .find_map(|line| Some(&line[line.find("http://127.0.0.1")?..]).filter(|_| line.contains("status")));
        let status = status.unwrap_or_else(|| panic!("the status page: {said}")).trim_end_matches('/').to_owned();
        Self { server, status, version, origin, folder }
    }

    fn text(folder: &Path, origin: &Recorder) -> String {
        format!(
            "[disk_cache]\nvolumes = [{{ path = {:?}, size = \"64MiB\" }}]\n[[origin]]\nname = \"o\"\nurl = {:?}\n\
             [status]\nlisten = \"127.0.0.1:0\"\npurge_token = {:?}\n[[site]]\n\
             [[site.mount]]\npath = \"/a/\"\norigins = [\"o\"]\n[[site.mount]]\npath = \"/b/\"\norigins = [\"o\"]\n",
            folder.join("volume"),
            origin.url("/"),
            folder.join("token"),
        )
    }

    fn token(&self) -> PathBuf {
        self.folder.path().join("token")
    }

    fn get(&self, path: &str) -> Reply {
        fetch(&[], &format!("{}{path}", self.server.url))
    }

    /// The version of an object that clients get.
    fn version_of(&self, path: &str) -> usize {
        let body = String::from_utf8(self.get(path).body).unwrap();
        body.rsplit_once(" v")
            .and_then(|(_, version)| version.parse().ok())
            .unwrap_or_else(|| panic!("{path}: {body:?}"))
    }

    fn purge(&self, arguments: &[&str]) -> ExitedProcess {
        let token = self.token();
        let own = ["cache", "purge", "--server", &self.status, "--token", token.to_str().unwrap()];
        run_thalweg(&[&own[..], arguments].concat())
    }

    fn post(&self, arguments: &[&str]) -> (u16, Value) {
        let reply = fetch(arguments, &format!("{}/purge", self.status));
        (reply.status, serde_json::from_slice(&reply.body).unwrap_or_default())
    }

    fn figures(&self) -> Value {
        let reply = fetch(&[], &format!("{}/status.json", self.status));
        serde_json::from_slice::<Value>(&reply.body).unwrap()["disk_cache"].clone()
    }

    fn metrics(&self) -> BTreeMap<String, f64> {
        let text = String::from_utf8(fetch(&[], &format!("{}/metrics", self.status)).body).unwrap();
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        samples
            .map(|line| line.rsplit_once(' ').unwrap())
            .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
            .collect()
    }
}

#[test]
fn what_is_purged_is_fetched_again_and_nothing_else() {
    let mirror = Mirror::start();
    let paths = ["/a/x/1", "/a/x/2", "/a/y/1", "/b/x/1"];
    let versions = || paths.map(|path| mirror.version_of(path));
    assert_eq!(versions(), [1; 4]);
    mirror.version.store(2, Ordering::SeqCst);
    assert_eq!(versions(), [1; 4], "they are fresh");
    let host = mirror.server.url.clone();
    let (one, absent) = (format!("{host}/a/x/1"), format!("{host}/a/none"));
    // The arguments, the lines that are printed, and the objects that are fetched again.
    let cases: [(&[&str], &str, &[usize]); 6] = [
        (&["--url", &one], "purge of /a/x/1\n", &[0]),
        (&["--url", &absent], "purge of /a/none\n", &[]),
        (&["--prefix", "/a/x/"], "purge of 2 objects below /a/x/\n", &[0, 1]),
        (&["--group", "of-y", "--mount", "/a/"], "purge of the group \"of-y\" of /a/\n", &[2]),
        (&["--mount", "/b/"], "purge of all of /b/\n", &[3]),
        (&["--mount", "/a/", "--url", "/b/x/1"], "purge of /b/x/1\npurge of all of /a/\n", &[0, 1, 2, 3]),
    ];
    let mut expected = [1; 4];
    for (number, (arguments, printed, again)) in (2..).zip(cases) {
        mirror.version.store(number, Ordering::SeqCst);
        let purged = mirror.purge(arguments);
        assert_eq!((purged.code, &*purged.stdout), (Some(0), printed), "{arguments:?}: {}", purged.stderr);
        again.iter().for_each(|&at| expected[at] = number);
        assert_eq!(versions(), expected, "{arguments:?}");
    }
    let printed = mirror.purge(&["--prefix", "/", "--soft", "--json"]).stdout;
    let document: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((&document["schema"], &document["soft"]), (&json!("thalweg.purge/1"), &json!(true)), "{printed}");
    let purges: Vec<_> = document["purged"].as_array().unwrap().iter().map(|row| row["purges"].as_u64()).collect();
    assert_eq!(purges, [Some(3), Some(1)], "{printed}");
}

#[test]
fn a_soft_purge_has_the_origin_asked_and_a_stale_object_stands_in_for_it() {
    let mirror = Mirror::start();
    assert_eq!(mirror.version_of("/a/x"), 1);
    assert_eq!(mirror.purge(&["--url", "/a/x", "--soft"]).stdout, "soft purge of /a/x\n");
    let reply = mirror.get("/a/x");
    assert_eq!(reply.field("cache-status"), "thalweg;fwd=stale;fwd-status=304;stored");
    assert!(mirror.get("/a/x").field("cache-status").starts_with("thalweg;hit"));
    let form = ["--header", &format!("Authorization: Bearer {TOKEN}"), "--data", "mount=/a/&soft=true"];
    let (status, document) = mirror.post(&form);
    assert_eq!((status, &document["purged"]), (200, &json!([{ "mount": "/a/", "purges": 1 }])));
    let Mirror { server, origin, .. } = mirror;
    drop(origin);
    let reply = fetch(&[], &format!("{}/a/x", server.url));
    assert_eq!((reply.status, &*reply.body), (200, &b"/x v1"[..]));
    assert_eq!(reply.field("cache-status"), "thalweg;fwd=stale");
}

#[test]
fn requests_that_are_not_carried_out_say_why() {
    let mirror = Mirror::start();
    let shown = format!("Authorization: Bearer {TOKEN}");
    let check = |arguments: &[&str], status: u16, part: &str| {
        let (told, document) = mirror.post(arguments);
        let why = document["error"].as_str().unwrap_or_default();
        assert!(told == status && why.contains(part), "{arguments:?}: {told} {document}");
    };
    check(&["--data", "url=/a/x"], 401, "needs the token");
    check(&["--header", "Authorization: Bearer wrong-token-0123456789", "--data", "url=/a/x"], 401, "needs the token");
    check(&["--header", &shown, "--data", "uri=/a/x"], 400, "expected url, prefix, group, mount or soft");
    check(&["--header", &shown, "--data", "url=/c/x"], 404, "no mount with origins");
    check(&["--header", &shown, "--data", &format!("url={}", "x".repeat(70_000))], 413, "longer than 65536");
    check(&["--header", &shown, "--json", "{\"url\": 1}"], 400, "no JSON as it is expected");
    let reply = fetch(&["--data", "url=/a/x"], &format!("{}/purge", mirror.status));
    assert_eq!((reply.status, reply.field("www-authenticate")), (401, "Bearer"));
    let reply = fetch(&["--header", &shown], &format!("{}/purge", mirror.status));
    assert_eq!((reply.status, reply.field("allow")), (405, "POST"));
    let other = ["--header", "Host: evil.example", "--header", &shown, "--data", "url=/a/x"];
    assert_eq!(fetch(&other, &format!("{}/purge", mirror.status)).status, 421);

    let refused = |arguments: &[&str], code: i32, part: &str| {
        let ended = run_thalweg(&[&["cache", "purge"], arguments].concat());
        assert!(ended.code == Some(code) && ended.stderr.contains(part), "{arguments:?}: {ended:?}");
    };
    let (status, token) = (mirror.status.as_str(), mirror.token());
    let token = token.to_str().unwrap();
    let (wrong, short) = (mirror.folder.path().join("wrong"), mirror.folder.path().join("short"));
    fs::write(&wrong, "another-token-0123456789").unwrap();
    fs::write(&short, "short").unwrap();
    let (wrong, short) = (wrong.to_str().unwrap(), short.to_str().unwrap());
    refused(&["--server", status, "--token", wrong, "--url", "/a/x"], 2, "refuses the token in");
    refused(&["--server", status, "--token", short, "--url", "/a/x"], 2, "is no token");
    refused(
        &["--server", status, "--token", token, "--mount", "/c/"],
        2,
        "no mount with origins has the mount \"/c/\"",
    );
    refused(&["--server", status, "--token", token, "--group", "g"], 2, "name the mount");
    refused(&["--server", "127.0.0.1:1", "--token", token, "--url", "/a/x"], 4, "is `thalweg serve` running");
    refused(&["--server", &mirror.origin.url("/"), "--token", token, "--url", "/a/x"], 4, "as the status listener");
    let volume = mirror.folder.path().join("volume");
    refused(&[volume.to_str().unwrap(), "--url", "/a/x"], 4, "use --server URL --token FILE");
}

#[test]
fn the_token_is_read_at_the_start_and_at_a_reload() {
    let mirror = Mirror::start();
    let shows = |token: &str| {
        ["--header".to_owned(), format!("Authorization: Bearer {token}"), "--data".to_owned(), "mount=/a/".to_owned()]
    };
    let status = |token: &str| mirror.post(&shows(token).each_ref().map(String::as_str)).0;
    let reload = |outcome: &str| {
        let before = mirror.server.process.stderr().matches(outcome).count();
        mirror.server.process.signal("HUP");
        until(outcome, PATIENCE, || (mirror.server.process.stderr().matches(outcome).count() > before).then_some(()));
    };
    let other = "another-token-0123456789";
    fs::write(mirror.token(), other).unwrap();
    assert_eq!((status(TOKEN), status(other)), (200, 401));
    reload("the configuration was reloaded");
    assert_eq!((status(TOKEN), status(other)), (401, 200));
    fs::write(mirror.token(), "short").unwrap();
    reload("is no token");
    assert_eq!(status(other), 200, "the old one stays in effect");
    let file = mirror.folder.path().join("mirror.toml");
    let start = |part: &str| {
        let text = Mirror::text(mirror.folder.path(), &mirror.origin).replace("/volume", "/other");
        fs::write(&file, text).unwrap();
        let ended = run_thalweg(&["serve", "--config", file.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
        assert!(ended.code == Some(2) && ended.stderr.contains(part), "{part}: {ended:?}");
        let checked = run_thalweg(&["serve", "--config", file.to_str().unwrap(), "--check"]);
        assert!(checked.code == Some(2) && checked.stderr.contains(part), "{part}: {checked:?}");
    };
    start("is no token");
    fs::remove_file(mirror.token()).unwrap();
    start("cannot read");
    let text = Mirror::text(mirror.folder.path(), &mirror.origin);
    let text: String =
        text.lines().filter(|line| !line.starts_with("purge_token")).map(|line| format!("{line}\n")).collect();
    fs::write(&file, text).unwrap();
    reload("the configuration was reloaded");
    assert_eq!(status(other), 403, "nobody can purge without a token");
}

#[test]
fn figures_are_those_of_the_requests_that_were_made() {
    let mirror = Mirror::start();
    let body = b"/x v1".len() as u64;
    for path in ["/a/x", "/a/x", "/a/x", "/a/x", "/b/x"] {
        assert_eq!(mirror.version_of(path), 1);
    }
    mirror.purge(&["--url", "/a/x", "--soft"]);
    assert_eq!(mirror.version_of("/a/x"), 1);
    let figures = until("the last request to be counted", PATIENCE, || {
        let figures = mirror.figures();
        (figures["counts"]["served_bytes"] == 6 * body).then_some(figures)
    });
    let mounts = figures["mounts"].as_array().unwrap();
    let counts = |at: usize, name: &str| mounts[at]["counts"][name].as_u64().unwrap();
    let answered = counts(0, "held_hits") + counts(0, "hits");
    assert_eq!((answered, counts(0, "misses"), counts(0, "revalidated")), (3, 1, 1), "{figures:#}");
    assert_eq!(
        (counts(0, "served_bytes"), counts(0, "origin_bytes"), counts(0, "origin_requests")),
        (5 * body, body, 2)
    );
    assert_eq!(
        (&mounts[0]["mount"], &mounts[0]["hit_ratio"], &mounts[0]["byte_hit_ratio"]),
        (&json!("/a/"), &json!(0.6), &json!(0.8))
    );
    assert_eq!((counts(1, "misses"), counts(1, "served_bytes"), &mounts[1]["hit_ratio"]), (1, body, &json!(0.0)));
    assert_eq!((&figures["counts"]["purges"], &figures["hit_ratio"]), (&json!(1), &json!(0.5)));
    let origin = &figures["origins"][0];
    assert_eq!((&origin["origin"], &origin["state"], &origin["requests"]), (&json!("o"), &json!("up"), &json!(2)));
    let volume = &figures["volumes"][0];
    assert_eq!((&volume["state"], &volume["damaged"], &volume["failures"]), (&json!("open"), &json!(0), &json!(0)));
    assert!(volume["size_bytes"].as_u64().unwrap() > 50 << 20, "{volume}");
    assert!(figures["cycle_s"].is_null(), "the first lap is not over");

    let metrics = mirror.metrics();
    let volume = mirror.folder.path().join("volume");
    for (series, value) in [
        ("thalweg_disk_cache_requests_total{mount=\"/a/\",outcome=\"miss\"}".to_owned(), 1),
        ("thalweg_disk_cache_requests_total{mount=\"/a/\",outcome=\"revalidated\"}".to_owned(), 1),
        ("thalweg_disk_cache_requests_total{mount=\"/b/\",outcome=\"hit\"}".to_owned(), 0),
        ("thalweg_disk_cache_served_bytes_total{mount=\"/a/\"}".to_owned(), 5 * body),
        ("thalweg_disk_cache_origin_received_bytes_total{mount=\"/b/\"}".to_owned(), body),
        ("thalweg_disk_cache_purges_total".to_owned(), 1),
        (format!("thalweg_disk_cache_volume_up{{volume=\"{}\"}}", volume.display()), 1),
        ("thalweg_origin_up{mount=\"/b/\",origin=\"o\"}".to_owned(), 1),
        ("thalweg_origin_responses_total{mount=\"/a/\",origin=\"o\"}".to_owned(), 2),
    ] {
        assert_eq!(metrics.get(&series), Some(&(value as f64)), "{series} in {metrics:#?}");
    }
    for mount in mounts {
        let label = format!("{{mount={},outcome=", mount["mount"]);
        let requests: f64 = metrics.iter().filter(|(series, _)| series.contains(&label)).map(|(_, value)| value).sum();
        let outcomes = ["held_hits", "hits", "collapsed", "stale", "revalidated", "stale_if_error", "misses"];
        let outcomes = outcomes.into_iter().chain(["passed", "failed"]);
        let counted: u64 = outcomes.map(|name| mount["counts"][name].as_u64().unwrap()).sum();
        assert_eq!((requests, counted), (counted as f64, if mount["mount"] == "/a/" { 5 } else { 1 }), "{mount}");
    }
    for (name, total) in figures["counts"].as_object().unwrap() {
        let sum: u64 = mounts.iter().map(|mount| mount["counts"][name].as_u64().unwrap()).sum();
        // Purges by an operator are no mount's.
        let is_total = name == "purges" || json!(sum) == *total;
        assert!(is_total, "{name}: {figures:#}");
    }
    let page = String::from_utf8(fetch(&[], &mirror.status).body).unwrap();
    for part in ["Disk cache", "Volumes", "Origins", "60.0", ">up<", ">open<"] {
        assert!(page.contains(part), "{part}: {page}");
    }
}
