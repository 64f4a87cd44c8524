//! Tunnels through a proxy, by CONNECT of HTTP (RFC 9110, 9.3.6) or SOCKS5 (RFC 1928, RFC 1929):
//! what is said until the proxy has connected to the server, without I/O.

use std::fmt;
use std::net::IpAddr;

/// Most bytes of a proxy's response.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// A proxy that connections go through, and the server behind it.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyPlan {
    /// The protocol of the proxy.
    pub kind: ProxyKind,
    /// The server's name or address, which the proxy looks up.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// User and password for the proxy.
    pub credentials: Option<(String, String)>,
    /// The value of Proxy-Authorization, if there are credentials.
    pub authorization: Option<String>,
}

/// The protocol of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyKind {
    /// HTTP, by CONNECT.
    Http,
    /// SOCKS version 5.
    Socks5,
}

/// A tunnel that is being set up.
#[derive(Debug)]
pub(crate) struct Tunnel {
    stage: Stage,
    received: Vec<u8>,
    /// Bytes that wait until those before have left, and whether the driver sends some.
    output: Vec<u8>,
    is_sending: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    /// The head of a response of HTTP is to come.
    Head,
    /// The proxy's choice of a method; its verdict on the credentials; its reply.
    Method,
    Credentials,
    Reply,
    /// The tunnel is there.
    Open,
}

impl fmt::Debug for ProxyPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No message can show credentials by accident.
        f.debug_struct("ProxyPlan")
            .field("kind", &self.kind)
            .field("host", &self.host)
            .field("port", &self.port)
            .finish()
    }
}

impl Tunnel {
    /// A tunnel through a connection that was just made.
    pub(crate) fn new(plan: &ProxyPlan) -> Self {
        let (stage, output) = match plan.kind {
            ProxyKind::Http => (Stage::Head, connect(plan)),
            ProxyKind::Socks5 if plan.credentials.is_some() => (Stage::Method, vec![5, 2, 0, 2]),
            ProxyKind::Socks5 => (Stage::Method, vec![5, 1, 0]),
        };
        Self { stage, received: Vec::new(), output, is_sending: false }
    }

    /// Takes the bytes to send now, if there are some and none are on their way.
    pub(crate) fn take_output(&mut self) -> Option<Vec<u8>> {
        if self.is_sending || self.output.is_empty() {
            return None;
        }
        self.is_sending = true;
        Some(std::mem::take(&mut self.output))
    }

    /// The bytes that were taken last have left.
    pub(crate) fn on_sent(&mut self) {
        self.is_sending = false;
    }

    /// Reads bytes of the proxy.
    ///
    /// # Errors
    /// The proxy makes no tunnel, for this reason.
    pub(crate) fn read(&mut self, input: &[u8], plan: &ProxyPlan) -> Result<(), String> {
        self.received.extend_from_slice(input);
        while self.stage != Stage::Open {
            let Some(consumed) = self.step(plan)? else {
                return if self.received.len() > HEAD_BYTES_MAX {
                    Err("its response is too long".to_owned())
                } else {
                    Ok(())
                };
            };
            self.received.drain(..consumed);
        }
        Ok(())
    }

    /// The bytes of the server that have come already, once the tunnel is there and nothing is on
    /// its way to the proxy any more.
    pub(crate) fn opened(&mut self) -> Option<Vec<u8>> {
        (self.stage == Stage::Open && !self.is_sending).then(|| std::mem::take(&mut self.received))
    }

    /// Reads one message, if it is whole. Returns its length.
    fn step(&mut self, plan: &ProxyPlan) -> Result<Option<usize>, String> {
        match (&self.stage, &self.received[..]) {
            (Stage::Head, bytes) => {
                let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
                let line = bytes.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
                let is_good = line.starts_with(b"HTTP/1.") && line.get(8..10) == Some(b" 2");
                if !is_good {
                    return Err(format!("it answered {}", line[..line.len().min(80)].escape_ascii()));
                }
                self.stage = Stage::Open;
                Ok(Some(end + 4))
            }
            (Stage::Method, [5, 0, ..]) => {
                self.request(plan);
                Ok(Some(2))
            }
            (Stage::Method, [5, 2, ..]) => {
                let Some((user, password)) = &plan.credentials else { return Err("it wants credentials".to_owned()) };
                self.output =
                    [&[1, user.len() as u8], user.as_bytes(), &[password.len() as u8], password.as_bytes()].concat();
                self.stage = Stage::Credentials;
                Ok(Some(2))
            }
            (Stage::Method, [5, 255, ..]) => Err("it wants credentials, or others".to_owned()),
            (Stage::Credentials, [_, 0, ..]) => {
                self.request(plan);
                Ok(Some(2))
            }
            (Stage::Credentials, [_, _, ..]) => Err("it does not accept the credentials".to_owned()),
            (Stage::Reply, [5, 0, _, kind, first, ..]) => {
                let address = match kind {
                    1 => 4,
                    3 => 1 + usize::from(*first),
                    4 => 16,
                    _ => return Err("its reply has an address of no known kind".to_owned()),
                };
                let len = 4 + address + 2;
                if self.received.len() < len {
                    return Ok(None);
                }
                self.stage = Stage::Open;
                Ok(Some(len))
            }
            (Stage::Reply, [5, code @ 1..=255, ..]) => Err(format!("it answered {}", reply(*code))),
            (Stage::Method | Stage::Reply, [first, ..]) if *first != 5 => Err("it speaks no SOCKS5".to_owned()),
            (Stage::Method, [_, _, ..]) => Err("it has chosen a method that was not offered".to_owned()),
            _ => Ok(None),
        }
    }

