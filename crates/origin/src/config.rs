//! The settings of origins and groups: plain values, which the caller reads from wherever it has
//! them. Nothing here is opened or resolved.

use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use crate::credentials::Credentials;
use crate::reach::Reach;

/// One origin.
#[derive(Clone, Debug)]
pub struct OriginConfig {
    /// Its name, for logs and counters.
    pub name: String,
    /// Its kind and place.
    pub kind: OriginKind,
    /// Its share of the objects in a group by weight; at least 1.
    pub weight: u32,
    /// The protocol of its connections.
    pub protocol: Protocol,
    /// The Host field (and `:authority`) to send in the place of the URL's, for HTTP origins.
    pub host: Option<String>,
    /// Request fields that are added, in the place of those of the same name, for HTTP origins.
    pub fields: Vec<(String, String)>,
    /// Fields of requests that are not sent: names in lower case.
    pub fields_removed: Vec<String>,
    /// Fields that are sent alone, beside those that say what is asked for; `None`: all.
    pub fields_passed: Option<Vec<String>>,
    /// The authorities that are trusted for TLS.
    pub trust: Trust,
    /// The addresses that it may have.
    pub reach: Reach,
    /// Time limits.
    pub times: Times,
    /// Limits of numbers and sizes.
    pub limits: Limits,
}

impl OriginConfig {
    /// An origin with the usual limits.
    pub fn new(name: impl Into<String>, kind: OriginKind) -> Self {
        Self {
            name: name.into(),
            kind,
            weight: 1,
            protocol: Protocol::Auto,
            host: None,
            fields: Vec::new(),
            fields_removed: Vec::new(),
            fields_passed: None,
            trust: Trust::System,
            reach: Reach::Anywhere,
            times: Times::default(),
            limits: Limits::default(),
        }
    }
}

/// The kind of an origin, and where it is.
#[derive(Clone, Debug)]
pub enum OriginKind {
    /// An HTTP server.
    Http {
        /// `http` or `https`; its path is put in front of the requested one, its query is ignored.
        base: Url,
    },
    /// A bucket of an S3 server, for reading.
    S3(S3Config),
    /// A tree of local files on a slow file system, for reading.
    Tree {
        /// Its root, which no path leaves.
        root: PathBuf,
    },
}

/// A bucket.
#[derive(Clone, Debug)]
pub struct S3Config {
    /// The server: `http` or `https`.
    pub endpoint: Url,
    /// The name of the bucket.
    pub bucket: String,
    /// The region, which is a part of signatures; `us-east-1` for most servers that have none.
    pub region: String,
    /// Put in front of all keys, as it stands: `pub/` makes `/a` the key `pub/a`.
    pub prefix: String,
    /// The bucket is the first part of the path (MinIO and others); if not, of the host name.
    pub path_style: bool,
    /// The credentials that requests are signed with.
    pub credentials: Credentials,
}

/// The protocol of connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    /// Over TLS the one that the server chooses, HTTP/2 if it can (ALPN); HTTP/1.1 otherwise.
    #[default]
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2; without TLS with prior knowledge (RFC 9113, 3.3).
    Http2,
}

/// The authorities that are trusted for TLS.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Trust {
    /// The authorities that the system trusts.
    #[default]
    System,
    /// The authorities of a text in PEM.
    Pem(Vec<u8>),
    /// Every certificate is accepted. For tests.
    Insecure,
}

/// Time limits of an origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// For a connection: resolving, connecting and the handshakes together.
    pub connect: Duration,
    /// After which the addresses of its name are looked up again.
    pub resolve: Duration,
    /// From the request to the end of the response's head.
    pub head: Duration,
    /// Between two pieces of a body.
    pub between_bytes: Duration,
    /// For which a request waits for others, and for a connection that they use.
    pub queue: Duration,
    /// After which an unused connection is closed.
    pub idle: Duration,
    /// After which a connection takes no further requests, so that a changed address is noticed.
    pub connection_age: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            resolve: Duration::from_secs(30),
            head: Duration::from_secs(60),
            between_bytes: Duration::from_secs(60),
            queue: Duration::from_secs(30),
            idle: Duration::from_secs(50),
            connection_age: Duration::from_secs(600),
        }
    }
}

/// Limits of an origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections, at least 1.
    pub connections_max: usize,
    /// Unused connections that are kept.
    pub idle_max: usize,
    /// Requests at once whose response is not complete, at least 1. Of a tree: files that are read
    /// at once.
    pub requests_max: usize,
    /// Requests that wait beyond those; further ones fail as overloaded.
    pub queue_max: usize,
    /// Requests at once on one connection of HTTP/2, at least 1.
    pub streams_max: usize,
    /// Bytes of a response's head.
    pub head_bytes_max: usize,
    /// Entries of a listing.
    pub entries_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 64,
            idle_max: 16,
            requests_max: 256,
            queue_max: 1024,
            streams_max: 100,
            head_bytes_max: 64 << 10,
            entries_max: 100_000,
        }
    }
}

/// The settings of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupConfig {
    /// The order in which origins are asked.
    pub order: Order,
    /// When origins are skipped.
    pub health: HealthRules,
}

/// The order in which the origins of a group are asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// The first one that is up; the next one only after a failure.
    #[default]
    Failover,
    /// Each gets objects in proportion to its weight, and all requests for these; after a failure
    /// the next one is asked.
    Weighted,
}

/// When an origin is skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HealthRules {
    /// Failures in a row after which it is skipped; 0: never. The only origin of a group is never
    /// skipped.
    pub failures_max: u32,
    /// For how long at first; it doubles with each failed probe.
    pub wait_min: Duration,
    /// For how long at most.
    pub wait_max: Duration,
}

impl Default for HealthRules {
    fn default() -> Self {
        Self { failures_max: 3, wait_min: Duration::from_secs(1), wait_max: Duration::from_secs(30) }
    }
}

/// Settings that make no origin.
#[derive(Debug, thiserror::Error)]
#[error("origin {name}: {reason}")]
pub struct ConfigError {
    /// The name of the origin; empty for the group.
    pub name: String,
    /// The reason, with advice.
    pub reason: String,
}
