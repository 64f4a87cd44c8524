//! The cluster of a server: its own place in it, and the list of the other servers, which is
//! written in the configuration, in a file or in the DNS.
//!
//! A list that cannot be read, or that names no server, changes nothing: the one of before stays.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use thalweg_origin::{
    GroupConfig, Limits, OriginConfig, OriginGroup, OriginKind, Service, Times, Trust, look_up_service,
};
use thalweg_tier::{Clock, Cluster, ClusterConfig as ClusterPlace, Log, Peer, RuntimeHandle, Upstream};
use url::Url;

use crate::configuration::{ClusterConfig, server_url};
use crate::exit::Failure;

/// Bytes that a token has at least, so that it cannot be guessed.
const TOKEN_BYTES_MIN: usize = 16;

/// The interval at which a file is read.
const FILE_TIME: Duration = Duration::from_secs(1);
/// The least interval between two look-ups, whatever the records say, and that after a failure.
const SRV_TIME_MIN: Duration = Duration::from_secs(1);
const SRV_RETRY_TIME: Duration = Duration::from_secs(5);

/// Most servers of a cluster.
const SERVERS_MAX: usize = 1000;

/// The contents of the files that origins and clusters name: certificates, keys, tokens.
pub(super) type OriginFiles = BTreeMap<PathBuf, Vec<u8>>;

/// The place of this server in its cluster.
#[derive(Clone, PartialEq)]
pub(super) struct Identity {
    /// Its URL.
    pub url: String,
    token: Vec<u8>,
    ca: Option<Vec<u8>>,
    connect_time: Duration,
}

/// The list of the servers of a cluster.
pub(super) struct Membership {
    source: Source,
    scheme: String,
    servers: Vec<String>,
    /// When the source is looked at again.
    next: Instant,
    /// The look-up under way.
    answer: Option<Receiver<io::Result<Service>>>,
    /// The last failure, which is reported once.
    failure: Option<String>,
}

#[derive(Clone, PartialEq)]
enum Source {
    List(Vec<String>),
    File(PathBuf),
    Records { name: String, resolver: Option<SocketAddr>, interval: Duration },
}

/// The files that a cluster names.
pub(super) fn named_files(cluster: &ClusterConfig) -> Vec<PathBuf> {
    let ClusterConfig { token, peers_file, ca, .. } = cluster;
    [Some(token), peers_file.as_ref(), ca.as_ref()].into_iter().flatten().cloned().collect()
}

impl Identity {
    /// The place that the configuration has for this server.
    ///
    /// # Errors
    /// The URL or the token cannot be used.
    pub(super) fn of(cluster: &ClusterConfig, files: &OriginFiles) -> Result<Self, Failure> {
        let token = files.get(&cluster.token).map_or(&[][..], |bytes| bytes.trim_ascii());
        if token.len() < TOKEN_BYTES_MIN {
            return Err(Failure::usage(format!(
                "the token of the cluster in {} has fewer than {TOKEN_BYTES_MIN} bytes; make one with \
                 `head -c 32 /dev/urandom | base64`",
                cluster.token.display()
            )));
        }
        Ok(Self {
            url: server_url(&cluster.url).map_err(Failure::usage)?,
            token: token.to_vec(),
            ca: cluster.ca.as_ref().and_then(|path| files.get(path)).cloned(),
            connect_time: cluster.connect_time,
        })
    }

    /// The cluster in front of the origins of a mount.
    pub(super) fn cluster(&self, mount: &str, clock: Clock, log: Log, origin: Arc<dyn Upstream>) -> Cluster {
        let place = ClusterPlace { mount, own_name: &self.url, secret: &self.token, clock, log };
        Cluster::new(place, origin)
    }

