//! One connection: a protocol session over a transport, with what is common to all protocols around
//! it.
//!
//! The [session](crate::session) decides what is sent; the [`sender`] sends it, as rates, the
//! client and the disk allow. The connection keeps the deadlines, has responses recorded, and
//! closes gracefully: a client that is still sending when the last response leaves would get a
//! reset from a plain close, and might never read that response. Such a connection lingers: the
//! server's direction is shut down, and the client's is drained for a while.

mod admission;
mod gathering;
mod recorder;
mod sender;
mod shared;
mod times;
mod tls;

use thalweg_sys::{Driver, Instant, SocketId};
use thalweg_wire::h2::{HEAD_LEN, PAYLOAD_MAX_INITIAL};

use self::recorder::ConnectionRecorder;
use self::sender::{Link, Progress, Sender};
use crate::catalog::access::Peer;
use crate::content::body::Payload;
use crate::http::services::Services;
use crate::http::session::HttpSession;
use crate::session::{Activity, Next, Ready, Session as _};
use crate::shaping::admission::Admission;
use crate::shaping::shaper::{RateScope, ShapingState};
use crate::telemetry::accounting::RequestRecords;
use crate::transport::Transport;

pub(crate) use self::recorder::report_cut_off;
pub(crate) use self::shared::Shared;
pub(crate) use self::times::Times;

/// A client that sends more than this after its last response does not mean to read it: 1 MiB, in
/// blocks that are counted as a whole.
const LINGER_BLOCKS_MAX: u16 = 1 << 14;
const LINGER_BLOCK_BYTES: usize = 64;

/// Most bytes in a DATA frame over TLS: the frame fills a record.
const RECORD_FRAME_BYTES: u32 = PAYLOAD_MAX_INITIAL - HEAD_LEN as u32;

/// The same without TLS, where the client takes more than it has to (RFC 9113, 4.2): longer frames
/// would keep more urgent streams waiting.
const FRAME_BYTES_MAX: u32 = 128 << 10;

/// One connection.
pub(crate) struct Connection {
    pub(crate) transport: Transport,
    /// The deadline for the client's action that the stage waits for.
    pub(crate) deadline: Instant,
    stage: Stage,
    paused: bool,
    /// Whether it has a connection slot.
    pub(crate) admission: Admission,
    /// It got its slot while others were waiting for one, and has less time to show that it reads
    /// its response.
    is_late: bool,
    session: HttpSession,
    sender: Sender,
    /// The records of the responses that are being sent.
    records: Option<Box<RequestRecords>>,
}

/// How far a connection has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// It is not admitted, and waits for a whole request.
    Arriving,
    /// Its session is at work.
    Open,
    /// The end of TLS, or an alert, is being sent; then it is closed.
    Closing,
    /// It drains what the client still sends, until that ends.
    Lingering {
        /// How much more it may be, in [blocks](LINGER_BLOCK_BYTES).
        blocks_left: u16,
    },
}

/// The loop's next step for a connection that has handled an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Fate {
    /// It stays.
    Stays,
    /// It is closed.
    Over,
    /// It is reset, and what the client has not taken by now is not kept for it.
    Abandoned,
    /// It is reset, since the rest of its response cannot be delivered; the
    /// [reason](Shared::failure) is reported.
    Failed,
    /// It is reset, since the [file](Shared::file_change) of its response was modified.
    FileChanged,
    /// It is not admitted and has sent a whole request.
    RequestsSlot,
    /// It is not admitted, and its response, which is [held](Shared::held), takes long enough to
    /// need a slot.
    QueuesForSlot,
    /// It has waited for a slot in vain.
    Refused,
}

impl Connection {
    /// A connection that was just accepted.
    pub(crate) fn new(
        transport: Transport,
        shaping_state: Option<Box<ShapingState>>,
        shared: &Shared,
        now: Instant,
    ) -> Self {
        Self {
            transport,
            deadline: now.plus_ns(shared.times.head_ns),
            stage: Stage::Open,
            paused: false,
            admission: Admission::Admitted,
            is_late: false,
            session: HttpSession::new(shared.times.session),
            sender: Sender::new(shaping_state),
            records: None,
        }
    }

