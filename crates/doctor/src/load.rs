//! The planned load, as far as a host's state matters to it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use thalweg_units::{display, parse_rate};

/// The side of the connections that this host plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It measures.
    Client,
    /// It serves.
    Server,
}

/// A load that is planned for this host.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedLoad {
    /// The load in words: `hold 100,000 connections`.
    pub name: String,
    /// This host's side.
    pub role: Role,
    /// Connections open at once.
    pub connections: u64,
    /// Connections opened and closed per second.
    pub opened_per_s: f64,
    /// Requests per second; `None` if not known in advance.
    pub requests_per_s: Option<f64>,
    /// Requests per connection; `None` if a connection is kept as long as the server allows.
    pub calls: Option<u32>,
    /// The client asks the server to close, so that the server's end of a connection waits after
    /// its end (TIME_WAIT), if the server obeys.
    pub asks_to_close: bool,
    /// Length of the load; `None` if not known.
    pub length: Option<Duration>,
    /// The URL of the target, before it is resolved.
    pub url: Option<String>,
    /// The target's address; `None` if not known, or if it is a Unix socket.
    pub target: Option<SocketAddr>,
    /// Client and server share this host.
    pub shared_host: bool,
    /// Local addresses to connect from.
    pub sources: usize,
    /// CPUs that carry the load.
    pub cpus: Vec<usize>,
    /// Folder that is served.
    pub tree: Option<PathBuf>,
}

/// The reason why a text names no load.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a load: {problem}; expected for example 'hold 100000', 'rate 50000/s', 'conn-rate 2000/s', \
     'find http://host/' or 'serve /srv/mirror'"
)]
pub struct LoadError {
    text: String,
    problem: String,
}

/// Connections of a server for which nothing is said: the number that the download server of this
/// project is made for on a small machine.
const SERVED_DEFAULT: u64 = 10_000;

/// Connections of `run --rate` and `find`, at most.
const CONNECTIONS_MAX: f64 = 256.0;
const CONNECTIONS_MIN: f64 = 16.0;

/// Response time for which `run --rate` keeps connections ready, in seconds.
const RESPONSE_S: f64 = 0.05;

impl PlannedLoad {
    /// A load of nothing, to be filled in.
    pub fn new(name: impl Into<String>, role: Role, connections: u64) -> Self {
        Self {
            name: name.into(),
            role,
            connections,
            opened_per_s: 0.0,
            requests_per_s: None,
            calls: None,
            asks_to_close: false,
            length: None,
            url: None,
            target: None,
            shared_host: false,
            sources: 1,
            cpus: Vec::new(),
            tree: None,
        }
    }

    /// Whether this host has the client's end of the connections.
    pub fn measures(&self) -> bool {
        self.role == Role::Client
    }

    /// Whether this host has the server's end of the connections.
    pub fn serves(&self) -> bool {
        self.role == Role::Server || self.shared_host
    }

    /// Ends of connections on this host.
    pub fn ends(&self) -> u64 {
        self.connections * (u64::from(self.measures()) + u64::from(self.serves()))
    }

    /// Whether the target is known to be reached over the loopback device.
    pub fn over_loopback(&self) -> bool {
        self.shared_host
    }
}

impl FromStr for PlannedLoad {
    type Err = LoadError;

    fn from_str(text: &str) -> Result<Self, LoadError> {
        let wrong = |problem: String| LoadError { text: text.to_owned(), problem };
        let mut words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() {
            return Err(wrong("it is empty".to_owned()));
        }
        let kind = words.remove(0);
        let url = words.iter().position(|word| word.contains("://")).map(|at| words.remove(at).to_owned());
        let calls = calls_of(&mut words).map_err(&wrong)?;
        let mut load = match kind {
            "hold" => held(take(&mut words)),
            "rate" => requests(take(&mut words), calls),
            "conn-rate" => users(take(&mut words), calls),
            "find" => Ok(Self { calls, ..Self::new("a capacity search", Role::Client, CONNECTIONS_MAX as u64) }),
            "serve" => Ok(served(&mut words)),
            _ => Err(format!("`{kind}` is none of hold, rate, conn-rate, find and serve")),
        }
        .map_err(&wrong)?;
        if let Some(rest) = words.first() {
            return Err(wrong(format!("`{rest}` is not understood")));
        }
        if url.is_some() && load.role == Role::Server {
            return Err(wrong("a server has no target".to_owned()));
        }
        if url.is_none() && kind == "find" {
            return Err(wrong("the URL is missing".to_owned()));
        }
        load.url = url;
        Ok(load)
    }
}

