//! Time limits of each phase, in virtual time.

use std::time::Duration;

use tokio::time::Instant;

use super::server::{Do, Server, get, group_of, ok};
use crate::config::{GroupConfig, OriginConfig, OriginKind, Trust};
use crate::failure::{FailureKind, Phase};
use crate::group::OriginGroup;
use crate::message::Request;

const SECOND: Duration = Duration::from_secs(1);

/// Asks a server with limits of 3 s for the head and 2 s between bytes.
async fn check(script: Vec<Do>, expected: &str, after: Duration) {
    let group = group_of(&[Server::new([script])], GroupConfig::default(), |config| {
        config.times.head = 3 * SECOND;
        config.times.between_bytes = 2 * SECOND;
    });
    let start = Instant::now();
    assert_eq!(get(&group, "/").await, expected);
    // The clock of timers has milliseconds.
    let late = start.elapsed().saturating_sub(after);
    assert!(start.elapsed() >= after && late < SECOND / 100, "{expected}: after {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn each_phase_has_its_limit() {
    let wait = |seconds: u32| Do::Wait(seconds * SECOND);
    let send = |text: &str| Do::Send(text.into());
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n";
    check(vec![Do::Read, wait(2), ok("late")], "200 late", 2 * SECOND).await;
    check(vec![Do::Read, Do::Hang], "a:timeout_head", 3 * SECOND).await;
    check(vec![Do::Read, send("HTTP/1.1 200"), Do::Hang], "a:timeout_head", 3 * SECOND).await;
    check(vec![Do::Read, send(head), wait(1), send("abc"), wait(1), send("def")], "200 abcdef", 2 * SECOND).await;
    check(vec![Do::Read, send(head), send("abc"), Do::Hang], "200, then timeout_body after 3", 2 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_shake_hands_is_given_up() {
    // Nobody accepts: the kernel completes the connection, and the handshake gets no answer.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("https://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let config = OriginConfig { trust: Trust::Insecure, ..OriginConfig::new("a", OriginKind::Http { base }) };
    let group = OriginGroup::new(vec![config], GroupConfig::default()).unwrap();
    let error = group.fetch(&Request::get("/")).await.unwrap_err();
    // Virtual time may pass before the kernel's report of the connection is seen.
    let phases = [Phase::Connect, Phase::Handshake].map(FailureKind::Timeout);
    assert!(phases.contains(&error.kind()), "{error}");
}
