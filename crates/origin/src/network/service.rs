//! The servers of a service, by records of type SRV (RFC 2782), which the system's resolver does
//! not look up.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// The servers of a service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Service {
    /// Their names and ports, in the order of the answer. Priorities and weights are not told.
    pub servers: Vec<(String, u16)>,
    /// How long the answer is valid.
    pub time_to_live: Duration,
}

/// How long one DNS server may take, and how often it is asked.
const ANSWER_TIME: Duration = Duration::from_secs(2);
const ROUNDS: usize = 2;

/// Bytes of an answer over UDP that no network fragments (RFC 9715).
const UDP_BYTES_MAX: u16 = 1232;

/// Most servers of a service.
const SERVERS_MAX: usize = 1000;

const HEADER_BYTES: usize = 12;
const TYPE_SRV: u16 = 33;
const TYPE_OPT: u16 = 41;
const CLASS_IN: u16 = 1;
const RECURSION_DESIRED: u16 = 0x0100;
const IS_RESPONSE: u16 = 0x8000;
const IS_TRUNCATED: u16 = 0x0200;

/// Looks up a service, such as `_thalweg._tcp.example.org`, at this DNS server, or at those of the
/// host.
///
/// # Errors
/// No server answers, or there is no such service.
pub async fn look_up_service(name: &str, resolver: Option<SocketAddr>) -> io::Result<Service> {
    let resolvers = match resolver {
        Some(resolver) => vec![resolver],
        None => of_host()?,
    };
    let mut failure = io::Error::other("/etc/resolv.conf names no DNS server");
    for _ in 0..ROUNDS {
        for resolver in &resolvers {
            match ask(name, *resolver).await {
                Ok(Answer::Service(service)) => return Ok(service),
                Ok(Answer::Refusal(reason)) => failure = io::Error::other(format!("{resolver} answers: {reason}")),
                Err(error) => failure = io::Error::new(error.kind(), format!("{resolver}: {error}")),
            }
        }
    }
    Err(failure)
}

/// The DNS servers of `/etc/resolv.conf`.
fn of_host() -> io::Result<Vec<SocketAddr>> {
    let text = std::fs::read_to_string("/etc/resolv.conf")?;
    let addresses = text.lines().filter_map(|line| line.strip_prefix("nameserver")?.trim().parse::<IpAddr>().ok());
    Ok(addresses.map(|address| SocketAddr::new(address, 53)).take(3).collect())
}

#[derive(PartialEq, Eq, Debug)]
enum Answer {
    Service(Service),
    Refusal(&'static str),
}

async fn ask(name: &str, resolver: SocketAddr) -> io::Result<Answer> {
    // A port of its own for each question, and a number that nobody knows, as RFC 5452 wants it.
    let number = RandomState::new().hash_one(name) as u16;
    let question = question(name, number)?;
    let late = || io::Error::new(io::ErrorKind::TimedOut, "it did not answer in time");
    let answer = timeout(ANSWER_TIME, over_udp(&question, resolver, number)).await.map_err(|_| late())??;
    let answer = match answer {
        Some(answer) => answer,
        None => timeout(ANSWER_TIME, over_tcp(&question, resolver)).await.map_err(|_| late())??,
    };
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "its answer is malformed");
    read(&answer, number).ok_or_else(malformed)
}

/// The answer; `None` if it is longer than a datagram.
async fn over_udp(question: &[u8], resolver: SocketAddr, number: u16) -> io::Result<Option<Vec<u8>>> {
    let any: IpAddr = if resolver.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(resolver).await?;
    socket.send(question).await?;
    let mut bytes = vec![0; UDP_BYTES_MAX.into()];
    loop {
        let length = socket.recv(&mut bytes).await?;
        let mut input = Input { message: &bytes[..length], at: 0 };
        // An answer to another question is left alone.
        if input.u16() == Some(number) {
            let is_truncated = input.u16().is_some_and(|flags| flags & IS_TRUNCATED != 0);
            return Ok((!is_truncated).then(|| bytes[..length].to_vec()));
        }
    }
}

