//! From a request to its response (RFC 9110).
//!
//! The responder finds the object that a request is for and selects what of it is sent. Heads, framing and the state of connections are
//! a protocol's; files are their origin's.

use thalweg_sys::{Instant, SocketId};
use thalweg_wire::target::Target;
use thalweg_wire::{Method, RequestHead};

use crate::catalog::site::Sites;
use crate::content::blocking_pool::{Job, JobKind, JobsDone};
use crate::content::local::file_cache::{FileCache, Lookup};
use crate::content::name::canonical_name;
use crate::content::object::Object;
use crate::content::refusal::Refusal;
use crate::content::remote::{Opening, RemoteOrigin};
use crate::date_cache::DateCache;
use crate::http::multipart::{Boundaries, Multipart};
use crate::http::response::{Delivery, Encoder, Page, PageField, Part, Response, Selected, Summary};
use crate::http::select::{Extent, Selection, Unmet, may_select, negotiate, select};
use crate::listing::{Asked, Listings};

/// Answers requests for objects.
pub(crate) struct Responder {
    pub(crate) cache: FileCache<Sites>,
    pub(crate) listings: Listings,
    pub(crate) date_cache: DateCache,
    /// The origins of mounts that are not local, with the mounts' numbers.
    pub(crate) remotes: Vec<(u16, Box<dyn RemoteOrigin>)>,
    boundaries: Boundaries,
    /// Room for a canonical name.
    name: Vec<u8>,
}

/// The outcome of a request.
#[must_use]
pub(crate) enum Answer {
    /// The response was encoded.
    Given(Summary),
    /// Nothing yet: the request has to be answered again when this job was done.
    After(Box<Job>),
    /// Nothing yet: the request has to be answered again when its connection is woken.
    Pending,
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
        let field = if refusal == Refusal::Exhausted { PageField::RetryAfter } else { PageField::None };
        Self { status: status_of(refusal), field }
    }
}

impl Responder {
    /// A responder that has done nothing yet.
    pub(crate) fn new(cache: FileCache<Sites>, listings: Listings, date_cache: DateCache) -> Self {
        let remotes = Vec::new();
        Self { cache, listings, date_cache, remotes, boundaries: Boundaries::new(), name: Vec::new() }
    }

    /// Answers a request, for which some jobs were done already.
    #[inline]
    pub(crate) fn respond(
        &mut self,
        request: &RequestHead<'_>,
        done: JobsDone,
        (waiter, now): (SocketId, Instant),
        out: &mut impl Encoder,
    ) -> Answer {
        match request.method {
            Method::Get | Method::Head => self.respond_with_object(request, done, (waiter, now), out),
            _ => Answer::Given(self.respond_otherwise(request, out)),
        }
    }

    /// Answers a request for which there is too much to be done.
    #[cold]
    pub(crate) fn shed(&mut self, request: &RequestHead<'_>, out: &mut impl Encoder) -> Summary {
        let mount = self.cache.namespace().topmost;
        self.deny(request, Refusal::Exhausted.into(), mount, out)
    }

    /// Answers what is not, or not any longer, a request that can be understood.
    #[cold]
    pub(crate) fn refuse(&mut self, status: u16, out: &mut impl Encoder) -> Summary {
        let page = Page { status, is_head: false, field: PageField::None, object: None };
        out.encode(Response::Page(page), &self.date_cache);
        Summary::nothing(status, self.cache.namespace().topmost)
    }

    /// GET and HEAD.
    #[inline]
    fn respond_with_object(
        &mut self,
        request: &RequestHead<'_>,
        done: JobsDone,
        (waiter, now): (SocketId, Instant),
        out: &mut impl Encoder,
    ) -> Answer {
        let topmost = self.cache.namespace().topmost;
        let Some((path, query)) = file_target(request) else {
            return Answer::Given(self.deny(request, Refusal::Malformed.into(), topmost, out));
        };
        let Some(site) = self.cache.namespace().of_request(request) else {
            return Answer::Given(self.deny(request, Denial::of(421), topmost, out));
        };
        if let Err(refusal) = canonical_name(path, &mut self.name) {
            return Answer::Given(self.deny(request, refusal.into(), topmost, out));
        }
        if !self.remotes.is_empty() {
            let mount = self.cache.namespace().mount_number(site, &self.name);
            if let Some(index) = self.remotes.iter().position(|(of, _)| *of == mount) {
                return self.respond_remotely(request, index, (waiter, now), out);
            }
        }
        match self.cache.look_up(site, &mut self.name, done, &self.date_cache, now) {
            Ok(Lookup::File(object, mount)) => {
                let chosen = reply_with(object, request, &self.date_cache, &mut self.boundaries, out);
                self.finish(request, chosen, mount, true, out)
            }
            Ok(Lookup::Folder) => Answer::Given(self.redirect_to_folder(request, site, query, out)),
            Err(Refusal::NotYet) if !done.has(JobKind::Open) => {
                Answer::After(Box::new(self.cache.opening(site, &self.name, &self.date_cache)))
            }
            // No index: the folder may be listed.
            Err(Refusal::NotFound) if self.name.ends_with(b"/") => {
                self.respond_with_listing(request, (site, query), done, now, out)
            }
            Err(refusal) => {
                let mount = self.cache.namespace().mount_number(site, &self.name);
                Answer::Given(self.deny(request, refusal.into(), mount, out))
            }
        }
    }

