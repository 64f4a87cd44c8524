//! Time and wake-ups, and what only drivers over a kernel have.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;

use thalweg_sys::Instant;
use thalweg_sys::driver::{Driver, FileSpan, Listen};

use crate::contract::flow::file_of;
use crate::contract::stage::{LOOPBACK_V4, Open, assert_same, pattern};

pub(crate) fn waits_until_the_deadline_but_not_longer_than_asked<D: Driver>(open: Open<'_, D>) {
    let mut stage = open(4);
    stage.listen(LOOPBACK_V4);
    for wait_ns in [0, 1, 1_000, 1_000_000, 20_000_000] {
        let before = stage.driver.now();
        let until = before.plus_ns(wait_ns);
        let completions = stage.iterate(Some(until));
        assert_eq!(completions, 0, "nothing was asked for");
        let now = stage.driver.now();
        assert!(now >= until, "woke at {now:?}, before {until:?}");
        assert!(now <= until.plus_ns(10_000_000_000), "woke at {now:?}, long after {until:?}");
    }
    // A time that has passed does not sleep, and completions do not wait for the deadline.
    stage.iterate(Some(Instant::from_ns(0)));
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    let before = stage.driver.now();
    let client = stage.connect(addr);
    while !stage.socket(client).connected || stage.accepted(listener).is_none() {
        stage.iterate(Some(before.plus_ns(3_600_000_000_000)));
    }
    assert!(stage.driver.now() < before.plus_ns(60_000_000_000));
}

pub(crate) fn stamps_sends_between_call_and_completion<D: Driver>(open: Open<'_, D>) {
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    let (client, server) = stage.pair(listener, addr);
    let mut latest = stage.driver.now();
    for _ in 0..100 {
        let before = stage.driver.now();
        stage.send(client, "ping");
        stage.until_received(server, 4);
        let (sent_at, now) = (stage.driver.sent_at(client), stage.driver.now());
        assert!(before <= sent_at && sent_at <= now, "{before:?} {sent_at:?} {now:?}");
        assert!(latest <= sent_at, "sends are in order");
        latest = sent_at;
        stage.until_sent(client);
    }
}

/// The kernel may take a send that is requested in the middle of a wake-up at once, and its
/// completion may come in the same wake-up.
pub(crate) fn a_send_is_not_stamped_later_than_its_completion<D: Driver>(open: Open<'_, D>) {
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    let (client, server) = stage.pair(listener, addr);
    let (_directory, file) = file_of(1000);
    for round in 0..100 {
        stage.send(client, "ping");
        let deadline = stage.driver.now().plus_ns(60_000_000_000);
        stage.wait(Some(deadline));
        let mut answered = false;
        while !answered || stage.socket(server).sending {
            if !stage.witness_next() {
                stage.wait(Some(deadline));
            } else if !answered && !stage.socket(server).received.is_empty() {
                answered = true;
                if round % 2 == 0 {
                    stage.send(server, "pong");
                } else {
                    stage.send_file(server, b"pong", FileSpan { file: Rc::clone(&file), offset: 0, len: 1000 });
                }
            }
        }
        let (sent_at, now) = (stage.driver.sent_at(server), stage.driver.now());
        assert!(sent_at <= now, "sent at {sent_at:?}, but when that is told it is only {now:?}");
        stage.until_sent(client);
        stage.take_received(server);
        stage.linger(1_000_000);
    }
}

pub(crate) fn wakes_from_another_thread<D: Driver>(open: Open<'_, D>) {
    let mut stage = open(4);
    stage.listen(LOOPBACK_V4);
    for round in 1..=20 {
        let waker = stage.waker.clone().expect("a driver over a kernel has a waker");
        let other = std::thread::spawn(move || waker.wake());
        stage.until("woken", |stage| stage.woken == round);
        other.join().unwrap();
    }
    // Many at once are folded, and none is left over.
    let waker = stage.waker.clone().unwrap();
    for _ in 0..1000 {
        waker.wake();
    }
    stage.until("woken", |stage| stage.woken > 20);
    assert!(stage.woken <= 22);
    let woken = stage.woken;
    stage.linger(5_000_000);
    assert!(stage.woken <= woken + 1, "a wake-up is told once");
}

pub(crate) fn adopts_a_listening_socket<D: Driver>(open: Open<'_, D>) {
    let mut stage = open(8);
    let socket = TcpListener::bind(LOOPBACK_V4).unwrap();
    let addr = socket.local_addr().unwrap();
    let listener = stage.driver.listen(Listen::Socket(socket.into())).unwrap();
    stage.note_listener(listener);
    assert_eq!(stage.driver.local_addr(listener).unwrap(), addr);
    let (client, server) = stage.pair(listener, addr);
    stage.send(client, "adopted");
    assert_eq!(stage.until_received(server, 7), b"adopted");
}

/// A peer that sends as fast as it can, from outside the driver, must not starve a large transfer
/// beside it.
pub(crate) fn serves_a_flooding_peer_and_others_alike<D: Driver>(open: Open<'_, D>) {
    const BYTES: usize = 20_000_000;
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    let mut flood = TcpStream::connect(addr).unwrap();
    let flooded = stage.accept(listener);
    let flooding = std::thread::spawn(move || {
        let bytes = vec![b'x'; 1 << 20];
        let mut sent = 0usize;
        while flood.write_all(&bytes).is_ok() {
            sent += bytes.len();
        }
        sent
    });
    let mut reader = TcpStream::connect(addr).unwrap();
    let served = stage.accept(listener);
    let reading = std::thread::spawn(move || {
        let mut seen = Vec::new();
        reader.read_to_end(&mut seen).map(|_| seen)
    });
    stage.send(served, pattern(1, 0, BYTES));
    stage.finish(served);
    let deadline = stage.driver.now().plus_ns(60_000_000_000);
    while stage.socket(served).sending {
        assert!(stage.driver.now() < deadline, "a flooding peer starves the sends of others");
        stage.iterate(Some(deadline));
        stage.take_received(flooded);
    }
    stage.close(flooded);
    assert!(stage.socket(served).failed.is_none());
    while !(flooding.is_finished() && reading.is_finished()) {
        assert!(stage.driver.now() < deadline, "a close or an end does not get through to the peer");
        let soon = stage.driver.now().plus_ns(1_000_000);
        stage.iterate(Some(soon));
    }
    assert_same(&reading.join().unwrap().unwrap(), &pattern(1, 0, BYTES));
    assert!(flooding.join().unwrap() > 0);
}

/// A dropped driver leaves nothing with the kernel: its port can be bound at once, and the peer of
/// a connection that was closed last sees the end.
pub(crate) fn gives_everything_back_when_dropped<D: Driver>(open: Open<'_, D>) {
    for _ in 0..20 {
        let mut stage = open(8);
        let (listener, addr) = stage.listen(LOOPBACK_V4);
        let (_, server) = stage.pair(listener, addr);
        let mut waiting = TcpStream::connect(addr).expect("the listener's queue has room");
        stage.close(server);
        drop(stage);
        TcpListener::bind(addr).expect("the port is free again");
        let mut rest = Vec::new();
        // A reset or an orderly end; what matters is that it comes.
        let _ = waiting.read_to_end(&mut rest);
        assert_eq!(rest, b"");
    }
}
