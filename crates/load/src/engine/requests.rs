//! The requests of one load thread. A few are encoded before the run; many are encoded when they
//! are sent, into memory that is used again.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use thalweg_wire::RequestKind;

use crate::input::check::{Check, CheckId, CheckOf, CheckTable, PackedCheck};
use crate::protocol::Encoder;
use crate::request::{FieldLines, PackedRequests, RequestList, RequestView, Templates};

/// Most requests, and most of their bytes, that each thread encodes before the run, which is
/// quickest. More would take too much memory.
const READY_MAX: usize = 4096;
const READY_BYTES_MAX: usize = 16 << 20;

/// A request with a body from this size on is put together once and kept, since each connection
/// would need a copy: as long as there are not too many of them.
const LARGE_BODY_BYTES: usize = 64 << 10;
const LARGE_BYTES_MAX: usize = 64 << 20;

/// The requests that a thread offers.
pub(crate) struct Requests<E> {
    encoder: E,
    /// The kind of each template's requests, on which the length of a response depends.
    kinds: Vec<RequestKind>,
    /// Whether each template's requests may be sent twice (RFC 9110, 9.2.2).
    idempotent: Vec<bool>,
    source: Source,
    /// The conditions on responses of requests that have none of their own.
    check: Check,
}

enum Source {
    Ready {
        list: Arc<PackedRequests>,
        encoded: Vec<Ready>,
    },
    Packed {
        list: Arc<PackedRequests>,
        /// Those with large bodies that were sent, by number and whether they are the last on a
        /// connection.
        large: HashMap<(u32, bool), Encoded>,
        large_bytes: usize,
    },
    Streamed(StreamedRequests),
}

struct Ready {
    usual: Encoded,
    last: Encoded,
    kind: RequestKind,
    check: Option<Check>,
}

/// A request's bytes.
pub(crate) struct Encoded {
    pub(crate) bytes: Rc<Vec<u8>>,
    pub(crate) body_bytes: usize,
}

/// Requests that come one by one, each in a place of its own until it has ended. Places are used
/// again.
struct StreamedRequests {
    table: Option<Arc<CheckTable>>,
    places: Vec<Place>,
    free: Vec<u32>,
}

#[derive(Default)]
struct Place {
    template: usize,
    target: Vec<u8>,
    check: Option<CheckId>,
}

impl<E: Encoder> Requests<E> {
    /// The requests of a list with these templates, over TLS or not.
    pub(crate) fn new(requests: &RequestList, templates: &Templates, is_tls: bool, check: &Check) -> Self {
        let list = requests.packed().clone();
        let encoder = E::new(templates, is_tls);
        let source = if list.len() <= READY_MAX && list.bytes() <= READY_BYTES_MAX {
            let encoded = (0..list.len() as u32).map(|number| ready(&encoder, &list, number)).collect();
            Source::Ready { list, encoded }
        } else {
            Source::Packed { list, large: HashMap::new(), large_bytes: 0 }
        };
        Self { encoder, kinds: kinds(templates), idempotent: idempotent(templates), source, check: check.clone() }
    }

    /// Requests that come with their arrivals, with these templates, and are checked by this table.
    pub(crate) fn streamed(templates: &Templates, is_tls: bool, table: Option<Arc<CheckTable>>, check: &Check) -> Self {
        let streamed = StreamedRequests { table, places: Vec::new(), free: Vec::new() };
        let source = Source::Streamed(streamed);
        let idempotent = idempotent(templates);
        Self { encoder: E::new(templates, is_tls), kinds: kinds(templates), idempotent, source, check: check.clone() }
    }

    /// Takes a request that has come. Its number holds until it is released.
    pub(crate) fn adopt(&mut self, template: usize, target: &[u8], check: Option<CheckId>) -> u32 {
        let Source::Streamed(streamed) = &mut self.source else { unreachable!("the requests come one by one") };
        let number = streamed.free.pop().unwrap_or_else(|| {
            streamed.places.push(Place::default());
            streamed.places.len() as u32 - 1
        });
        let place = &mut streamed.places[number as usize];
        (place.template, place.check) = (template, check);
        place.target.clear();
        place.target.extend_from_slice(target);
        number
    }

    /// Notes that a call with this request has ended.
    #[inline]
    pub(crate) fn release(&mut self, number: u32) {
        if let Source::Streamed(streamed) = &mut self.source {
            streamed.free.push(number);
        }
    }

    /// How many requests are in places of their own.
    pub(crate) fn places(&self) -> usize {
        match &self.source {
            Source::Streamed(streamed) => streamed.places.len(),
            Source::Ready { .. } | Source::Packed { .. } => 0,
        }
    }

