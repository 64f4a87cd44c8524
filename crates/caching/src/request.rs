//! A client's request as a cache sees it.

use thalweg_wire::Method;

use crate::directives::RequestDirectives;
use crate::fields::FieldLines;

/// A request, with its directives read once.
#[derive(Clone, Copy, Debug)]
pub struct CacheRequest<'a, F> {
    /// The method.
    pub method: Method<'a>,
    /// The field lines.
    pub fields: &'a F,
    /// Cache-Control and Pragma.
    pub directives: RequestDirectives,
}

impl<'a, F: FieldLines> CacheRequest<'a, F> {
    /// Reads the directives.
    #[must_use]
    pub fn new(method: Method<'a>, fields: &'a F) -> Self {
        Self { method, fields, directives: RequestDirectives::of(fields) }
    }
}
