//! Mounts that origins answer for: the origins, what is asked of them, and the disk cache in front
//! of them.

use std::path::PathBuf;
use std::time::Duration;

use thalweg_caching::Policy;

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
        }
    }
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
            stale_while_revalidate_seconds: seconds(self.stale_while_revalidate),
            stale_if_error_seconds: seconds(self.stale_if_error),
            ..Policy::default()
        }
    }
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
