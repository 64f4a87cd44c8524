//! From a request to its response (RFC 9110).
//!
//! The responder finds the object that a request is for and selects what of it is sent. Heads,
//! framing and the state of connections are a protocol's; files are their origin's.

mod entry;
mod forwarded;

use std::sync::Arc;

use thalweg_caching::FieldLines;
use thalweg_sys::{Instant, SocketId};
use thalweg_wire::accept::names_html;
use thalweg_wire::target::Target;
use thalweg_wire::{Method, RequestHead};

use crate::catalog::access::Peer;
use crate::catalog::host::without_port;
use crate::catalog::routing::Routed;
use crate::catalog::site::Sites;
use crate::content::blocking_pool::{Job, JobKind};
use crate::content::local::origin::{Loaded, LocalOrigin};
use crate::content::object::Object;
use crate::content::origin::{Opening, Origin, Outcome};
use crate::content::policy::ResponsePolicy;
use crate::content::refusal::Refusal;
use crate::date_cache::DateCache;
use crate::http::challenges::HttpChallenges;
use crate::http::clients::Clients;
use crate::http::forwarder::Forwarder;
use crate::http::gate::{Gate, RefusedRequests};
use crate::http::multipart::{Boundaries, Multipart};
use crate::http::response::{
    Delivery, Encoder, Page, PageField, Part, RETRY_AFTER_S, Response, Selected, Summary, Text,
};
use crate::http::select::{Extent, Selection, Unmet, may_select, negotiate, select};
use crate::listing::{ListingRequest, Listings, LoadedListing};

/// Answers requests for objects.
pub(crate) struct Responder {
    pub(crate) origin: LocalOrigin<Sites>,
    pub(crate) listings: Listings,
    pub(crate) date_cache: DateCache,
    /// There if origins answer for any mount.
    pub(crate) forwarder: Option<Box<Forwarder>>,
    /// There if clients are limited by network or by requests.
    pub(crate) gate: Option<Box<Gate>>,
    /// Set if proxies are trusted, or clients are named to origins.
    pub(crate) clients: Option<Box<Clients>>,
    /// Requests that the gates have refused.
    pub(crate) refused: RefusedRequests,
    /// The responses to a certification authority, for whatever host and mount.
    challenges: Arc<HttpChallenges>,
    boundaries: Boundaries,
    /// Room for a canonical name.
    name: Vec<u8>,
    /// Room for the address or name that a request is sent to; the requested name after a rewrite.
    other: Vec<u8>,
}

/// The connection of a request, and the present.
#[derive(Clone, Copy)]
pub(crate) struct RequestContext {
    /// The socket that is woken when the cache tier has something for the request, and the stream.
    pub(crate) waiter: SocketId,
    pub(crate) stream: u32,
    pub(crate) peer: Peer,
    pub(crate) now: Instant,
}

/// A request for a site, whose canonical name is known.
#[derive(Clone, Copy)]
struct ForSite<'r> {
    site: usize,
    /// The path as it was sent; `None` if it was rewritten.
    path: Option<&'r [u8]>,
    query: Option<&'r [u8]>,
}

/// The outcome of a request.
#[must_use]
pub(crate) enum Answer {
    /// The response was encoded.
    Encoded(Summary),
    /// Nothing yet: the request has to be answered again when this job was done.
    After(Box<Job<JobResult>>),
    /// Nothing yet: the request has to be answered again when the cache tier's answer has come.
    Pending,
}

/// The result of a job of a loop.
pub(crate) enum JobResult {
    /// An object was loaded.
    Object(Loaded<Sites>),
    /// A page of a listing was made.
    Listing(LoadedListing),
    /// A part of a file was read into memory.
    ReadAhead,
}

/// The outcomes of the jobs that a request has waited for: it waits for one of each kind at most.
#[derive(Clone, Copy, Default)]
pub(crate) struct Outcomes {
    object: Option<Outcome>,
    listing: Option<Outcome>,
}

impl Outcomes {
    /// Whether the request has waited for nothing yet.
    fn are_none(self) -> bool {
        self.object.is_none() && self.listing.is_none()
    }

    /// Adds that of a job.
    pub(crate) fn add(&mut self, kind: JobKind, outcome: Outcome) {
        match kind {
            JobKind::Open => self.object = Some(outcome),
            JobKind::List => self.listing = Some(outcome),
            JobKind::Read => {}
        }
    }
}

