//! The server on one loop: its listeners, its connections and their deadlines, as an [`App`] of the
//! reactor's loop.

mod accepting;
mod admission;
mod announcing;
mod configure;
mod forwarding;
mod handshakes;

use std::sync::Arc;

use thalweg_reactor::{App, BufferPool, LoopControl, Wheel};
use thalweg_sys::driver::Listen;
use thalweg_sys::handover::Channel;
use thalweg_sys::{Completion, Driver, FileChanged, Instant, SocketId};
use thalweg_wire::forwarded::ClientField;

use crate::catalog::site::Sites;
use crate::config::{CacheConfig, Level, Limits, TlsConfig};
use crate::content::blocking_pool::{BlockingPool, Completed, Waiter, WaitingPart};
use crate::content::body::Payload;
use crate::content::held::HeldBounds;
use crate::content::local::origin::LocalOrigin;
use crate::content::local::residency::Residency;
use crate::content::local::watch::Subscription;
use crate::content::tier::{CacheTier, Inbox};
use crate::date_cache::{DateCache, SecondsAt};
use crate::http::challenges::HttpChallenges;
use crate::http::clients::Clients;
use crate::http::forwarder::Forwarder;
use crate::http::gate::Gate;
use crate::http::respond::{JobResult, Responder};
use crate::http::services::Scratch;
use crate::listing::Listings;
use crate::server::announcements::Announcements;
use crate::server::commands::{CommandQueue, LoopCommand, take_listener};
use crate::server::connection::{Connection, Fate, Shared, Times};
use crate::server::loop_tls::{self, LoopTls, TlsSetup};
use crate::server::shutdown::ShutdownDeadline;
use crate::session::Ready;
use crate::shaping::admission::AdmissionQueue;
use crate::shaping::eviction::{self, Evictor};
use crate::shaping::requests::RequestLimits;
use crate::shaping::shaper::{Shaper, SharedRateLimits};
use crate::telemetry::accounting::Accounting;
use crate::telemetry::counters::{Published, Totals};
use crate::telemetry::log::ErrorLog;
use crate::transport::TlsMemory;
use crate::work_budget::{HandshakeBudget, WorkBudget};

/// Resolution of deadlines.
const TICK_NS: u64 = 10_000_000;

/// Connections that the shaper resumes in one iteration, beside the others.
const SHAPED_PER_ITERATION: usize = 64;

/// Buffers kept for responses that are written anew and for requests that wait, and the largest
/// that is kept.
const POOL_BUFFERS: usize = 64;
const POOL_BUFFER_BYTES_MAX: usize = 192 << 10;

/// The server on one loop.
pub(crate) struct Service {
    shared: Shared,
    /// With the number of the group that each belongs to.
    listeners: Vec<(u32, SocketId)>,
    /// Listeners that are about to be closed. First they accept the connections in their queues,
    /// then no more.
    retiring: Vec<SocketId>,
    retired: Vec<SocketId>,
    retirement_ends: Instant,
    /// Listeners that have stopped for want of descriptors or table slots.
    resting: Vec<SocketId>,
    rest_ends: Instant,
    /// At the index of their socket.
    slots: Vec<Slot>,
    open: usize,
    /// TLS, if any listener speaks it.
    tls: Option<Box<LoopTls>>,
    /// PROXY headers.
    announcements: Announcements,
    /// The connections without a slot.
    admission_queue: AdmissionQueue<Box<Payload>>,
    /// Connection slots of all loops; 0 is any number.
    slots_max: usize,
    evictor: Evictor,
    wheel: Wheel,
    /// A deadline is looked at this long after the last look at the latest. As no deadline is set
    /// nearer than that, one entry in the wheel for each slot is enough.
    look_ns: u64,
    shutdown: Arc<ShutdownDeadline>,
    commands: Arc<[CommandQueue]>,
    /// Reports changes of files, if the configuration enables it.
    subscription: Option<Subscription>,
    channel: Option<Channel>,
    published: Arc<[Published]>,
    loop_index: usize,
    /// The inbox for answers of the cache tier.
    inbox: Arc<Inbox>,
}

