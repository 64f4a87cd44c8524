//! Origins as the tier sees them: whatever answers a request in time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use thalweg_caching::StoredFields;
use thalweg_wire::Version;

/// A future of this crate's interfaces.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The origins of a mount. Retries, failover, limits and time-outs are theirs.
pub trait Upstream: Send + Sync {
    /// Asks for a response, whose head has arrived when this is over.
    fn fetch(&self, request: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamFailure>>;

    /// The same, from whichever of several origins has a response that is wanted: if the first one
    /// has not, others are asked, too. Without any, the response of the first one.
    fn fetch_wanted<'a>(
        &'a self,
        request: UpstreamRequest,
        is_wanted: &'a (dyn Fn(&UpstreamResponse) -> bool + Send + Sync),
    ) -> BoxFuture<'a, Result<UpstreamResponse, UpstreamFailure>> {
        let _ = is_wanted;
        self.fetch(request)
    }

    /// Objects are to be asked for in parts of so many bytes, each of which may come from
    /// elsewhere; `None`: as a whole.
    fn part_bytes(&self) -> Option<u64> {
        None
    }

    /// Why a request is not answered at all, whatever is stored; `None` if it is.
    fn refusal(&self, target: &str, fields: &StoredFields) -> Option<UpstreamFailure> {
        let _ = (target, fields);
        None
    }
}

/// A request to an origin.
#[derive(Clone, Debug)]
pub struct UpstreamRequest {
    /// The method's name.
    pub method: Box<str>,
    /// Path and query.
    pub target: Box<str>,
    /// The fields, without Host, Content-Length and those of a connection.
    pub fields: StoredFields,
    /// The whole content.
    pub content: Bytes,
}

/// The response of an origin.
pub struct UpstreamResponse {
    /// Its final status.
    pub status: u16,
    /// Its fields.
    pub fields: StoredFields,
    /// Bytes of its content, if its head told.
    pub length: Option<u64>,
    /// Its content.
    pub content: Box<dyn UpstreamContent>,
    /// The version of HTTP by which it came; `None` if this server has made it.
    pub version: Option<Version>,
    /// Another server of the cluster has it, so that it is not stored here if it is large.
    pub is_peers: bool,
}

/// The content of a response that is coming in.
pub trait UpstreamContent: Send {
    /// The next bytes; `None` once all have come. An error is final.
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Bytes, Arc<str>>>>;
}

/// Why an origin gave no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamFailure {
    /// The status that a client gets: 400, 502, 503 or 504.
    pub status: u16,
    /// Each attempt: at which origin, and how it failed.
    pub reason: Arc<str>,
}

impl UpstreamFailure {
    /// This failure, and that of a later attempt elsewhere.
    pub(crate) fn with(self, later: &Self) -> Self {
        Self { reason: format!("{}; {}", self.reason, later.reason).into(), ..self }
    }
}
