//! The responses of the status listener: the document for each request, and its fields.

use thalweg_httpd::{Handler, Response, Ticket};
use thalweg_wire::target::Target;
use thalweg_wire::{Method, RequestError, RequestHead};

use super::collector::Collector;
use super::document::State;
use super::hosts::KnownHosts;
use super::purging::{self, Purging};
use super::responses::{PLAIN, plain, response, second, title};
use super::{exposition, page};

/// Responds to requests with the figures of a collector.
pub(super) struct StatusHandler {
    pub(super) collector: Collector,
    /// The hosts for which the status is shown.
    pub(super) hosts: KnownHosts,
    pub(super) purging: Purging,
}

impl Handler for StatusHandler {
    fn respond(&mut self, request: &RequestHead<'_>) -> Response {
        if !self.hosts.has(request.host()) {
            let reason = format!(
                "The status page is not available under the name {}. Use an IP address, localhost, or a name in \
                 allowed_hosts of [status].\n",
                request.host().unwrap_or_default()
            );
            return response(421, PLAIN, format!("{}{reason}", title(421)));
        }
        match request.method {
            Method::Get | Method::Head => self.document(request),
            _ => plain(405).field("Allow", "GET, HEAD"),
        }
    }

    fn respond_or_defer(&mut self, request: &RequestHead<'_>, ticket: Ticket) -> Option<Response> {
        match request {
            request if !self.hosts.has(request.host()) => Some(self.respond(request)),
            request if purging::is_for_purges(request) => self.purging.begin(request, ticket, self.collector.tier()),
            request if purging::is_for_objects(request) => self.purging.list(request, ticket, self.collector.tier()),
            request => Some(self.respond(request)),
        }
    }

    fn wants_body(&self, ticket: Ticket) -> bool {
        self.purging.has(ticket)
    }

    fn take_body(&mut self, ticket: Ticket, piece: &[u8]) {
        self.purging.take(ticket, piece);
    }

    fn end_body(&mut self, ticket: Ticket) {
        self.purging.end(ticket);
    }

    fn refuse(&mut self, error: RequestError) -> Option<Response> {
        Some(plain(error.status()))
    }
}

impl StatusHandler {
    fn document(&self, request: &RequestHead<'_>) -> Response {
        let Ok(target) = Target::parse(request.method, request.target) else { return plain(400) };
        let status = || self.collector.status(second());
        match target.path().unwrap_or_default() {
            b"/" => response(200, "text/html; charset=utf-8", page::html(&status())),
            b"/status.js" => response(200, "text/javascript; charset=utf-8", page::SCRIPT.to_owned()),
            b"/status.json" => {
                let text = serde_json::to_string(&status()).expect("the document has text for keys");
                response(200, "application/json", text)
            }
            b"/metrics" => {
                let format = exposition::Format::for_accept(request.fields.all("accept"));
                response(200, format.content_type(), exposition::metrics(status(), format))
            }
            b"/healthz" => match self.collector.state() {
                State::Serving => response(200, PLAIN, "ok\n".to_owned()),
                State::Draining => response(503, PLAIN, "draining\n".to_owned()),
            },
            _ => plain(404),
        }
    }
}