async fn over_tcp(question: &[u8], resolver: SocketAddr) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(resolver).await?;
    let length = (question.len() as u16).to_be_bytes();
    stream.write_all(&[&length[..], question].concat()).await?;
    let mut bytes = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// A question (RFC 1035, 4.1), with the size of datagrams that are taken (RFC 6891, 6.1.2).
fn question(name: &str, number: u16) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for word in [number, RECURSION_DESIRED, 1, 0, 0, 1] {
        bytes.extend(word.to_be_bytes());
    }
    for label in name.trim_end_matches('.').split('.') {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..=63).contains(length));
        bytes.push(length.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the name has no such label"))?);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    for word in [TYPE_SRV, CLASS_IN] {
        bytes.extend(word.to_be_bytes());
    }
    bytes.push(0);
    for word in [TYPE_OPT, UDP_BYTES_MAX, 0, 0, 0] {
        bytes.extend(word.to_be_bytes());
    }
    Ok(bytes)
}

/// Reads an answer; `None` if it is malformed.
fn read(message: &[u8], number: u16) -> Option<Answer> {
    let mut input = Input { message, at: 0 };
    let (id, flags, questions, answers) = (input.u16()?, input.u16()?, input.u16()?, input.u16()?);
    input.at = HEADER_BYTES;
    if id != number || flags & IS_RESPONSE == 0 {
        return None;
    }
    match flags & 0xf {
        0 => {}
        3 => return Some(Answer::Refusal("there is no such name")),
        5 => return Some(Answer::Refusal("it refuses the question")),
        _ => return Some(Answer::Refusal("it has failed")),
    }
    for _ in 0..questions {
        input.skip_name()?;
        input.at += 4;
    }
    let (mut servers, mut seconds) = (Vec::new(), u32::MAX);
    for _ in 0..answers {
        input.skip_name()?;
        let (kind, class) = (input.u16()?, input.u16()?);
        let time_to_live = u32::from(input.u16()?) << 16 | u32::from(input.u16()?);
        let end = usize::from(input.u16()?) + input.at;
        if (kind, class) == (TYPE_SRV, CLASS_IN) && servers.len() < SERVERS_MAX {
            let (_priority, _weight, port) = (input.u16()?, input.u16()?, input.u16()?);
            let target = input.name()?;
            // A dot alone: there is no such service (RFC 2782).
            if !target.is_empty() {
                servers.push((target, port));
            }
        }
        seconds = seconds.min(time_to_live);
        input.at = end;
    }
    if servers.is_empty() {
        return Some(Answer::Refusal("the name has no records of type SRV"));
    }
    Some(Answer::Service(Service { servers, time_to_live: Duration::from_secs(seconds.into()) }))
}

/// A message, and how far it was read.
struct Input<'m> {
    message: &'m [u8],
    at: usize,
}

