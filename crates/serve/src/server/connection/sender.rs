//! Sending a payload: as much at once as rates, the client's speed and the disk allow, and how far
//! the client has come with it.

use std::mem;
use std::rc::Rc;

use thalweg_sys::{Driver, FileSpan, Instant, SendBuf, SpanEnd};

use super::gathering::Gathered;
use super::shared::Shared;
use crate::content::blocking_pool::{Waiter, WaitingPart};
use crate::content::body::{Parts, Payload};
use crate::content::local::readahead::Readahead;
use crate::http::respond::JobResult;
use crate::shaping::shaper::{RateScope, ShapingState};
use crate::transport::Transport;

/// Most bytes of a file that are passed to the driver at once for a fast client; see
/// bench/TRIED.md, "Parts of fast clients".
const SPAN_BYTES_MAX: u64 = 2 << 20;

/// The same for other clients, and for all at first: a modem takes half a minute for it, during
/// which the pages should stay in the page cache. See bench/TRIED.md, "Bound on unsent bytes".
const SPAN_BYTES_SLOW_MAX: u64 = 128 << 10;

/// A client that takes a part at more than this rate is fast: what the kernel takes ahead of it is
/// not bounded, until it falls back to a quarter of the rate.
const FAST_BYTES_PER_S: u64 = 2 << 20;

/// The least time after which a part of a fast client is judged; see bench/TRIED.md, "Telling fast
/// clients from slow ones".
const SPAN_NS_MIN: u64 = 1_000_000_000;

fn bytes_per_s(bytes: u64, ns: u64) -> u64 {
    bytes.saturating_mul(1_000_000_000) / ns.max(1)
}

/// Sends one payload after the other.
pub(super) struct Sender {
    /// The driver has a send of this connection's.
    is_sending: bool,
    /// The client has taken parts of files fast, and what the kernel takes is not bounded.
    is_fast: bool,
    /// It waits for the loop to have work to give away.
    pub(super) waits_for_budget: bool,
    /// The number of the mount whose rate the payload counts for.
    mount: u16,
    /// The buffer that is being sent, if it goes back to the pool.
    buffer: Option<Rc<Vec<u8>>>,
    /// Bytes that were passed to the driver and are not reported as sent yet.
    sending_bytes: u64,
    /// Bytes that the client had not received at the last check, plus those sent since then.
    pub(super) untaken_bytes: u64,
    /// The span of a file that follows.
    rest: Option<FileSpan>,
    /// The parts of the body after that.
    parts: Option<Box<Parts>>,
    /// The state of a download whose file is not all in the page cache.
    readahead: Option<Box<Readahead>>,
    /// State for rate limits and limits per client, if any are configured.
    pub(super) shaping_state: Option<Box<ShapingState>>,
}

/// The driver and the shared state through which a connection sends.
pub(super) struct Link<'l, D> {
    pub(super) driver: &'l mut D,
    pub(super) shared: &'l mut Shared,
    pub(super) transport: &'l mut Transport,
    /// The end of the stream may follow the payload at once.
    pub(super) may_end: bool,
}

/// How far a payload has come.
pub(super) enum Progress {
    /// Something is being sent, or waits for a rate or for the disk.
    Sending,
    /// A part waits for the loop's work budget.
    OutOfBudget,
    /// All of it has gone.
    Done,
}

impl Sender {
    pub(super) fn new(shaping_state: Option<Box<ShapingState>>) -> Self {
        Self {
            is_sending: false,
            is_fast: false,
            waits_for_budget: false,
            mount: 0,
            buffer: None,
            sending_bytes: 0,
            untaken_bytes: 0,
            rest: None,
            parts: None,
            readahead: None,
            shaping_state,
        }
    }

    /// Whether the driver has a send of this connection's.
    pub(super) fn is_sending(&self) -> bool {
        self.is_sending
    }

    /// Whether something is being sent, or waits for a rate.
    pub(super) fn is_busy(&self) -> bool {
        self.is_sending || self.waits_for_grant()
    }

