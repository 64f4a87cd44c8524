//! Groups of origins as upstreams.
//!
//! The answers of HTTP origins go through. Trees and buckets have objects alone: their folders get
//! an index or a listing here, their paths without the slash of a folder a redirect, and their
//! objects a media type by name.

use std::sync::Arc;

use bytes::Bytes;
use thalweg_caching::{FieldLines, StoredFields};
use thalweg_origin::{AttemptPolicy, Body, FailureKind, FetchError, Method, Note, OriginGroup, Request, Response};
use thalweg_wire::accept::names_html;
use thalweg_wire::coding::{AcceptEncoding, Coding};

use crate::folders::{
    FolderBody, FolderPage, FolderPages, FolderPieces, FolderView, IncompleteListing, ListedFolders, beside,
};
use crate::following::{Answered, HttpOrigin};
use crate::upstream::{BoxFuture, Upstream, UpstreamContent, UpstreamFailure, UpstreamRequest, UpstreamResponse};

/// How long after its lifetime a listing may be used while it is made anew, in seconds.
const STALE_WHILE_REVALIDATE_S: u64 = 60;

/// The lifetime of a redirect to a folder, in seconds.
const REDIRECT_S: u64 = 10;

/// The types that a bucket gives an object which came to it without any.
const TYPES_OF_NOTHING: [&[u8]; 2] = [b"application/octet-stream", b"binary/octet-stream"];

/// A group of origins, with what a server adds to trees and buckets.
pub struct Origins {
    group: Arc<OriginGroup>,
    /// The HTTP origins, at their places in the group.
    http: Vec<Option<HttpOrigin>>,
    pages: Arc<dyn FolderPages>,
    folders: ListedFolders,
}

impl Origins {
    /// A group with pages for its folders. `http` are those of its origins that are HTTP servers,
    /// at their places.
    pub fn new(group: Arc<OriginGroup>, http: Vec<Option<HttpOrigin>>, pages: Arc<dyn FolderPages>) -> Self {
        Self { group, http, pages, folders: ListedFolders::default() }
    }

    async fn answer(&self, request: UpstreamRequest) -> Result<UpstreamResponse, UpstreamFailure> {
        let asked = question(&request)?;
        let response = fetch(&self.group, &asked).await?;
        if self.group.is_http(response.origin_index) {
            return self.of_http(&asked, response).await;
        }
        let (path, query) = split(&request.target);
        if response.note == Some(Note::Folder) && response.status == 404 {
            return self.folder(asked, &request.fields, response).await;
        }
        if response.status == 404 && !path.ends_with('/') && self.has_folder(path).await {
            return Ok(redirect(path, query));
        }
        Ok(self.typed(path, response))
    }

    /// The response of an HTTP origin, for clients of the mount. If a redirect has led to a host
    /// that fails, the other origins are asked, which may lead elsewhere.
    async fn of_http(&self, asked: &Request, response: Response) -> Result<UpstreamResponse, UpstreamFailure> {
        let first_asked = response.origin_index;
        let mut others = if asked.policy.only_preferred { Vec::new() } else { self.group.order(&asked.path) };
        others.retain(|place| *place != first_asked);
        let mut finished = self.finish(asked, response, !others.is_empty()).await;
        for (position, place) in others.iter().enumerate() {
            let Err(failure) = &finished else { break };
            let policy = AttemptPolicy { preferred: Some(*place), only_preferred: true, ..asked.policy };
            let asked = Request { policy, ..asked.clone() };
            let has_others = position + 1 < others.len();
            let other = match fetch(&self.group, &asked).await {
                Ok(response) => self.other(&asked, response, has_others).await,
                Err(failure) => Err(failure),
            };
            finished = other.map_err(|other| failure.clone().with(&other));
        }
        finished
    }

