//! The configuration of a server: plain values.
//!
//! The catalog checks them. There is no file format here and no reading of arguments; that is the
//! command's.

mod forwarding;
mod log;
mod networks;
mod request_limit;
mod routing;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use thalweg_sys::DriverChoice;
use thalweg_tls::{ClientCertificateMode, Selection};
use thalweg_wire::forwarded::ClientField;

pub use self::forwarding::{
    DiskCacheConfig, Forwarding, MountOrigin, OriginConfig, OriginProtocol, RequestHeaders, S3Config, SetCookie,
    VolumeConfig, without_user,
};
pub use self::log::{Level, LogConfig, LogFormat, LogTarget};
pub use self::networks::{DeniedClients, Network, NetworkError, NetworkLists};
pub use self::request_limit::{Period, RequestLimit, RequestRate, RequestRateError};
pub use self::routing::Routing;

/// A server's configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerConfig {
    /// The addresses to listen on, at least one.
    pub listen: Vec<ListenAddr>,
    /// The CPUs to run on, one loop pinned to each. Empty: all that this process may use.
    pub cpus: Vec<usize>,
    /// Which driver the loops use.
    pub driver: DriverChoice,
    /// The sites, at least one.
    pub sites: Vec<SiteConfig>,
    /// The treatment of requests for hosts that no site names.
    pub unknown_host: UnknownHost,
    /// The clients of all sites.
    pub networks: NetworkLists,
    /// The treatment of clients that these do not let in.
    pub denied_clients: DeniedClients,
    /// The proxies that are believed when they say whose a request, or a connection, is.
    pub trusted_proxies: Vec<Network>,
    /// The field in which they say whose a request is, and in which origins are told.
    pub client_field: ClientField,
    /// The addresses of `listen` at which each connection begins with a PROXY header.
    pub proxy_protocol: Vec<ListenAddr>,
    /// The limits of what a client may demand.
    pub limits: Limits,
    /// The rates at which responses leave.
    pub bandwidth: Bandwidth,
    /// The caches that are kept between requests.
    pub cache: CacheConfig,
    /// The disk cache in front of the origins.
    pub disk_cache: DiskCacheConfig,
    /// The origins that mounts name.
    pub origins: Vec<OriginConfig>,
    /// The logs.
    pub log: LogConfig,
    /// The status listener; `None`: there is none.
    pub status: Option<StatusConfig>,
    /// TLS; `None`: none is spoken.
    pub tls: Option<TlsConfig>,
}

impl ServerConfig {
    /// The defaults, for a folder and addresses.
    pub fn new(root: impl Into<PathBuf>, listen: impl IntoIterator<Item = impl Into<ListenAddr>>) -> Self {
        Self {
            listen: listen.into_iter().map(Into::into).collect(),
            cpus: Vec::new(),
            driver: DriverChoice::Auto,
            sites: vec![SiteConfig::new(root)],
            unknown_host: UnknownHost::First,
            networks: NetworkLists::default(),
            denied_clients: DeniedClients::Respond,
            trusted_proxies: Vec::new(),
            client_field: ClientField::default(),
            proxy_protocol: Vec::new(),
            limits: Limits::default(),
            bandwidth: Bandwidth::default(),
            cache: CacheConfig::default(),
            disk_cache: DiskCacheConfig::default(),
            origins: Vec::new(),
            log: LogConfig::default(),
            status: None,
            tls: None,
        }
    }
}

impl ServerConfig {
    /// Whether origins answer for any mount.
    pub fn forwards(&self) -> bool {
        let mut mounts = self.sites.iter().flat_map(|site| &site.mounts);
        mounts.any(|mount| !mount.forwarding.origins.is_empty())
    }

