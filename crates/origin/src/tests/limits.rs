//! Limits of connections, requests and heads.

use std::sync::Arc;
use std::time::Duration;

use super::server::{Do, Server, get, group, group_of, ok};
use crate::config::GroupConfig;
use crate::group::OriginGroup;
use crate::message::Request;

fn later(group: &Arc<OriginGroup>, path: &'static str) -> tokio::task::JoinHandle<String> {
    let group = Arc::clone(group);
    tokio::spawn(async move { get(&group, path).await })
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_one_of_the_connections() {
    let wait = Do::Wait(Duration::from_secs(1));
    let server = Server::new([vec![Do::Read, wait.clone(), ok("one"), Do::Read, wait, ok("two"), Do::Hang]]);
    let group =
        group_of(std::slice::from_ref(&server), GroupConfig::default(), |config| config.limits.connections_max = 1);
    let (first, second) = (later(&group, "/1"), later(&group, "/2"));
    assert_eq!((first.await.unwrap(), second.await.unwrap()), ("200 one".into(), "200 two".into()));
    assert_eq!(server.connects(), 1);
    let figures = &group.statistics()[0];
    assert_eq!((figures.connections, figures.requests, figures.requests_waiting), (1, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_request_does_not_wait_for_a_connection_for_ever() {
    let server = Server::new([vec![Do::Read, Do::Hang]]);
    let group = group_of(&[server], GroupConfig::default(), |config| {
        config.limits.connections_max = 1;
        config.times.queue = Duration::from_secs(5);
    });
    let first = later(&group, "/1");
    tokio::task::yield_now().await;
    assert_eq!(get(&group, "/2").await, "a:timeout_queue");
    assert_eq!(first.await.unwrap(), "a:timeout_head");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_makes_room_for_another() {
    let server = Server::new([
        vec![Do::Read, Do::Wait(Duration::from_secs(1))],
        vec![Do::Read, ok("b")],
        vec![Do::Read, ok("c")],
    ]);
    let group =
        group_of(std::slice::from_ref(&server), GroupConfig::default(), |config| config.limits.connections_max = 1);
    let (first, second) = (later(&group, "/1"), later(&group, "/2"));
    let mut both = [first.await.unwrap(), second.await.unwrap()];
    both.sort();
    assert_eq!(both, ["200 b", "200 c"]);
}

#[tokio::test(start_paused = true)]
async fn requests_beyond_the_queue_are_refused_at_once() {
    let hang = vec![Do::Read, Do::Hang];
    let server = Server::new(vec![hang; 9]);
    let group = group_of(std::slice::from_ref(&server), GroupConfig::default(), |config| {
        config.limits.requests_max = 2;
        config.limits.queue_max = 1;
    });
    let waiting = [later(&group, "/1"), later(&group, "/2"), later(&group, "/3")];
    tokio::time::sleep(Duration::from_millis(1)).await;
    let figures = &group.statistics()[0];
    assert_eq!((figures.requests, figures.requests_waiting), (2, 1));
    assert_eq!(get(&group, "/4").await, "a:overloaded");
    assert_eq!(group.statistics()[0].health, crate::Health::Up);
    for task in waiting {
        task.abort();
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    let figures = &group.statistics()[0];
    assert_eq!((figures.requests, figures.requests_waiting, figures.connections), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_body_under_way_counts_as_a_request() {
    let server = Server::new([vec![Do::Read, ok("abc")]]);
    let group = group(&[server]);
    let answer = group.fetch(&Request::get("/")).await.unwrap();
    assert_eq!(group.statistics()[0].requests, 1);
    drop(answer);
    assert_eq!(group.statistics()[0].requests, 0);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_too_long_is_refused() {
    let head =
        |bytes: usize| Do::Send(format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 0\r\n\r\n", "x".repeat(bytes)));
    let check = async |bytes: usize, expected: &str| {
        let server = Server::new([vec![Do::Read, head(bytes), Do::Hang]]);
        let group = group_of(&[server], GroupConfig::default(), |config| config.limits.head_bytes_max = 4096);
        assert_eq!(get(&group, "/").await, expected, "{bytes}");
    };
    check(4000, "200 ").await;
    check(5000, "a:head_too_large").await;
    check(500_000, "a:head_too_large").await;
}

#[tokio::test(start_paused = true)]
async fn only_as_many_unused_connections_are_kept() {
    let wait = Do::Wait(Duration::from_secs(1));
    let server = Server::new(vec![vec![Do::Read, wait, ok("a"), Do::Hang]; 5]);
    let group = group_of(std::slice::from_ref(&server), GroupConfig::default(), |config| config.limits.idle_max = 2);
    let tasks: Vec<_> = (0..5).map(|_| later(&group, "/")).collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), "200 a");
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    let figures = &group.statistics()[0];
    assert_eq!((figures.connections_opened, figures.connections, figures.connections_idle), (5, 2, 2));
}

#[test]
fn a_path_that_leads_out_of_the_base_is_not_sent() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = Server::new([]);
    let group = group(&[server.clone(), Server::new([])]);
    for path in ["/../a", "a", "/%2e%2e/a"] {
        assert_eq!(runtime.block_on(get(&group, path)), "a:request", "{path}");
    }
    assert_eq!(server.connects(), 0);
}