/// The parts of a server on one loop.
pub(crate) struct Setup<'c> {
    pub(crate) sites: Sites,
    pub(crate) limits: &'c Limits,
    /// TLS and its settings, if any listener speaks it.
    pub(crate) tls: Option<(TlsSetup, &'c TlsConfig)>,
    /// The groups whose listeners begin with a PROXY header.
    pub(crate) proxied_groups: Vec<u32>,
    /// The field in which origins are told of clients.
    pub(crate) client_field: ClientField,
    /// Number of connection slots on all loops; 0 is any number. It never changes.
    pub(crate) slots_max: usize,
    pub(crate) cache: &'c CacheConfig,
    pub(crate) blocking: BlockingPool<JobResult>,
    /// The rates that all loops share.
    pub(crate) shared_limits: Arc<SharedRateLimits>,
    pub(crate) seconds_at: SecondsAt,
    /// The cache tier, if origins answer for any mount.
    pub(crate) tier: Option<Arc<dyn CacheTier>>,
    /// The inbox for its answers.
    pub(crate) inbox: Arc<Inbox>,
    /// The responses to a certification authority.
    pub(crate) challenges: Arc<HttpChallenges>,
    /// Present if logs or metrics need it.
    pub(crate) accounting: Option<Accounting>,
    /// Receives messages for the operator.
    pub(crate) error_log: Option<ErrorLog>,
    pub(crate) shutdown: Arc<ShutdownDeadline>,
    /// The command queue of each loop.
    pub(crate) commands: Arc<[CommandQueue]>,
    /// Reports changes of files, if the kernel supports it.
    pub(crate) subscription: Option<Subscription>,
    /// Receives listeners, if this loop has a table of descriptors of its own.
    pub(crate) channel: Option<Channel>,
    /// The published counters of all loops, and the index of this loop.
    pub(crate) published: Arc<[Published]>,
    pub(crate) loop_index: usize,
}

#[derive(Default)]
struct Slot {
    connection: Option<Connection>,
    /// The wheel has an entry for this slot.
    armed: bool,
}

/// Has a responder limit clients by the networks of its sites and by these limits, and know them
/// where that is needed.
fn open_gate(responder: &mut Responder, limits: Option<Arc<RequestLimits>>, field: ClientField) {
    let sites = responder.origin.namespace();
    let proxies = sites.proxies.as_ref();
    let needs_clients = proxies.is_some() || responder.forwarder.is_some();
    responder.clients = needs_clients.then(|| Box::new(Clients::new(proxies.cloned(), field)));
    responder.gate = Gate::of(sites.networks.as_ref(), proxies, limits);
}

/// A responder's end of a tier.
fn forwarder_of(
    responder: &Responder,
    tier: Arc<dyn CacheTier>,
    inbox: &Arc<Inbox>,
    cache: &CacheConfig,
) -> Box<Forwarder> {
    let mounts = responder.origin.namespace().forwarding.as_ref().map_or(0, |mounts| mounts.len());
    Box::new(Forwarder::new(tier, Arc::clone(inbox), HeldBounds::of(cache), mounts))
}

