//! Addresses to listen on, as people write them: a port alone, a port of all addresses, a name for
//! this host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use thalweg_serve::ListenAddr;

/// The addresses that a text stands for: `ADDRESS:PORT` and `unix:PATH` for one, `PORT` and
/// `localhost:PORT` for this host alone, `:PORT` for all addresses, both in IPv4 and IPv6.
///
/// # Errors
/// It stands for none; the message says what to write.
pub(super) fn parse_listen_all(text: &str) -> Result<Vec<ListenAddr>, String> {
    let both = |four: Ipv4Addr, six: Ipv6Addr, port: &str| {
        let port = parse_port(port)?;
        Ok([IpAddr::from(four), six.into()].map(|ip| ListenAddr::Tcp((ip, port).into())).to_vec())
    };
    match host_and_port(text) {
        Some((Host::This, port)) => both(Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST, port),
        Some((Host::All, port)) => both(Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED, port),
        None => parse_listen(text).map(|address| vec![address]),
    }
}

/// One address: `ADDRESS:PORT` or `unix:PATH`.
///
/// # Errors
/// It is neither; the message says what to write.
pub(crate) fn parse_listen(text: &str) -> Result<ListenAddr, String> {
    match text.strip_prefix("unix:") {
        Some("") => Err("expected the path of the socket, such as unix:/run/thalweg.sock".to_owned()),
        Some(path) => Ok(ListenAddr::Unix(path.into())),
        None => text.parse().map(ListenAddr::Tcp).map_err(|_| wrong(text, "0.0.0.0:80 or [::]:80, or unix:PATH")),
    }
}

/// One TCP address: `ADDRESS:PORT`, or `PORT` and `localhost:PORT` for 127.0.0.1, or `:PORT` for
/// all IPv4 addresses.
///
/// # Errors
/// It is none; the message says what to write.
pub(super) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let at = |ip: Ipv4Addr, port: &str| parse_port(port).map(|port| (ip, port).into());
    match host_and_port(text) {
        Some((Host::This, port)) => at(Ipv4Addr::LOCALHOST, port),
        Some((Host::All, port)) => at(Ipv4Addr::UNSPECIFIED, port),
        None => text.parse().map_err(|_| wrong(text, "127.0.0.1:9180")),
    }
}

/// Hosts that are not written as an address.
enum Host {
    /// This host alone.
    This,
    /// All addresses.
    All,
}

fn host_and_port(text: &str) -> Option<(Host, &str)> {
    match text.split_once(':') {
        Some(("", port)) if !port.contains(':') => Some((Host::All, port)),
        Some(("localhost", port)) => Some((Host::This, port)),
        Some(("*", port)) => Some((Host::All, port)),
        None if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => Some((Host::This, text)),
        _ => None,
    }
}

fn parse_port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("{text:?} is not a port, a number from 0 to 65535"))
}

/// The message for a text that is no address, with what is missing in it.
fn wrong(text: &str, example: &str) -> String {
    let ports = "8080 for this host alone, :8080 for all addresses";
    if text.parse::<IpAddr>().is_ok() {
        return format!("the port is missing; expected for example {}", with_port(text));
    }
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && !host.contains([':', '/', '[']) && port.parse::<u16>().is_ok() => {
            if host.parse::<IpAddr>().is_ok() {
                return format!("expected an address with a port, such as {example}");
            }
            format!("names are not looked up, only localhost; expected an address of this host, or {ports}")
        }
        _ => format!("expected an address with a port, such as {example}; or a port: {ports}"),
    }
}

fn with_port(ip: &str) -> String {
    if ip.contains(':') { format!("[{ip}]:8080") } else { format!("{ip}:8080") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_enough_to_listen() {
        for (text, expected) in [
            ("8080", &["127.0.0.1:8080", "[::1]:8080"][..]),
            ("localhost:8080", &["127.0.0.1:8080", "[::1]:8080"]),
            (":8080", &["0.0.0.0:8080", "[::]:8080"]),
            ("*:8080", &["0.0.0.0:8080", "[::]:8080"]),
            ("0.0.0.0:80", &["0.0.0.0:80"]),
            ("[::1]:80", &["[::1]:80"]),
            ("unix:/run/x", &["unix:/run/x"]),
        ] {
            let addresses: Vec<String> = parse_listen_all(text).unwrap().iter().map(ToString::to_string).collect();
            assert_eq!(addresses, expected, "{text}");
        }
    }

    #[test]
    fn one_address_is_on_this_host_unless_it_says_otherwise() {
        for (text, expected) in [
            ("9180", "127.0.0.1:9180"),
            ("localhost:9180", "127.0.0.1:9180"),
            (":9180", "0.0.0.0:9180"),
            ("[::1]:1", "[::1]:1"),
        ] {
            assert_eq!(parse_address(text).unwrap().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused_with_advice() {
        for (text, part) in [
            ("", "expected an address with a port"),
            ("8o80", "expected an address with a port"),
            ("70000", "\"70000\" is not a port"),
            (":", "\"\" is not a port"),
            ("localhost:http", "\"http\" is not a port"),
            ("127.0.0.1", "the port is missing; expected for example 127.0.0.1:8080"),
            ("::1", "the port is missing; expected for example [::1]:8080"),
            ("example.org:80", "names are not looked up"),
            ("unix:", "path of the socket"),
            ("/run/x", "unix:PATH"),
            ("-8080", ":8080 for all addresses"),
        ] {
            let message = parse_listen_all(text).unwrap_err();
            assert!(message.contains(part), "{text:?}: {message}");
        }
        assert!(parse_address("unix:/run/x").is_err() && parse_address("127.0.0.1").is_err());
    }
}
