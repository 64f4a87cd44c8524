//! One connection of the load engine: what it is doing and the call that it carries.

use std::collections::VecDeque;
use std::rc::Rc;

use sha2::{Digest, Sha256};
use thalweg_measure::Outcome;
use thalweg_sys::{Fault, Instant, SocketId};
use thalweg_wire::{Bounds, FieldSlots, MessageBytes, ResponseError, ResponseEvent, ResponseReader};

use crate::input::check::CheckOf;
use crate::user::UserId;

/// A connection, kept at its socket's index.
pub(crate) struct Connection {
    pub(crate) id: SocketId,
    pub(crate) state: State,
    pub(crate) reader: ResponseReader,
    /// Calls begun on it.
    pub(crate) calls: u32,
    /// A send is under way.
    pub(crate) sending: bool,
    /// When the driver was given the latest send. What it says of that send's time is about an earlier one as long as it lies before.
    pub(crate) submitted_at: Instant,
    /// On the list of idle connections, on that of busy ones with room.
    pub(crate) in_idle: bool,
    pub(crate) in_roomy: bool,
    /// Since when it has had room for a call.
    pub(crate) room_since: Instant,
    /// When its earliest entry in the timer wheel comes due, if it has one.
    pub(crate) armed: Option<Instant>,
    /// When connect() was issued for it, and the whole responses that it has brought.
    pub(crate) since: Instant,
    pub(crate) replies: u32,
    /// A call on it has failed.
    pub(crate) failed: bool,
    /// No arrival had waited for its place.
    pub(crate) prompt: bool,
    /// By how much later than the kernel the thread has learnt of that, in microseconds: for certain where the connection is new, at most where an
    /// response has made room.
    notice_delay_us: u32,
    /// When it may read next, if it has a pace, and when it received last.
    pub(crate) read_at: Instant,
    pub(crate) received_at: Instant,
    /// Bytes received and time spent receiving by the calls that have ended, for its rate, and when the last of them did.
    pub(crate) bytes: u64,
    pub(crate) receiving_ns: u64,
    pub(crate) responded_at: Instant,
    /// What lies behind the call in front, if requests are pipelined, or waits for the connection to be there.
    pub(crate) buffers: Option<Box<Buffers>>,
    /// The user that it belongs to.
    pub(crate) user: Option<UserId>,
}

pub(crate) enum State {
    Connecting,
    Idle,
    /// With the call whose response comes next.
    Busy(Call),
    /// Between two bursts of its user.
    Thinking {
        until: Instant,
    },
    Closed,
}

/// Pipelined calls, and a response on a long path.
#[derive(Default)]
pub(crate) struct Buffers {
    /// Those behind the one in front, in order; all of them where the connection is not there yet.
    pub(crate) behind: VecDeque<Call>,
    /// How many of the last ones, the one in front included, the driver was not yet given.
    pub(crate) unsent: usize,
    /// The beginning of a response that was read and has not come yet, as far as its path is concerned.
    pub(crate) held: Vec<u8>,
    /// Where requests that leave together are put one after the other; used again.
    pub(crate) batch: Rc<Vec<u8>>,
}

/// One request on its way, and what has come back so far.
pub(crate) struct Call {
    pub(crate) intended: Instant,
    /// When the thread had both: it had noticed that the request was due, and a connection had room for it.
    pub(crate) ready: Instant,
    /// How the time until then was spent: waiting for the thread itself, and for a connection that the target kept busy. The rest was
    /// spent connecting.
    pub(crate) late_ns: u64,
    pub(crate) queue_ns: u64,
    pub(crate) deadline: Instant,
    /// When it was sent, if the driver does not know any more because it has sent others since.
    pub(crate) sent: Stamp,
    pub(crate) first_byte: Stamp,
    /// Which request it is.
    pub(crate) request: u32,
    /// The last one on its connection.
    pub(crate) last: bool,
    pub(crate) measured: bool,
    /// The driver was given it.
    pub(crate) submitted: bool,
    pub(crate) keep_alive: bool,
    /// The fields of its response are not what was asked of them.
    pub(crate) fields_differ: bool,
    pub(crate) status: u16,
    /// Bytes received of the response, and of its content.
    pub(crate) bytes: u64,
    pub(crate) body_bytes: u64,
    pub(crate) digest: Option<Box<Sha256>>,
}