impl Service {
    /// A server that has nothing to listen to yet.
    pub(crate) fn new(setup: Setup<'_>, now: Instant) -> Self {
        let times = Times::new(setup.limits);
        let subscription = setup.subscription.clone().filter(|_| setup.cache.watch);
        let origin = LocalOrigin::new(Arc::new(setup.sites), setup.cache, subscription);
        let listings = Listings::new(Arc::clone(origin.namespace()), setup.cache, Arc::clone(&setup.inbox));
        let date_cache = DateCache::new(setup.seconds_at, now);
        let mut responder = Responder::new(origin, listings, date_cache, setup.challenges);
        responder.forwarder = setup.tier.map(|tier| forwarder_of(&responder, tier, &setup.inbox, setup.cache));
        open_gate(&mut responder, setup.shared_limits.requests().cloned(), setup.client_field);
        Self {
            look_ns: loop_tls::look_ns(&times, setup.tls.as_ref().map(|(_, config)| *config)),
            shared: Shared {
                times,
                responder,
                totals: Totals::default(),
                accounting: setup.accounting,
                blocking: setup.blocking,
                residency: Residency::default(),
                buffers: BufferPool::new(POOL_BUFFERS, POOL_BUFFER_BYTES_MAX),
                scratch: Scratch::default(),
                tls_memory: TlsMemory::default(),
                handshakes: 0,
                handshake_budget: HandshakeBudget::default(),
                redirect_port: setup.tls.as_ref().and_then(|(tls, _)| tls.redirect_port),
                error_log: setup.error_log,
                shaper: setup.shared_limits.are_on().then(|| Shaper::new(setup.shared_limits, now)),
                draining: false,
                budget: WorkBudget::default(),
                failure: None,
                file_change: None,
                held: None,
            },
            listeners: Vec::new(),
            retiring: Vec::new(),
            retired: Vec::new(),
            retirement_ends: now,
            resting: Vec::new(),
            rest_ends: now,
            slots: Vec::new(),
            open: 0,
            tls: setup.tls.map(|(setup, config)| Box::new(LoopTls::new(setup, config))),
            announcements: Announcements::new(setup.proxied_groups),
            admission_queue: AdmissionQueue::default(),
            slots_max: setup.slots_max,
            evictor: Evictor::default(),
            wheel: Wheel::new(now, TICK_NS),
            shutdown: setup.shutdown,
            commands: setup.commands,
            subscription: setup.subscription,
            channel: setup.channel,
            published: setup.published,
            loop_index: setup.loop_index,
            inbox: setup.inbox,
        }
    }

    /// Serves the sites of a configuration, and has a cache tier answer for the mounts that have
    /// origins.
    #[cfg(test)]
    pub(crate) fn forward(&mut self, tier: Arc<dyn CacheTier>, config: &crate::config::ServerConfig) {
        let responder = &mut self.shared.responder;
        responder.origin = LocalOrigin::new(Arc::new(Sites::open(config).unwrap()), &config.cache, None);
        responder.forwarder = Some(forwarder_of(responder, tier, &self.inbox, &config.cache));
        open_gate(responder, None, config.client_field);
    }

    /// Writes down what is done from now on.
    #[cfg(test)]
    pub(crate) fn set_accounting(&mut self, mut accounting: Accounting) {
        accounting.clients().trust(self.shared.responder.origin.namespace().proxies.clone());
        self.shared.accounting = Some(accounting);
    }

    /// Has its listeners of some groups speak TLS.
    #[cfg(test)]
    pub(crate) fn speak_tls(&mut self, setup: TlsSetup, config: &TlsConfig) {
        let mut tls = LoopTls::new(setup, config);
        self.listeners.iter().for_each(|&(group, listener)| tls.add_listener(group, listener));
        self.look_ns = loop_tls::look_ns(&self.shared.times, Some(config));
        self.tls = Some(Box::new(tls));
    }

    /// Bytes of buffers that its connections over TLS hold.
    #[cfg(test)]
    pub(crate) fn held_bytes(&mut self) -> usize {
        let connections = self.slots.iter_mut().filter_map(|slot| slot.connection.as_mut());
        connections.filter_map(|connection| connection.transport.tls()).map(|tls| tls.held_bytes()).sum()
    }

    /// Reports to the operator from now on.
    #[cfg(test)]
    pub(crate) fn set_error_log(&mut self, error_log: ErrorLog) {
        self.shared.error_log = Some(error_log);
    }

    /// Hears of changes from now on.
    #[cfg(test)]
    pub(crate) fn subscribe(&mut self, subscription: Subscription) {
        let origin = &mut self.shared.responder.origin;
        origin.folders = crate::content::local::watch::Folders::new(Arc::clone(origin.namespace()), Some(subscription));
    }

    /// Serves the connections that come in at a listener of its driver.
    pub(crate) fn add_listener(&mut self, group: u32, listener: SocketId) {
        self.listeners.push((group, listener));
        self.announcements.add_listener(group, listener);
        if let Some(tls) = &mut self.tls {
            tls.add_listener(group, listener);
        }
    }

