//! The settings of a cluster, and their keys.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use thalweg_serve::{ConfigFault, ServerConfig};
use url::Url;

use super::form::{MAYBE_ADDRESS, MAYBE_PATH, MAYBE_TEXT, PATH, TEXT, TEXTS, TIME};
use super::visitor::Keys;

/// Servers that share the fetching from origins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ClusterConfig {
    /// The URL of this server for its peers.
    pub url: String,
    /// The file with the secret of the cluster.
    pub token: PathBuf,
    /// The URLs of all servers or of the others; those of the file or of the DNS if empty.
    pub peers: Vec<String>,
    /// A file with them.
    pub peers_file: Option<PathBuf>,
    /// The name of SRV records of them.
    pub peers_srv: Option<String>,
    /// The DNS server for that; those of this host if not set.
    pub resolver: Option<SocketAddr>,
    /// The longest time between two look-ups.
    pub srv_time: Duration,
    /// The file (PEM) with the authorities that certificates of peers are verified by.
    pub ca: Option<PathBuf>,
    /// How long a connection to a peer may take.
    pub connect_time: Duration,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            url: String::new(),
            token: PathBuf::new(),
            peers: Vec::new(),
            peers_file: None,
            peers_srv: None,
            resolver: None,
            srv_time: Duration::from_secs(60),
            ca: None,
            connect_time: Duration::from_millis(500),
        }
    }
}

pub(super) fn cluster<K: Keys>(keys: &mut K, cluster: &mut ClusterConfig) {
    keys.required(
        "url",
        "URL by which the other servers reach this one, as their lists have it.",
        &TEXT.like("\"http://10.0.0.1:8080\""),
        &mut cluster.url,
    );
    keys.required(
        "token",
        "File with a secret that all servers of the cluster have, and nobody else.",
        &PATH.like("\"/etc/thalweg/cluster-token\""),
        &mut cluster.token,
    );
    keys.value(
        "peers",
        "URLs of the servers.",
        &TEXTS.like("[\"http://10.0.0.1:8080\", \"http://10.0.0.2:8080\"]"),
        &mut cluster.peers,
    );
    keys.value(
        "peers_file",
        "Or a file with them, one on a line, which is read again when it changes.",
        &MAYBE_PATH.like("\"/etc/thalweg/peers\""),
        &mut cluster.peers_file,
    );
    keys.value(
        "peers_srv",
        "Or the name of DNS records of type SRV with their names and ports.",
        &MAYBE_TEXT.like("\"_thalweg._tcp.example.org\""),
        &mut cluster.peers_srv,
    );
    keys.value(
        "resolver",
        "DNS server for `peers_srv`; those of this host if not set.",
        &MAYBE_ADDRESS.like("\"192.0.2.53:53\""),
        &mut cluster.resolver,
    );
    keys.value(
        "srv_time",
        "Maximum time between two look-ups of `peers_srv`; shorter if the records live shorter.",
        &TIME,
        &mut cluster.srv_time,
    );
    keys.value(
        "ca",
        "File (PEM) with the authorities that certificates of peers are verified by; those that this host trusts if \
         not set.",
        &MAYBE_PATH.like("\"/etc/thalweg/peers-ca.pem\""),
        &mut cluster.ca,
    );
    keys.value(
        "connect_time",
        "Maximum time to connect to a peer, and to complete the TLS handshake.",
        &TIME,
        &mut cluster.connect_time,
    );
}

