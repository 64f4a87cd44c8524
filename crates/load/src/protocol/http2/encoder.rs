//! Requests as HTTP/2's header blocks: the part that is the same on every connection.

use std::cell::RefCell;
use std::io::Write as _;

use thalweg_wire::RequestKind;
use thalweg_wire::hpack::{FieldList, encode_path, encode_stateless};

use crate::protocol::interface::Encoder;
use crate::request::{RequestView, Template, Templates};

/// Encodes the parts of requests that differ, and keeps those that templates share. It also has
/// the memory that all connections of a load thread use in turn.
#[derive(Debug)]
pub struct Http2Encoder {
    heads: Vec<Head>,
    scratch: RefCell<(Vec<u8>, Vec<u8>)>,
    list: RefCell<FieldList>,
    /// A name in lower case.
    lower: RefCell<Vec<u8>>,
}

/// The fields that the requests of a template share.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) kind: RequestKind,
    /// Those that stand before all others (RFC 9113, 8.3).
    pub(super) pseudo: Vec<Field>,
    pub(super) fields: Vec<Field>,
    /// A body's length is written, since none is given.
    counts_body: bool,
}

/// Name, in lower case, and value.
pub(super) type Field = (Vec<u8>, Vec<u8>);

/// A request as the encoder hands it to a connection.
pub(super) struct Form<'a> {
    pub(super) template: usize,
    /// Fields of its own, the path among them, in a form that no table changes.
    pub(super) block: &'a [u8],
    pub(super) body: &'a [u8],
}

/// Fields that speak of a connection, and have no place in HTTP/2 (RFC 9113, 8.2.2).
const OF_CONNECTION: [&str; 6] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "host"];

impl Encoder for Http2Encoder {
    fn new(templates: &Templates, is_tls: bool) -> Self {
        let scheme = if is_tls { "https" } else { "http" };
        let heads = templates.list().iter().map(|template| head(templates, template, scheme)).collect();
        Self { heads, scratch: RefCell::default(), list: RefCell::default(), lower: RefCell::default() }
    }

    fn write(&self, request: &RequestView<'_>, _last: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(&(request.template as u32).to_le_bytes());
        let length_at = out.len();
        out.extend_from_slice(&[0; 4]);
        let host = request.fields.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(b"host"));
        if let Some((_, host)) = host {
            encode_stateless(b":authority", host, out);
        }
        encode_path(request.target, out);
        let mut lower = self.lower.borrow_mut();
        for (name, value) in request.fields {
            lower.clear();
            lower.extend(name.iter().map(u8::to_ascii_lowercase));
            if !is_of_connection(&lower) {
                encode_stateless(&lower, value, out);
            }
        }
        if !request.body.is_empty() && self.heads[request.template].counts_body {
            let mut digits = [0; 20];
            let mut left = &mut digits[..];
            // A length has at most 20 digits.
            let _ = write!(left, "{}", request.body.len());
            let len = 20 - left.len();
            encode_stateless(b"content-length", &digits[..len], out);
        }
        let length = (out.len() - length_at - 4) as u32;
        out[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
        out.extend_from_slice(request.body);
    }
}

impl Http2Encoder {
    pub(super) fn head(&self, template: usize) -> &Head {
        &self.heads[template]
    }

    /// Memory for a request's form and its header block, both empty.
    pub(super) fn take_scratch(&self) -> (Vec<u8>, Vec<u8>) {
        let (mut form, mut block) = self.scratch.take();
        form.clear();
        block.clear();
        (form, block)
    }

    pub(super) fn return_scratch(&self, scratch: (Vec<u8>, Vec<u8>)) {
        self.scratch.replace(scratch);
    }

    /// Lends the list of a response's fields.
    #[inline]
    pub(super) fn with_list<R>(&self, read: impl FnOnce(&mut FieldList) -> R) -> R {
        read(&mut self.list.borrow_mut())
    }
}

impl<'a> Form<'a> {
    /// The form that the encoder has written.
    pub(super) fn read(bytes: &'a [u8]) -> Self {
        let (numbers, rest) = bytes.split_first_chunk::<8>().expect("the encoder writes both numbers");
        let [a, b, c, d, length @ ..] = *numbers;
        let (block, body) = rest.split_at(u32::from_le_bytes(length) as usize);
        Self { template: u32::from_le_bytes([a, b, c, d]) as usize, block, body }
    }
}

fn head(templates: &Templates, template: &Template, scheme: &str) -> Head {
    let field = |name: &str, value: &str| (name.to_ascii_lowercase().into_bytes(), value.as_bytes().to_vec());
    let mut pseudo = vec![field(":method", template.method()), field(":scheme", scheme)];
    let common_host = templates.fields_of(template).find(|(name, _)| name.eq_ignore_ascii_case("host"));
    if let Some((_, host)) = common_host {
        pseudo.push(field(":authority", host));
    } else if !templates.replaces(template, "Host") {
        pseudo.push(field(":authority", templates.authority()));
    }
    let mut fields = Vec::new();
    if !templates.replaces(template, "User-Agent") {
        fields.push(field("user-agent", concat!("thalweg/", env!("CARGO_PKG_VERSION"))));
    }
    fields.extend(templates.fields_of(template).map(|(name, value)| field(name, value)));
    fields.retain(|(name, _)| !is_of_connection(name));
    Head { kind: template.kind(), pseudo, fields, counts_body: !templates.replaces(template, "Content-Length") }
}

fn is_of_connection(name: &[u8]) -> bool {
    OF_CONNECTION.iter().any(|field| field.as_bytes() == name)
}
