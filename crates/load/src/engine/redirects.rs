//! Redirects that are followed: a call whose whole response is one goes on with a request for its
//! target, on the same connection if that has room, else ahead of new arrivals on another.
//!
//! It stays the request that it was: due when it was, in time or not by that, and accounted for
//! once. The time of all its requests and responses is a part of its times.

use thalweg_sys::Instant;

use super::state::Engine;
use crate::call::Stamp;
use crate::protocol::{Protocol, StreamId};

impl<P: Protocol> Engine<P> {
    /// Makes a call ready to be made again for the target of its redirect. It was taken off its
    /// connection, whose latest send was begun then.
    pub(super) fn follow(&mut self, stream: StreamId, latest: Instant, now: Instant) {
        let notice_delay_ns = self.notice_delay_ns();
        let paced_deadline = self.paced_deadline(now);
        let call = &mut self.calls[stream];
        let (Some(follower), Some(hop)) = (&mut self.follower, call.hop) else { return };
        follower.advance(hop);
        let sent_at = call.sent_or(latest);
        call.first_sent.set_once(sent_at);
        // The client's own delays add up.
        call.late_ns += sent_at.ns_since(call.ready) + notice_delay_ns.min(now.ns_since(sent_at));
        call.ready = now;
        call.deadline = paced_deadline.unwrap_or(call.deadline);
        call.hops += 1;
        (call.redirected, call.submitted) = (false, false);
        (call.sent, call.first_byte, call.bytes, call.body_bytes) = (Stamp::default(), Stamp::default(), 0, 0);
        (call.keep_alive, call.fields_differ, call.status) = (false, false, 0);
        let digests = self.requests.check(call.request).wants_digest();
        call.digest = digests.then(|| self.hashers.pop().unwrap_or_default());
        if call.measured {
            self.figures.trial.redirects.get_or_insert_default().followed += 1;
        }
    }

    /// Gives the request of a call that has ended back.
    #[inline]
    pub(super) fn release_request(&mut self, stream: StreamId) {
        let call = &mut self.calls[stream];
        self.requests.release(call.request);
        if let (Some(follower), Some(hop)) = (&mut self.follower, call.hop.take()) {
            follower.release(hop);
        }
    }
}
