//! Requests that origins answer: by an object that the loop holds, or by an answer of the cache
//! tier.

use std::sync::Arc;

use thalweg_caching::ends_here;
use thalweg_tier::{Answer as Answered, Failure, Object as TierObject, Relay, Response as OriginResponse};
use thalweg_wire::{Method, RequestHead};

use super::{Answer, Denial, ForSite, RequestContext, Responder, file_target};
use crate::catalog::forwarding::ForwardingMount;
use crate::content::forwarded::relayed_fields;
use crate::content::local::namespace::Namespace;
use crate::content::name::{canonical_name, has_encoded_slash, name_with_slashes, split};
use crate::content::object::Object;
use crate::content::policy::ResponsePolicy;
use crate::content::refusal::Refusal;
use crate::content::relay::{BodyReader, MemoryReader};
use crate::content::tier::TierAnswer;
use crate::date_cache::DateCache;
use crate::http::forwarder::Content;
use crate::http::multipart::{Boundaries, Multipart};
use crate::http::response::{Delivery, Encoder, PageField, Part, Relayed, Response, Selected, Summary};
use crate::http::select::{Extent, Selection, Unmet, may_select, select};

/// How much a response with an object delivers.
struct Delivered {
    status: u16,
    delivery: Delivery,
    /// Bytes of the body, if it is in memory.
    bytes: u64,
}

impl Responder {
    /// Whether the content of a request is forwarded with it, and then the most bytes that it may
    /// have. GET and HEAD have none of any meaning (RFC 9110, 9.3.1).
    pub(crate) fn wanted_content(&mut self, request: &RequestHead<'_>) -> Option<usize> {
        let has_meaning = self.forwarder.is_some() && !matches!(request.method, Method::Get | Method::Head);
        if !has_meaning {
            return None;
        }
        self.forwarding_mount(request).map(|mount| mount.content_bytes_max)
    }

    /// Room for the content of a request.
    pub(crate) fn begin_content(&self, bytes_max: usize) -> Option<Content> {
        self.forwarder.as_ref().map(|forwarder| forwarder.begin_content(bytes_max))
    }

    /// Finds the canonical name of a path of a site. An encoded slash is the name of nothing in a
    /// folder of this host, and an origin may have it.
    #[inline]
    pub(super) fn find_name(&mut self, site: usize, path: &[u8]) -> Result<(), Refusal> {
        match canonical_name(path, &mut self.name) {
            Err(Refusal::NotFound) if self.forwarder.is_some() && has_encoded_slash(path) => {
                self.find_name_with_slashes(site, path)
            }
            other => other,
        }
    }

    #[cold]
    fn find_name_with_slashes(&mut self, site: usize, path: &[u8]) -> Result<(), Refusal> {
        name_with_slashes(path, &mut self.name)?;
        let sites = self.origin.namespace();
        let number = sites.mount_number(site, &self.name);
        let mount = sites.forwarding.as_ref().and_then(|mounts| mounts.get(number));
        mount.map(|_| ()).ok_or(Refusal::NotFound)
    }

    /// Brings what the request that is answered next has waited for.
    pub(crate) fn bring(&mut self, answer: Option<Box<TierAnswer>>, content: Option<Content>) {
        if let Some(forwarder) = &mut self.forwarder {
            forwarder.bring(answer, content);
        }
    }

    /// Whether the method of a request other than GET and HEAD is forwarded.
    #[cold]
    pub(super) fn is_forwarded(&mut self, request: &RequestHead<'_>) -> bool {
        self.forwarder.is_some()
            && !ends_here(request.method, &request.fields)
            && self.forwarding_mount(request).is_some()
    }

    /// The mount with origins that a request is for, if it forwards the request's method.
    fn forwarding_mount(&mut self, request: &RequestHead<'_>) -> Option<&ForwardingMount> {
        let (path, _) = file_target(request)?;
        let site = self.origin.namespace().of_request(request)?;
        self.find_name(site, path).ok()?;
        let sites = self.origin.namespace();
        let mount = sites.forwarding.as_ref()?.get(sites.mount_number(site, &self.name))?;
        Some(mount).filter(|mount| mount.forwards(request.method.name()))
    }

    /// The methods of the mount with origins that a request is for.
    #[cold]
    pub(super) fn allowed_methods(&mut self, request: &RequestHead<'_>) -> Option<String> {
        self.forwarder.as_ref()?;
        let (path, _) = file_target(request)?;
        let site = self.origin.namespace().of_request(request)?;
        self.find_name(site, path).ok()?;
        let sites = self.origin.namespace();
        let mount = sites.forwarding.as_ref()?.get(sites.mount_number(site, &self.name))?;
        Some(mount.allow.to_string())
    }

