//! The status listener: a small HTTP server on a thread of its own, away from the loops.
//!
//! It is for few clients, which may be as broken as any other: connections, heads and times are
//! bounded, and each connection gets one response. Nothing protects the figures but the address
//! that it listens on and the names that it goes by (`hosts`); purging needs a token. The responses
//! are made by `handler`.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use thalweg_httpd::{Server, Settings, Ticket, WhenFull};
use thalweg_reactor::{App, LoopControl};
use thalweg_sys::driver::Listen;
use thalweg_sys::{Completion, Driver, DriverConfig, Epoll, Instant, Waker};

use super::collector::Collector;
use super::handler::StatusHandler;
use super::hosts::KnownHosts;
use super::purging::{self, Purging};
use super::responses::second;
use crate::config::Level;
use crate::content::tier::PurgeAnswer;

/// Most connections at once.
const CONNECTIONS_MAX: usize = 64;

/// Most listening sockets at once: the old and the new ones while they are exchanged, each with as
/// many as there are loops.
const LISTENERS_MAX: usize = 1024;

/// The interval at which counters are sampled.
const SAMPLE_NS: u64 = 1_000_000_000;

const RECEIVE_BUFFER_BYTES: usize = 8 << 10;

/// The time that the thread may take to follow a command. It takes one iteration, unless the
/// machine stands still.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// The thread of the status listener.
#[derive(Debug)]
pub(crate) struct StatusListener {
    address: Option<SocketAddr>,
    waker: Waker,
    commands: mpsc::Sender<Command>,
    thread: Option<JoinHandle<()>>,
}

/// A command to the thread.
#[derive(Debug)]
enum Command {
    /// Listen at these sockets instead of those before, for requests to these hosts.
    Listen(Vec<OwnedFd>, KnownHosts),
    /// Listen at no socket, and say when that is so.
    Release(mpsc::Sender<()>),
    /// Load the history, which another process has saved.
    ReloadHistory,
    /// Answer a request to purge.
    Reply(Ticket, PurgeAnswer),
    Stop,
}

impl StatusListener {
    /// Shows the figures of a collector on sockets that listen, or on none yet, to requests for
    /// these hosts.
    ///
    /// # Errors
    /// There is no descriptor or no thread left.
    pub(crate) fn start(sockets: Vec<OwnedFd>, hosts: KnownHosts, collector: Collector) -> io::Result<Self> {
        let waker = Waker::new()?;
        let config = DriverConfig {
            receive_buffer_bytes: RECEIVE_BUFFER_BYTES,
            receive_buffers: 1,
            ..DriverConfig::new(CONNECTIONS_MAX + LISTENERS_MAX, waker.clone())
        };
        let address = address_of(&sockets);
        let (commands, from) = mpsc::channel();
        let (started, starts) = mpsc::channel();
        let replying = {
            let (commands, waker) = (commands.clone(), waker.clone());
            move |ticket, answer| {
                // A thread that has ended needs no answer.
                let _ = commands.send(Command::Reply(ticket, answer));
                waker.wake();
            }
        };
        let run = move || {
            let purging = Purging::new(replying);
            let mut server = StatusServer::new(StatusHandler { collector, hosts, purging }, from);
            // A driver cannot change its thread.
            let opened = Epoll::open(&config).and_then(|mut driver| {
                server.http.listen_at_all(&mut driver, sockets.into_iter().map(Listen::Socket))?;
                Ok(driver)
            });
            match opened {
                Ok(mut driver) => {
                    let _ = started.send(Ok(()));
                    // A driver that fails leaves the server without its status, which a health
                    // check sees.
                    let _ = thalweg_reactor::run(&mut driver, &mut server);
                    server.save();
                }
                Err(error) => drop(started.send(Err(error))),
            }
        };
        let thread = thread::Builder::new().name("status".to_owned()).spawn(run)?;
        starts.recv().unwrap_or_else(|_| Err(io::Error::other("the status thread has panicked")))?;
        Ok(Self { address, waker, commands, thread: Some(thread) })
    }

    /// The address at which it listens, if it does.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Listens at other sockets instead, for requests to these hosts. Connections stay.
    pub(crate) fn listen(&mut self, sockets: Vec<OwnedFd>, hosts: KnownHosts) {
        self.address = address_of(&sockets);
        self.send(Command::Listen(sockets, hosts));
    }

