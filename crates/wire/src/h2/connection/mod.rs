//! A connection of either role, without I/O.

mod control;
mod headers;
mod receive;
mod send;

use super::credit::{Charge, Credit};
use super::error::{ErrorCode, Fault};
use super::frame::{self, FrameHead, PREFACE};
use super::priority::Priority;
use super::settings::{Settings, WINDOW_INITIAL};
use super::stream::{Stream, Streams};
use crate::hpack::{Decoder, FieldList, ListBounds, SIZE_INITIAL, SkippedBlock};

/// The side of a connection that we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends requests.
    Client,
    /// Sends responses.
    Server,
}

/// Settings of our side, and what the frames do not negotiate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Our settings.
    pub settings: Settings,
    /// Bytes that the peer may send on all streams together before we return some.
    pub connection_window: u32,
    /// Bounds of a header block. A larger one is read and not kept.
    pub list: ListBounds,
}

/// An HTTP/2 connection: bytes in, events out, and frames appended to the caller's buffer.
///
/// Each stream carries a value of its owner's. It counts against the limit on streams until the
/// owner releases it, whatever the peer has done to it: a peer that has its streams reset gains
/// nothing by that.
#[derive(Debug)]
pub struct Connection<T> {
    role: Role,
    config: Config,
    stage: Stage,
    /// A frame that came in parts, or a head of one.
    partial: Vec<u8>,
    decoder: Decoder,
    /// A header block whose end has not come.
    block: Option<Block>,
    streams: Streams<T>,
    /// The peer's settings.
    remote: Settings,
    /// SETTINGS of ours that the peer has not acknowledged.
    unacknowledged: u32,
    send_window: i64,
    receive_window: i64,
    /// Received bytes that were consumed and that the peer has not been told of.
    unreturned: u32,
    /// The highest stream that the peer has opened.
    last_remote: u32,
    /// The next stream that we open.
    next_local: u32,
    /// The highest stream that we still process, once we have sent GOAWAY.
    processes_up_to: Option<u32>,
    /// The peer has sent GOAWAY.
    is_refusing: bool,
    /// The peer's SETTINGS have come.
    has_begun: bool,
    credit: Credit,
}

/// The place in the input.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// So much of the client's preface has come.
    Preface(u8),
    /// The peer's first frame has to be SETTINGS.
    First,
    /// A frame's head.
    Head,
    /// The payload of a frame that is not DATA.
    Payload(FrameHead),
    /// The length of the padding of a DATA frame.
    Padding(FrameHead),
    /// Bytes of a DATA frame, and of its padding.
    Data {
        stream: u32,
        left: u32,
        padding: u32,
        ends: bool,
    },
    Failed(Fault),
}

/// A header block that goes on in CONTINUATION frames.
#[derive(Debug)]
struct Block {
    stream: u32,
    ends: bool,
    bytes: Vec<u8>,
    /// There if it is too large to be kept.
    skipped: Option<Box<SkippedBlock>>,
}

/// An event of a connection.
#[derive(Debug)]
pub enum Event<'a> {
    /// A header block: the head of a message, or its trailers if the final head has come before. A
    /// server's stream begins with it.
    Headers {
        /// The stream.
        stream: u32,
        /// Its fields, unless there are more than the bounds allow.
        fields: &'a FieldList,
        /// Nothing more comes on this stream.
        ends: bool,
    },
    /// Bytes of a body; none only with `ends`.
    Data {
        /// The stream.
        stream: u32,
        /// The bytes, to be returned with [`Connection::consume`].
        bytes: &'a [u8],
        /// Nothing more comes on this stream.
        ends: bool,
    },
    /// The stream is dead, and its owner should release it.
    Reset {
        /// The stream.
        stream: u32,
        /// The code sent or received.
        code: ErrorCode,
        /// The peer's fault for which we reset the stream; `None` if the peer did.
        fault: Option<Fault>,
    },
    /// Streams may send that could not before.
    WindowOpened,
    /// The peer's settings have changed.
    Settings,
    /// The peer takes no new streams, and has not processed those above this one.
    GoAway {
        /// The last stream that the peer may have processed.
        last_stream: u32,
        /// The reason.
        code: ErrorCode,
    },
    /// The peer has answered a PING of ours.
    Pong([u8; 8]),
}