fn take<'t>(words: &mut Vec<&'t str>) -> Option<&'t str> {
    (!words.is_empty()).then(|| words.remove(0))
}

/// The number after the word `calls`.
fn calls_of(words: &mut Vec<&str>) -> Result<Option<u32>, String> {
    let Some(at) = words.iter().position(|word| *word == "calls") else { return Ok(None) };
    let number = words.get(at + 1).and_then(|word| word.parse().ok()).filter(|&calls| calls > 0);
    let calls = number.ok_or("`calls` needs a number of at least 1")?;
    words.drain(at..=at + 1);
    Ok(Some(calls))
}

fn held(number: Option<&str>) -> Result<PlannedLoad, String> {
    let connections = number.and_then(|word| word.parse().ok()).filter(|&n: &u64| n > 0);
    let connections = connections.ok_or("`hold` needs a number of connections")?;
    Ok(PlannedLoad::new(format!("hold {} connections", display::count(connections)), Role::Client, connections))
}

fn requests(rate: Option<&str>, calls: Option<u32>) -> Result<PlannedLoad, String> {
    let rate = parse_rate(rate.ok_or("`rate` needs a rate")?).map_err(|error| error.to_string())?;
    let connections = (rate * RESPONSE_S).clamp(CONNECTIONS_MIN, CONNECTIONS_MAX) as u64;
    Ok(PlannedLoad {
        requests_per_s: Some(rate),
        opened_per_s: calls.map_or(0.0, |calls| rate / f64::from(calls)),
        calls,
        ..PlannedLoad::new(format!("offer {}", display::rate(rate)), Role::Client, connections)
    })
}

fn users(rate: Option<&str>, calls: Option<u32>) -> Result<PlannedLoad, String> {
    let rate = parse_rate(rate.ok_or("`conn-rate` needs a rate")?).map_err(|error| error.to_string())?;
    let calls = calls.unwrap_or(1);
    // Connections that are open at once, at a lifetime of a second.
    let connections = rate.ceil().max(1.0) as u64;
    let each = if calls == 1 { "one request".to_owned() } else { format!("{calls} requests") };
    let name = format!("open {} connections per second with {each} each", display::count(rate.round() as u64));
    Ok(PlannedLoad {
        requests_per_s: Some(rate * f64::from(calls)),
        opened_per_s: rate,
        calls: Some(calls),
        ..PlannedLoad::new(name, Role::Client, connections)
    })
}

/// A folder, a number of connections, both or neither.
fn served(words: &mut Vec<&str>) -> PlannedLoad {
    let number = words.iter().position(|word| word.parse::<u64>().is_ok_and(|n| n > 0));
    let connections = number.map_or(SERVED_DEFAULT, |at| words.remove(at).parse().unwrap_or(SERVED_DEFAULT));
    let tree = take(words).map(PathBuf::from);
    let of = tree.as_ref().map_or_else(String::new, |tree| format!("{} to ", tree.display()));
    let name = format!("serve {of}{} connections", display::count(connections));
    PlannedLoad { tree, ..PlannedLoad::new(name, Role::Server, connections) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_read() {
        for (text, name, connections, opened) in [
            ("hold 100000", "hold 100,000 connections", 100_000, 0.0),
            ("hold 5 http://h/", "hold 5 connections", 5, 0.0),
            ("rate 50000/s", "offer 50,000/s", 256, 0.0),
            ("rate 50000", "offer 50,000/s", 256, 0.0),
            ("rate 1000/s calls 10", "offer 1,000/s", 50, 100.0),
            ("conn-rate 2000/s", "open 2,000 connections per second with one request each", 2000, 2000.0),
            ("find http://h/", "a capacity search", 256, 0.0),
            ("serve", "serve 10,000 connections", 10_000, 0.0),
            ("serve /srv 50000", "serve /srv to 50,000 connections", 50_000, 0.0),
        ] {
            let load: PlannedLoad = text.parse().unwrap();
            assert_eq!((&*load.name, load.connections, load.opened_per_s), (name, connections, opened), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused_with_the_reason() {
        for (text, problem) in [
            ("", "empty"),
            ("hold", "needs a number"),
            ("hold 0", "needs a number"),
            ("rate fast", "rate"),
            ("conn-rate 5/s calls 0", "at least 1"),
            ("find", "URL is missing"),
            ("serve http://h/", "no target"),
            ("run http://h/", "none of hold"),
            ("hold 5 6", "`6` is not understood"),
        ] {
            let error = text.parse::<PlannedLoad>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
