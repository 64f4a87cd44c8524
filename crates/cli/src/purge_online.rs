//! `thalweg cache purge --server`, and `stat`, `ls` and `export`: purging from a running server,
//! and looking at its cache, over its status listener.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use thalweg_observe::remote::Token;
use url::{Host, Url, form_urlencoded};

use crate::exit::{Exit, Failure};
use crate::options::CachePurgeOptions;
use crate::output::print;
use crate::secret_file;

/// The port of the status listener in the documentation.
const STATUS_PORT: u16 = 9180;

/// How long a connection may take.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// How long a purge may take: one by prefix reads the heads of everything that is stored.
const ANSWER_TIME: Duration = Duration::from_secs(3600);
/// Most bytes of an answer.
const ANSWER_BYTES_MAX: u64 = 128 << 20;

/// A request to a status listener.
struct Request<'r> {
    method: &'static str,
    target: &'r str,
    token: Option<&'r Token>,
    body: &'r str,
}

/// A status listener.
struct Listener {
    url: String,
    host: String,
    port: u16,
    /// As a request names it.
    authority: String,
}

/// Purges from the server that listens at a URL.
///
/// # Errors
/// The server cannot be reached, refuses the token, or has nothing of that name.
pub(crate) fn purge_online(server: &str, options: &CachePurgeOptions) -> Result<ExitCode, Failure> {
    let listener = Listener::parse(server)?;
    let path = options.token.as_deref().unwrap_or(Path::new(""));
    let token = Token::read(path).map_err(Failure::usage)?;
    secret_file::warn(path);
    let order = json!({
        "url": options.url, "prefix": options.prefix, "group": options.group, "mount": options.mount, "soft": options.soft,
    });
    let request = Request { method: "POST", target: "/purge", token: Some(&token), body: &order.to_string() };
    let answer = listener.ask(&request).map_err(|error| unreachable(server, &error))?;
    let is_other = || is_no_listener(server);
    let (status, body) = read(&answer).ok_or_else(is_other)?;
    let document: Value = serde_json::from_str(body).unwrap_or_default();
    if status == 200 && document["schema"] != "thalweg.purge/1" {
        return Err(is_other());
    }
    if status != 200 {
        return Err(refusal(server, path, status, document["error"].as_str().unwrap_or(body.trim())));
    }
    print(&if options.json { body.to_owned() } else { summary(&document) })?;
    Ok(Exit::Met.into())
}

/// The volumes of a running server, as its status has them.
///
/// # Errors
/// The server cannot be reached, or has no disk cache.
pub(crate) fn volumes_online(server: &str) -> Result<Vec<Value>, Failure> {
    let request = Request { method: "GET", target: "/status.json", token: None, body: "" };
    let answer = Listener::parse(server)?.ask(&request).map_err(|error| unreachable(server, &error))?;
    let (status, body) = read(&answer).ok_or_else(|| is_no_listener(server))?;
    let document: Value = serde_json::from_str(body).unwrap_or_default();
    match document["disk_cache"]["volumes"].as_array() {
        Some(volumes) if status == 200 => Ok(volumes.clone()),
        _ if status == 200 && document.is_object() => {
            Err(Failure::unreachable(format!("{server} has no disk cache: no mount of it has origins")))
        }
        _ => Err(is_no_listener(server)),
    }
}

/// The stored objects of a running server: rows as `thalweg cache ls --json` has them, and whether
/// there are more. Of `hot`, so many with the most hits.
///
/// # Errors
/// The server cannot be reached, or refuses the token.
pub(crate) fn objects_online(
    server: &str,
    token: Option<&Path>,
    (prefix, hot): (Option<&str>, Option<usize>),
) -> Result<(Vec<Value>, bool), Failure> {
    let listener = Listener::parse(server)?;
    let path = token.ok_or_else(|| {
        Failure::usage(
            "--server needs --token FILE: the file that status.read_token of the server's configuration names",
        )
    })?;
    let token = Token::read(path).map_err(Failure::usage)?;
    secret_file::warn(path);
    let mut query = form_urlencoded::Serializer::new(String::new());
    prefix.into_iter().for_each(|prefix| _ = query.append_pair("prefix", prefix));
    hot.into_iter().for_each(|hot| _ = query.append_pair("hot", &hot.to_string()));
    let target = format!("/objects?{}", query.finish());
    let request = Request { method: "GET", target: &target, token: Some(&token), body: "" };
    let answer = listener.ask(&request).map_err(|error| unreachable(server, &error))?;
    let (status, body) = read(&answer).ok_or_else(|| is_no_listener(server))?;
    let document: Value = serde_json::from_str(body).unwrap_or_default();
    match (status, document["objects"].as_array()) {
        (200, Some(rows)) if document["schema"] == "thalweg.objects/1" => {
            Ok((rows.clone(), document["incomplete"] == true))
        }
        (200, _) => Err(is_no_listener(server)),
        (401, _) => Err(Failure::usage(format!(
            "{server} refuses the token in {}; use the file that status.read_token of its configuration names",
            path.display()
        ))),
        (403, _) => Err(Failure::unreachable(format!(
            "{server} does not list what it has stored; set read_token = {path:?} in [status] of its configuration"
        ))),
        _ => Err(Failure::unreachable(format!(
            "{server} answers {status}: {}",
            document["error"].as_str().unwrap_or("")
        ))),
    }
}

fn unreachable(server: &str, error: &io::Error) -> Failure {
    let advice = "is `thalweg serve` running with this address as --status?";
    Failure::unreachable(format!("cannot reach {server}: {error}; {advice}"))
}