    /// Whether there is something to send, and a rate does not let it.
    pub(super) fn waits_for_grant(&self) -> bool {
        self.shaping_state.as_ref().is_some_and(|state| state.is_waiting)
    }

    /// Whether a span of a file is left.
    pub(super) fn waits_for_readahead(&self) -> bool {
        self.rest.is_some()
    }

    /// Whether what is under way waits for this side, and not for the client.
    pub(super) fn waits_for_us(&self) -> bool {
        self.is_sending || self.waits_for_budget || self.waits_for_grant()
    }

    /// Begins to send a payload.
    #[inline]
    pub(super) fn start<D: Driver>(&mut self, link: &mut Link<'_, D>, payload: Payload) {
        let Payload { bytes, is_shared, file, parts, mount } = payload;
        self.mount = mount;
        self.parts = parts;
        let bytes = bytes.unwrap_or_default();
        if let Some(parts) = &mut self.parts {
            parts.begin(link.driver.now(), bytes.len() as u64 + file.as_ref().map_or(0, |span| span.len));
            if let Some(buffer) = self.gather(link, &bytes, file.as_ref()) {
                if !is_shared {
                    link.shared.buffers.put(bytes);
                }
                return self.send(link, SendBuf::Shared(buffer), None);
            }
        }
        if !is_shared {
            self.buffer = Some(Rc::clone(&bytes));
        }
        self.send(link, SendBuf::Shared(bytes), file);
    }

    /// Sends a text that belongs to no buffer of the loop.
    pub(super) fn send_text<D: Driver>(&mut self, link: &mut Link<'_, D>, text: SendBuf) {
        self.send(link, text, None);
    }

    /// The driver has sent what it was given: so many bytes.
    #[inline]
    pub(super) fn take_sent(&mut self) -> u64 {
        self.is_sending = false;
        mem::take(&mut self.sending_bytes)
    }

    /// Sends what follows.
    #[inline]
    pub(super) fn send_more<D: Driver>(&mut self, link: &mut Link<'_, D>, sent_bytes: u64) -> Progress {
        let held = self.shaping_state.as_mut().and_then(|state| state.held.take());
        if held.is_none()
            && let Some(buffer) = self.buffer.take()
        {
            link.shared.buffers.put(buffer);
        }
        if held.is_none() && self.rest.is_none() {
            return self.send_part(link);
        }
        let rest = self.rest.take();
        if rest.is_some() {
            let took_ns = link.driver.now().ns_since(link.transport.sent_at(link.driver));
            self.judge_speed(link, sent_bytes, took_ns);
        }
        self.send(link, held.unwrap_or(SendBuf::empty()), rest);
        Progress::Sending
    }

    /// Sends the next part of a body of several, if there is one and work left for it.
    pub(super) fn send_part<D: Driver>(&mut self, link: &mut Link<'_, D>) -> Progress {
        if self.parts.as_ref().is_none_or(|parts| parts.is_empty()) {
            if let Some(parts) = self.parts.take() {
                let (begun, bytes) = parts.begun();
                self.judge_speed(link, bytes, link.driver.now().ns_since(begun));
            }
            self.readahead = None;
            return Progress::Done;
        }
        if !link.shared.budget.is_left() {
            return Progress::OutOfBudget;
        }
        if let Some((text, file)) = self.parts.as_mut().and_then(|parts| parts.next()) {
            match self.gather(link, &text, file.as_ref()) {
                Some(buffer) => self.send(link, SendBuf::Shared(buffer), None),
                None => {
                    link.shared.budget.take_part();
                    self.send(link, SendBuf::Owned(text), file);
                }
            }
        }
        Progress::Sending
    }

