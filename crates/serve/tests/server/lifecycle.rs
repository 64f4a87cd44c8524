//! Connections, files and the server itself over time, over both drivers.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use std::{fs, iter};

use thalweg_serve::{CatalogError, Server, ServerConfig, StartError};
use thalweg_sys::DriverChoice;

use crate::naive::{take, take_all};
use crate::served::{PATIENCE, Served, await_liveness, connect, each_driver, large, letters, read_to_end, tcp};

const GET: &[u8] = b"GET /letters HTTP/1.1\r\nHost: h\r\n\r\n";

/// Reads as many bytes as a response to [`GET`] has, and checks the body.
fn read_letters(stream: &mut impl Read) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while take(&mut bytes.as_slice(), "GET").is_none() {
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "half a response: {}", bytes.escape_ascii());
        bytes.extend_from_slice(&buffer[..read]);
    }
    assert_eq!(take_all(&bytes, &["GET"])[0].body, letters());
}

#[test]
fn a_half_closed_client_is_answered_in_full() {
    each_driver(|driver| {
        let Some(served) = Served::start(driver, |_| {}) else { return };
        let request = b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n".repeat(4);
        let responses = take_all(&served.exchange(&request), &["GET"]);
        assert_eq!(responses.len(), 4);
        assert!(responses.iter().all(|response| response.body == large()), "{driver:?}");
        // An end inside a head, or before any byte.
        assert_eq!(served.exchange(b"GET /letters HT"), b"");
        assert_eq!(served.exchange(b""), b"");
        served.stop();
    });
}

