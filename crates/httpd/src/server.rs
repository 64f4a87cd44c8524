//! The server: its listeners, its connections and their deadlines.

use std::io;
use std::net::SocketAddr;

use thalweg_reactor::{App, LoopControl};
use thalweg_sys::driver::Listen;
use thalweg_sys::{Completion, Driver, Instant, SocketId};

use crate::connection::{Connection, Input};
use crate::handler::{Handler, Ticket};
use crate::response::{Outgoing, Repetition, Response};
use crate::settings::{Settings, Times, WhenFull};

/// How long a listener that has failed to accept waits if no connection is closed before.
const ACCEPT_RETRY_NS: u64 = 100_000_000;

/// An HTTP server; see the [crate's documentation](crate).
pub struct Server<H> {
    settings: Settings,
    handler: H,
    listeners: Vec<SocketId>,
    /// The listeners that do not accept for want of room.
    full: Vec<SocketId>,
    retry_at: Option<Instant>,
    connections: Vec<Option<Connection>>,
    open: usize,
    accepted: u64,
    next_check: Option<Instant>,
}

impl<H: Handler> Server<H> {
    /// A server that does not listen yet.
    pub fn new(settings: Settings, handler: H) -> Self {
        Self {
            settings,
            handler,
            listeners: Vec::new(),
            full: Vec::new(),
            retry_at: None,
            connections: Vec::new(),
            open: 0,
            accepted: 0,
            next_check: None,
        }
    }

    /// Listens at `at`, and no longer where the server listened before; connections stay. Returns
    /// the address, which a Unix socket does not have.
    ///
    /// # Errors
    /// Those of [`Driver::listen`]; the server then listens where it did before.
    pub fn listen<D: Driver>(&mut self, driver: &mut D, at: Listen) -> io::Result<Option<SocketAddr>> {
        let listener = driver.listen(at)?;
        self.replace_listeners(driver, vec![listener]);
        Ok(driver.local_addr(listener).ok())
    }

    /// Listens at several places, and no longer where the server listened before; connections stay.
    /// Without places it accepts nothing.
    ///
    /// # Errors
    /// Those of [`Driver::listen`]; the server then listens where it did before.
    pub fn listen_at_all<D: Driver>(
        &mut self,
        driver: &mut D,
        places: impl IntoIterator<Item = Listen>,
    ) -> io::Result<()> {
        let mut listeners = Vec::new();
        for at in places {
            match driver.listen(at) {
                Ok(listener) => listeners.push(listener),
                Err(error) => {
                    listeners.into_iter().for_each(|listener| driver.close(listener));
                    return Err(error);
                }
            }
        }
        self.replace_listeners(driver, listeners);
        Ok(())
    }

    fn replace_listeners<D: Driver>(&mut self, driver: &mut D, listeners: Vec<SocketId>) {
        for before in std::mem::replace(&mut self.listeners, listeners) {
            driver.close(before);
        }
        self.full.clear();
        self.retry_at = None;
    }

    /// The handler, for its owner to change.
    pub fn handler(&mut self) -> &mut H {
        &mut self.handler
    }

    /// Gives a response that the handler has deferred. Returns whether it is used: the connection
    /// may have ended.
    pub fn answer<D: Driver>(&mut self, driver: &mut D, ticket: Ticket, response: Response) -> bool {
        let waits =
            self.connection(ticket.socket).is_some_and(|connection| connection.answer(ticket.request, response));
        if waits {
            self.proceed(driver, ticket.socket);
        }
        waits
    }

    /// Whether the client of a request may still want the response: it has not closed its side.
    pub fn is_awaited(&self, ticket: Ticket) -> bool {
        let connection = self.connections.get(ticket.socket.index()).and_then(Option::as_ref);
        connection.is_some_and(|connection| connection.socket == ticket.socket && connection.input != Input::Ended)
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.open
    }

    fn connection(&mut self, socket: SocketId) -> Option<&mut Connection> {
        self.connections.get_mut(socket.index())?.as_mut().filter(|connection| connection.socket == socket)
    }

