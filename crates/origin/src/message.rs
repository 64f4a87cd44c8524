//! A request to a group.

use std::fmt;

use bytes::Bytes;
use hyper::Method;

use crate::fields::{FieldLine, first};

/// A request. Ranges and conditions are fields.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The path with the query, percent-encoded, from the first slash on.
    pub path: String,
    /// The fields. Those of the client's connection, Host and Content-Length are left out.
    pub fields: Vec<FieldLine>,
    /// The body; at most the size that the caller has bounded it to.
    pub body: Bytes,
    /// How the origins are tried.
    pub policy: AttemptPolicy,
}

/// How the origins of a group are tried for one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttemptPolicy {
    /// Attempts in all, at least 1.
    pub attempts_max: u32,
    /// The origin that is asked first if it is up, by its place in the group: to go on with a body
    /// where it came from.
    pub preferred: Option<usize>,
    /// No other origin than the preferred one is asked.
    pub only_preferred: bool,
}

impl Default for AttemptPolicy {
    fn default() -> Self {
        Self { attempts_max: 4, preferred: None, only_preferred: false }
    }
}

impl Request {
    /// A GET of a path.
    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    /// A request without fields and body.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        let (fields, body, policy) = (Vec::new(), Bytes::new(), AttemptPolicy::default());
        Self { method, path: path.into(), fields, body, policy }
    }

    /// The same with one field more.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.fields.push((name.into(), value.as_ref().into()));
        self
    }

    /// The value of the first field of that name, in whatever case.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        first(&self.fields, name)
    }

    /// Whether it may be sent more than once: it changes nothing (RFC 9110, 9.2).
    pub(crate) fn is_repeatable(&self) -> bool {
        matches!(self.method, Method::GET | Method::HEAD)
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}