fn is_no_listener(server: &str) -> Failure {
    Failure::unreachable(format!("{server} does not answer as the status listener of thalweg"))
}

/// A purge that was not carried out, or not to its end.
fn refusal(server: &str, token: &Path, status: u16, why: &str) -> Failure {
    let path = token.display();
    match status {
        401 => Failure::usage(format!(
            "{server} refuses the token in {path}; use the file that status.purge_token of its configuration names (a \
             running server reads it again on HUP)"
        )),
        403 => Failure::unreachable(format!(
            "{server} does not purge over the network; set purge_token = {token:?} in [status] of its configuration"
        )),
        400 | 404 | 413 | 415 if !why.is_empty() => Failure::usage(format!("{server} purged nothing: {why}")),
        _ => Failure::unreachable(format!("{server} answers {status}: {why}")),
    }
}

/// The answer for people: a line for each purge.
fn summary(document: &Value) -> String {
    let how = if document["soft"] == true { "soft purge" } else { "purge" };
    let rows = document["purged"].as_array().map_or(&[][..], Vec::as_slice);
    let line = |row: &Value| {
        let mount = row["mount"].as_str().unwrap_or_default();
        let named =
            ["url", "prefix", "group", "mount"].into_iter().find(|what| *what != "mount" && row[what].is_string());
        match named {
            Some("prefix") => {
                let count = row["purges"].as_u64().unwrap_or(0);
                let objects = if count == 1 { "object" } else { "objects" };
                format!("{how} of {count} {objects} below {}\n", row["name"].as_str().unwrap_or_default())
            }
            Some("group") => format!("{how} of the group {} of {mount}\n", row["group"]),
            Some(_) => format!("{how} of {}\n", row["name"].as_str().unwrap_or_default()),
            None => format!("{how} of all of {mount}\n"),
        }
    };
    rows.iter().map(line).collect()
}

impl Listener {
    fn parse(server: &str) -> Result<Self, Failure> {
        let refuse = |why: &str| Failure::usage(format!("--server {server}: {why}; expected http://HOST:PORT"));
        let text = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
        let url = Url::parse(&text).map_err(|error| refuse(&error.to_string()))?;
        if url.scheme() != "http" {
            return Err(refuse("a status listener speaks http alone"));
        }
        let host = match url.host() {
            Some(Host::Ipv6(address)) => address.to_string(),
            Some(host) => host.to_string(),
            None => return Err(refuse("it names no host")),
        };
        let has_port = url.port().is_some() || text.trim_end_matches('/').ends_with(":80");
        let port = if has_port { url.port_or_known_default().unwrap_or(STATUS_PORT) } else { STATUS_PORT };
        let authority = format!("{}:{port}", url.host_str().unwrap_or_default());
        Ok(Self { url: server.to_owned(), host, port, authority })
    }

    /// Sends a request; the whole answer.
    fn ask(&self, Request { method, target, token, body }: &Request<'_>) -> io::Result<Vec<u8>> {
        let mut connection = self.connect()?;
        connection.set_read_timeout(Some(ANSWER_TIME))?;
        connection.set_write_timeout(Some(CONNECT_TIME))?;
        let authorization = token.map(|token| format!("Authorization: {}\r\n", token.field())).unwrap_or_default();
        let content = match body.len() {
            0 => String::new(),
            bytes => format!("Content-Type: application/json\r\nContent-Length: {bytes}\r\n"),
        };
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\n{authorization}{content}Connection: close\r\n\r\n",
            self.authority
        );
        connection.write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
        let mut answer = Vec::new();
        connection.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
        Ok(answer)
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let mut failed = io::Error::new(io::ErrorKind::NotFound, format!("{} has no address", self.url));
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_TIME) {
                Ok(connection) => return Ok(connection),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}

/// Status and body of an answer.
fn read(answer: &[u8]) -> Option<(u16, &str)> {
    let answer = std::str::from_utf8(answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    Some((status, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_by_url_or_address() {
        let check = |server: &str, host: &str, authority: &str| {
            let listener = Listener::parse(server).unwrap();
            assert_eq!((&*listener.host, &*listener.authority), (host, authority), "{server}");
        };
        check("http://127.0.0.1:9181/", "127.0.0.1", "127.0.0.1:9181");
        check("http://mirror.example", "mirror.example", "mirror.example:9180");
        check("http://mirror.example:80", "mirror.example", "mirror.example:80");
        check("localhost:9", "localhost", "localhost:9");
        check("http://[::1]:9180", "::1", "[::1]:9180");
        for wrong in ["https://a.example", "http://", "http://a b"] {
            assert!(Listener::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn answers_are_told_in_a_line_each() {
        let document = json!({ "soft": false, "purged": [
            { "url": "/debian/x", "mount": "a/debian/", "name": "a/debian/x", "purges": 1 },
            { "prefix": "/debian/d", "mount": "a/debian/", "name": "a/debian/d", "purges": 12 },
            { "group": "g", "mount": "a/debian/", "purges": 1 },
            { "mount": "a/debian/", "purges": 1 },
        ] });
        let expected = "purge of a/debian/x\npurge of 12 objects below a/debian/d\n\
                        purge of the group \"g\" of a/debian/\npurge of all of a/debian/\n";
        assert_eq!(summary(&document), expected);
        assert_eq!(read(b"HTTP/1.1 401 Unauthorized\r\nA: b\r\n\r\nx"), Some((401, "x")));
        assert_eq!(read(b"SSH-2.0-OpenSSH"), None);
    }
}
