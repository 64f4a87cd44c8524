//! The way from a target's name to addresses: look-ups, replacements by hand, and the choice among
//! several addresses (RFC 8305).

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_sys::{PeerAddr, UnixAddr};

/// The time that an attempt to connect has before the next address is tried beside it (RFC 8305,
/// 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Longest choice among addresses.
const CHOICE_TIME_MAX: Duration = Duration::from_secs(10);

/// Addresses of a name that are used; the rest is ignored.
const ADDRESSES_MAX: usize = 64;

/// How a target's addresses are found.
#[derive(Clone, Debug, Default)]
pub struct Routing {
    /// The server is reached through this Unix socket, whatever the name is.
    pub socket: Option<UnixAddr>,
    /// Connections go to this host and port, a proxy, which looks the target's name up itself.
    pub proxy: Option<(String, u16)>,
    /// Addresses of this family alone.
    pub family: Option<Family>,
    /// Addresses of this family if there are some: that of the local addresses.
    pub preferred: Option<Family>,
    /// Names whose addresses are given.
    pub resolve: Vec<Resolve>,
    /// Hosts and ports that connections go to instead of others.
    pub connect_to: Vec<ConnectTo>,
}

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4
    V4,
    /// IPv6
    V6,
}

/// Addresses of a name at a port, which are not looked up; `HOST:PORT:ADDRESS[,ADDRESS]...` of
/// curl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolve {
    host: String,
    port: u16,
    addresses: Vec<IpAddr>,
}

/// A host and port in place of another; `HOST1:PORT1:HOST2:PORT2` of curl. What is empty is any, or
/// stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectTo {
    from: (Option<String>, Option<u16>),
    to: (Option<String>, Option<u16>),
}

impl Family {
    /// The family of an address.
    pub fn of(ip: IpAddr) -> Self {
        if ip.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

impl std::str::FromStr for Resolve {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not HOST:PORT:ADDRESS[,ADDRESS]..., such as example.org:80:127.0.0.1");
        let (host, rest) = split_host(text).ok_or_else(wrong)?;
        let (port, addresses) = rest.split_once(':').ok_or_else(wrong)?;
        let addresses: Option<Vec<IpAddr>> =
            addresses.split(',').map(|address| unbracketed(address).parse().ok()).collect();
        let (port, addresses) = (port.parse().map_err(|_| wrong())?, addresses.ok_or_else(wrong)?);
        if host.is_empty() { Err(wrong()) } else { Ok(Self { host: host.to_ascii_lowercase(), port, addresses }) }
    }
}

impl std::str::FromStr for ConnectTo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not HOST1:PORT1:HOST2:PORT2, such as example.org:443:127.0.0.1:8443");
        let port = |text: &str| if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(|_| wrong()) };
        let host = |text: &str| (!text.is_empty()).then(|| text.to_ascii_lowercase());
        let (from_host, rest) = split_host(text).ok_or_else(wrong)?;
        let (from_port, rest) = rest.split_once(':').ok_or_else(wrong)?;
        let (to_host, to_port) = split_host(rest).ok_or_else(wrong)?;
        Ok(Self { from: (host(from_host), port(from_port)?), to: (host(to_host), port(to_port)?) })
    }
}

/// The host, perhaps an address in brackets, and what is behind its colon.
fn split_host(text: &str) -> Option<(&str, &str)> {
    match text.strip_prefix('[') {
        Some(rest) => rest.split_once("]:"),
        None => text.split_once(':'),
    }
}

fn unbracketed(text: &str) -> &str {
    text.trim_start_matches('[').trim_end_matches(']')
}

impl Routing {
    /// The host's addresses in the order in which they are tried, each once.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(crate) fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
        let host = unbracketed(host).to_ascii_lowercase();
        let meets = |to: &&ConnectTo| {
            to.from.0.as_ref().is_none_or(|from| *from == host) && to.from.1.is_none_or(|from| from == port)
        };
        let to = self.connect_to.iter().find(meets).map(|connect_to| connect_to.to.clone()).unwrap_or_default();
        let (host, port) = self.proxy.clone().unwrap_or((to.0.unwrap_or(host), to.1.unwrap_or(port)));
        let given = self.resolve.iter().rfind(|resolve| resolve.host == host && resolve.port == port);
        let found: Vec<SocketAddr> = match (host.parse::<IpAddr>(), given) {
            (Ok(ip), _) => vec![SocketAddr::new(ip, port)],
            (_, Some(given)) => given.addresses.iter().map(|ip| SocketAddr::new(*ip, port)).collect(),
            (Err(_), None) => (host.as_str(), port).to_socket_addrs().map_err(|error| error.to_string())?.collect(),
        };
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for address in
            found.iter().filter(|address| self.family.is_none_or(|family| Family::of(address.ip()) == family))
        {
            if !addresses.contains(address) && addresses.len() < ADDRESSES_MAX {
                addresses.push(*address);
            }
        }
        let is_preferred = |address: &SocketAddr| self.preferred == Some(Family::of(address.ip()));
        if addresses.iter().any(is_preferred) {
            addresses.retain(is_preferred);
        }
        match (addresses.is_empty(), found.first(), self.family) {
            (false, ..) => Ok(alternating(addresses)),
            (true, Some(other), Some(family)) => Err(format!("it has no {family} address, only {}", other.ip())),
            _ => Err("it has none".to_owned()),
        }
    }
}

