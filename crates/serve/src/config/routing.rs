//! Requests that are answered from elsewhere: redirects and rewrites.

/// Where requests are sent instead. The values are templates with placeholders.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Routing {
    /// The address that clients are redirected to.
    pub redirect: Option<String>,
    /// The status of the redirect; `None` is [`Self::STATUS`].
    pub redirect_status: Option<u16>,
    /// The path of the site that is served instead of the requested one.
    pub rewrite: Option<String>,
}

impl Routing {
    /// The status of a redirect that names none. Browsers keep a permanent one (301, 308) for good,
    /// and a mistake in it could not be taken back.
    pub const STATUS: u16 = 302;

    /// The statuses that a redirect may have.
    pub const STATUSES: [u16; 5] = [301, 302, 303, 307, 308];

    /// Whether requests go on as they are.
    pub fn is_empty(&self) -> bool {
        self.redirect.is_none() && self.rewrite.is_none()
    }
}