    fn request(&mut self, plan: &ProxyPlan) {
        self.output = vec![5, 1, 0];
        match plan.host.parse::<IpAddr>() {
            Ok(IpAddr::V4(ip)) => self.output.extend([&[1][..], &ip.octets()].concat()),
            Ok(IpAddr::V6(ip)) => self.output.extend([&[4][..], &ip.octets()].concat()),
            Err(_) => self.output.extend([&[3, plan.host.len() as u8][..], plan.host.as_bytes()].concat()),
        }
        self.output.extend(plan.port.to_be_bytes());
        self.stage = Stage::Reply;
    }
}

fn connect(plan: &ProxyPlan) -> Vec<u8> {
    let host = if plan.host.contains(':') { format!("[{}]", plan.host) } else { plan.host.clone() };
    let authority = format!("{host}:{}", plan.port);
    let credentials = plan.authorization.as_ref().map(|value| format!("Proxy-Authorization: {value}\r\n"));
    let credentials = credentials.unwrap_or_default();
    format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{credentials}\r\n").into_bytes()
}

/// A reply of SOCKS5 in words (RFC 1928, 6).
fn reply(code: u8) -> String {
    let words = match code {
        1 => "general failure",
        2 => "not allowed",
        3 => "network unreachable",
        4 => "host unreachable",
        5 => "connection refused",
        6 => "TTL expired",
        7 => "command not supported",
        8 => "kind of address not supported",
        _ => return format!("code {code}"),
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(kind: ProxyKind, host: &str, credentials: bool) -> ProxyPlan {
        let credentials = credentials.then(|| ("user".to_owned(), "pass".to_owned()));
        let authorization = credentials.as_ref().map(|_| "Basic eDp5".to_owned());
        ProxyPlan { kind, host: host.to_owned(), port: 443, credentials, authorization }
    }

    /// Plays what the proxy says, byte by byte, and returns what it was sent, and what is behind
    /// it.
    fn play(plan: &ProxyPlan, says: &[&[u8]]) -> Result<(Vec<Vec<u8>>, Vec<u8>), String> {
        let mut tunnel = Tunnel::new(plan);
        let mut sent: Vec<Vec<u8>> = tunnel.take_output().into_iter().collect();
        for said in says {
            assert_eq!(tunnel.opened(), None);
            for byte in *said {
                tunnel.read(&[*byte], plan)?;
            }
            assert_eq!(tunnel.take_output(), None, "one send at a time");
            tunnel.on_sent();
            sent.extend(tunnel.take_output());
        }
        Ok((sent, tunnel.opened().ok_or("it is not open")?))
    }

    #[test]
    fn tunnels_are_made_by_connect() {
        let ok = b"HTTP/1.1 200 Connection established\r\nX: y\r\n\r\nmore";
        let (sent, rest) = play(&plan(ProxyKind::Http, "h", false), &[ok]).unwrap();
        assert_eq!((sent, rest), (vec![b"CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n".to_vec()], b"more".to_vec()));
        let (sent, _) = play(&plan(ProxyKind::Http, "::1", true), &[ok]).unwrap();
        let expected = "CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\nProxy-Authorization: Basic eDp5\r\n\r\n";
        assert_eq!(sent, [expected.as_bytes()]);
        let refused = play(&plan(ProxyKind::Http, "h", false), &[b"HTTP/1.1 403 Forbidden\r\n\r\n"]);
        assert_eq!(refused.unwrap_err(), "it answered HTTP/1.1 403 Forbidden");
        assert!(play(&plan(ProxyKind::Http, "h", false), &[&[b'x'; HEAD_BYTES_MAX + 1]]).is_err());
    }

    #[test]
    fn tunnels_are_made_by_socks() {
        let reply = [5, 0, 0, 1, 127, 0, 0, 1, 0, 80, b'm'];
        let (sent, rest) = play(&plan(ProxyKind::Socks5, "h.example", false), &[&[5, 0], &reply]).unwrap();
        assert_eq!(sent, [vec![5, 1, 0], [&[5, 1, 0, 3, 9][..], b"h.example", &[1, 187]].concat()]);
        assert_eq!(rest, b"m");
        let (sent, _) = play(&plan(ProxyKind::Socks5, "10.0.0.1", true), &[&[5, 2], &[1, 0], &reply]).unwrap();
        let expected = [vec![5, 2, 0, 2], b"\x01\x04user\x04pass".to_vec(), vec![5, 1, 0, 1, 10, 0, 0, 1, 1, 187]];
        assert_eq!(sent, expected);
        let failure = |says: &[&[u8]]| play(&plan(ProxyKind::Socks5, "h", false), says).unwrap_err();
        assert_eq!(failure(&[&[5, 0], &[5, 5, 0, 1]]), "it answered connection refused");
        assert_eq!(failure(&[b"HTTP"]), "it speaks no SOCKS5");
        assert_eq!(failure(&[&[5, 255]]), "it wants credentials, or others");
        assert_eq!(failure(&[&[5, 0]]), "it is not open");
    }
}
