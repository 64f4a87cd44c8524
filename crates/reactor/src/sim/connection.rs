//! A connection as the network sees it: two ends, and a bounded flow of bytes from each to the
//! other.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use thalweg_sys::driver::{FileSpan, SendBuf, SpanEnd};
use thalweg_sys::{Instant, SocketId};

/// Which end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    /// The one that connected.
    Connector,
    /// The one that was connected to.
    Acceptor,
}

impl Side {
    pub(super) const fn other(self) -> Self {
        match self {
            Self::Connector => Self::Acceptor,
            Self::Acceptor => Self::Connector,
        }
    }
}

/// Names one end of one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EndId {
    pub(super) connection: u64,
    pub(super) side: Side,
}

impl EndId {
    pub(super) const fn peer(self) -> Self {
        Self { connection: self.connection, side: self.side.other() }
    }
}

pub(super) struct Connection {
    ends: [End; 2],
    /// The time of the first SYN, and the time of its SYN-ACK.
    begun: Instant,
    pub(super) established: Option<Instant>,
    pub(super) syn_sent_again: bool,
    /// Nothing comes through any more.
    pub(super) mute: bool,
}

impl Connection {
    pub(super) fn new(connector: SocketAddr, acceptor: SocketAddr, socket: SocketId, begun: Instant) -> Self {
        let connector = End::new(connector, EndState::Connecting(socket));
        let ends = [connector, End::new(acceptor, EndState::Closed)];
        Self { ends, begun, established: None, syn_sent_again: false, mute: false }
    }

    /// From SYN to SYN-ACK, if it is established and that is known.
    pub(super) fn handshake_ns(&self) -> Option<u64> {
        self.established.filter(|_| !self.syn_sent_again).map(|at| at.ns_since(self.begun))
    }

    pub(super) fn end(&self, side: Side) -> &End {
        &self.ends[side as usize]
    }

    pub(super) fn end_mut(&mut self, side: Side) -> &mut End {
        &mut self.ends[side as usize]
    }

    /// Whether both ends are closed.
    pub(super) fn is_over(&self) -> bool {
        self.ends.iter().all(|end| matches!(end.state, EndState::Closed))
    }
}

/// One end, with the flow that it *sends* and what its owner wants of the one that it receives.
pub(super) struct End {
    pub(super) addr: SocketAddr,
    pub(super) state: EndState,
    pub(super) intake: Intake,
    /// A reset has arrived; it is reported after the bytes before it are delivered.
    pub(super) reset: bool,
    /// The end of the peer's stream has been reported.
    pub(super) ended: bool,
    pub(super) deliver_scheduled: bool,
    pub(super) sending: Option<Sending>,
    pub(super) sent_at: Instant,
    pub(super) finish: Finish,
    pub(super) transmit_scheduled: bool,
    pub(super) flow: Flow,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EndState {
    Connecting(SocketId),
    /// In the backlog of a listener.
    Waiting,
    Open(SocketId),
    /// `Failed` was reported or is about to be.
    Failed(SocketId),
    /// Closed by its owner, or not there yet.
    Closed,
}

/// The owner's readiness to receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Intake {
    /// All of it.
    Open,
    /// Nothing, for now.
    Paused,
    /// The owner's request, which may be for nothing; the end receives on demand.
    Asked { bytes: u32 },
}

impl Intake {
    /// The most that can be delivered at once; 0 is nothing at all, no end and no reset either.
    pub(super) fn bytes_max(self) -> usize {
        match self {
            Self::Open => usize::MAX,
            Self::Paused => 0,
            Self::Asked { bytes } => bytes as usize,
        }
    }

    pub(super) fn set_paused(&mut self, paused: bool) {
        assert!(!matches!(self, Self::Asked { .. }), "a receive-on-demand socket needs no pause");
        *self = if paused { Self::Paused } else { Self::Open };
    }