    /// Its socket.
    #[inline]
    pub(crate) fn socket(&self) -> SocketId {
        self.transport.socket()
    }

    /// The knowledge of TLS about its client.
    #[inline]
    fn peer(&self) -> Peer {
        match &self.transport {
            Transport::Plain(_) => Peer::PLAIN,
            Transport::Tls(tls) => {
                let (mode, is_verified) = tls.client();
                Peer { mode: Some(mode), is_verified }
            }
        }
    }

    /// The records of responses under way, which this connection keeps no longer.
    pub(crate) fn take_records(&mut self) -> Option<Box<RequestRecords>> {
        self.records.take()
    }

    /// The shaper's state of this connection.
    pub(crate) fn shaping_state(&mut self) -> &mut Option<Box<ShapingState>> {
        &mut self.sender.shaping_state
    }

    /// Whether the connection is idle after a response, so that it can be closed without a loss.
    pub(crate) fn is_idle_again(&self) -> bool {
        self.stage == Stage::Open && matches!(self.session.activity(), Activity::Idle { requests: 1.. })
    }

    /// Whether it has been idle for longer than connections may be at present.
    pub(crate) fn is_idle_too_long(&self, times: &Times, now: Instant) -> bool {
        let short_ns = times.idle_ns.saturating_sub(times.idle_ns_now);
        short_ns > 0 && self.is_idle_again() && self.deadline.minus_ns(short_ns) <= now
    }