#[test]
fn a_client_that_reads_late_gets_everything() {
    each_driver(|driver| {
        let Some(served) = Served::start(driver, |_| {}) else { return };
        let requests = GET.repeat(20_000);
        let mut stream = served.connect();
        let mut writer = stream.try_clone().unwrap();
        let writing = std::thread::spawn(move || {
            writer.write_all(&requests).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let bytes = read_to_end(&mut stream);
        writing.join().unwrap();
        let responses = take_all(&bytes, &["GET"]);
        assert_eq!(responses.len(), 20_000, "{driver:?}");
        assert!(responses.iter().all(|response| response.body == letters()));
        served.stop();
    });
}

#[test]
fn a_refused_upload_reads_its_response() {
    each_driver(|driver| {
        let Some(served) = Served::start(driver, |_| {}) else { return };
        let mut stream = served.connect();
        stream.write_all(b"POST /letters HTTP/1.1\r\nHost: h\r\nContent-Length: 500000\r\n\r\n").unwrap();
        stream.write_all(&vec![0; 500_000]).unwrap();
        let responses = take_all(&read_to_end(&mut stream), &["POST"]);
        assert_eq!((responses.len(), responses[0].status), (1, 405), "{driver:?}");
        served.stop();
    });
}

#[test]
fn a_file_that_shrinks_while_it_is_known_resets_the_connection() {
    each_driver(|driver| {
        let change = |config: &mut ServerConfig| {
            config.cache.age = Duration::from_secs(3600);
            config.cache.watch = false;
            // One CPU, since each has a cache of its own.
            config.cpus.push(thalweg_sys::affinity::allowed_cpus().unwrap()[0]);
        };
        let Some(served) = Served::start(driver, change) else { return };
        let request = b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n";
        assert_eq!(take_all(&served.exchange(request), &["GET"]).len(), 1);
        let file = fs::File::options().write(true).open(served.path().join("large.bin")).unwrap();
        file.set_len(1_000_000).unwrap();
        let mut stream = served.connect();
        stream.write_all(&request.repeat(2)).unwrap();
        let mut bytes = Vec::new();
        let error = stream.read_to_end(&mut bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{driver:?}");
        // A reset may overtake what was sent before it.
        assert!(take(&mut bytes.as_slice(), "GET").is_none(), "{driver:?}: a whole response");
        let body = bytes.windows(4).position(|window| window == b"\r\n\r\n").map_or(&[][..], |at| &bytes[at + 4..]);
        assert!(large()[..1_000_000].starts_with(body), "{driver:?}: {} bytes", bytes.len());
        // The next request gets the present content.
        let response = take_all(&served.exchange(request), &["GET"]).remove(0);
        assert!(response.body == large()[..1_000_000], "{driver:?}: {} bytes", response.body.len());
        served.stop();
    });
}

#[test]
fn a_change_is_seen_at_once_without_an_age() {
    each_driver(|driver| {
        let Some(served) = Served::start(driver, |config| config.cache.age = Duration::ZERO) else { return };
        let path = served.path().join("letters");
        for text in ["one", "two!", "three", "3"] {
            fs::write(&path, text).unwrap();
            assert_eq!(take_all(&served.exchange(GET), &["GET"])[0].body, text.as_bytes(), "{driver:?}");
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(take_all(&served.exchange(GET), &["GET"])[0].status, 404);
        served.stop();
    });
}

#[test]
fn requests_per_connection_are_limited() {
    each_driver(|driver| {
        let change = |config: &mut ServerConfig| config.limits.requests_per_connection_max = 3;
        let Some(served) = Served::start(driver, change) else { return };
        let responses = take_all(&served.exchange(&GET.repeat(5)), &["GET"]);
        let closing: Vec<_> = responses.iter().map(|response| response.field("connection")).collect();
        assert_eq!(closing, [None, None, Some("close")], "{driver:?}");
        served.stop();
    });
}

#[test]
fn a_newcomer_takes_the_place_of_the_idlest() {
    each_driver(|driver| {
        let change = |config: &mut ServerConfig| {
            config.limits.connections_max = 2;
            config.cpus.push(thalweg_sys::affinity::allowed_cpus().unwrap()[0]);
        };
        let Some(served) = Served::start(driver, change) else { return };
        let ask = || {
            let mut stream = served.connect();
            stream.write_all(GET).unwrap();
            read_letters(&mut stream);
            stream
        };
        let (mut first, mut second, mut third) = (ask(), ask(), ask());
        assert_eq!(first.read(&mut [0]).unwrap(), 0, "{driver:?}: the idlest was closed");
        for stream in [&mut second, &mut third] {
            stream.write_all(GET).unwrap();
            read_letters(stream);
        }
        served.stop();
    });
}

#[test]
fn more_connections_than_a_table_holds_are_spread_over_several() {
    each_driver(|driver| {
        let change = |config: &mut ServerConfig| {
            config.cpus.push(thalweg_sys::affinity::allowed_cpus().unwrap()[0]);
            config.limits.connections_max = thalweg_sys::resource_limits::descriptors().soft as usize;
        };
        let Some(mut served) = Served::start(driver, change) else { return };
        assert_eq!(served.server.cpus(), 1);
        assert!(served.server.loops() > 1, "several tables");
        // The liveness figure covers all loops, not one.
        await_liveness(&served.server);
        let exchange = |address: SocketAddr| {
            let mut stream = connect(address);
            stream.write_all(b"GET /large.bin HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
            assert!(take_all(&read_to_end(&mut stream), &["GET"])[0].body == large());
        };
        let first = served.address();
        // Enough connections to reach all loops, however the kernel distributes them.
        (0..60).for_each(|_| exchange(first));
        // Listeners that come later get into the loops' tables, and out of them again.
        let mut listen_on = |addresses: &[&str]| {
            let addresses = addresses.iter().map(|address| address.parse::<SocketAddr>().unwrap());
            let mut config = ServerConfig::new(served.path(), addresses);
            change(&mut config);
            served.server.configure(&config.into()).unwrap();
            served.server.addresses().iter().map(tcp).collect::<Vec<_>>()
        };
        let both = listen_on(&["127.0.0.1:0", "127.0.0.2:0"]);
        assert_eq!(both[0], first);
        (0..60).for_each(|_| both.iter().copied().for_each(exchange));
        assert_eq!(listen_on(&["127.0.0.2:0"]), both[1..]);
        // One loop lets go a little before the other, and then may refuse one connection of
        // several.
        let is_refused = |address: SocketAddr| {
            let start = Instant::now();
            let all_refused = || (0..20).all(|_| TcpStream::connect(address).is_err());
            iter::repeat_with(all_refused).take_while(|_| start.elapsed() < PATIENCE).any(|refused| refused)
        };
        // No loop keeps the listener of another one open.
        assert!(is_refused(first), "{driver:?}");
        let mut under_way = connect(served.address());
        under_way.write_all(b"GET /sparse HTTP/1.1\r\nHost: h\r\nRange: bytes=0-49999999\r\n\r\n").unwrap();
        under_way.read_exact(&mut [0; 1000]).unwrap();
        served.server.drain(PATIENCE);
        assert!(is_refused(both[1]), "{driver:?}");
        assert!(read_to_end(&mut under_way).len() > 49_990_000, "{driver:?}");
        served.server.join().unwrap();
    });
}

#[test]
fn draining_finishes_downloads_and_closes_the_idle() {
    each_driver(|driver| {
        // One loop: when a later connection gets its response, an earlier one's bytes have been
        // read.
        let change = |config: &mut ServerConfig| {
            config.cpus.push(thalweg_sys::affinity::allowed_cpus().unwrap()[0]);
        };
        let Some(served) = Served::start(driver, change) else { return };
        let mut idle = served.connect();
        idle.write_all(GET).unwrap();
        read_letters(&mut idle);
        let mut halfway = served.connect();
        halfway.write_all(&GET[..10]).unwrap();
        let mut downloading = served.connect();
        // More than the socket buffers of both sides hold, so that it cannot be through before the
        // drain.
        downloading.write_all(b"GET /sparse HTTP/1.1\r\nHost: h\r\nRange: bytes=0-49999999\r\n\r\n").unwrap();
        let mut first = [0; 1000];
        downloading.read_exact(&mut first).unwrap();
        served.server.drain(PATIENCE);
        assert_eq!(idle.read(&mut first).unwrap(), 0, "{driver:?}: the idle connection ends");
        halfway.write_all(&GET[10..]).unwrap();
        let responses = take_all(&read_to_end(&mut halfway), &["GET"]);
        assert_eq!(responses[0].field("connection"), Some("close"), "{driver:?}");
        let rest = read_to_end(&mut downloading);
        assert!(rest.len() + first.len() > 50_000_000, "{driver:?}: {} bytes", rest.len());
        let totals = served.server.join().unwrap();
        assert_eq!((totals.accepted, totals.open, totals.requests), (3, 0, 3), "{driver:?}");
        assert_eq!(totals.responses, [3, 0, 0, 0]);
        assert!(totals.bytes > 50_002_000);
    });
}

#[test]
fn stopping_ends_everything_at_once() {
    each_driver(|driver| {
        let Some(served) = Served::start(driver, |_| {}) else { return };
        let mut downloading = served.connect();
        downloading.write_all(b"GET /sparse HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        downloading.read_exact(&mut [0; 1000]).unwrap();
        served.server.stop();
        served.server.join().unwrap();
        // An end or a reset; not the whole.
        let mut rest = Vec::new();
        let _ = downloading.read_to_end(&mut rest);
        assert!(rest.len() < 1 << 30, "{driver:?}");
    });
}

#[test]
fn several_addresses_of_both_families_on_all_loops() {
    each_driver(|driver| {
        let listen: Vec<SocketAddr> = vec!["127.0.0.1:0".parse().unwrap(), "[::1]:0".parse().unwrap()];
        let Some(served) = Served::start(driver, |config| config.listen = listen.into_iter().map(Into::into).collect())
        else {
            return;
        };
        let addresses: Vec<_> = served.server.addresses().iter().map(tcp).collect();
        assert!(addresses[0].is_ipv4() && addresses[1].is_ipv6());
        assert!(addresses.iter().all(|address| address.port() != 0));
        for round in 0..20 {
            let mut stream = connect(addresses[round % 2]);
            stream.write_all(GET).unwrap();
            read_letters(&mut stream);
        }
        served.server.stop();
        assert_eq!(served.server.join().unwrap().accepted, 20);
    });
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let folder = tempfile::TempDir::new().unwrap();
    // Of an address that no other test uses: they may be given its port as soon as it is free.
    let taken = TcpListener::bind("127.0.0.77:0").unwrap();
    let address = taken.local_addr().unwrap();
    let start = |root: &std::path::Path, listen: Vec<SocketAddr>| {
        Server::start(ServerConfig::new(root, listen)).expect_err("a server that cannot start")
    };
    assert!(matches!(start(folder.path(), vec![]), StartError::NoAddress));
    let error = start(folder.path(), vec![address]);
    assert!(matches!(error, StartError::Listen { .. }), "{error}");
    assert!(error.to_string().starts_with(&format!("cannot listen on {address}: ")), "{error}");
    let error = start(&folder.path().join("missing"), vec!["127.0.0.1:0".parse().unwrap()]);
    assert!(matches!(error, StartError::Catalog(CatalogError::Root { .. })), "{error}");
    let mut config = ServerConfig::new(folder.path(), ["127.0.0.1:0".parse::<SocketAddr>().unwrap()]);
    config.cpus = vec![thalweg_sys::affinity::allowed_cpus().unwrap()[0], 4000];
    config.driver = DriverChoice::Epoll;
    config.listen = vec![address.into()];
    drop(taken);
    let error = Server::start(config).expect_err("a CPU that does not exist");
    assert!(matches!(error, StartError::Pin { cpu: 4000, .. }), "{error}");
    TcpListener::bind(address).expect("nothing is left running");
}

#[test]
fn a_port_is_not_shared_with_another_server() {
    each_driver(|driver| {
        let Some(served) = Served::start(driver, |_| {}) else { return };
        let error = Server::start(ServerConfig::new(served.path(), vec![served.address()])).expect_err("shared");
        assert!(matches!(error, StartError::Listen { .. }), "{driver:?}: {error}");
        served.stop();
    });
}
