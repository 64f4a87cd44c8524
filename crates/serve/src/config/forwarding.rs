//! Mounts that origins answer for: the origins, what is asked of them, and the disk cache in front
//! of them.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::percent_decode_str;
use thalweg_caching::Policy;

use crate::config::networks::Network;

/// The disk cache in front of all origins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskCacheConfig {
    /// The volumes; none: bodies that may be stored are kept in memory alone.
    pub volumes: Vec<VolumeConfig>,
    /// Most bytes of memory for bodies, where there is no volume.
    pub memory: u64,
}

impl Default for DiskCacheConfig {
    fn default() -> Self {
        Self { volumes: Vec::new(), memory: 256 << 20 }
    }
}

/// A volume of the disk cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeConfig {
    /// Its file or block device.
    pub path: PathBuf,
    /// The size with which the file is created if it does not exist; `None`: it has to exist.
    pub size: Option<u64>,
}

/// An origin: where objects are fetched from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OriginConfig {
    /// The name by which mounts refer to it.
    pub name: String,
    /// Another server: a URL of `http` or `https` to a folder.
    pub url: Option<String>,
    /// Or a bucket.
    pub s3: Option<S3Config>,
    /// Or a folder of this host whose disk is slow.
    pub tree: Option<PathBuf>,
    /// The version of HTTP.
    pub protocol: OriginProtocol,
    /// The authority that it is asked for, instead of that of its URL.
    pub host: Option<String>,
    /// The file (PEM) with the authorities that its certificate is verified by; `None`: those that
    /// this host trusts.
    pub ca: Option<PathBuf>,
    /// How long a connection may take to be established.
    pub connect_time: Duration,
    /// How long the addresses of its name are used before they are looked up again.
    pub resolve_time: Duration,
    /// How long the head of a response may take.
    pub head_time: Duration,
    /// How long a response may pause.
    pub idle_time: Duration,
    /// Most connections at once.
    pub connections_max: usize,
    /// Most connections that are kept without a request.
    pub idle_connections_max: usize,
    /// Most requests at once; further ones wait.
    pub requests_max: usize,
    /// Whether addresses of the origin in its responses are made those of the mount.
    pub rewrite_redirects: bool,
    /// How many redirects are followed, one after the other.
    pub follow_redirects: u32,
    /// The hosts that they may lead to.
    pub redirect_hosts: Vec<String>,
    /// The networks that they may lead to beside the public ones.
    pub redirect_networks: Vec<Network>,
    /// Changes of the fields of requests.
    pub request_headers: RequestHeaders,
}

/// The fields of requests to an origin.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RequestHeaders {
    /// Fields that are added, in the place of the client's.
    pub set: Vec<(String, String)>,
    /// The same with their values in files.
    pub files: Vec<(String, PathBuf)>,
    /// Fields of clients that are not sent.
    pub remove: Vec<String>,
    /// Fields of clients that are sent; `None`: all but those that are removed.
    pub pass: Option<Vec<String>>,
}

impl RequestHeaders {
    /// Whether the origin gets a field as the client sent it.
    #[must_use]
    pub fn passes(&self, name: &str) -> bool {
        let is = |other: &str| other.eq_ignore_ascii_case(name);
        let is_set = self.set.iter().any(|(other, _)| is(other)) || self.files.iter().any(|(other, _)| is(other));
        let is_passed = self.pass.as_ref().is_none_or(|pass| pass.iter().any(|other| is(other)));
        is_passed && !is_set && !self.remove.iter().any(|other| is(other))
    }
}

impl OriginConfig {
    /// The defaults, without a place.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            url: None,
            s3: None,
            tree: None,
            protocol: OriginProtocol::Auto,
            host: None,
            ca: None,
            connect_time: Duration::from_secs(10),
            resolve_time: Duration::from_secs(30),
            head_time: Duration::from_secs(60),
            idle_time: Duration::from_secs(60),
            connections_max: 64,
            idle_connections_max: 64,
            requests_max: 256,
            rewrite_redirects: true,
            follow_redirects: 0,
            redirect_hosts: Vec::new(),
            redirect_networks: Vec::new(),
            request_headers: RequestHeaders::default(),
        }
    }
}