    /// Bytes have come in.
    #[inline]
    pub(crate) fn on_received<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared) -> Fate {
        if self.transport.tls().is_some() {
            return self.on_records(driver, shared);
        }
        let now = driver.now();
        let taken = self.take_input(shared, now, driver.received());
        self.follow_input(driver, shared, taken)
    }

    /// Bytes have come in behind a PROXY header.
    #[cold]
    pub(crate) fn on_first_input<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared, input: &[u8]) -> Fate {
        if self.transport.tls().is_some() {
            return self.on_handshake_input(driver, shared, Some(input));
        }
        let taken = self.take_input(shared, driver.now(), input);
        self.follow_input(driver, shared, taken)
    }

    /// Takes input, of which nothing is left behind. The session's next step, with its activity
    /// before, or the connection's.
    #[inline]
    fn take_input(&mut self, shared: &mut Shared, now: Instant, input: &[u8]) -> Result<(Next, Activity), Fate> {
        match self.stage {
            Stage::Open => {
                let before = self.session.activity();
                let next = self.with_session(shared, now, |session, services| session.on_received(input, services));
                Ok((next, before))
            }
            Stage::Arriving => Err(self.on_arriving(shared, now, input)),
            Stage::Closing => Err(Fate::Stays),
            Stage::Lingering { blocks_left } => {
                let received = u16::try_from(input.len().div_ceil(LINGER_BLOCK_BYTES)).unwrap_or(u16::MAX);
                Err(match blocks_left.checked_sub(received) {
                    Some(blocks_left) => {
                        self.stage = Stage::Lingering { blocks_left };
                        Fate::Stays
                    }
                    None => Fate::Over,
                })
            }
        }
    }

    /// Goes on after input was taken.
    #[inline]
    fn follow_input<D: Driver>(
        &mut self,
        driver: &mut D,
        shared: &mut Shared,
        taken: Result<(Next, Activity), Fate>,
    ) -> Fate {
        match taken {
            Ok((next, before)) => self.follow(driver, shared, next, Some(before)),
            Err(fate) => fate,
        }
    }

    /// The driver has sent what it was given.
    #[inline]
    pub(crate) fn on_sent<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared) -> Fate {
        if let Some(tls) = self.transport.tls()
            && !tls.on_sent(driver, shared.memory())
        {
            return self.on_part_sent(driver, shared);
        }
        let sent_bytes = self.sender.take_sent();
        shared.totals.bytes += sent_bytes;
        if let Some(accounting) = &mut shared.accounting {
            accounting.on_sent(&mut self.records, sent_bytes, driver.now());
        }
        let (sender, mut link) = self.link(driver, shared);
        match sender.send_more(&mut link, sent_bytes) {
            Progress::Sending => Fate::Stays,
            Progress::OutOfBudget => self.wait_for_budget(shared),
            Progress::Done => self.after_sending(driver, shared),
        }
    }

    /// The payload has gone.
    #[inline]
    fn after_sending<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared) -> Fate {
        let next = self.with_session(shared, driver.now(), |session, services| session.on_sent(services));
        self.follow(driver, shared, next, None)
    }

    /// The part of a file that the sender waits for was read ahead.
    pub(crate) fn on_read_ahead<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared) -> Fate {
        if self.sender.waits_for_readahead() && !self.sender.is_busy() {
            self.deadline = driver.now().plus_ns(shared.times.stall_ns);
            let (sender, mut link) = self.link(driver, shared);
            sender.resume(&mut link);
        }
        Fate::Stays
    }

    /// The server is going away, and the connection is idle.
    pub(crate) fn on_draining<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared) -> Fate {
        let next = self.with_session(shared, driver.now(), |session, services| session.on_draining(services));
        self.follow(driver, shared, next, None)
    }

    /// Something that the session waits for is ready.
    pub(crate) fn on_ready<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared, ready: Ready) -> Fate {
        let is_sending = self.sender.is_busy() || self.sender.waits_for_readahead();
        let before = is_sending.then(|| self.session.activity());
        let next =
            self.with_session(shared, driver.now(), |session, services| session.on_ready(ready, is_sending, services));
        self.follow(driver, shared, next, before)
    }

    /// The loop has work to give away again.
    pub(crate) fn on_budget<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared) -> Fate {
        self.sender.waits_for_budget = false;
        let (sender, mut link) = self.link(driver, shared);
        match sender.send_part(&mut link) {
            Progress::Sending => Fate::Stays,
            Progress::OutOfBudget => self.wait_for_budget(shared),
            Progress::Done => self.after_sending(driver, shared),
        }
    }

    /// A rate that it has waited for may have something for it.
    pub(crate) fn on_grant<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared, scope: RateScope) -> Fate {
        let (sender, mut link) = self.link(driver, shared);
        sender.on_grant(&mut link, scope);
        Fate::Stays
    }

    /// The client will send no more. Earlier requests still get their responses.
    pub(crate) fn on_ended<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared) -> Fate {
        let before = self.session.activity();
        let next = self.session.on_ended();
        match self.stage {
            Stage::Arriving | Stage::Closing | Stage::Lingering { .. } => Fate::Over,
            Stage::Open => self.follow(driver, shared, next, Some(before)),
        }
    }

    /// The deadline has passed.
    #[cold]
    pub(crate) fn on_deadline<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared) -> Fate {
        match self.stage {
            Stage::Arriving => return Fate::Refused,
            // Bytes that the kernel holds still reach a client that reads on; a reset would discard
            // them.
            Stage::Closing | Stage::Lingering { .. } => return Fate::Over,
            Stage::Open if self.admission == Admission::Queued => return Fate::Refused,
            Stage::Open => {}
        }
        let is_sending = self.sender.is_sending();
        let next =
            self.with_session(shared, driver.now(), |session, services| session.on_deadline(is_sending, services));
        self.follow(driver, shared, next, None)
    }

    /// Executes the session's next step. `before` is its activity before, unless its wait begins
    /// anew.
    #[inline]
    fn follow<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared, next: Next, before: Option<Activity>) -> Fate {
        match next {
            Next::Send(payload) => {
                if self.admission == Admission::Provisional && payload.is_long() {
                    self.deadline = driver.now().plus_ns(shared.times.stall_ns / 2);
                    shared.held = Some(Box::new(payload));
                    return Fate::QueuesForSlot;
                }
                self.send(driver, shared, payload);
                Fate::Stays
            }
            Next::Wait => {
                self.set_deadline(&shared.times, driver.now(), before);
                self.hold_input(driver);
                Fate::Stays
            }
            Next::WaitForBudget => self.wait_for_budget(shared),
            Next::Linger => {
                self.transport.finish(driver, shared.memory());
                self.linger(driver, &shared.times);
                Fate::Stays
            }
            Next::Close => Fate::Over,
            Next::Reset => Fate::Abandoned,
            Next::Fail(reason) => {
                shared.failure = Some(reason);
                Fate::Failed
            }
        }
    }

    /// Drains what the client still sends.
    fn linger<D: Driver>(&mut self, driver: &mut D, times: &Times) {
        self.stage = Stage::Lingering { blocks_left: LINGER_BLOCKS_MAX };
        self.deadline = driver.now().plus_ns(times.linger_ns);
        self.resume(driver);
    }

    #[inline]
    fn send<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared, payload: Payload) {
        self.deadline = driver.now().plus_ns(shared.times.stall_ns);
        self.hold_input(driver);
        let (sender, mut link) = self.link(driver, shared);
        sender.start(&mut link, payload);
    }

    /// Sets the deadline of a wait, if it is a new one: a request that comes in byte by byte does
    /// not get more time with each.
    #[inline]
    fn set_deadline(&mut self, times: &Times, now: Instant, before: Option<Activity>) {
        self.deadline = now.plus_ns(match (self.session.activity(), before) {
            (Activity::Idle { .. }, _) => times.idle_ns,
            (Activity::Reading { .. }, Some(Activity::Reading { .. })) => return,
            (Activity::Reading { in_body: true }, _) => times.stall_ns,
            (Activity::Reading { in_body: false }, _) => times.head_ns,
            (Activity::Responding { .. }, Some(Activity::Responding { .. })) => return,
            (Activity::Responding { .. }, _) => times.stall_ns,
        });
    }

    /// The sender, and what it sends through.
    #[inline]
    fn link<'l, D: Driver>(&'l mut self, driver: &'l mut D, shared: &'l mut Shared) -> (&'l mut Sender, Link<'l, D>) {
        let may_end = matches!(self.session.activity(), Activity::Responding { may_end: true });
        (&mut self.sender, Link { driver, shared, transport: &mut self.transport, may_end })
    }

    /// Has it go on in a later iteration.
    #[cold]
    fn wait_for_budget(&mut self, shared: &mut Shared) -> Fate {
        if !self.sender.waits_for_budget {
            self.sender.waits_for_budget = true;
            shared.budget.wait(self.socket());
        }
        Fate::Stays
    }

    /// Calls the session with what it uses of the loop.
    #[inline]
    fn with_session<T>(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        call: impl FnOnce(&mut HttpSession, &mut Services<'_>) -> T,
    ) -> T {
        let socket = self.socket();
        let tls = self.transport.version();
        let peer = self.peer();
        let second = shared.responder.date_cache.second();
        let mut recorder = ConnectionRecorder {
            totals: &mut shared.totals,
            accounting: shared.accounting.as_mut(),
            records: &mut self.records,
            socket,
            tls,
            error_log: shared.error_log.as_ref(),
            certificate: self.transport.client_fingerprint(),
            now,
            second,
        };
        let mut services = Services {
            responder: &mut shared.responder,
            blocking: &mut shared.blocking,
            buffers: &mut shared.buffers,
            scratch: &mut shared.scratch,
            budget: &mut shared.budget,
            recorder: &mut recorder,
            bounds: shared.times.session,
            frame_bytes_max: if tls.is_some() { RECORD_FRAME_BYTES } else { FRAME_BYTES_MAX },
            tls_port: if tls.is_some() { None } else { shared.redirect_port },
            is_draining: shared.draining,
            now,
            socket,
            peer,
        };
        call(&mut self.session, &mut services)
    }

    /// Receives, or not, as the session wants.
    #[inline]
    fn hold_input<D: Driver>(&mut self, driver: &mut D) {
        if self.session.holds_input() { self.pause(driver) } else { self.resume(driver) }
    }

    fn pause<D: Driver>(&mut self, driver: &mut D) {
        if !self.paused {
            self.paused = true;
            self.transport.pause(driver);
        }
    }

    fn resume<D: Driver>(&mut self, driver: &mut D) {
        if self.paused {
            self.paused = false;
            self.transport.resume(driver);
        }
    }
}

// A hundred thousand idle connections hold this much each, and no buffer.
const _: () = assert!(size_of::<Connection>() <= 264);