    /// GET and HEAD of an object of a remote origin.
    #[cold]
    fn respond_remotely(
        &mut self,
        request: &RequestHead<'_>,
        index: usize,
        (waiter, now): (SocketId, Instant),
        out: &mut impl Encoder,
    ) -> Answer {
        let (mount, origin) = &mut self.remotes[index];
        let mount = *mount;
        match origin.open(&self.name, waiter, now) {
            Opening::Object(object) => {
                let chosen = reply_with(object, request, &self.date_cache, &mut self.boundaries, out);
                self.finish(request, chosen, mount, true, out)
            }
            Opening::Pending => Answer::Pending,
            Opening::Refused(refusal) => Answer::Given(self.deny(request, refusal.into(), mount, out)),
        }
    }

    /// GET and HEAD of a folder without an index.
    #[cold]
    fn respond_with_listing(
        &mut self,
        request: &RequestHead<'_>,
        (site, query): (usize, Option<&[u8]>),
        done: JobsDone,
        now: Instant,
        out: &mut impl Encoder,
    ) -> Answer {
        let mount = self.cache.namespace().mount_number(site, &self.name);
        let asked = Asked { site, name: &self.name, query };
        let folders = &mut self.cache.folders;
        match self.listings.look_up(asked, done, folders, &self.date_cache, now) {
            Ok(page) => {
                let chosen = reply_with(page, request, &self.date_cache, &mut self.boundaries, out);
                self.finish(request, chosen, mount, false, out)
            }
            Err(Refusal::NotYet) if !done.has(JobKind::List) => {
                Answer::After(Box::new(self.listings.making(asked, done, folders, &self.date_cache, now)))
            }
            Err(refusal) => Answer::Given(self.deny(request, refusal.into(), mount, out)),
        }
    }

    /// Sums up a response with an object, or denies it. A listing is made by the server, and delivers nothing.
    #[inline]
    fn finish(
        &mut self,
        request: &RequestHead<'_>,
        chosen: Result<(u16, Delivery), Denial<'static>>,
        mount: u16,
        is_file: bool,
        out: &mut impl Encoder,
    ) -> Answer {
        Answer::Given(match chosen {
            Ok((status, delivery)) if is_file => Summary { status, mount, delivery },
            Ok((status, _)) => Summary::nothing(status, mount),
            Err(denial) => self.deny(request, denial, mount, out),
        })
    }

    /// All other methods.
    #[cold]
    fn respond_otherwise(&mut self, request: &RequestHead<'_>, out: &mut impl Encoder) -> Summary {
        let mount = self.cache.namespace().topmost;
        match request.method {
            Method::Options if Target::parse(request.method, request.target).is_ok() => {
                let page = Page { status: 204, is_head: false, field: PageField::Allow, object: None };
                out.encode(Response::Page(page), &self.date_cache);
                Summary::nothing(204, mount)
            }
            Method::Options => self.deny(request, Denial::of(400), mount, out),
            Method::Extension(_) => self.deny(request, Denial::of(501), mount, out),
            _ => self.deny(request, Denial { status: 405, field: PageField::Allow }, mount, out),
        }
    }

    /// 301 to the same path with a slash behind it. The location is written from the canonical name: a path that
    /// begins with two slashes, sent back as it came, would be the address of another host.
    #[cold]
    fn redirect_to_folder(
        &mut self,
        request: &RequestHead<'_>,
        site: usize,
        query: Option<&[u8]>,
        out: &mut impl Encoder,
    ) -> Summary {
        let mount = self.cache.namespace().mount_number(site, &self.name);
        let name = std::mem::take(&mut self.name);
        let denial = Denial { status: 301, field: PageField::Location { folder: &name, query } };
        let summary = self.deny(request, denial, mount, out);
        self.name = name;
        summary
    }

    /// Answers with a page: the file that the site has for the status, if it can be had, or ours.
    #[cold]
    fn deny(
        &mut self,
        request: &RequestHead<'_>,
        Denial { status, field }: Denial<'_>,
        mount: u16,
        out: &mut impl Encoder,
    ) -> Summary {
        let object = find_error_page(&mut self.cache, request, status, &self.date_cache);
        let page =
            Page { status, is_head: request.method == Method::Head, field, object: object.map(|object| &*object) };
        out.encode(Response::Page(page), &self.date_cache);
        Summary::nothing(status, mount)
    }
}

/// The file that the site of a request has for the body of such a response.
fn find_error_page<'c>(
    cache: &'c mut FileCache<Sites>,
    request: &RequestHead<'_>,
    status: u16,
    date_cache: &DateCache,
) -> Option<&'c mut Object> {
    let site = cache.namespace().of_request(request)?;
    let mut name = cache.namespace().site(site).error_page(status)?.to_vec();
    // There are few such files, and a refusal is not put off.
    match cache.look_up(site, &mut name, JobsDone::NOTHING.and(JobKind::Open), date_cache, date_cache.now()) {
        Ok(Lookup::File(page, _)) => Some(page),
        _ => None,
    }
}

/// The status of a response to a name that was refused.
fn status_of(refusal: Refusal) -> u16 {
    match refusal {
        Refusal::Malformed => 400,
        Refusal::NotFound => 404,
        Refusal::Forbidden => 403,
        Refusal::Exhausted | Refusal::NotYet => 503,
        Refusal::Failed => 500,
    }
}

/// Path and query of a target that can name a file. An absolute target's host was looked at already.
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
            let length = object.length().unwrap_or_default();
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
