//! Sockets that receive only as many bytes as their owner requests. The stage checks that nothing
//! is delivered without a request, nor more than requested.

use std::panic::{AssertUnwindSafe, catch_unwind};

use thalweg_sys::driver::Driver;
use thalweg_sys::{Fault, SocketId};

use crate::contract::stage::{LOOPBACK_V4, LOOPBACK_V6, ON_DEMAND_WINDOW_BYTES, Open, Stage, assert_same, pattern};

pub(crate) fn receives_what_it_asks_for_and_no_more<D: Driver>(open: Open<'_, D>) {
    const BYTES: usize = 100_000;
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V6);
    let (client, server) = stage.on_demand_pair(listener, addr);
    stage.send(server, pattern(1, 0, BYTES));
    stage.linger(5_000_000);
    assert_eq!(stage.socket(client).received.len(), 0, "nothing was asked for");
    for bytes_max in [1, 2, 1000, 4200, 1, 100_000].into_iter().cycle() {
        let before = stage.socket(client).received.len();
        if before == BYTES {
            break;
        }
        stage.ask(client, bytes_max);
        stage.until("what was asked for", |stage| stage.socket(client).asked == 0);
        stage.linger(1_000_000);
        let came = stage.socket(client).received.len() - before;
        assert!((1..=bytes_max as usize).contains(&came), "asked for {bytes_max}, got {came}");
    }
    assert_same(&stage.take_received(client), &pattern(1, 0, BYTES));
    stage.until_sent(server);
}

pub(crate) fn waits_for_bytes_that_were_asked_for<D: Driver>(open: Open<'_, D>) {
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    let (client, server) = stage.on_demand_pair(listener, addr);
    for round in 0..20 {
        stage.ask(client, 100);
        stage.linger(1_000_000);
        assert_eq!(stage.socket(client).asked, 100, "there is nothing to be had yet");
        stage.send(server, pattern(round, 0, 10));
        stage.until_sent(server);
        let mut seen = stage.take_received(client);
        while seen.len() < 10 {
            stage.until("the answer", |stage| stage.socket(client).asked == 0);
            seen.extend(stage.take_received(client));
            if seen.len() < 10 {
                stage.ask(client, 100);
            }
        }
        assert_same(&seen, &pattern(round, 0, 10));
    }
}

pub(crate) fn holds_the_sender_back<D: Driver>(open: Open<'_, D>) {
    // More than the sender's own buffer takes (4 MB at most, by default), which no receiver can
    // bound.
    const BYTES: usize = 8_000_000;
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    let (client, server) = stage.on_demand_pair(listener, addr);
    stage.send(server, pattern(2, 0, BYTES));
    stage.settle();
    assert!(stage.socket(server).sending, "what nobody asks for stays with the sender");
    receive_all(&mut stage, client, BYTES);
    assert_same(&stage.take_received(client), &pattern(2, 0, BYTES));
    stage.until_sent(server);
}

pub(crate) fn hears_of_an_end_when_it_asks<D: Driver>(open: Open<'_, D>) {
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    let (client, server) = stage.on_demand_pair(listener, addr);
    stage.send(server, "last words");
    stage.until_sent(server);
    stage.close(server);
    stage.linger(5_000_000);
    assert!(!stage.socket(client).is_over(), "it has not asked");
    receive_all(&mut stage, client, 10);
    stage.linger(1_000_000);
    assert!(!stage.socket(client).is_over(), "it has not asked again");
    stage.ask(client, 1);
    stage.until("the end", |stage| stage.socket(client).ended);
    assert_eq!(stage.take_received(client), b"last words");
    // Asking on is allowed, and of no effect.
    stage.ask(client, 1);
    stage.linger(1_000_000);
    stage.close(client);
}

pub(crate) fn hears_of_a_reset_when_it_asks<D: Driver>(open: Open<'_, D>) {
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    for asks_before in [false, true] {
        let (client, server) = stage.on_demand_pair(listener, addr);
        if asks_before {
            stage.ask(client, 100);
        }
        // Unread bytes turn the close into a reset.
        stage.driver.pause(server);
        stage.send(client, pattern(3, 0, 1000));
        stage.until_sent(client);
        stage.linger(20_000_000);
        stage.close(server);
        stage.linger(20_000_000);
        if !asks_before {
            assert!(!stage.socket(client).is_over(), "it has not asked");
            stage.ask(client, 100);
        }
        stage.until("the reset", |stage| stage.socket(client).is_over());
        if let Some(error) = &stage.socket(client).failed {
            assert_eq!(Fault::of(error), Fault::Reset, "{error}");
        }
        stage.ask(client, 100);
        stage.linger(1_000_000);
        stage.close(client);
    }
}

