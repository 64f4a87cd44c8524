//! The server under test: from a URL to an address that accepts connections.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use thalweg_sys::{PeerAddr, UnixAddr};
use url::Url;

use crate::credentials::{ColonInUserName, Credentials, shown, shown_malformed};
use crate::routing::{Routing, first_that_accepts};

/// Most local addresses from which the target is tried before a run.
const SOURCES_REACHED_FROM_MAX: usize = 16;

/// A target with its resolved address.
#[derive(Clone, Debug)]
pub struct Target {
    /// The URL without the credentials that it had.
    pub url: Url,
    /// The URL as results show it: as it was given, but for credentials.
    pub shown: String,
    /// The credentials of the URL.
    pub credentials: Option<Credentials>,
    /// The address to connect to: of several, the first that accepted a connection.
    pub address: PeerAddr,
    /// All addresses that the host has; none behind a Unix socket.
    pub addresses: Vec<SocketAddr>,
    /// Host and port for the `Host` field.
    pub authority: String,
    /// Path and query.
    pub path: String,
}

/// The reasons why a target cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// Not a URL.
    #[error("{text:?} is not a URL ({}", with_advice(text, *reason))]
    Malformed {
        /// The text as given.
        text: String,
        /// The parser's error.
        reason: url::ParseError,
    },
    /// A scheme that is not supported.
    #[error("{url}: the scheme {scheme:?} is not supported; use http or https")]
    Scheme {
        /// The URL.
        url: Url,
        /// Its scheme.
        scheme: String,
    },
    /// A URL without a host.
    #[error("{url} has no host")]
    NoHost {
        /// The URL.
        url: Url,
    },
    /// Credentials that cannot be sent.
    #[error("{url}: {reason}")]
    Credentials {
        /// The URL.
        url: Url,
        /// The fault in them.
        reason: ColonInUserName,
    },
    /// The name has no address.
    #[error("cannot resolve {host:?}: {reason}; check the name, or use an address")]
    Unresolved {
        /// The name.
        host: String,
        /// The resolver's error.
        reason: String,
    },
    /// The address accepts no connection.
    #[error(
        "cannot connect to {}{from}: {source}; check that the server is running and that the address is right",
        place(address, host)
    )]
    Unreachable {
        /// The host as it was given.
        host: String,
        /// Its address.
        address: PeerAddr,
        /// The local address, as a part of a sentence; empty where the kernel has chosen it.
        from: String,
        /// The kernel's error.
        source: io::Error,
    },
}

/// The end of the message on a text that is not a URL: why, and advice. A host without a scheme is
/// what other programs take, too.
fn with_advice(text: &str, reason: url::ParseError) -> String {
    let with_scheme = format!("http://{text}");
    let is_host = |url: &Url| url.has_host() && !["/", "./", "../"].iter().any(|path| text.starts_with(path));
    match Url::parse(&with_scheme) {
        Ok(url) if reason == url::ParseError::RelativeUrlWithoutBase && is_host(&url) => {
            format!("no scheme); add http://: {with_scheme}")
        }
        _ => format!("{reason}); expected for example http://host:port/path"),
    }
}

/// The address, and the host if it was not given as this address.
fn place(address: &PeerAddr, host: &str) -> String {
    let address = address.to_string();
    if address == host { address } else { format!("{address} ({host})") }
}

impl TargetError {
    /// Whether the target may exist and cannot be reached, as opposed to a malformed one.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unresolved { .. } | Self::Unreachable { .. })
    }
}

impl Target {
    /// Understands `text` as a URL and finds the host's address, unless the server is to be reached
    /// through a Unix socket.
    ///
    /// # Errors
    /// It is not a URL of a supported scheme, or the name has no address.
    pub fn resolve(text: &str, socket: Option<&UnixAddr>) -> Result<Self, TargetError> {
        Self::routed(text, &Routing { socket: socket.cloned(), ..Routing::default() })
    }