impl Connection {
    pub(crate) fn connecting(id: SocketId, since: Instant) -> Self {
        Self { state: State::Connecting, since, ..Self::closed(id) }
    }

    /// The place of a connection that is not there.
    pub(crate) fn closed(id: SocketId) -> Self {
        Self {
            id,
            state: State::Closed,
            reader: ResponseReader::new(Bounds::responses()),
            calls: 0,
            sending: false,
            submitted_at: Instant::default(),
            in_idle: false,
            in_roomy: false,
            room_since: Instant::default(),
            armed: None,
            since: Instant::default(),
            replies: 0,
            failed: false,
            prompt: true,
            notice_delay_us: 0,
            read_at: Instant::default(),
            received_at: Instant::default(),
            bytes: 0,
            receiving_ns: 0,
            responded_at: Instant::default(),
            buffers: None,
            user: None,
        }
    }

    /// When its patience ends, that of the attempt to connect or of the call in front; or when its user goes on.
    pub(crate) fn deadline(&self, timeout_ns: u64) -> Option<Instant> {
        match &self.state {
            State::Connecting => {
                let own = self.since.plus_ns(timeout_ns);
                Some(self.calls_under_way().next().map_or(own, |call| own.min(call.deadline)))
            }
            State::Busy(call) => Some(call.deadline),
            State::Thinking { until } => Some(*until),
            State::Idle | State::Closed => None,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed)
    }

    pub(crate) fn is_established(&self) -> bool {
        !matches!(self.state, State::Connecting | State::Closed)
    }

    /// Calls that have begun and not ended.
    pub(crate) fn under_way(&self) -> usize {
        usize::from(matches!(self.state, State::Busy(_))) + self.buffers.as_ref().map_or(0, |line| line.behind.len())
    }

    /// The calls that have begun and not ended, in order.
    pub(crate) fn calls_under_way(&self) -> impl Iterator<Item = &Call> {
        let front = if let State::Busy(call) = &self.state { Some(call) } else { None };
        front.into_iter().chain(self.buffers.iter().flat_map(|line| &line.behind))
    }

    /// Notes that it is established, `connect_ns` after it was begun; the thread learns of it now.
    pub(crate) fn establish(&mut self, connect_ns: u64, now: Instant) {
        self.state = State::Idle;
        self.make_room(now.ns_since(self.since) - connect_ns, now);
    }

    /// Notes that it has room for a call. The thread has learnt of it by so much too late.
    #[inline]
    pub(crate) fn make_room(&mut self, notice_delay_ns: u64, now: Instant) {
        self.room_since = now;
        self.notice_delay_us =
            if notice_delay_ns == 0 { 0 } else { u32::try_from(notice_delay_ns / 1_000).unwrap_or(u32::MAX) };
    }

    /// By how much too late the thread has learnt that it has room.
    pub(crate) fn notice_delay_ns(&self) -> u64 {
        u64::from(self.notice_delay_us) * 1_000
    }

    /// How a request that is due now, or was earlier, came to have room on it: when, by how much the thread was late until then, and
    /// how long the target kept it waiting for a connection.
    #[inline]
    pub(crate) fn waits_until_room(&self, due: Due, now: Instant) -> (Instant, u64, u64) {
        let unnoticed_ns = due.noticed.ns_since(due.intended);
        let is_new = self.calls == 0;
        if !is_new {
            let waited_ns = self.room_since.ns_since(due.noticed);
            let notice_delay_ns = self.notice_delay_ns().min(waited_ns);
            return (due.noticed.max(self.room_since), unnoticed_ns + notice_delay_ns, waited_ns - notice_delay_ns);
        }
        // The time from connect() on is neither the thread's nor a queue's, but for what the thread took to learn of the connection.
        let issued = self.since.max(due.noticed);
        let (established, notice_delay_ns) = match self.state {
            State::Connecting => (now, 0),
            _ => (self.room_since.max(due.noticed), self.notice_delay_ns().min(self.room_since.ns_since(issued))),
        };
        let until_issued_ns = issued.ns_since(due.noticed);
        let (late_ns, queue_ns) = if self.prompt && due.prompt { (until_issued_ns, 0) } else { (0, until_issued_ns) };
        (established, unnoticed_ns + late_ns + notice_delay_ns, queue_ns)
    }

