//! What a connection sends: as much at once as its rates, its client's speed and the disk allow, and how far the client has
//! come with it.

use std::rc::Rc;

use thalweg_sys::{Driver, FileSpan, Instant, SendBuf, SpanEnd};

use super::{Connection, Fate, Phase, Shared, Times};
use crate::shaping::shaper::RateScope;

/// How much of a file is handed to the driver at once for a fast client. When a part has gone, the client has made progress.
const SPAN_BYTES_MAX: u64 = 2 << 20;

/// The same for others, and for all to begin with. A slow one takes half a minute for it, in which the kernel should not forget
/// what was found to be in memory.
const SPAN_BYTES_SLOW_MAX: u64 = 128 << 10;

/// A client that takes a part at more than this many bytes a second is fast: it may tie up as much of the kernel's memory as that
/// thinks fit. One that is back at a quarter of it may not.
const FAST_BYTES_PER_S: u64 = 2 << 20;

/// A fast client's part is not judged earlier than this.
const SPAN_NS_MIN: u64 = 1_000_000_000;

fn bytes_per_s(bytes: u64, ns: u64) -> u64 {
    bytes.saturating_mul(1_000_000_000) / ns.max(1)
}

impl Connection {
    /// Workers bytes and the first part of a file to the driver, as much as the rates allow.
    #[inline]
    pub(super) fn send<D: Driver>(
        &mut self,
        driver: &mut D,
        shared: &mut Shared,
        bytes: SendBuf,
        file: Option<FileSpan>,
    ) {
        if self.shaping_state.is_some() {
            return self.send_shaped(driver, shared, bytes, file);
        }
        self.hand_over(driver, shared, bytes, file, u64::MAX);
    }

    /// Workers over what the rates allow now, or lets the rest wait for its turn.
    fn send_shaped<D: Driver>(
        &mut self,
        driver: &mut D,
        shared: &mut Shared,
        mut bytes: SendBuf,
        file: Option<FileSpan>,
    ) {
        let wanted = bytes.len() as u64 + file.as_ref().map_or(0, |span| span.len);
        let (Some(shaping_state), Some(shaper)) = (&mut self.shaping_state, &mut shared.shaper) else {
            // There were limits when this connection was accepted, and there are none now.
            return self.hand_over(driver, shared, bytes, file, u64::MAX);
        };
        let Some(granted) = shaper.ask(shaping_state, self.socket, self.mount, wanted, driver.now()) else {
            shaping_state.held = Some(bytes).filter(|bytes| !bytes.is_empty());
            self.rest = file;
            return;
        };
        if granted < bytes.len() as u64 {
            let (first, others) = bytes.split_at(granted as usize);
            bytes = first;
            shaping_state.held = Some(others);
            self.rest = file;
            self.hand_over(driver, shared, bytes, None, granted);
        } else {
            let of_file = granted - bytes.len() as u64;
            self.hand_over(driver, shared, bytes, file, of_file);
        }
        // A disk that has to be waited for does not cost the turn.
        if let Some(shaping_state) = &mut self.shaping_state {
            shaping_state.keep(granted - self.sending_bytes);
        }
    }

    /// Workers bytes and the first part of a file, of which it is so much at most, to the driver.
    #[inline]
    fn hand_over<D: Driver>(
        &mut self,
        driver: &mut D,
        shared: &mut Shared,
        bytes: SendBuf,
        file: Option<FileSpan>,
        file_bytes_max: u64,
    ) {
        self.sending_bytes = bytes.len() as u64;
        match file {
            None => {
                self.is_sending = true;
                if self.is_all_handed_over() {
                    driver.send_last(self.socket, bytes);
                } else {
                    driver.send(self.socket, bytes);
                }
            }
            Some(span) => self.send_file(driver, shared, bytes, span, file_bytes_max),
        }
        self.untaken_bytes = self.untaken_bytes.saturating_add(self.sending_bytes);
    }

    /// Whether the end of the stream follows what is handed over now, and may wait for that. A client that may still be sending could
    /// meet a close with what nobody has read, which throws away what waits; unless our direction is finished before.
    #[inline]
    fn is_all_handed_over(&self) -> bool {
        matches!(self.phase, Phase::SendingLast { linger } if linger || self.is_clients_last)
            && self.rest.is_none()
            && self.segments.is_none()
            && self.shaping_state.as_ref().is_none_or(|shaping_state| shaping_state.held.is_none())
    }