impl Input<'_> {
    fn u8(&mut self) -> Option<u8> {
        let byte = self.message.get(self.at).copied();
        self.at += 1;
        byte
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes([self.u8()?, self.u8()?]))
    }

    fn skip_name(&mut self) -> Option<()> {
        self.name().map(drop)
    }

    /// A name in lower case without a dot at its end (RFC 1035, 4.1.4).
    fn name(&mut self) -> Option<String> {
        let mut labels: Vec<String> = Vec::new();
        let mut behind = None;
        loop {
            let length = self.u8()?;
            match length {
                0 => break,
                1..=63 => {
                    let label = self.message.get(self.at..self.at + usize::from(length))?;
                    self.at += label.len();
                    let is_host = label.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte));
                    labels.push(is_host.then(|| String::from_utf8_lossy(label).to_ascii_lowercase())?);
                    // As many as a name may have, so that pointers in a circle end.
                    if labels.len() > 127 {
                        return None;
                    }
                }
                _ if length >= 0xc0 => {
                    let place = usize::from(length & 0x3f) << 8 | usize::from(self.u8()?);
                    behind.get_or_insert(self.at);
                    // A name goes on in what was before it.
                    if place >= self.at - 2 {
                        return None;
                    }
                    self.at = place;
                }
                _ => return None,
            }
        }
        self.at = behind.unwrap_or(self.at);
        Some(labels.join("."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer with these records, whose targets are followed by a pointer to the name asked for.
    fn answer(number: u16, flags: u16, records: &[(&str, u16, u32)]) -> Vec<u8> {
        let mut bytes = question("_a._tcp.b.example", number).unwrap();
        bytes.truncate(bytes.len() - 11);
        bytes[2..4].copy_from_slice(&(IS_RESPONSE | flags).to_be_bytes());
        bytes[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
        for (target, port, seconds) in records {
            bytes.extend([0xc0, 12]);
            bytes.extend([TYPE_SRV, CLASS_IN].map(u16::to_be_bytes).concat());
            bytes.extend(seconds.to_be_bytes());
            bytes.extend((6 + 1 + target.len() as u16 + 2).to_be_bytes());
            bytes.extend([1, 2, *port].map(u16::to_be_bytes).concat());
            bytes.push(target.len() as u8);
            bytes.extend(target.as_bytes());
            // `b.example`
            bytes.extend([0xc0, 12 + 3 + 5]);
        }
        bytes
    }

    fn service(servers: &[(&str, u16)], seconds: u64) -> Service {
        let servers = servers.iter().map(|(name, port)| ((*name).to_owned(), *port)).collect();
        Service { servers, time_to_live: Duration::from_secs(seconds) }
    }

    #[test]
    fn answers_are_read() {
        let message = answer(7, 0, &[("One", 80, 30), ("two", 8080, 20)]);
        let expected = service(&[("one.b.example", 80), ("two.b.example", 8080)], 20);
        assert_eq!(read(&message, 7), Some(Answer::Service(expected)));
        assert_eq!(read(&message, 8), None);
        assert_eq!(read(&answer(7, 3, &[]), 7), Some(Answer::Refusal("there is no such name")));
        assert!(matches!(read(&answer(7, 0, &[]), 7), Some(Answer::Refusal(reason)) if reason.contains("SRV")));
    }

    #[test]
    fn malformed_answers_are_refused() {
        let message = answer(7, 0, &[("one", 80, 30)]);
        for length in 0..message.len() {
            assert_eq!(read(&message[..length], 7), None, "{length}");
        }
        for at in 0..message.len() {
            for byte in [0, 1, 0x3f, 0x40, 0xc0, 0xff] {
                let mut changed = message.clone();
                changed[at] = byte;
                // It ends, and does not panic.
                let _ = read(&changed, 7);
            }
        }
        let mut circle = message;
        let end = circle.len();
        circle[end - 1] = (end - 2) as u8;
        assert_eq!(read(&circle, 7), None);
    }

    #[test]
    fn names_that_cannot_be_asked_for() {
        for name in ["", "a..b", &format!("{}.b", "x".repeat(64))] {
            assert!(question(name, 1).is_err(), "{name}");
        }
    }

    #[tokio::test]
    async fn a_long_answer_comes_over_tcp() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let socket = UdpSocket::bind(address).await.unwrap();
        let truncated = tokio::spawn(async move {
            let mut bytes = [0; 512];
            let (_, client) = socket.recv_from(&mut bytes).await.unwrap();
            let number = u16::from_be_bytes([bytes[0], bytes[1]]);
            // Another question's answer comes first.
            socket.send_to(&answer(number ^ 1, 0, &[("bad", 1, 1)]), client).await.unwrap();
            socket.send_to(&answer(number, IS_TRUNCATED, &[]), client).await.unwrap();
        });
        let whole = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = vec![0; stream.read_u16().await.unwrap().into()];
            stream.read_exact(&mut bytes).await.unwrap();
            let answer = answer(u16::from_be_bytes([bytes[0], bytes[1]]), 0, &[("one", 80, 30)]);
            stream.write_all(&[&(answer.len() as u16).to_be_bytes()[..], &answer].concat()).await.unwrap();
        });
        let found = look_up_service("_a._tcp.b.example", Some(address)).await.unwrap();
        assert_eq!(found, service(&[("one.b.example", 80)], 30));
        truncated.await.unwrap();
        whole.await.unwrap();
    }
}