    /// The host names of the certificate that is obtained by ACME, in lower case; empty if none is.
    /// Names of sites are taken as far as an authority can verify them: no wildcards, no addresses.
    pub fn acme_hosts(&self) -> Vec<String> {
        let Some(tls) = self.tls.as_ref().filter(|tls| tls.auto) else { return Vec::new() };
        let of_sites = self.sites.iter().flat_map(|site| &site.names);
        let of_sites = of_sites.filter(|name| is_public_name(name)).filter(|_| tls.hosts.is_empty());
        let mut hosts: Vec<String> = Vec::new();
        for name in tls.hosts.iter().chain(of_sites).map(|name| name.to_ascii_lowercase()) {
            if !hosts.contains(&name) {
                hosts.push(name);
            }
        }
        hosts
    }
}

/// Whether a name may be one of the public DNS: of several labels, the last no number.
pub(crate) fn is_public_name(name: &str) -> bool {
    let labels: Vec<&str> = name.split('.').collect();
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let is_number = |label: &&str| label.bytes().all(|byte| byte.is_ascii_digit());
    name.len() <= 253
        && labels.len() > 1
        && labels.iter().all(|label| is_label(label))
        && !labels.last().is_some_and(is_number)
}

/// TLS: where it is spoken, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsConfig {
    /// The server's addresses that speak TLS; the others speak plain HTTP. Empty: all TCP
    /// addresses speak TLS.
    pub listen: Vec<ListenAddr>,
    /// The certificates, the default one first. Several for one name are for several kinds of keys.
    pub certificates: Vec<CertificateFiles>,
    /// Whether a certificate is made at the start, for the names of all sites and the addresses,
    /// which is trusted by nobody. It is the default one if there is no other.
    pub self_signed: bool,
    /// Whether a certificate is obtained by ACME (RFC 8555). Until there is one, a self-signed
    /// certificate stands in for it.
    pub auto: bool,
    /// The host names of that certificate; empty: those of all sites.
    pub hosts: Vec<String>,
    /// How it is obtained.
    pub acme: AcmeConfig,
    /// Versions, suites and groups.
    pub selection: Selection,
    /// Whether clients have certificates, where a site or a mount says nothing else.
    pub client_certificates: ClientCertificateMode,
    /// The file (PEM) with the authorities that issue the clients' certificates.
    pub client_authorities: Option<PathBuf>,
    /// Whether sessions are resumed by tickets.
    pub tickets: bool,
    /// Whether the addresses that speak plain HTTP send their clients to those that speak TLS.
    pub redirect: bool,
    /// For how long browsers are told to use TLS alone (RFC 6797); `None`: they are not told.
    pub hsts: Option<Duration>,
    /// Most handshakes at once, on each loop. When there are more, the oldest is ended for the new
    /// one.
    pub handshakes_max: usize,
    /// How long a handshake may take; `None`: as long as the head of a request.
    pub handshake_time: Option<Duration>,
}

impl TlsConfig {
    /// Whether an address of the server speaks TLS.
    pub fn speaks_at(&self, address: &ListenAddr) -> bool {
        match self.listen.is_empty() {
            true => matches!(address, ListenAddr::Tcp(_)),
            false => self.listen.contains(address),
        }
    }
}

impl Default for TlsConfig {
    /// Without a certificate.
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            certificates: Vec::new(),
            self_signed: false,
            auto: false,
            hosts: Vec::new(),
            acme: AcmeConfig::default(),
            selection: Selection::default(),
            client_certificates: ClientCertificateMode::None,
            client_authorities: None,
            tickets: true,
            redirect: false,
            hsts: None,
            handshakes_max: 8192,
            handshake_time: None,
        }
    }
}

/// How a certificate is obtained by ACME.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AcmeConfig {
    /// The URL of the certification authority's directory (RFC 8555, 7.1.1).
    pub directory: String,
    /// The mail address that the authority may write to.
    pub contact: Option<String>,
    /// The file (PEM) with the certificates that the directory's own certificate is verified by;
    /// `None`: those that this host trusts.
    pub roots: Option<PathBuf>,
    /// The kinds of challenges, the preferred one first; empty: by the ports that are listened on.
    pub challenges: Vec<AcmeChallenge>,
    /// The folder that account, key and certificate are kept in; `None`: the user's own.
    pub state: Option<PathBuf>,
}

