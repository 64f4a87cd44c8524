//! Pebble, the authority that Let's Encrypt has for tests, with the DNS server that belongs to it.
//! `tests/setup` builds both.
//!
//! Pebble refuses nonces at random and reuses no authorization, so that a client that relies on
//! either fails.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Longer than any wait of a test.
const PATIENCE: Duration = Duration::from_secs(60);

/// Of a hundred good nonces, those that Pebble refuses.
const REFUSED_NONCES: &str = "20";

/// A running authority, which resolves every name to 127.0.0.1.
pub(crate) struct Pebble {
    /// The address at which it listens.
    pub(crate) address: SocketAddr,
    /// Its root for its own server, as a file in PEM.
    pub(crate) roots: PathBuf,
    /// The address of its management.
    pub(crate) management: SocketAddr,
    _pebble: Killed,
    _resolver: Killed,
    _folder: TempDir,
}

/// A program that ends with its owner.
struct Killed(Child);

impl Pebble {
    /// Starts one that verifies challenges by HTTP and by TLS at these ports, and whose
    /// certificates are valid for `lifetime`.
    pub(crate) fn start(http_port: u16, tls_port: u16, lifetime: Duration) -> Self {
        // The ports are free when they are chosen; another test may be faster to take one.
        let attempts = (0..5).find_map(|_| Self::try_start(http_port, tls_port, lifetime));
        attempts.expect("pebble and pebble-challtestsrv start at one of five attempts")
    }

    /// The URL of its directory.
    pub(crate) fn directory(&self) -> String {
        format!("https://{}/dir", self.address)
    }

    fn try_start(http_port: u16, tls_port: u16, lifetime: Duration) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = |name: &str| folder.path().join(name);
        let key = rcgen::KeyPair::generate().expect("a key can be made");
        let params = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).expect("an address is a name");
        let certificate = params.self_signed(&key).expect("a certificate can be made");
        fs::write(path("cert.pem"), certificate.pem()).expect("a file can be written");
        fs::write(path("key.pem"), key.serialize_pem()).expect("a file can be written");

        let [listen, management, dns, dns_management] = free_addresses();
        let config = serde_json::json!({"pebble": {
            "listenAddress": listen.to_string(),
            "managementListenAddress": management.to_string(),
            "certificate": path("cert.pem"),
            "privateKey": path("key.pem"),
            "httpPort": http_port,
            "tlsPort": tls_port,
            "domainBlocklist": ["blocked.example"],
            "retryAfter": {"authz": 1, "order": 1},
            "keyAlgorithm": "ecdsa",
            "profiles": {"default": {"description": "tests", "validityPeriod": lifetime.as_secs()}},
        }});
        fs::write(path("config.json"), config.to_string()).expect("a file can be written");

        let mut resolver = Command::new(built_program("pebble-challtestsrv"));
        resolver.args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-defaultIPv6", ""]);
        resolver.args(["-dnsserver", &dns.to_string(), "-management", &dns_management.to_string()]);
        let mut resolver = Killed::start(&mut resolver);
        let mut pebble = Command::new(built_program("pebble"));
        pebble.args(["-dnsserver", &dns.to_string(), "-config"]).arg(path("config.json"));
        pebble.envs([
            ("PEBBLE_WFE_NONCEREJECT", REFUSED_NONCES),
            ("PEBBLE_AUTHZREUSE", "0"),
            ("PEBBLE_VA_NOSLEEP", "1"),
        ]);
        let mut pebble = Killed::start(&mut pebble);
        let roots = path("cert.pem");
        let is_up = resolver.listens(dns) && pebble.listens(listen) && pebble.listens(management);
        is_up.then(|| Self {
            address: listen,
            roots,
            management,
            _pebble: pebble,
            _resolver: resolver,
            _folder: folder,
        })
    }
}

impl Killed {
    fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}")))
    }

    /// Waits until it listens; `false` if it has ended instead.
    fn listens(&mut self, address: SocketAddr) -> bool {
        const GLANCE: Duration = Duration::from_millis(3);
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            if self.0.try_wait().expect("a child can be waited for").is_some() {
                return false;
            }
            assert!(begun.elapsed() < PATIENCE, "nothing listens at {address} after {PATIENCE:?}");
            thread::sleep(GLANCE);
        }
        true
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // Either fails only if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Different addresses at which nothing listens now.
fn free_addresses<const N: usize>() -> [SocketAddr; N] {
    let listeners: [TcpListener; N] =
        std::array::from_fn(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free"));
    listeners.map(|listener| listener.local_addr().expect("a listener has an address"))
}

/// Finds a program that no package has and `tests/setup` builds.
fn built_program(name: &str) -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").expect("a user has a folder")).join(".cache"),
        PathBuf::from,
    );
    let path = cache.join("thalweg-tests/bin").join(name);
    assert!(path.is_file(), "this test needs {}, which is not there; build it: tests/setup test", path.display());
    path
}
