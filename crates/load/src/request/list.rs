//! The requests of a plan, as a caller gives them.

use std::sync::Arc;

use thalweg_wire::Version;

use super::packed::{PackedRequests, RequestParts};
use super::templates::{RequestError, Templates};
use crate::input::check::Check;
use crate::weights::{WeightError, Weights};

/// The requests of a plan, shared by its load threads.
#[derive(Clone, Debug)]
pub struct RequestList {
    packed: Arc<PackedRequests>,
    weights: Option<Arc<Weights>>,
}

impl RequestList {
    /// The same requests with a weight each, for [`Pick::Weighted`](crate::Pick::Weighted).
    ///
    /// # Errors
    /// A weight is wrong, or their number is.
    pub fn weighted(self, weights: Vec<f64>) -> Result<Self, WeightError> {
        let weights = Weights::new(weights, self.len())?;
        Ok(Self { weights: Some(Arc::new(weights)), ..self })
    }

    /// The weights, if there are some.
    pub fn weights(&self) -> Option<&Arc<Weights>> {
        self.weights.as_ref()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.packed.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn packed(&self) -> &Arc<PackedRequests> {
        &self.packed
    }
}

impl From<PackedRequests> for RequestList {
    fn from(requests: PackedRequests) -> Self {
        Self { packed: Arc::new(requests), weights: None }
    }
}

impl FromIterator<RequestTemplate> for RequestList {
    /// # Panics
    /// The requests have several authorities or versions, since a plan has one server; or one of
    /// them cannot be sent.
    fn from_iter<T: IntoIterator<Item = RequestTemplate>>(requests: T) -> Self {
        let mut requests = requests.into_iter().peekable();
        let (authority, version) =
            requests.peek().map_or((String::new(), Version::Http11), |first| (first.authority.clone(), first.version));
        let mut packed = PackedRequests::new(&authority, version, &[], b"");
        for request in requests {
            assert!(request.authority == authority && request.version == version, "a plan has one server");
            let RequestTemplate { method, target, fields, body, check, .. } = &request;
            let parts = RequestParts { method, target, fields, body };
            packed.push(&parts, check.as_ref(), None).expect("a template can be sent");
        }
        packed.finish(None).into()
    }
}

impl<const N: usize> From<[RequestTemplate; N]> for RequestList {
    fn from(requests: [RequestTemplate; N]) -> Self {
        requests.into_iter().collect()
    }
}

impl From<Vec<RequestTemplate>> for RequestList {
    fn from(requests: Vec<RequestTemplate>) -> Self {
        requests.into_iter().collect()
    }
}

/// A request that can be sent, as [`template`] makes it of a [`RequestText`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestTemplate {
    /// The method.
    pub method: String,
    /// Host and port of the server.
    pub authority: String,
    /// Path and query, or another form of target.
    pub target: String,
    /// The version to speak.
    pub version: Version,
    /// Further fields.
    pub fields: Vec<(String, String)>,
    /// The body; empty for none.
    pub body: Vec<u8>,
    /// The conditions on its response, in place of the plan's.
    pub check: Option<Check>,
}

/// The text of a request, before it is validated.
#[derive(Clone, Copy, Debug)]
pub struct RequestText<'a> {
    /// The method.
    pub method: &'a str,
    /// Host and port, for the `Host` field.
    pub authority: &'a str,
    /// Path and query, or another form of target.
    pub target: &'a str,
    /// The version to speak.
    pub version: Version,
    /// Further fields. One that is called `Host`, `User-Agent`, `Content-Length` or `Connection`
    /// replaces the usual one.
    pub fields: &'a [(String, String)],
    /// The body; empty for none.
    pub body: &'a [u8],
}

/// Validates a request.
///
/// # Errors
/// A method, target or field that could not be read back as what was meant, such as one with a line
/// break.
pub fn template(text: &RequestText<'_>) -> Result<RequestTemplate, RequestError> {
    let RequestText { method, authority, target, version, fields, body } = *text;
    Templates::new(authority, version, &[]).ensure_valid(method, target, fields)?;
    Ok(RequestTemplate {
        method: method.to_owned(),
        authority: authority.to_owned(),
        target: target.to_owned(),
        version,
        fields: fields.to_vec(),
        body: body.to_vec(),
        check: None,
    })
}
