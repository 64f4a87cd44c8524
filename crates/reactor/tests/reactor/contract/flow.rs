//! Bytes in quantity: buffers that fill, receivers that pause, files.

use std::ffi::CStr;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use tempfile::TempDir;
use thalweg_sys::driver::{Driver, FileSpan, SendBuf};
use thalweg_sys::{File, Root};

use crate::contract::stage::{LOOPBACK_V4, LOOPBACK_V6, Open, Stage, assert_same, pattern};

pub(crate) fn transfers_megabytes_both_ways_at_once<D: Driver>(open: Open<'_, D>) {
    const BYTES: usize = 8_000_000;
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V6);
    let (client, server) = stage.pair(listener, addr);
    let (up, down) = (Rc::new(pattern(1, 0, BYTES)), pattern(2, 0, BYTES));
    stage.begin_send(client);
    stage.driver.send(client, SendBuf::Shared(Rc::clone(&up)));
    stage.send(server, down.clone());
    stage.until("both have all", |stage| {
        [client, server].iter().all(|&socket| stage.socket(socket).received.len() == BYTES)
    });
    assert_same(&stage.take_received(server), &up);
    assert_same(&stage.take_received(client), &down);
    stage.until_sent(client);
    stage.until_sent(server);
    assert_eq!(Rc::strong_count(&up), 1, "a buffer that was sent is its owner's alone");
}

pub(crate) fn sends_nothing_at_once<D: Driver>(open: Open<'_, D>) {
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    let (client, server) = stage.pair(listener, addr);
    stage.begin_send(client);
    stage.driver.send(client, SendBuf::empty());
    stage.until_sent(client);
    stage.send(client, "something");
    assert_eq!(stage.until_received(server, 9), b"something");
}

pub(crate) fn a_second_send_panics<D: Driver>(open: Open<'_, D>) {
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    let (client, server) = stage.pair(listener, addr);
    stage.driver.pause(server);
    stage.send(client, pattern(1, 0, 50_000_000));
    let driver = &mut stage.driver;
    let second = catch_unwind(AssertUnwindSafe(|| driver.send(client, SendBuf::Static(b"too much"))));
    assert!(second.is_err());
}

pub(crate) fn a_paused_receiver_holds_the_sender_back<D: Driver>(open: Open<'_, D>) {
    // More than loopback's largest buffers of both sides together.
    const BYTES: usize = 48_000_000;
    // Bytes that were on their way when the pause came: buffers of the driver, at most.
    const ON_ITS_WAY: usize = 8_000_000;
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    let (client, server) = stage.pair(listener, addr);
    let bytes = Rc::new(pattern(6, 0, BYTES));
    stage.driver.pause(server);
    stage.begin_send(client);
    stage.driver.send(client, SendBuf::Shared(Rc::clone(&bytes)));
    stage.settle();
    assert!(stage.socket(client).sending, "the buffers have no bounds");
    assert!(stage.socket(server).received.len() <= ON_ITS_WAY, "a pause pauses");
    let mut at_pause = 0;
    // Off and on while it flows: nothing is lost or doubled at the seams.
    for _ in 0..20 {
        stage.driver.resume(server);
        let target = (at_pause + 1_000_000).min(BYTES);
        stage.until("more comes", |stage| stage.socket(server).received.len() >= target);
        stage.driver.pause(server);
        stage.linger(1_000_000);
        at_pause = stage.socket(server).received.len();
    }
    stage.driver.pause(server);
    stage.driver.resume(server);
    stage.driver.pause(server);
    stage.driver.resume(server);
    stage.until("all has come", |stage| stage.socket(server).received.len() == BYTES);
    assert_same(&stage.take_received(server), &bytes);
    stage.until_sent(client);
}

pub(crate) fn tells_what_the_peer_has_not_acknowledged<D: Driver>(open: Open<'_, D>) {
    // The bytes are a file's, since a driver may leave a send of other bytes to the kernel until
    // its end.
    const BYTES: usize = 48_000_000;
    let (_directory, file) = file_of(BYTES);
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    let (client, server) = stage.pair(listener, addr);
    assert_eq!(stage.driver.unacknowledged(server), 0);
    stage.driver.pause(client);
    stage.send_file(server, b"head", FileSpan { file, offset: 0, len: BYTES as u64 });
    stage.settle();
    let held = stage.driver.unacknowledged(server);
    assert!(held > 0 && held <= BYTES as u64 + 4, "{held}");
    stage.driver.resume(client);
    let target = BYTES - 1_000_000;
    stage.until("most has come", |stage| stage.socket(client).received.len() >= target);
    assert!(stage.driver.unacknowledged(server) <= 1_000_004);
    stage.until_received(client, BYTES + 4);
    stage.until("all is acknowledged", |stage| stage.driver.unacknowledged(server) == 0);
}

