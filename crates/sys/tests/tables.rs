//! Several tables of descriptors in one process. A test program of its own, since it lowers the
//! limit of its process.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use thalweg_sys::driver::Listen;
use thalweg_sys::resource_limits::own_table;
use thalweg_sys::{AnyDriver, Completion, Connect, Driver, DriverChoice, DriverConfig, SocketId, Waker};

const LIMIT: u64 = 160;
const THREADS: usize = 4;

/// Connections of a thread, with both ends in its own table.
const CONNECTIONS: usize = 60;

#[test]
fn threads_together_hold_more_than_one_table_can() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(LIMIT), maximum }).unwrap();
    let one_table: io::Result<Vec<OwnedFd>> = (0..=LIMIT).map(|_| Ok(eventfd(0, EventfdFlags::CLOEXEC)?)).collect();
    assert!(one_table.is_err(), "the limit holds");
    for choice in choices() {
        let before = descriptors_open();
        let (holds, holding) = channel();
        let wakers: Vec<Waker> = (0..THREADS).map(|_| Waker::new().unwrap()).collect();
        thread::scope(|scope| {
            for waker in &wakers {
                let (waker, holds) = (waker.clone(), holds.clone());
                scope.spawn(move || {
                    own_table().unwrap();
                    let driver = AnyDriver::open(choice, &DriverConfig::new(LIMIT as usize, waker)).unwrap();
                    match driver {
                        AnyDriver::Uring(driver) => hold(driver, holds),
                        AnyDriver::Epoll(driver) => hold(driver, holds),
                    }
                });
            }
            drop(holds);
            // A thread that fails closes its channel without a message, and then the others must
            // still be released.
            let all = holding.iter().take(THREADS).count();
            let here = descriptors_open();
            // Made before the tables parted, they work across them.
            wakers.iter().for_each(Waker::wake);
            assert_eq!(all, THREADS);
            assert_eq!(here, before + THREADS, "only the wakers are in the first table");
        });
        drop(wakers);
        assert_eq!(descriptors_open(), before, "{choice:?}: what the threads held has gone with them");
    }
}

fn choices() -> Vec<DriverChoice> {
    let without_ring = std::env::var_os("THALWEG_NO_URING").is_some();
    if without_ring { vec![DriverChoice::Epoll] } else { vec![DriverChoice::Epoll, DriverChoice::Uring] }
}

/// Opens connections to itself, holds them until all threads do and the waker is used, and sees
/// that each still works.
fn hold<D: Driver>(mut driver: D, holds: Sender<()>) {
    let listener = driver.listen(Listen::Address(SocketAddr::from(([127, 0, 0, 1], 0)))).unwrap();
    let addr = driver.local_addr(listener).unwrap();
    let clients: Vec<SocketId> = (0..CONNECTIONS).map(|_| driver.connect(&Connect::tcp(addr)).unwrap()).collect();
    let (mut connected, mut accepted) = (0, Vec::new());
    while connected < CONNECTIONS || accepted.len() < CONNECTIONS {
        match next(&mut driver) {
            Completion::Connected { .. } => connected += 1,
            Completion::Accepted { socket, .. } => accepted.push(socket),
            other => panic!("{other:?}"),
        }
    }
    holds.send(()).unwrap();
    drop(holds);
    while !matches!(next(&mut driver), Completion::Woken) {}
    for &client in &clients {
        driver.send(client, thalweg_sys::SendBuf::Static(b"here"));
    }
    let mut received = 0;
    while received < CONNECTIONS {
        received += usize::from(matches!(next(&mut driver), Completion::Received { .. }));
    }
    clients.into_iter().chain(accepted).for_each(|socket| driver.close(socket));
}

fn next<D: Driver>(driver: &mut D) -> Completion {
    loop {
        if let Some(completion) = driver.next() {
            return completion;
        }
        driver.wait(None).unwrap();
    }
}

/// The number of open descriptors in the calling thread's table.
fn descriptors_open() -> usize {
    std::fs::read_dir("/proc/thread-self/fd").unwrap().count()
}