    /// Answers a request that origins answer; `None` if they do not.
    #[inline(never)]
    pub(super) fn respond_forwarding(
        &mut self,
        request: &RequestHead<'_>,
        at: ForSite<'_>,
        context: RequestContext,
        out: &mut impl Encoder,
    ) -> Option<Answer> {
        let Self { origin, forwarder, clients, date_cache, boundaries, name, .. } = self;
        let (sites, forwarder) = (origin.namespace(), forwarder.as_deref_mut()?);
        let number = sites.mount_number(at.site, name);
        let Some(mount) = sites.forwarding.as_ref().and_then(|mounts| mounts.get(number)) else {
            // A rewrite has led to a folder, which can only be read.
            let is_read = matches!(request.method, Method::Get | Method::Head);
            let denial = Denial { status: 405, field: PageField::Allow };
            return (!is_read).then(|| Answer::Encoded(self.deny((request, context.peer), denial, number, out)));
        };
        let is_topmost = mount.prefix.is_empty();
        if !is_topmost && !name.starts_with(&mount.prefix) {
            return Some(Answer::Encoded(self.redirect_to_folder(request, context, (at.site, at.query), out)));
        }
        forwarder.begin((mount, number), at.path, (name, at.query));
        if let Some(answer) = forwarder.take_answer() {
            return Some(self.respond_with_answer(request, (at.site, number), *answer, context, out));
        }
        let second = date_cache.second();
        let chosen =
            forwarder.held(request, second).map(|object| reply(object, request, true, (date_cache, boundaries), out));
        match chosen {
            Some(Ok(Delivered { status, delivery, bytes })) => {
                forwarder.count_hit(mount, bytes);
                Some(Answer::Encoded(Summary { status, mount: number, delivery }))
            }
            Some(Err(unmet @ Unmet::Range { .. })) => {
                forwarder.count_hit(mount, 0);
                Some(Answer::Encoded(self.deny((request, context.peer), unmet.into(), number, out)))
            }
            // Only the origin can tell that a condition fails: it may have a newer version.
            Some(Err(Unmet::Condition)) | None => {
                let hop = clients.as_ref().map(|clients| clients.previous_hop(context.waiter));
                forwarder.ask(request, mount, hop, (context.waiter, context.stream));
                Some(Answer::Pending)
            }
        }
    }

    /// Answers a request by the answer that it has waited for.
    fn respond_with_answer(
        &mut self,
        request: &RequestHead<'_>,
        (site, number): (usize, u16),
        TierAnswer { answer, generation }: TierAnswer,
        context: RequestContext,
        out: &mut impl Encoder,
    ) -> Answer {
        match answer {
            Answered::Object(object) => {
                self.respond_with_forwarded(request, (site, number), (object, generation), context, out)
            }
            Answered::Response(response) => {
                Answer::Encoded(self.relay(request, (site, number), response, context, out))
            }
            Answered::Failed(Failure { status, reason, cache_status }) => {
                // A path that no origin is asked for is the client's fault.
                if let Some(forwarder) = self.forwarder.as_mut().filter(|_| status >= 500) {
                    forwarder.note_failure(status, &reason);
                }
                let field = PageField::CacheStatus(&cache_status);
                Answer::Encoded(self.deny((request, context.peer), Denial { status, field }, number, out))
            }
        }
    }

    /// The settings of the present name of a site.
    pub(super) fn policy(&self, site: usize) -> Arc<ResponsePolicy> {
        let (folder, file) = split(&self.name);
        let folder = if folder == b"/" { b"" } else { folder };
        self.origin.namespace().policy(site, folder, file)
    }

    /// Answers a request with an object of the tier.
    fn respond_with_forwarded(
        &mut self,
        request: &RequestHead<'_>,
        (site, number): (usize, u16),
        (object, generation): (TierObject, u64),
        context: RequestContext,
        out: &mut impl Encoder,
    ) -> Answer {
        let policy = self.policy(site);
        let Self { forwarder: Some(forwarder), date_cache, boundaries, .. } = self else { return Answer::Pending };
        let (second, held_key) = (date_cache.second(), object.held_key);
        let mut object = Object::forwarded(object, &policy, second, forwarder.small_bytes_max(), forwarder.inbox());
        let chosen = reply(&mut object, request, false, (date_cache, boundaries), out);
        if let Some(key) = held_key
            && matches!(request.method, Method::Get | Method::Head)
        {
            forwarder.hold(key, object, generation, second);
        }
        let sites = self.origin.namespace();
        let mount = sites.forwarding.as_ref().and_then(|mounts| mounts.get(number));
        Answer::Encoded(match chosen {
            Ok(Delivered { status, delivery, bytes }) => {
                if let (Some(forwarder), Some(mount)) = (&mut self.forwarder, mount) {
                    forwarder.count_bytes(mount, bytes);
                }
                Summary { status, mount: number, delivery }
            }
            Err(unmet) => self.deny((request, context.peer), unmet.into(), number, out),
        })
    }