impl<T: Default> Connection<T> {
    /// A connection that has just been opened. Appends our preface.
    pub fn new(role: Role, config: Config, out: &mut Vec<u8>) -> Self {
        if role == Role::Client {
            out.extend_from_slice(PREFACE);
        }
        config.settings.write(out);
        if config.connection_window > WINDOW_INITIAL {
            frame::write_window_update(0, config.connection_window - WINDOW_INITIAL, out);
        }
        Self {
            role,
            config,
            stage: if role == Role::Server { Stage::Preface(0) } else { Stage::First },
            partial: Vec::new(),
            decoder: Decoder::new(SIZE_INITIAL),
            block: None,
            streams: Streams::new(),
            remote: Settings::INITIAL,
            unacknowledged: 1,
            send_window: WINDOW_INITIAL.into(),
            receive_window: config.connection_window.max(WINDOW_INITIAL).into(),
            unreturned: 0,
            last_remote: 0,
            next_local: 1,
            processes_up_to: None,
            is_refusing: false,
            has_begun: false,
            credit: Credit::new(),
        }
    }

    /// Whether the peer's first frame has come.
    #[must_use]
    pub const fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// The peer's settings.
    #[must_use]
    pub const fn remote(&self) -> &Settings {
        &self.remote
    }

    /// Streams that count at present.
    #[must_use]
    pub fn stream_count(&self) -> usize {
        self.streams.len()
    }

    /// Whether nothing is under way, in a frame or on a stream.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.streams.is_empty() && self.partial.is_empty() && self.block.is_none()
    }

    /// Whether the input ends between two frames.
    #[must_use]
    pub fn is_between_frames(&self) -> bool {
        matches!(self.stage, Stage::Head | Stage::First) && self.partial.is_empty() && self.block.is_none()
    }

    /// The value of a stream's owner, as long as the stream is not released and over.
    #[inline]
    pub fn owner(&mut self, stream: u32) -> Option<&mut T> {
        self.streams.get_mut(stream).map(|stream| &mut stream.owner)
    }

    /// All streams with their owners' values.
    pub fn owners(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.streams.iter_mut().map(|stream| (stream.id, &mut stream.owner))
    }

    /// Sets the priority of a stream's response, as its request names it. A PRIORITY_UPDATE that
    /// has come is newer.
    pub fn set_priority(&mut self, stream: u32, priority: Priority) {
        if let Some(stream) = self.streams.get_mut(stream).filter(|stream| !stream.is_priority_updated) {
            stream.priority = priority;
        }
    }

    /// Lets a client cause more work; called for each second that has passed.
    pub fn earn_time(&mut self, seconds: u32) {
        self.credit.earn_time(seconds);
    }

    /// Pays for a frame of the client's that asks for nothing. Servers are not charged: a load
    /// generator counts what they do.
    fn pay(&mut self, charge: Charge) -> Result<(), Fault> {
        if self.role == Role::Client || self.credit.pay(charge) {
            return Ok(());
        }
        Err(Fault::new(ErrorCode::ENHANCE_YOUR_CALM, "too many frames that ask for nothing"))
    }

    /// Whether a stream of this id was never opened.
    fn is_stream_idle(&self, stream: u32) -> bool {
        if self.is_remote_id(stream) { stream > self.last_remote } else { stream >= self.next_local }
    }

    /// Whether the peer opens streams of this id.
    fn is_remote_id(&self, stream: u32) -> bool {
        (stream % 2 == 1) == (self.role == Role::Server)
    }

    fn new_stream(&self, id: u32) -> Stream<T> {
        let window = self.config.settings.initial_window;
        // Until our settings are acknowledged, the peer may go by the initial ones.
        let window = if self.unacknowledged > 0 { window.max(WINDOW_INITIAL) } else { window };
        Stream::new(id, T::default(), self.remote.initial_window, window)
    }
}
