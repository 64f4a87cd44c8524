//! One connection: the requests that it has sent, and the responses that it has yet to get.

use std::collections::VecDeque;

use thalweg_sys::{Instant, SocketId};
use thalweg_wire::{FieldSlots, RequestEvent, RequestReader};

use crate::handler::{Handler, Ticket};
use crate::response::{Framing, Outgoing, Repetition, Response};
use crate::settings::Settings;

/// The state of one connection.
pub(crate) struct Connection {
    pub(crate) socket: SocketId,
    /// Its number in the order of acceptance.
    pub(crate) number: u64,
    pub(crate) deadline: Option<Instant>,
    pub(crate) input: Input,
    pub(crate) is_sending: bool,
    /// Its input is paused because too many responses wait.
    pub(crate) is_paused: bool,
    pub(crate) responses: Responses,
    /// The rest of the response that is sent now.
    pub(crate) repetition: Option<Repetition>,
    reader: RequestReader,
    requests: u32,
    /// The response to a request whose body is still on its way.
    unfinished: Option<Slot>,
    /// The request whose body is on its way and is wanted by the handler.
    wanted: Option<Wanted>,
}

/// A request whose body the handler wants.
#[derive(Clone, Copy)]
struct Wanted {
    ticket: Ticket,
    is_last: bool,
}

/// The incoming direction of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Input {
    /// Requests are read.
    Open,
    /// The last request was read; further bytes are discarded.
    Ignored,
    /// The last response is sent, and so is the end of the stream; the client has yet to close.
    Lingering,
    /// The client sends no more.
    Ended,
}

/// The place of a response in the order of its connection.
enum Slot {
    Ready(Outgoing),
    /// The response to the request of this number is still to come.
    Deferred {
        request: u32,
        framing: Framing,
    },
}

/// Responses in the order of their requests. A queue of one, which is the usual length, allocates
/// nothing.
#[derive(Default)]
pub(crate) struct Responses {
    first: Option<Slot>,
    others: VecDeque<Slot>,
}

impl Responses {
    fn push(&mut self, slot: Slot) {
        if self.first.is_none() {
            self.first = Some(slot);
        } else {
            self.others.push_back(slot);
        }
    }

    /// Takes out the first response, unless it is still to come.
    pub(crate) fn pop(&mut self) -> Option<Outgoing> {
        if !matches!(self.first, Some(Slot::Ready(_))) {
            return None;
        }
        match std::mem::replace(&mut self.first, self.others.pop_front()) {
            Some(Slot::Ready(outgoing)) => Some(outgoing),
            _ => unreachable!("the first one is ready"),
        }
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }

    fn slots(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.first.iter_mut().chain(&mut self.others)
    }
}

impl Connection {
    pub(crate) fn new(socket: SocketId, number: u64, settings: &Settings) -> Self {
        Self {
            socket,
            number,
            deadline: None,
            input: Input::Open,
            is_sending: false,
            is_paused: false,
            responses: Responses::default(),
            repetition: None,
            reader: RequestReader::new(settings.bounds),
            requests: 0,
            unfinished: None,
            wanted: None,
        }
    }

    /// Reads requests from `input` and queues the response to each.
    pub(crate) fn read(&mut self, mut input: &[u8], settings: &Settings, handler: &mut impl Handler) {
        while self.input == Input::Open {
            let mut slots = FieldSlots::new();
            let progress = match self.reader.read(input, &mut slots) {
                Ok(progress) => progress,
                Err(error) => {
                    self.unfinished = None;
                    let refusal = handler.refuse(error).unwrap_or_else(|| Response::new(error.status()));
                    self.responses.push(Slot::Ready(refusal.encode(Framing::of_no_request())));
                    self.input = Input::Ignored;
                    return;
                }
            };
            input = &input[progress.consumed..];
            match progress.event {
                Some(RequestEvent::Head(head)) => {
                    self.requests += 1;
                    // A client that waits for 100 (Continue) gets the response at once. Whether a
                    // body follows it is then unknown (RFC 9110, 10.1.1).
                    let is_last = !head.keep_alive()
                        || head.expects_continue()
                        || self.requests >= settings.requests_per_connection_max;
                    let framing = Framing::of(&head, is_last);
                    let request = self.requests;
                    let ticket = Ticket { socket: self.socket, request };
                    let slot = match handler.respond_or_defer(&head, ticket) {
                        Some(response) => Slot::Ready(response.encode(framing)),
                        None => {
                            let is_wanted = !head.expects_continue() && handler.wants_body(ticket);
                            self.wanted = is_wanted.then_some(Wanted { ticket, is_last });
                            Slot::Deferred { request, framing }
                        }
                    };
                    if is_last && self.wanted.is_none() {
                        self.input = Input::Ignored;
                        self.responses.push(slot);
                    } else {
                        self.unfinished = Some(slot);
                    }
                }
                Some(RequestEvent::Body(piece)) => {
                    if let Some(Wanted { ticket, .. }) = self.wanted {
                        handler.take_body(ticket, piece);
                    }
                }
                Some(RequestEvent::End) => {
                    self.responses.push(self.unfinished.take().expect("a head came before"));
                    if let Some(Wanted { ticket, is_last }) = self.wanted.take() {
                        handler.end_body(ticket);
                        if is_last {
                            self.input = Input::Ignored;
                        }
                    }
                }
                None => return,
            }
        }
    }

    /// Gives a deferred response. Returns whether a request of that number waits for one.
    pub(crate) fn answer(&mut self, request: u32, response: Response) -> bool {
        let is_it = |slot: &&mut Slot| matches!(**slot, Slot::Deferred { request: waiting, .. } if waiting == request);
        let Some(slot) = self.responses.slots().chain(&mut self.unfinished).find(is_it) else { return false };
        if let Slot::Deferred { framing, .. } = *slot {
            *slot = Slot::Ready(response.encode(framing));
        }
        true
    }

    /// Drops the responses behind the one that is sent now; no further request is read.
    pub(crate) fn end_behind(&mut self) {
        self.responses = Responses::default();
        self.unfinished = None;
        self.wanted = None;
        if self.input == Input::Open {
            self.input = Input::Ignored;
        }
    }

    /// Whether no response is on its way or waits to be sent or given.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_sending && self.responses.len() == 0
    }
}
