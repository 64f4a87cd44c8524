//! The choices of a cache's operator, as values. Reading configuration is for others.

/// The choices that RFC 9111 leaves to a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The targeted fields that this cache obeys instead of Cache-Control, first the one with
    /// precedence (RFC 9213, 2.2).
    pub targeted_fields: Vec<Box<str>>,
    /// How much of the age of the last modification a response without explicit freshness is fresh
    /// for (RFC 9111, 4.2.2).
    pub heuristic_percent: u32,
    /// The least such lifetime.
    pub heuristic_seconds_min: u32,
    /// The greatest such lifetime.
    pub heuristic_seconds_max: u32,
    /// The lifetime of a response with an error that is cacheable by default (404, 405, 410, 414,
    /// 501) and says nothing of its freshness.
    pub negative_seconds_default: u32,
    /// The greatest lifetime of 404, 410 and 5xx, even when the origin names a longer one.
    pub negative_seconds_max: u32,
    /// The lifetimes of responses that name none, by status, instead of the heuristic ones.
    pub lifetimes: Vec<(u16, u32)>,
    /// Whether responses with Set-Cookie are not stored, whatever else they say.
    pub never_stores_cookies: bool,
    /// For how long after its lifetime a response may be used while it is validated, if it does
    /// not say so itself (RFC 5861, 3).
    pub stale_while_revalidate_seconds: u32,
    /// For how long after its lifetime a response may stand in for a failing origin, if it does
    /// not say so itself (RFC 5861, 4).
    pub stale_if_error_seconds: u32,
    /// For how long no request waits for another one to a name whose response was not stored.
    pub uncacheable_seconds: u32,
    /// A fetch that no client reads goes on if it has no more bytes than this to fetch.
    pub unread_bytes_max: u64,
    /// It goes on, too, if this share of its bytes has come, in percent; never above 100.
    pub unread_percent: u32,
    /// Whether Cache-Control and Pragma of requests are obeyed. only-if-cached and no-store are in
    /// any case.
    pub client_directives: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            targeted_fields: vec!["CDN-Cache-Control".into()],
            heuristic_percent: 10,
            heuristic_seconds_min: 0,
            heuristic_seconds_max: 86_400,
            negative_seconds_default: 0,
            negative_seconds_max: 3_600,
            lifetimes: Vec::new(),
            never_stores_cookies: false,
            stale_while_revalidate_seconds: 0,
            stale_if_error_seconds: 0,
            uncacheable_seconds: 120,
            unread_bytes_max: 1 << 20,
            unread_percent: 95,
            client_directives: true,
        }
    }
}

impl Policy {
    /// The lifetime of a response of this status that names none; `None`: a heuristic one.
    #[must_use]
    pub fn lifetime_of(&self, status: u16) -> Option<u32> {
        self.lifetimes.iter().find(|(of, _)| *of == status).map(|(_, seconds)| *seconds)
    }
}