    /// Whether it is the one of that name and has had room for a call since before `at`.
    pub(crate) fn had_room_before(&self, id: SocketId, at: Instant, pipeline: u32) -> bool {
        let room = matches!(self.state, State::Idle | State::Busy(_)) && self.under_way() < pipeline as usize;
        self.id == id && room && self.room_since < at
    }

    /// Bits per second at which its responses came, up to `now`; `None` if none has.
    pub(crate) fn bits_per_s(&self, now: Instant) -> Option<u64> {
        let (mut bytes, mut receiving_ns) = (self.bytes, self.receiving_ns);
        if let State::Busy(call) = &self.state {
            // What was read at a pace was read for the time until the next read.
            let until = if self.read_at > self.received_at { self.read_at } else { now };
            bytes += call.bytes;
            receiving_ns += until.ns_since(call.ready.max(self.responded_at));
        }
        let bits = u128::from(bytes) * 8 * 1_000_000_000;
        (bytes > 0).then(|| u64::try_from(bits / u128::from(receiving_ns.max(1))).unwrap_or(u64::MAX))
    }
}

/// The time of something that may not have happened yet, in half the memory of an `Option`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Stamp(Instant);

impl Stamp {
    /// When it happened.
    pub(crate) fn get(self) -> Option<Instant> {
        (self.0 != Instant::default()).then_some(self.0)
    }

    /// Notes that it happened now, unless it had already.
    pub(crate) fn set_once(&mut self, now: Instant) {
        if self.get().is_none() {
            self.0 = now;
        }
    }
}

/// When a request was due.
#[derive(Clone, Copy)]
pub(crate) struct Due {
    pub(crate) intended: Instant,
    /// When the thread first saw it.
    pub(crate) noticed: Instant,
    /// It was not kept waiting since.
    pub(crate) prompt: bool,
}

impl Call {
    /// When it was sent: what is noted here, else what the driver knows of the socket's latest send. A request that has not left yet has
    /// no time of its own.
    pub(crate) fn sent_or(&self, latest: Instant) -> Instant {
        self.sent.get().unwrap_or(latest).max(self.ready)
    }

    /// Judges a whole response.
    ///
    /// The hasher, if there is one, is put back for the next call.
    #[expect(clippy::vec_box, reason = "a call takes a box out, since it would be large with the hasher itself")]
    pub(crate) fn judge(&mut self, check: CheckOf<'_>, hashers: &mut Vec<Box<Sha256>>) -> Outcome {
        let digest = self.digest.take().map(|mut hasher| {
            let digest = <[u8; 32]>::from(hasher.finalize_reset());
            hashers.push(hasher);
            digest
        });
        match check.judge(self.status, self.body_bytes, digest) {
            Outcome::Good if self.fields_differ => Outcome::FailedCheck,
            outcome => outcome,
        }
    }
}

/// What a received piece of a response came to.
#[derive(Default)]
pub(crate) struct ResponseProgress {
    pub(crate) end: Option<End>,
    /// Bytes of the piece that belong to this response, and bytes of content among them.
    pub(crate) bytes: usize,
    pub(crate) body_bytes: u64,
}

pub(crate) enum End {
    /// Complete, with so many bytes.
    Whole(MessageBytes),
    Broken(Outcome),
}