    /// The encoder of all requests.
    #[inline]
    pub(crate) fn encoder(&self) -> &E {
        &self.encoder
    }

    /// The request's bytes, if they are ready.
    #[inline]
    pub(crate) fn ready(&mut self, number: u32, last: bool) -> Option<&Encoded> {
        if !matches!(self.source, Source::Ready { .. }) {
            return self.large(number, last);
        }
        let Source::Ready { encoded, .. } = &self.source else { unreachable!("it is that source") };
        let request = &encoded[number as usize];
        Some(if last { &request.last } else { &request.usual })
    }

    /// A request with a large body, of those that are kept.
    #[inline(never)]
    fn large(&mut self, number: u32, last: bool) -> Option<&Encoded> {
        let Source::Packed { list, large, large_bytes } = &mut self.source else { return None };
        let (request, _) = list.get(number);
        if request.body.len() < LARGE_BODY_BYTES {
            return None;
        }
        if *large_bytes > LARGE_BYTES_MAX {
            return large.get(&(number, last));
        }
        Some(large.entry((number, last)).or_insert_with(|| {
            let encoded = encoded(&self.encoder, &request, last);
            *large_bytes += encoded.bytes.len();
            encoded
        }))
    }

    /// Writes the request behind what the buffer holds. Returns the bytes of its body.
    pub(crate) fn write(&self, number: u32, last: bool, out: &mut Vec<u8>) -> usize {
        match &self.source {
            Source::Ready { encoded, .. } => {
                let request = &encoded[number as usize];
                let encoded = if last { &request.last } else { &request.usual };
                out.extend_from_slice(&encoded.bytes);
                encoded.body_bytes
            }
            Source::Packed { .. } | Source::Streamed(_) => {
                let request = self.view(number);
                self.encoder.write(&request, last, out);
                request.body.len()
            }
        }
    }

    /// The request's parts.
    pub(crate) fn view(&self, number: u32) -> RequestView<'_> {
        match &self.source {
            Source::Ready { list, .. } | Source::Packed { list, .. } => list.get(number).0,
            Source::Streamed(streamed) => {
                let place = &streamed.places[number as usize];
                let fields = FieldLines::default();
                RequestView { template: place.template, target: &place.target, fields, body: b"" }
            }
        }
    }

    /// Whether the request may be sent twice (RFC 9110, 9.2.2).
    pub(crate) fn is_idempotent(&self, number: u32) -> bool {
        self.idempotent[self.view(number).template]
    }

    #[inline]
    pub(crate) fn kind(&self, number: u32) -> RequestKind {
        match &self.source {
            Source::Ready { encoded, .. } => encoded[number as usize].kind,
            Source::Packed { list, .. } => self.kinds[list.get(number).0.template],
            Source::Streamed(streamed) => self.kinds[streamed.places[number as usize].template],
        }
    }

    #[inline]
    pub(crate) fn check(&self, number: u32) -> CheckOf<'_> {
        if let Source::Ready { encoded, .. } = &self.source {
            return CheckOf::Whole(encoded[number as usize].check.as_ref().unwrap_or(&self.check));
        }
        self.put_together_check(number)
    }

    #[inline(never)]
    fn put_together_check(&self, number: u32) -> CheckOf<'_> {
        let packed = match &self.source {
            Source::Ready { .. } => None,
            Source::Packed { list, .. } => list.get(number).1,
            Source::Streamed(streamed) => {
                let table = streamed.table.as_ref();
                table.zip(streamed.places[number as usize].check).map(|(table, id)| table.check(id))
            }
        };
        packed.map_or(CheckOf::Whole(&self.check), CheckOf::Packed)
    }
}

fn ready(encoder: &impl Encoder, list: &PackedRequests, number: u32) -> Ready {
    let (request, check) = list.get(number);
    Ready {
        usual: encoded(encoder, &request, false),
        last: encoded(encoder, &request, true),
        kind: list.templates().list()[request.template].kind(),
        check: check.map(|mut check| PackedCheck::take(&mut check).unpack()),
    }
}

fn encoded(encoder: &impl Encoder, request: &RequestView<'_>, last: bool) -> Encoded {
    let mut bytes = Vec::new();
    encoder.write(request, last, &mut bytes);
    bytes.shrink_to_fit();
    Encoded { bytes: Rc::new(bytes), body_bytes: request.body.len() }
}

fn idempotent(templates: &Templates) -> Vec<bool> {
    const METHODS: [&str; 6] = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"];
    templates.list().iter().map(|template| METHODS.contains(&template.method())).collect()
}

fn kinds(templates: &Templates) -> Vec<RequestKind> {
    templates.list().iter().map(|template| template.kind()).collect()
}
