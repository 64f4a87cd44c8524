//! The server on one core: its listeners, its connections and their deadlines, as an [`App`] of the reactor's loop.

mod admission;

use std::sync::Arc;

use thalweg_reactor::{App, BufferPool, LoopControl, Wheel};
use thalweg_sys::driver::Listen;
use thalweg_sys::handover::Channel;
use thalweg_sys::{Completion, Driver, Fault, FileChanged, Instant, SocketId};

use crate::aside::Aside;
use crate::books::Books;
use crate::cache::FileCache;
use crate::calendar::{Calendar, SecondsAt};
use crate::config::{CacheConfig, Level, Limits, ServerConfig};
use crate::connection::{Connection, Fate, Share, Shared, Times};
use crate::counters::Published;
use crate::curfew::Curfew;
use crate::limit::pacer::{Pacer, SharedLimits, Stage};
use crate::limit::room::{self, Shedder};
use crate::list::Listings;
use crate::log::{ErrorLog, Feed};
use crate::metrics::Observed;
use crate::orders::{Inbox, Order, Settlement, take_listener};
use crate::respond::Responder;
use crate::server::StartError;
use crate::site::Sites;
use crate::warm::Warm;
use crate::watch::Ear;

pub(crate) use self::admission::OUTSIDE_MAX;
use self::admission::Outside;
#[cfg(test)]
pub(crate) use self::admission::TURNED_AWAY_MAX;

/// Resolution of deadlines.
const TICK_NS: u64 = 10_000_000;

/// How long accepting rests after the process or the host ran out of descriptors, unless a connection ends before.
const ACCEPT_REST_NS: u64 = 100_000_000;

/// The same, after a connection was closed to make room: closing takes the kernel a moment.
const SHED_REST_NS: u64 = 1_000_000;

/// Paced connections that go on between two looks at the others: each takes the kernel some ten microseconds.
const PACED_PER_TURN: usize = 64;
/// How long a listener that is given up is still heard after it has stopped: what it had accepted by then is served, and
/// what it had not stays in the queue of the socket.
const RETIRE_NS: u64 = 50_000_000;

/// Buffers kept for responses that are written anew and for requests that wait, and the largest that is kept.
const POOL_BUFFERS: usize = 64;
const POOL_BUFFER_BYTES_MAX: usize = 192 << 10;

/// The server on one core.
pub(crate) struct Service {
    shared: Shared,
    /// With the number of the group that each belongs to.
    listeners: Vec<(u32, SocketId)>,
    /// Listeners that are about to be closed. First they accept who waits in their queues, then they accept no more.
    retiring: Vec<SocketId>,
    retired: Vec<SocketId>,
    retirement_ends: Instant,
    /// Listeners that have stopped for want of descriptors or table slots.
    resting: Vec<SocketId>,
    rest_ends: Instant,
    /// At the index of their socket.
    slots: Vec<Slot>,
    open: usize,
    /// Those of them that there is no room for.
    outside: Outside,
    /// Connections that there is room for, on all cores; 0 is any number.
    places: usize,
    shedder: Shedder,
    wheel: Wheel,
    /// A deadline is looked at this long after the last look at the latest. As no deadline is set nearer than that, one
    /// entry in the wheel for each slot is enough.
    look_ns: u64,
    curfew: Arc<Curfew>,
    orders: Arc<[Inbox]>,
    /// What it hears of changes by, if the configuration wants it to.
    ear: Option<Ear>,
    /// What the operator should know goes there.
    error_log: Option<ErrorLog>,
    channel: Option<Channel>,
    published: Arc<[Published]>,
    core: usize,
}

/// What a server on one core is made of.
pub(crate) struct Setup<'c> {
    pub(crate) sites: Sites,
    pub(crate) limits: &'c Limits,
    /// Connections that there is room for, on all cores; 0 is any number. It stays as it is.
    pub(crate) places: usize,
    pub(crate) cache: &'c CacheConfig,
    pub(crate) aside: Aside,
    /// What all cores together may give.
    pub(crate) shared_limits: Arc<SharedLimits>,
    pub(crate) seconds_at: SecondsAt,
    /// If anybody wants to know what is done.
    pub(crate) books: Option<Books>,
    /// What the operator should know goes there.
    pub(crate) error_log: Option<ErrorLog>,
    pub(crate) curfew: Arc<Curfew>,
    /// Where each core finds its orders.
    pub(crate) orders: Arc<[Inbox]>,
    /// By what it hears of changes, if that can be had.
    pub(crate) ear: Option<Ear>,
    /// By which listeners come, if this core has a table of descriptors of its own.
    pub(crate) channel: Option<Channel>,
    /// Where all cores publish what they have done, and which of them this is.
    pub(crate) published: Arc<[Published]>,
    pub(crate) core: usize,
}

