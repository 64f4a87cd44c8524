//! Several origins: order, weights, health, and what is never sent twice.

use std::time::Duration;

use super::server::{Do, Server, get, group, group_of, ok, post, response};
use crate::config::{GroupConfig, HealthRules, Order};
use crate::health::Health;
use crate::message::{AttemptPolicy, Request};

fn answers(body: &str, connections: usize) -> Server {
    Server::new(vec![vec![Do::Read, ok(body)]; connections])
}

fn refuses() -> Server {
    Server::new([])
}

#[tokio::test(start_paused = true)]
async fn the_next_origin_is_asked_after_a_failure_and_the_answer_tells_so() {
    let group = group(&[refuses(), answers("b", 1)]);
    let answer = group.fetch(&Request::get("/")).await.unwrap();
    assert_eq!((&*answer.origin, answer.origin_index), ("b", 1));
    assert_eq!(answer.tried.iter().map(ToString::to_string).collect::<Vec<_>>(), ["origin a: connection refused"]);
}

#[tokio::test(start_paused = true)]
async fn all_attempts_are_in_the_error() {
    let group = group(&[refuses(), Server::new([vec![Do::Read], vec![Do::Read]]), refuses()]);
    assert_eq!(get(&group, "/").await, "a:refused b:closed c:refused");
    let error = group.fetch(&Request::get("/x").with("A", "b")).await.unwrap_err();
    assert!(error.to_string().starts_with("GET /x failed: origin a: connection refused; then origin b: "), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_server_is_passed_over_and_the_last_answer_is_returned_as_it_is() {
    let bad = |status: &str, body: &str| Server::new([vec![Do::Read, response(status, "", body)]]);
    for (servers, expected) in [
        (vec![bad("503 Busy", "a"), answers("b", 1)], "200 b"),
        (vec![bad("500 Oops", "a"), bad("504 Late", "b")], "504 b"),
        (vec![bad("502 Bad", "a"), refuses()], "502 a"),
        (vec![bad("501 Never", "a"), answers("b", 1)], "501 a"),
        (vec![bad("404 Gone", "a"), answers("b", 1)], "404 a"),
    ] {
        assert_eq!(get(&group(&servers), "/").await, expected);
    }
    let servers = [bad("503 Busy", "a"), answers("b", 1)];
    assert_eq!(post(&group(&servers), "/", "x").await, "503 a", "a POST may have had its effect");
    assert!(servers[1].lines().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_post_goes_to_the_next_origin_only_if_it_was_not_sent() {
    let closes = Server::new([vec![Do::Read], vec![Do::Read]]);
    let other = answers("b", 1);
    assert_eq!(post(&group(&[closes.clone(), other.clone()]), "/", "x").await, "a:closed");
    assert_eq!((closes.lines().len(), other.lines().len()), (1, 0));
    assert_eq!(post(&group(&[refuses(), other.clone()]), "/", "x").await, "200 b");
    assert_eq!(other.lines(), ["POST /base/"]);
}

#[tokio::test(start_paused = true)]
async fn a_get_is_tried_once_more_at_the_only_origin_and_no_more_often() {
    let server = Server::new([vec![Do::Read], vec![Do::Read, ok("a")]]);
    assert_eq!(get(&group(&[server]), "/").await, "200 a");
    let server = Server::new(vec![vec![Do::Read]; 9]);
    assert_eq!(get(&group(std::slice::from_ref(&server)), "/").await, "a:closed a:closed");
    assert_eq!(server.lines().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn attempts_are_bounded_by_the_request() {
    let servers = [refuses(), refuses(), refuses(), answers("d", 1)];
    let group = group(&servers);
    let policy = AttemptPolicy { attempts_max: 2, ..AttemptPolicy::default() };
    let request = Request { policy, ..Request::get("/") };
    assert_eq!(super::server::ask(&group, request).await, "a:refused b:refused");
    let policy = AttemptPolicy { preferred: Some(3), ..AttemptPolicy::default() };
    assert_eq!(super::server::ask(&group, Request { policy, ..Request::get("/") }).await, "200 d");
    let policy = AttemptPolicy { preferred: Some(2), only_preferred: true, ..AttemptPolicy::default() };
    assert_eq!(super::server::ask(&group, Request { policy, ..Request::get("/") }).await, "c:refused");
}

#[tokio::test(start_paused = true)]
async fn all_parts_of_an_object_come_from_one_origin_while_that_is_up() {
    let servers = [answers("a", 200), answers("b", 200)];
    let config = GroupConfig { order: Order::Weighted, ..GroupConfig::default() };
    let group = group_of(&servers, config, |origin| origin.weight = if origin.name == "a" { 3 } else { 1 });
    for object in 0..40 {
        let (path, mut seen) = (format!("/{object}"), Vec::new());
        for _ in 0..4 {
            seen.push(get(&group, &path).await);
        }
        seen.dedup();
        assert!(seen == ["200 a"] || seen == ["200 b"], "{path}: {seen:?}");
    }
    let counts = servers.map(|server| server.lines().len());
    assert!(counts[0] > counts[1] && counts[1] > 0, "{counts:?}");
    // The other one has the object when its own is down.
    let servers = [refuses(), refuses()];
    servers.iter().for_each(|server| server.add(vec![Do::Read, ok("here")]));
    let group = group_of(&servers, config, |_| {});
    assert_eq!([get(&group, "/a").await, get(&group, "/a").await], ["200 here", "200 here"]);
}

#[tokio::test(start_paused = true)]
async fn a_failing_origin_is_skipped_probed_once_and_asked_again() {
    let second = Duration::from_secs(1);
    let health = HealthRules { failures_max: 2, wait_min: second, wait_max: 4 * second };
    let (first, other) = (refuses(), answers("b", 20));
    let group = group_of(&[first.clone(), other], GroupConfig { health, ..GroupConfig::default() }, |_| {});
    for _ in 0..5 {
        assert_eq!(get(&group, "/").await, "200 b");
    }
    assert_eq!(first.connects(), 2, "it is skipped after two failures");
    assert_eq!(group.statistics()[0].health, Health::Down { remaining: second });
    for (wait, connects) in [(1, 3), (2, 4), (4, 5), (4, 6)] {
        tokio::time::advance(wait * second - Duration::from_millis(1)).await;
        assert_eq!(get(&group, "/").await, "200 b");
        assert_eq!(first.connects(), connects - 1, "before {wait} s are over");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(get(&group, "/").await, "200 b");
        assert_eq!(get(&group, "/").await, "200 b");
        assert_eq!(first.connects(), connects, "one probe after {wait} s");
    }
    first.add(vec![Do::Read, ok("a"), Do::Read, ok("a")]);
    tokio::time::advance(4 * second).await;
    assert_eq!(get(&group, "/").await, "200 a");
    assert_eq!(group.statistics()[0].health, Health::Up);
    assert_eq!(get(&group, "/").await, "200 a");
}

#[tokio::test(start_paused = true)]
async fn several_origins_fail_at_once_while_all_are_down() {
    let servers = [refuses(), refuses()];
    let group = group(&servers);
    for _ in 0..3 {
        assert_eq!(get(&group, "/").await, "a:refused b:refused");
    }
    assert_eq!(get(&group, "/").await, "a:down b:down");
    assert_eq!(servers.map(|server| server.connects()), [3, 3]);
}

#[tokio::test(start_paused = true)]
async fn the_only_origin_is_never_skipped() {
    let health = HealthRules { failures_max: 1, ..HealthRules::default() };
    let server = refuses();
    let group = group_of(std::slice::from_ref(&server), GroupConfig { health, ..GroupConfig::default() }, |_| {});
    for _ in 0..9 {
        assert_eq!(get(&group, "/").await, "a:refused");
    }
    assert_eq!(server.connects(), 9);
    assert_eq!(group.statistics()[0].health, Health::Up);
    server.add(vec![Do::Read, ok("a")]);
    assert_eq!(get(&group, "/").await, "200 a", "no time has passed");
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_given_up_makes_room_for_another() {
    let health = HealthRules { failures_max: 1, ..HealthRules::default() };
    let (server, other) = (refuses(), answers("b", 2));
    let group = group_of(&[server.clone(), other], GroupConfig { health, ..GroupConfig::default() }, |_| {});
    assert_eq!(get(&group, "/").await, "200 b");
    server.add(vec![Do::Read, Do::Hang]);
    assert_eq!(get(&group, "/").await, "200 b", "the first one is down");
    tokio::time::advance(Duration::from_secs(1)).await;
    let request = Request::get("/");
    let probe = tokio::time::timeout(Duration::from_millis(10), group.fetch(&request)).await;
    assert!(probe.is_err(), "it hangs");
    server.add(vec![Do::Read, ok("a")]);
    assert_eq!(get(&group, "/").await, "200 a");
}

#[tokio::test(start_paused = true)]
async fn bodies_that_break_make_an_origin_down() {
    let broken = vec![Do::Read, Do::Send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc".into())];
    let group = group(&[Server::new(vec![broken; 3]), answers("b", 1)]);
    for _ in 0..3 {
        assert_eq!(get(&group, "/").await, "200, then cut_off after 3");
    }
    assert_eq!(get(&group, "/").await, "200 b");
}