/// Why a request gets a page instead of an object.
struct Denial<'a> {
    status: u16,
    field: PageField<'a>,
}

impl Denial<'_> {
    fn of(status: u16) -> Self {
        Self { status, field: PageField::None }
    }
}

impl From<Refusal> for Denial<'_> {
    fn from(refusal: Refusal) -> Self {
        let field = match refusal {
            Refusal::Exhausted => PageField::RetryAfter { seconds: RETRY_AFTER_S },
            _ => PageField::None,
        };
        Self { status: status_of(refusal), field }
    }
}

impl Responder {
    /// A responder that has done nothing yet.
    pub(crate) fn new(
        origin: LocalOrigin<Sites>,
        listings: Listings,
        date_cache: DateCache,
        challenges: Arc<HttpChallenges>,
    ) -> Self {
        Self {
            origin,
            listings,
            date_cache,
            forwarder: None,
            gate: None,
            clients: None,
            refused: RefusedRequests::default(),
            challenges,
            boundaries: Boundaries::new(),
            name: Vec::new(),
            other: Vec::new(),
        }
    }

    /// Answers a request: that of a certification authority, one that is redirected to TLS at a
    /// port, or one for an object.
    #[inline]
    pub(crate) fn answer(
        &mut self,
        request: &RequestHead<'_>,
        tls_port: Option<u16>,
        outcomes: Outcomes,
        context: RequestContext,
        out: &mut impl Encoder,
    ) -> Answer {
        if !self.challenges.is_empty()
            && let Some(summary) = self.respond_to_challenge(request, out)
        {
            return Answer::Encoded(summary);
        }
        match tls_port {
            None => self.respond(request, outcomes, context, out),
            Some(_) if self.is_secure_at_proxy(request, context) => self.respond(request, outcomes, context, out),
            Some(port) => Answer::Encoded(self.redirect_to_tls(request, (port, outcomes), context, out)),
        }
    }

    /// Answers a request, which has waited for jobs with these outcomes.
    #[inline]
    fn respond(
        &mut self,
        request: &RequestHead<'_>,
        outcomes: Outcomes,
        context: RequestContext,
        out: &mut impl Encoder,
    ) -> Answer {
        match request.method {
            Method::Get | Method::Head => self.respond_with_object(request, outcomes, context, out),
            _ if self.preflight(request).is_none() && self.is_forwarded(request) => {
                self.respond_with_object(request, outcomes, context, out)
            }
            _ => Answer::Encoded(self.respond_otherwise(request, outcomes, context, out)),
        }
    }

    /// The response to a challenge (RFC 8555, 8.3); `None` if the request is not for one.
    #[cold]
    fn respond_to_challenge(&mut self, request: &RequestHead<'_>, out: &mut impl Encoder) -> Option<Summary> {
        if !matches!(request.method, Method::Get | Method::Head) {
            return None;
        }
        let text = self.challenges.find(file_target(request)?.0)?;
        out.encode(Response::Text(Text { text: &text, is_head: request.method == Method::Head }), &self.date_cache);
        Some(Summary::nothing(200, self.origin.namespace().topmost))
    }

    /// Takes the result of a job. The outcome is for all requests that wait for it.
    #[cold]
    pub(crate) fn complete(&mut self, result: JobResult, now: Instant) -> Outcome {
        match result {
            JobResult::Object(loaded) => self.origin.complete(loaded, &self.date_cache, now),
            JobResult::Listing(loaded) => self.listings.complete(loaded, &mut self.origin.folders, now),
            JobResult::ReadAhead => Outcome::Ready,
        }
    }

    /// Answers a request for which there is too much to be done.
    #[cold]
    pub(crate) fn shed(&mut self, request: &RequestHead<'_>, peer: Peer, out: &mut impl Encoder) -> Summary {
        let mount = self.origin.namespace().topmost;
        self.deny((request, peer), Refusal::Exhausted.into(), mount, out)
    }

    /// Answers what is not, or not any longer, a request that can be understood.
    #[cold]
    pub(crate) fn refuse(&mut self, status: u16, peer: Peer, out: &mut impl Encoder) -> Summary {
        let sites = self.origin.namespace();
        let hsts = if peer.is_secure() { sites.site(0).hsts() } else { None };
        let page = Page { status, is_head: false, field: PageField::None, hsts, object: None };
        out.encode(Response::Page(page), &self.date_cache);
        Summary::nothing(status, sites.topmost)
    }