#[derive(Default)]
struct Slot {
    connection: Option<Connection>,
    /// The wheel has an entry for this slot.
    armed: bool,
}

impl Service {
    /// A server that has nothing to listen to yet.
    pub(crate) fn new(setup: Setup<'_>, now: Instant) -> Self {
        let times = Times::new(setup.limits);
        let ear = setup.ear.clone().filter(|_| setup.cache.watch);
        let cache = FileCache::new(Arc::new(setup.sites), setup.cache.clone(), ear);
        let listings = Listings::new(Arc::clone(cache.sites()), setup.cache);
        Self {
            look_ns: times.shortest_ns(),
            shared: Shared {
                times,
                responder: Responder::new(cache, listings, Calendar::new(setup.seconds_at, now), setup.books),
                aside: setup.aside,
                warm: Warm::default(),
                pool: BufferPool::new(POOL_BUFFERS, POOL_BUFFER_BYTES_MAX),
                pacer: setup.shared_limits.are_on().then(|| Pacer::new(setup.shared_limits, now)),
                draining: false,
                share: Share::default(),
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
            outside: Outside::default(),
            places: setup.places,
            shedder: Shedder::default(),
            wheel: Wheel::new(now, TICK_NS),
            curfew: setup.curfew,
            orders: setup.orders,
            ear: setup.ear,
            error_log: setup.error_log,
            channel: setup.channel,
            published: setup.published,
            core: setup.core,
        }
    }

    /// Writes down what is done from now on.
    #[cfg(test)]
    pub(crate) fn keep_books(&mut self, books: Books) {
        self.shared.responder.books = Some(books);
    }

    /// Hears of changes from now on.
    #[cfg(test)]
    pub(crate) fn hear(&mut self, ear: Ear) {
        let cache = &mut self.shared.responder.cache;
        cache.folders = crate::watch::Folders::new(Arc::clone(cache.sites()), Some(ear));
    }

    /// Serves the connections that come in at a listener of its driver.
    pub(crate) fn add_listener(&mut self, group: u32, listener: SocketId) {
        self.listeners.push((group, listener));
    }

    #[cold]
    fn follow_orders<D: Driver>(&mut self, driver: &mut D) {
        let orders = Arc::clone(&self.orders);
        for order in orders[self.core].take() {
            // Who has given an order may have given up waiting for the answer.
            match order {
                Order::Configure(settlement, done) => drop(done.send(self.configure(driver, settlement))),
                Order::Listen(group, socket) => {
                    let socket = socket.or_else(|| self.channel.as_ref().and_then(take_listener));
                    // Without room for it this core does not hear it; the other cores do.
                    let socket = socket.filter(|_| !self.shared.draining);
                    if let Some(Ok(listener)) = socket.map(|socket| driver.listen(Listen::Socket(socket))) {
                        self.add_listener(group, listener);
                    }
                }
                Order::Retire(group) => self.retire(driver, |of| of == group),
                Order::LookAgain => self.look_again(driver),
                Order::Heed(notices) => self.shared.responder.cache.folders.heed(&notices),
                Order::Answer(done) => drop(done.send(())),
            }
        }
    }

    /// Serves by another configuration from now on. Responses under way go on as they began.
    fn configure<D: Driver>(
        &mut self,
        driver: &mut D,
        Settlement { config, limits, feed, observed }: Settlement,
    ) -> Result<(), StartError> {
        let config = &*config;
        let sites = Sites::open(config)?;
        let times = Times::new(&config.limits);
        self.look_ns = times.shortest_ns();
        self.shared.times = times;
        self.limit_anew(driver, limits);
        let responder = &mut self.shared.responder;
        let ear = self.ear.clone().filter(|_| config.cache.watch);
        let cache = FileCache::new(Arc::new(sites), config.cache.clone(), ear).succeeding(&responder.cache);
        responder.listings = Listings::new(Arc::clone(cache.sites()), &config.cache);
        responder.cache = cache;
        self.keep_other_books(driver, config, feed, observed);
        Ok(())
    }

    /// Begins, goes on, or ceases to write down what is done.
    fn keep_other_books<D: Driver>(
        &mut self,
        driver: &mut D,
        config: &ServerConfig,
        feed: Option<Feed>,
        observed: Arc<Observed>,
    ) {
        let knew_clients = self.shared.responder.books.as_ref().is_some_and(Books::wants_clients);
        let books = match (self.shared.responder.books.take(), feed) {
            (Some(mut books), Some(_)) => {
                books.configure(config);
                books
            }
            (None, Some(feed)) => Books::new(self.core, feed, observed, config),
            (Some(books), None) => {
                books.close();
                let connections = self.slots.iter_mut().filter_map(|slot| slot.connection.as_mut());
                return connections.for_each(|connection| drop(connection.take_under_way()));
            }
            (None, None) => return,
        };
        let books = self.shared.responder.books.insert(books);
        if books.wants_clients() && !knew_clients {
            for connection in self.slots.iter().filter_map(|slot| slot.connection.as_ref()) {
                books.set_client(connection.socket, driver.peer_addr(connection.socket).ok().map(|peer| peer.ip()));
            }
        }
    }

    /// Has other limits hold, for the connections that are open too.
    pub(crate) fn limit_anew<D: Driver>(&mut self, driver: &mut D, limits: Arc<SharedLimits>) {
        let now = driver.now();
        self.shared.pacer = limits.are_on().then(|| Pacer::new(limits, now));
        for index in 0..self.slots.len() {
            let Some(connection) = &mut self.slots[index].connection else { continue };
            let socket = connection.socket;
            if let Some(pacer) = &mut self.shared.pacer {
                let knows_clients = pacer.shared().knows_clients();
                let address = knows_clients.then(|| driver.peer_addr(socket).ok()).flatten();
                let pace = pacer.take_over(connection.pace.take(), socket, address.map(|address| address.ip()), now);
                connection.pace = Some(pace);
            } else {
                // Nothing to wait for any more.
                self.react(driver, socket, |connection, driver, shared| {
                    connection.on_turn(driver, shared, Stage::Total)
                });
            }
        }
    }

    /// Begins to accept anew, which begins with a look at what waits.
    fn look_again<D: Driver>(&mut self, driver: &mut D) {
        for &(_, listener) in &self.listeners {
            if !self.resting.contains(&listener) {
                driver.pause(listener);
                driver.resume(listener);
            }
        }
    }

    /// Gives up the listeners of some groups, a little later: who waits to be accepted has been told by the kernel already that
    /// there is somebody.
    fn retire<D: Driver>(&mut self, driver: &mut D, which: impl Fn(u32) -> bool) {
        for (_, listener) in self.listeners.extract_if(.., |(group, _)| which(*group)) {
            if self.resting.contains(&listener) {
                self.resting.retain(|resting| *resting != listener);
                driver.resume_accept(listener);
            }
            self.retiring.push(listener);
        }
        self.retirement_ends = driver.now().plus_ns(RETIRE_NS);
    }

    /// Stops accepting from those listeners. They are closed a little later still, since the kernel may have accepted already what this
    /// core has yet to hear of.
    fn pause_retiring<D: Driver>(&mut self, driver: &mut D) {
        for &listener in &self.retiring {
            driver.pause(listener);
        }
        self.retired.append(&mut self.retiring);
        self.retirement_ends = driver.now().plus_ns(RETIRE_NS);
    }

    fn close_retired<D: Driver>(&mut self, driver: &mut D) {
        for listener in self.retired.drain(..) {
            driver.close(listener);
        }
    }

    fn on_accept_failed<D: Driver>(&mut self, driver: &mut D, listener: SocketId, error: &std::io::Error) {
        if self.retired.contains(&listener) || self.retiring.contains(&listener) {
            return;
        }
        let now = driver.now();
        self.resting.push(listener);
        // The kernel needs a moment to give back what was closed; who comes again in between finds nothing new.
        let has_just_shed = now < self.rest_ends;
        self.rest_ends = now.plus_ns(ACCEPT_REST_NS);
        if Fault::of(error) == Fault::NoDescriptor {
            self.shared.responder.cache.release_descriptors();
            if has_just_shed || self.close_oldest_outside(driver) || self.shed(driver, now) {
                self.rest_ends = now.plus_ns(SHED_REST_NS);
            }
        }
    }

    /// Lets connections go on that have waited for a rate.
    fn let_paced_go_on<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        for _ in 0..PACED_PER_TURN {
            let Some((socket, stage)) = self.shared.pacer.as_mut().and_then(|pacer| pacer.pop(now)) else { return };
            let slot = self.slots.get(socket.index());
            let connection = slot.and_then(|slot| slot.connection.as_ref());
            // It may have been closed meanwhile, and its place taken.
            if connection.is_some_and(|connection| connection.socket == socket) {
                self.react(driver, socket, |connection, driver, shared| connection.on_turn(driver, shared, stage));
            }
        }
    }