    /// Gathers frames for a fast client, from a text and a span on, if that is worth it.
    fn gather<D: Driver>(
        &mut self,
        link: &mut Link<'_, D>,
        text: &[u8],
        file: Option<&FileSpan>,
    ) -> Option<Rc<Vec<u8>>> {
        // Over TLS all of it is gathered in records.
        if !self.is_fast || matches!(link.transport, Transport::Tls(_)) {
            return None;
        }
        let gathered = Gathered::gather(&mut link.shared.buffers, text, file?, self.parts.as_deref_mut())?;
        (0..gathered.spans).for_each(|_| link.shared.budget.take_part());
        if gathered.has_changed {
            // The driver finds it, too, before the last bytes of the response: those of this span.
            self.parts = None;
            link.shared.buffers.put(gathered.into_buffer());
            return None;
        }
        let buffer = gathered.into_buffer();
        self.buffer = Some(Rc::clone(&buffer));
        Some(buffer)
    }

    /// Goes on with the span of a file whose next bytes were read ahead.
    pub(super) fn resume<D: Driver>(&mut self, link: &mut Link<'_, D>) {
        let rest = self.rest.take();
        self.send(link, SendBuf::empty(), rest);
    }

    /// A rate that was waited for may have something.
    pub(super) fn on_grant<D: Driver>(&mut self, link: &mut Link<'_, D>, scope: RateScope) {
        let Some(state) = self.shaping_state.as_mut().filter(|state| state.is_waiting) else { return };
        state.come_up(scope);
        let held = state.held.take();
        let rest = self.rest.take();
        self.send(link, held.unwrap_or(SendBuf::empty()), rest);
    }

    /// Hands bytes and the first part of a file to the driver, as much as the rates allow.
    #[inline]
    fn send<D: Driver>(&mut self, link: &mut Link<'_, D>, bytes: SendBuf, file: Option<FileSpan>) {
        if self.shaping_state.is_some() {
            return self.send_shaped(link, bytes, file);
        }
        self.hand_over(link, bytes, file, u64::MAX);
    }

    /// Hands over what the rates allow now, or lets the rest wait for a grant.
    fn send_shaped<D: Driver>(&mut self, link: &mut Link<'_, D>, mut bytes: SendBuf, file: Option<FileSpan>) {
        let wanted = bytes.len() as u64 + file.as_ref().map_or(0, |span| span.len);
        let (Some(state), Some(shaper)) = (&mut self.shaping_state, &mut link.shared.shaper) else {
            // There were limits when this connection was accepted, and there are none now.
            return self.hand_over(link, bytes, file, u64::MAX);
        };
        let Some(granted) = shaper.ask(state, link.transport.socket(), self.mount, wanted, link.driver.now()) else {
            state.held = Some(bytes).filter(|bytes| !bytes.is_empty());
            self.rest = file;
            return;
        };
        if granted < bytes.len() as u64 {
            let (first, others) = bytes.split_at(granted as usize);
            bytes = first;
            state.held = Some(others);
            self.rest = file;
            self.hand_over(link, bytes, None, granted);
        } else {
            let of_file = granted - bytes.len() as u64;
            self.hand_over(link, bytes, file, of_file);
        }
        // A disk that has to be waited for does not cost the grant.
        if let Some(state) = &mut self.shaping_state {
            state.keep(granted - self.sending_bytes);
        }
    }

    /// Hands bytes and the first part of a file, of which it is so much at most, to the
    /// link.driver.
    #[inline]
    fn hand_over<D: Driver>(
        &mut self,
        link: &mut Link<'_, D>,
        bytes: SendBuf,
        file: Option<FileSpan>,
        file_bytes_max: u64,
    ) {
        self.sending_bytes = bytes.len() as u64;
        match file {
            None => {
                self.is_sending = true;
                if link.may_end && self.is_all_handed_over() {
                    link.transport.send_last(link.driver, link.shared.memory(), bytes);
                } else {
                    link.transport.send(link.driver, link.shared.memory(), bytes);
                }
            }
            Some(span) => self.send_file(link, bytes, span, file_bytes_max),
        }
        self.untaken_bytes = self.untaken_bytes.saturating_add(self.sending_bytes);
    }

    /// Whether nothing follows the bytes that are passed to the driver now.
    #[inline]
    fn is_all_handed_over(&self) -> bool {
        self.rest.is_none()
            && self.parts.is_none()
            && self.shaping_state.as_ref().is_none_or(|state| state.held.is_none())
    }

