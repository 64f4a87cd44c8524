//! The settings of `thalweg serve`: the server's own and those of its process.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use thalweg_serve::{ListenAddr, ServerConfig};
use thalweg_sys::socket::SocketFile;

use super::cluster::ClusterConfig;
use crate::options::SandboxOption;

/// The time for downloads under way after the server was told to end.
const DRAIN_DEFAULT: Duration = Duration::from_secs(30);

/// All settings of `thalweg serve`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Configuration {
    /// The settings of the server itself.
    pub server: ServerConfig,
    /// The user that the process becomes once all is open.
    pub user: Option<String>,
    /// The time for downloads under way after the server was told to end.
    pub drain: Duration,
    /// The same after another process has taken over; `None` sets no bound.
    pub upgrade_drain: Option<Duration>,
    /// Whether the server confines itself.
    pub sandbox: SandboxOption,
    /// The file that names the process.
    pub pid_file: Option<PathBuf>,
    /// The files of the Unix sockets that the server makes.
    pub unix_socket: UnixSocket,
    /// The cluster, if the server is in one.
    pub cluster: Option<ClusterConfig>,
}

/// Owner, group and permissions of the files of Unix sockets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct UnixSocket {
    /// The permission bits.
    pub mode: u32,
    /// The owner; `None` is the user who serves.
    pub user: Option<String>,
    /// The group; `None` is that of the user who serves.
    pub group: Option<String>,
}

impl Default for UnixSocket {
    fn default() -> Self {
        Self { mode: SocketFile::default().mode, user: None, group: None }
    }
}

impl Default for Configuration {
    /// Without a site.
    fn default() -> Self {
        let listen = [SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)), SocketAddr::from((Ipv6Addr::LOCALHOST, 8080))];
        let mut server = ServerConfig::new("", listen.map(ListenAddr::Tcp));
        server.sites.clear();
        Self {
            server,
            user: None,
            drain: DRAIN_DEFAULT,
            upgrade_drain: None,
            sandbox: SandboxOption::Auto,
            pid_file: None,
            unix_socket: UnixSocket::default(),
            cluster: None,
        }
    }
}
