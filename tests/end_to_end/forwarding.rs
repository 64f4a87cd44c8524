//! `thalweg serve` in front of origins: what it keeps and for how long, over both protocols and
//! both drivers, across a restart; methods, failures, reloads.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::curl::{Reply, fetch};
use crate::drivers::BOTH_DRIVERS;
use crate::process::{PATIENCE, run_thalweg, thalweg, until};
use crate::recorder::{Recorder, Response};
use crate::server::{Server, TEXT, Tree, large};

/// Starts a mirror of a configuration. `listen` and the sites are those of the text.
fn mirror(folder: &Path, text: &str, options: &[&str]) -> Server {
    let file = folder.join("mirror.toml");
    fs::write(&file, text).unwrap();
    Server::configured(&file, options)
}

fn configuration(folder: &Path, url: &str, mount: &str) -> String {
    let volume = folder.join("volume");
    format!(
        "[disk_cache]\nvolumes = [{{ path = {volume:?}, size = \"64MiB\" }}]\n[[origin]]\nname = \"o\"\nurl = {url:?}\n\
         connect_time = \"2s\"\n[[site]]\n[[site.mount]]\npath = \"/\"\norigins = [\"o\"]\n{mount}"
    )
}

/// A server of files that says how long they are fresh.
fn origin(folder: &Path, tree: &Tree, options: &[&str]) -> Server {
    fs::write(tree.root().join("large.bin"), large()).unwrap();
    let file = folder.join("origin.toml");
    let root = tree.root();
    let text = format!("[[site]]\nroot = {root:?}\n[[site.rule]]\ncache_control = \"max-age=600\"\n");
    fs::write(&file, text).unwrap();
    Server::configured(&file, options)
}

fn requests(log: &Path) -> usize {
    fs::read_to_string(log).unwrap_or_default().lines().count()
}

fn is_hit(reply: &Reply) -> bool {
    reply.field("cache-status").starts_with("thalweg;hit")
}

#[test]
fn what_is_fresh_is_fetched_once_over_both_drivers() {
    // Both drivers: each reads the files of the volume in its own way.
    for driver in BOTH_DRIVERS {
        let (tree, folder) = (Tree::new(), TempDir::new().unwrap());
        let log = folder.path().join("access.log");
        let origin = origin(folder.path(), &tree, &["--access-log", log.to_str().unwrap()]);
        let server = mirror(
            folder.path(),
            &configuration(folder.path(), &format!("{}/", origin.url), ""),
            &["--driver", driver],
        );
        for round in 0..3 {
            for (name, content) in [("text.txt", TEXT), ("large.bin", &large())] {
                let url = format!("{}/{name}", server.url);
                let reply = fetch(&[], &url);
                assert!(reply.status == 200 && reply.body == content, "{driver} {name}: {}", reply.status);
                assert_eq!(is_hit(&reply), round > 0, "{driver} {name} {round}: {}", reply.field("cache-status"));
                assert!(!reply.field("content-type").is_empty(), "{name}");
                let part = fetch(&["--range", "3-8"], &url);
                assert!(part.status == 206 && part.body == content[3..9], "{driver} {name}");
                let head = fetch(&["--head"], &url);
                assert_eq!(head.field("content-length"), content.len().to_string());
                let condition = format!("If-None-Match: {}", reply.field("etag"));
                assert_eq!(fetch(&["--header", &condition], &url).status, 304);
            }
        }
        assert_eq!(fetch(&[], &format!("{}/none", server.url)).status, 404);
        until("the origin's log", PATIENCE, || (requests(&log) >= 3).then_some(()));
        assert_eq!(requests(&log), 3, "{driver}: {}", fs::read_to_string(&log).unwrap());
        server.process.signal("TERM");
        let ended = server.process.wait(PATIENCE);
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
    }
}

#[test]
fn bodies_from_the_store_arrive_over_tls_and_http2() {
    let (tree, folder) = (Tree::new(), TempDir::new().unwrap());
    let origin = origin(folder.path(), &tree, &[]);
    let text = configuration(folder.path(), &format!("{}/", origin.url), "");
    let server = mirror(folder.path(), &text, &["--tls", "self-signed"]);
    for protocol in ["--http1.1", "--http2"] {
        for _ in 0..2 {
            let reply = fetch(&["--insecure", protocol], &format!("{}/large.bin", server.url));
            assert!(reply.status == 200 && reply.body == large(), "{protocol}");
        }
        let part = fetch(&["--insecure", protocol, "--range", "1000000-2999999"], &format!("{}/large.bin", server.url));
        assert!(part.status == 206 && part.body == large()[1_000_000..3_000_000], "{protocol}");
    }
}