/// The directory of Let's Encrypt.
const ACME_DIRECTORY: &str = "https://acme-v02.api.letsencrypt.org/directory";

impl Default for AcmeConfig {
    fn default() -> Self {
        Self { directory: ACME_DIRECTORY.to_owned(), contact: None, roots: None, challenges: Vec::new(), state: None }
    }
}

/// How the control of a host name is proven to a certification authority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AcmeChallenge {
    /// By a response over plain HTTP on port 80 (RFC 8555, 8.3).
    Http01,
    /// By a certificate over TLS on port 443 (RFC 8737).
    TlsAlpn01,
}

/// The files of a certificate, in PEM.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CertificateFiles {
    /// The chain, the server's own certificate first.
    pub chain: PathBuf,
    /// The key, without a passphrase.
    pub key: PathBuf,
}

/// An address to listen on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListenAddr {
    /// A TCP address. Port 0 lets the kernel choose; all loops then share its choice.
    Tcp(SocketAddr),
    /// The path of a Unix stream socket.
    Unix(PathBuf),
}

impl From<SocketAddr> for ListenAddr {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

/// As a URL has it, or `unix:PATH`.
impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The treatment of a request for a host that no site names. Requests that name no host are for the
/// first site.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum UnknownHost {
    /// The first site answers it.
    #[default]
    First,
    /// It is misdirected: 421 (RFC 9110, 15.5.20).
    Refuse,
}

/// A virtual host: the trees that are served under its names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SiteConfig {
    /// Host names without port, in any case; `*.example.org` stands for all names beneath
    /// `example.org`.
    pub names: Vec<String>,
    /// Which tree is served beneath which path. The longest prefix wins.
    pub mounts: Vec<MountConfig>,
    /// Settings of folders and kinds of files. Of rules that say something about the same setting
    /// the last one wins, but for headers, which add up unless they have the same name.
    pub rules: Vec<Rule>,
    /// The files, beneath the mount at `/`, whose content is the body of responses with these
    /// status codes.
    pub error_pages: Vec<(u16, String)>,
    /// Whether clients have certificates; `None`: as in [`TlsConfig`].
    pub client_certificates: Option<ClientCertificateMode>,
    /// The clients that are served, of those that the server lets in.
    pub networks: NetworkLists,
    /// The requests of one client to this site.
    pub request_limit: RequestLimit,
    /// The address that all requests are sent to instead. A site that redirects needs no mount.
    pub routing: Routing,
}

impl SiteConfig {
    /// One tree at `/`, for any host.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { mounts: vec![MountConfig::new("/", root)], ..Self::default() }
    }
}

/// A tree and where it is served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountConfig {
    /// The path that stands for the tree's root; begins and ends with a slash.
    pub path: String,
    /// The folder; empty if all requests are redirected, or origins answer.
    pub root: PathBuf,
    /// The origins, and what is asked of them and kept.
    pub forwarding: Forwarding,
    /// Which symbolic links are followed.
    pub symlinks: Symlinks,
    /// Whether names that begin with a dot are served and listed. `.well-known` at the root of a
    /// site (RFC 8615) is, either way.
    pub dot_files: bool,
    /// Bytes per second of all bodies from this mount together; 0 is without limit.
    pub bytes_per_s_max: u64,
    /// Whether clients have certificates; `None`: as in its site.
    pub client_certificates: Option<ClientCertificateMode>,
    /// The clients that are served, of those that the server lets in; empty: those of its site.
    pub networks: NetworkLists,
    /// The requests of one client to this mount.
    pub request_limit: RequestLimit,
    /// The address that all requests are sent to instead.
    pub routing: Routing,
}

