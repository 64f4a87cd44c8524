//! From a request to its response (RFC 9110).
//!
//! It owns what a request means for a tree of files, and writes the response; sockets, and what becomes of a connection, are
//! its caller's.
//!
//! Where RFC 9110 leaves a choice: a Range with too many parts, or that cannot be understood, is ignored; overlapping parts are made
//! one; several parts of a file in a content coding are answered with the whole, since a body of several parts has no place to name
//! the coding. A request that excludes all there is to choose from gets a 406, but only where there is a choice.

use std::rc::Rc;

use memchr::memmem;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use thalweg_reactor::BufferPool;
use thalweg_sys::{FileSpan, Instant};
use thalweg_wire::digest::{Algorithm, WantReprDigest};
use thalweg_wire::encode::push_decimal;
use thalweg_wire::range::{ByteRange, ByteRanges, RangeSet, Unsatisfiable, push_unsatisfied_content_range};
use thalweg_wire::target::Target;
use thalweg_wire::validator::{Conditions, Verdict};
use thalweg_wire::{Fields, Method, RequestHead, status};

use crate::catalog::site::Sites;
use crate::content::blocking_pool::{Job, JobKind, JobsDone};
use crate::content::local::file_cache::{FileCache, Lookup};
use crate::content::name::canonical_name;
use crate::content::object::{Object, Part, Reply, Rest};
use crate::content::refusal::Refusal;
use crate::date_cache::DateCache;
use crate::http::h1::head::{self, Persistence};
use crate::http::multipart::{Boundaries, Segments};
use crate::listing::{Asked, Listings};
use crate::telemetry::accounting::{Accounting, Delivery, ResponseSummary};
use crate::telemetry::counters::Totals;

/// Answers requests for files.
pub(crate) struct Responder {
    pub(crate) cache: FileCache<Sites>,
    pub(crate) listings: Listings,
    pub(crate) date_cache: DateCache,
    pub(crate) totals: Totals,
    /// If anybody wants to know.
    pub(crate) accounting: Option<Accounting>,
    /// What the last response was, for the books.
    pub(crate) summary: ResponseSummary,
    boundaries: Boundaries,
    /// Room for a canonical name.
    name: Vec<u8>,
    /// What has to be done aside before the request can be answered whose status is [`POSTPONED`].
    postponed_for: Option<Box<Job>>,
}

/// What came of a request.
#[must_use]
pub(crate) enum Answer {
    /// The response is in the outbox.
    ResponseSummary,
    /// Nothing yet: the request has to be answered again when this was done aside.
    After(Box<Job>),
}

/// Instead of a status: there is no response yet.
const POSTPONED: u16 = 0;

/// What is to be sent next: the responses to one request or to several that came together, and behind the last of them a part
/// of a file, or several with texts between them.
pub(crate) struct Outbox<'p> {
    pool: &'p mut BufferPool,
    bytes: Option<Rc<Vec<u8>>>,
    /// The bytes are a ready-made response that belongs to others too.
    is_shared: bool,
    /// How long the head of the last response is, if that was ready-made.
    ready_head_bytes: Option<usize>,
    rest: Rest,
    mount: u16,
}

/// What an [`Outbox`] has gathered.
pub(crate) struct Outgoing {
    /// What goes first; `None` if nothing was answered.
    pub(crate) bytes: Option<Rc<Vec<u8>>>,
    /// Those bytes are a ready-made response that belongs to others too.
    pub(crate) is_shared: bool,
    /// What goes behind them.
    pub(crate) file: Option<FileSpan>,
    /// The number of the mount that the last file came from.
    pub(crate) mount: u16,
    /// What goes behind that.
    pub(crate) segments: Option<Box<Segments>>,
}

impl Outgoing {
    /// Nothing was answered.
    pub(crate) const NOTHING: Self = Self { bytes: None, is_shared: false, file: None, mount: 0, segments: None };

    /// Whether it is more than what a kernel takes at once for a client that reads.
    pub(crate) fn is_long(&self) -> bool {
        let is_large = |bytes: &Rc<Vec<u8>>| bytes.len() > 2 * GATHERED_BYTES_USUAL_MAX;
        self.file.is_some() || self.segments.is_some() || self.bytes.as_ref().is_some_and(is_large)
    }
}

/// How much of a file is wanted.
enum Wanted {
    Whole,
    Range(ByteRange),
    Ranges(Box<ByteRanges>),
}

