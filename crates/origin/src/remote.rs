//! One HTTP server as an origin: requests beneath a base URL, over the pool of its connections.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use hyper::body::Body as _;
use hyper::header::CONTENT_LENGTH;
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use thalweg_wire::Version;
use url::Url;

use crate::admission::Permit;
use crate::body::{Body, NetworkBody, Report, Source};
use crate::config::OriginConfig;
use crate::connection::Outgoing;
use crate::exchange::{AttemptFailure, exchange};
use crate::failure::{Failure, FailureKind};
use crate::fields::{self, FieldRules};
use crate::message::Request;
use crate::network::{Connect, Network};
use crate::path;
use crate::pool::Pool;
use crate::response::{Answer, is_failure};
use crate::standing::Standing;

/// A server and how it is asked.
pub(crate) struct Remote {
    pool: Arc<Pool>,
    scheme: Scheme,
    authority: Authority,
    /// The path of the base without a slash at its end.
    base: String,
    rules: FieldRules,
    head_time: Duration,
    between_bytes: Duration,
    standing: Arc<Standing>,
}

impl Remote {
    /// A server whose requests go beneath a URL. `connector` is the network's if there is none.
    pub(crate) fn new(
        config: &OriginConfig,
        base: &Url,
        connector: Option<Box<dyn Connect>>,
        standing: &Arc<Standing>,
    ) -> Result<Self, String> {
        let connector = match connector {
            Some(connector) => connector,
            None => Box::new(Network::new(config, base)?),
        };
        let own_authority = &base[url::Position::BeforeHost..url::Position::AfterPort];
        let authority = config.host.as_deref().unwrap_or(own_authority);
        let authority = authority.parse().map_err(|error| format!("{authority:?} cannot be a Host field: {error}"))?;
        let standing = Arc::clone(standing);
        Ok(Self {
            pool: Pool::new(connector, config.limits, config.times, Arc::clone(&standing)),
            scheme: if base.scheme() == "https" { Scheme::HTTPS } else { Scheme::HTTP },
            authority,
            base: base.path().trim_end_matches('/').to_owned(),
            rules: FieldRules::of(config).map_err(|failure| failure.to_string())?,
            head_time: config.times.head,
            between_bytes: config.times.between_bytes,
            standing,
        })
    }

    pub(crate) fn figures(&self) -> (u64, u64) {
        self.pool.figures()
    }

    /// One attempt of a request.
    pub(crate) async fn fetch(
        &self,
        request: &Request,
        permit: Permit,
        is_fresh: bool,
    ) -> Result<Answer, AttemptFailure> {
        path::check(&request.path).map_err(AttemptFailure::unsent)?;
        let target = format!("{}{}", self.base, request.path);
        self.fetch_target(request, &target, permit, is_fresh).await
    }

    /// One attempt for a target that is ready as it stands: path and query.
    pub(crate) async fn fetch_target(
        &self,
        request: &Request,
        target: &str,
        permit: Permit,
        is_fresh: bool,
    ) -> Result<Answer, AttemptFailure> {
        let outgoing = self.outgoing(request, target).map_err(AttemptFailure::unsent)?;
        let (response, lease) = exchange(&self.pool, &outgoing, is_fresh, self.head_time).await?;
        let (address, status) = (lease.address(), response.status().as_u16());
        let (head, incoming) = response.into_parts();
        let declared = head.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        let expected = incoming.size_hint().exact();
        let length = if request.method == Method::HEAD { declared } else { expected };
        let report = Report { standing: Arc::clone(&self.standing), is_success: !is_failure(status), _permit: permit };
        let is_empty = incoming.is_end_stream();
        let mut body =
            Body::new(Source::Network(NetworkBody::new(incoming, lease, self.between_bytes)), expected, report);
        if is_empty {
            // Frees the connection at once.
            let _ = body.next().await;
        }
        let (fields, version) = (fields::of_response(&head.headers), version_of(head.version));
        Ok(Answer { status, fields, length, body, version, address, note: None })
    }

    fn outgoing(&self, request: &Request, target: &str) -> Result<Outgoing, Failure> {
        let refuse = |error| Failure::new(FailureKind::Request, format!("the path cannot be sent: {error}"));
        Ok(Outgoing {
            method: request.method.clone(),
            scheme: self.scheme.clone(),
            authority: self.authority.clone(),
            target: PathAndQuery::try_from(target).map_err(refuse)?,
            fields: fields::of_request(&request.fields, &self.rules)?,
            body: if request.is_repeatable() { Bytes::new() } else { request.body.clone() },
        })
    }
}

fn version_of(version: hyper::Version) -> Option<Version> {
    match version {
        hyper::Version::HTTP_09 | hyper::Version::HTTP_10 => Some(Version::Http10),
        hyper::Version::HTTP_11 => Some(Version::Http11),
        hyper::Version::HTTP_2 => Some(Version::Http2),
        _ => None,
    }
}