/// Reads on in the response to `call`, up to its end. What the server calls itself goes into `server`; `on_status` hears of each status,
/// of interim responses too.
pub(crate) fn read_response(
    reader: &mut ResponseReader,
    call: &mut Call,
    input: &[u8],
    check: CheckOf<'_>,
    mut server: Option<&mut Vec<u8>>,
    mut on_status: impl FnMut(u16),
) -> ResponseProgress {
    let mut progress = ResponseProgress::default();
    loop {
        let mut slots = FieldSlots::new();
        let step = match reader.read(&input[progress.bytes..], &mut slots) {
            Ok(step) => step,
            Err(error) => {
                progress.bytes = input.len();
                progress.end = Some(End::Broken(outcome_of_response_error(error)));
                break;
            }
        };
        progress.bytes += step.consumed;
        match step.event {
            None => break,
            Some(ResponseEvent::Informational(head)) => on_status(head.status),
            Some(ResponseEvent::Head(head)) => {
                on_status(head.status);
                call.status = head.status;
                call.keep_alive = head.keep_alive();
                if check.has_fields() {
                    call.fields_differ = !check.check_fields(head.fields.iter());
                }
                if let Some(server) = &mut server {
                    server.clear();
                    server.extend_from_slice(head.fields.get("Server").unwrap_or_default());
                }
            }
            Some(ResponseEvent::Body(bytes)) => {
                progress.body_bytes += bytes.len() as u64;
                if let Some(digest) = &mut call.digest {
                    digest.update(bytes);
                }
            }
            Some(ResponseEvent::End(bytes)) => {
                progress.end = Some(End::Whole(bytes));
                break;
            }
        }
    }
    call.bytes += progress.bytes as u64;
    call.body_bytes += progress.body_bytes;
    progress
}

/// What a connection's failure is for the request that was to use it. An error of no known kind is taken for what it came to: there is
/// no connection, or there is one no more.
pub(crate) fn outcome_of_fault(fault: Fault, connecting: bool) -> Outcome {
    match fault {
        Fault::Refused => Outcome::Refused,
        Fault::Unreachable | Fault::TimedOut => Outcome::Unreachable,
        Fault::NoDescriptor | Fault::FileTableFull => Outcome::NoDescriptor,
        Fault::NoAddress => Outcome::NoAddress,
        Fault::Other(_) if connecting => Outcome::Unreachable,
        Fault::Reset | Fault::Other(_) => Outcome::Reset,
    }
}

/// What a refused or incomplete response is. A connection that the server closes without a byte of a response counts as
/// reset: for the request it makes no difference in which way the server hung up.
pub(crate) fn outcome_of_response_error(error: ResponseError) -> Outcome {
    match error {
        ResponseError::ClosedIdle => Outcome::Reset,
        ResponseError::TruncatedHead | ResponseError::TruncatedBody { .. } | ResponseError::TruncatedChunks { .. } => {
            Outcome::Truncated
        }
        ResponseError::Head(_)
        | ResponseError::Framing(_)
        | ResponseError::Chunk(_)
        | ResponseError::Unsolicited
        | ResponseError::UnaskedSwitch
        | ResponseError::TooManyInformational => Outcome::ProtocolError,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Such a failed connect was once said to have been reset by the server.
    #[test]
    fn an_error_of_no_known_kind_is_what_it_came_to() {
        for (fault, connecting, open) in [
            (Fault::Other(74), Outcome::Unreachable, Outcome::Reset),
            (Fault::Reset, Outcome::Reset, Outcome::Reset),
            (Fault::Refused, Outcome::Refused, Outcome::Refused),
            (Fault::TimedOut, Outcome::Unreachable, Outcome::Unreachable),
            (Fault::Unreachable, Outcome::Unreachable, Outcome::Unreachable),
            (Fault::NoDescriptor, Outcome::NoDescriptor, Outcome::NoDescriptor),
            (Fault::FileTableFull, Outcome::NoDescriptor, Outcome::NoDescriptor),
            (Fault::NoAddress, Outcome::NoAddress, Outcome::NoAddress),
        ] {
            let outcomes = (outcome_of_fault(fault, true), outcome_of_fault(fault, false));
            assert_eq!(outcomes, (connecting, open), "{fault:?}");
        }
    }

    /// Beside this a held connection takes its place in the driver's table and an entry or two in the timer wheels.
    #[test]
    fn a_held_connection_takes_little_memory() {
        assert!(size_of::<Connection>() <= 384, "{} bytes", size_of::<Connection>());
    }
}
