//! Templates, the common parts of requests: the server's authority, fields of all of them, and a
//! template for each method and choice of fields.

use thalweg_wire::encode::{EncodeError, HeadWriter};
use thalweg_wire::{RequestKind, Version};

use crate::input::packing::{push_text, take_text};

/// Fields that a request may give itself in place of the usual ones.
const USUAL_FIELDS: [&str; 5] = ["Host", "User-Agent", CONTENT_LENGTH, "Connection", AUTHORIZATION];

/// A request with credentials of its own does not carry those of all requests.
const AUTHORIZATION: &str = "Authorization";

/// Fields about the content, which a request without content does not carry.
const CONTENT_FIELDS: [&str; 5] =
    ["Content-Encoding", CONTENT_LENGTH, "Content-Language", "Content-Location", "Content-Type"];

const CONTENT_LENGTH: &str = "Content-Length";

/// The method of a request that a redirect has changed.
const GET: &str = "GET";

/// Why a request cannot be sent.
pub type RequestError = EncodeError;

/// The common parts of a set of requests.
#[derive(Clone, Debug)]
pub struct Templates {
    authority: String,
    version: Version,
    fields: Vec<(String, String)>,
    list: Vec<Template>,
}

/// The common parts of requests with one method and one choice of usual fields.
#[derive(Clone, Debug)]
pub struct Template {
    method: Box<str>,
    /// Which of the usual fields a request gives itself.
    own: [bool; USUAL_FIELDS.len()],
    /// A redirect has taken the content away, and with it the fields about that.
    drops_content: bool,
}

/// A request, put together from its template and its own parts.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'a> {
    /// The number of its template.
    pub template: usize,
    /// Path and query, or another form of target.
    pub target: &'a [u8],
    /// Its own fields.
    pub fields: FieldLines<'a>,
    /// The body; empty for none.
    pub body: &'a [u8],
}

/// Names and values of fields, packed one behind the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct FieldLines<'a> {
    bytes: &'a [u8],
    drops_content: bool,
}

impl<'a> FieldLines<'a> {
    /// Fields that [`push_fields`] has packed.
    pub(crate) fn packed(bytes: &'a [u8]) -> Self {
        Self { bytes, drops_content: false }
    }

    /// The same without those about the content.
    pub(crate) fn without_content(self) -> Self {
        Self { drops_content: true, ..self }
    }
}

impl<'a> Iterator for FieldLines<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.bytes.is_empty() {
            let name = take_text(&mut self.bytes);
            let value = take_text(&mut self.bytes);
            if !(self.drops_content && is_about_content(name)) {
                return Some((name, value));
            }
        }
        None
    }
}

/// Packs fields for [`FieldLines`].
pub(crate) fn push_fields(out: &mut Vec<u8>, fields: &[(String, String)]) {
    for (name, value) in fields {
        push_text(out, name.as_bytes());
        push_text(out, value.as_bytes());
    }
}

impl Templates {
    /// Templates for requests to `authority` in this version, all with these fields.
    pub(crate) fn new(authority: &str, version: Version, fields: &[(String, String)]) -> Self {
        Self { authority: authority.to_owned(), version, fields: fields.to_vec(), list: Vec::new() }
    }

    /// Host and port of the server.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The version of the requests.
    pub fn version(&self) -> Version {
        self.version
    }

    /// All templates, by number.
    pub fn list(&self) -> &[Template] {
        &self.list
    }

    /// The fields of all requests that those of a template carry.
    pub fn fields_of(&self, template: &Template) -> impl Iterator<Item = (&str, &str)> {
        let [.., own_authorization] = template.own;
        let fields = self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let drops_content = template.drops_content;
        fields.filter(move |(name, _)| {
            let is_replaced = own_authorization && name.eq_ignore_ascii_case(AUTHORIZATION);
            !(is_replaced || (drops_content && is_about_content(name.as_bytes())))
        })
    }

    /// Whether requests of a template carry that field by their own or the common fields, in place
    /// of the usual one.
    pub fn replaces(&self, template: &Template, field: &str) -> bool {
        let is_own = USUAL_FIELDS.iter().zip(template.own).any(|(usual, own)| own && *usual == field);
        is_own || self.fields_of(template).any(|(name, _)| name.eq_ignore_ascii_case(field))
    }

    /// The number of the template for requests with that method and those fields.
    ///
    /// # Errors
    /// Method, common or own fields cannot be sent.
    pub(crate) fn number(&mut self, method: &str, own_fields: &[(String, String)]) -> Result<usize, RequestError> {
        let own = USUAL_FIELDS.map(|usual| own_fields.iter().any(|(name, _)| name.eq_ignore_ascii_case(usual)));
        let is_it = |template: &Template| *template.method == *method && template.own == own;
        if let Some(number) = self.list.iter().position(is_it) {
            return Ok(number);
        }
        self.ensure_valid(method, "/", &self.fields)?;
        self.list.push(Template { method: method.into(), own, drops_content: false });
        Ok(self.list.len() - 1)
    }

    /// The same templates, with one for each that redirects may change to GET without content; and
    /// by the number of each template that of the one that it changes to.
    pub(crate) fn with_redirected(&self) -> (Self, Vec<usize>) {
        let mut all = self.clone();
        let mut for_get: Vec<usize> = Vec::new();
        for (number, template) in self.list.iter().enumerate() {
            let stays = matches!(template.method(), "HEAD" | GET);
            for_get.push(if stays { number } else { all.list.len() });
            if !stays {
                let mut own = template.own;
                own.iter_mut().zip(USUAL_FIELDS).for_each(|(own, field)| *own &= field != CONTENT_LENGTH);
                all.list.push(Template { method: GET.into(), own, drops_content: true });
            }
        }
        for_get.extend(self.list.len()..all.list.len());
        (all, for_get)
    }

    /// Verifies that a request has no part that could be read back as something else.
    ///
    /// # Errors
    /// The first part that could.
    pub(crate) fn ensure_valid(
        &self,
        method: &str,
        target: &str,
        fields: &[(String, String)],
    ) -> Result<(), RequestError> {
        let mut scratch = Vec::new();
        let mut head = HeadWriter::request(&mut scratch, method, target.as_bytes(), self.version)?;
        head.field("Host", self.authority.as_bytes())?;
        for (name, value) in fields {
            head.field(name, value.as_bytes())?;
        }
        Ok(())
    }
}

fn is_about_content(name: &[u8]) -> bool {
    CONTENT_FIELDS.iter().any(|field| name.eq_ignore_ascii_case(field.as_bytes()))
}

impl Template {
    /// The method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The kind of request, on which the length of a response depends.
    pub fn kind(&self) -> RequestKind {
        if *self.method == *"HEAD" { RequestKind::Head } else { RequestKind::Other }
    }
}