    /// GET and HEAD, and what is forwarded.
    #[inline]
    fn respond_with_object(
        &mut self,
        request: &RequestHead<'_>,
        outcomes: Outcomes,
        context: RequestContext,
        out: &mut impl Encoder,
    ) -> Answer {
        let topmost = self.origin.namespace().topmost;
        let Some((path, query)) = file_target(request) else {
            return Answer::Encoded(self.deny((request, context.peer), Refusal::Malformed.into(), topmost, out));
        };
        let Some(site) = self.origin.namespace().of_request(request) else {
            return Answer::Encoded(self.deny((request, context.peer), Denial::of(421), topmost, out));
        };
        if let Err(refusal) = self.find_name(site, path) {
            return Answer::Encoded(self.deny((request, context.peer), refusal.into(), topmost, out));
        }
        let mut is_rewritten = false;
        if self.origin.namespace().routings.is_some() {
            match self.route(site, query) {
                Routed::Unchanged => {}
                Routed::Rewritten => is_rewritten = true,
                Routed::Nowhere => {
                    let mount = self.origin.namespace().mount_number(site, &self.name);
                    return Answer::Encoded(self.deny((request, context.peer), Refusal::NotFound.into(), mount, out));
                }
                Routed::Redirected(status) => {
                    return Answer::Encoded(self.redirect(request, (site, status), outcomes, context, out));
                }
            }
        }
        if self.gate.is_some()
            && let Some(summary) = self.refuse_at_gate(request, Some(site), outcomes, context, out)
        {
            return Answer::Encoded(summary);
        }
        if let Some(access) = &self.origin.namespace().access {
            let mount = self.origin.namespace().mount_number(site, &self.name);
            if let Some(status) = access.refusal(site, mount, context.peer) {
                return Answer::Encoded(self.deny((request, context.peer), Denial::of(status), mount, out));
            }
        }
        if self.forwarder.is_some() {
            let at = ForSite { site, path: Some(path).filter(|_| !is_rewritten), query };
            if let Some(answer) = self.respond_forwarding(request, at, context, out) {
                return answer;
            }
        }
        match self.origin.open(site, &mut self.name, outcomes.object, &self.date_cache, context.now) {
            Opening::Object(object, mount) => {
                let chosen = reply_with(object, request, &self.date_cache, &mut self.boundaries, out);
                self.finish(request, chosen, (mount, context.peer), true, out)
            }
            Opening::Folder => {
                if is_rewritten {
                    std::mem::swap(&mut self.name, &mut self.other);
                }
                Answer::Encoded(self.redirect_to_folder(request, context, (site, query), out))
            }
            Opening::Pending(job) => Answer::After(Box::new(job.map(JobResult::Object))),
            // No index: the folder may be listed.
            Opening::Refused(Refusal::NotFound) if self.name.ends_with(b"/") => {
                self.respond_with_listing(request, (site, query), outcomes, context, out)
            }
            Opening::Refused(refusal) => {
                let mount = self.origin.namespace().mount_number(site, &self.name);
                Answer::Encoded(self.deny((request, context.peer), refusal.into(), mount, out))
            }
        }
    }

    /// GET and HEAD of a folder without an index.
    #[cold]
    fn respond_with_listing(
        &mut self,
        request: &RequestHead<'_>,
        (site, query): (usize, Option<&[u8]>),
        outcomes: Outcomes,
        context: RequestContext,
        out: &mut impl Encoder,
    ) -> Answer {
        let names_html = names_html(request.fields.all("accept"));
        let listing = ListingRequest { site, name: &self.name, query, names_html };
        let folders = &mut self.origin.folders;
        match self.listings.open(listing, outcomes.listing, folders, &self.date_cache, context.now) {
            Opening::Object(page, mount) => {
                let chosen = reply_with(page, request, &self.date_cache, &mut self.boundaries, out);
                self.finish(request, chosen, (mount, context.peer), false, out)
            }
            Opening::Folder => Answer::Encoded(self.redirect_to_folder(request, context, (site, query), out)),
            Opening::Pending(job) => Answer::After(Box::new(job.map(JobResult::Listing))),
            Opening::Refused(refusal) => {
                let mount = self.origin.namespace().mount_number(site, &self.name);
                Answer::Encoded(self.deny((request, context.peer), refusal.into(), mount, out))
            }
        }
    }

