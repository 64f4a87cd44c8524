//! The status listener: a small HTTP server of its own on a thread of its own, away from the loops that serve.
//!
//! It is for few visitors, who may be as broken as any other: connections, heads and times are bounded, one request is answered per
//! connection, and nobody waits for anybody. There is no protection but the address that it listens on and the names that it goes by
//! (`hosts`). What is answered is in `answer`.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use thalweg_reactor::{App, LoopControl};
use thalweg_sys::driver::Listen;
use thalweg_sys::{Completion, Driver, DriverConfig, Epoll, Instant, SendBuf, SocketId, Waker, clock};
use thalweg_wire::{Bounds, FieldSlots, RequestEvent, RequestReader};

use super::answer::{answer, refusal};
use super::collector::Collector;
use super::hosts::KnownHosts;

/// Most visitors at once.
const VISITORS_MAX: usize = 64;

/// How long a visitor may take to ask, and then to take the answer.
const VISIT_NS: u64 = 5_000_000_000;

/// How often the collector looks at the counters.
const SAMPLE_NS: u64 = 1_000_000_000;

const RECEIVE_BUFFER_BYTES: usize = 8 << 10;

/// The thread.
#[derive(Debug)]
pub(crate) struct StatusListener {
    address: SocketAddr,
    waker: Waker,
    wishes: Arc<Wishes>,
    thread: Option<JoinHandle<()>>,
}

/// What is wanted of the thread when it is woken.
#[derive(Debug, Default)]
struct Wishes {
    stop: AtomicBool,
    reload_history: AtomicBool,
    /// Listen at this socket instead, and go by these names.
    listener: Mutex<Option<(TcpListener, KnownHosts)>>,
}

impl StatusListener {
    /// Shows a collector on a socket that listens, to requests for these hosts.
    ///
    /// # Errors
    /// There is no descriptor or no thread left.
    pub(crate) fn start(listener: TcpListener, hosts: KnownHosts, collector: Collector) -> io::Result<Self> {
        let waker = Waker::new()?;
        let config = DriverConfig {
            receive_buffer_bytes: RECEIVE_BUFFER_BYTES,
            receive_buffers: 1,
            // Of two listeners one is about to be closed.
            ..DriverConfig::new(VISITORS_MAX + 2, waker.clone())
        };
        let address = listener.local_addr()?;
        let wishes = Arc::new(Wishes::default());
        let wishes_too = Arc::clone(&wishes);
        let (started, starts) = mpsc::channel();
        let run = move || {
            // A driver cannot change its thread.
            let opened = Epoll::open(&config).and_then(|mut driver| {
                let listener = driver.listen(Listen::Socket(listener.into()))?;
                Ok((driver, listener))
            });
            match opened {
                Ok((mut driver, listener)) => {
                    let _ = started.send(Ok(()));
                    let mut server = StatusServer::new(collector, listener, hosts, wishes_too);
                    // A driver that fails leaves the server without its status, which a health check sees.
                    let _ = thalweg_reactor::run(&mut driver, &mut server);
                    // The last second counts too.
                    server.collector.advance(Instant::now(), second());
                    server.collector.save(second());
                }
                Err(error) => drop(started.send(Err(error))),
            }
        };
        let thread = thread::Builder::new().name("status".to_owned()).spawn(run)?;
        starts.recv().unwrap_or_else(|_| Err(io::Error::other("the status thread has panicked")))?;
        Ok(Self { address, waker, wishes, thread: Some(thread) })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Shows the same collector at another socket instead, to requests for these hosts. Visitors stay.
    ///
    /// # Errors
    /// The socket has no address.
    pub(crate) fn move_to(&mut self, listener: TcpListener, hosts: KnownHosts) -> io::Result<()> {
        self.address = listener.local_addr()?;
        *self.wishes.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some((listener, hosts));
        self.waker.wake();
        Ok(())
    }

    /// Another process, which has kept the same days, has stopped.
    pub(crate) fn reload_history(&self) {
        self.wishes.reload_history.store(true, Relaxed);
        self.waker.wake();
    }

    /// Has the days saved and ends the thread.
    pub(crate) fn stop(&mut self) {
        self.wishes.stop.store(true, Relaxed);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic has been told of where it happened.
            let _ = thread.join();
        }
    }
}

impl Drop for StatusListener {
    fn drop(&mut self) {
        self.stop();
    }
}

fn second() -> i64 {
    i64::try_from(clock::unix_seconds()).unwrap_or(i64::MAX)
}

/// The thread's own things.
struct StatusServer {
    collector: Collector,
    listener: SocketId,
    hosts: KnownHosts,
    /// The listener has stopped for want of room.
    rests: bool,
    visitors: Vec<Visitor>,
    next_sample: Instant,
    wishes: Arc<Wishes>,
}

