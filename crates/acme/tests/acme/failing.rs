//! Attempts that fail, and what follows.

use std::fs;
use std::mem;
use std::time::SystemTime;

use instant_acme::{CertificateIdentifier, Error, Identifier, NewOrder};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use thalweg_acme::{Challenge, ChallengeKind, Client, Problem, Report};

use crate::own_account::{kind, own_account};
use crate::pebble::Pebble;
use crate::scene::{DAY, LIFETIME, MINUTE, Scene, failure};

#[test]
fn a_wrong_answer_is_said_and_tried_again_later() {
    let mut scene = Scene::new();
    let mut client = scene.client();
    scene.responder.lies = true;
    let now = SystemTime::now();
    let retry = client.step(&mut scene.responder, now);
    let reports = mem::take(&mut scene.responder.reports);
    let (problem, at) = failure(&reports);
    let Problem::Challenge { name, kind: ChallengeKind::Http01, detail } = problem else { panic!("{problem:?}") };
    assert_eq!(name, "mirror.example");
    assert!(detail.contains("something else"), "{detail}");
    assert_eq!(at, retry);
    assert!((now + MINUTE * 4..now + MINUTE * 8).contains(&retry), "{retry:?}");
    assert_eq!(scene.responder.answering, [], "challenges that are still answered");
    drop(client);

    // A restart asks no earlier.
    let mut client = scene.client();
    assert_eq!(client.step(&mut scene.responder, now + MINUTE), retry);
    assert_eq!(scene.responder.lines(), [""; 0]);
    let second = client.step(&mut scene.responder, retry);
    assert!((retry + MINUTE * 9..retry + MINUTE * 16).contains(&second), "{second:?}");
    scene.responder.lies = false;
    client.step(&mut scene.responder, second);
    assert!(client.stored_certificate().is_some(), "{:#?}", scene.responder.reports);
    assert!(!scene.state().join("failures.json").exists());
}

#[test]
fn another_kind_of_challenge_is_tried_at_once() {
    let mut scene = Scene::new();
    // Nothing listens there: the port of a listener that is gone.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = closed.local_addr().expect("a listener has an address").port();
    scene.pebble = Pebble::start(port, scene.responder.tls_port, LIFETIME);
    drop(closed);
    let mut client = scene.client_for(&["mirror.example"], &[ChallengeKind::Http01, ChallengeKind::TlsAlpn01]);
    client.step(&mut scene.responder, SystemTime::now());
    assert!(client.stored_certificate().is_some(), "{:#?}", scene.responder.reports);
    assert!(matches!(scene.responder.answered[..], [Challenge::Http { .. }, Challenge::Alpn { .. }]));
    let lines = scene.responder.lines();
    let begin = "ACME: mirror.example: the authority could not verify it by http-01: ";
    let next = lines.iter().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("{lines:#?}"));
    assert!(next.ends_with("; trying tls-alpn-01 now"), "{next}");
}

#[test]
fn the_old_certificate_stays_while_its_renewal_fails() {
    let mut scene = Scene::new();
    let mut client = scene.client();
    client.step(&mut scene.responder, SystemTime::now());
    let stored = client.stored_certificate().cloned();
    scene.responder.lies = true;
    let due = SystemTime::now() + DAY * 70;
    client.step(&mut scene.responder, due);
    let reports = mem::take(&mut scene.responder.reports);
    let expires = stored.as_ref().map(|stored| stored.not_after);
    assert!(matches!(reports.last(), Some(Report::Failed { expires: at, .. }) if *at == expires), "{reports:#?}");
    assert_eq!(client.stored_certificate().cloned(), stored);
    drop(client);
    assert_eq!(scene.client().stored_certificate().cloned(), stored);
}

#[test]
fn a_name_that_the_authority_does_not_take_is_said() {
    let mut scene = Scene::new();
    let mut client = scene.client_for(&["a.blocked.example"], &[ChallengeKind::Http01]);
    client.step(&mut scene.responder, SystemTime::now());
    let reports = mem::take(&mut scene.responder.reports);
    let Problem::Refused { operation: "the order", kind, .. } = failure(&reports).0 else { panic!("{reports:#?}") };
    assert_eq!(kind, "rejectedIdentifier");
}