    /// Sums up a response with an object, or denies it. A listing is made by the server, and
    /// delivers nothing.
    #[inline]
    fn finish(
        &mut self,
        request: &RequestHead<'_>,
        chosen: Result<(u16, Delivery), Denial<'static>>,
        (mount, peer): (u16, Peer),
        is_file: bool,
        out: &mut impl Encoder,
    ) -> Answer {
        Answer::Encoded(match chosen {
            Ok((status, delivery)) if is_file => Summary { status, mount, delivery },
            Ok((status, _)) => Summary::nothing(status, mount),
            Err(denial) => self.deny((request, peer), denial, mount, out),
        })
    }

    /// All other methods.
    #[cold]
    fn respond_otherwise(
        &mut self,
        request: &RequestHead<'_>,
        outcomes: Outcomes,
        context: RequestContext,
        out: &mut impl Encoder,
    ) -> Summary {
        if let Some(summary) = self.refuse_other_at_gate(request, outcomes, context, out) {
            return summary;
        }
        let mount = self.origin.namespace().topmost;
        let allowed = self.allowed_methods(request);
        let field = allowed.as_deref().map_or(PageField::Allow, PageField::AllowOf);
        let policy = self.preflight(request);
        let preflight = policy.as_ref().and_then(|policy| policy.preflight.as_ref());
        let field = preflight.map_or(field, |fields| PageField::Preflight { allowed: allowed.as_deref(), fields });
        match request.method {
            Method::Options if Target::parse(request.method, request.target).is_ok() => {
                let hsts = self.origin.namespace().hsts(request, context.peer);
                let page = Page { status: 204, is_head: false, field, hsts, object: None };
                out.encode(Response::Page(page), &self.date_cache);
                Summary::nothing(204, mount)
            }
            Method::Options => self.deny((request, context.peer), Denial::of(400), mount, out),
            Method::Extension(_) if allowed.is_none() => {
                self.deny((request, context.peer), Denial::of(501), mount, out)
            }
            _ => self.deny((request, context.peer), Denial { status: 405, field }, mount, out),
        }
    }

    /// The settings of the target of a preflight request (Fetch, 3.3.2), which is answered by them
    /// if they say what scripts of other sites may do.
    #[cold]
    fn preflight(&mut self, request: &RequestHead<'_>) -> Option<Arc<ResponsePolicy>> {
        let has = |name: &str| request.fields.has(name);
        if request.method != Method::Options || !has("origin") || !has("access-control-request-method") {
            return None;
        }
        let (path, _) = file_target(request)?;
        let site = self.origin.namespace().of_request(request)?;
        self.find_name(site, path).ok()?;
        Some(self.policy(site)).filter(|policy| policy.preflight.is_some())
    }

    /// Whether the client of a request speaks TLS with a proxy that is trusted, so that a redirect
    /// to TLS would lead back here.
    #[cold]
    fn is_secure_at_proxy(&self, request: &RequestHead<'_>, context: RequestContext) -> bool {
        self.clients.as_ref().is_some_and(|clients| clients.is_secure(context.waiter, request.fields))
    }

    /// A redirect to the same place over TLS, at this port. A method other than GET and HEAD is
    /// kept (RFC 9110, 15.4.9).
    #[cold]
    fn redirect_to_tls(
        &mut self,
        request: &RequestHead<'_>,
        (port, outcomes): (u16, Outcomes),
        context: RequestContext,
        out: &mut impl Encoder,
    ) -> Summary {
        if let Some(summary) = self.refuse_other_at_gate(request, outcomes, context, out) {
            return summary;
        }
        let mount = self.origin.namespace().topmost;
        let host = request.host().unwrap_or_default();
        let Some((path, query)) = file_target(request).filter(|_| !host.is_empty()) else {
            return self.deny((request, Peer::PLAIN), Refusal::Malformed.into(), mount, out);
        };
        if self.origin.namespace().of_request(request).is_none() {
            return self.deny((request, Peer::PLAIN), Denial::of(421), mount, out);
        }
        let status = if matches!(request.method, Method::Get | Method::Head) { 301 } else { 308 };
        let field = PageField::SecureLocation { host: without_port(host.as_bytes()), port, path, query };
        self.deny((request, Peer::PLAIN), Denial { status, field }, mount, out)
    }