/// The URL of a server of a cluster in the form that all servers compare.
///
/// # Errors
/// It is none, or has a path or a query.
pub(crate) fn server_url(text: &str) -> Result<String, String> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.filter(|url| url.path() == "/" && url.query().is_none() && url.username().is_empty());
    let url = url.ok_or_else(|| {
        format!("{text:?} is not the URL of a server; expected http:// or https://, a host, and perhaps a port")
    })?;
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// The faults of a cluster.
pub(super) fn faults(cluster: &ClusterConfig, server: &ServerConfig) -> Vec<ConfigFault> {
    let mut faults = Vec::new();
    let mut add = |at: &str, what: String| faults.push(ConfigFault { at: format!("cluster{at}"), what });
    if let Err(what) = server_url(&cluster.url) {
        add(".url", what);
    }
    for (index, peer) in cluster.peers.iter().enumerate() {
        if let Err(what) = server_url(peer) {
            add(&format!(".peers.{index}"), what);
        }
    }
    let sources = [!cluster.peers.is_empty(), cluster.peers_file.is_some(), cluster.peers_srv.is_some()];
    match sources.into_iter().filter(|is_set| *is_set).count() {
        1 => {}
        0 => add("", "the other servers are missing; set peers, peers_file or peers_srv".to_owned()),
        _ => add("", "there is one list of servers; keep one of peers, peers_file and peers_srv".to_owned()),
    }
    if cluster.peers_srv.as_deref().is_some_and(|name| !is_name(name)) {
        add(".peers_srv", "expected a name such as \"_thalweg._tcp.example.org\"".to_owned());
    }
    for (key, _) in [("connect_time", cluster.connect_time), ("srv_time", cluster.srv_time)]
        .into_iter()
        .filter(|(_, time)| time.is_zero())
    {
        add(&format!(".{key}"), "expected a time longer than 0".to_owned());
    }
    if !server.forwards() {
        add("", "a cluster is for mounts with origins, and no mount has any".to_owned());
    }
    faults
}

/// Whether a text is a name of the DNS (RFC 1035, 2.3.4).
fn is_name(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(|byte| byte.is_ascii_graphic());
    name.len() <= 253 && name.contains('.') && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use thalweg_serve::{ListenAddr, MountOrigin};

    use super::*;

    #[test]
    fn urls_of_servers_have_one_form() {
        for (text, url) in [
            ("http://A.example:80/", Some("http://a.example")),
            ("https://a.example", Some("https://a.example")),
            ("http://[::1]:8080", Some("http://[::1]:8080")),
            ("http://a.example/x", None),
            ("http://a.example?x", None),
            ("http://user@a.example", None),
            ("ftp://a.example", None),
            ("a.example:80", None),
            ("", None),
        ] {
            assert_eq!(server_url(text).ok().as_deref(), url, "{text}");
        }
    }

    #[test]
    fn faults_have_their_places() {
        let mut server = ServerConfig::new("", Vec::<ListenAddr>::new());
        server.sites[0].mounts[0].forwarding.origins = vec![MountOrigin::new("a")];
        let good = ClusterConfig {
            url: "http://10.0.0.1:8080".to_owned(),
            peers: vec!["http://10.0.0.2:8080".to_owned()],
            ..ClusterConfig::default()
        };
        let check = |change: fn(&mut ClusterConfig), expected: &[&str]| {
            let mut cluster = good.clone();
            change(&mut cluster);
            let found = faults(&cluster, &server);
            assert_eq!(found.iter().map(|fault| fault.at.as_str()).collect::<Vec<_>>(), expected, "{found:?}");
        };
        check(|_| {}, &[]);
        check(|cluster| cluster.url = "10.0.0.1".to_owned(), &["cluster.url"]);
        check(|cluster| cluster.peers.push("x".to_owned()), &["cluster.peers.1"]);
        check(|cluster| cluster.peers.clear(), &["cluster"]);
        check(|cluster| cluster.peers_file = Some("/x".into()), &["cluster"]);
        check(|cluster| cluster.connect_time = Duration::ZERO, &["cluster.connect_time"]);
        let srv = |cluster: &mut ClusterConfig| {
            cluster.peers.clear();
            cluster.peers_srv = Some("a..b".to_owned());
        };
        check(srv, &["cluster.peers_srv"]);
        server.sites[0].mounts[0].forwarding.origins.clear();
        assert_eq!(faults(&good, &server)[0].at, "cluster");
    }
}