    /// Listens no more, and returns when that is so. Connections that wait are left to another
    /// owner of the sockets.
    pub(crate) fn release(&self) {
        let (done, answer) = mpsc::channel();
        self.send(Command::Release(done));
        // A thread that has ended does not listen either.
        let _ = answer.recv_timeout(ANSWER_TIME);
    }

    /// Loads the history again, which another process has saved at its end.
    pub(crate) fn reload_history(&self) {
        self.send(Command::ReloadHistory);
    }

    /// Has the history saved and ends the thread.
    pub(crate) fn stop(&mut self) {
        self.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic was reported where it happened.
            let _ = thread.join();
        }
    }

    fn send(&self, command: Command) {
        // A thread that has ended follows no command.
        let _ = self.commands.send(command);
        self.waker.wake();
    }
}

impl Drop for StatusListener {
    fn drop(&mut self) {
        self.stop();
    }
}

fn address_of(sockets: &[OwnedFd]) -> Option<SocketAddr> {
    let socket = sockets.first()?.try_clone().ok()?;
    TcpListener::from(socket).local_addr().ok()
}

/// The application of the thread: an HTTP server, the sampling of counters, and commands.
struct StatusServer {
    http: Server<StatusHandler>,
    next_sample: Instant,
    commands: mpsc::Receiver<Command>,
    is_over: bool,
}

impl StatusServer {
    fn new(handler: StatusHandler, commands: mpsc::Receiver<Command>) -> Self {
        let settings = Settings {
            when_full: WhenFull::CloseOldest { connections_max: CONNECTIONS_MAX },
            requests_per_connection_max: 1,
            ..Settings::default()
        };
        Self { http: Server::new(settings, handler), next_sample: Instant::default(), commands, is_over: false }
    }

    fn run_commands<D: Driver>(&mut self, driver: &mut D) {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Listen(sockets, hosts) => {
                    self.http.handler().hosts = hosts;
                    // Without room for the new sockets it goes on with the old ones.
                    let _ = self.http.listen_at_all(driver, sockets.into_iter().map(Listen::Socket));
                }
                Command::Release(done) => {
                    // Listening at nothing needs nothing that could be missing.
                    let _ = self.http.listen_at_all(driver, None);
                    // The sender may have given up waiting.
                    let _ = done.send(());
                }
                Command::ReloadHistory => self.http.handler().collector.reload_history(second()),
                Command::Reply(ticket, answer) => {
                    // The client may have gone; the purge is in force all the same.
                    self.http.answer(driver, ticket, purging::response_of(answer));
                }
                Command::Stop => self.is_over = true,
            }
        }
    }

    /// Answers requests to purge that had a wrong token, and logs them.
    fn refuse_tokens<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        while let Some(ticket) = self.http.handler().purging.next_refused(now) {
            let from =
                driver.peer_addr(ticket.socket()).map_or_else(|_| "a client".to_owned(), |from| from.to_string());
            self.http.handler().collector.error_log().say_once_a_minute(Level::Warning, "token", || {
                format!("{from} has asked to purge or to list objects with a wrong token, or without one")
            });
            self.http.answer(driver, ticket, purging::refusal_of_token());
        }
    }

    /// Saves the history at the end, the last second included.
    fn save(&mut self) {
        let collector = &mut self.http.handler().collector;
        collector.advance(Instant::now(), second());
        collector.save(second());
    }
}

impl<D: Driver> App<D> for StatusServer {
    fn on_completion(&mut self, driver: &mut D, completion: Completion) {
        match completion {
            Completion::Woken => self.run_commands(driver),
            completion => self.http.on_completion(driver, completion),
        }
    }

    fn on_iteration(&mut self, driver: &mut D, now: Instant) -> LoopControl {
        if self.is_over {
            return LoopControl::Stop;
        }
        if self.next_sample <= now {
            self.http.handler().collector.advance(now, second());
            self.next_sample = now.plus_ns(SAMPLE_NS);
            self.refuse_tokens(driver, now);
        }
        match self.http.on_iteration(driver, now) {
            LoopControl::WaitUntil(Some(at)) => LoopControl::WaitUntil(Some(at.min(self.next_sample))),
            LoopControl::WaitUntil(None) => LoopControl::WaitUntil(Some(self.next_sample)),
            LoopControl::Stop => LoopControl::Stop,
        }
    }
}