pub(crate) fn a_reset_drops_what_was_not_taken<D: Driver>(open: Open<'_, D>) {
    reset_drops_a_send(open, Stage::settle);
}

/// The kernel has taken the send, and does not wait for room yet.
pub(crate) fn a_reset_right_behind_a_send_drops_it<D: Driver>(open: Open<'_, D>) {
    reset_drops_a_send(open, |_| {});
}

/// Resets a connection to a client that does not read, some time after the begin of a send.
fn reset_drops_a_send<D: Driver>(open: Open<'_, D>, after: fn(&mut Stage<D>)) {
    // More than loopback's largest buffers of both sides together.
    const BYTES: usize = 48_000_000;
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    let (client, server) = stage.pair(listener, addr);
    stage.driver.pause(client);
    stage.settle();
    stage.send(server, pattern(1, 0, BYTES));
    after(&mut stage);
    stage.reset(server);
    stage.settle();
    stage.driver.resume(client);
    stage.until("the reset is seen", |stage| stage.socket(client).failed.is_some());
    assert!(stage.socket(client).received.len() < BYTES);
}

/// The kernel has taken the receive, which finds bytes at once.
pub(crate) fn a_pause_right_behind_a_resume_pauses<D: Driver>(open: Open<'_, D>) {
    const BYTES: usize = 48_000_000;
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    let (client, server) = stage.pair(listener, addr);
    stage.driver.pause(server);
    stage.send(client, pattern(6, 0, BYTES));
    stage.settle();
    stage.driver.resume(server);
    stage.driver.pause(server);
    stage.settle();
    let at_pause = stage.socket(server).received.len();
    assert!(at_pause < BYTES / 2, "{at_pause} bytes came");
    stage.settle();
    assert_eq!(stage.socket(server).received.len(), at_pause);
}

/// A directory with one file of `bytes` patterned bytes, which is open.
pub(crate) fn file_of(bytes: usize) -> (TempDir, Rc<File>) {
    const NAME: &CStr = c"file";
    let directory = tempfile::tempdir().unwrap();
    let mut writer = std::fs::File::create(directory.path().join(NAME.to_str().unwrap())).unwrap();
    writer.write_all(&pattern(9, 0, bytes)).unwrap();
    let file = Root::open(directory.path()).unwrap().open_beneath(NAME).unwrap();
    (directory, Rc::new(file))
}

pub(crate) fn sends_files_with_heads<D: Driver>(open: Open<'_, D>) {
    const FILE_BYTES: usize = 5_000_000;
    let (_directory, file) = file_of(FILE_BYTES);
    let mut stage = open(8);
    let (listener, addr) = stage.listen(LOOPBACK_V4);
    let (client, server) = stage.pair(listener, addr);
    let whole = FILE_BYTES;
    for (head_bytes, offset, len) in [
        (0, 0, 0),
        (100, 0, 0),
        (100, whole, 0),
        (0, 0, 1),
        (100, 0, 1000),
        (0, 4097, 1000),
        (100, whole - 1, 1),
        (100, 0, whole),
        (0, 1, whole - 1),
        (1_000_000, 1_234_567, 2_345_678),
    ] {
        let head = pattern(8, 0, head_bytes);
        let span = FileSpan { file: Rc::clone(&file), offset: offset as u64, len: len as u64 };
        stage.send_file(server, &head, span);
        let seen = stage.until_received(client, head_bytes + len);
        let (seen_head, seen_body) = seen.split_at(head_bytes);
        assert_same(seen_head, &head);
        assert_same(seen_body, &pattern(9, offset as u64, len));
        stage.until_sent(server);
    }
    stage.close(server);
    stage.until("the end", |stage| stage.socket(client).ended);
    assert_eq!(Rc::strong_count(&file), 1, "the driver lets go of a file that was sent");
}