    /// 301 to the same path with a slash behind it. The location is written from the canonical
    /// name: a path that begins with two slashes, sent back as it came, would be the address of
    /// another host.
    #[cold]
    fn redirect_to_folder(
        &mut self,
        request: &RequestHead<'_>,
        context: RequestContext,
        (site, query): (usize, Option<&[u8]>),
        out: &mut impl Encoder,
    ) -> Summary {
        let mount = self.origin.namespace().mount_number(site, &self.name);
        let name = std::mem::take(&mut self.name);
        let denial = Denial { status: 301, field: PageField::Location { folder: &name, query } };
        let summary = self.deny((request, context.peer), denial, mount, out);
        self.name = name;
        summary
    }

    /// Answers with a page: the file that the site has for the status, if it can be had, or ours.
    #[cold]
    fn deny(
        &mut self,
        (request, peer): (&RequestHead<'_>, Peer),
        Denial { status, field }: Denial<'_>,
        mount: u16,
        out: &mut impl Encoder,
    ) -> Summary {
        let sites = Arc::clone(self.origin.namespace());
        let hsts = sites.hsts(request, peer);
        let object = find_error_page(&mut self.origin, request, status, &self.date_cache).map(|object| &*object);
        let page = Page { status, is_head: request.method == Method::Head, field, hsts, object };
        out.encode(Response::Page(page), &self.date_cache);
        Summary::nothing(status, mount)
    }
}

/// The file that the site of a request has for the body of such a response.
fn find_error_page<'o>(
    origin: &'o mut LocalOrigin<Sites>,
    request: &RequestHead<'_>,
    status: u16,
    date_cache: &DateCache,
) -> Option<&'o mut Object> {
    let sites = Arc::clone(origin.namespace());
    let site = sites.of_request(request)?;
    // There are few such files, and a denial is not put off.
    origin.open_waiting(site, sites.site(site).error_page(status)?, date_cache, date_cache.now())
}

/// The status of a response to a name that was refused.
fn status_of(refusal: Refusal) -> u16 {
    match refusal {
        Refusal::Malformed => 400,
        Refusal::NotFound => 404,
        Refusal::Forbidden => 403,
        Refusal::Exhausted => 503,
        Refusal::Failed => 500,
    }
}

/// Path and query of a target that can name a file. An absolute target's host was looked at
/// already.
fn file_target<'a>(request: &RequestHead<'a>) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    match Target::parse(request.method, request.target).ok()? {
        Target::Origin { path, query } => Some((path, query)),
        Target::Absolute { scheme, path, query, .. } => {
            let is_http = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
            is_http.then_some((path, query))
        }
        Target::Authority(_) | Target::Asterisk => None,
    }
}

/// Answers a GET or HEAD with an object: the status of the response, and how much it delivers.
#[inline]
fn reply_with(
    object: &mut Object,
    request: &RequestHead<'_>,
    date_cache: &DateCache,
    boundaries: &mut Boundaries,
    out: &mut impl Encoder,
) -> Result<(u16, Delivery), Denial<'static>> {
    let object = match object.has_variants() {
        true => {
            let denial = Denial { status: 406, field: PageField::Vary };
            negotiate(object, request.fields).ok_or(denial)?
        }
        false => object,
    };
    let is_head = request.method == Method::Head;
    if !is_head && !may_select(request.fields) {
        out.encode(Response::Whole(object), date_cache);
        return Ok((200, Delivery::End));
    }
    let (extent, digest) = match select(request, object, date_cache.second())? {
        Selection::Send { extent, digest } => (extent, digest),
        Selection::NotModified => {
            out.encode(Response::NotModified(object), date_cache);
            return Ok((304, Delivery::Nothing));
        }
    };
    let delivery = if is_head { Delivery::Nothing } else { extent.delivery(object.length()) };
    let (part, status) = match &extent {
        Extent::Whole if !is_head && digest.is_none() => {
            out.encode(Response::Whole(object), date_cache);
            return Ok((200, delivery));
        }
        Extent::Whole => (Part::Whole, 200),
        Extent::Range(range) => (Part::Range(*range), 206),
        Extent::Ranges(ranges) => {
            let length = object.length();
            let content_type = &object.metadata().content_type;
            (Part::Ranges(Multipart::new(boundaries.next(), ranges.as_slice(), content_type, length)), 206)
        }
    };
    out.encode(Response::Selected(Selected { object, part, is_head, digest }), date_cache);
    Ok((status, delivery))
}

impl From<Unmet> for Denial<'_> {
    fn from(unmet: Unmet) -> Self {
        match unmet {
            Unmet::Condition => Self::of(412),
            Unmet::Range { length } => Self { status: 416, field: PageField::UnsatisfiedRange { length } },
        }
    }
}
