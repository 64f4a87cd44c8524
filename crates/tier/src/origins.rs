//! Groups of origins as upstreams.

use std::sync::Arc;

use bytes::Bytes;
use thalweg_caching::{FieldLines, StoredFields};
use thalweg_origin::{Body, FailureKind, FetchError, Method, Note, OriginGroup, Request, Response};

use crate::upstream::{BoxFuture, Upstream, UpstreamContent, UpstreamFailure, UpstreamRequest, UpstreamResponse};

impl Upstream for OriginGroup {
    fn fetch(&self, request: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamFailure>> {
        Box::pin(async move {
            let Ok(method) = Method::from_bytes(request.method.as_bytes()) else {
                return Err(UpstreamFailure { status: 502, reason: "the method cannot be sent to an origin".into() });
            };
            let mut asked = Request::new(method, &*request.target);
            asked.fields = request.fields.lines().map(|(name, value)| (name.into(), value.into())).collect();
            asked.body = request.content;
            let mut response = Self::fetch(self, &asked).await.map_err(UpstreamFailure::from)?;
            match &response.note {
                // An operator has to do something, and the client cannot.
                Some(Note::S3(problem)) => {
                    let reason = format!("origin {}: {problem}", response.origin).into();
                    return Err(UpstreamFailure { status: 502, reason });
                }
                Some(Note::Folder) if response.status == 301 => {
                    let path = asked.path.split('?').next().unwrap_or_default();
                    let name = path.rsplit('/').next().unwrap_or_default();
                    response.fields.push((b"Location".to_vec(), format!("{name}/").into()));
                }
                _ => {}
            }
            Ok(response.into())
        })
    }
}

impl From<Response> for UpstreamResponse {
    fn from(response: Response) -> Self {
        let mut fields = StoredFields::default();
        for (name, value) in &response.fields {
            // A name of other characters is no field's (RFC 9110, 5.1).
            if let Ok(name) = std::str::from_utf8(name) {
                fields.push(name, value);
            }
        }
        let content = Box::new(response.body);
        Self { status: response.status, fields, length: response.length, content, is_peers: false }
    }
}

impl From<FetchError> for UpstreamFailure {
    fn from(error: FetchError) -> Self {
        let status = match error.kind() {
            FailureKind::Overloaded => 503,
            FailureKind::Timeout(_) => 504,
            _ => 502,
        };
        Self { status, reason: error.to_string().into() }
    }
}

impl UpstreamContent for Body {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Bytes, Arc<str>>>> {
        Box::pin(async move { Some(Self::next(self).await?.map_err(|error| error.to_string().into())) })
    }
}
