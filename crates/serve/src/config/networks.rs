//! Networks of clients, and the lists of those that are let in or not.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net};

/// The name of all clients on Unix sockets.
const UNIX: &str = "unix";

/// Bits of the prefix in front of the IPv4 address in a mapped one (RFC 4291, 2.5.5.2).
const MAPPED_PREFIX_BITS: u8 = 96;

/// A set of clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Network {
    /// The addresses of a prefix. Mapped IPv4 addresses are those of IPv4.
    Prefix(IpNet),
    /// All clients on Unix sockets, which have no address.
    Unix,
}

/// The reason for which a text names no network.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NetworkError {
    /// It is neither an address nor a prefix.
    #[error("{0:?} is not a network; expected for example \"192.0.2.0/24\", \"2001:db8::/32\", \"::1\" or \"unix\"")]
    Malformed(String),
    /// Bits behind the prefix are set, so that it is not clear what is meant.
    #[error(
        "{written:?} has bits set behind its prefix; the network is \"{network}\", the address alone \"{address}\""
    )]
    BitsBehindPrefix {
        /// The text.
        written: String,
        /// The network of that prefix.
        network: IpNet,
        /// The address without its prefix.
        address: IpAddr,
    },
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        if text == UNIX {
            return Ok(Self::Unix);
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Prefix(address.to_canonical().into()));
        }
        let network: IpNet = text.parse().map_err(|_| NetworkError::Malformed(text.to_owned()))?;
        if network.trunc() != network {
            let (network, address) = (network.trunc(), network.addr());
            return Err(NetworkError::BitsBehindPrefix { written: text.to_owned(), network, address });
        }
        Ok(Self::Prefix(unmapped(network)))
    }
}

/// A network of mapped IPv4 addresses as one of IPv4.
fn unmapped(network: IpNet) -> IpNet {
    let IpNet::V6(mapped) = network else { return network };
    let bits = mapped.prefix_len().checked_sub(MAPPED_PREFIX_BITS);
    let address: Option<Ipv4Addr> = mapped.addr().to_ipv4_mapped();
    let unmapped = bits.zip(address).and_then(|(bits, address)| Ipv4Net::new(address, bits).ok());
    unmapped.map_or(network, IpNet::V4)
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefix(network) if network.prefix_len() == network.max_prefix_len() => network.addr().fmt(f),
            Self::Prefix(network) => network.fmt(f),
            Self::Unix => f.write_str(UNIX),
        }
    }
}

/// The clients that are let in, and those that are not. The most specific network that a client is
/// in decides; `deny` decides where both lists have the same. A client that is in none is let in
/// unless there is a list of those that are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NetworkLists {
    /// The networks that are let in; empty: all that `deny` does not name.
    pub allow: Vec<Network>,
    /// The networks that are not let in.
    pub deny: Vec<Network>,
}

impl NetworkLists {
    /// Whether they say nothing.
    pub fn is_empty(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty()
    }

    /// Whether they let in a client at an address; `None` is one on a Unix socket.
    pub(crate) fn let_in(&self, client: Option<IpAddr>) -> bool {
        let client = client.map(|address| address.to_canonical());
        let nearest = |list: &[Network]| list.iter().filter_map(|network| network.prefix_bits_of(client)).max();
        match (nearest(&self.allow), nearest(&self.deny)) {
            (None, None) => self.allow.is_empty(),
            (allowed, denied) => allowed > denied,
        }
    }
}

impl Network {
    /// Whether a client at an address is in it; `None` is one on a Unix socket.
    pub(crate) fn contains(&self, client: Option<IpAddr>) -> bool {
        self.prefix_bits_of(client.map(|address| address.to_canonical())).is_some()
    }

    /// The length of the prefix, if a client is in the network.
    fn prefix_bits_of(&self, client: Option<IpAddr>) -> Option<u8> {
        match (self, client) {
            (Self::Prefix(network), Some(address)) => network.contains(&address).then(|| network.prefix_len()),
            (Self::Unix, None) => Some(0),
            _ => None,
        }
    }
}

/// The treatment of clients that the lists of the whole server do not let in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DeniedClients {
    /// Their requests get a 403.
    #[default]
    Respond,
    /// Their connections are closed when they are accepted.
    Close,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_as_they_are_written() {
        for (text, written) in [
            ("192.0.2.7", "192.0.2.7"),
            ("192.0.2.7/32", "192.0.2.7"),
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("::1", "::1"),
            ("2001:DB8::/32", "2001:db8::/32"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("unix", "unix"),
        ] {
            let network: Network = text.parse().unwrap();
            assert_eq!(network.to_string(), written, "{text}");
            assert_eq!(written.parse(), Ok(network), "{text}");
        }
        for (text, part) in [
            ("", "not a network"),
            ("10", "not a network"),
            ("10.0.0.0/33", "not a network"),
            ("10.0.0.0/", "not a network"),
            ("example.org", "not a network"),
            ("::/129", "not a network"),
            ("10.1.2.3/8", "\"10.0.0.0/8\""),
            ("2001:db8::1/32", "\"2001:db8::/32\""),
        ] {
            let error = text.parse::<Network>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[track_caller]
    fn check(allow: &[&str], deny: &[&str], client: &str, is_let_in: bool) {
        let list = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let lists = NetworkLists { allow: list(allow), deny: list(deny) };
        let address = (client != "unix").then(|| client.parse().unwrap());
        assert_eq!(lists.let_in(address), is_let_in, "{client} by {allow:?} and not {deny:?}");
    }

    #[test]
    fn the_most_specific_network_decides() {
        check(&[], &[], "192.0.2.1", true);
        check(&[], &["10.0.0.0/8"], "192.0.2.1", true);
        check(&[], &["10.0.0.0/8"], "10.255.0.1", false);
        check(&["10.0.0.0/8", "::1"], &[], "10.0.0.1", true);
        check(&["10.0.0.0/8", "::1"], &[], "::1", true);
        check(&["10.0.0.0/8", "::1"], &[], "192.0.2.1", false);
        check(&["10.1.0.0/16"], &["10.0.0.0/8"], "10.1.2.3", true);
        check(&["10.1.0.0/16"], &["10.0.0.0/8"], "10.2.2.3", false);
        check(&["10.0.0.0/8"], &["10.1.0.0/16"], "10.1.2.3", false);
        check(&["10.0.0.0/8"], &["10.1.0.0/16"], "10.2.2.3", true);
        check(&["10.0.0.0/8"], &["10.0.0.0/8"], "10.2.2.3", false);
        check(&["0.0.0.0/0"], &["10.0.0.0/8"], "192.0.2.1", true);
    }

    #[test]
    fn mapped_addresses_are_those_of_ipv4() {
        check(&["10.0.0.0/8"], &[], "::ffff:10.1.2.3", true);
        check(&[], &["10.0.0.0/8"], "::ffff:10.1.2.3", false);
        check(&["::ffff:10.0.0.0/104"], &[], "10.1.2.3", true);
        check(&["::/0"], &[], "::ffff:10.1.2.3", false);
        check(&["::/0"], &[], "2001:db8::1", true);
    }

    #[test]
    fn unix_sockets_are_a_network_of_their_own() {
        check(&[], &["0.0.0.0/0", "::/0"], "unix", true);
        check(&["10.0.0.0/8"], &[], "unix", false);
        check(&["10.0.0.0/8", "unix"], &[], "unix", true);
        check(&[], &["unix"], "unix", false);
        check(&[], &["unix"], "::1", true);
        check(&["0.0.0.0/0", "::/0"], &["unix"], "unix", false);
    }
}