/// The witness fails the test if a later completion names the closed socket.
pub(crate) fn a_close_takes_the_asking_back<D: Driver>(open: Open<'_, D>) {
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    for turns_before in 0..3 {
        let (client, server) = stage.on_demand_pair(listener, addr);
        stage.ask(client, 1000);
        for _ in 0..turns_before {
            let soon = stage.driver.now().plus_ns(1_000_000);
            stage.iterate(Some(soon));
        }
        stage.send(server, pattern(4, 0, 3000));
        stage.close(client);
        stage.until("the peer is told", |stage| stage.socket(server).is_over());
        stage.close(server);
    }
    stage.linger(10_000_000);
}

pub(crate) fn sends_while_it_does_not_ask<D: Driver>(open: Open<'_, D>) {
    const BYTES: usize = 3_000_000;
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    let (client, server) = stage.on_demand_pair(listener, addr);
    stage.send(server, "an answer that nobody asks for yet");
    stage.send(client, pattern(5, 0, BYTES));
    assert_same(&stage.until_received(server, BYTES), &pattern(5, 0, BYTES));
    stage.until_sent(client);
    assert_eq!(stage.socket(client).received.len(), 0);
    receive_all(&mut stage, client, 34);
    assert_eq!(stage.take_received(client), b"an answer that nobody asks for yet");
}

pub(crate) fn asking_wrongly_panics<D: Driver>(open: Open<'_, D>) {
    fn check<D: Driver>(stage: &mut Stage<D>, what: &str, ask: impl FnOnce(&mut D)) {
        let driver = &mut stage.driver;
        assert!(catch_unwind(AssertUnwindSafe(|| ask(driver))).is_err(), "{what}");
    }
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    let (client, server) = stage.on_demand_pair(listener, addr);
    check(&mut stage, "a free socket asks", |driver| driver.receive(server, 1));
    check(&mut stage, "asks for nothing", |driver| driver.receive(client, 0));
    check(&mut stage, "pauses", |driver| driver.pause(client));
    check(&mut stage, "resumes", |driver| driver.resume(client));
    stage.ask(client, 1);
    check(&mut stage, "asks twice", |driver| driver.receive(client, 1));
    // The refused calls have left no trace.
    stage.send(server, "fine");
    stage.until("a byte", |stage| !stage.socket(client).received.is_empty());
    receive_all(&mut stage, client, 4);
    assert_eq!(stage.take_received(client), b"fine");
}

/// On loopback the kernels would buffer megabytes of the sender's bytes if they did not learn that
/// the receiver is slow.
pub(crate) fn bounds_what_the_kernels_hold<D: Driver>(open: Open<'_, D>) {
    // Less than a sender's kernel takes at once for a receiver with segments of 64 KiB, more than
    // for one with Ethernet's.
    const BYTES: usize = 1_500_000;
    for at in [LOOPBACK_V4, LOOPBACK_V6] {
        let mut stage = open(8);
        let (listener, addr) = stage.listen(at);
        let (client, server) = stage.on_demand_pair(listener, addr);
        stage.send(server, pattern(6, 0, BYTES));
        stage.settle();
        assert!(stage.socket(server).sending, "the sender's kernel has taken all of it");
        stage.ask(client, 65_536);
        stage.until("what was asked for", |stage| stage.socket(client).asked == 0);
        let held = stage.socket(client).received.len();
        let window = ON_DEMAND_WINDOW_BYTES as usize;
        assert!((window / 2..=window).contains(&held), "the receiver's kernel has taken {held} bytes, of {window}");
        receive_all(&mut stage, client, BYTES);
        assert_same(&stage.take_received(client), &pattern(6, 0, BYTES));
    }
}

/// Requests bytes until so many were received.
fn receive_all<D: Driver>(stage: &mut Stage<D>, socket: SocketId, bytes: usize) {
    while stage.socket(socket).received.len() < bytes {
        stage.ask(socket, 65_536);
        stage.until("what was asked for", |stage| stage.socket(socket).asked == 0);
        assert!(!stage.socket(socket).is_over(), "the connection is over before its bytes are here");
    }
}
