//! The cache tier's answers on a loop: they go to the connections that wait for them, and what was
//! counted goes to the tier.

use thalweg_sys::{Driver, SocketId};

use super::Service;
use crate::config::Level;
use crate::content::tier::Arrival;
use crate::server::connection::report_cut_off;
use crate::session::Ready;

impl Service {
    /// Gives answers and notices of the tier to the connections that wait for them.
    pub(super) fn take_arrivals<D: Driver>(&mut self, driver: &mut D) {
        let arrivals = self.inbox.take();
        for Arrival { socket, stream, answer } in arrivals.answers {
            self.make_ready(driver, socket, Ready::Answer { stream, answer });
        }
        for socket in arrivals.wakes {
            self.make_ready(driver, socket, Ready::Body);
        }
    }

    fn make_ready<D: Driver>(&mut self, driver: &mut D, socket: SocketId, ready: Ready) {
        let slot = self.slots.get(socket.index());
        let connection = slot.and_then(|slot| slot.connection.as_ref());
        // It may have been closed meanwhile, and its slot taken.
        if connection.is_some_and(|connection| connection.socket() == socket) {
            self.react(driver, socket, |connection, driver, shared| connection.on_ready(driver, shared, ready));
        }
    }

    /// Reports what was counted to the tier, and failures to the operator.
    pub(super) fn report_forwarding(&mut self) {
        let Some(forwarder) = &mut self.shared.responder.forwarder else { return };
        forwarder.report_hits();
        for failure in forwarder.take_failures() {
            if let Some(error_log) = &self.shared.error_log {
                error_log
                    .say_once_a_minute(Level::Warning, "origin", || format!("an origin did not answer: {failure}"));
            }
        }
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
