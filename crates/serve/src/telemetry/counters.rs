//! The totals of each loop: written by the loop alone, read by any thread.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The totals so far, of one loop or of several together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections open now.
    pub open: u64,
    /// Requests whose head was read, or was refused as malformed.
    pub requests: u64,
    /// Those of them that came by HTTP/2.
    pub requests_http2: u64,
    /// Final responses by class: 2xx, 3xx, 4xx, 5xx.
    pub responses: [u64; 4],
    /// Connections that were refused for want of a slot.
    pub refused: u64,
    /// Connections that were closed when they were accepted, for their client's network. They
    /// do not count as accepted.
    pub denied: u64,
    /// Requests that got a 403 because of their client's network.
    pub requests_denied: u64,
    /// Requests that got a 429, because their client had made too many.
    pub requests_limited: u64,
    /// Connections that were evicted to make room for others.
    pub evicted: u64,
    /// Responses that were cut off by a reset, because their file had changed while it was sent.
    pub files_changed_while_sent: u64,
    /// Bytes of responses that the kernel has taken, heads included.
    pub bytes: u64,
    /// Handshakes of TLS 1.2 that were completed.
    pub handshakes_tls12: u64,
    /// Handshakes of TLS 1.3 that were completed.
    pub handshakes_tls13: u64,
    /// Those of them that resumed a session.
    pub handshakes_resumed: u64,
    /// TLS handshakes that failed.
    pub handshakes_failed: u64,
    /// TLS handshakes that were ended for want of room for newer ones.
    pub handshakes_shed: u64,
}

impl Totals {
    /// Adds another loop's totals.
    pub(crate) fn add(&mut self, other: &Self) {
        self.accepted += other.accepted;
        self.open += other.open;
        self.requests += other.requests;
        self.requests_http2 += other.requests_http2;
        self.bytes += other.bytes;
        self.refused += other.refused;
        self.evicted += other.evicted;
        self.denied += other.denied;
        self.requests_denied += other.requests_denied;
        self.requests_limited += other.requests_limited;
        self.files_changed_while_sent += other.files_changed_while_sent;
        self.handshakes_tls12 += other.handshakes_tls12;
        self.handshakes_tls13 += other.handshakes_tls13;
        self.handshakes_resumed += other.handshakes_resumed;
        self.handshakes_failed += other.handshakes_failed;
        self.handshakes_shed += other.handshakes_shed;
        for (sum, responses) in self.responses.iter_mut().zip(other.responses) {
            *sum += responses;
        }
    }

    /// Counts a response.
    pub(crate) fn count_response(&mut self, status: u16) {
        self.responses[usize::from(status / 100).clamp(2, 5) - 2] += 1;
    }
}

/// One loop's published totals, on cache lines of their own: loops must not slow each other down by
/// counting. The size is a multiple of two lines because processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Published([AtomicU64; 20]);

impl Published {
    /// Replaces the published values. Plain stores: readers may see some fields before others.
    pub(crate) fn publish(&self, totals: &Totals) {
        let [ok, moved, client_errors, failed] = totals.responses;
        let Totals { accepted, open, requests, bytes, refused, evicted, files_changed_while_sent, .. } = *totals;
        let Totals { handshakes_tls12, handshakes_tls13, handshakes_resumed, .. } = *totals;
        let Totals { handshakes_failed, handshakes_shed, .. } = *totals;
        let done = [accepted, open, requests, bytes, ok, moved, client_errors, failed];
        let not_done = [refused, evicted, files_changed_while_sent];
        let more = [totals.requests_http2, totals.denied, totals.requests_denied, totals.requests_limited];
        let tls = [handshakes_tls12, handshakes_tls13, handshakes_resumed, handshakes_failed, handshakes_shed];
        let values = done.into_iter().chain(not_done).chain(tls).chain(more);
        for (cell, value) in self.0.iter().zip(values) {
            cell.store(value, Relaxed);
        }
    }

    /// The values that were published last.
    pub(crate) fn totals(&self) -> Totals {
        let [
            accepted,
            open,
            requests,
            bytes,
            ok,
            moved,
            client_errors,
            failed,
            refused,
            evicted,
            files_changed_while_sent,
            handshakes_tls12,
            handshakes_tls13,
            handshakes_resumed,
            handshakes_failed,
            handshakes_shed,
            requests_http2,
            denied,
            requests_denied,
            requests_limited,
        ] = self.0.each_ref().map(|cell| cell.load(Relaxed));
        let responses = [ok, moved, client_errors, failed];
        Totals {
            accepted,
            open,
            requests,
            requests_http2,
            responses,
            refused,
            denied,
            requests_denied,
            requests_limited,
            evicted,
            files_changed_while_sent,
            bytes,
            handshakes_tls12,
            handshakes_tls13,
            handshakes_resumed,
            handshakes_failed,
            handshakes_shed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_totals_are_read_unchanged() {
        let totals = Totals {
            accepted: 1,
            open: 2,
            requests: 3,
            responses: [4, 5, 6, 7],
            bytes: 8,
            refused: 9,
            evicted: 10,
            files_changed_while_sent: 11,
            handshakes_tls12: 12,
            handshakes_tls13: 13,
            handshakes_resumed: 14,
            handshakes_failed: 15,
            handshakes_shed: 16,
            requests_http2: 17,
            denied: 18,
            requests_denied: 19,
            requests_limited: 20,
        };
        let published = Published::default();
        published.publish(&totals);
        assert_eq!(published.totals(), totals);
    }

    #[test]
    fn responses_are_counted_by_class() {
        let mut totals = Totals::default();
        for status in [200, 206, 304, 404, 503, 501] {
            totals.count_response(status);
        }
        assert_eq!(totals.responses, [2, 1, 1, 2]);
    }
}
