//! HTTP on one connection: the handshake, sending a request, and what hyper's errors mean for
//! sending it again.

use std::error::Error as _;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{Method, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use crate::config::Limits;
use crate::failure::{Failure, FailureKind, Phase};
use crate::network::{Link, Spoken};

type Content = Full<Bytes>;

/// A request in no protocol's form yet.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) scheme: Scheme,
    /// The host and port that the request is for.
    pub(crate) authority: Authority,
    pub(crate) target: PathAndQuery,
    pub(crate) fields: HeaderMap,
    pub(crate) body: Bytes,
}

impl Outgoing {
    fn message(&self, spoken: Spoken) -> Result<hyper::Request<Content>, Failure> {
        let refuse = |error: String| Failure::new(FailureKind::Request, format!("the request cannot be sent: {error}"));
        let mut parts = hyper::http::uri::Parts::default();
        parts.path_and_query = Some(self.target.clone());
        if spoken == Spoken::Http2 {
            parts.scheme = Some(self.scheme.clone());
            parts.authority = Some(self.authority.clone());
        }
        let mut message = hyper::Request::new(Full::new(self.body.clone()));
        *message.method_mut() = self.method.clone();
        *message.uri_mut() = Uri::from_parts(parts).map_err(|error| refuse(error.to_string()))?;
        *message.headers_mut() = self.fields.clone();
        if spoken == Spoken::Http1 {
            let host = HeaderValue::from_str(self.authority.as_str()).map_err(|error| refuse(error.to_string()))?;
            message.headers_mut().insert(HOST, host);
        }
        Ok(message)
    }
}

/// The sending side of a connection.
pub(crate) enum Sender {
    Http1(http1::SendRequest<Content>),
    Http2(http2::SendRequest<Content>),
}

/// The number of requests at once that a server of HTTP/2 allows, as it is known at the time.
pub(crate) type StreamsMax = Arc<AtomicUsize>;

/// A connection on which HTTP is spoken.
pub(crate) struct Opened {
    pub(crate) sender: Sender,
    /// Has to run for the sender to work.
    pub(crate) driver: Driver,
    pub(crate) streams_max: StreamsMax,
}

/// Carries the bytes of a connection for as long as it is open.
pub(crate) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A failed attempt to send a request.
#[derive(Debug)]
pub(crate) struct SendFailure {
    pub(crate) failure: Failure,
    /// The server has certainly not begun to process the request.
    pub(crate) is_unsent: bool,
}

/// Unanswered pings after which a connection of HTTP/2 is dead.
const PING_AFTER: Duration = Duration::from_secs(20);
const PING_TIME: Duration = Duration::from_secs(10);

/// Bytes that may be under way on one stream, and on one connection of HTTP/2.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;

/// Bytes that hyper holds of one connection of HTTP/1, if a head may not be longer.
const BUFFER_BYTES: usize = 128 << 10;

/// Fields of a response, at most.
const FIELDS_MAX: usize = 256;

/// Begins to speak HTTP on a connection.
pub(crate) async fn open(link: Link, limits: &Limits) -> Result<Opened, Failure> {
    let streams_max = Arc::new(AtomicUsize::new(limits.streams_max.max(1)));
    let io = TokioIo::new(link.io);
    let head_bytes_max = limits.head_bytes_max.clamp(1 << 10, 16 << 20);
    match link.spoken {
        Spoken::Http1 => {
            let mut builder = http1::Builder::new();
            builder.max_header_size(head_bytes_max).max_headers(FIELDS_MAX);
            builder.max_buf_size(BUFFER_BYTES.max(head_bytes_max + 1024));
            let (sender, connection) = builder.handshake(io).await.map_err(|error| failure(&error))?;
            let driver = Box::pin(async move { drop(connection.await) });
            Ok(Opened { sender: Sender::Http1(sender), driver, streams_max })
        }
        Spoken::Http2 => {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder
                .timer(TokioTimer::new())
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .initial_max_send_streams(limits.streams_max.max(1))
                .max_header_list_size(u32::try_from(head_bytes_max).unwrap_or(u32::MAX))
                .keep_alive_interval(PING_AFTER)
                .keep_alive_timeout(PING_TIME);
            let (sender, mut connection) = builder.handshake(io).await.map_err(|error| failure(&error))?;
            let known = Arc::clone(&streams_max);
            let driver = Box::pin(poll_fn(move |context| {
                let ended = Pin::new(&mut connection).poll(context).map(drop);
                known.store(connection.current_max_send_streams(), Ordering::Relaxed);
                ended
            }));
            Ok(Opened { sender: Sender::Http2(sender), driver, streams_max })
        }
    }
}

impl Sender {
    /// Sends a request and waits for the head of its response.
    pub(crate) async fn send(&mut self, outgoing: &Outgoing) -> Result<Response<Incoming>, SendFailure> {
        let refused = |failure| SendFailure { failure, is_unsent: true };
        let sent = match self {
            Self::Http1(sender) => {
                let message = outgoing.message(Spoken::Http1).map_err(refused)?;
                sender.try_send_request(message).await
            }
            Self::Http2(sender) => {
                let message = outgoing.message(Spoken::Http2).map_err(refused)?;
                sender.try_send_request(message).await
            }
        };
        sent.map_err(|mut error| {
            let is_unsent = error.take_message().is_some() || is_refused_stream(error.error());
            SendFailure { failure: failure(error.error()), is_unsent }
        })
    }
}

/// RFC 9113, 8.7: the server has processed nothing of the request.
fn is_refused_stream(error: &hyper::Error) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref::<h2::Error>());
    source.is_some_and(|error| error.is_remote() && error.reason() == Some(h2::Reason::REFUSED_STREAM))
}

/// The failure that an error of hyper is, before the head of a response is complete.
fn failure(error: &hyper::Error) -> Failure {
    let text = chain(error);
    let h2_error = error.source().and_then(|source| source.downcast_ref::<h2::Error>());
    let io_error = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    if error.is_timeout() {
        return Failure::timeout(Phase::Head, "the connection of HTTP/2 does not answer pings");
    }
    // hyper tells a head that is too long by its text alone on the client's side.
    if error.is_parse() && text.contains("too large") {
        return Failure::new(FailureKind::HeadTooLarge, "the head of the response is longer than the limit");
    }
    let is_closed = error.is_incomplete_message()
        || error.is_canceled()
        || error.is_closed()
        || io_error.is_some()
        || h2_error.is_some_and(|error| error.is_io() || error.is_go_away());
    if is_closed {
        return Failure::new(FailureKind::Closed, format!("the connection was closed before the response: {text}"));
    }
    Failure::new(FailureKind::Protocol, format!("the response violates its protocol: {text}"))
}

/// The failure of a body under way.
pub(crate) fn body_failure(error: &hyper::Error) -> Failure {
    Failure::new(FailureKind::CutOff, chain(error))
}

/// An error with all its causes.
fn chain(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
