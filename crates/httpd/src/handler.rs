//! The interface to the code that makes responses.

use thalweg_sys::SocketId;
use thalweg_wire::{RequestError, RequestHead};

use crate::response::Response;

/// Makes the responses of a server. A closure from a request's head to a response is one.
pub trait Handler {
    /// The response to a request. Its body is not there yet and will be discarded.
    fn respond(&mut self, request: &RequestHead<'_>) -> Response;

    /// The response to a request, or `None` if the owner of the server gives it later by
    /// [`Server::answer`](crate::Server::answer). The responses to later requests of the connection
    /// wait for it.
    fn respond_or_defer(&mut self, request: &RequestHead<'_>, _ticket: Ticket) -> Option<Response> {
        Some(self.respond(request))
    }

    /// Whether the body of a request is given to the handler whose response it has deferred. The
    /// body is read before the response is sent, and the connection closed after it if it has to
    /// be. A client that waits for 100 (Continue) sends none.
    fn wants_body(&self, _ticket: Ticket) -> bool {
        false
    }

    /// Takes the next piece of a body that it wants.
    fn take_body(&mut self, _ticket: Ticket, _piece: &[u8]) {}

    /// Takes the end of a body that it wants.
    fn end_body(&mut self, _ticket: Ticket) {}

    /// The response to bytes that are no request, after which the connection is closed. `None`
    /// stands for a response with the [status of the error](RequestError::status) and nothing else.
    fn refuse(&mut self, _error: RequestError) -> Option<Response> {
        None
    }
}

/// Names a request whose response is given later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    pub(crate) socket: SocketId,
    /// The request's number on its connection, from 1.
    pub(crate) request: u32,
}

impl Ticket {
    /// The connection of the request.
    #[must_use]
    pub const fn socket(&self) -> SocketId {
        self.socket
    }
}

impl<F: FnMut(&RequestHead<'_>) -> Response> Handler for F {
    fn respond(&mut self, request: &RequestHead<'_>) -> Response {
        self(request)
    }
}