impl OriginConfig {
    /// The value of Authorization that the user and password in its URL stand for.
    #[must_use]
    pub fn url_credentials(&self) -> Option<String> {
        let (_, user, _) = parts_with_user(self.url.as_deref()?)?;
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        let mut pair = percent_decode_str(name).collect::<Vec<u8>>();
        pair.push(b':');
        pair.extend(percent_decode_str(password));
        Some(format!("Basic {}", BASE64_STANDARD.encode(pair)))
    }

    /// Whether the origin gets a field as the client sent it: a bucket and a tree get no
    /// credentials.
    #[must_use]
    pub fn passes_authorization(&self) -> bool {
        let is_passed = self.request_headers.passes("authorization");
        self.url.as_deref().is_some_and(|url| parts_with_user(url).is_none()) && is_passed
    }
}

/// A URL without the user and password in it, which are for nobody's eyes.
#[must_use]
pub fn without_user(url: &str) -> String {
    parts_with_user(url).map_or_else(|| url.to_owned(), |(scheme, _, rest)| format!("{scheme}{rest}"))
}

/// A URL up to its user, the user and password, and what follows the `@`; `None` without a user.
fn parts_with_user(url: &str) -> Option<(&str, &str, &str)> {
    let start = url.find("://")? + 3;
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    let at = start + url[start..end].rfind('@')?;
    Some((&url[..start], &url[start..at], &url[at + 1..]))
}

/// A bucket of S3.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct S3Config {
    /// The URL of the service.
    pub endpoint: String,
    /// The bucket.
    pub bucket: String,
    /// The region that requests are signed for.
    pub region: String,
    /// The beginning of the keys of all objects.
    pub prefix: String,
    /// Whether the bucket is a part of the host, and not of the path.
    pub virtual_host: bool,
    /// The file that has the identifier of the key and its secret, each on a line of its own;
    /// `None`: requests are not signed.
    pub credentials: Option<PathBuf>,
}

/// The version of HTTP that an origin is asked by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OriginProtocol {
    /// HTTP/2 if TLS negotiates it, else HTTP/1.1.
    #[default]
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, without TLS too.
    Http2,
}

/// The origins of a mount, and what is asked of them and kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forwarding {
    /// The origins, in the order in which they are asked; empty: the mount has a folder.
    pub origins: Vec<MountOrigin>,
    /// The methods that are forwarded, in capitals; GET and HEAD are among them.
    pub methods: Vec<String>,
    /// Most bytes of the content of a request.
    pub content_bytes_max: usize,
    /// The longest time for which 404, 410 and errors are kept.
    pub negative_time_max: Duration,
    /// How long requests to a name whose response was not stored do not wait for one another.
    pub uncacheable_memory: Duration,
    /// Most bytes that are left of a fetch which goes on without a client that reads it.
    pub unread_bytes_max: u64,
    /// Or the share of its bytes that have to be there for that, in percent.
    pub unread_percent: u32,
    /// The lifetimes of responses that name none, by status.
    pub lifetimes: Vec<(u16, Duration)>,
    /// Whether responses with Set-Cookie are stored.
    pub set_cookie: SetCookie,
    /// The fields of requests that all responses depend on.
    pub key_headers: Vec<String>,
    /// The fields of requests that neither the cache nor an origin gets.
    pub drop_headers: Vec<String>,
    /// How long after its lifetime a response may be used while it is validated, if it does not say
    /// so itself.
    pub stale_while_revalidate: Duration,
    /// How long after its lifetime a response may stand in for a failing origin, if it does not say
    /// so itself.
    pub stale_if_error: Duration,
    /// How much of the age of its last modification a response without a lifetime is fresh for.
    pub heuristic_percent: u32,
    /// Patterns of paths below the mount, whose objects are validated together.
    pub consistent: Vec<String>,
}

impl Forwarding {
    /// The settings of a mount that says nothing but its origins.
    pub fn of(origins: impl IntoIterator<Item = MountOrigin>) -> Self {
        Self { origins: origins.into_iter().collect(), ..Self::default() }
    }
}