impl MountConfig {
    /// The defaults.
    pub fn new(path: impl Into<String>, root: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            root: root.into(),
            forwarding: Forwarding::default(),
            symlinks: Symlinks::Beneath,
            dot_files: false,
            bytes_per_s_max: 0,
            client_certificates: None,
            networks: NetworkLists::default(),
            request_limit: RequestLimit::default(),
            routing: Routing::default(),
        }
    }

    /// Whether it has a folder. One whose requests are all redirected, or answered by origins,
    /// needs none.
    pub fn has_root(&self) -> bool {
        let needs_none = self.routing.redirect.is_some() || !self.forwarding.origins.is_empty();
        !(self.root.as_os_str().is_empty() && needs_none)
    }
}

/// Which symbolic links are followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Symlinks {
    /// None: what lies behind one does not exist.
    Deny,
    /// Those that stay beneath the root.
    #[default]
    Beneath,
    /// Links that stay beneath the root and belong to the owner of their target.
    OwnerMatch,
}

/// Settings for a part of a site.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rule {
    /// The folder from which on they hold, as a path of the site that begins and ends with a slash;
    /// `None` is `/`.
    pub folder: Option<String>,
    /// The names of files for which they hold, such as `*.iso`; `None` is for all, folders too.
    pub files: Option<String>,
    /// The settings that hold there.
    pub settings: Settings,
    /// The address or path that requests are sent to instead.
    pub routing: Routing,
}

/// Settings that can differ from folder to folder. `None` leaves a setting as an earlier rule, or
/// the default, has it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// Fields added to successful responses.
    pub headers: Vec<(String, String)>,
    /// The Cache-Control field.
    pub cache_control: Option<String>,
    /// The media type, instead of the one that the name stands for.
    pub content_type: Option<String>,
    /// Names of files that are sent for a folder, the first that exists [default: index.html].
    pub index: Option<Vec<String>>,
    /// Whether folders without an index are listed [default: no].
    pub listing: Option<bool>,
    /// How they are listed.
    pub listing_style: Option<ListingStyle>,
    /// Whether `.zst`, `.br` and `.gz` neighbours are sent to clients that take them [default: no].
    pub precompressed: Option<bool>,
    /// Whether checksum files (`SHA256SUMS`, `NAME.sha256`) are used to answer Want-Repr-Digest
    /// [default: no].
    pub digests: Option<bool>,
    /// The source of entity tags [default: the change time too].
    pub etag: Option<EtagSource>,
}

/// The source of the entity tag of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EtagSource {
    /// Inode, size, modification time and change time: a program that puts the modification time
    /// back cannot keep the tag. Hosts that serve copies of a tree have different tags, and so has
    /// a file after `chmod`, a hard link or a rename.
    #[default]
    ChangeTime,
    /// Size and modification time alone: hosts whose copies have the same times have the same tags.
    /// Two versions of one length and modification time have the same tag.
    ModificationTime,
}

/// The style of listings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListingStyle {
    /// Names longer than this many characters are shortened; 0 is never.
    pub name_width: usize,
    /// Patterns of names that are not shown.
    pub hide: Vec<String>,
    /// The file in the folder that is shown above the list, text or HTML.
    pub header: Option<String>,
    /// The file in the folder that is shown beneath the list, text or HTML.
    pub readme: Option<String>,
    /// Entries of one page.
    pub page_entries: usize,
    /// Folders come before files.
    pub folders_first: bool,
}

impl Default for ListingStyle {
    fn default() -> Self {
        Self {
            name_width: 0,
            hide: Vec::new(),
            header: Some("HEADER.html".to_owned()),
            readme: Some("README.html".to_owned()),
            page_entries: 1000,
            folders_first: true,
        }
    }
}