/// The addresses with the families in turn, as far as there are both (RFC 8305, 4).
fn alternating(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let Some(first) = addresses.first().map(SocketAddr::is_ipv4) else { return addresses };
    let (mut one, mut other): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| address.is_ipv4() == first);
    one.reverse();
    other.reverse();
    let mut mixed = Vec::new();
    while !one.is_empty() || !other.is_empty() {
        mixed.extend(one.pop());
        mixed.extend(other.pop());
    }
    mixed
}

/// The first of several addresses that accepts a connection: each is tried a moment after the one
/// before, or as soon as that has failed. `None`: none does.
pub fn first_that_accepts(addresses: &[SocketAddr]) -> Option<SocketAddr> {
    first_by(addresses, ATTEMPT_DELAY, |address| PeerAddr::Tcp(address).reach(None, CHOICE_TIME_MAX))
}

fn first_by(
    addresses: &[SocketAddr],
    delay: Duration,
    connect: impl Fn(SocketAddr) -> io::Result<()> + Copy + Send + 'static,
) -> Option<SocketAddr> {
    let (sender, ends) = mpsc::channel();
    let give_up_at = Instant::now() + CHOICE_TIME_MAX;
    let (mut waiting, mut under_way) = (addresses.iter(), 0);
    loop {
        if let Some(&address) = waiting.next() {
            let sender = sender.clone();
            // It ends with its own time-out, whoever waits for it.
            thread::spawn(move || {
                let _ = sender.send((address, connect(address).is_ok()));
            });
            under_way += 1;
        } else if under_way == 0 {
            return None;
        }
        let left = give_up_at.saturating_duration_since(Instant::now());
        let patience = if waiting.len() > 0 { delay.min(left) } else { left };
        match ends.recv_timeout(patience) {
            Ok((address, true)) => return Some(address),
            Ok((_, false)) => under_way -= 1,
            Err(RecvTimeoutError::Timeout) if left.is_zero() => return None,
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().expect("an address")).collect()
    }

    #[track_caller]
    fn check(routing: &Routing, host: &str, expected: Result<&[&str], &str>) {
        let found = routing.addresses(host, 80);
        match expected {
            Ok(expected) => assert_eq!(found, Ok(addresses(expected)), "{host}"),
            Err(part) => assert!(found.as_ref().is_err_and(|error| error.contains(part)), "{host}: {found:?}"),
        }
    }

    #[test]
    fn addresses_are_replaced_filtered_and_put_in_turn() {
        let resolve = |text: &str| text.parse::<Resolve>().expect("it is in order");
        let connect_to = |text: &str| text.parse::<ConnectTo>().expect("it is in order");
        let several = "name.invalid:80:127.0.0.1,127.0.0.2,[::1],127.0.0.1,::2";
        let mut routing = Routing { resolve: vec![resolve(several)], ..Routing::default() };
        check(&routing, "NAME.invalid", Ok(&["127.0.0.1:80", "[::1]:80", "127.0.0.2:80", "[::2]:80"]));
        check(&routing, "10.0.0.1", Ok(&["10.0.0.1:80"]));
        check(&routing, "[::3]", Ok(&["[::3]:80"]));
        routing.family = Some(Family::V6);
        check(&routing, "name.invalid", Ok(&["[::1]:80", "[::2]:80"]));
        check(&routing, "10.0.0.1", Err("no IPv6 address, only 10.0.0.1"));
        (routing.family, routing.preferred) = (None, Some(Family::V6));
        check(&routing, "name.invalid", Ok(&["[::1]:80", "[::2]:80"]));
        check(&routing, "10.0.0.1", Ok(&["10.0.0.1:80"]));
        routing.preferred = None;
        routing.connect_to =
            vec![connect_to("other.invalid:81:10.0.0.9:1"), connect_to("other.invalid::10.0.0.2:8080")];
        check(&routing, "other.invalid", Ok(&["10.0.0.2:8080"]));
        routing.connect_to = vec![connect_to("::name.invalid:")];
        check(&routing, "another.invalid", Ok(&["127.0.0.1:80", "[::1]:80", "127.0.0.2:80", "[::2]:80"]));
        routing.connect_to = vec![connect_to("[::3]:80:[::4]:90")];
        check(&routing, "[::3]", Ok(&["[::4]:90"]));
        for wrong in ["a", "a:80", "a:80:b", ":80:127.0.0.1", "a:x:127.0.0.1", "a:80:127.0.0.1,"] {
            assert!(wrong.parse::<Resolve>().is_err(), "{wrong:?}");
        }
        for wrong in ["a", "a:80", "a:80:b", "a:x:b:80"] {
            assert!(wrong.parse::<ConnectTo>().is_err(), "{wrong:?}");
        }
    }

    /// Only the first address of a name was once tried.
    #[test]
    fn the_first_address_alone_is_tried() {
        let three = addresses(&["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"]);
        let second = |address: SocketAddr| match address.to_string().as_str() {
            "10.0.0.2:80" => Ok(()),
            _ => Err(io::ErrorKind::ConnectionRefused.into()),
        };
        assert_eq!(first_by(&three, CHOICE_TIME_MAX, second), Some(three[1]));
        assert_eq!(first_by(&three[2..], CHOICE_TIME_MAX, second), None);
        // One that does not answer is not waited for.
        let silent = |address: SocketAddr| match address.to_string().as_str() {
            "10.0.0.3:80" => Ok(()),
            _ => loop {
                thread::park();
            },
        };
        assert_eq!(first_by(&three, Duration::from_millis(1), silent), Some(three[2]));
    }
}
