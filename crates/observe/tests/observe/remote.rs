//! An observer and its client, over loopback.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use thalweg_observe::remote::{ObserverServer, PullError, RemoteObserver, Token};
use thalweg_observe::{LocalObserver, Settings};

use crate::{PATIENCE, wait_for};

const SECRET: &str = "0123456789abcdef0123";

fn token(text: &str) -> Option<Token> {
    Some(Token::new(text, "test").unwrap())
}

struct Observer {
    server: ObserverServer,
    local: LocalObserver,
}

fn observer(at: SocketAddr, secret: Option<&str>) -> Observer {
    let settings = Settings { interval: Duration::from_millis(100), ..Settings::default() };
    let local = LocalObserver::start(&settings).unwrap();
    let server = ObserverServer::start(at, secret.and_then(token), local.samples()).unwrap();
    Observer { server, local }
}

fn anywhere() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn request(observer: &Observer, target: &str, fields: &str) -> (String, Vec<u8>) {
    let mut connection = TcpStream::connect(observer.server.address()).unwrap();
    let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n");
    connection.write_all(request.as_bytes()).unwrap();
    let mut response = Vec::new();
    connection.read_to_end(&mut response).unwrap();
    let end = response.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    let body = response.split_off(end + 4);
    (String::from_utf8(response).unwrap(), body)
}

#[test]
fn only_the_token_opens_an_observer() {
    let observer = observer(anywhere(), Some(SECRET));
    let check = |target: &str, fields: &str, status: &str| {
        let (head, _) = request(&observer, target, fields);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{target} {fields:?}: {head}");
    };
    for target in ["/host", "/samples?since=0", "/path?bytes=10", "/"] {
        check(target, "", "401");
        check(target, "Authorization: Bearer 0123456789abcdef0124\r\n", "401");
    }
    let shown = format!("Authorization: Bearer {SECRET}\r\n");
    check("/host", &shown, "200");
    check("/samples?since=0", &shown, "200");
    check("/samples?since=x", &shown, "400");
    check("/path?bytes=-1", &shown, "400");
    check("/etc/passwd", &shown, "404");
    let address = observer.server.address().to_string();
    let refused = RemoteObserver::start(&address, token("0123456789abcdef0124"), Vec::new());
    assert!(matches!(refused, Err(PullError::Token { .. })), "{refused:?}");
    assert!(matches!(RemoteObserver::start(&address, None, Vec::new()), Err(PullError::Token { .. })));
    assert!(RemoteObserver::start(&address, token(SECRET), Vec::new()).is_ok());
}

#[test]
fn without_a_token_an_observer_listens_on_loopback_only() {
    let local = LocalObserver::start(&Settings::default()).unwrap();
    let error = ObserverServer::start("0.0.0.0:0".parse().unwrap(), None, local.samples()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
}

#[test]
fn the_path_stream_is_as_long_as_was_asked() {
    let observer = observer(anywhere(), None);
    let (head, body) = request(&observer, "/path?bytes=1000003", "");
    assert!(head.contains("Content-Length: 1000003"), "{head}");
    assert_eq!(body.len(), 1_000_003);
}

#[test]
fn samples_are_pulled_with_times_of_this_host() {
    let observer = observer(anywhere(), None);
    let remote = RemoteObserver::start(&observer.server.address().to_string(), None, Vec::new()).unwrap();
    assert_eq!(remote.facts().boot_id, observer.local.samples().facts().boot_id);
    let begun = remote.unix_s();
    remote.cut();
    wait_for(|| format!("{:?}", remote.lost()), || remote.wait_for(begun, PATIENCE).then_some(()));
    let samples = remote.since(0);
    assert!(samples.windows(2).all(|pair| pair[0].number + 1 == pair[1].number), "every sample came once");
    // The two clocks are set one after the other, with any pause between.
    let samples = observer.local.samples();
    let (before, here, after) = (samples.unix_s(), remote.unix_s(), samples.unix_s());
    let offset = remote.clock_offset();
    let slack = offset.error_s + 1e-6;
    let is_right = (before - here - slack..=after - here + slack).contains(&offset.seconds);
    assert!(is_right, "{offset:?} instead of {} to {}", before - here, after - here);
}

#[test]
fn a_lost_observer_is_noticed_and_found_again() {
    // No other process has this address, so that none takes the port meanwhile.
    let [.., high, low] = std::process::id().to_be_bytes();
    let first = observer((Ipv4Addr::new(127, 53, high, low), 0).into(), None);
    let address = first.server.address();
    let remote = RemoteObserver::start(&address.to_string(), None, Vec::new()).unwrap();
    drop(first);
    // A pull that was under way fails in its own way.
    let lost = || format!("{:?}", remote.lost());
    wait_for(lost, || remote.lost().filter(|reason| reason.contains("no observer answers")));
    assert!(!remote.wait_for(remote.unix_s(), PATIENCE), "nobody waits for a lost observer");
    let _second = observer(address, None);
    let back = remote.unix_s();
    wait_for(lost, || remote.wait_for(back, PATIENCE).then_some(()));
    let numbers: Vec<u64> = remote.since(0).iter().map(|sample| sample.number).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
}

#[test]
fn an_address_without_an_observer_is_an_error_in_words() {
    let nothing = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = RemoteObserver::start(&nothing.to_string(), None, Vec::new()).unwrap_err().to_string();
    assert!(error.contains(&nothing.to_string()) && error.contains("thalweg observe --listen"), "{error}");
    let error = RemoteObserver::start("no-port", None, Vec::new()).unwrap_err().to_string();
    assert!(error.contains("HOST:PORT"), "{error}");
}