    /// Sends a response of an origin as it is.
    fn relay(
        &mut self,
        request: &RequestHead<'_>,
        (site, number): (usize, u16),
        response: OriginResponse,
        context: RequestContext,
        out: &mut impl Encoder,
    ) -> Summary {
        let OriginResponse { status, fields, length, content } = response;
        let Self { origin, forwarder: Some(forwarder), .. } = self else { return Summary::nothing(status, number) };
        // RFC 9110, 6.4.1.
        let has_content = request.method != Method::Head && !matches!(status, 204 | 304);
        let (body, length) = match content {
            Relay::Memory(bytes) if bytes.is_empty() => (None, length),
            Relay::Memory(bytes) => {
                let mount = origin.namespace().forwarding.as_ref().and_then(|mounts| mounts.get(number));
                if let Some(mount) = mount.filter(|_| has_content) {
                    forwarder.count_bytes(mount, bytes.len() as u64);
                }
                let length = Some(bytes.len() as u64);
                let reader = Box::new(MemoryReader(bytes));
                (Some(BodyReader::new(reader, length, Arc::clone(forwarder.inbox()))), length)
            }
            Relay::Stream(reader) => (Some(BodyReader::new(reader, length, Arc::clone(forwarder.inbox()))), length),
        };
        let body = body.filter(|_| has_content);
        let length = if has_content && body.is_none() { Some(0) } else { length };
        let delivery = match status {
            200 if body.is_some() => Delivery::End,
            206 if body.is_some() => Delivery::Part,
            _ => Delivery::Nothing,
        };
        let policy = self.policy(site);
        let fields = relayed_fields(&fields, status, &policy, self.date_cache.second());
        // Successful responses have it among their own.
        let hsts = self.origin.namespace().hsts(request, context.peer).filter(|_| status >= 400);
        let relayed = Relayed { status, fields: &fields, length, body, hsts };
        out.encode(Response::Relayed(relayed), &self.date_cache);
        Summary { status, mount: number, delivery }
    }
}

/// Answers a GET or HEAD with a forwarded object, of which a held one has a place for its rendered
/// head. How much the response delivers.
#[inline]
fn reply(
    object: &mut Object,
    request: &RequestHead<'_>,
    is_held: bool,
    (date_cache, boundaries): (&DateCache, &mut Boundaries),
    out: &mut impl Encoder,
) -> Result<Delivered, Unmet> {
    let is_head = request.method == Method::Head;
    let length = object.length();
    let is_in_memory = object.as_forwarded().is_some_and(|forwarded| forwarded.is_in_memory);
    let counted = |bytes: u64| if is_in_memory { bytes } else { 0 };
    if is_held && !is_head && !may_select(request.fields) {
        out.encode(Response::Whole(object), date_cache);
        return Ok(Delivered { status: 200, delivery: Delivery::End, bytes: counted(length) });
    }
    let extent = match select(request, object, date_cache.second())? {
        Selection::Send { extent, .. } => extent,
        Selection::NotModified => {
            out.encode(Response::NotModified(object), date_cache);
            return Ok(Delivered { status: 304, delivery: Delivery::Nothing, bytes: 0 });
        }
    };
    let delivery = if is_head { Delivery::Nothing } else { extent.delivery(length) };
    let bytes = if is_head { 0 } else { counted(extent.bytes(length)) };
    let (part, status) = match &extent {
        Extent::Whole if is_held && !is_head => {
            out.encode(Response::Whole(object), date_cache);
            return Ok(Delivered { status: 200, delivery, bytes });
        }
        Extent::Whole => (Part::Whole, 200),
        Extent::Range(range) => (Part::Range(*range), 206),
        Extent::Ranges(ranges) => {
            let content_type = &object.metadata().content_type;
            (Part::Ranges(Multipart::new(boundaries.next(), ranges.as_slice(), content_type, length)), 206)
        }
    };
    out.encode(Response::Selected(Selected { object, part, is_head, digest: None }), date_cache);
    Ok(Delivered { status, delivery, bytes })
}