    /// The same on a given way to the host. Of several addresses the first one is used that accepts
    /// a connection now, or the first of all if none does.
    ///
    /// # Errors
    /// It is not a URL of a supported scheme, or the name has no address.
    pub fn routed(text: &str, routing: &Routing) -> Result<Self, TargetError> {
        let malformed = |reason| TargetError::Malformed { text: shown_malformed(text), reason };
        let mut url = Url::parse(text).map_err(malformed)?;
        if url.cannot_be_a_base() {
            // `user:password@host` reads as a URL of the scheme `user`.
            return Err(malformed(url::ParseError::RelativeUrlWithoutBase));
        }
        let credentials =
            Credentials::take_from(&mut url).map_err(|reason| TargetError::Credentials { url: url.clone(), reason })?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(TargetError::Scheme { scheme: url.scheme().to_owned(), url });
        }
        let port = url.port_or_known_default().unwrap_or(80);
        let Some(host) = url.host_str().map(str::to_owned) else { return Err(TargetError::NoHost { url }) };
        let (addresses, address) = match &routing.socket {
            Some(socket) => (Vec::new(), PeerAddr::Unix(socket.clone())),
            None => {
                let unresolved = |reason: String| TargetError::Unresolved { host: host.clone(), reason };
                let addresses = routing.addresses(&host, port).map_err(unresolved)?;
                let address = chosen(&addresses).ok_or_else(|| unresolved("it has none".to_owned()))?;
                (addresses, address.into())
            }
        };
        let authority = url.port().map_or_else(|| host.clone(), |port| format!("{host}:{port}"));
        let path = path_of(&url);
        Ok(Self { url, shown: shown(text), credentials, address, addresses, authority, path })
    }

    /// Connects once from each of the local addresses `sources`, or from whichever the kernel
    /// chooses if there are none, so that a missing server is detected before a run begins.
    ///
    /// # Errors
    /// The server does not respond within `timeout`.
    pub fn reach(&self, timeout: Duration, sources: &[IpAddr]) -> Result<(), TargetError> {
        let unreachable = |from: String, source| TargetError::Unreachable {
            host: match self.addresses.len() {
                0 | 1 => self.authority.clone(),
                several => {
                    format!("{}, the first of {several} addresses that do not accept a connection", self.authority)
                }
            },
            address: self.address.clone(),
            from,
            source,
        };
        if sources.is_empty() {
            return self.address.reach(None, timeout).map_err(|error| unreachable(String::new(), error));
        }
        for source in sources.iter().take(SOURCES_REACHED_FROM_MAX) {
            let reached = self.address.reach(Some(*source), timeout);
            reached.map_err(|error| unreachable(format!(" from {source}"), error))?;
        }
        Ok(())
    }

    /// Whether its connections speak TLS.
    pub fn is_tls(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// The host's name or address, as a certificate has it.
    pub fn server_name(&self) -> String {
        self.url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned()
    }

    /// Whether client and server share this machine.
    pub fn is_local(&self) -> bool {
        let PeerAddr::Tcp(address) = self.address else { return true };
        let ip = address.ip();
        // An address that can be bound is one of this host's own.
        ip.is_loopback() || std::net::UdpSocket::bind((ip, 0)).is_ok()
    }
}

/// Path and query of a URL, as they go into the request line.
pub fn path_of(url: &Url) -> String {
    match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    }
}

/// The address to use of these. A single one is not tried.
fn chosen(addresses: &[SocketAddr]) -> Option<SocketAddr> {
    match addresses {
        [] | [_] => addresses.first().copied(),
        [first, ..] => Some(first_that_accepts(addresses).unwrap_or(*first)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<(&str, &str, &str), &str>) {
        match (Target::resolve(text, None), expected) {
            (Ok(target), Ok((address, authority, path))) => {
                assert_eq!(target.address.to_string(), address, "{text}");
                assert_eq!((target.authority.as_str(), target.path.as_str()), (authority, path), "{text}");
            }
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{text}: {error}"),
            (got, expected) => panic!("{text}: {got:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn urls_become_addresses() {
        check("http://127.0.0.1", Ok(("127.0.0.1:80", "127.0.0.1", "/")));
        check("http://127.0.0.1:8080/a%20b?c=d#e", Ok(("127.0.0.1:8080", "127.0.0.1:8080", "/a%20b?c=d")));
        check("http://[::1]:81/", Ok(("[::1]:81", "[::1]:81", "/")));
        check("127.0.0.1:8080", Err("(no scheme); add http://: http://127.0.0.1:8080"));
        check("localhost:8080/a", Err("add http://: http://localhost:8080/a"));
        check("localhost", Err("add http://: http://localhost"));
        check("user:secret@localhost", Err("add http://: http://...@localhost"));
        check("/index.html", Err("expected for example"));
        check("https://127.0.0.1/a", Ok(("127.0.0.1:443", "127.0.0.1", "/a")));
        check("ftp://127.0.0.1/", Err("not supported"));
        check("http://", Err("not a URL"));
        check("http://name.invalid/", Err("cannot resolve \"name.invalid\""));
    }

    /// A name of which only the second address has a server was once not reached.
    #[test]
    fn only_the_first_address_of_a_name_is_tried() {
        let listener = std::net::TcpListener::bind("127.0.0.2:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let resolve = vec![format!("name.invalid:{port}:127.0.0.1,127.0.0.2").parse().unwrap()];
        let routing = Routing { resolve, ..Routing::default() };
        let target = Target::routed(&format!("http://name.invalid:{port}/"), &routing).unwrap();
        assert_eq!(target.address.to_string(), format!("127.0.0.2:{port}"));
        assert_eq!((target.addresses.len(), target.server_name().as_str()), (2, "name.invalid"));
        target.reach(Duration::from_secs(5), &[]).unwrap();
        drop(listener);
        let target = Target::routed(&format!("http://name.invalid:{port}/"), &routing).unwrap();
        let error = target.reach(Duration::from_secs(5), &[]).unwrap_err().to_string();
        let expected = format!("127.0.0.1:{port} (name.invalid:{port}, the first of 2 addresses that do not accept");
        assert!(error.contains(&expected), "{error}");
    }
}