#[test]
fn an_account_that_the_authority_has_lost_is_replaced() {
    let mut scene = Scene::new();
    scene.client().step(&mut scene.responder, SystemTime::now());
    scene.responder.lines();
    // An authority with an empty memory at another address, which gets the same account.
    let account = scene.state().join("account.json");
    let old =
        mem::replace(&mut scene.pebble, Pebble::start(scene.responder.http_port, scene.responder.tls_port, LIFETIME));
    let text = fs::read_to_string(&account).expect("there is an account");
    fs::write(&account, text.replace(&old.address.to_string(), &scene.pebble.address.to_string()))
        .expect("it can be written");
    let mut client = scene.client();
    client.step(&mut scene.responder, SystemTime::now());
    let reports = mem::take(&mut scene.responder.reports);
    let replaced = reports.iter().filter(|report| matches!(report, Report::AccountCreated { replaces_lost: true, .. }));
    assert_eq!(replaced.count(), 1, "{reports:#?}");
    assert!(matches!(reports.last(), Some(Report::Obtained { .. })), "{reports:#?}");
}

#[test]
fn nothing_but_silence_is_an_unreachable_authority() {
    let mut scene = Scene::new();
    let mut settings = scene.settings(&["mirror.example"], &[ChallengeKind::Http01]);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    settings.directory = format!("https://{}/dir", closed.local_addr().expect("a listener has an address"));
    drop(closed);
    let now = SystemTime::now();
    let retry = Client::open(settings).expect("the settings make sense").step(&mut scene.responder, now);
    let reports = mem::take(&mut scene.responder.reports);
    assert!(matches!(failure(&reports).0, Problem::Unreachable { .. }), "{reports:#?}");
    assert!((now + MINUTE / 3..now + MINUTE).contains(&retry), "{retry:?}");
}

#[test]
fn an_authority_whose_own_certificate_is_not_trusted_is_said() {
    let mut scene = Scene::new();
    let mut settings = scene.settings(&["mirror.example"], &[ChallengeKind::Http01]);
    let key = rcgen::KeyPair::generate().expect("a key can be made");
    let other = rcgen::CertificateParams::new(["other.example".to_owned()]).expect("it is a name");
    let other = other.self_signed(&key).expect("a certificate can be made");
    let roots = scene.state().with_extension("pem");
    fs::write(&roots, other.pem()).expect("a file can be written");
    settings.roots = Some(roots);
    Client::open(settings).expect("the settings make sense").step(&mut scene.responder, SystemTime::now());
    let reports = mem::take(&mut scene.responder.reports);
    let Problem::Tls { error, .. } = failure(&reports).0 else { panic!("{reports:#?}") };
    assert!(error.contains("invalid peer certificate"), "{error}");
}

#[test]
fn a_deactivated_account_is_replaced() {
    let mut scene = Scene::new();
    let mut client = scene.client();
    client.step(&mut scene.responder, SystemTime::now());
    scene.responder.lines();
    let account = own_account(&scene);
    let is_refused = || {
        let answer = pollster::block_on(account.update_contacts(&["mailto:admin@example.org"]));
        matches!(answer, Err(Error::Api(problem)) if kind(&problem) == "unauthorized")
    };
    while !is_refused() {
        pollster::block_on(own_account(&scene).deactivate()).expect("the authority is asked");
    }

    client.step(&mut scene.responder, SystemTime::now() + DAY * 70);
    let reports = mem::take(&mut scene.responder.reports);
    let lines: Vec<_> = reports.iter().map(ToString::to_string).collect();
    let expected = "ACME: the authority does not accept the stored account any more; new account ";
    assert_eq!(lines.iter().filter(|line| line.starts_with(expected)).count(), 1, "{lines:#?}");
    assert!(matches!(reports.last(), Some(Report::Obtained { .. })), "{lines:#?}");
}

#[test]
fn a_renewal_says_what_it_replaces() {
    let mut scene = Scene::new();
    let mut client = scene.client();
    client.step(&mut scene.responder, SystemTime::now());
    let first = client.stored_certificate().expect("there is a certificate").chain_pem.clone();
    client.step(&mut scene.responder, SystemTime::now() + DAY * 70);
    assert_eq!(scene.responder.installed.len(), 2);

    // The authority accepts one replacement of a certificate.
    let first = CertificateDer::from_pem_slice(&first).expect("it is a certificate");
    let names = [Identifier::Dns("mirror.example".into())];
    let account = own_account(&scene);
    let refusal = loop {
        let replaced = CertificateIdentifier::try_from(&first).expect("it has an identifier");
        let second = pollster::block_on(account.new_order(&NewOrder::new(&names).replaces(replaced)));
        match second.map(drop).expect_err("an order is refused") {
            Error::Api(problem) if kind(&problem) == "badNonce" => {}
            error => break error,
        }
    };
    assert!(matches!(&refusal, Error::Api(problem) if kind(problem) == "alreadyReplaced"), "{refusal}");
}
