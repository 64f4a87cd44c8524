//! Request methods (RFC 9110, 9). Names are compared with case: `get` is an extension method, not
//! GET.

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method<'a> {
    /// GET
    Get,
    /// HEAD
    Head,
    /// POST
    Post,
    /// PUT
    Put,
    /// DELETE
    Delete,
    /// CONNECT
    Connect,
    /// OPTIONS
    Options,
    /// TRACE
    Trace,
    /// PATCH (RFC 5789)
    Patch,
    /// Any other token.
    Extension(&'a str),
}

impl<'a> Method<'a> {
    /// The method of that name. The name is taken as it is: the readers pass tokens, the encoder
    /// checks what it writes.
    #[inline]
    #[must_use]
    pub fn from_name(name: &'a str) -> Self {
        match name {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "DELETE" => Self::Delete,
            "CONNECT" => Self::Connect,
            "OPTIONS" => Self::Options,
            "TRACE" => Self::Trace,
            "PATCH" => Self::Patch,
            other => Self::Extension(other),
        }
    }

    /// The name as it is sent.
    #[inline]
    #[must_use]
    pub const fn name(self) -> &'a str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
            Self::Options => "OPTIONS",
            Self::Trace => "TRACE",
            Self::Patch => "PATCH",
            Self::Extension(name) => name,
        }
    }
}
