//! Bounds, times and policies of a server. It owns values only; `server` and `connection` apply
//! them.

use thalweg_wire::Bounds;

/// The settings of a server. The default is one for few clients that may be broken: 64 connections,
/// 5 seconds for each step of an exchange.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bounds on request heads and chunked bodies.
    pub bounds: Bounds,
    /// The treatment of a connection that arrives when there is no room.
    pub when_full: WhenFull,
    /// Most requests on one connection; the last response closes it.
    pub requests_per_connection_max: u32,
    /// Responses that may wait on one connection before its input is paused. What is in a receive
    /// buffer by then is still answered.
    pub responses_waiting_max: usize,
    /// Deadlines; `None` sets none.
    pub times: Option<Times>,
}

/// The deadlines of a connection, in nanoseconds. They are checked a few times within the shortest
/// of them, so a connection may live a quarter longer than that.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// For a request, its body included: from the connection's acceptance or from the end of the
    /// response before.
    pub request_ns: u64,
    /// For the client to take a response.
    pub response_ns: u64,
    /// For the client to close after the last response. Until then the server discards what the
    /// client still sends: a close with unread input would reset the connection, and the client
    /// might lose the response (RFC 9112, 9.6).
    pub linger_ns: u64,
}

/// The treatment of a connection that arrives when there is no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhenFull {
    /// It waits in the listener's queue until the driver's table has a free slot.
    Wait,
    /// The connection that was accepted first is closed in its favour.
    CloseOldest {
        /// Most connections open at once. The driver's table bounds them as well.
        connections_max: usize,
    },
}

impl Default for Settings {
    fn default() -> Self {
        const STEP_NS: u64 = 5_000_000_000;
        Self {
            bounds: Bounds::requests(),
            when_full: WhenFull::CloseOldest { connections_max: 64 },
            requests_per_connection_max: u32::MAX,
            responses_waiting_max: 16,
            times: Some(Times { request_ns: STEP_NS, response_ns: STEP_NS, linger_ns: STEP_NS }),
        }
    }
}

impl Times {
    /// The time between two checks of the deadlines.
    pub(crate) fn check_ns(&self) -> u64 {
        (self.request_ns.min(self.response_ns).min(self.linger_ns) / 4).max(1)
    }
}