    /// Lets connections go on that have had their share of the turn before.
    #[cold]
    fn let_listed_go_on<D: Driver>(&mut self, driver: &mut D, listed: usize) {
        for _ in 0..listed {
            let Some(socket) = self.shared.share.pop() else { return };
            let slot = self.slots.get(socket.index());
            let connection = slot.and_then(|slot| slot.connection.as_ref());
            // It may have been closed meanwhile, and its place taken.
            if connection.is_some_and(|connection| connection.socket == socket) {
                self.react(driver, socket, Connection::on_share);
            }
        }
    }

    fn resume_accepting<D: Driver>(&mut self, driver: &mut D) {
        for listener in self.resting.drain(..) {
            driver.resume_accept(listener);
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
        let connection = self.slots[socket.index()].connection.as_mut().expect("each open socket has a connection");
        debug_assert_eq!(connection.socket, socket);
        match react(connection, driver, &mut self.shared) {
            Fate::Stays => {}
            Fate::Over => self.close(driver, socket),
            Fate::Abandoned => self.abandon(driver, socket),
            Fate::Asks => self.on_asks(driver, socket),
            Fate::Queues => self.on_queues(driver, socket),
            Fate::Refused => self.turn_away(driver, socket),
        }
    }

    fn close<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        self.forget(socket, driver.now());
        driver.close(socket);
        if !self.resting.is_empty() {
            self.resume_accepting(driver);
        }
    }