    /// Passes bytes and the first part of a file to the driver, if that part is in the page cache.
    /// If not, it passes the bytes alone, or has the part read ahead if there are none.
    fn send_file<D: Driver>(&mut self, link: &mut Link<'_, D>, bytes: SendBuf, mut span: FileSpan, bytes_max: u64) {
        let sure = self.readahead.as_ref().and_then(|readahead| readahead.known_from(span.offset));
        let part_max = if self.is_fast { SPAN_BYTES_MAX } else { SPAN_BYTES_SLOW_MAX };
        let mut part = span.len.min(part_max).min(bytes_max).min(sure.unwrap_or(u64::MAX));
        if part == part_max && part < span.len {
            part = link.transport.whole_segments(link.driver, bytes.len() as u64, part);
        }
        if part > 0 && (sure.is_some() || link.shared.residency.has(&span.file, span.offset, part, link.driver.now())) {
            if span.len > part {
                let file = Rc::clone(&span.file);
                self.rest = Some(FileSpan { file, offset: span.offset + part, len: span.len - part });
                span.len = part;
            }
            self.sending_bytes += span.len;
            self.is_sending = true;
            link.transport.send_file(link.driver, link.shared.memory(), bytes, (span, self.span_end()));
            return;
        }
        if bytes.is_empty() {
            let readahead = self.readahead.get_or_insert_default();
            let job = readahead.read_ahead(&span, link.driver.now()).map(|()| JobResult::ReadAhead);
            let waiter = Waiter { socket: link.transport.socket(), part: WaitingPart::Sender };
            link.shared.blocking.submit(waiter, job);
        } else {
            self.is_sending = true;
            link.transport.send(link.driver, link.shared.memory(), bytes);
        }
        self.rest = Some(span);
    }

    /// Whether more bytes follow the file span that is passed to the driver now.
    fn span_end(&self) -> SpanEnd {
        let has_more = self.rest.is_some() || self.parts.as_ref().is_some_and(|parts| parts.has_files());
        if has_more { SpanEnd::MoreFollows } else { SpanEnd::EndsResponse }
    }

    /// Decides whether the client is fast, by the part of a file, or by all parts of a body, that
    /// has just gone.
    fn judge_speed<D: Driver>(&mut self, link: &mut Link<'_, D>, sent_bytes: u64, took_ns: u64) {
        // A part that was cut to whole segments is not much smaller than it might be: more than
        // half of that.
        if sent_bytes < SPAN_BYTES_SLOW_MAX / 2 {
            return;
        }
        let is_fast =
            bytes_per_s(sent_bytes, took_ns) > if self.is_fast { FAST_BYTES_PER_S / 4 } else { FAST_BYTES_PER_S };
        if is_fast != self.is_fast {
            self.is_fast = is_fast;
            link.transport.bound_unsent(link.driver, !is_fast);
        }
    }

    /// Looks how far the client has come. The bytes that it has taken since the last look, and
    /// those that it has not.
    pub(super) fn look<D: Driver>(&mut self, driver: &mut D, transport: &mut Transport, now: Instant) -> Taken {
        let untaken_bytes = transport.unacknowledged(driver);
        let bytes = self.untaken_bytes.saturating_sub(untaken_bytes);
        self.untaken_bytes = untaken_bytes;
        let span_ns = now.ns_since(transport.sent_at(driver));
        let span_bytes = self.sending_bytes.saturating_sub(untaken_bytes);
        if self.is_fast
            && self.is_sending
            && span_ns > SPAN_NS_MIN
            && bytes_per_s(span_bytes, span_ns) < FAST_BYTES_PER_S / 4
        {
            // It was fast, and has become slow in the middle of a part.
            self.is_fast = false;
            transport.bound_unsent(driver, true);
        }
        Taken { bytes, untaken_bytes }
    }
}

/// How far a client has come with what was sent to it.
pub(super) struct Taken {
    pub(super) bytes: u64,
    pub(super) untaken_bytes: u64,
}
