//! Faults are reported once and leave the driver usable.

use std::io;
use std::rc::Rc;

use thalweg_sys::driver::{Connect, Driver, FileSpan, SendBuf, SpanEnd};
use thalweg_sys::{Fault, FileChanged};

use crate::contract::flow::file_of;
use crate::contract::stage::{LOOPBACK_V4, Open, assert_same, pattern};

pub(crate) fn a_port_without_listener_refuses<D: Driver>(open: Open<'_, D>) {
    let mut stage = open(8);
    // Port 1 (tcpmux) has been unused for decades, and the kernel does not assign it.
    for addr in ["127.0.0.1:1", "[::1]:1"] {
        let client = stage.connect(addr.parse().unwrap());
        stage.until("the connect fails", |stage| stage.socket(client).failed.is_some());
        let error = stage.socket(client).failed.as_ref().unwrap();
        assert_eq!(Fault::of(error), Fault::Refused, "{error}");
        stage.close(client);
    }
}

pub(crate) fn unread_bytes_at_close_do_not_end_in_silence<D: Driver>(open: Open<'_, D>) {
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    for bytes in [1000, 20_000_000] {
        let (client, server) = stage.pair(listener, addr);
        stage.driver.pause(server);
        stage.send(client, pattern(1, 0, bytes));
        stage.linger(5_000_000);
        stage.close(server);
        stage.until("the peer is told", |stage| stage.socket(client).is_over());
        if let Some(error) = &stage.socket(client).failed {
            assert_eq!(Fault::of(error), Fault::Reset, "{error}");
        }
        stage.close(client);
    }
}

pub(crate) fn sending_to_nobody_fails<D: Driver>(open: Open<'_, D>) {
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    let (client, server) = stage.pair(listener, addr);
    stage.close(server);
    stage.until("the end", |stage| stage.socket(client).is_over());
    // The first bytes may reach a kernel that responds with a reset; then the next ones fail.
    for _ in 0..100 {
        if stage.socket(client).failed.is_some() {
            break;
        }
        stage.send(client, pattern(1, 0, 1000));
        stage.until("the send is over", |stage| !stage.socket(client).sending);
        stage.linger(1_000_000);
    }
    let error = stage.socket(client).failed.as_ref().expect("sending to nobody fails");
    assert_eq!(Fault::of(error), Fault::Reset, "{error}");
    // Sockets that have failed are closed like others.
    stage.close(client);
    let (client, server) = stage.pair(listener, addr);
    stage.send(client, "next");
    assert_eq!(stage.until_received(server, 4), b"next");
}

pub(crate) fn a_file_that_is_too_short_fails_the_send<D: Driver>(open: Open<'_, D>) {
    let (_directory, file) = file_of(100_000);
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    for (offset, len, sent) in [(0, 100_001, 100_000), (50_000, 4_000_000, 50_000), (100_000, 1, 0), (200_000, 1, 0)] {
        let (client, server) = stage.pair(listener, addr);
        stage.send_file(server, b"head", FileSpan { file: Rc::clone(&file), offset, len });
        stage.until("the send fails", |stage| stage.socket(server).failed.is_some());
        let error = stage.socket(server).failed.as_ref().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{error}");
        stage.close(server);
        // The existing bytes arrive; only the owner's close shows the peer that they are
        // incomplete.
        stage.until("the end", |stage| stage.socket(client).ended);
        let seen = stage.take_received(client);
        assert_same(&seen[..4], b"head");
        assert_same(&seen[4..], &pattern(9, offset, sent));
        stage.close(client);
    }
    assert_eq!(Rc::strong_count(&file), 1);
}

pub(crate) fn a_file_that_has_changed_fails_the_send_that_ends_its_response<D: Driver>(open: Open<'_, D>) {
    const BYTES: usize = 500_000;
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    for len in [1, 1000, BYTES as u64] {
        let (directory, file) = file_of(BYTES);
        let span = || FileSpan { file: Rc::clone(&file), offset: 0, len };
        let (client, server) = stage.pair(listener, addr);
        // Another name changes the inode, and not the content.
        std::fs::hard_link(directory.path().join("file"), directory.path().join("link")).unwrap();
        stage.send_file(server, b"", span());
        stage.until_received(client, len as usize);
        stage.until_sent(server);
        std::fs::write(directory.path().join("link"), vec![7; BYTES]).unwrap();
        // Another time even where the clock's ticks are long.
        let written = std::fs::File::options().write(true).open(directory.path().join("link")).unwrap();
        written.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        // More of the file is to follow, so that nothing is compared yet.
        stage.begin_send(server);
        stage.driver.send_file(server, SendBuf::Static(b""), span(), SpanEnd::MoreFollows);
        stage.until_received(client, len as usize);
        stage.until_sent(server);
        assert!(!file.has_changed());
        stage.send_file(server, b"head", span());
        stage.until("the send fails", |stage| stage.socket(server).failed.is_some());
        let error = stage.socket(server).failed.as_ref().unwrap();
        let change = FileChanged { device: file.stamp.device, inode: file.stamp.inode };
        assert_eq!(FileChanged::cause_of(error), Some(change), "{error}");
        assert!(file.has_changed());
        stage.reset(server);
        stage.until("the peer is told", |stage| stage.socket(client).is_over());
        assert!(stage.socket(client).received.len() < len as usize + 4, "the last bytes have left");
        stage.close(client);
    }
}

pub(crate) fn a_full_table_stops_accepting_until_resumed<D: Driver>(open: Open<'_, D>) {
    // Room for the listener, one connection from both sides, and one more.
    let mut stage = open(4);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    let (client, server) = stage.pair(listener, addr);
    let waiting = stage.connect(addr);
    stage.until("accepting stops", |stage| stage.stopped(listener) > 0);
    stage.until("connected", |stage| stage.socket(waiting).connected);
    stage.linger(5_000_000);
    assert_eq!(stage.stopped(listener), 1, "a listener that has stopped is silent");
    assert!(stage.accepted(listener).is_none());
    // Resumed too early, it stops again.
    stage.driver.resume_accept(listener);
    stage.until("accepting stops again", |stage| stage.stopped(listener) == 2);
    stage.close(client);
    stage.until("the server is told", |stage| stage.socket(server).ended);
    stage.close(server);
    stage.linger(5_000_000);
    stage.driver.resume_accept(listener);
    let late = stage.accept(listener);
    stage.send(waiting, "patience");
    assert_eq!(stage.until_received(late, 8), b"patience");
}

pub(crate) fn a_full_table_refuses_to_connect<D: Driver>(open: Open<'_, D>) {
    let mut stage = open(3);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    let (client, server) = stage.pair(listener, addr);
    let refused = stage.try_connect(&Connect::tcp(addr)).unwrap_err();
    assert_eq!(Fault::of(&refused), Fault::NoDescriptor, "{refused}");
    stage.close(client);
    stage.until("the server is told", |stage| stage.socket(server).ended);
    stage.close(server);
    // Entries may be held for as long as the kernel uses what belongs to them.
    stage.linger(5_000_000);
    // A driver may stop accepting as soon as its table is full, whether a connection waits or not.
    stage.driver.resume_accept(listener);
    let (client, server) = stage.pair(listener, addr);
    stage.send(client, "room");
    assert_eq!(stage.until_received(server, 4), b"room");
}