impl Default for Forwarding {
    fn default() -> Self {
        let policy = Policy::default();
        let seconds = |seconds: u32| Duration::from_secs(seconds.into());
        Self {
            origins: Vec::new(),
            methods: vec!["GET".to_owned(), "HEAD".to_owned()],
            content_bytes_max: 1 << 20,
            negative_time_max: seconds(policy.negative_seconds_max),
            uncacheable_memory: seconds(policy.uncacheable_seconds),
            unread_bytes_max: policy.unread_bytes_max,
            unread_percent: policy.unread_percent,
            lifetimes: Vec::new(),
            set_cookie: SetCookie::default(),
            key_headers: Vec::new(),
            drop_headers: Vec::new(),
            stale_while_revalidate: seconds(policy.stale_while_revalidate_seconds),
            stale_if_error: seconds(policy.stale_if_error_seconds),
            heuristic_percent: policy.heuristic_percent,
            consistent: Vec::new(),
        }
    }
}

impl Forwarding {
    /// The choices of RFC 9111 that these settings make.
    #[must_use]
    pub fn policy(&self) -> Policy {
        let seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
        Policy {
            heuristic_percent: self.heuristic_percent,
            negative_seconds_max: seconds(self.negative_time_max),
            uncacheable_seconds: seconds(self.uncacheable_memory),
            unread_bytes_max: self.unread_bytes_max,
            unread_percent: self.unread_percent,
            lifetimes: self.lifetimes.iter().map(|(status, time)| (*status, seconds(*time))).collect(),
            never_stores_cookies: self.set_cookie == SetCookie::Never,
            stale_while_revalidate_seconds: seconds(self.stale_while_revalidate),
            stale_if_error_seconds: seconds(self.stale_if_error),
            ..Policy::default()
        }
    }
}

/// Whether responses with Set-Cookie are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SetCookie {
    /// As others, if they say how long they are fresh (RFC 9111, 7.3).
    #[default]
    Store,
    /// Never.
    Never,
}

/// An origin of a mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountOrigin {
    /// Its name.
    pub name: String,
    /// Its share of objects among neighbours of the order that have a weight, too; `None`: it is
    /// asked in its turn.
    pub weight: Option<u32>,
}

impl MountOrigin {
    /// One that is asked in its turn.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), weight: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_a_url_is_sent_and_not_shown() {
        let check = |url: &str, credentials: Option<&str>, shown: &str| {
            let origin = OriginConfig { url: Some(url.to_owned()), ..OriginConfig::new("o") };
            assert_eq!(origin.url_credentials().as_deref(), credentials, "{url}");
            assert_eq!(without_user(url), shown, "{url}");
            assert_eq!(origin.passes_authorization(), credentials.is_none(), "{url}");
        };
        check("https://o.example/a@b", None, "https://o.example/a@b");
        check("https://user:pa%40ss@o.example:81/a", Some("Basic dXNlcjpwYUBzcw=="), "https://o.example:81/a");
        check("https://user@o.example", Some("Basic dXNlcjo="), "https://o.example");
        check("https://a:b@c@o.example/", Some("Basic YTpiQGM="), "https://o.example/");
        check("https://o.example?a=b@c", None, "https://o.example?a=b@c");
    }

    #[test]
    fn an_origin_gets_a_clients_credentials_unless_its_settings_say_otherwise() {
        let check = |change: fn(&mut OriginConfig), expected: bool| {
            let mut origin = OriginConfig { url: Some("https://o.example/".to_owned()), ..OriginConfig::new("o") };
            change(&mut origin);
            assert_eq!(origin.passes_authorization(), expected, "{origin:?}");
        };
        check(|_| {}, true);
        check(|origin| origin.request_headers.remove = vec!["Authorization".to_owned()], false);
        check(|origin| origin.request_headers.pass = Some(vec!["Accept".to_owned()]), false);
        check(|origin| origin.request_headers.pass = Some(vec!["authorization".to_owned()]), true);
        check(|origin| origin.request_headers.set = vec![("authorization".to_owned(), "x".to_owned())], false);
        check(|origin| origin.request_headers.files = vec![("Authorization".to_owned(), "/x".into())], false);
        check(|origin| origin.url = None, false);
    }
}
