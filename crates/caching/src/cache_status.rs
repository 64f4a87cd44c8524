//! Cache-Status (RFC 9211): tells a client, or its operator, how a cache came to its answer.

use sfv::{Integer, KeyRef, ListSerializer, RefBareItem, StringRef, TokenRef};

use crate::fields::StoredFields;

/// How a cache handled a request: one member of Cache-Status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheStatus<'a> {
    /// Whether the answer came from the store.
    pub outcome: Outcome,
    /// The freshness left, in seconds; negative if the response is stale.
    pub ttl_seconds: Option<i64>,
    /// The key of the stored response. Left out if it has other characters than visible ASCII ones
    /// and spaces.
    pub key: Option<&'a str>,
    /// More for those who know the cache. Left out like `key`.
    pub detail: Option<&'a str>,
}

/// The source of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The store, without asking the origin.
    Hit,
    /// The origin was asked.
    Forward {
        /// Why.
        reason: ForwardReason,
        /// The status code of the origin's response, if one came and the client gets another one.
        status: Option<u16>,
        /// Whether the response was stored.
        stored: bool,
        /// Whether the request shared the fetch of another one.
        collapsed: bool,
    },
}

/// Why a request went to the origin (RFC 9211, 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardReason {
    /// The cache is configured not to handle the request.
    Bypass,
    /// The method's semantics want it.
    Method,
    /// No response to that URI is stored.
    UriMiss,
    /// Responses to that URI are stored, and none for these request fields.
    VaryMiss,
    /// No usable response is stored, for a reason that is not told apart.
    Miss,
    /// The directives of the request want it.
    Request,
    /// The stored response is stale.
    Stale,
    /// Not all of the wanted bytes are stored.
    Partial,
}

impl ForwardReason {
    /// The token of the reason.
    #[must_use]
    pub const fn token(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::UriMiss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Miss => "miss",
            Self::Request => "request",
            Self::Stale => "stale",
            Self::Partial => "partial",
        }
    }
}

impl CacheStatus<'_> {
    /// Adds the member as a field line behind those of caches nearer to the origin (RFC 9211, 2).
    /// `cache` names this cache.
    pub fn append(&self, cache: &str, fields: &mut StoredFields) {
        fields.push("Cache-Status", self.value(cache).as_bytes());
    }

    /// The member as the value of a field line. A `cache` with other characters than visible ASCII
    /// ones and spaces is written as `cache`.
    #[must_use]
    pub fn value(&self, cache: &str) -> String {
        let mut list = ListSerializer::new();
        let member = match (TokenRef::from_str(cache), StringRef::from_str(cache)) {
            (Ok(token), _) => list.bare_item(token),
            (_, Ok(text)) => list.bare_item(text),
            _ => list.bare_item(TokenRef::constant("cache")),
        };
        let mut parameters: Vec<(&'static KeyRef, RefBareItem<'_>)> = Vec::with_capacity(7);
        let key = KeyRef::constant;
        match self.outcome {
            Outcome::Hit => parameters.push((key("hit"), true.into())),
            Outcome::Forward { reason, status, stored, collapsed } => {
                parameters.push((key("fwd"), TokenRef::constant(reason.token()).into()));
                if let Some(status) = status {
                    parameters.push((key("fwd-status"), Integer::from(status).into()));
                }
                if stored {
                    parameters.push((key("stored"), true.into()));
                }
                if collapsed {
                    parameters.push((key("collapsed"), true.into()));
                }
            }
        }
        if let Some(ttl) = self.ttl_seconds.and_then(|seconds| Integer::try_from(seconds).ok()) {
            parameters.push((key("ttl"), ttl.into()));
        }
        for (name, text) in [("key", self.key), ("detail", self.detail)] {
            if let Some(text) = text.and_then(|text| StringRef::from_str(text).ok()) {
                parameters.push((key(name), text.into()));
            }
        }
        member.parameters(parameters);
        list.finish().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::{fields, shown};

    const HIT: CacheStatus<'static> = CacheStatus { outcome: Outcome::Hit, ttl_seconds: None, key: None, detail: None };

    fn forward(reason: ForwardReason) -> CacheStatus<'static> {
        CacheStatus { outcome: Outcome::Forward { reason, status: None, stored: false, collapsed: false }, ..HIT }
    }

    #[test]
    fn members() {
        let check = |status: CacheStatus<'_>, expected: &str| assert_eq!(status.value("thalweg"), expected);
        // RFC 9211, 2.
        check(HIT, "thalweg;hit");
        check(CacheStatus { ttl_seconds: Some(376), ..HIT }, "thalweg;hit;ttl=376");
        check(CacheStatus { ttl_seconds: Some(-412), ..HIT }, "thalweg;hit;ttl=-412");
        check(CacheStatus { ttl_seconds: Some(i64::MAX), ..HIT }, "thalweg;hit");
        for (reason, expected) in [
            (ForwardReason::Bypass, "thalweg;fwd=bypass"),
            (ForwardReason::Method, "thalweg;fwd=method"),
            (ForwardReason::UriMiss, "thalweg;fwd=uri-miss"),
            (ForwardReason::VaryMiss, "thalweg;fwd=vary-miss"),
            (ForwardReason::Miss, "thalweg;fwd=miss"),
            (ForwardReason::Request, "thalweg;fwd=request"),
            (ForwardReason::Stale, "thalweg;fwd=stale"),
            (ForwardReason::Partial, "thalweg;fwd=partial"),
        ] {
            check(forward(reason), expected);
        }
        let outcome =
            Outcome::Forward { reason: ForwardReason::Stale, status: Some(304), stored: true, collapsed: true };
        let status =
            CacheStatus { outcome, ttl_seconds: Some(60), key: Some("http://a/\"b\""), detail: Some("no-store") };
        check(
            status,
            "thalweg;fwd=stale;fwd-status=304;stored;collapsed;ttl=60;key=\"http://a/\\\"b\\\"\";detail=\"no-store\"",
        );
        check(CacheStatus { key: Some("/ä"), detail: Some("a\nb"), ..HIT }, "thalweg;hit");
    }

    #[test]
    fn names_of_caches() {
        let check = |cache: &str, expected: &str| assert_eq!(HIT.value(cache), expected);
        check("a.example:8080", "a.example:8080;hit");
        check("my cache", "\"my cache\";hit");
        check("2.example", "\"2.example\";hit");
        check("", "\"\";hit");
        check("ä", "cache;hit");
    }

    #[test]
    fn members_of_caches_nearer_to_the_origin_stay_before() {
        let mut lines = fields(&["Cache-Status: origin;hit", "A: 1"]);
        HIT.append("thalweg", &mut lines);
        assert_eq!(shown(&lines), ["Cache-Status: origin;hit", "A: 1", "Cache-Status: thalweg;hit"]);
    }
}
