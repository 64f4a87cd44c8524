//! The interface to the code that makes responses.

use thalweg_wire::{RequestError, RequestHead};

use crate::response::Response;

/// Makes the responses of a server. A closure from a request's head to a response is one.
pub trait Handler {
    /// The response to a request. Its body is not there yet and will be discarded.
    fn respond(&mut self, request: &RequestHead<'_>) -> Response;

    /// The response to bytes that are no request, after which the connection is closed. `None`
    /// stands for a response with the [status of the error](RequestError::status) and nothing else.
    fn refuse(&mut self, _error: RequestError) -> Option<Response> {
        None
    }
}

impl<F: FnMut(&RequestHead<'_>) -> Response> Handler for F {
    fn respond(&mut self, request: &RequestHead<'_>) -> Response {
        self(request)
    }
}
