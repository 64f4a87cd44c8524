//! What a server is told before it starts: plain values, checked as far as they can be when it does.
//!
//! There is no file format here and no reading of arguments; that is the command's.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use thalweg_sys::DriverChoice;

/// A server's configuration.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The folder whose files are served.
    pub root: PathBuf,
    /// Where to listen, at least one address. Port 0 lets the kernel choose; all cores then share its choice.
    pub listen: Vec<SocketAddr>,
    /// The CPUs to run on, one loop pinned to each. Empty: all that this process may use.
    pub cores: Vec<usize>,
    /// Which driver the loops use.
    pub driver: DriverChoice,
    /// What a client may demand.
    pub limits: Limits,
    /// What is kept in memory between requests.
    pub cache: CacheConfig,
}

impl ServerConfig {
    /// The defaults, for a folder and addresses.
    pub fn new(root: impl Into<PathBuf>, listen: Vec<SocketAddr>) -> Self {
        Self {
            root: root.into(),
            listen,
            cores: Vec::new(),
            driver: DriverChoice::Auto,
            limits: Limits::default(),
            cache: CacheConfig::default(),
        }
    }
}

/// What a client may demand. Bytes and counts are inclusive.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Most bytes of a request head.
    pub head_bytes_max: u32,
    /// How long a head may take from its first byte, or from the acceptance of the connection, to its end.
    pub head_time: Duration,
    /// How long a connection may stay open between two requests.
    pub idle_time: Duration,
    /// How long a client may take none of a response before it is given up, over and above what
    /// [`send_rate_min`](Self::send_rate_min) grants for the bytes.
    pub stall_time: Duration,
    /// Bytes per second that a client has to take on average, so that a large response cannot be drawn out without end.
    pub send_rate_min: u32,
    /// How long a connection is drained after its last response, so that a client which is still sending gets to read
    /// the response instead of a reset.
    pub linger_time: Duration,
    /// Most connections open at once, per core.
    pub connections_max: usize,
    /// Most requests on one connection; 0 is without limit.
    pub requests_per_connection_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes_max: 16 << 10,
            head_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(75),
            stall_time: Duration::from_secs(60),
            // Below half of what a 28.8 kbit/s modem takes.
            send_rate_min: 1500,
            linger_time: Duration::from_secs(5),
            connections_max: 65_536,
            requests_per_connection_max: 0,
        }
    }
}

/// What each core keeps in memory between requests.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// Most files known at once.
    pub entries_max: usize,
    /// Files of up to this many bytes are kept whole, beside their heads.
    pub small_file_bytes_max: usize,
    /// Most bytes of heads and small files together.
    pub bytes_max: usize,
    /// How long a file is taken to be unchanged before it is looked at again.
    pub age: Duration,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self { entries_max: 8192, small_file_bytes_max: 64 << 10, bytes_max: 64 << 20, age: Duration::from_secs(1) }
    }
}