    /// Another server, as far as a mount is concerned; `None` if its URL cannot be used.
    pub(super) fn peer(&self, server: &str, path: &str, host: Option<&str>) -> Option<Arc<Peer>> {
        let base = Url::parse(&format!("{server}{path}")).ok()?;
        let mut origin = OriginConfig::new(server, OriginKind::Http { base });
        origin.host = host.map(str::to_owned);
        origin.trust = self.ca.clone().map_or(Trust::System, Trust::Pem);
        origin.times = Times { connect: self.connect_time, ..Times::default() };
        // Each download through this server may be one of a peer's.
        origin.limits = Limits { connections_max: 1024, idle_max: 64, requests_max: 4096, ..Limits::default() };
        let group = |origin: OriginConfig| OriginGroup::new(vec![origin], GroupConfig::default()).ok().map(Arc::new);
        Some(Arc::new(Peer::new(server, group(origin.clone())?, group(origin)?)))
    }
}

impl Membership {
    /// The list that the configuration names. The DNS is asked later.
    ///
    /// # Errors
    /// The file names no server, or something else.
    pub(super) fn of(cluster: &ClusterConfig, files: &OriginFiles) -> Result<Self, Failure> {
        let ClusterConfig { peers, peers_file, peers_srv, resolver, srv_time, .. } = cluster;
        let (source, servers) = match (peers_file, peers_srv) {
            (Some(path), _) => {
                let text = files.get(path).map_or(&[][..], Vec::as_slice);
                let servers = servers_of(text).map_err(|reason| Failure::usage(at_file(path, &reason)))?;
                (Source::File(path.clone()), servers)
            }
            (None, Some(name)) => {
                let (name, resolver, interval) = (name.clone(), *resolver, *srv_time);
                (Source::Records { name, resolver, interval }, Vec::new())
            }
            (None, None) => {
                let servers: Result<Vec<_>, _> = peers.iter().map(|peer| server_url(peer)).collect();
                let servers = servers.map_err(Failure::usage)?;
                (Source::List(servers.clone()), servers)
            }
        };
        let scheme = if cluster.url.starts_with("https") { "https" } else { "http" }.to_owned();
        Ok(Self { source, scheme, servers, next: Instant::now(), answer: None, failure: None })
    }

    /// Whether another one is read from the same place, so that this one is as good.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.source == other.source && self.scheme == other.scheme
    }

    /// The URLs of the servers, which may have this one among them.
    pub(super) fn servers(&self) -> &[String] {
        &self.servers
    }

    /// Looks whether the list has changed: the new one for the operator, or why it cannot be used.
    pub(super) fn look(
        &mut self,
        read: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
        runtime: &RuntimeHandle,
    ) -> Option<Result<String, String>> {
        let looked = match &self.source {
            Source::List(_) => return None,
            Source::File(path) => {
                if self.next > Instant::now() {
                    return None;
                }
                self.next = Instant::now() + FILE_TIME;
                let text = read(path).map_err(|error| error.to_string());
                text.and_then(|text| servers_of(&text)).map_err(|reason| at_file(path, &reason))
            }
            Source::Records { .. } => self.look_up(runtime)?,
        };
        self.take(looked)
    }

    /// Takes over what was found, if it is news.
    fn take(&mut self, looked: Result<Vec<String>, String>) -> Option<Result<String, String>> {
        match looked {
            Ok(servers) => {
                self.failure = None;
                let is_news = servers != self.servers;
                self.servers = servers;
                is_news.then(|| Ok(Listed(&self.servers).to_string()))
            }
            Err(reason) => {
                let is_news = self.failure.as_ref() != Some(&reason);
                self.failure = Some(reason.clone());
                is_news.then_some(Err(reason))
            }
        }
    }

    /// The servers by the DNS, once they are known; begins a look-up when it is time.
    fn look_up(&mut self, runtime: &RuntimeHandle) -> Option<Result<Vec<String>, String>> {
        let Source::Records { name, resolver, interval } = &self.source else { return None };
        let Some(receiver) = &self.answer else {
            if self.next <= Instant::now() {
                let (sender, receiver) = mpsc::channel();
                let (name, resolver) = (name.clone(), *resolver);
                runtime.spawn(async move {
                    // Nobody waits for it after a reload.
                    let _ = sender.send(look_up_service(&name, resolver).await);
                });
                self.answer = Some(receiver);
            }
            return None;
        };
        let answer = receiver.try_recv().ok()?;
        self.answer = None;
        let (pause, servers) = match answer {
            Ok(service) => {
                let url = |(host, port): &(String, u16)| server_url(&format!("{}://{host}:{port}", self.scheme));
                let mut servers: Vec<String> = service.servers.iter().filter_map(|server| url(server).ok()).collect();
                // Answers come in any order.
                servers.sort();
                servers.dedup();
                (service.time_to_live.clamp(SRV_TIME_MIN, (*interval).max(SRV_TIME_MIN)), Ok(servers))
            }
            Err(error) => {
                let reason = format!("the servers of the cluster cannot be looked up by the name {name}: {error}");
                (SRV_RETRY_TIME.min(*interval), Err(reason))
            }
        };
        self.next = Instant::now() + pause;
        Some(servers)
    }
}

