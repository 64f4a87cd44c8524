//! The requests that go where redirects lead, one for each call that follows some. Their memory is
//! used again, so that following costs no allocation in the long run.

use std::num::NonZero;

use thalweg_measure::trial::NotFollowed;
use thalweg_wire::RequestKind;

use super::location::{Origin, resolve};
use crate::protocol::Encoder;
use crate::request::{RequestView, Templates};

/// Follows redirects for the calls of a load thread.
pub(crate) struct Follower {
    /// Those of the plan's requests, with those that they change to.
    templates: Templates,
    /// By template, the one for the method GET without content.
    for_get: Vec<usize>,
    is_tls: bool,
    redirects_max: u8,
    places: Vec<Hop>,
    free: Vec<HopId>,
}

/// Names what a call has made of its request: one more than the place, so that one or none fits
/// into four bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HopId(NonZero<u32>);

/// A call's request, once a redirect was followed, and the next one.
#[derive(Default)]
struct Hop {
    request: HopRequest,
    next: HopRequest,
}

/// The parts in which a request differs from the one that was offered.
#[derive(Default)]
struct HopRequest {
    template: usize,
    target: Vec<u8>,
    drops_content: bool,
}

impl Follower {
    /// Follows at most so many redirects for a request. `for_get` is as
    /// [`Templates::with_redirected`] gives it.
    pub(crate) fn new(templates: Templates, for_get: Vec<usize>, is_tls: bool, redirects_max: u8) -> Self {
        Self { templates, for_get, is_tls, redirects_max, places: Vec::new(), free: Vec::new() }
    }

    /// The templates of the plan's requests and of those that redirects make of them.
    pub(crate) fn templates(&self) -> &Templates {
        &self.templates
    }

    /// Notes where a call's response redirects to. `request` is the one that was offered, of which
    /// `followed` redirects were followed already.
    ///
    /// # Errors
    /// It is not to be followed.
    pub(crate) fn note(
        &mut self,
        hop: &mut Option<HopId>,
        followed: u8,
        request: &RequestView<'_>,
        status: u16,
        location: Option<&[u8]>,
    ) -> Result<(), NotFollowed> {
        if followed >= self.redirects_max {
            return Err(NotFollowed::TooMany);
        }
        let location = location.ok_or(NotFollowed::NoLocation)?;
        let id = hop.unwrap_or_else(|| self.take_place());
        let Self { templates, for_get, is_tls, places, free, .. } = self;
        let Hop { request: own, next } = &mut places[id.place()];
        let (template, target, drops_content) = match followed {
            0 => (request.template, request.target, false),
            _ => (own.template, &own.target[..], own.drops_content),
        };
        let template_in_use = &templates.list()[template];
        let host = |(name, _): &(&str, &str)| name.eq_ignore_ascii_case("host");
        let common_host = templates.fields_of(template_in_use).find(host).map(|(_, value)| value.as_bytes());
        let own_host = request.fields.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(b"host"));
        let authority =
            own_host.map(|(_, value)| value).or(common_host).unwrap_or_else(|| templates.authority().as_bytes());
        let resolved = resolve(target, location, Origin { is_tls: *is_tls, authority }, &mut next.target);
        if resolved.is_err() {
            if hop.is_none() {
                free.push(id);
            }
            return resolved;
        }
        let becomes_get = becomes_get(status, template_in_use.method());
        next.template = if becomes_get { for_get[template] } else { template };
        next.drops_content = drops_content || becomes_get;
        *hop = Some(id);
        Ok(())
    }

    fn take_place(&mut self) -> HopId {
        self.free.pop().unwrap_or_else(|| {
            self.places.push(Hop::default());
            let places = u32::try_from(self.places.len()).ok().and_then(NonZero::new);
            HopId(places.expect("calls under way are bounded by connections"))
        })
    }

    /// Goes over to the request that was noted last.
    pub(crate) fn advance(&mut self, hop: HopId) {
        let Hop { request, next } = &mut self.places[hop.place()];
        std::mem::swap(request, next);
    }

    /// The target of a call's request, after a redirect was followed.
    pub(crate) fn target(&self, hop: HopId) -> &[u8] {
        &self.places[hop.place()].request.target
    }

    /// The kind of that request, on which the length of the response depends.
    pub(crate) fn kind(&self, hop: HopId) -> RequestKind {
        self.templates.list()[self.places[hop.place()].request.template].kind()
    }

    /// Writes that request behind what the buffer holds. Returns the bytes of its body.
    pub(crate) fn write(
        &self,
        hop: HopId,
        offered: &RequestView<'_>,
        encoder: &impl Encoder,
        last: bool,
        out: &mut Vec<u8>,
    ) -> usize {
        let HopRequest { template, target, drops_content } = &self.places[hop.place()].request;
        let (fields, body) = match drops_content {
            true => (offered.fields.without_content(), &b""[..]),
            false => (offered.fields, offered.body),
        };
        encoder.write(&RequestView { template: *template, target, fields, body }, last, out);
        body.len()
    }

    /// Ends what a call has made of its request.
    pub(crate) fn release(&mut self, hop: HopId) {
        self.free.push(hop);
    }

    /// How many places there are.
    pub(crate) fn places(&self) -> usize {
        self.places.len()
    }
}