#[test]
fn what_was_kept_is_there_after_a_restart_though_the_origin_is_gone() {
    let (tree, folder) = (Tree::new(), TempDir::new().unwrap());
    let origin = origin(folder.path(), &tree, &[]);
    let text = configuration(folder.path(), &format!("{}/", origin.url), "");
    let server = mirror(folder.path(), &text, &[]);
    for name in ["text.txt", "large.bin"] {
        assert_eq!(fetch(&[], &format!("{}/{name}", server.url)).status, 200);
    }
    server.process.signal("TERM");
    assert_eq!(server.process.wait(PATIENCE).code, Some(0));
    drop(origin);
    let server = mirror(folder.path(), &text, &[]);
    for (name, content) in [("text.txt", TEXT), ("large.bin", &large())] {
        let reply = fetch(&[], &format!("{}/{name}", server.url));
        assert!(is_hit(&reply) && reply.body == content, "{name}: {reply:?}", reply = reply.fields);
    }
    let reply = fetch(&[], &format!("{}/data.json", server.url));
    assert!([502, 504].contains(&reply.status), "{}", reply.status);
    assert!(reply.field("cache-status").starts_with("thalweg;fwd="), "{}", reply.field("cache-status"));
    until("the reason", PATIENCE, || server.process.stderr().contains("an origin did not answer").then_some(()));
}

#[test]
fn contents_are_forwarded_where_the_mount_has_the_method() {
    let recorder = Recorder::start(|request| Response::good(&format!("{} {}", request.method, request.body.len())));
    let folder = TempDir::new().unwrap();
    let text = configuration(folder.path(), &recorder.url("/base/"), "methods = [\"GET\", \"HEAD\", \"POST\"]\n");
    let server = mirror(folder.path(), &text, &[]);
    let body = "x".repeat(200_000);
    let file = folder.path().join("body");
    fs::write(&file, &body).unwrap();
    let data = format!("@{}", file.display());
    for protocol in ["--http1.1", "--http2-prior-knowledge"] {
        let reply = fetch(&[protocol, "--data-binary", &data], &format!("{}/form?x=1", server.url));
        assert_eq!((reply.status, String::from_utf8_lossy(&reply.body).into_owned()), (200, "POST 200000".to_owned()));
        let put = fetch(&[protocol, "--request", "PUT"], &format!("{}/form", server.url));
        assert_eq!((put.status, put.field("allow")), (405, "GET, HEAD, POST, OPTIONS"), "{protocol}");
    }
    let received = recorder.received();
    assert_eq!(received.len(), 2);
    assert!(received.iter().all(|request| request.target == "/base/form?x=1" && request.body == body.as_bytes()));
}

#[test]
fn a_reload_changes_origins_and_mounts_and_keeps_the_volumes() {
    let recorders = ["one", "two"].map(|name| Recorder::start(move |_| Response::good(name)));
    let folder = TempDir::new().unwrap();
    let text = |number: usize| configuration(folder.path(), &recorders[number].url("/"), "");
    let server = mirror(folder.path(), &text(0), &[]);
    let content = |path: &str| String::from_utf8(fetch(&[], &format!("{}{path}", server.url)).body).unwrap();
    assert_eq!(content("/a"), "one");
    let reload = |text: &str, outcome: &str| {
        let before = server.process.stderr().matches(outcome).count();
        fs::write(folder.path().join("mirror.toml"), text).unwrap();
        server.process.signal("HUP");
        until(outcome, PATIENCE, || (server.process.stderr().matches(outcome).count() > before).then_some(()));
    };
    reload(&text(1), "the configuration was reloaded");
    assert_eq!(content("/b"), "two");
    reload(&text(0).replace("64MiB", "128MiB"), "except for disk_cache (needs a restart)");
    assert_eq!(content("/c"), "one");
    reload(&text(0).replace("origins = [\"o\"]", "origins = [\"p\"]"), "there is no [[origin]] named");
    assert_eq!(content("/d"), "one");
}

#[test]
fn options_are_short_for_one_origin_and_its_volume() {
    let recorder = Recorder::start(|request| Response::good(&request.target));
    let folder = TempDir::new().unwrap();
    let volume = folder.path().join("volume");
    let volume = volume.to_str().unwrap();
    let options = ["--origin", &recorder.url("/pub/"), "--cache", volume, "--cache-size", "64MiB"];
    let printed = run_thalweg(&[&["serve", "--print-config"], &options[..]].concat());
    let file = folder.path().join("printed.toml");
    fs::write(&file, &printed.stdout).unwrap();
    let check: fn(Server, &str) = |server, volume| {
        let reply = fetch(&[], &format!("{}/a%2Bb?c", server.url));
        assert_eq!(String::from_utf8_lossy(&reply.body), "/pub/a%2Bb?c");
        assert_eq!(fs::metadata(volume).unwrap().len(), 64 << 20);
    };
    let listen = ["--listen", "127.0.0.1:0", "--listen", "[::1]:0"];
    let launch = |_: &[&str]| -> Command { thalweg(&[&["serve"], &options[..], &listen[..]].concat()) };
    check(Server::start(Path::new("/"), &[], launch).unwrap_or_else(|ended| panic!("{ended:?}")), volume);
    check(Server::configured(&file, &[]), volume);
}

