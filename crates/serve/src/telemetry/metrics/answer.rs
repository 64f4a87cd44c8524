//! The responses of the status listener: which document a request gets, and its head.

use thalweg_wire::date::imf_fixdate;
use thalweg_wire::status::reason;
use thalweg_wire::target::Target;
use thalweg_wire::{Method, RequestHead};

use super::collector::Collector;
use super::document::State;
use super::hosts::KnownHosts;
use super::{exposition, page};

const PLAIN: &str = "text/plain; charset=utf-8";

/// The whole response to a request, at this second.
pub(super) fn answer(collector: &Collector, hosts: &KnownHosts, head: &RequestHead<'_>, second: i64) -> Vec<u8> {
    if !hosts.has(head.host()) {
        let why = format!(
            "The status page is not available under the name {}. Use an IP address, localhost, or a name in \
             allowed_hosts of [status].\n",
            head.host().unwrap_or_default()
        );
        return Response { code: 421, content_type: PLAIN, body: format!("{}{why}", title(421)) }
            .bytes(head.method, second);
    }
    let response = match head.method {
        Method::Get | Method::Head => find(collector, head, second),
        _ => Response::plain(405),
    };
    response.bytes(head.method, second)
}

/// The response to what cannot be understood, with this status.
pub(super) fn refusal(code: u16, second: i64) -> Vec<u8> {
    Response::plain(code).bytes(Method::Get, second)
}

fn find(collector: &Collector, head: &RequestHead<'_>, second: i64) -> Response {
    let path = match Target::parse(head.method, head.target) {
        Ok(target) => target.path().unwrap_or_default(),
        Err(_) => return Response::plain(400),
    };
    let (code, content_type, body) = match path {
        b"/" => (200, "text/html; charset=utf-8", page::html(&collector.status(second))),
        b"/status.js" => (200, "text/javascript; charset=utf-8", page::SCRIPT.to_owned()),
        b"/status.json" => {
            let text = serde_json::to_string(&collector.status(second)).expect("the document has text for keys");
            (200, "application/json", text)
        }
        b"/metrics" => {
            let format = exposition::Format::for_accept(head.fields.all("accept"));
            (200, format.content_type(), exposition::metrics(collector.status(second), format))
        }
        b"/healthz" => match collector.state() {
            State::Serving => (200, PLAIN, "ok\n".to_owned()),
            State::Draining => (503, PLAIN, "draining\n".to_owned()),
        },
        _ => return Response::plain(404),
    };
    Response { code, content_type, body }
}

struct Response {
    code: u16,
    content_type: &'static str,
    body: String,
}

impl Response {
    /// One that says its status in words.
    fn plain(code: u16) -> Self {
        Self { code, content_type: PLAIN, body: title(code) }
    }

    /// All of it; to HEAD without the body.
    fn bytes(&self, method: Method<'_>, second: i64) -> Vec<u8> {
        let Self { code, content_type, body } = self;
        let date = imf_fixdate(second);
        let mut bytes = format!(
            "HTTP/1.1 {code} {}\r\nDate: {}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
             Cache-Control: no-store\r\nContent-Security-Policy: {}\r\nX-Content-Type-Options: nosniff\r\n{}\
             Connection: close\r\n\r\n",
            reason(*code),
            String::from_utf8_lossy(&date),
            body.len(),
            page::CONTENT_POLICY,
            if *code == 405 { "Allow: GET, HEAD\r\n" } else { "" },
        )
        .into_bytes();
        if method != Method::Head {
            bytes.extend_from_slice(body.as_bytes());
        }
        bytes
    }
}

fn title(code: u16) -> String {
    format!("{code} {}\n", reason(code))
}
