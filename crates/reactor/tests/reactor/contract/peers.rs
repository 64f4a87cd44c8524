//! Peer addresses: Unix sockets and local ports, only over the kernel.

use std::net::{IpAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicU32, Ordering};

use thalweg_sys::driver::{Connect, Driver, Listen, ReceiveMode};
use thalweg_sys::{Fault, PortRange, UnixAddr};

use crate::contract::stage::{LOOPBACK_V4, Open, Stage, assert_same, pattern};

pub(crate) fn echoes_over_a_unix_path<D: Driver>(open: Open<'_, D>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    echoes(&mut open(8), &UnixAddr::new(&path).unwrap());
    assert!(path.exists(), "the file is left to its owner");
}

pub(crate) fn echoes_over_an_abstract_name<D: Driver>(open: Open<'_, D>) {
    echoes(&mut open(8), &abstract_name("echo"));
}

fn echoes<D: Driver>(stage: &mut Stage<D>, addr: &UnixAddr) {
    let listener = stage.driver.listen(Listen::Unix(addr.clone())).unwrap();
    stage.note_listener(listener);
    for _ in 0..3 {
        let (client, server) = stage.pair_to(listener, &Connect::to(addr.clone()));
        assert!(stage.driver.peer_addr(client).is_err(), "it is not an address of the network");
        stage.send(client, pattern(1, 0, 1_000_000));
        assert_same(&stage.until_received(server, 1_000_000), &pattern(1, 0, 1_000_000));
        stage.until_sent(client);
        stage.send(server, "heard");
        assert_eq!(stage.until_received(client, 5), b"heard");
        stage.until_sent(server);
        stage.close(client);
        stage.until("the server is told", |stage| stage.socket(server).is_over());
        stage.close(server);
    }
    stage.close_listener(listener);
}

/// The epoll driver once reported a later event of the failed socket as if it were connected.
pub(crate) fn a_unix_connect_that_fails_at_once_is_told_once<D: Driver>(open: Open<'_, D>) {
    let mut stage = open(8);
    for text in ["/nonexistent/socket".to_owned(), abstract_name("nobody").to_string()] {
        let client = stage.try_connect(&Connect::to(UnixAddr::new(&text).unwrap())).unwrap();
        stage.until("the connect fails", |stage| stage.socket(client).failed.is_some());
        stage.linger(2_000_000);
        let state = stage.socket(client);
        assert!(!state.connected);
        let error = state.failed.as_ref().unwrap();
        assert_eq!(Fault::of(error), Fault::Refused, "{text}: {error}");
        stage.close(client);
    }
}

/// A peer that does not accept fills its queue. What comes then is refused; the kernel calls it
/// EAGAIN.
pub(crate) fn a_full_unix_listener_refuses<D: Driver>(open: Open<'_, D>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("full");
    let server = UnixListener::bind(&path).unwrap();
    // A short queue instead of the library's long one.
    rustix::net::listen(&server, 1).unwrap();
    let addr = UnixAddr::new(&path).unwrap();
    let mut stage = open(16);
    let clients: Vec<_> = (0..6).map(|_| stage.try_connect(&Connect::to(addr.clone())).unwrap()).collect();
    stage.until("each connect has an outcome", |stage| {
        clients.iter().map(|&client| stage.socket(client)).all(|state| state.connected || state.failed.is_some())
    });
    let (mut connected, mut refused) = (0, 0);
    for &client in &clients {
        let state = stage.socket(client);
        connected += usize::from(state.connected);
        if let Some(error) = &state.failed {
            assert_eq!(Fault::of(error), Fault::Refused, "{error}");
            refused += 1;
        }
    }
    assert_eq!((connected, refused), (2, 4), "the queue holds its length and one more");
    for client in clients {
        stage.close(client);
    }
    stage.linger(1_000_000);
}

pub(crate) fn a_unix_socket_receives_on_demand<D: Driver>(open: Open<'_, D>) {
    let addr = abstract_name("on_demand");
    let mut stage = open(8);
    let listener = stage.driver.listen(Listen::Unix(addr.clone())).unwrap();
    stage.note_listener(listener);
    let receive_mode = ReceiveMode::OnDemand { window_bytes: 4096 };
    let (client, server) = stage.pair_to(listener, &Connect { receive_mode, ..Connect::to(addr) });
    stage.send(server, pattern(2, 0, 2_000_000));
    stage.linger(10_000_000);
    assert!(stage.socket(server).sending, "nobody reads");
    while stage.socket(client).received.len() < 2_000_000 {
        stage.ask(client, 50_000);
        stage.until("what was asked for", |stage| stage.socket(client).asked == 0);
    }
    assert_same(&stage.take_received(client), &pattern(2, 0, 2_000_000));
}

pub(crate) fn comes_from_the_ports_asked_for<D: Driver>(open: Open<'_, D>) {
    // Below what the kernel gives out by itself, so that only other tests of this kind are in the
    // way.
    let ports = PortRange::new(21_000, 21_999).unwrap();
    let mut stage = open(64);
    for (at, source) in [(LOOPBACK_V4, None), (LOOPBACK_V4, Some("127.0.0.3")), ("[::1]:0", None)] {
        let source: Option<IpAddr> = source.map(|source| source.parse().unwrap());
        let (listener, addr) = stage.listen(at);
        let mut seen = Vec::new();
        for _ in 0..5 {
            let (client, _) = stage.pair_to(listener, &Connect { source, ports: Some(ports), ..Connect::tcp(addr) });
            let local = stage.driver.local_addr(client).unwrap();
            assert!(ports.contains(local.port()), "{local} is not in {ports}");
            assert!(source.is_none_or(|source| local.ip() == source), "{local} is not {source:?}");
            seen.push(local.port());
        }
        assert!(seen.windows(2).all(|two| two[0] != two[1]), "one after the other: {seen:?}");
    }
}

pub(crate) fn ports_that_are_taken_are_passed_over<D: Driver>(open: Open<'_, D>) {
    // An address of this test alone, since others would try the same ports.
    let [.., high, low] = std::process::id().to_be_bytes();
    let source = IpAddr::from([127, 60 + next_number() as u8, high, low]);
    // Three neighbours of which this test holds the one in the middle.
    let (ports, taken) = (22_000..23_000u16)
        .step_by(3)
        .find_map(|first| {
            let free = |port| TcpListener::bind((source, port)).ok();
            let held = [free(first), free(first + 1), free(first + 2)];
            let [Some(_), Some(middle), Some(_)] = held else { return None };
            Some((PortRange::new(first, first + 2).unwrap(), middle))
        })
        .expect("three ports are free");
    let mut stage = open(16);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    let to = Connect { source: Some(source), ports: Some(ports), ..Connect::tcp(addr) };
    let (first, second) = (stage.pair_to(listener, &to).0, stage.pair_to(listener, &to).0);
    let mut seen = [first, second].map(|client| stage.driver.local_addr(client).unwrap().port());
    seen.sort_unstable();
    assert_eq!(seen, [ports.first(), ports.last()]);
    let error = stage.try_connect(&to).unwrap_err();
    assert_eq!(Fault::of(&error), Fault::NoAddress, "{error}");
    drop(taken);
    let late = stage.pair_to(listener, &to).0;
    assert_eq!(stage.driver.local_addr(late).unwrap().port(), ports.first() + 1);
}

/// A name that no other test of this run uses.
fn abstract_name(what: &str) -> UnixAddr {
    UnixAddr::new(format!("@thalweg-{}-{what}-{}", std::process::id(), next_number())).unwrap()
}

/// A number that no other test of this process gets.
fn next_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
