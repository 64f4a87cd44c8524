//! The keys of origins, of the disk cache in front of them, and of mounts that they answer for.

use thalweg_serve::{DiskCacheConfig, Forwarding, OriginConfig, OriginProtocol, RequestHeaders, S3Config, SetCookie};

use super::cluster::{ClusterConfig, cluster};
use super::form::{
    BOOL, COUNT, COUNT_32, FIELD_FILES, HEADERS, LIFETIMES, MAYBE_PATH, MAYBE_TEXT, MAYBE_TEXTS, MAYBE_URL,
    MOUNT_ORIGINS, NETWORKS, Named, SIZE, SIZE_64, TEXT, TEXTS, TIME, VOLUMES, name,
};
use super::visitor::Keys;

pub(super) fn origins<K: Keys>(
    keys: &mut K,
    cache: &mut DiskCacheConfig,
    origins: &mut Vec<OriginConfig>,
    all: &mut Option<ClusterConfig>,
) {
    keys.table("disk_cache", "Cache of the responses of origins.", cache, disk_cache);
    keys.tables(
        "origin",
        "An origin: where mounts without a root get their objects.",
        origins,
        || OriginConfig::new(""),
        origin,
    );
    keys.optional(
        "cluster",
        "Servers with the same mounts, which fetch each part of an object from its origins once.",
        all,
        ClusterConfig::default,
        cluster,
    );
}

fn disk_cache<K: Keys>(keys: &mut K, cache: &mut DiskCacheConfig) {
    keys.value(
        "volumes",
        "Files or block devices that keep responses of origins, each a path or { path, size }. A file with a size is \
         created if it does not exist. Without a volume, responses are kept in memory.",
        &VOLUMES,
        &mut cache.volumes,
    );
    keys.value("memory", "Memory for responses of origins, if there is no volume.", &SIZE_64, &mut cache.memory);
}

fn origin<K: Keys>(keys: &mut K, origin: &mut OriginConfig) {
    keys.required("name", "Name by which mounts refer to the origin.", &TEXT.like("\"debian\""), &mut origin.name);
    keys.value(
        "url",
        "URL of a folder of another server, http or https.",
        &MAYBE_URL.like("\"https://deb.debian.org/debian/\""),
        &mut origin.url,
    );
    keys.value("tree", "Or a folder of this host that is slow to read.", &MAYBE_PATH, &mut origin.tree);
    keys.value(
        "protocol",
        "Version of HTTP: \"auto\" for HTTP/2 if TLS negotiates it, \"http1\", or \"http2\" without TLS, too.",
        &name("\"auto\""),
        &mut origin.protocol,
    );
    keys.value(
        "host",
        "Host that the origin is asked for, instead of that of its URL.",
        &MAYBE_TEXT.like("\"mirror.example.org\""),
        &mut origin.host,
    );
    keys.value(
        "ca",
        "File (PEM) with the authorities that the certificate of the origin is verified by; those that this host \
         trusts if not set.",
        &MAYBE_PATH.like("\"/etc/thalweg/origin-ca.pem\""),
        &mut origin.ca,
    );
    keys.value(
        "connect_time",
        "Maximum time to resolve the name, connect and complete the TLS handshake.",
        &TIME,
        &mut origin.connect_time,
    );
    keys.value(
        "resolve_time",
        "Time for which the addresses of the name are used before a new connection has them looked up again; \"0s\" looks \
         up for each connection.",
        &TIME,
        &mut origin.resolve_time,
    );
    keys.value("head_time", "Maximum time from a request to the head of its response.", &TIME, &mut origin.head_time);
    keys.value("idle_time", "Maximum time between two pieces of a response.", &TIME, &mut origin.idle_time);
    keys.value("connections_max", "Maximum number of connections.", &COUNT, &mut origin.connections_max);
    keys.value(
        "idle_connections_max",
        "Maximum number of connections that are kept open between requests.",
        &COUNT,
        &mut origin.idle_connections_max,
    );
    keys.value(
        "requests_max",
        "Maximum number of requests in progress; further ones wait.",
        &COUNT,
        &mut origin.requests_max,
    );
    redirects(keys, origin);
    // Tables behind the keys, as TOML wants it.
    keys.table(
        "request_headers",
        "Header fields of requests to the origin.",
        &mut origin.request_headers,
        request_headers,
    );
    keys.optional("s3", "A bucket, instead of `url` and `tree`.", &mut origin.s3, S3Config::default, s3);
}

fn redirects<K: Keys>(keys: &mut K, origin: &mut OriginConfig) {
    keys.value(
        "rewrite_redirects",
        "Make addresses of the origin in Location and Content-Location those of the mount.",
        &BOOL,
        &mut origin.rewrite_redirects,
    );
    keys.value(
        "follow_redirects",
        "Number of redirects to other hosts that are followed one after the other; what they lead to is stored under \
         the first URL.",
        &COUNT_32,
        &mut origin.follow_redirects,
    );
    keys.value(
        "redirect_hosts",
        "Hosts that followed redirects may lead to, with a port if it is not the usual one; *.example.org is for all \
         below example.org.",
        &TEXTS.like("[\"*.example.org\"]"),
        &mut origin.redirect_hosts,
    );
    keys.value(
        "redirect_networks",
        "Private networks that followed redirects may lead to; public addresses are always allowed.",
        &NETWORKS.like("[\"10.1.0.0/16\"]"),
        &mut origin.redirect_networks,
    );
}