/// The servers that a file names, one on a line; lines that begin with `#` are comments.
fn servers_of(text: &[u8]) -> Result<Vec<String>, String> {
    let text = std::str::from_utf8(text).map_err(|_| "it is not UTF-8".to_owned())?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut servers = lines.map(server_url).collect::<Result<Vec<_>, _>>()?;
    servers.sort();
    servers.dedup();
    match servers.len() {
        // A file that is just being written.
        0 => Err("it names no server".to_owned()),
        1..=SERVERS_MAX => Ok(servers),
        _ => Err(format!("it names more than {SERVERS_MAX} servers")),
    }
}

fn at_file(path: &Path, reason: &str) -> String {
    format!("the list of servers of the cluster, {}, cannot be used: {reason}", path.display())
}

struct Listed<'s>(&'s [String]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_MAX: usize = 8;
        let shown = self.0.iter().take(SHOWN_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
        f.write_str(&shown)?;
        match self.0.len().checked_sub(SHOWN_MAX) {
            None | Some(0) => Ok(()),
            Some(more) => write!(f, " and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &[u8] = b"0123456789abcdef\n";

    fn config() -> ClusterConfig {
        ClusterConfig { url: "http://10.0.0.1:80".to_owned(), token: "/token".into(), ..ClusterConfig::default() }
    }

    fn files(peers: &[u8]) -> OriginFiles {
        [(PathBuf::from("/token"), TOKEN.to_vec()), ("/peers".into(), peers.to_vec())].into()
    }

    #[test]
    fn a_file_has_a_server_on_each_line() {
        let text = b"# servers\nhttp://10.0.0.2:80/\n\n http://10.0.0.1:8080\nhttp://10.0.0.2\n";
        assert_eq!(servers_of(text).unwrap(), ["http://10.0.0.1:8080", "http://10.0.0.2"]);
        for (text, reason) in
            [(&b""[..], "no server"), (b"# none\n", "no server"), (b"10.0.0.2:80\n", "not the URL"), (b"\xff", "UTF-8")]
        {
            assert!(servers_of(text).unwrap_err().contains(reason), "{text:?}");
        }
    }

    #[test]
    fn a_list_that_cannot_be_used_changes_nothing_and_is_reported_once() {
        let config = ClusterConfig { peers_file: Some("/peers".into()), ..config() };
        let mut membership = Membership::of(&config, &files(b"http://a\n")).unwrap();
        let mut take = |text: &[u8]| membership.take(servers_of(text));
        assert_eq!(take(b"http://a\n"), None);
        assert!(take(b"x").unwrap().is_err());
        assert_eq!(take(b"x"), None);
        assert!(take(b"").unwrap().is_err());
        assert_eq!(take(b"http://b\nhttp://a\n"), Some(Ok("http://a, http://b".to_owned())));
        assert_eq!(membership.servers(), ["http://a", "http://b"]);
        assert!(Membership::of(&config, &files(b"")).is_err());
    }

    #[test]
    fn a_token_is_long() {
        assert!(Identity::of(&config(), &files(b"")).is_ok_and(|identity| identity.url == "http://10.0.0.1"));
        let mut short = files(b"");
        short.insert("/token".into(), b"  0123456789abcde\n".to_vec());
        assert!(Identity::of(&config(), &short).is_err());
    }
}
