//! The methods of requests that are taken from a log.

/// The methods that are taken from a log: those that httperf 0.9 knows, but for TRACE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LoggedMethod {
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
    /// OPTIONS
    Options,
}

impl LoggedMethod {
    /// All of them, at the index of their number.
    pub const ALL: [Self; 6] = [Self::Get, Self::Head, Self::Post, Self::Put, Self::Delete, Self::Options];

    /// The method of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
        }
    }

    /// Whether its requests have bodies, which no log contains.
    pub(crate) const fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put)
    }
}