impl HopId {
    fn place(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Whether the next request is a GET without content. RFC 9110, 15.4 allows for it, and browsers
/// have it so (Fetch Standard, HTTP-redirect fetch).
fn becomes_get(status: u16, method: &str) -> bool {
    match status {
        301 | 302 => method == "POST",
        303 => !matches!(method, "GET" | "HEAD"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Http1Encoder;
    use crate::request::{PackedRequests, RequestParts};
    use thalweg_wire::Version;

    /// The request that follows a response to `method /a` with a body and fields about it.
    #[track_caller]
    fn check(method: &str, status: u16, expected: &str) {
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let common = [field("User-Agent", "t"), field("Content-Language", "de")];
        let mut packed = PackedRequests::new("h", Version::Http11, &common, b"");
        let own = [field("Content-Type", "text/plain"), field("X", "1")];
        packed.push(&RequestParts { method, target: "/a", fields: &own, body: b"hi" }, None, None).unwrap();
        let (templates, for_get) = packed.templates().with_redirected();
        let encoder = Http1Encoder::new(&templates, false);
        let mut follower = Follower::new(templates, for_get, false, 1);
        let (request, _) = packed.get(0);
        let mut hop = None;
        follower.note(&mut hop, 0, &request, status, Some(b"/b")).unwrap();
        let id = hop.unwrap();
        follower.advance(id);
        let mut out = Vec::new();
        follower.write(id, &request, &encoder, false, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{method} {status}");
        assert_eq!(follower.note(&mut hop, 1, &request, status, Some(b"/c")), Err(NotFollowed::TooMany));
        follower.release(id);
        let before = follower.places();
        assert_eq!(follower.note(&mut None, 0, &request, status, None), Err(NotFollowed::NoLocation));
        assert_eq!(follower.note(&mut None, 0, &request, status, Some(b"//o")), Err(NotFollowed::OtherHost));
        follower.note(&mut None, 0, &request, status, Some(b"http://H:80/c")).unwrap();
        assert_eq!(follower.places(), before, "places are used again");
    }

    #[test]
    fn a_redirected_post_becomes_a_get_where_browsers_have_it_so() {
        let host = "Host: h\r\nUser-Agent: t\r\n";
        let get = format!("GET /b HTTP/1.1\r\n{host}X: 1\r\n\r\n");
        let same = |method: &str| {
            let about = "Content-Language: de\r\nContent-Type: text/plain\r\nX: 1\r\nContent-Length: 2\r\n";
            format!("{method} /b HTTP/1.1\r\n{host}{about}\r\nhi")
        };
        for status in [301, 302, 303] {
            check("POST", status, &get);
        }
        check("PUT", 303, &get);
        for (method, status) in
            [("PUT", 301), ("PUT", 302), ("POST", 307), ("POST", 308), ("GET", 303), ("GET", 302), ("HEAD", 303)]
        {
            check(method, status, &same(method));
        }
    }
}