/// What a request says beside its target.
enum Demand {
    /// A file, or ranges of it, with a digest of the whole if there is one.
    Send { wanted: Wanted, digest: Option<Algorithm> },
    /// Nothing, since the client has it already.
    NotModified,
}

/// Why a demand cannot be met.
enum Unmet {
    /// A condition does not hold.
    Condition,
    /// The file, of this size, has none of the ranges.
    Range { size: u64 },
}

/// Methods that are answered, for the `Allow` field.
const ALLOW: &[u8] = b"GET, HEAD, OPTIONS";

/// When a client is asked to try again that met a lack of descriptors or memory.
const RETRY_AFTER_S: &[u8] = b"1";

/// Responses that come together are gathered up to about this many bytes.
const GATHERED_BYTES_USUAL_MAX: usize = 64 << 10;

/// What is escaped in the path of a redirect: all but what RFC 3986, 3.3 allows in a segment, and the slash.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@')
    .remove(b'/');

impl Responder {
    /// A responder that has done nothing yet.
    pub(crate) fn new(
        cache: FileCache<Sites>,
        listings: Listings,
        date_cache: DateCache,
        accounting: Option<Accounting>,
    ) -> Self {
        Self {
            cache,
            listings,
            date_cache,
            totals: Totals::default(),
            accounting,
            summary: ResponseSummary::nothing(0, 0),
            boundaries: Boundaries::new(),
            name: Vec::new(),
            postponed_for: None,
        }
    }

    /// Answers a request, for which some things were done aside already.
    #[inline]
    pub(crate) fn respond(
        &mut self,
        request: &RequestHead<'_>,
        persistence: Persistence,
        done: JobsDone,
        now: Instant,
        out: &mut Outbox<'_>,
    ) -> Answer {
        self.summarize_nothing(out);
        let status = match request.method {
            Method::Get | Method::Head => self.respond_with_file(request, persistence, done, now, out),
            _ => self.respond_otherwise(request, persistence, out),
        };
        if status == POSTPONED {
            return Answer::After(self.postponed_for.take().expect("what is postponed waits for a job"));
        }
        self.count(status);
        Answer::ResponseSummary
    }

    /// Answers a request for which there is too much to be done.
    #[cold]
    pub(crate) fn turn_away(&mut self, request: &RequestHead<'_>, persistence: Persistence, out: &mut Outbox<'_>) {
        let status = self.respond_with_refusal(request, Refusal::Exhausted, persistence, out);
        self.count(status);
    }

    /// Begins a response that has nothing of a file, and that is booked on the topmost mount until another one is known.
    fn summarize_nothing(&mut self, out: &mut Outbox<'_>) {
        let mount = self.cache.namespace().topmost;
        self.summary = ResponseSummary::nothing(0, mount);
        out.mount = mount;
    }

    /// Accounting what is no file on the mount that its name leads to.
    #[cold]
    fn account_to_mount(&mut self, site: usize, out: &mut Outbox<'_>) {
        let mount = self.cache.namespace().mount_number(site, &self.name);
        self.summary.mount = mount;
        out.mount = mount;
    }

    fn count(&mut self, status: u16) {
        self.totals.requests += 1;
        self.totals.count_response(status);
        self.summary.status = status;
    }

    /// Puts a request off until a job was done. The status that says so.
    #[cold]
    fn postpone(&mut self, job: Job) -> u16 {
        self.postponed_for = Some(Box::new(job));
        POSTPONED
    }

    /// Answers what is not, or not any longer, a request that can be understood. The connection cannot go on.
    #[cold]
    pub(crate) fn refuse(&mut self, status: u16, out: &mut Outbox<'_>) {
        self.summarize_nothing(out);
        self.count(status);
        self.write_page(out.buffer(), status, true, Persistence::Close, |_| {});
    }

