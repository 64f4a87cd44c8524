//! HTTP/2: requests that share a connection, and its limits.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request as Message, Response as Answer};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::duplex;
use tokio::time::sleep;

use super::server::{ask, config};
use crate::config::{GroupConfig, OriginConfig};
use crate::group::OriginGroup;
use crate::message::Request;
use crate::network::{Connect, Connecting, Link, Spoken};

/// A server of HTTP/2 in memory. `/slow` takes a second, `/head/N` has a head of N bytes.
#[derive(Clone, Default)]
struct Server {
    streams_max: Option<u32>,
    connects: Arc<AtomicUsize>,
    at_once: Arc<AtomicUsize>,
    at_once_max: Arc<AtomicUsize>,
}

impl Server {
    async fn answer(self, message: Message<Incoming>) -> Result<Answer<Full<Bytes>>, Infallible> {
        let at_once = self.at_once.fetch_add(1, Ordering::Relaxed) + 1;
        self.at_once_max.fetch_max(at_once, Ordering::Relaxed);
        let uri = message.uri().to_string();
        let mut answer = Answer::new(Full::from(format!("{} {uri}", message.method())));
        if uri.ends_with("/slow") {
            sleep(Duration::from_secs(1)).await;
        }
        if let Some((_, bytes)) = uri.split_once("/head/") {
            answer.headers_mut().insert("x", "x".repeat(bytes.parse().unwrap()).parse().unwrap());
        }
        self.at_once.fetch_sub(1, Ordering::Relaxed);
        Ok(answer)
    }
}

impl Connect for Server {
    fn connect(&self) -> Connecting<'_> {
        let server = self.clone();
        Box::pin(async move {
            server.connects.fetch_add(1, Ordering::Relaxed);
            let (ours, theirs) = duplex(1 << 16);
            let streams_max = server.streams_max;
            let service = service_fn(move |message| server.clone().answer(message));
            tokio::spawn(async move {
                let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                builder.max_concurrent_streams(streams_max);
                let _ = builder.serve_connection(TokioIo::new(theirs), service).await;
            });
            // A round trip, so that requests meet while a connection is being established.
            sleep(Duration::from_millis(20)).await;
            Ok(Link { io: Box::new(ours), spoken: Spoken::Http2, address: None })
        })
    }

    fn may_multiplex(&self) -> bool {
        true
    }
}

fn group(server: &Server, change: impl FnOnce(&mut OriginConfig)) -> Arc<OriginGroup> {
    let mut config = config(0);
    change(&mut config);
    let connector: Box<dyn Connect> = Box::new(server.clone());
    Arc::new(OriginGroup::of_sources(vec![(config, Some(connector))], GroupConfig::default()).unwrap())
}

async fn many(group: &Arc<OriginGroup>, requests: usize) {
    let tasks: Vec<_> = (0..requests)
        .map(|_| {
            let group = Arc::clone(group);
            tokio::spawn(async move { ask(&group, Request::get("/slow")).await })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), "200 GET http://origin.example/base/slow");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_share_a_connection_also_while_it_is_established() {
    let server = Server::default();
    let group = group(&server, |_| {});
    many(&group, 50).await;
    assert_eq!(server.connects.load(Ordering::Relaxed), 1);
    assert_eq!(server.at_once_max.load(Ordering::Relaxed), 50);
    let figures = &group.statistics()[0];
    assert_eq!((figures.connections, figures.connections_idle, figures.requests), (1, 1, 0));
    sleep(Duration::from_secs(51)).await;
    assert_eq!(group.statistics()[0].connections, 0, "its idle time is over");
}

#[tokio::test(start_paused = true)]
async fn another_connection_is_made_when_the_streams_of_one_are_used_up() {
    let server = Server::default();
    let group = group(&server, |config| {
        config.limits.streams_max = 10;
        config.limits.connections_max = 3;
    });
    many(&group, 50).await;
    assert_eq!(server.connects.load(Ordering::Relaxed), 3);
    assert_eq!(server.at_once_max.load(Ordering::Relaxed), 30);
}

#[tokio::test(start_paused = true)]
async fn the_servers_own_limit_of_streams_is_kept() {
    let server = Server { streams_max: Some(4), ..Server::default() };
    let group = group(&server, |config| config.limits.connections_max = 2);
    assert_eq!(ask(&group, Request::get("/")).await, "200 GET http://origin.example/base/");
    many(&group, 20).await;
    assert_eq!(server.connects.load(Ordering::Relaxed), 2);
    assert!(server.at_once_max.load(Ordering::Relaxed) <= 8);
}

#[tokio::test(start_paused = true)]
async fn a_head_of_http2_is_bounded_too_and_the_connection_goes_on() {
    let server = Server::default();
    let group = group(&server, |config| config.limits.head_bytes_max = 4096);
    assert!(ask(&group, Request::get("/head/3000")).await.starts_with("200"));
    let refused = ask(&group, Request::get("/head/9000")).await;
    // The library tells it as a stream that it has reset.
    assert_eq!(refused, "a:protocol");
    assert!(ask(&group, Request::get("/")).await.starts_with("200"));
    assert_eq!(server.connects.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn the_host_field_is_the_authority() {
    let group = group(&Server::default(), |config| config.host = Some("public.example".into()));
    assert_eq!(ask(&group, Request::get("/a?b")).await, "200 GET http://public.example/base/a?b");
}
