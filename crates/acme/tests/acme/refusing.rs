//! Authorities that refuse, in ways that Pebble does not.

use std::mem;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use thalweg_acme::{ChallengeKind, Client, Problem, Settings};

use crate::responder::Responder;
use crate::scene::{DAY, MINUTE, failure};
use crate::scripted::{self, Answer};

const PROBLEM: (&str, &str) = ("Content-Type", "application/problem+json");

fn settings(folder: &TempDir, script: impl Fn(SocketAddr, &str) -> Answer + Send + 'static) -> Settings {
    let roots = folder.path().join("roots.pem");
    let address = scripted::start(&roots, script);
    Settings {
        directory: format!("https://{address}/directory"),
        roots: Some(roots),
        names: vec!["mirror.example".into()],
        contact: Vec::new(),
        state: folder.path().join("acme"),
        challenges: vec![ChallengeKind::Http01],
    }
}

/// The problem of an attempt, and the wait after it.
fn attempt(script: impl Fn(SocketAddr, &str) -> Answer + Send + 'static) -> (Problem, Duration) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let mut responder = Responder::start();
    let now = SystemTime::now();
    let mut client = Client::open(settings(&folder, script)).expect("the settings make sense");
    let retry = client.step(&mut responder, now);
    let reports = mem::take(&mut responder.reports);
    (failure(&reports).0.clone(), retry.duration_since(now).unwrap_or_default())
}

fn rate_limit() -> Answer {
    let body =
        r#"{"type": "urn:ietf:params:acme:error:rateLimited", "detail": "5 certificates per week", "status": 429}"#;
    ("429 Too Many Requests", vec![(PROBLEM.0, PROBLEM.1.into()), ("Retry-After", "90000".into())], body.into())
}

#[test]
fn a_rate_limit_is_kept_to_over_restarts() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let settings = settings(&folder, scripted::ordering(rate_limit()));
    let mut responder = Responder::start();
    let now = SystemTime::now();
    let retry = Client::open(settings.clone()).expect("the settings make sense").step(&mut responder, now);
    let reports = mem::take(&mut responder.reports);
    let Problem::RateLimited { detail, .. } = failure(&reports).0 else { panic!("{reports:#?}") };
    assert_eq!(detail, "5 certificates per week");
    let wait = retry.duration_since(now).unwrap_or_default();
    assert!((MINUTE * 1499..MINUTE * 1501).contains(&wait), "{wait:?}");

    let mut client = Client::open(settings).expect("the state directory makes sense");
    assert_eq!(client.step(&mut responder, now + MINUTE * 1000), retry);
    assert_eq!(responder.lines(), [""; 0]);
}

#[test]
fn an_authority_out_of_order_is_asked_again_soon_or_when_it_says() {
    let check = |fields: Vec<(&'static str, String)>, expected: std::ops::Range<Duration>| {
        let (problem, wait) = attempt(move |_, _| ("503 Service Unavailable", fields.clone(), "<h1>busy</h1>".into()));
        assert!(matches!(&problem, Problem::Unavailable { status: 503, .. }), "{problem:?}");
        assert!(expected.contains(&wait), "{wait:?}");
    };
    check(Vec::new(), MINUTE / 3..MINUTE);
    check(vec![("Retry-After", "600".into())], MINUTE * 9..MINUTE * 11);
    check(vec![("Retry-After", u64::MAX.to_string())], DAY * 6..DAY * 8);
}

#[test]
fn a_url_that_is_no_directory_is_said() {
    let check = |answer: Answer, expected: &str| {
        let (problem, _) = attempt(move |_, _| answer.clone());
        let Problem::Malformed { error, .. } = &problem else { panic!("{problem:?}") };
        assert!(error.contains(expected), "{error}");
    };
    check(("200 OK", Vec::new(), "<!doctype html>".into()), "expected value");
    check(("200 OK", Vec::new(), "{}".into()), "newNonce");
    let directory = r#"{"newNonce": "https://a b/", "newAccount": "", "newOrder": ""}"#;
    check(("200 OK", Vec::new(), directory.into()), "newNonce is no URL");
    check(("404 Not Found", Vec::new(), "no".into()), "404");
    check(("301 Moved", vec![("Location", "https://elsewhere.example/".into())], String::new()), "301");
    check(("200 OK", Vec::new(), " ".repeat(2 << 20)), "larger");
}

#[test]
fn a_refused_request_is_said_with_advice() {
    let body = r#"{"type": "urn:ietf:params:acme:error:caa", "detail": "CAA forbids it", "status": 403}"#;
    let order = ("403 Forbidden", vec![(PROBLEM.0, PROBLEM.1.into())], body.into());
    let (problem, _) = attempt(scripted::ordering(order));
    let expected = "the authority refuses the order: CAA forbids it (caa); allow this authority in the CAA records of \
                    the name";
    assert_eq!(problem.to_string(), expected);
}

/// An authority whose orders have one authorization, with challenges of these kinds and this token.
fn offering(kinds: &'static [&str], token: &'static str) -> impl Fn(SocketAddr, &str) -> Answer + Send + 'static {
    let accounts = scripted::ordering(("404 Not Found", Vec::new(), String::new()));
    move |address, path| {
        let nonce = ("Replay-Nonce", "nonce".to_owned());
        let url = |path: &str| format!("https://{address}{path}");
        match path {
            "/orders" => {
                let order = serde_json::json!({
                    "status": "pending",
                    "authorizations": [url("/authorization")],
                    "finalize": url("/finalize"),
                });
                ("201 Created", vec![nonce, ("Location", url("/orders/1"))], order.to_string())
            }
            "/authorization" => {
                let challenge = |kind| serde_json::json!({"type": kind, "url": url("/challenge"), "token": token, "status": "pending"});
                let authorization = serde_json::json!({
                    "status": "pending",
                    "identifier": {"type": "dns", "value": "mirror.example"},
                    "challenges": kinds.iter().map(challenge).collect::<Vec<_>>(),
                });
                ("200 OK", vec![nonce], authorization.to_string())
            }
            path => accounts(address, path),
        }
    }
}

#[test]
fn an_authority_that_offers_other_challenges_alone_is_said() {
    let (problem, _) = attempt(offering(&["dns-01", "letter-01"], "t"));
    let offered = "dns-01, letter-01".to_owned();
    assert_eq!(problem, Problem::NoChallenge { name: "mirror.example".into(), offered });
}

#[test]
fn a_token_that_is_no_part_of_a_url_is_not_answered() {
    let (problem, _) = attempt(offering(&["http-01"], "../t"));
    assert!(matches!(problem, Problem::Malformed { .. }), "{problem:?}");
}