#[test]
fn an_origins_own_addresses_and_credentials_stay_between_it_and_the_server() {
    let recorder = Recorder::start(|request| {
        let host = request.field("host").unwrap();
        let fields = format!("Location: http://{host}/base/dir/\r\nCache-Control: max-age=60\r\n");
        let text = format!("HTTP/1.1 301 Moved Permanently\r\n{fields}Content-Length: 0\r\n\r\n");
        Response { text, ..Response::good("") }
    });
    let folder = TempDir::new().unwrap();
    let url = recorder.url("/base/").replace("http://", "http://user:hunter2@");
    let mount = "drop_headers = [\"X-Drop\"]\n";
    let text = configuration(folder.path(), &url, mount).replace("path = \"/\"", "path = \"/m/\"");
    let fields =
        "[origin.request_headers]\nset = { X-Set = \"1\" }\nremove = [\"Cookie\", \"X-Forwarded-For\"]\n[[site]]";
    let server = mirror(folder.path(), &text.replace("[[site]]", fields), &[]);
    for (round, client) in [(0, "a"), (1, "b")] {
        let options = ["-H", &*format!("Authorization: {client}"), "-H", "Cookie: c", "-H", "X-Drop: d"];
        let reply = fetch(&options, &format!("{}/m/dir", server.url));
        assert_eq!((reply.status, reply.field("location")), (301, "/m/dir/"));
        assert_eq!(is_hit(&reply), round > 0, "the origin's credentials are for all");
    }
    let asked = &recorder.received()[0];
    let sent = ["authorization", "x-set", "cookie", "x-drop", "x-forwarded-for"].map(|name| asked.field(name));
    assert_eq!(sent, [Some("Basic dXNlcjpodW50ZXIy"), Some("1"), None, None, None]);
    assert!(!server.process.stderr().contains("hunter2"), "{}", server.process.stderr());
    let file = folder.path().join("mirror.toml");
    let printed = run_thalweg(&["serve", "--print-config", "--config", file.to_str().unwrap()]);
    assert!(!printed.stdout.contains("hunter2"), "{}", printed.stdout);
}

/// An origin of HTTP/2 that answers the first request of each connection with 101.
fn raw_http2_origin() -> SocketAddr {
    const END_STREAM: u8 = 1;
    const END_HEADERS: u8 = 4;
    // A literal `:status: 101` without indexing, and `:status: 200` of the static table.
    const SWITCHING: &[u8] = b"\x08\x03101";
    const OK: &[u8] = b"\x88";
    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }
    fn serve(mut socket: TcpStream) -> std::io::Result<()> {
        socket.read_exact(&mut [0; 24])?;
        socket.write_all(&frame(4, 0, 0, &[]))?;
        loop {
            let mut head = [0; 9];
            socket.read_exact(&mut head)?;
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            socket.read_exact(&mut payload)?;
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            match head[3] {
                4 if head[4] == 0 => socket.write_all(&frame(4, 1, 0, &[]))?,
                1 if stream == 1 => socket.write_all(&frame(1, END_HEADERS | END_STREAM, stream, SWITCHING))?,
                1 => socket.write_all(&frame(1, END_HEADERS | END_STREAM, stream, OK))?,
                _ => {}
            }
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            std::thread::spawn(move || serve(socket));
        }
    });
    address
}

#[test]
fn a_101_that_nobody_asked_for_is_502_over_http2_too() {
    for protocol in ["--http1.1", "--http2-prior-knowledge"] {
        let (folder, address) = (TempDir::new().unwrap(), raw_http2_origin());
        let text = configuration(folder.path(), &format!("http://{address}/"), "");
        let text = text.replace("connect_time", "protocol = \"http2\"\nconnect_time");
        let server = mirror(folder.path(), &text, &[]);
        let status = |path: &str| fetch(&[protocol], &format!("{}/{path}", server.url)).status;
        assert_eq!(status("a"), 502, "{protocol}");
        // Neither the server nor its clients are stuck on another protocol.
        let statuses = [status("b"), status("c")];
        assert!(statuses.contains(&200), "{protocol}: {statuses:?}");
    }
}
