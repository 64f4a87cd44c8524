//! Requests on their way to the driver: one as it was encoded before, or several in one send.

use std::rc::Rc;

use thalweg_sys::{Driver, Instant, SendBuf, SocketId};

use super::state::Engine;
use crate::protocol::{Protocol, StreamId};

impl<P: Protocol> Engine<P> {
    /// Submits the only call of a connection: as it was encoded before, if it was and the protocol
    /// sends it so.
    #[inline]
    pub(super) fn submit_first<D: Driver>(&mut self, driver: &mut D, id: SocketId, stream: StreamId, now: Instant) {
        let in_window = self.is_in_window(now);
        let connection = &mut self.connections[id.index()];
        let call = &mut self.calls[stream];
        let encoded = if P::MULTIPLEXED { None } else { self.requests.ready(call.request, call.last) };
        let Some(request) = encoded else {
            connection.buffers.get_or_insert_with(|| self.spare_buffers.pop().unwrap_or_default()).unsent = 1;
            if !connection.sending {
                self.submit_soon(driver, id, now);
            }
            return;
        };
        debug_assert!(!connection.sending, "a connection whose send is stuck is not used again");
        call.submitted = true;
        connection.sending = true;
        connection.submitted_at = now;
        if call.measured {
            self.figures.record_sent(request.bytes.len(), request.body_bytes, in_window);
        }
        connection.transport.send(driver, id, SendBuf::Shared(request.bytes.clone()));
    }

    /// Submits the calls of a connection that were not submitted: those of a multiplexed protocol
    /// at the end of the iteration, with all that come until then.
    #[inline]
    pub(super) fn submit_soon<D: Driver>(&mut self, driver: &mut D, id: SocketId, now: Instant) {
        if !P::MULTIPLEXED {
            return self.submit(driver, id, now);
        }
        let connection = &mut self.connections[id.index()];
        if !std::mem::replace(&mut connection.in_unsent, true) {
            self.unsent.push(id);
        }
    }

    /// Submits what has gathered on connections in this iteration.
    pub(super) fn submit_gathered<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        while let Some(id) = self.unsent.pop() {
            let connection = &mut self.connections[id.index()];
            if connection.id != id {
                continue;
            }
            connection.in_unsent = false;
            let is_left = connection.buffers.as_ref().is_some_and(|buffers| buffers.unsent > 0);
            let can_send = connection.is_established() && !connection.sending;
            if can_send && (is_left || connection.protocol.has_output()) {
                self.submit(driver, id, now);
                if self.connections[id.index()].protocol.has_ended_calls() {
                    self.take_in(driver, id, Some(&[]), now);
                }
            }
        }
    }

    /// Submits all calls of a connection that were not submitted, in one send.
    pub(super) fn submit<D: Driver>(&mut self, driver: &mut D, id: SocketId, now: Instant) {
        let (in_window, latest) = (self.is_in_window(now), driver.sent_at(id));
        let connection = &mut self.connections[id.index()];
        let Some(buffers) = &mut connection.buffers else { return };
        let mut known = connection.calls.len() - std::mem::take(&mut buffers.unsent);
        let batch = Rc::get_mut(&mut buffers.batch).expect("the send before has ended, and with it the driver's share");
        batch.clear();
        let late_body_bytes = connection.protocol.write_output(batch);
        let mut next = connection.calls.first();
        if next.is_some_and(|oldest| self.calls[oldest].measured) {
            self.figures.record_late_body(late_body_bytes);
        }
        while let Some(stream) = next {
            let call = &mut self.calls[stream];
            next = call.next;
            if known > 0 {
                // The driver is about to forget when this one was sent.
                call.sent.set_once(latest);
                known -= 1;
                continue;
            }
            let before = batch.len();
            let requests = &self.requests;
            let encode = |out: &mut Vec<u8>| match (&self.follower, call.followed()) {
                (Some(follower), Some(hop)) => {
                    follower.write(hop, &requests.view(call.request), requests.encoder(), call.last, out)
                }
                _ => requests.write(call.request, call.last, out),
            };
            let body_bytes = connection.protocol.write(stream, requests.encoder(), batch, encode);
            call.submitted = batch.len() > before;
            if !call.submitted {
                // The protocol will name its end.
            } else if call.measured && (call.retries > 0 || call.hops > 0) {
                self.figures.record_sent_again(batch.len() - before, body_bytes);
            } else if call.measured {
                self.figures.record_sent(batch.len() - before, body_bytes, in_window);
            }
        }
        // The protocol may have refused all of them.
        if !batch.is_empty() {
            connection.sending = true;
            connection.submitted_at = now;
            connection.transport.send(driver, id, SendBuf::Shared(buffers.batch.clone()));
        }
    }

    /// Sends what the protocol itself has to send, unless a send is under way that will be followed
    /// by it.
    #[inline]
    pub(super) fn send_output<D: Driver>(&mut self, driver: &mut D, id: SocketId, now: Instant) {
        let connection = &mut self.connections[id.index()];
        let can_send = connection.id == id && connection.is_established() && !connection.sending;
        if connection.protocol.has_output() && can_send {
            connection.buffers.get_or_insert_with(|| self.spare_buffers.pop().unwrap_or_default());
            self.submit_soon(driver, id, now);
        }
    }

    pub(super) fn on_sent<D: Driver>(&mut self, driver: &mut D, id: SocketId) {
        if self.is_proxy_header(id) {
            return self.on_proxy_header_sent(driver, id);
        }
        let connection = self.connection(id);
        if !connection.transport.on_sent(driver, id) {
            return self.on_tunnel_sent(driver, id);
        }
        connection.sending = false;
        let is_left = connection.buffers.as_ref().is_some_and(|buffers| buffers.unsent > 0);
        if is_left || connection.protocol.has_output() {
            self.submit_soon(driver, id, driver.now());
        }
    }
}
