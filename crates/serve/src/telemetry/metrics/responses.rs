//! Responses of the status listener.

use thalweg_httpd::Response;
use thalweg_sys::clock;
use thalweg_wire::date::imf_fixdate;
use thalweg_wire::status::reason;

use super::page;

/// The media type of text.
pub(super) const PLAIN: &str = "text/plain; charset=utf-8";

/// Now, in seconds since 1970-01-01 UTC.
pub(super) fn second() -> i64 {
    i64::try_from(clock::unix_seconds()).unwrap_or(i64::MAX)
}

/// A response whose body is its status in words.
pub(super) fn plain(status: u16) -> Response {
    response(status, PLAIN, title(status))
}

/// A response that nobody keeps.
pub(super) fn response(status: u16, content_type: &str, body: String) -> Response {
    Response::new(status)
        .field("Date", imf_fixdate(second()))
        .field("Content-Type", content_type)
        .field("Cache-Control", "no-store")
        .field("Content-Security-Policy", page::CONTENT_POLICY)
        .field("X-Content-Type-Options", "nosniff")
        .body(body)
}

/// A status in words.
pub(super) fn title(status: u16) -> String {
    format!("{status} {}\n", reason(status))
}