fn request_headers<K: Keys>(keys: &mut K, headers: &mut RequestHeaders) {
    keys.value(
        "set",
        "Fields to send instead of those of clients.",
        &HEADERS.like("{ X-Mirror = \"1\" }"),
        &mut headers.set,
    );
    keys.value(
        "files",
        "The same with the values in files, such as credentials, which do not make responses private.",
        &FIELD_FILES,
        &mut headers.files,
    );
    keys.value("remove", "Fields of clients that are not sent.", &TEXTS.like("[\"Cookie\"]"), &mut headers.remove);
    keys.value(
        "pass",
        "Fields of clients that are sent, beside ranges and conditions; all if not set.",
        &MAYBE_TEXTS.like("[\"Accept\", \"Accept-Encoding\"]"),
        &mut headers.pass,
    );
}

fn s3<K: Keys>(keys: &mut K, s3: &mut S3Config) {
    keys.required("endpoint", "URL of the service.", &TEXT.like("\"https://s3.example.org\""), &mut s3.endpoint);
    keys.required("bucket", "Name of the bucket.", &TEXT.like("\"mirror\""), &mut s3.bucket);
    keys.value("region", "Region that requests are signed for.", &TEXT, &mut s3.region);
    keys.value("prefix", "Beginning of the keys of all objects.", &TEXT, &mut s3.prefix);
    keys.value(
        "virtual_host",
        "Put the bucket in front of the host name instead of the path.",
        &BOOL,
        &mut s3.virtual_host,
    );
    keys.value(
        "credentials",
        "File with the ID of an access key and its secret, one line each; requests are not signed if not set.",
        &MAYBE_PATH.like("\"/etc/thalweg/s3-key\""),
        &mut s3.credentials,
    );
}

pub(super) fn forwarding<K: Keys>(keys: &mut K, forwarding: &mut Forwarding) {
    keys.value(
        "origins",
        "Origins that answer, instead of a root: names, in the order in which they are asked, or { name, weight }, \
         each asked for its share of objects.",
        &MOUNT_ORIGINS,
        &mut forwarding.origins,
    );
    keys.value(
        "methods",
        "Methods that are forwarded to the origins.",
        &TEXTS.like("[\"GET\", \"HEAD\"]"),
        &mut forwarding.methods,
    );
    keys.value(
        "content_bytes_max",
        "Maximum size of the content of a forwarded request.",
        &SIZE,
        &mut forwarding.content_bytes_max,
    );
    keys.value(
        "negative_time_max",
        "Maximum time for which 404, 410 and errors of origins are kept.",
        &TIME,
        &mut forwarding.negative_time_max,
    );
    keys.value(
        "uncacheable_memory",
        "Time for which requests for a URL whose response was not stored do not wait for one another.",
        &TIME,
        &mut forwarding.uncacheable_memory,
    );
    keys.value(
        "unread_bytes_max",
        "Maximum number of bytes left of a fetch that goes on when no client reads it any more.",
        &SIZE_64,
        &mut forwarding.unread_bytes_max,
    );
    keys.value(
        "unread_percent",
        "Share of the bytes of a fetch, in percent, with which it goes on, too; never above 100.",
        &COUNT_32,
        &mut forwarding.unread_percent,
    );
    keeping(keys, forwarding);
    keys.value(
        "heuristic_percent",
        "Share of the time since its last modification for which a response that names no lifetime is fresh.",
        &COUNT_32,
        &mut forwarding.heuristic_percent,
    );
    keys.value(
        "consistent",
        "Patterns of paths below the mount whose objects are validated together, such as the signed metadata of a \
         package archive; with `**`, each folder below the part in front of it is a set.",
        &TEXTS.like("[\"dists/**\"]"),
        &mut forwarding.consistent,
    );
}

fn keeping<K: Keys>(keys: &mut K, forwarding: &mut Forwarding) {
    keys.value(
        "lifetimes",
        "Times for which responses that name none are fresh, by status, instead of heuristic ones.",
        &LIFETIMES,
        &mut forwarding.lifetimes,
    );
    keys.value(
        "set_cookie",
        "Whether responses with Set-Cookie are stored: \"store\", like others, or \"never\".",
        &name("\"never\""),
        &mut forwarding.set_cookie,
    );
    keys.value(
        "key_headers",
        "Fields of requests that all responses depend on, as if they named them in Vary.",
        &TEXTS.like("[\"Accept-Language\"]"),
        &mut forwarding.key_headers,
    );
    keys.value(
        "drop_headers",
        "Fields of requests that neither the cache nor an origin gets.",
        &TEXTS.like("[\"Cookie\"]"),
        &mut forwarding.drop_headers,
    );
    keys.value(
        "stale_while_revalidate",
        "Time for which a stale response is used while it is validated, if it does not say so itself.",
        &TIME,
        &mut forwarding.stale_while_revalidate,
    );
    keys.value(
        "stale_if_error",
        "Time for which a stale response is used when all origins fail, if it does not say so itself.",
        &TIME,
        &mut forwarding.stale_if_error,
    );
}

impl Named for OriginProtocol {
    const NAMES: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("http1", Self::Http1), ("http2", Self::Http2)];
}

impl Named for SetCookie {
    const NAMES: &'static [(&'static str, Self)] = &[("store", Self::Store), ("never", Self::Never)];
}