    /// The response of another origin, of any kind.
    async fn other(
        &self,
        asked: &Request,
        response: Response,
        has_others: bool,
    ) -> Result<UpstreamResponse, UpstreamFailure> {
        match self.group.is_http(response.origin_index) {
            true => self.finish(asked, response, has_others).await,
            false => Ok(self.typed(split(&asked.path).0, response)),
        }
    }

    /// The response of an HTTP origin after its redirects.
    async fn finish(
        &self,
        asked: &Request,
        response: Response,
        has_others: bool,
    ) -> Result<UpstreamResponse, UpstreamFailure> {
        let origin_index = response.origin_index;
        match self.http.get(origin_index).and_then(Option::as_ref) {
            Some(origin) => {
                let answered = Answered { group: &self.group, origin_index, request: asked, has_others };
                origin.finish(answered, response.into()).await
            }
            None => Ok(response.into()),
        }
    }

    /// The response of an origin to the request for a part.
    async fn part(&self, asked: &Request, response: Response) -> Result<UpstreamResponse, UpstreamFailure> {
        if self.group.is_http(response.origin_index) {
            return self.of_http(asked, response).await;
        }
        Ok(self.typed(split(&asked.path).0, response))
    }

    /// The index of a folder, or its listing; `nothing` is the answer if there is neither.
    async fn folder(
        &self,
        asked: Request,
        fields: &StoredFields,
        nothing: Response,
    ) -> Result<UpstreamResponse, UpstreamFailure> {
        let (path, query) = split(&asked.path);
        for name in &*self.pages.index_names(path) {
            let index = format!("{path}{name}");
            let response = fetch(&self.group, &Request { path: index.clone(), ..asked.clone() }).await?;
            // An index that is a folder itself is none.
            if response.status != 404 && response.note != Some(Note::Folder) {
                return Ok(self.typed(&index, response));
            }
        }
        if !self.pages.is_listed(path) {
            return Ok(nothing.into());
        }
        let Some(listed) = self.folders.find(&self.group, &self.pages, path).await? else {
            return Ok(nothing.into());
        };
        let (folder, query) = (Arc::clone(&listed.folder), query.map(str::to_owned));
        let is_gzip = fields.first("accept-encoding").is_some_and(accepts_gzip);
        let names_html = names_html(fields.all("accept"));
        let page = beside(move || folder.page(FolderView { query: query.as_deref(), names_html, is_gzip })).await?;
        match page {
            Ok(Some(page)) => Ok(page_response(page, fields, listed.fresh_s(), asked.method == Method::HEAD)),
            Ok(None) => Ok(nothing.into()),
            Err(IncompleteListing) => Err(incomplete(path)),
        }
    }

    /// Whether there is a folder of a name that no object has. An origin that does not tell has
    /// none.
    async fn has_folder(&self, path: &str) -> bool {
        matches!(self.group.list_some(path, 1).await, Ok(Some(_)))
    }

    /// A response of a tree or bucket, with a media type by name if it has none.
    fn typed(&self, path: &str, mut response: Response) -> UpstreamResponse {
        let is_of_nothing = |value: &[u8]| TYPES_OF_NOTHING.iter().any(|nothing| value.eq_ignore_ascii_case(nothing));
        let own = response.field("content-type");
        if matches!(response.status, 200 | 206) && own.is_none_or(is_of_nothing) {
            response.fields.retain(|(name, _)| !name.eq_ignore_ascii_case(b"content-type"));
            response.fields.push((b"Content-Type".to_vec(), self.pages.media_type(path).as_bytes().to_vec()));
        } else if response.status == 304 {
            // The stored type stays; some buckets send that of their error documents.
            response.fields.retain(|(name, _)| !name.eq_ignore_ascii_case(b"content-type"));
        }
        response.into()
    }
}

