//! Mounts: places in the server's name space that origins answer for.

use std::sync::Arc;

use thalweg_cache::Key;
use thalweg_caching::Policy;

use crate::consistent::ConsistentRule;
use crate::upstream::Upstream;

/// A mount, as the tier is given it.
pub struct Mount {
    /// Its name in keys of the store, such as `mirror.example/debian/`: what is stored under one
    /// name is found again by whatever mount has it.
    pub name: Box<str>,
    /// The path that it is served at, with a slash at the end.
    pub path: Box<str>,
    /// The choices of RFC 9111.
    pub policy: Policy,
    /// The sets of objects that are validated together.
    pub consistent: Vec<ConsistentRule>,
    /// The fields of requests that stand apart.
    pub request_fields: RequestFields,
    /// Its origins.
    pub upstream: Arc<dyn Upstream>,
}

/// The fields of requests to a mount that stand apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFields {
    /// Fields that neither the cache nor an origin gets to see.
    pub dropped: Vec<Box<str>>,
    /// Fields that all responses depend on.
    pub key: Vec<Box<str>>,
}

impl Mount {
    /// The name of an object, which its key is made of. A target begins with a slash.
    pub(crate) fn object_name(&self, target: &str) -> String {
        let name = self.name.trim_end_matches('/');
        format!("{name}{target}")
    }

    /// The URI of a target, as the authority that a client asked has it.
    pub(crate) fn uri(&self, authority: &str, target: &str) -> String {
        let authority = if authority.is_empty() { "localhost" } else { authority };
        let path = self.path.trim_end_matches('/');
        format!("http://{authority}{path}{target}")
    }

    /// The target that a URI of the same authority has below this mount.
    pub(crate) fn target<'u>(&self, authority: &str, uri: &'u str) -> Option<&'u str> {
        let base = self.uri(authority, "");
        let target = uri.strip_prefix(&base)?;
        target.starts_with('/').then_some(target)
    }

    /// The group that all objects of the mount are in.
    pub(crate) fn group(&self) -> u32 {
        group_of(&self.name, "")
    }
}

/// The number of a group of an origin (RFC 9875), never 0.
pub(crate) fn group_of(mount: &str, name: &str) -> u32 {
    let key = Key::of(format!("group\0{mount}\0{name}").as_bytes());
    u32::from_le_bytes([key.0[0], key.0[1], key.0[2], key.0[3]]).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::{BoxFuture, UpstreamFailure, UpstreamRequest, UpstreamResponse};

    struct Nothing;

    impl Upstream for Nothing {
        fn fetch(&self, _: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamFailure>> {
            Box::pin(async { Err(UpstreamFailure { status: 502, reason: "nothing".into() }) })
        }
    }

    #[test]
    fn uris_and_targets() {
        let check = |path: &str, uri: &str, expected: Option<&str>| {
            let policy = Policy::default();
            let (consistent, upstream) = (Vec::new(), Arc::new(Nothing));
            let (name, request_fields) = ("m".into(), RequestFields::default());
            let mount = Mount { name, path: path.into(), policy, consistent, request_fields, upstream };
            assert_eq!(mount.target("a.example", uri), expected, "{path} {uri}");
            if let Some(target) = expected {
                assert_eq!(mount.uri("a.example", target), uri);
            }
        };
        check("/", "http://a.example/x?y", Some("/x?y"));
        check("/debian/", "http://a.example/debian/x", Some("/x"));
        check("/debian/", "http://a.example/debianx", None);
        check("/debian/", "http://b.example/debian/x", None);
    }
}