    #[cold]
    fn run_commands<D: Driver>(&mut self, driver: &mut D) {
        let commands = Arc::clone(&self.commands);
        for order in commands[self.loop_index].take() {
            // The sender of a command may have stopped waiting for its result.
            match order {
                LoopCommand::Configure(update, done) => drop(done.send(self.configure(driver, *update))),
                LoopCommand::Listen(group, socket) => {
                    let socket = socket.or_else(|| self.channel.as_ref().and_then(take_listener));
                    // Without a free socket entry this loop does not accept from it; the other
                    // loops do.
                    let socket = socket.filter(|_| !self.shared.draining);
                    if let Some(Ok(listener)) = socket.map(|socket| driver.listen(Listen::Socket(socket))) {
                        self.add_listener(group, listener);
                    }
                }
                LoopCommand::Retire(group) => self.retire(driver, |of| of == group),
                LoopCommand::Release(group) => self.release(driver, group),
                LoopCommand::LookAgain => self.look_again(driver),
                LoopCommand::Apply(notices) => self.shared.responder.origin.folders.apply(&notices),
                LoopCommand::Answer(done) => drop(done.send(())),
            }
        }
    }

    /// Resumes connections that have waited for a rate.
    fn resume_shaped<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        for _ in 0..SHAPED_PER_ITERATION {
            let Some((socket, scope)) = self.shared.shaper.as_mut().and_then(|shaper| shaper.pop(now)) else { return };
            let slot = self.slots.get(socket.index());
            let connection = slot.and_then(|slot| slot.connection.as_ref());
            // It may have been closed meanwhile, and its slot reused.
            if connection.is_some_and(|connection| connection.socket() == socket) {
                self.react(driver, socket, |connection, driver, shared| connection.on_grant(driver, shared, scope));
            }
        }
    }

    /// Resumes connections that used up their work budget in the iteration before.
    #[cold]
    fn let_listed_go_on<D: Driver>(&mut self, driver: &mut D, listed: usize) {
        for _ in 0..listed {
            let Some(socket) = self.shared.budget.pop() else { return };
            let slot = self.slots.get(socket.index());
            let connection = slot.and_then(|slot| slot.connection.as_ref());
            // It may have been closed meanwhile, and its slot reused.
            if connection.is_some_and(|connection| connection.socket() == socket) {
                self.react(driver, socket, Connection::on_budget);
            }
        }
    }

    /// Lets the connection of a socket react.
    #[inline]
    fn react<D: Driver>(
        &mut self,
        driver: &mut D,
        socket: SocketId,
        react: impl FnOnce(&mut Connection, &mut D, &mut Shared) -> Fate,
    ) {
        let Some(connection) = self.slots[socket.index()].connection.as_mut() else {
            return self.on_announcement(driver, socket);
        };
        debug_assert_eq!(connection.socket(), socket);
        let mut fate = react(connection, driver, &mut self.shared);
        if connection.transport.tls().is_some() {
            fate = connection.settle(driver, &mut self.shared, fate);
        }
        match fate {
            Fate::Stays => {}
            Fate::Over => self.close(driver, socket),
            Fate::Abandoned => self.abandon(driver, socket),
            Fate::Failed => self.on_failed(driver, socket),
            Fate::FileChanged => match self.shared.file_change.take() {
                Some(change) => self.cut_off(driver, socket, change),
                None => self.abandon(driver, socket),
            },
            Fate::RequestsSlot => self.on_asks(driver, socket),
            Fate::QueuesForSlot => self.on_queues(driver, socket),
            Fate::Refused => self.refuse(driver, socket),
        }
    }

    fn close<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        let connection = self.slots[socket.index()].connection.as_mut();
        let last = connection.map(Connection::last_bytes).unwrap_or_default();
        self.forget(socket, driver.now());
        if last.is_empty() {
            driver.close(socket);
        } else {
            driver.close_behind(socket, &last);
        }
        if !self.resting.is_empty() {
            self.resume_accepting(driver);
        }
    }

    /// Resets a connection whose response would have two versions of a file in it: no client takes
    /// a reset for the end.
    #[cold]
    fn cut_off<D: Driver>(&mut self, driver: &mut D, socket: SocketId, change: FileChanged) {
        self.shared.totals.files_changed_while_sent += 1;
        if let Some(error_log) = &self.shared.error_log {
            let origin = &self.shared.responder.origin;
            error_log.say_once_a_minute(Level::Warning, "file changed", || {
                let name = origin.name_of(change).unwrap_or_else(|| format!("the file with inode {}", change.inode));
                format!(
                    "{name} was modified while it was sent, and the download was reset; write a new file and rename \
                     it over the old one"
                )
            });
        }
        self.abandon(driver, socket);
    }

    /// Closes a connection whose client does not take what it was sent.
    #[cold]
    fn abandon<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        self.forget(socket, driver.now());
        driver.reset(socket);
        self.resume_accepting(driver);
    }

    fn forget(&mut self, socket: SocketId, now: Instant) {
        let Some(mut connection) = self.slots[socket.index()].connection.take() else {
            return self.forget_announcement(socket);
        };
        self.open -= 1;
        if connection.is_in_handshake() {
            self.shared.handshakes -= 1;
        }
        self.admission_queue.forget(connection.admission);
        if let (Some(shaping_state), Some(shaper)) = (connection.shaping_state().as_ref(), &mut self.shared.shaper) {
            shaper.leave(shaping_state, now);
        }
        if let Some(accounting) = &mut self.shared.accounting {
            accounting.on_closed(connection.take_records(), now);
        }
    }

    /// Resumes connections that have waited for a job of the blocking pool.
    #[cold]
    fn on_woken<D: Driver>(&mut self, driver: &mut D) {
        for Completed { result, waiters } in self.shared.blocking.take_results() {
            let outcome = self.shared.responder.complete(result, driver.now());
            for Waiter { socket, part } in waiters {
                let slot = self.slots.get(socket.index());
                let connection = slot.and_then(|slot| slot.connection.as_ref());
                // It may have been closed meanwhile, and its slot taken.
                if connection.is_some_and(|connection| connection.socket() == socket) {
                    self.react(driver, socket, |connection, driver, shared| match part {
                        WaitingPart::Sender => connection.on_read_ahead(driver, shared),
                        WaitingPart::Request(stream) => {
                            connection.on_ready(driver, shared, Ready::Job { stream, outcome })
                        }
                    });
                }
            }
        }
    }

    /// Ends connections whose deadline has passed.
    fn look_at_deadlines<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        while let Some(index) = self.wheel.pop_due(now) {
            let slot = &mut self.slots[index as usize];
            let Some(connection) = &mut slot.connection else {
                slot.armed = false;
                self.slots[index as usize].armed = self.look_at_announcement(driver, index as usize, now);
                continue;
            };
            let socket = connection.socket();
            connection.look(driver, &self.shared.times, now);
            let fate = match connection.deadline <= now {
                true => connection.on_deadline(driver, &mut self.shared),
                false if connection.is_idle_too_long(&self.shared.times, now) => Fate::Over,
                false => Fate::Stays,
            };
            if fate != Fate::Stays {
                self.react(driver, socket, |_, _, _| fate);
            }
            let slot = &mut self.slots[index as usize];
            slot.armed = slot.connection.is_some();
            if let Some(connection) = &slot.connection {
                self.wheel.arm(index, connection.deadline.min(now.plus_ns(self.look_ns)));
            }
        }
    }

    /// Stops accepting, and closes all connections that wait for another request. A connection
    /// without any request so far most likely has one on its way, and gets its response.
    fn begin_to_drain<D: Driver>(&mut self, driver: &mut D) {
        self.shared.draining = true;
        self.retire(driver, |_| true);
        if self.shutdown.is_gentle() {
            // The successor process accepts the waiting connections.
            self.pause_retiring(driver);
        } else {
            for socket in self.sockets_where(Connection::is_idle_again) {
                self.react(driver, socket, Connection::on_draining);
            }
        }
    }

    fn sockets_where(&self, is_meant: impl Fn(&Connection) -> bool) -> Vec<SocketId> {
        let connections = self.slots.iter().filter_map(|slot| slot.connection.as_ref());
        connections.filter(|connection| is_meant(connection)).map(Connection::socket).collect()
    }

    /// The time at which the next iteration is due without any event.
    fn next_iteration(&self, now: Instant) -> Option<Instant> {
        let rest_ends = (!self.resting.is_empty()).then_some(self.rest_ends);
        let shutdown = if self.shared.draining { self.shutdown.at() } else { None };
        let is_retirement_due = !(self.retiring.is_empty() && self.retired.is_empty());
        let retirement_ends = is_retirement_due.then_some(self.retirement_ends);
        let shaped = self.shared.shaper.as_ref().and_then(|shaper| shaper.next_due(now));
        let accounting = self.shared.accounting.as_ref().and_then(Accounting::due);
        let due = [self.wheel.next_due(), rest_ends, retirement_ends, shutdown, shaped, accounting]
            .into_iter()
            .flatten()
            .min();
        if self.shared.budget.is_waited_for() || self.shared.handshake_budget.is_waited_for() {
            return Some(now);
        }
        match self.admission_queue.due(now) {
            None => due,
            Some(look) => Some(due.map_or(look, |due| due.min(look))),
        }
    }
}