    /// Something was delivered.
    pub(super) fn satisfy(&mut self) {
        if let Self::Asked { bytes } = self {
            *bytes = 0;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Finish {
    No,
    /// After the send that is under way.
    Asked,
    Done,
}

impl End {
    fn new(addr: SocketAddr, state: EndState) -> Self {
        Self {
            addr,
            state,
            intake: Intake::Open,
            reset: false,
            ended: false,
            deliver_scheduled: false,
            sending: None,
            sent_at: Instant::default(),
            finish: Finish::No,
            transmit_scheduled: false,
            flow: Flow::default(),
        }
    }

    /// Whether the kernel has not yet taken all of a send.
    pub(super) fn is_sending(&self) -> bool {
        self.sending.as_ref().is_some_and(|sending| !sending.taken)
    }
}

/// Bytes from one end to the other: on the way, then arrived, then delivered.
#[derive(Default)]
pub(super) struct Flow {
    /// Bytes that are not delivered yet.
    pub(super) held: VecDeque<u8>,
    /// How many of them, from the front, have arrived.
    pub(super) arrived: usize,
    /// The sender's orderly end has arrived.
    pub(super) end_arrived: bool,
    /// Bytes that have not arrived are lost.
    pub(super) cut: bool,
    /// When the link has put the last byte on its way.
    pub(super) link_free_at: Instant,
    /// When the last that was put on its way arrives: nothing overtakes it.
    pub(super) last_arrival: Instant,
    pub(super) delivered: u64,
}

impl Flow {
    /// Takes the first bytes.
    pub(super) fn take(&mut self, bytes: usize) -> Vec<u8> {
        let (front, back) = self.held.as_slices();
        let of_front = bytes.min(front.len());
        let taken = [&front[..of_front], &back[..bytes - of_front]].concat();
        self.held.drain(..bytes);
        taken
    }

    /// Loses what is on its way, now and later.
    pub(super) fn cut(&mut self) {
        self.cut = true;
        self.held.truncate(self.arrived);
    }

    /// Loses what has arrived as well.
    pub(super) fn discard(&mut self) {
        self.arrived = 0;
        self.cut();
    }
}

/// A send, as far as the kernel has not taken it.
pub(super) struct Sending {
    head: SendBuf,
    head_taken: usize,
    span: Option<FileSpan>,
    span_end: SpanEnd,
    pub(super) started: bool,
    /// The kernel has it all; the owner does not know yet.
    pub(super) taken: bool,
}

impl Sending {
    pub(super) fn new(head: SendBuf, span: Option<(FileSpan, SpanEnd)>) -> Self {
        let (span, span_end) = span.map_or((None, SpanEnd::MoreFollows), |(span, end)| (Some(span), end));
        let span = span.filter(|span| span.len > 0);
        Self { head, head_taken: 0, span, span_end, started: false, taken: false }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.head_taken == self.head.len() && self.span.is_none()
    }

    /// How many bytes the kernel has not taken.
    pub(super) fn left(&self) -> u64 {
        (self.head.len() - self.head_taken) as u64 + self.span.as_ref().map_or(0, |span| span.len)
    }

    /// Moves up to `room` bytes into `held`; how many.
    pub(super) fn take(&mut self, room: usize, held: &mut VecDeque<u8>) -> io::Result<usize> {
        let head = &self.head.as_slice()[self.head_taken..];
        if !head.is_empty() {
            let taken = head.len().min(room);
            held.extend(&head[..taken]);
            self.head_taken += taken;
            return Ok(taken);
        }
        let Some(span) = &mut self.span else { return Ok(0) };
        let wanted = usize::try_from(span.len).map_or(room, |len| len.min(room));
        if wanted as u64 == span.len && self.span_end == SpanEnd::EndsResponse {
            span.file.ensure_unchanged()?;
        }
        let mut bytes = vec![0; wanted];
        let taken = span.file.read_at(&mut bytes, span.offset)?;
        if taken == 0 {
            return Err(span.file.note_change(io::ErrorKind::UnexpectedEof));
        }
        held.extend(&bytes[..taken]);
        span.offset += taken as u64;
        span.len -= taken as u64;
        if span.len == 0 {
            self.span = None;
        }
        Ok(taken)
    }
}
