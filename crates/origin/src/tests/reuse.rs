//! Keeping connections, and requests on connections that the server has closed meanwhile.

use std::time::Duration;

use super::server::{Do, Server, ask, get, group, group_of, ok, post, response};
use crate::config::GroupConfig;
use crate::message::Request;

#[tokio::test(start_paused = true)]
async fn requests_follow_each_other_on_one_connection() {
    let server = Server::new([vec![Do::Read, ok("one"), Do::Read, ok("two"), Do::Read, ok("")]]);
    let group = group(std::slice::from_ref(&server));
    for (path, expected) in [("/1", "200 one"), ("/2?q=a", "200 two"), ("/3", "200 ")] {
        assert_eq!(get(&group, path).await, expected);
    }
    assert_eq!(server.lines(), ["GET /base/1", "GET /base/2?q=a", "GET /base/3"]);
    let figures = &group.statistics()[0];
    assert_eq!((figures.connections_opened, figures.attempts, figures.responses, figures.completed), (1, 3, 3, 3));
    assert_eq!((figures.body_bytes, figures.requests), (6, 0));
}

#[tokio::test(start_paused = true)]
async fn a_request_has_its_host_and_its_fields_and_none_of_the_clients_connection() {
    let server =
        Server::new([vec![Do::Read, response("200 OK", "X-A: 1\r\nConnection: x-b\r\nX-B: 2\r\nX-A: 3\r\n", "")]]);
    let group = group_of(std::slice::from_ref(&server), GroupConfig::default(), |config| {
        config.host = Some("public.example:8080".into());
        config.fields = vec![("X-Secret".into(), "s".into())];
    });
    let request = Request::get("/a").with("Range", "bytes=0-1").with("Connection", "close").with("Host", "client");
    let answer = group.fetch(&request).await.unwrap();
    assert_eq!(
        server.requests(),
        ["GET /base/a HTTP/1.1\r\nrange: bytes=0-1\r\nx-secret: s\r\nhost: public.example:8080\r\n\r\n"]
    );
    let fields: Vec<_> = answer.fields.iter().map(|(name, _)| str::from_utf8(name).unwrap()).collect();
    assert_eq!(fields, ["x-a", "x-a", "content-length"]);
}

#[tokio::test(start_paused = true)]
async fn an_unused_connection_is_closed_when_its_time_is_over() {
    let server = Server::new([vec![Do::Read, ok("a"), Do::Hang], vec![Do::Read, ok("b"), Do::Hang]]);
    let group = group(&[server]);
    assert_eq!(get(&group, "/").await, "200 a");
    tokio::time::sleep(Duration::from_secs(49)).await;
    let figures = &group.statistics()[0];
    assert_eq!((figures.connections, figures.connections_idle), (1, 1));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let figures = &group.statistics()[0];
    assert_eq!((figures.connections, figures.connections_idle), (0, 0));
    assert_eq!(get(&group, "/").await, "200 b");
}

#[tokio::test(start_paused = true)]
async fn an_old_connection_takes_no_further_request() {
    let second = Duration::from_secs(1);
    let server = Server::new([vec![Do::Read, ok("a"), Do::Read, ok("a"), Do::Hang], vec![Do::Read, ok("b"), Do::Hang]]);
    let group = group_of(&[server], GroupConfig::default(), |config| config.times.connection_age = 10 * second);
    assert_eq!(get(&group, "/").await, "200 a");
    tokio::time::sleep(9 * second).await;
    assert_eq!(get(&group, "/").await, "200 a");
    tokio::time::sleep(second).await;
    assert_eq!(get(&group, "/").await, "200 b");
}

#[tokio::test(start_paused = true)]
async fn a_get_on_a_connection_that_the_server_closes_is_sent_again() {
    let server = Server::new([vec![Do::Read, ok("one"), Do::Read], vec![Do::Read, ok("two")]]);
    let group = group(std::slice::from_ref(&server));
    assert_eq!(get(&group, "/1").await, "200 one");
    let answer = group.fetch(&Request::get("/2")).await.unwrap();
    assert_eq!(answer.tried.len(), 1);
    assert!(answer.tried[0].is_reused, "{}", answer.tried[0]);
    assert_eq!(server.lines(), ["GET /base/1", "GET /base/2", "GET /base/2"]);
    assert_eq!(group.statistics()[0].health, crate::Health::Up);
}

#[tokio::test(start_paused = true)]
async fn a_post_on_a_connection_that_the_server_closes_is_not_sent_again() {
    let server = Server::new([vec![Do::Read, ok("one"), Do::Read], vec![Do::Read, ok("two")]]);
    let group = group(&[server.clone(), Server::new([vec![Do::Read, ok("other")]])]);
    assert_eq!(get(&group, "/1").await, "200 one");
    assert_eq!(post(&group, "/2", "x").await, "a:closed");
    assert_eq!(server.lines(), ["GET /base/1", "POST /base/2"]);
}

#[tokio::test(start_paused = true)]
async fn a_kept_connection_that_was_closed_before_costs_no_attempt() {
    let server = Server::new([vec![Do::Read, ok("one")], vec![Do::Read, ok("two")]]);
    let group = group(std::slice::from_ref(&server));
    assert_eq!(get(&group, "/1").await, "200 one");
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(post(&group, "/2", "abc").await, "200 two");
    assert!(
        server.requests()[1].ends_with("host: origin.example\r\ncontent-length: 3\r\n\r\nabc"),
        "{:?}",
        server.requests()
    );
    assert_eq!(group.statistics()[0].failures, []);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_not_read_closes_its_connection_and_a_whole_one_does_not() {
    let long = "x".repeat(1 << 20);
    let server = Server::new([vec![Do::Read, ok(&long)], vec![Do::Read, ok("whole"), Do::Read, ok("kept")]]);
    let group = group(std::slice::from_ref(&server));
    let mut answer = group.fetch(&Request::get("/1")).await.unwrap();
    assert!(answer.body.next().await.unwrap().is_ok());
    drop(answer);
    let mut answer = group.fetch(&Request::get("/2")).await.unwrap();
    let mut piece = Vec::new();
    while piece.len() < 5 {
        piece.extend(answer.body.next().await.unwrap().unwrap());
    }
    // Its end is known by its length; nobody asks for it.
    drop(answer);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(ask(&group, Request::get("/3")).await, "200 kept");
    assert_eq!((server.connects(), group.statistics()[0].completed), (2, 2));
}