/// The request to origins.
fn question(request: &UpstreamRequest) -> Result<Request, UpstreamFailure> {
    let Ok(method) = Method::from_bytes(request.method.as_bytes()) else {
        return Err(UpstreamFailure { status: 502, reason: "the method cannot be sent to an origin".into() });
    };
    let mut asked = Request::new(method, &*request.target);
    asked.fields = request.fields.lines().map(|(name, value)| (name.into(), value.into())).collect();
    asked.body = request.content.clone();
    Ok(asked)
}

/// Fetches from a group. A problem that an operator has to solve, and no client can, is a failure.
async fn fetch(group: &OriginGroup, request: &Request) -> Result<Response, UpstreamFailure> {
    let response = group.fetch(request).await.map_err(UpstreamFailure::from)?;
    match &response.note {
        Some(Note::S3(problem)) => {
            let status = if response.status == 503 { 503 } else { 502 };
            Err(UpstreamFailure { status, reason: format!("origin {}: {problem}", response.origin).into() })
        }
        _ => Ok(response),
    }
}

/// Fetches a part of an object from the origin that has a response which is wanted. `answer` makes
/// the response of that of an origin.
async fn fetch_wanted(
    group: &OriginGroup,
    request: &UpstreamRequest,
    origins: Option<&Origins>,
    is_wanted: &(dyn Fn(&UpstreamResponse) -> bool + Send + Sync),
) -> Result<UpstreamResponse, UpstreamFailure> {
    let mut asked = question(request)?;
    let response = fetch(group, &asked).await?;
    let first_asked = response.origin_index;
    let first = answer(origins, &asked, response).await?;
    if is_wanted(&first) {
        return Ok(first);
    }
    for place in (0..group.origins()).filter(|place| *place != first_asked) {
        asked.policy = AttemptPolicy { preferred: Some(place), only_preferred: true, ..AttemptPolicy::default() };
        let Ok(response) = fetch(group, &asked).await else { continue };
        if let Ok(other) = answer(origins, &asked, response).await
            && is_wanted(&other)
        {
            return Ok(other);
        }
    }
    Ok(first)
}

/// The response of an origin, with what the server adds to it.
async fn answer(
    origins: Option<&Origins>,
    asked: &Request,
    response: Response,
) -> Result<UpstreamResponse, UpstreamFailure> {
    match origins {
        Some(origins) => origins.part(asked, response).await,
        None => Ok(response.into()),
    }
}

/// HTTP origins alone, whose answers go through.
impl Upstream for OriginGroup {
    fn fetch(&self, request: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamFailure>> {
        Box::pin(async move { Ok(fetch(self, &question(&request)?).await?.into()) })
    }

    fn fetch_wanted<'a>(
        &'a self,
        request: UpstreamRequest,
        is_wanted: &'a (dyn Fn(&UpstreamResponse) -> bool + Send + Sync),
    ) -> BoxFuture<'a, Result<UpstreamResponse, UpstreamFailure>> {
        Box::pin(async move { fetch_wanted(self, &request, None, is_wanted).await })
    }
}

impl Upstream for Origins {
    fn fetch(&self, request: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamFailure>> {
        Box::pin(self.answer(request))
    }

    fn fetch_wanted<'a>(
        &'a self,
        request: UpstreamRequest,
        is_wanted: &'a (dyn Fn(&UpstreamResponse) -> bool + Send + Sync),
    ) -> BoxFuture<'a, Result<UpstreamResponse, UpstreamFailure>> {
        Box::pin(async move { fetch_wanted(&self.group, &request, Some(self), is_wanted).await })
    }
}