    /// GET and HEAD. The status of the response.
    #[inline]
    fn respond_with_file(
        &mut self,
        request: &RequestHead<'_>,
        persistence: Persistence,
        done: JobsDone,
        now: Instant,
        out: &mut Outbox<'_>,
    ) -> u16 {
        let Some((path, query)) = file_target(request) else {
            return self.respond_with_refusal(request, Refusal::Malformed, persistence, out);
        };
        let Some(site) = self.cache.namespace().of_request(request) else {
            return self.respond_with_page(request, 421, persistence, out, |_| {});
        };
        if let Err(refusal) = canonical_name(path, &mut self.name) {
            return self.respond_with_refusal(request, refusal, persistence, out);
        }
        let mut is_file = true;
        let mut object = match self.cache.look_up(site, &mut self.name, done, &self.date_cache, now) {
            Ok(Lookup::File(object, mount)) => {
                self.summary.mount = mount;
                out.mount = mount;
                object
            }
            Ok(Lookup::Folder) => {
                self.account_to_mount(site, out);
                return self.redirect_to_folder(request, query, persistence, out);
            }
            Err(Refusal::NotYet) if !done.has(JobKind::Open) => {
                return self.postpone(self.cache.opening(site, &self.name, &self.date_cache));
            }
            // No index: the folder may be listed.
            Err(Refusal::NotFound) if self.name.ends_with(b"/") => {
                is_file = false;
                self.account_to_mount(site, out);
                let asked = Asked { site, name: &self.name, query };
                let folders = &mut self.cache.folders;
                match self.listings.look_up(asked, done, folders, &self.date_cache, now) {
                    Ok(page) => page,
                    Err(Refusal::NotYet) if !done.has(JobKind::List) => {
                        let job = self.listings.making(asked, done, folders, &self.date_cache, now);
                        return self.postpone(job);
                    }
                    Err(refusal) => return self.respond_with_refusal(request, refusal, persistence, out),
                }
            }
            Err(refusal) => {
                self.account_to_mount(site, out);
                return self.respond_with_refusal(request, refusal, persistence, out);
            }
        };
        if object.has_variants() {
            match object.choose(request.fields) {
                Some(chosen) => object = chosen,
                None => return self.respond_with_not_acceptable(request, persistence, out),
            }
        }
        match reply_with(object, request, persistence, &self.date_cache, &mut self.boundaries, out) {
            Ok((status, delivery)) => {
                // A listing is made, and nobody's download.
                if is_file {
                    self.summary.delivery = delivery;
                }
                status
            }
            Err(Unmet::Condition) => self.respond_with_page(request, 412, persistence, out, |_| {}),
            Err(Unmet::Range { size }) => self.respond_with_page(request, 416, persistence, out, |out| {
                head::field_with(out, "Content-Range", |out| push_unsatisfied_content_range(out, size));
            }),
        }
    }

    /// All other methods.
    #[cold]
    fn respond_otherwise(&mut self, request: &RequestHead<'_>, persistence: Persistence, out: &mut Outbox<'_>) -> u16 {
        let allow = |out: &mut Vec<u8>| head::field(out, "Allow", ALLOW);
        match request.method {
            Method::Options if Target::parse(request.method, request.target).is_ok() => {
                let out = out.buffer();
                head::begin(out, 204, &self.date_cache);
                allow(out);
                head::end(out, persistence);
                204
            }
            Method::Options => self.respond_with_page(request, 400, persistence, out, |_| {}),
            Method::Extension(_) => self.respond_with_page(request, 501, persistence, out, |_| {}),
            _ => self.respond_with_page(request, 405, persistence, out, allow),
        }
    }

    /// 301 to the same path with a slash behind it. The location is written from the canonical name: a path that
    /// begins with two slashes, sent back as it came, would be the address of another host.
    #[cold]
    fn redirect_to_folder(
        &mut self,
        request: &RequestHead<'_>,
        query: Option<&[u8]>,
        persistence: Persistence,
        out: &mut Outbox<'_>,
    ) -> u16 {
        let name = std::mem::take(&mut self.name);
        let status = self.respond_with_page(request, 301, persistence, out, |out| {
            head::field_with(out, "Location", |out| {
                out.push(b'/');
                percent_encode(&name, ESCAPED).for_each(|part| out.extend_from_slice(part.as_bytes()));
                out.push(b'/');
                if let Some(query) = query {
                    out.push(b'?');
                    out.extend_from_slice(query);
                }
            });
        });
        self.name = name;
        status
    }

    #[cold]
    fn respond_with_refusal(
        &mut self,
        request: &RequestHead<'_>,
        refusal: Refusal,
        persistence: Persistence,
        out: &mut Outbox<'_>,
    ) -> u16 {
        self.respond_with_page(request, status_of(refusal), persistence, out, |out| {
            if refusal == Refusal::Exhausted {
                head::field(out, "Retry-After", RETRY_AFTER_S);
            }
        })
    }

    /// 406: nothing of what there is to choose from is wanted (RFC 9110, 12.5.3).
    #[cold]
    fn respond_with_not_acceptable(
        &mut self,
        request: &RequestHead<'_>,
        persistence: Persistence,
        out: &mut Outbox<'_>,
    ) -> u16 {
        self.respond_with_page(request, 406, persistence, out, |out| head::field(out, "Vary", b"Accept-Encoding"))
    }

