//! Connections that a loop makes for its remote origins: events go to the origin, its actions to
//! the driver, and sessions that it has something for are woken.

use thalweg_sys::driver::Connect;
use thalweg_sys::{Completion, Driver, Instant, SendBuf, SocketId};

use super::Service;
use crate::content::remote::{OriginAction, OriginEvent, RemoteOrigin};
use crate::content::stream::Wakes;
use crate::server::connection::report_cut_off;
use crate::session::Ready;

impl Service {
    /// Serves a mount from a remote origin, which wakes sessions by what `make` is given.
    pub(crate) fn add_origin(&mut self, mount: u16, make: impl FnOnce(Wakes) -> Box<dyn RemoteOrigin>) {
        let origin = make(self.upstreams.wakes.clone());
        self.shared.responder.remotes.push((mount, origin));
    }

    /// Has an origin take an event of a socket that no connection has.
    #[cold]
    pub(super) fn on_upstream<D: Driver>(&mut self, driver: &mut D, socket: SocketId, completion: &Completion) {
        let Some(&(origin, connection)) = self.upstreams.by_socket.get(&socket) else {
            unreachable!("each open socket has a connection or an origin")
        };
        let now = driver.now();
        let event = match completion {
            Completion::Connected { .. } => OriginEvent::Connected,
            Completion::Received { .. } => OriginEvent::Received(driver.received()),
            Completion::Sent { .. } => OriginEvent::Sent,
            Completion::Ended { .. } => OriginEvent::Ended,
            _ => OriginEvent::Failed,
        };
        let is_gone = matches!(event, OriginEvent::Failed);
        self.shared.responder.remotes[origin].1.on_event(connection, event, now);
        if is_gone && let Some(socket) = self.upstreams.remove(origin, connection) {
            driver.close(socket);
        }
    }

    /// Carries out what the origins want, and wakes the sessions that they have something for.
    #[cold]
    pub(super) fn attend_origins<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        // A session that is woken may open the next object; what it wants then is done in the next
        // iteration at the latest.
        self.carry_out(driver, now);
        for socket in self.upstreams.wakes.take() {
            let slot = self.slots.get(socket.index());
            let connection = slot.and_then(|slot| slot.connection.as_ref());
            // It may have been closed meanwhile, and its slot taken.
            if connection.is_some_and(|connection| connection.socket() == socket) {
                self.react(driver, socket, |connection, driver, shared| {
                    connection.on_ready(driver, shared, Ready::Origin)
                });
            }
        }
        self.carry_out(driver, now);
    }

    fn carry_out<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        for (index, (_, origin)) in self.shared.responder.remotes.iter_mut().enumerate() {
            origin.on_iteration(now);
            while let Some(action) = origin.next_action() {
                match action {
                    OriginAction::Connect(connection, address) => match driver.connect(&Connect::tcp(address)) {
                        Ok(socket) => self.upstreams.insert(index, connection, socket),
                        Err(_) => origin.on_event(connection, OriginEvent::Failed, now),
                    },
                    OriginAction::Send(connection, bytes) => {
                        if let Some(&socket) = self.upstreams.by_connection.get(&(index, connection)) {
                            driver.send(socket, SendBuf::Owned(bytes));
                        }
                    }
                    OriginAction::Hold(connection, is_held) => {
                        match self.upstreams.by_connection.get(&(index, connection)) {
                            Some(&socket) if is_held => driver.pause(socket),
                            Some(&socket) => driver.resume(socket),
                            None => {}
                        }
                    }
                    OriginAction::Close(connection) => {
                        if let Some(socket) = self.upstreams.remove(index, connection) {
                            driver.close(socket);
                        }
                    }
                }
            }
        }
    }

    /// When an origin needs the next iteration.
    pub(super) fn origins_due(&self, now: Instant) -> Option<Instant> {
        let has_woken = !self.upstreams.wakes.is_empty();
        let dues = self.shared.responder.remotes.iter().filter_map(|(_, origin)| origin.due());
        dues.chain(has_woken.then_some(now)).min()
    }

    /// Resets a connection whose response cannot be delivered to its end, and reports why.
    #[cold]
    pub(super) fn on_failed<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        let reason = self.shared.failure.take();
        if let (Some(error_log), Some(reason)) = (&self.shared.error_log, reason) {
            report_cut_off(error_log, &reason);
        }
        self.abandon(driver, socket);
    }
}
