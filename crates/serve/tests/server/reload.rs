//! Logs and status listener of a server that runs, changed with its configuration.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use thalweg_serve::{LogFormat, LogTarget, ServerConfig, StartError, StatusConfig};
use thalweg_sys::DriverChoice;

use crate::naive::take_all;
use crate::served::{self, PATIENCE, Served, connect, each_driver, read_to_end};

const GET: &[u8] = b"GET /letters HTTP/1.1\r\nHost: h\r\n\r\n";

/// The configuration that the server was started with, with a change to it.
fn changed(served: &Served, driver: DriverChoice, change: impl FnOnce(&mut ServerConfig)) -> Arc<ServerConfig> {
    let mut config = ServerConfig::new(served.path(), ["127.0.0.1:0".parse::<SocketAddr>().unwrap()]);
    config.driver = driver;
    change(&mut config);
    Arc::new(config)
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[track_caller]
fn wait_for(path: &Path, count: usize) -> Vec<String> {
    served::wait_for(|| format!("{:#?}", lines(path)), || Some(lines(path)).filter(|lines| lines.len() >= count))
}

/// One request over a connection that is kept.
fn ask(stream: &mut TcpStream) {
    stream.write_all(GET).unwrap();
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"jkl") || bytes.len() < 1000 {
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "the connection stays");
        bytes.extend_from_slice(&buffer[..read]);
    }
}

#[test]
fn logs_begin_change_and_end_without_a_connection_noticing() {
    each_driver(|driver| {
        let Some(mut served) = Served::start(driver, |_| {}) else { return };
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
        let mut kept = served.connect();
        ask(&mut kept);
        let log = |served: &Served, path: &Path, format| {
            changed(served, driver, |config| {
                config.log.access = Some(LogTarget::File(path.to_owned()));
                config.log.format = format;
            })
        };
        served.server.configure(&log(&served, &first, LogFormat::Common)).unwrap();
        ask(&mut kept);
        // The client's address is known although it connected before the log was enabled.
        assert!(wait_for(&first, 1)[0].starts_with("127.0.0.1 - - ["), "{driver:?}");
        ask(&mut kept);
        served.server.configure(&log(&served, &second, LogFormat::Json)).unwrap();
        ask(&mut kept);
        assert!(wait_for(&second, 1).iter().all(|line| line.starts_with('{')), "{driver:?}");
        let nowhere = folder.path().join("nowhere/log");
        let refused = served.server.configure(&log(&served, &nowhere, LogFormat::Common));
        assert!(refused.is_err(), "{driver:?}");
        let before = lines(&second).len();
        ask(&mut kept);
        wait_for(&second, before + 1);
        served.server.configure(&changed(&served, driver, |_| {})).unwrap();
        ask(&mut kept);
        served.server.configure(&log(&served, &first, LogFormat::Combined)).unwrap();
        let before = lines(&first).len();
        ask(&mut kept);
        wait_for(&first, before + 1);
        drop(kept);
        served.stop();
        // A line under way at the change may be in either log, but each request to be logged has
        // one line.
        let all = [lines(&first), lines(&second)].concat();
        assert_eq!(all.len(), 5, "{driver:?}: {all:#?}");
        assert!(lines(&first).last().unwrap().ends_with("\"-\" \"-\""));
    });
}

#[test]
fn a_log_that_cannot_be_opened_is_named_and_nothing_changes() {
    each_driver(|driver| {
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().join("old");
        let access = LogTarget::File(old.clone());
        let Some(mut served) = Served::start(driver, |config| config.log.access = Some(access.clone())) else { return };
        let config = changed(&served, driver, |config| {
            config.log.access = Some(access.clone());
            config.log.error = LogTarget::File(folder.path().to_owned());
            config.limits.requests_per_connection_max = 1;
        });
        match served.server.configure(&config) {
            Err(StartError::Log { path, .. }) => assert_eq!(path, folder.path()),
            other => panic!("{driver:?}: {other:?}"),
        }
        let mut kept = served.connect();
        ask(&mut kept);
        ask(&mut kept);
        wait_for(&old, 2);
        served.stop();
    });
}

#[test]
fn responses_under_way_survive_the_end_and_the_beginning_of_accounting() {
    each_driver(|driver| {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let access = LogTarget::File(log.clone());
        let Some(mut served) = Served::start(driver, |config| config.log.access = Some(access.clone())) else { return };
        let mut stream = served.connect();
        stream
            .write_all(b"GET /sparse HTTP/1.1\r\nHost: h\r\nRange: bytes=0-19999999\r\nConnection: close\r\n\r\n")
            .unwrap();
        stream.read_exact(&mut [0; 100]).unwrap();
        served.server.configure(&changed(&served, driver, |_| {})).unwrap();
        served.server.configure(&changed(&served, driver, |config| config.log.access = Some(access.clone()))).unwrap();
        assert!(read_to_end(&mut stream).len() > 19_999_900);
        served.exchange(GET);
        served.stop();
        assert_eq!(lines(&log).len(), 1, "{driver:?}");
    });
}

