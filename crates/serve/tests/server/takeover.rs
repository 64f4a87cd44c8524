//! A server that changes, or gives way to another one, while clients come and go.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tempfile::TempDir;
use thalweg_serve::{CatalogError, Group, ListenAddr, Listeners, Server, ServerConfig, StartError, loop_count};
use thalweg_sys::DriverChoice;
use thalweg_sys::socket::SocketFile;

use crate::naive::take_all;
use crate::served::{Served, await_liveness, connect, each_driver, letters, read_to_end, tcp};

const GET_AND_CLOSE: &[u8] = b"GET /letters HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

fn body(mut stream: TcpStream) -> Vec<u8> {
    stream.write_all(GET_AND_CLOSE).unwrap();
    take_all(&read_to_end(&mut stream), &["GET"]).remove(0).body
}

/// The configuration that a served folder's server has, for another folder.
fn config(driver: DriverChoice, folder: &TempDir, listen: &[ListenAddr]) -> ServerConfig {
    let mut config = ServerConfig::new(folder.path(), listen.to_vec());
    config.driver = driver;
    config
}

fn any_port() -> ListenAddr {
    SocketAddr::from(([127, 0, 0, 1], 0)).into()
}

/// Another one on the same sockets.
fn successor(of: &Served, driver: DriverChoice, folder: &TempDir) -> Result<thalweg_serve::Running, StartError> {
    let groups = of.server.with_listeners(|listeners| {
        let copy = |group: &Group| {
            let sockets = group.sockets.iter().map(|socket| socket.as_fd().try_clone_to_owned().unwrap()).collect();
            Group { asked: group.asked.clone(), by_service_manager: group.by_service_manager, sockets }
        };
        listeners.groups().map(copy).collect()
    });
    let config = config(driver, folder, &[any_port()]);
    let listeners = Listeners::open(&config.listen, SocketFile::default(), groups, loop_count(&config)?)?;
    Server::start_on(config, listeners)
}

#[test]
fn no_connection_is_lost_between_two_servers() {
    each_driver(|driver| {
        let Some(mut served) = Served::start(driver, |_| {}) else { return };
        let address = served.address();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let clients: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let mut answers = 0u32;
                        while !stop.load(Ordering::Relaxed) {
                            let body = body(connect(address));
                            assert!(body == letters() || body == b"successor", "{driver:?}");
                            answers += 1;
                        }
                        answers
                    })
                })
                .collect();
            // Several times, since what could be lost is lost by chance.
            let folders: [_; 10] = std::array::from_fn(|_| TempDir::new().unwrap());
            for folder in &folders {
                fs::write(folder.path().join("letters"), "successor").unwrap();
                let next = successor(&served, driver, folder).unwrap();
                assert_eq!(tcp(&next.addresses()[0]), address);
                served.server.hand_over(None);
                next.look_again();
                let before = std::mem::replace(&mut served.server, next);
                before.join().unwrap();
                assert_eq!(body(connect(address)), b"successor", "{driver:?}");
            }
            stop.store(true, Ordering::Relaxed);
            for client in clients {
                assert!(client.join().unwrap() > 0, "{driver:?}");
            }
        });
        served.stop();
    });
}

#[test]
fn a_connection_that_has_not_asked_yet_is_answered_by_the_one_that_has_it() {
    each_driver(|driver| {
        let Some(mut served) = Served::start(driver, |_| {}) else { return };
        let mut kept = connect(served.address());
        kept.write_all(b"HEAD /letters HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        assert!(kept.read(&mut [0; 1000]).unwrap() > 0);
        let silent = connect(served.address());
        // Connections are accepted in order: when a later one has a response, both have been
        // accepted.
        assert_eq!(body(connect(served.address())), letters());
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("letters"), "successor").unwrap();
        let next = successor(&served, driver, &folder).unwrap();
        served.server.hand_over(None);
        next.look_again();
        let before = std::mem::replace(&mut served.server, next);
        for stream in [kept, silent] {
            let body = body(stream);
            assert!(body == letters() || body == b"successor", "{driver:?}");
        }
        before.join().unwrap();
        served.stop();
    });
}

#[test]
fn a_new_configuration_holds_for_the_next_request() {
    each_driver(|driver| {
        let Some(mut served) = Served::start(driver, |_| {}) else { return };
        let address = served.address();
        let mut downloading = connect(address);
        downloading.write_all(b"GET /sparse HTTP/1.1\r\nHost: h\r\nRange: bytes=0-19999999\r\n\r\n").unwrap();
        downloading.read_exact(&mut [0; 100]).unwrap();
        let other = TempDir::new().unwrap();
        fs::write(other.path().join("letters"), "other").unwrap();
        let unix = ListenAddr::Unix(other.path().join("socket"));
        let mut changed = config(driver, &other, &[any_port(), any_port(), unix]);
        changed.limits.requests_per_connection_max = 1;
        served.server.configure(&Arc::new(changed)).unwrap();

        let addresses = served.server.addresses().to_vec();
        assert_eq!((addresses.len(), tcp(&addresses[0])), (3, address));
        for of in [tcp(&addresses[0]), tcp(&addresses[1])] {
            assert_eq!(body(connect(of)), b"other", "{driver:?}");
        }
        let mut stream = std::os::unix::net::UnixStream::connect(other.path().join("socket")).unwrap();
        // One request per connection now: the server ends it.
        stream.write_all(b"GET /letters HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        assert_eq!(take_all(&bytes, &["GET"])[0].body, b"other");
        // The download under way is not disturbed.
        let mut rest = vec![0; 19_999_900];
        downloading.read_exact(&mut rest).unwrap();

        served.server.configure(&Arc::new(config(driver, &other, &[any_port()]))).unwrap();
        assert!(!other.path().join("socket").exists());
        assert_eq!(body(connect(address)), b"other");
        served.stop();
    });
}

#[test]
fn a_configuration_that_cannot_be_had_changes_nothing() {
    each_driver(|driver| {
        let Some(mut served) = Served::start(driver, |_| {}) else { return };
        let taken = served.address();
        let folder = TempDir::new().unwrap();
        let missing = ServerConfig::new(folder.path().join("missing"), [any_port()]);
        assert!(matches!(
            served.server.configure(&Arc::new(missing)),
            Err(StartError::Catalog(CatalogError::Root { .. }))
        ));
        // The address is in use: by this server itself, under another name.
        let twice = config(driver, &folder, &[any_port(), taken.into()]);
        assert!(matches!(served.server.configure(&Arc::new(twice)), Err(StartError::Listen { .. })));
        assert_eq!(body(connect(taken)), letters(), "{driver:?}");
        served.stop();
    });
}

#[test]
fn every_loop_answers_when_asked() {
    each_driver(|driver| {
        let Some(served) = Served::start(driver, |_| {}) else { return };
        await_liveness(&served.server);
        served.stop();
    });
}