    /// Workers bytes and the first part of a file to the driver, if that part is in memory. If not, it hands over the bytes, or has the
    /// part read aside if there are none.
    fn send_file<D: Driver>(
        &mut self,
        driver: &mut D,
        shared: &mut Shared,
        bytes: SendBuf,
        mut span: FileSpan,
        bytes_max: u64,
    ) {
        let sure = self.readahead.as_ref().and_then(|readahead| readahead.known_from(span.offset));
        let part_max = if self.is_fast { SPAN_BYTES_MAX } else { SPAN_BYTES_SLOW_MAX };
        let mut part = span.len.min(part_max).min(bytes_max).min(sure.unwrap_or(u64::MAX));
        if part == part_max && part < span.len {
            part = driver.whole_segments(self.socket, bytes.len() as u64, part);
        }
        if part > 0 && (sure.is_some() || shared.residency.has(&span.file, span.offset, part, driver.now())) {
            if span.len > part {
                let file = Rc::clone(&span.file);
                self.rest = Some(FileSpan { file, offset: span.offset + part, len: span.len - part });
                span.len = part;
            }
            self.sending_bytes += span.len;
            self.is_sending = true;
            driver.send_file(self.socket, bytes, span, self.span_end());
            return;
        }
        if bytes.is_empty() {
            let readahead = self.readahead.get_or_insert_default();
            shared.blocking.ask(self.socket, readahead.read_ahead(&span, driver.now()));
        } else {
            self.is_sending = true;
            driver.send(self.socket, bytes);
        }
        self.rest = Some(span);
    }

    /// What follows the part of a file that is handed over now.
    fn span_end(&self) -> SpanEnd {
        let has_more = self.rest.is_some() || self.segments.as_ref().is_some_and(|segments| segments.has_files());
        if has_more { SpanEnd::MoreFollows } else { SpanEnd::EndsResponse }
    }

    /// A rate that it has waited for may have something for it.
    pub(crate) fn on_turn<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared, scope: RateScope) -> Fate {
        let Some(shaping_state) = self.shaping_state.as_mut().filter(|shaping_state| shaping_state.is_waiting) else {
            return Fate::Stays;
        };
        shaping_state.come_up(scope);
        let held = shaping_state.held.take();
        let rest = self.rest.take();
        self.send(driver, shared, held.unwrap_or(SendBuf::empty()), rest);
        Fate::Stays
    }

    /// Whether it has something to send, and a rate does not let it.
    pub(super) fn waits_for_grant(&self) -> bool {
        self.shaping_state.as_ref().is_some_and(|shaping_state| shaping_state.is_waiting)
    }

    /// Whether the client is fast, by the part of a file that has just gone.
    pub(super) fn judge_speed<D: Driver>(&mut self, driver: &mut D, sent_bytes: u64) {
        // A part that was cut to whole segments is not much smaller than it might be: more than half of that.
        if sent_bytes < SPAN_BYTES_SLOW_MAX / 2 {
            return;
        }
        let took_ns = driver.now().ns_since(driver.sent_at(self.socket));
        let is_fast =
            bytes_per_s(sent_bytes, took_ns) > if self.is_fast { FAST_BYTES_PER_S / 4 } else { FAST_BYTES_PER_S };
        if is_fast != self.is_fast {
            self.is_fast = is_fast;
            driver.bound_unsent(self.socket, !is_fast);
        }
    }

    /// Looks how far the client has come with what is sent to it, from time to time. What it has taken gives it time for the
    /// rest, at the rate that is the least; and never more than it may stall, so that it cannot be saved up.
    pub(crate) fn look<D: Driver>(&mut self, driver: &mut D, times: &Times, now: Instant) {
        if !matches!(self.phase, Phase::Sending | Phase::SendingLast { .. }) {
            return;
        }
        let untaken = driver.unacknowledged(self.socket);
        let taken = self.untaken_bytes.saturating_sub(untaken);
        self.untaken_bytes = untaken;
        let stalled = now.plus_ns(times.stall_ns);
        let waits_for_us = untaken == 0 && (self.is_sending || self.is_listed || self.waits_for_grant());
        let granted_ns = taken.saturating_mul(times.ns_per_byte);
        self.deadline = if waits_for_us { stalled } else { self.deadline.plus_ns(granted_ns).min(stalled) };
        let span_ns = now.ns_since(driver.sent_at(self.socket));
        let span_bytes = self.sending_bytes.saturating_sub(untaken);
        if self.is_fast
            && self.is_sending
            && span_ns > SPAN_NS_MIN
            && bytes_per_s(span_bytes, span_ns) < FAST_BYTES_PER_S / 4
        {
            // It was fast, and has become slow in the middle of a part.
            self.is_fast = false;
            driver.bound_unsent(self.socket, true);
        }
    }
}