    fn on_accepted<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        if let WhenFull::CloseOldest { connections_max } = self.settings.when_full
            && self.open >= connections_max
        {
            self.close_oldest(driver);
        }
        if self.connections.len() <= socket.index() {
            self.connections.resize_with(socket.index() + 1, || None);
        }
        let mut connection = Connection::new(socket, self.accepted, &self.settings);
        connection.deadline = self.deadline(driver.now(), |times| times.request_ns);
        self.connections[socket.index()] = Some(connection);
        self.accepted += 1;
        self.open += 1;
    }

    /// Accepting has stopped for want of a descriptor or a table slot: a close makes room for the
    /// connection that waits.
    fn on_accept_failed<D: Driver>(&mut self, driver: &mut D, listener: SocketId) {
        if !self.listeners.contains(&listener) {
            return;
        }
        self.full.push(listener);
        self.retry_at = Some(driver.now().plus_ns(ACCEPT_RETRY_NS));
        if let WhenFull::CloseOldest { .. } = self.settings.when_full {
            self.close_oldest(driver);
        }
    }

    fn on_received<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        let Self { settings, handler, connections, .. } = self;
        let Some(Some(connection)) = connections.get_mut(socket.index()) else { return };
        connection.read(driver.received(), settings, handler);
        if connection.responses.len() > settings.responses_waiting_max && !connection.is_paused {
            connection.is_paused = true;
            driver.pause(socket);
        }
        self.proceed(driver, socket);
    }

    /// Sends the next response, or ends the connection behind the last one.
    fn proceed<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        let now = driver.now();
        let (sending, lingering) =
            (self.deadline(now, |times| times.response_ns), self.deadline(now, |times| times.linger_ns));
        let (bound, lingers) = (self.settings.responses_waiting_max, self.settings.times.is_some());
        let Some(connection) = self.connection(socket) else { return };
        if connection.is_sending {
            return;
        }
        if let Some(piece) = connection.repetition.as_mut().and_then(Repetition::next) {
            connection.is_sending = true;
            connection.deadline = sending;
            driver.send(socket, piece);
            return;
        }
        connection.repetition = None;
        if let Some(response) = connection.responses.pop() {
            let message = match response {
                Outgoing::Message(message) => message,
                Outgoing::Last(message) => {
                    connection.end_behind();
                    message
                }
                Outgoing::Reset => return self.reset(driver, socket),
                Outgoing::Repeated(head, repetition) => {
                    connection.repetition = Some(repetition);
                    head
                }
            };
            connection.is_sending = true;
            connection.deadline = sending;
            driver.send(socket, message);
            if connection.is_paused && connection.responses.len() <= bound {
                connection.is_paused = false;
                driver.resume(socket);
            }
            return;
        }
        if connection.responses.len() > 0 {
            // The next response is still to come, which may take its time.
            connection.deadline = None;
            return;
        }
        match connection.input {
            Input::Open | Input::Lingering => {}
            Input::Ignored if lingers => {
                connection.input = Input::Lingering;
                connection.deadline = lingering;
                driver.finish(socket);
            }
            Input::Ignored | Input::Ended => self.close(driver, socket),
        }
    }

    fn on_sent<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        let next_request = self.deadline(driver.now(), |times| times.request_ns);
        let Some(connection) = self.connection(socket) else { return };
        connection.is_sending = false;
        connection.deadline = next_request;
        self.proceed(driver, socket);
    }

    fn on_ended<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        let Some(connection) = self.connection(socket) else { return };
        connection.input = Input::Ended;
        if connection.is_idle() {
            self.close(driver, socket);
        }
    }

    fn close<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        if self.forget(socket) {
            driver.close(socket);
            self.accept_again(driver);
        }
    }

    fn reset<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        if self.forget(socket) {
            driver.reset(socket);
            self.accept_again(driver);
        }
    }

    /// Takes a connection out of the table. Returns whether it was there.
    fn forget(&mut self, socket: SocketId) -> bool {
        let there = self.connection(socket).is_some();
        if there {
            self.connections[socket.index()] = None;
            self.open -= 1;
        }
        there
    }

    fn close_oldest<D: Driver>(&mut self, driver: &mut D) {
        let oldest = self.connections.iter().flatten().min_by_key(|connection| connection.number);
        if let Some(socket) = oldest.map(|connection| connection.socket) {
            self.close(driver, socket);
        }
    }

    fn accept_again<D: Driver>(&mut self, driver: &mut D) {
        if self.full.is_empty() {
            return;
        }
        self.retry_at = None;
        for listener in self.full.drain(..) {
            driver.resume_accept(listener);
        }
    }

    /// The deadline of a step that begins now.
    fn deadline(&self, now: Instant, step_ns: impl Fn(&Times) -> u64) -> Option<Instant> {
        self.settings.times.as_ref().map(|times| now.plus_ns(step_ns(times)))
    }

    /// Closes the connections whose deadline has passed. Returns the time of the next check.
    fn check_deadlines<D: Driver>(&mut self, driver: &mut D, now: Instant) -> Option<Instant> {
        let times = self.settings.times.as_ref()?;
        if self.open == 0 {
            self.next_check = None;
            return None;
        }
        let check_ns = times.check_ns();
        match self.next_check {
            Some(next) if next > now => return Some(next),
            Some(_) => {
                for index in 0..self.connections.len() {
                    let connection = self.connections[index].as_ref();
                    let late = connection.filter(|connection| connection.deadline.is_some_and(|at| at <= now));
                    if let Some(socket) = late.map(|connection| connection.socket) {
                        self.close(driver, socket);
                    }
                }
            }
            None => {}
        }
        self.next_check = Some(now.plus_ns(check_ns));
        self.next_check
    }
}

impl<D: Driver, H: Handler> App<D> for Server<H> {
    fn on_completion(&mut self, driver: &mut D, completion: Completion) {
        match completion {
            Completion::Accepted { socket, .. } => self.on_accepted(driver, socket),
            Completion::AcceptFailed { listener, .. } => self.on_accept_failed(driver, listener),
            Completion::Received { socket } => self.on_received(driver, socket),
            Completion::Sent { socket } => self.on_sent(driver, socket),
            Completion::Ended { socket } => self.on_ended(driver, socket),
            Completion::Failed { socket, .. } => self.close(driver, socket),
            Completion::Connected { .. } | Completion::Woken => {}
        }
    }

    /// Closes connections whose deadline has passed. The server never stops the loop.
    fn on_iteration(&mut self, driver: &mut D, now: Instant) -> LoopControl {
        if self.retry_at.is_some_and(|at| at <= now) {
            self.accept_again(driver);
        }
        let next_check = self.check_deadlines(driver, now);
        LoopControl::WaitUntil([next_check, self.retry_at].into_iter().flatten().min())
    }
}
