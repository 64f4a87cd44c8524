//! Scripted servers in memory, and groups that ask them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::sleep;

use crate::config::{GroupConfig, OriginConfig, OriginKind};
use crate::failure::{Failure, FailureKind};
use crate::group::OriginGroup;
use crate::message::Request;
use crate::network::{Connect, Connecting, Link, Spoken};

/// One step of a server on one connection. It closes the connection behind the last one.
#[derive(Clone, Debug)]
pub(super) enum Do {
    /// Waits for a whole request, and notes it.
    Read,
    Send(String),
    Wait(Duration),
    /// Says and does nothing any more.
    Hang,
}

/// A whole response with a body.
pub(super) fn ok(body: &str) -> Do {
    response("200 OK", "", body)
}

pub(super) fn response(status: &str, fields: &str, body: &str) -> Do {
    Do::Send(format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len()))
}

/// A server: the script of each connection, and the requests that it has seen.
#[derive(Clone, Default)]
pub(super) struct Server(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    connections: VecDeque<Vec<Do>>,
    requests: Vec<String>,
    connects: usize,
}

impl Server {
    pub(super) fn new(connections: impl IntoIterator<Item = Vec<Do>>) -> Self {
        let connections = connections.into_iter().collect();
        Self(Arc::new(Mutex::new(State { connections, ..State::default() })))
    }

    /// Accepts more connections.
    pub(super) fn add(&self, connection: Vec<Do>) {
        self.0.lock().unwrap().connections.push_back(connection);
    }

    /// The whole heads and bodies of the requests so far.
    pub(super) fn requests(&self) -> Vec<String> {
        self.0.lock().unwrap().requests.clone()
    }

    /// The request lines so far, without the version.
    pub(super) fn lines(&self) -> Vec<String> {
        self.requests().iter().map(|text| text.lines().next().unwrap().replace(" HTTP/1.1", "")).collect()
    }

    /// How often somebody has tried to connect.
    pub(super) fn connects(&self) -> usize {
        self.0.lock().unwrap().connects
    }

    async fn serve(self, mut stream: DuplexStream, script: Vec<Do>) {
        let mut input = Vec::new();
        for step in script {
            match step {
                Do::Read => match read_request(&mut stream, &mut input).await {
                    Some(request) => self.0.lock().unwrap().requests.push(request),
                    None => return,
                },
                Do::Send(text) => {
                    if stream.write_all(text.as_bytes()).await.is_err() {
                        return;
                    }
                }
                Do::Wait(time) => sleep(time).await,
                Do::Hang => std::future::pending().await,
            }
        }
    }
}

/// Reads a request with its body; `None` at the end of the connection.
async fn read_request(stream: &mut DuplexStream, input: &mut Vec<u8>) -> Option<String> {
    loop {
        let text = String::from_utf8_lossy(input).into_owned();
        if let Some(head) = text.find("\r\n\r\n").map(|end| end + 4) {
            let lower = text[..head].to_ascii_lowercase();
            let body = lower.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let end = head + body.unwrap_or(0);
            if input.len() >= end {
                let request = input.drain(..end).collect();
                return Some(String::from_utf8(request).unwrap());
            }
        }
        if stream.read_buf(input).await.ok()? == 0 {
            return None;
        }
    }
}

impl Connect for Server {
    fn connect(&self) -> Connecting<'_> {
        let mut state = self.0.lock().unwrap();
        state.connects += 1;
        let script = state.connections.pop_front();
        drop(state);
        let server = self.clone();
        Box::pin(async move {
            let script = script.ok_or_else(|| Failure::new(FailureKind::Refused, "connection refused"))?;
            let (ours, theirs) = duplex(1 << 16);
            tokio::spawn(server.serve(theirs, script));
            Ok(Link { io: Box::new(ours), spoken: Spoken::Http1, address: None })
        })
    }

    fn may_multiplex(&self) -> bool {
        false
    }
}

/// The settings of an HTTP origin, named after its place: `a`, `b`, ...
pub(super) fn config(place: usize) -> OriginConfig {
    let base = "http://origin.example/base/".parse().unwrap();
    OriginConfig::new(char::from(b'a' + place as u8).to_string(), OriginKind::Http { base })
}

/// A group of servers with changed settings.
pub(super) fn group_of(servers: &[Server], group: GroupConfig, change: impl Fn(&mut OriginConfig)) -> Arc<OriginGroup> {
    let sources = servers.iter().enumerate().map(|(place, server)| {
        let mut config = config(place);
        change(&mut config);
        (config, Some(Box::new(server.clone()) as Box<dyn Connect>))
    });
    Arc::new(OriginGroup::of_sources(sources.collect(), group).unwrap())
}

pub(super) fn group(servers: &[Server]) -> Arc<OriginGroup> {
    group_of(servers, GroupConfig::default(), |_| {})
}

/// The answer to a request in short: `200 body`, or the kinds of all failures.
pub(super) async fn ask(group: &OriginGroup, request: Request) -> String {
    match group.fetch(&request).await {
        Ok(response) => {
            let status = response.status;
            match response.body.collect(1 << 20).await {
                Ok(body) => format!("{status} {}", String::from_utf8_lossy(&body.unwrap())),
                Err(error) => format!("{status}, then {} after {}", error.failure.kind.name(), error.received),
            }
        }
        Err(error) => {
            let kinds =
                error.attempts.iter().map(|attempt| format!("{}:{}", attempt.origin, attempt.failure.kind.name()));
            kinds.collect::<Vec<_>>().join(" ")
        }
    }
}

pub(super) async fn get(group: &OriginGroup, path: &str) -> String {
    ask(group, Request::get(path)).await
}

pub(super) async fn post(group: &OriginGroup, path: &str, body: &str) -> String {
    let request = Request { body: body.to_owned().into(), ..Request::new(hyper::Method::POST, path) };
    ask(group, request).await
}
