//! The status listener: its documents, its health check, and misbehaving clients.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;

use serde_json::Value;
use thalweg_serve::{Server, ServerConfig, StartError, StatusConfig};

use crate::naive::{Response, take_all};
use crate::served::{self, PATIENCE, Served, connect, each_driver, letters, read_to_end, wait_for};

const GET: &[u8] = b"GET /letters HTTP/1.1\r\nHost: h\r\n\r\n";

fn with_status(state: Option<PathBuf>) -> impl FnOnce(&mut ServerConfig) {
    |config| config.status = Some(StatusConfig { state, ..StatusConfig::new("127.0.0.1:0".parse().unwrap()) })
}

fn address(served: &Served) -> SocketAddr {
    served.server.status_address().expect("a server with a status listener")
}

fn ask(address: SocketAddr, request: &str) -> Response {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).unwrap();
    take_all(&read_to_end(&mut stream), &[request.split(' ').next().unwrap()]).remove(0)
}

fn get(address: SocketAddr, target: &str) -> Response {
    ask(address, &format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
}

fn status(address: SocketAddr) -> Value {
    serde_json::from_slice(&get(address, "/status.json").body).unwrap()
}

/// Waits until the status fulfils a condition.
#[track_caller]
fn until(address: SocketAddr, is_so: impl Fn(&Value) -> bool) -> Value {
    let describe = || format!("{:#}", status(address));
    wait_for(describe, || Some(status(address)).filter(&is_so))
}

#[test]
fn downloads_are_counted_and_named() {
    each_driver(|driver| {
        let Some(served) = Served::start(driver, with_status(None)) else { return };
        let address = address(&served);
        for _ in 0..3 {
            served.exchange(GET);
        }
        served.exchange(
            b"GET /large.bin HTTP/1.1\r\nHost: h\r\nRange: bytes=0-9\r\n\r\nGET /none HTTP/1.1\r\nHost: h\r\n\r\n",
        );
        let status =
            until(address, |status| status["top_files"][0]["downloads"] == 3 && status["days"][0]["downloads"] == 3);
        assert_eq!((&status["schema"], &status["state"]), (&"thalweg.status/1".into(), &"serving".into()));
        assert_eq!(status["top_files"][0]["file"], "/letters", "{driver:?}");
        assert_eq!(status["top_files"][0]["bytes"], 3 * letters().len());
        assert_eq!((&status["total"]["requests"], &status["total"]["downloads"]), (&5.into(), &3.into()));
        assert_eq!(
            (&status["total"]["responses"]["2xx"], &status["total"]["responses"]["4xx"]),
            (&4.into(), &1.into())
        );
        assert_eq!((&status["mounts"][0]["mount"], &status["mounts"][0]["downloads"]), (&"/".into(), &3.into()));
        assert_eq!(status["days"][0]["unique_files"], 1);
        assert_eq!(status["total"]["bytes"], status["mounts"][0]["bytes"]);
        let open_metrics = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text\r\n\r\n";
        for (request, kind, family) in [
            ("GET /metrics HTTP/1.0\r\n\r\n", "text/plain; version=0.0.4; charset=utf-8", "thalweg_downloads_total"),
            (open_metrics, "application/openmetrics-text; version=1.0.0; charset=utf-8", "thalweg_downloads"),
        ] {
            let response = ask(address, request);
            assert_eq!(response.field("content-type"), Some(kind));
            let metrics = String::from_utf8(response.body).unwrap();
            assert!(metrics.contains("\nthalweg_downloads_total{mount=\"/\"} 3\n"), "{metrics}");
            assert!(metrics.contains(&format!("\n# TYPE {family} counter\n")), "{metrics}");
            assert_eq!(metrics.ends_with("# EOF\n"), request == open_metrics);
        }
        let page = get(address, "/");
        assert_eq!(page.field("content-type"), Some("text/html; charset=utf-8"));
        assert!(String::from_utf8(page.body).unwrap().contains("/letters"));
        served.stop();
    });
}

#[test]
fn a_download_under_way_is_counted_and_draining_is_shown() {
    each_driver(|driver| {
        let Some(served) = Served::start(driver, with_status(None)) else { return };
        let address = address(&served);
        assert_eq!((get(address, "/healthz").status, get(address, "/healthz").body), (200, b"ok\n".to_vec()));
        let mut downloading = served.connect();
        downloading.write_all(b"GET /sparse HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        downloading.read_exact(&mut [0; 1000]).unwrap();
        // Two accounts, of which either may be the first to be up to date.
        until(address, |status| status["now"]["downloads"] == 1 && status["now"]["connections"] == 1);
        served.server.drain(PATIENCE);
        until(address, |status| status["state"] == "draining");
        assert_eq!(get(address, "/healthz").status, 503);
        downloading.shutdown(Shutdown::Both).unwrap();
        drop(downloading);
        served.server.join().unwrap();
    });
}

#[test]
fn the_days_survive_a_restart() {
    each_driver(|driver| {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state.json");
        for run in 1..=3 {
            let Some(served) = Served::start(driver, with_status(Some(state.clone()))) else { return };
            served.exchange(GET);
            let status = until(address(&served), |status| status["days"][0]["downloads"] == run);
            assert_eq!((&status["total"]["downloads"], &status["days"][0]["unique_files"]), (&1.into(), &1.into()));
            served.stop();
        }
    });
}

#[test]
fn only_what_is_there_is_answered() {
    let Some(served) = Served::start(thalweg_sys::DriverChoice::Epoll, with_status(None)) else { return };
    let address = address(&served);
    for (request, expected) in [
        ("GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        ("GET /../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        ("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc", 405),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("HEAD /?refresh HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        ("GET /status.js HTTP/1.0\r\n\r\n", 200),
        ("GET http://localhost/status.js HTTP/1.1\r\nHost: h\r\n\r\n", 200),
        ("HEAD /none HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        ("nonsense\r\n\r\n", 400),
    ] {
        let response = ask(address, request);
        assert_eq!(response.status, expected, "{request}");
        assert_eq!(response.field("x-content-type-options"), Some("nosniff"));
        let date = response.field("date").unwrap_or_else(|| panic!("no Date for {request}"));
        assert!(date.len() == 29 && date.ends_with(" GMT"), "{date}");
    }
    served.stop();
}

#[test]
fn a_page_of_another_name_does_not_read_the_status_through_a_browser() {
    let allow = |config: &mut ServerConfig| {
        with_status(None)(config);
        config.status.as_mut().unwrap().allowed_hosts = vec!["status.example".to_owned()];
    };
    let Some(served) = Served::start(thalweg_sys::DriverChoice::Epoll, allow) else { return };
    let address = address(&served);
    for (host, expected) in [
        (address.to_string().as_str(), 200),
        ("[::1]:9180", 200),
        ("LocalHost:9180", 200),
        ("status.example", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
    ] {
        for (path, target) in
            [("/status.json", ""), ("/metrics", ""), ("/healthz", ""), ("/", &*format!("http://{host}"))]
        {
            let other = if target.is_empty() { host } else { "localhost" };
            let response = ask(address, &format!("GET {target}{path} HTTP/1.1\r\nHost: {other}\r\n\r\n"));
            assert_eq!(response.status, expected, "{host} {path}");
            let text = String::from_utf8_lossy(&response.body).into_owned();
            assert_eq!(text.contains("allowed_hosts of [status]"), expected == 421, "{text}");
            assert!(response.field("date").is_some());
        }
    }
    let mut served = served;
    let mut config = ServerConfig::new(served.path(), ["127.0.0.1:0".parse::<SocketAddr>().unwrap()]);
    with_status(None)(&mut config);
    config.status.as_mut().unwrap().allowed_hosts = vec!["other.example".to_owned()];
    served.server.configure(&std::sync::Arc::new(config)).unwrap();
    for (host, expected) in [("status.example", 421), ("other.example", 200)] {
        let request = format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n");
        served::until(host, || ask(address, &request).status == expected);
    }
    served.stop();
}

#[test]
fn visitors_who_say_nothing_keep_nobody_waiting() {
    let Some(served) = Served::start(thalweg_sys::DriverChoice::Epoll, with_status(None)) else { return };
    let address = address(&served);
    let mute: Vec<TcpStream> = (0..200).map(|_| connect(address)).collect();
    let halfway = mute.iter().step_by(2).map(|mut stream| stream.write_all(b"GET / HT"));
    // Those beyond the bound may have to wait before they are received.
    halfway.for_each(drop);
    assert_eq!(get(address, "/healthz").status, 200);
    served.stop();
}

#[test]
fn an_address_that_is_taken_is_reported() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut config = ServerConfig::new(folder.path(), ["127.0.0.1:0".parse::<SocketAddr>().unwrap()]);
    let listen = taken.local_addr().unwrap();
    config.status = Some(StatusConfig::new(listen));
    let error = Server::start(config).expect_err("an address that is taken");
    assert!(matches!(error, StartError::Listen { .. }), "{error}");
    assert!(error.to_string().contains(&listen.to_string()), "{error}");
}
