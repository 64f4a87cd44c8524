//! From connect and accept to the end and the close.

use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use thalweg_sys::Fault;
use thalweg_sys::driver::{Connect, Driver};

use crate::contract::stage::{LOOPBACK_V4, LOOPBACK_V6, Open, Stage, assert_same, pattern};

pub(crate) fn echoes_over_ipv4<D: Driver>(open: Open<'_, D>) {
    echoes(&mut open(8), LOOPBACK_V4);
}

pub(crate) fn echoes_over_ipv6<D: Driver>(open: Open<'_, D>) {
    echoes(&mut open(8), LOOPBACK_V6);
}

fn echoes<D: Driver>(stage: &mut Stage<D>, at: &str) {
    let (listener, addr) = stage.listen(at);
    assert_ne!(addr.port(), 0);
    let (client, server) = stage.pair(listener, addr);
    assert_eq!(stage.driver.peer_addr(client).unwrap(), addr);
    assert_eq!(stage.driver.local_addr(server).unwrap(), addr);
    assert_eq!(stage.driver.peer_addr(server).unwrap(), stage.driver.local_addr(client).unwrap());
    for question in [&b"a"[..], b"what goes out", b"comes back"] {
        stage.send(client, question);
        let received = stage.until_received(server, question.len());
        assert_eq!(received, question);
        stage.until_sent(client);
        stage.send(server, received);
        assert_eq!(stage.until_received(client, question.len()), question);
        stage.until_sent(server);
    }
    stage.close(client);
    stage.until("the server is told", |stage| stage.socket(server).ended);
    stage.close(server);
    stage.close_listener(listener);
    stage.linger(1_000_000);
}

pub(crate) fn last_bytes_arrive_before_the_end<D: Driver>(open: Open<'_, D>) {
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    let (client, server) = stage.pair(listener, addr);
    stage.close_behind(server, b"the end");
    assert_eq!(stage.until_received(client, 7), b"the end");
    stage.until("the client is told", |stage| stage.socket(client).ended);
    // A peer that has gone is no error.
    let (client, server) = stage.pair(listener, addr);
    stage.close(client);
    stage.close_behind(server, b"the end");
    stage.linger(1_000_000);
}

pub(crate) fn comes_from_the_source_asked_for<D: Driver>(open: Open<'_, D>) {
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    let source: IpAddr = "127.0.0.2".parse().unwrap();
    let client = stage.try_connect(&Connect { source: Some(source), ..Connect::tcp(addr) }).unwrap();
    let server = stage.accept(listener);
    assert_eq!(stage.driver.peer_addr(server).unwrap().ip(), source);
    stage.until("connected", |stage| stage.socket(client).connected);
    assert_eq!(stage.driver.local_addr(client).unwrap().ip(), source);
}

pub(crate) fn serves_many_connections_at_once<D: Driver>(open: Open<'_, D>) {
    const CONNECTIONS: usize = 500;
    let mut stage = open(2 * CONNECTIONS + 1);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    let clients: Vec<_> = (0..CONNECTIONS).map(|_| stage.connect(addr)).collect();
    let servers: Vec<_> = (0..CONNECTIONS).map(|_| stage.accept(listener)).collect();
    for (number, &client) in clients.iter().enumerate() {
        stage.until("connected", |stage| stage.socket(client).connected);
        stage.send(client, format!("{number:04}"));
    }
    for &server in &servers {
        let greeting = stage.until_received(server, 4);
        stage.send(server, greeting.repeat(100));
    }
    for (number, &client) in clients.iter().enumerate() {
        assert_eq!(stage.until_received(client, 400), format!("{number:04}").repeat(100).into_bytes());
        stage.until_sent(client);
    }
    for &client in &clients {
        stage.close(client);
    }
    for &server in &servers {
        stage.until("the server is told", |stage| stage.socket(server).ended);
        stage.close(server);
    }
}

pub(crate) fn delivers_what_came_before_acceptance<D: Driver>(open: Open<'_, D>) {
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    stage.driver.pause(listener);
    let client = stage.connect(addr);
    stage.until("connected", |stage| stage.socket(client).connected);
    stage.send(client, pattern(1, 0, 5000));
    stage.until_sent(client);
    stage.finish(client);
    stage.driver.resume(listener);
    let server = stage.accept(listener);
    assert_same(&stage.until_received(server, 5000), &pattern(1, 0, 5000));
    stage.until("the end comes as well", |stage| stage.socket(server).ended);
}

pub(crate) fn half_closes_in_both_directions<D: Driver>(open: Open<'_, D>) {
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    for client_first in [true, false] {
        let (client, server) = stage.pair(listener, addr);
        let (first, second) = if client_first { (client, server) } else { (server, client) };
        stage.send(first, "last words");
        stage.until_sent(first);
        stage.finish(first);
        stage.until("the first end", |stage| stage.socket(second).ended);
        assert_eq!(stage.take_received(second), b"last words");
        // The other direction is still open, and stays so for as long as it likes.
        for part in 0..3 {
            stage.send(second, pattern(2, part * 1000, 1000));
            stage.until_sent(second);
        }
        stage.finish(second);
        stage.until("the second end", |stage| stage.socket(first).ended);
        assert_same(&stage.take_received(first), &pattern(2, 0, 3000));
        stage.linger(1_000_000);
        stage.close(first);
        stage.close(second);
    }
}