fn status(address: SocketAddr) -> serde_json::Value {
    let mut stream = connect(address);
    stream.write_all(b"GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    serde_json::from_slice(&take_all(&read_to_end(&mut stream), &["GET"])[0].body).unwrap()
}

#[test]
fn the_status_listener_begins_moves_and_ends() {
    each_driver(|driver| {
        let Some(mut served) = Served::start(driver, |_| {}) else { return };
        let show = |served: &Served, listen: &str| {
            let status = StatusConfig::new(listen.parse().unwrap());
            changed(served, driver, |config| config.status = Some(status))
        };
        served.exchange(GET);
        served.server.configure(&show(&served, "127.0.0.1:0")).unwrap();
        let first = served.server.status_address().unwrap();
        served.exchange(GET);
        let days = |address: SocketAddr| status(address)["days"][0]["downloads"].as_u64();
        served::wait_for(|| format!("{:#}", status(first)), || days(first).filter(|downloads| *downloads == 1));
        // A client that is connected to the status listener stays connected.
        let mut visitor = connect(first);
        assert_eq!(status(first)["now"]["connections"], 0, "who came later has been answered");
        served.server.configure(&show(&served, "127.0.0.2:0")).unwrap();
        let second = served.server.status_address().unwrap();
        assert_eq!((second.ip().to_string(), days(second)), ("127.0.0.2".to_owned(), Some(1)), "{driver:?}");
        assert_eq!(status(second)["total"]["requests"], 2);
        visitor.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        assert_eq!(take_all(&read_to_end(&mut visitor), &["GET"])[0].body, b"ok\n");
        assert!(TcpStream::connect(first).is_err(), "{driver:?}");
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let config = show(&served, &taken.local_addr().unwrap().to_string());
        assert!(matches!(served.server.configure(&config), Err(StartError::Listen { .. })), "{driver:?}");
        assert_eq!(status(second)["state"], "serving");
        served.server.configure(&changed(&served, driver, |_| {})).unwrap();
        assert!(served.server.status_address().is_none() && TcpStream::connect(second).is_err(), "{driver:?}");
        served.exchange(GET);
        served.stop();
    });
}

/// Addresses with a free port each, for a configuration that names them. They follow from the
/// process, so that no other test takes the ports meanwhile.
fn fixed_addresses() -> [SocketAddr; 2] {
    let [.., high, low] = std::process::id().to_be_bytes();
    [51, 52].map(|network| {
        let listener = TcpListener::bind((Ipv4Addr::new(127, network, high, low), 0)).unwrap();
        listener.local_addr().unwrap()
    })
}

#[test]
fn listen_and_status_exchange_their_addresses_without_refusing_a_connection() {
    each_driver(|driver| {
        let [one, two] = fixed_addresses();
        let set = |config: &mut ServerConfig, listen: SocketAddr, status: SocketAddr| {
            config.listen = vec![listen.into()];
            config.status = Some(StatusConfig::new(status));
        };
        let Some(mut served) = Served::start(driver, |config| set(config, one, two)) else { return };
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Also if an assertion fails: the scope waits for its threads.
            let _ends = SetAtEnd(&is_over);
            // Both addresses accept connections all the time, and every connection gets a response,
            // from the server or from the status listener.
            for address in [one, two] {
                let is_over = &is_over;
                scope.spawn(move || {
                    while !is_over.load(Relaxed) {
                        let mut stream =
                            TcpStream::connect(address).unwrap_or_else(|error| panic!("{driver:?}: {error}"));
                        stream.set_read_timeout(Some(PATIENCE)).unwrap();
                        stream
                            .write_all(b"GET /none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                            .unwrap();
                        let response = take_all(&read_to_end(&mut stream), &["GET"]).remove(0);
                        assert_eq!(response.status, 404, "{driver:?}");
                    }
                });
            }
            for round in 0..6 {
                let (listen, shown) = if round % 2 == 0 { (two, one) } else { (one, two) };
                served.server.configure(&changed(&served, driver, |config| set(config, listen, shown))).unwrap();
                assert_eq!(served.server.status_address(), Some(shown), "{driver:?}");
                assert_eq!(served.server.addresses(), [listen.into()]);
                // Each role responds at its address from now on: no connection reaches the other by
                // chance.
                for _ in 0..20 {
                    assert_eq!(status(shown)["state"], "serving", "{driver:?}");
                    ask(&mut connect(listen));
                }
            }
        });
        served.stop();
    });
}

/// Sets a flag when it is dropped.
struct SetAtEnd<'f>(&'f AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn an_exchange_that_cannot_be_had_changes_nothing() {
    each_driver(|driver| {
        let [one, two] = fixed_addresses();
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let set = |config: &mut ServerConfig, listen: &[SocketAddr], status: SocketAddr| {
            config.listen = listen.iter().copied().map(Into::into).collect();
            config.status = Some(StatusConfig::new(status));
        };
        let Some(mut served) = Served::start(driver, |config| set(config, &[one], two)) else { return };
        let config = changed(&served, driver, |config| set(config, &[two, taken.local_addr().unwrap()], one));
        assert!(matches!(served.server.configure(&config), Err(StartError::Listen { .. })), "{driver:?}");
        assert_eq!(status(two)["state"], "serving", "{driver:?}");
        ask(&mut connect(one));
        served.stop();
    });
}