/// The limits of what a client may demand. Bytes and counts are inclusive; 0 means no limit where
/// that is stated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Most bytes of a request head.
    pub head_bytes_max: u32,
    /// How long a head may take from its first byte, or from the acceptance of the connection, to
    /// its end.
    pub head_time: Duration,
    /// How long a connection may stay open between two requests.
    pub idle_time: Duration,
    /// Time for which a client may receive nothing of a response before its connection is closed.
    pub stall_time: Duration,
    /// Bytes per second of a response that a client has to take on average; by how much it falls
    /// behind counts as time in which it takes nothing.
    pub send_rate_min: u32,
    /// How long a connection is drained after its last response, so that a client which is still
    /// sending gets to read the response instead of a reset.
    pub linger_time: Duration,
    /// Most connections open at once, on all loops together; 0 is as many as one table of
    /// descriptors holds, and more than that are spread over several loops on each CPU, with a
    /// table each. When all slots are taken, the connection that has been idle longest is closed
    /// for a new one.
    pub connections_max: usize,
    /// Most connections of one client, which is an IPv4 address or an IPv6 /64, on all loops
    /// together; 0 is without limit.
    pub connections_per_client_max: usize,
    /// Most requests on one connection; 0 is without limit.
    pub requests_per_connection_max: u32,
    /// The requests of one client, on all loops and connections together.
    pub requests_per_client: RequestLimit,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes_max: 16 << 10,
            head_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(75),
            stall_time: Duration::from_secs(60),
            // A modem of 28.8 kbit/s that is shared by seven downloads.
            send_rate_min: 500,
            linger_time: Duration::from_secs(5),
            connections_max: 0,
            connections_per_client_max: 0,
            requests_per_connection_max: 0,
            requests_per_client: RequestLimit::default(),
        }
    }
}

/// How fast responses leave, in bytes per second, heads included; 0 is without limit. All of them
/// hold at once, with a mount's ([`MountConfig::bytes_per_s_max`]): the slowest decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bandwidth {
    /// All connections together.
    pub total: u64,
    /// All connections of one client, which is an IPv4 address or an IPv6 /64.
    pub per_client: u64,
    /// One connection.
    pub per_connection: u64,
}

/// The caches of each loop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CacheConfig {
    /// Most files known at once.
    pub entries_max: usize,
    /// Files of up to this many bytes are kept whole, beside their heads.
    pub small_file_bytes_max: usize,
    /// Most bytes of heads and small files together.
    pub bytes_max: usize,
    /// Most bytes of listings together. Half of them are what the names of one folder may take.
    pub listing_bytes_max: usize,
    /// How long a file is taken to be unchanged before it is looked at again.
    pub age: Duration,
    /// Whether the folders of cached files are watched for changes, so that a file is looked at
    /// again as soon as one of its folder's has changed. Age finds the changes that the kernel does
    /// not report.
    pub watch: bool,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            entries_max: 8192,
            small_file_bytes_max: 64 << 10,
            bytes_max: 64 << 20,
            // A folder of a million entries is listed whole.
            listing_bytes_max: 160 << 20,
            age: Duration::from_secs(1),
            watch: true,
        }
    }
}

/// Figures for operators: a page, JSON, metrics for Prometheus, and a health check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatusConfig {
    /// The address of the status listener, apart from those of the sites. There is no protection
    /// but the address.
    pub listen: SocketAddr,
    /// Host names beside `localhost` and this host's own that requests for them may name;
    /// `*.example.org` stands for all names beneath `example.org`. IP addresses always may.
    pub allowed_hosts: Vec<String>,
    /// The file in which the figures of the last days survive a restart; `None`: they do not.
    pub state: Option<PathBuf>,
    /// The file with the token that a client shows to purge what is cached of origins; `None`:
    /// nobody can.
    pub purge_token: Option<PathBuf>,
    /// The file with the token that clients show to read which objects the disk cache has; `None`:
    /// that of purges alone allows it.
    pub read_token: Option<PathBuf>,
}

impl StatusConfig {
    /// The defaults, at an address.
    pub const fn new(listen: SocketAddr) -> Self {
        Self { listen, allowed_hosts: Vec::new(), state: None, purge_token: None, read_token: None }
    }
}