    #[cold]
    fn respond_with_page(
        &mut self,
        request: &RequestHead<'_>,
        status: u16,
        persistence: Persistence,
        out: &mut Outbox<'_>,
        fields: impl FnOnce(&mut Vec<u8>),
    ) -> u16 {
        let with_body = request.method != Method::Head;
        match find_error_page(&mut self.cache, request, status, &self.date_cache) {
            Some(page) => {
                out.rest = page.write_as_page(out.buffer(), status, with_body, persistence, &self.date_cache, fields);
            }
            None => self.write_page(out.buffer(), status, with_body, persistence, fields),
        }
        status
    }

    /// Writes a response that says its status in words.
    fn write_page(
        &self,
        out: &mut Vec<u8>,
        status: u16,
        with_body: bool,
        persistence: Persistence,
        fields: impl FnOnce(&mut Vec<u8>),
    ) {
        let reason = status::reason(status);
        let page = format!("<!doctype html>\n<title>{status} {reason}</title>\n<h1>{status} {reason}</h1>\n");
        head::begin(out, status, &self.date_cache);
        fields(out);
        head::field(out, "Content-Type", b"text/html; charset=utf-8");
        head::field_with(out, "Content-Length", |out| push_decimal(out, page.len() as u64));
        head::end(out, persistence);
        if with_body {
            out.extend_from_slice(page.as_bytes());
        }
    }
}

/// The file that the site of a request has for the body of such a response. If it cannot be had, ours must do.
fn find_error_page<'c>(
    cache: &'c mut FileCache<Sites>,
    request: &RequestHead<'_>,
    status: u16,
    date_cache: &DateCache,
) -> Option<&'c mut Object> {
    let site = cache.namespace().of_request(request)?;
    let mut name = cache.namespace().site(site).error_page(status)?.to_vec();
    // There are few such files, and what is refused is not put off.
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

/// Whether there may be a Range, a condition, whose names all begin with `If-`, or a Want-Repr-Digest. Most requests have
/// none, and what is known of the file need not be fetched into the processor's cache for them.
#[inline]
fn may_have_demands(fields: Fields<'_>) -> bool {
    fields.iter().any(|(name, _)| matches!(name.as_bytes(), [b'i' | b'I' | b'r' | b'R' | b'w' | b'W', ..]))
}

/// Answers a GET or HEAD with a file. The status of the response.
#[inline]
fn reply_with(
    object: &mut Object,
    request: &RequestHead<'_>,
    persistence: Persistence,
    date_cache: &DateCache,
    boundaries: &mut Boundaries,
    out: &mut Outbox<'_>,
) -> Result<(u16, Delivery), Unmet> {
    let is_head = request.method == Method::Head;
    let demand = if may_have_demands(request.fields) {
        demand_of(request, object, date_cache.second())?
    } else {
        Demand::Send { wanted: Wanted::Whole, digest: None }
    };
    let (wanted, digest) = match demand {
        Demand::Send { wanted: Wanted::Whole, digest: None } if !is_head && persistence == Persistence::Default => {
            let head_bytes = object.head_bytes();
            let (ready, file) = object.ready(date_cache);
            out.push_ready(ready, head_bytes);
            out.rest.file = file;
            return Ok((200, Delivery::End));
        }
        Demand::Send { wanted, digest } => (wanted, digest),
        Demand::NotModified => {
            object.write_not_modified(out.buffer(), persistence, date_cache);
            return Ok((304, Delivery::default()));
        }
    };
    let (part, status) = match &wanted {
        Wanted::Whole => (Part::Whole, 200),
        Wanted::Range(range) => (Part::Range(*range), 206),
        Wanted::Ranges(ranges) => (Part::Ranges(ranges.as_slice(), boundaries.next()), 206),
    };
    let delivery = if is_head { Delivery::default() } else { wanted.delivery(object.size()) };
    let reply = Reply { part, is_head, digest, persistence };
    out.rest = object.write(out.buffer(), &reply, date_cache);
    Ok((status, delivery))
}