pub(crate) fn ends_after_the_send_under_way<D: Driver>(open: Open<'_, D>) {
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    let (client, server) = stage.pair(listener, addr);
    let bytes = pattern(3, 0, 3_000_000);
    stage.send(client, bytes.clone());
    stage.finish(client);
    stage.until("the end", |stage| stage.socket(server).ended);
    assert_same(&stage.take_received(server), &bytes);
    stage.until_sent(client);
}

pub(crate) fn last_bytes_arrive_with_the_end<D: Driver>(open: Open<'_, D>) {
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    // One part fits into the socket's buffer, and another has to wait for room.
    for (seed, len) in [(4, 100), (5, 70_000), (6, 3_000_000)] {
        for finishes in [true, false] {
            let (client, server) = stage.pair(listener, addr);
            let bytes = pattern(seed, 0, len);
            stage.send_last(server, bytes.clone());
            stage.until_sent(server);
            if finishes {
                stage.finish(server);
            } else {
                stage.close(server);
            }
            stage.until("the end", |stage| stage.socket(client).ended);
            assert_same(&stage.take_received(client), &bytes);
            stage.close(client);
            if finishes {
                stage.close(server);
            }
        }
    }
}

/// The witness fails the test if a later completion names the closed socket.
pub(crate) fn close_silences_a_busy_socket<D: Driver>(open: Open<'_, D>) {
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    for turns_before in 0..4 {
        let (client, server) = stage.pair(listener, addr);
        stage.driver.pause(server);
        stage.send(server, pattern(4, 0, 100_000));
        stage.send(client, pattern(5, 0, 50_000_000));
        for _ in 0..turns_before {
            let soon = stage.driver.now().plus_ns(1_000_000);
            stage.iterate(Some(soon));
        }
        stage.close(client);
        stage.driver.resume(server);
        stage.until("the peer is told", |stage| stage.socket(server).is_over());
        let seen = stage.take_received(server);
        assert_same(&seen, &pattern(5, 0, seen.len()));
        assert!(seen.len() < 50_000_000, "what the kernel was not given is dropped");
        stage.close(server);
    }
    stage.linger(10_000_000);
}

/// Most closes happen while completions are handled, and others of the same wake-up are about
/// sockets that this closes.
pub(crate) fn close_within_a_wake_up_silences_the_rest_of_it<D: Driver>(open: Open<'_, D>) {
    const PAIRS: usize = 20;
    let mut stage = open(2 * PAIRS + 2);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    let mut waiting_at_close = 0;
    for seen_before in 0..60 {
        let pairs: Vec<_> = (0..PAIRS).map(|_| stage.pair(listener, addr)).collect();
        for &(client, server) in &pairs {
            stage.send(client, pattern(1, 0, 3000));
            stage.send(server, pattern(2, 0, 3000));
            stage.finish(server);
        }
        let deadline = stage.driver.now().plus_ns(60_000_000_000);
        for _ in 0..seen_before {
            while !stage.witness_next() {
                stage.wait(Some(deadline));
            }
        }
        for (client, server) in pairs {
            stage.close(client);
            stage.close(server);
        }
        while stage.witness_next() {
            waiting_at_close += 1;
        }
        stage.linger(1_000_000);
    }
    assert_eq!(waiting_at_close, 0, "nothing is open that a completion could be about");
}

pub(crate) fn an_index_used_again_is_another_socket<D: Driver>(open: Open<'_, D>) {
    let mut stage = open(4);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    for round in 0..50 {
        // Both sides close with bytes on their way, whose completions may not reach the next
        // tenants.
        let (client, server) = stage.pair(listener, addr);
        stage.send(client, pattern(round, 0, 2000));
        stage.send(server, pattern(round + 1000, 0, 2000));
        if round % 2 == 0 {
            let received = stage.until_received(server, 2000);
            assert_same(&received, &pattern(round, 0, 2000));
        }
        stage.close(client);
        stage.close(server);
    }
}

pub(crate) fn a_closed_id_panics<D: Driver>(open: Open<'_, D>) {
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    let (client, _server) = stage.pair(listener, addr);
    stage.close(client);
    let driver = &mut stage.driver;
    let paused = catch_unwind(AssertUnwindSafe(|| driver.pause(client)));
    assert!(paused.is_err());
    let asked = catch_unwind(AssertUnwindSafe(|| driver.sent_at(client)));
    assert!(asked.is_err());
    let closed = catch_unwind(AssertUnwindSafe(|| driver.close(client)));
    assert!(closed.is_err());
}

pub(crate) fn a_closed_listener_refuses<D: Driver>(open: Open<'_, D>) {
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    let (client, server) = stage.pair(listener, addr);
    stage.close_listener(listener);
    // The kernel may need an iteration to report it.
    stage.linger(1_000_000);
    let late = stage.connect(addr);
    stage.until("the connect fails", |stage| stage.socket(late).is_over());
    let error = stage.socket(late).failed.as_ref().expect("it failed");
    assert!(matches!(Fault::of(error), Fault::Refused | Fault::Reset), "{error}");
    stage.send(client, "still here");
    assert_eq!(stage.until_received(server, 10), b"still here");
}