/// A page as the response to a request. It is validated by its tag.
fn page_response(page: FolderPage, request: &StoredFields, fresh_s: u64, is_head: bool) -> UpstreamResponse {
    let mut fields = StoredFields::default();
    page.fields.iter().for_each(|(name, value)| fields.push(name, value));
    let lifetime = format!("max-age={fresh_s}, stale-while-revalidate={STALE_WHILE_REVALIDATE_S}");
    fields.push("Cache-Control", lifetime.as_bytes());
    let is_unchanged = request.first("if-none-match").is_some_and(|condition| names_tag(condition, &page.tag));
    let status = if is_unchanged { 304 } else { 200 };
    let (length, content): (_, Box<dyn UpstreamContent>) = match page.body {
        _ if is_unchanged => (None, Box::new(Whole(None))),
        FolderBody::Memory(body) => {
            let length = Some(body.len() as u64);
            (length, Box::new(Whole(Some(body).filter(|body| !is_head && !body.is_empty()))))
        }
        FolderBody::Pieces(_) if is_head => (None, Box::new(Whole(None))),
        FolderBody::Pieces(pieces) => (None, Box::new(Pieces(Some(pieces)))),
    };
    UpstreamResponse { status, fields, length, content, version: None, is_peers: false }
}

/// A program that asks for all entries would take those that are known for all that there are.
fn incomplete(path: &str) -> UpstreamFailure {
    let reason = format!(
        "the folder {path} has more entries than can be listed: for a part of them, ask for ?page=1 or ?format=json"
    );
    UpstreamFailure { status: 502, reason: reason.into() }
}

/// 301 to the folder of a path: relative, since the mount may be elsewhere than the bucket's root.
fn redirect(path: &str, query: Option<&str>) -> UpstreamResponse {
    let name = path.rsplit('/').next().unwrap_or_default();
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let mut fields = StoredFields::default();
    // A colon in the first segment would be that of a scheme (RFC 3986, 4.2).
    fields.push("Location", format!("./{name}/{query}").as_bytes());
    fields.push("Cache-Control", format!("max-age={REDIRECT_S}").as_bytes());
    let content = Box::new(Whole(None));
    UpstreamResponse { status: 301, fields, length: Some(0), content, version: None, is_peers: false }
}

/// A target's path and query.
fn split(target: &str) -> (&str, Option<&str>) {
    target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)))
}

/// Whether a request accepts gzip more than bytes as they are.
fn accepts_gzip(value: &[u8]) -> bool {
    let accepted = AcceptEncoding::of_values(std::iter::once(value));
    accepted.quality(Coding::Gzip) > accepted.identity().unwrap_or(0)
}

/// Whether a condition names a tag, or all.
fn names_tag(condition: &[u8], tag: &[u8]) -> bool {
    condition == b"*" || condition.windows(tag.len().max(1)).any(|part| part == tag)
}

/// Content that is in memory.
struct Whole(Option<Bytes>);

impl UpstreamContent for Whole {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Bytes, Arc<str>>>> {
        let next = self.0.take().map(Ok);
        Box::pin(async move { next })
    }
}

/// Content that is made piece by piece; `None` if that has failed.
struct Pieces(Option<Box<dyn FolderPieces>>);

impl UpstreamContent for Pieces {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Bytes, Arc<str>>>> {
        let pieces = self.0.take();
        Box::pin(async move {
            let mut pieces = pieces?;
            let made = beside(move || {
                let piece = pieces.next();
                (pieces, piece)
            });
            match made.await {
                Ok((pieces, piece)) => {
                    self.0 = Some(pieces);
                    piece.map(Ok)
                }
                Err(failure) => Some(Err(failure.reason)),
            }
        })
    }
}

impl From<Response> for UpstreamResponse {
    fn from(response: Response) -> Self {
        let mut fields = StoredFields::default();
        for (name, value) in response.fields {
            // A name of other characters is no field's (RFC 9110, 5.1).
            if let Ok(name) = String::from_utf8(name) {
                fields.push_owned(name, value);
            }
        }
        let content = Box::new(response.body);
        let Response { status, length, version, .. } = response;
        Self { status, fields, length, content, version, is_peers: false }
    }
}

impl From<FetchError> for UpstreamFailure {
    fn from(error: FetchError) -> Self {
        let status = match error.kind() {
            // A path that no origin may be asked for.
            FailureKind::Request => 400,
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
