//! `POST /purge` and `GET /objects` of the status listener: requests of an operator who shows a
//! token, which are gathered whole and left to the cache tier. What they say is the tier's.

use std::collections::VecDeque;
use std::sync::Arc;

use thalweg_httpd::{Response, Ticket};
use thalweg_sys::Instant;
use thalweg_wire::{Method, RequestHead};

use super::responses::{plain, response};
use crate::content::tier::{CacheTier, PurgeAnswer};

/// The path of requests to purge.
const PATH: &[u8] = b"/purge";

/// The path of the list of stored objects.
const OBJECTS_PATH: &[u8] = b"/objects";

/// Most bytes of the body of a request.
const BODY_BYTES_MAX: usize = 64 << 10;

/// Bodies that are gathered at once: as many as there are connections. A client that leaves before
/// the end of its body is forgotten when there are more.
const BODIES_MAX: usize = 64;

/// A wrong token is answered after a second or two, so that nobody can try many.
const REFUSED_NS: u64 = 1_000_000_000;

/// Gives the answer to a request, from whatever thread.
type Reply = dyn Fn(Ticket, PurgeAnswer) + Send + Sync;

/// Requests to purge.
pub(super) struct Purging {
    reply: Arc<Reply>,
    bodies: VecDeque<Gathered>,
    /// Requests with a wrong token, and when they are answered: the first one first. Each of them
    /// has a connection.
    refused: VecDeque<(Ticket, Instant)>,
}

/// A request whose body is on its way.
struct Gathered {
    ticket: Ticket,
    tier: Arc<dyn CacheTier>,
    content_type: String,
    body: Vec<u8>,
    is_too_long: bool,
    /// It has the token.
    is_allowed: bool,
}

/// Whether a request is for the path of purges.
pub(super) fn is_for_purges(request: &RequestHead<'_>) -> bool {
    request.target.split(|&byte| byte == b'?').next() == Some(PATH)
}

/// Whether a request is for the list of stored objects.
pub(super) fn is_for_objects(request: &RequestHead<'_>) -> bool {
    request.target.split(|&byte| byte == b'?').next() == Some(OBJECTS_PATH)
}

/// The response with an answer of the tier.
pub(super) fn response_of(PurgeAnswer { status, body }: PurgeAnswer) -> Response {
    response(status, "application/json", body)
}

impl Purging {
    /// Replies go to `reply`.
    pub(super) fn new(reply: impl Fn(Ticket, PurgeAnswer) + Send + Sync + 'static) -> Self {
        Self { reply: Arc::new(reply), bodies: VecDeque::new(), refused: VecDeque::new() }
    }

    /// Begins with a request. A response is its end; else its body is wanted.
    pub(super) fn begin(
        &mut self,
        request: &RequestHead<'_>,
        ticket: Ticket,
        tier: Option<Arc<dyn CacheTier>>,
    ) -> Option<Response> {
        let authorization = request.fields.get("authorization").unwrap_or_default();
        let allowed = tier.and_then(|tier| Some((tier.allows_purge(authorization)?, tier)));
        let Some((is_allowed, tier)) = allowed else {
            return Some(refusal(403, "purging is off: [status] has no purge_token"));
        };
        if request.method != Method::Post {
            return Some(plain(405).field("Allow", "POST"));
        }
        if is_allowed && request.expects_continue() {
            return Some(refusal(417, "send the body at once"));
        }
        let content_type = request.fields.get("content-type").unwrap_or_default();
        let content_type = String::from_utf8_lossy(content_type).into_owned();
        if self.bodies.len() >= BODIES_MAX {
            self.bodies.pop_front();
        }
        self.bodies.push_back(Gathered {
            ticket,
            tier,
            content_type,
            body: Vec::new(),
            is_too_long: false,
            is_allowed,
        });
        None
    }

    /// Answers a request for the list of stored objects: at once, or once the tier has it.
    pub(super) fn list(
        &mut self,
        request: &RequestHead<'_>,
        ticket: Ticket,
        tier: Option<Arc<dyn CacheTier>>,
    ) -> Option<Response> {
        let authorization = request.fields.get("authorization").unwrap_or_default();
        let allowed = tier.and_then(|tier| Some((tier.allows_reading(authorization)?, tier)));
        let Some((is_allowed, tier)) = allowed else {
            return Some(refusal(403, "reading is off: [status] has no read_token"));
        };
        if request.method != Method::Get {
            return Some(plain(405).field("Allow", "GET"));
        }
        if !is_allowed {
            self.refused.push_back((ticket, Instant::now().plus_ns(REFUSED_NS)));
            return None;
        }
        let query = request.target.split(|&byte| byte == b'?').nth(1).unwrap_or_default();
        let reply = Arc::clone(&self.reply);
        tier.list_objects(&String::from_utf8_lossy(query), Box::new(move |answer| reply(ticket, answer)));
        None
    }

    /// Whether the body of a request is wanted.
    pub(super) fn has(&self, ticket: Ticket) -> bool {
        self.bodies.iter().any(|gathered| gathered.ticket == ticket)
    }

    /// Takes a piece of a body.
    pub(super) fn take(&mut self, ticket: Ticket, piece: &[u8]) {
        let Some(gathered) = self.bodies.iter_mut().find(|gathered| gathered.ticket == ticket) else { return };
        gathered.is_too_long |= gathered.body.len() + piece.len() > BODY_BYTES_MAX;
        if !gathered.is_too_long && gathered.is_allowed {
            gathered.body.extend_from_slice(piece);
        }
    }

    /// A request with a wrong token whose time has come, if there is one.
    pub(super) fn next_refused(&mut self, now: Instant) -> Option<Ticket> {
        self.refused.pop_front_if(|(_, due)| *due <= now).map(|(ticket, _)| ticket)
    }

    /// Leaves a request to the tier, which answers it in its time.
    pub(super) fn end(&mut self, ticket: Ticket) {
        let at = self.bodies.iter().position(|gathered| gathered.ticket == ticket);
        let Some(gathered) = at.and_then(|at| self.bodies.remove(at)) else { return };
        let Gathered { tier, content_type, body, is_too_long, is_allowed, .. } = gathered;
        if !is_allowed {
            return self.refused.push_back((ticket, Instant::now().plus_ns(REFUSED_NS)));
        }
        let reply = Arc::clone(&self.reply);
        if is_too_long {
            let why = format!("the body is longer than {} bytes", BODY_BYTES_MAX);
            return reply(ticket, PurgeAnswer { status: 413, body: error_of(&why) });
        }
        tier.purge(&content_type, &body, Box::new(move |answer| reply(ticket, answer)));
    }
}

/// The response to a wrong token.
pub(super) fn refusal_of_token() -> Response {
    refusal(401, "this needs the token: Authorization: Bearer TOKEN").field("WWW-Authenticate", "Bearer")
}

fn refusal(status: u16, why: &str) -> Response {
    response_of(PurgeAnswer { status, body: error_of(why) })
}

fn error_of(why: &str) -> String {
    serde_json::json!({ "error": why }).to_string() + "\n"
}