    /// Resets a connection whose response would have two versions of a file in it: no client takes a reset for the end.
    #[cold]
    fn cut_off<D: Driver>(&mut self, driver: &mut D, socket: SocketId, change: FileChanged) {
        self.shared.responder.totals.files_changed_while_sent += 1;
        if let Some(error_log) = &self.error_log {
            let cache = &self.shared.responder.cache;
            error_log.say_once_a_minute(Level::Warning, "file changed", || {
                let name = cache.name_of(change).unwrap_or_else(|| format!("the file with inode {}", change.inode));
                format!(
                    "{name} was written to while it was sent, and the download was reset; \
                     write a new file beside it and rename that over it"
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
        let Some(mut connection) = self.slots[socket.index()].connection.take() else { return };
        self.open -= 1;
        self.outside.forget(connection.standing);
        if let (Some(pace), Some(pacer)) = (&connection.pace, &mut self.shared.pacer) {
            pacer.leave(pace, now);
        }
        if let Some(books) = &mut self.shared.responder.books {
            books.on_closed(connection.take_under_way(), now);
        }
    }

    /// Lets connections go on that have waited for something that was done aside.
    #[cold]
    fn on_woken<D: Driver>(&mut self, driver: &mut D) {
        for socket in self.shared.aside.take_done() {
            let slot = self.slots.get(socket.index());
            let connection = slot.and_then(|slot| slot.connection.as_ref());
            // It may have been closed meanwhile, and its place taken.
            if connection.is_some_and(|connection| connection.socket == socket) {
                self.react(driver, socket, Connection::on_done_aside);
            }
        }
    }

    /// Ends connections whose deadline has passed.
    fn look_at_deadlines<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        while let Some(index) = self.wheel.pop_due(now) {
            let slot = &mut self.slots[index as usize];
            let Some(connection) = &mut slot.connection else {
                slot.armed = false;
                continue;
            };
            let socket = connection.socket;
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

    /// Stops accepting, and closes all connections that wait for another request. One that has asked for nothing yet has a
    /// request on its way, most likely, and gets its answer.
    fn begin_to_drain<D: Driver>(&mut self, driver: &mut D) {
        self.shared.draining = true;
        self.retire(driver, |_| true);
        if self.curfew.is_gentle() {
            // The process that follows accepts who waits.
            self.pause_retiring(driver);
        } else {
            self.close_where(driver, Connection::is_idle_again);
        }
    }

    fn close_where<D: Driver>(&mut self, driver: &mut D, is_over: impl Fn(&Connection) -> bool) {
        for index in 0..self.slots.len() {
            let over = self.slots[index].connection.as_ref().filter(|connection| is_over(connection));
            if let Some(socket) = over.map(|connection| connection.socket) {
                self.close(driver, socket);
            }
        }
    }

    /// When the next turn is due though nothing happens.
    fn next_turn(&self, now: Instant) -> Option<Instant> {
        let rest_ends = (!self.resting.is_empty()).then_some(self.rest_ends);
        let curfew = if self.shared.draining { self.curfew.at() } else { None };
        let is_retirement_due = !(self.retiring.is_empty() && self.retired.is_empty());
        let retirement_ends = is_retirement_due.then_some(self.retirement_ends);
        let paced = self.shared.pacer.as_ref().and_then(|pacer| pacer.next_due(now));
        let books = self.shared.responder.books.as_ref().and_then(Books::due);
        let due = [self.wheel.next_due(), rest_ends, retirement_ends, curfew, paced, books].into_iter().flatten().min();
        if self.shared.share.is_wanted() {
            return Some(now);
        }
        match self.outside.due(now) {
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
            Completion::Accepted { socket, .. } => self.on_accepted(driver, socket),
            Completion::Ended { socket } => self.react(driver, socket, |connection, _, _| connection.on_ended()),
            Completion::Failed { socket, error } => match FileChanged::cause_of(&error) {
                Some(change) => self.cut_off(driver, socket, change),
                None => self.close(driver, socket),
            },
            Completion::AcceptFailed { listener, error } => self.on_accept_failed(driver, listener, &error),
            Completion::Connected { .. } => unreachable!("a server does not connect"),
            Completion::Woken => {
                self.on_woken(driver);
                self.follow_orders(driver);
            }
        }
    }

    fn on_iteration(&mut self, driver: &mut D, now: Instant) -> LoopControl {
        self.shared.responder.calendar.advance(now);
        let times = &mut self.shared.times;
        times.idle_ns_now = room::idle_ns(times.idle_ns_max(), self.open, self.places / self.published.len());
        self.look_at_deadlines(driver, now);
        let listed = self.shared.share.renew();
        if listed > 0 {
            self.let_listed_go_on(driver, listed);
        }
        self.attend_outside(driver, now);
        if self.shared.pacer.is_some() {
            self.let_paced_go_on(driver, now);
        }
        if !self.resting.is_empty() && self.rest_ends <= now {
            self.resume_accepting(driver);
        }
        let curfew = self.curfew.at();
        if curfew.is_some() && !self.shared.draining {
            self.begin_to_drain(driver);
        }
        if curfew.is_some_and(|at| at <= now) {
            self.close_where(driver, |_| true);
            self.pause_retiring(driver);
            self.close_retired(driver);
        }
        if self.retirement_ends <= now {
            self.close_retired(driver);
            if !self.retiring.is_empty() {
                self.pause_retiring(driver);
            }
        }
        if let Some(books) = &mut self.shared.responder.books {
            let (entries, bytes, misses) = self.shared.responder.cache.figures();
            books.on_turn(now, entries, bytes, misses);
        }
        self.shared.responder.totals.open = self.open as u64;
        self.published[self.core].publish(&self.shared.responder.totals);
        let is_over = self.shared.draining && self.open == 0 && self.retiring.is_empty() && self.retired.is_empty();
        if is_over { LoopControl::Stop } else { LoopControl::WaitUntil(self.next_turn(now)) }
    }
}