struct Visitor {
    socket: SocketId,
    reader: RequestReader,
    phase: Phase,
    /// It will ask no more.
    ended: bool,
    deadline: Instant,
}

/// How far a visit has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Asking,
    /// The answer is on its way.
    Answered,
    /// The answer has gone, and the visitor may still be reading it: a close from here could take it back.
    Leaving,
}

impl StatusServer {
    fn new(collector: Collector, listener: SocketId, hosts: KnownHosts, wishes: Arc<Wishes>) -> Self {
        Self { collector, listener, hosts, rests: false, visitors: Vec::new(), next_sample: Instant::default(), wishes }
    }

    /// Takes over another process's days or moves to another socket, if that is wished.
    fn follow_wishes<D: Driver>(&mut self, driver: &mut D) {
        if self.wishes.reload_history.swap(false, Relaxed) {
            self.collector.reload_history(second());
        }
        let wished = self.wishes.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((listener, hosts)) = wished else { return };
        self.hosts = hosts;
        // Without a descriptor for the new one, the old one is what there is.
        if let Ok(listener) = driver.listen(Listen::Socket(listener.into())) {
            driver.close(std::mem::replace(&mut self.listener, listener));
            self.rests = false;
        }
    }

    fn on_received<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        let Some(visitor) = self.visitors.iter_mut().find(|visitor| visitor.socket == socket) else { return };
        if visitor.phase != Phase::Asking {
            return;
        }
        let mut slots = FieldSlots::new();
        let answer = match visitor.reader.read(driver.received(), &mut slots) {
            Ok(progress) => match progress.event {
                Some(RequestEvent::Head(head)) => answer(&self.collector, &self.hosts, &head, second()),
                _ => return,
            },
            Err(error) => refusal(error.status(), second()),
        };
        visitor.phase = Phase::Answered;
        visitor.deadline = driver.now().plus_ns(VISIT_NS);
        driver.send(socket, SendBuf::Owned(answer));
    }

    /// Notes what has happened to a visitor, and lets it go if it is done.
    fn go_on<D: Driver>(&mut self, driver: &mut D, socket: SocketId, note: impl FnOnce(&mut Visitor)) {
        let Some(visitor) = self.visitors.iter_mut().find(|visitor| visitor.socket == socket) else { return };
        note(visitor);
        if visitor.ended && visitor.phase != Phase::Answered {
            self.close(driver, socket);
        }
    }

    fn close<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        self.visitors.retain(|visitor| visitor.socket != socket);
        driver.close(socket);
        if std::mem::take(&mut self.rests) {
            driver.resume_accept(self.listener);
        }
    }
}

impl<D: Driver> App<D> for StatusServer {
    fn on_completion(&mut self, driver: &mut D, completion: Completion) {
        match completion {
            Completion::Accepted { socket, .. } => {
                let reader = RequestReader::new(Bounds::requests());
                let deadline = driver.now().plus_ns(VISIT_NS);
                self.visitors.push(Visitor { socket, reader, phase: Phase::Asking, ended: false, deadline });
            }
            Completion::AcceptFailed { .. } => {
                self.rests = true;
                // Who has been here longest makes room; a close goes on accepting.
                let longest = self.visitors.iter().min_by_key(|visitor| visitor.deadline);
                if let Some(socket) = longest.map(|visitor| visitor.socket) {
                    self.close(driver, socket);
                }
            }
            Completion::Received { socket } => self.on_received(driver, socket),
            Completion::Sent { socket } => {
                driver.finish(socket);
                self.go_on(driver, socket, |visitor| visitor.phase = Phase::Leaving);
            }
            Completion::Ended { socket } => self.go_on(driver, socket, |visitor| visitor.ended = true),
            Completion::Failed { socket, .. } => self.close(driver, socket),
            Completion::Connected { .. } => unreachable!("the status listener does not connect"),
            Completion::Woken => self.follow_wishes(driver),
        }
    }

    fn on_iteration(&mut self, driver: &mut D, now: Instant) -> LoopControl {
        if self.wishes.stop.load(Relaxed) {
            return LoopControl::Stop;
        }
        if self.next_sample <= now {
            self.collector.advance(now, second());
            self.next_sample = now.plus_ns(SAMPLE_NS);
            if std::mem::take(&mut self.rests) {
                driver.resume_accept(self.listener);
            }
        }
        let late = self.visitors.iter().filter(|visitor| visitor.deadline <= now).map(|visitor| visitor.socket);
        for socket in late.collect::<Vec<_>>() {
            self.close(driver, socket);
        }
        // The next look at deadlines is with the next sample: a second late is early enough.
        LoopControl::WaitUntil(Some(self.next_sample))
    }
}