impl<D: Driver> App<D> for Service {
    #[inline]
    fn on_completion(&mut self, driver: &mut D, completion: Completion) {
        match completion {
            Completion::Received { socket } => self.react(driver, socket, Connection::on_received),
            Completion::Sent { socket } => self.react(driver, socket, Connection::on_sent),
            Completion::Accepted { listener, socket } => self.on_accepted(driver, listener, socket),
            Completion::Ended { socket } if self.announcements.arriving(socket).is_some() => self.close(driver, socket),
            Completion::Ended { socket } => self.react(driver, socket, Connection::on_ended),
            Completion::Failed { socket, error } => match FileChanged::cause_of(&error) {
                Some(change) => self.cut_off(driver, socket, change),
                None => self.close(driver, socket),
            },
            Completion::AcceptFailed { listener, error } => self.on_accept_failed(driver, listener, &error),
            Completion::Connected { .. } => unreachable!("a server does not connect"),
            Completion::Woken => {
                self.on_woken(driver);
                self.take_arrivals(driver);
                self.run_commands(driver);
            }
        }
    }

    fn on_iteration(&mut self, driver: &mut D, now: Instant) -> LoopControl {
        self.shared.responder.date_cache.advance(now);
        let times = &mut self.shared.times;
        times.idle_ns_now = eviction::idle_ns(times.idle_ns_max(), self.open, self.slots_max / self.published.len());
        self.look_at_deadlines(driver, now);
        let listed = self.shared.budget.renew();
        if listed > 0 {
            self.let_listed_go_on(driver, listed);
        }
        let handshakes = self.shared.handshake_budget.renew();
        if handshakes > 0 {
            self.advance_handshakes(driver, handshakes);
        }
        self.advance_admission(driver, now);
        if self.shared.responder.forwarder.is_some() {
            self.report_forwarding();
        }
        if self.shared.shaper.is_some() {
            self.resume_shaped(driver, now);
        }
        if !self.resting.is_empty() && self.rest_ends <= now {
            self.resume_accepting(driver);
        }
        let shutdown = self.shutdown.at();
        if shutdown.is_some() && !self.shared.draining {
            self.begin_to_drain(driver);
        }
        if shutdown.is_some_and(|at| at <= now) {
            for socket in self.sockets_where(|_| true).into_iter().chain(self.announcements.sockets()) {
                self.close(driver, socket);
            }
            self.pause_retiring(driver);
            self.close_retired(driver);
        }
        if self.retirement_ends <= now {
            self.close_retired(driver);
            if !self.retiring.is_empty() {
                self.pause_retiring(driver);
            }
        }
        if let Some(accounting) = &mut self.shared.accounting {
            let (entries, bytes, misses) = self.shared.responder.origin.figures();
            accounting.on_iteration(now, entries, bytes, misses);
        }
        self.shared.totals.open = self.open as u64;
        let refused = self.shared.responder.refused;
        (self.shared.totals.requests_denied, self.shared.totals.requests_limited) = (refused.denied, refused.limited);
        self.published[self.loop_index].publish(&self.shared.totals);
        let is_over = self.shared.draining && self.open == 0 && self.retiring.is_empty() && self.retired.is_empty();
        if is_over { LoopControl::Stop } else { LoopControl::WaitUntil(self.next_iteration(now)) }
    }
}