/// What a GET or HEAD wants of a file at this second: its conditions first (RFC 9110, 13.2.2), then its Range. Kept out of the way
/// of most requests, which would else pay for the room that many ranges take on the stack.
#[inline(never)]
fn demand_of(request: &RequestHead<'_>, object: &Object, now: i64) -> Result<Demand, Unmet> {
    let conditions = Conditions::of(request.fields);
    let decision = conditions.evaluate(request.method, &object.validators(), now);
    let range = match decision.verdict {
        Verdict::Proceed => decision.range.and_then(RangeSet::parse),
        Verdict::NotModified => return Ok(Demand::NotModified),
        Verdict::PreconditionFailed => return Err(Unmet::Condition),
    };
    let size = object.size();
    let ranges = range.map(|set| set.resolve(size)).transpose().map_err(|Unsatisfiable| Unmet::Range { size })?;
    let wanted = match ranges.map(|ranges| ranges.without_overlaps()) {
        None => Wanted::Whole,
        Some(ranges) => match ranges.single() {
            Some(range) => Wanted::Range(range),
            None if object.is_encoded() => Wanted::Whole,
            None => Wanted::Ranges(Box::new(ranges)),
        },
    };
    let digest = WantReprDigest::of(request.fields).choose(|algorithm| object.has_digest(algorithm));
    Ok(Demand::Send { wanted, digest })
}

impl Wanted {
    /// What sending it brings of a file of this size.
    fn delivery(&self, size: u64) -> Delivery {
        let has_last = |range: &ByteRange| range.last + 1 == size;
        let is_end = match self {
            Self::Whole => true,
            Self::Range(range) => has_last(range),
            Self::Ranges(ranges) => ranges.as_slice().iter().any(has_last),
        };
        if is_end { Delivery::End } else { Delivery::Part }
    }
}

impl<'p> Outbox<'p> {
    /// Nothing yet; buffers come from `pool`.
    pub(crate) fn new(pool: &'p mut BufferPool) -> Self {
        Self { pool, bytes: None, is_shared: false, ready_head_bytes: None, rest: Rest::default(), mount: 0 }
    }

    /// Whether it should be sent before more is put in.
    pub(crate) fn is_full(&self) -> bool {
        self.rest.file.is_some() || self.bytes.as_ref().is_some_and(|bytes| bytes.len() >= GATHERED_BYTES_USUAL_MAX)
    }

    /// How many bytes were gathered, those of a file included.
    pub(crate) fn len(&self) -> u64 {
        let Rest { file, segments } = &self.rest;
        let bytes = self.bytes.as_ref().map_or(0, |bytes| bytes.len());
        let file_bytes = file.as_ref().map_or(0, |span| span.len);
        bytes as u64 + file_bytes + segments.as_ref().map_or(0, |segments| segments.bytes())
    }

    /// How long the head of the last response is, which begins at a byte.
    pub(crate) fn head_bytes(&self, begins_at: u64) -> u64 {
        let found = || {
            let gathered = self.bytes.as_ref().map_or(&[][..], |bytes| bytes);
            let response = usize::try_from(begins_at).ok().and_then(|at| gathered.get(at..)).unwrap_or_default();
            memmem::find(response, b"\r\n\r\n").map_or(response.len(), |at| at + 4)
        };
        debug_assert!(self.ready_head_bytes.is_none_or(|bytes| bytes == found()), "a head is as long as it looks");
        self.ready_head_bytes.unwrap_or_else(found) as u64
    }

    /// What was gathered.
    pub(crate) fn into_outgoing(self) -> Outgoing {
        let Rest { file, segments } = self.rest;
        Outgoing { bytes: self.bytes, is_shared: self.is_shared, file, segments, mount: self.mount }
    }

    /// Adds a ready-made response; without a copy if it is the first.
    fn push_ready(&mut self, ready: &Rc<Vec<u8>>, head_bytes: usize) {
        if self.bytes.is_none() {
            self.bytes = Some(Rc::clone(ready));
            self.is_shared = true;
        } else {
            self.buffer().extend_from_slice(ready);
        }
        self.ready_head_bytes = Some(head_bytes);
    }

    /// The buffer to write a response into, behind those that were gathered before.
    fn buffer(&mut self) -> &mut Vec<u8> {
        self.ready_head_bytes = None;
        if self.bytes.is_none() || self.is_shared {
            let mut own = self.pool.take();
            if let Some(shared) = self.bytes.take() {
                Rc::make_mut(&mut own).extend_from_slice(&shared);
            }
            self.is_shared = false;
            self.bytes = Some(own);
        }
        // Nobody else refers to a buffer of the pool's, so that nothing is copied here.
        Rc::make_mut(self.bytes.get_or_insert_default())
    }
}
