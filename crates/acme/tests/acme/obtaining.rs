//! Certificates are obtained, kept, and renewed.

use std::fs;
use std::mem;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use thalweg_acme::{Challenge, ChallengeKind, Reason, Report};

use crate::scene::{DAY, MINUTE, Scene};

fn check_obtained(kind: ChallengeKind) {
    let mut scene = Scene::new();
    let mut client = scene.client_for(&["www.mirror.example", "Mirror.example"], &[kind]);
    assert_eq!(client.stored_certificate(), None);
    let now = SystemTime::now();
    let next = client.step(&mut scene.responder, now);

    let names = vec!["mirror.example".to_owned(), "www.mirror.example".to_owned()];
    let reports = mem::take(&mut scene.responder.reports);
    assert!(matches!(reports[0], Report::AccountCreated { replaces_lost: false, .. }), "{reports:#?}");
    assert_eq!(reports[1], Report::Ordering { names: names.clone(), reason: Reason::First });
    let Report::Obtained { names: obtained, renewal, .. } = &reports[2] else { panic!("{reports:#?}") };
    assert_eq!((obtained, reports.len()), (&names, 3), "{reports:#?}");
    // Pebble suggests two days around two thirds of the lifetime.
    assert!((now + DAY * 58..now + DAY * 62).contains(renewal), "{renewal:?}");
    assert!(next > now && next <= now + DAY, "{next:?}");

    let stored = client.stored_certificate().expect("there is a certificate");
    assert_eq!(scene.responder.installed, [(names, stored.chain_pem.clone(), stored.key_pem.clone())]);
    assert_eq!(scene.responder.answered.len(), 2);
    assert_eq!(scene.responder.answering, [], "challenges that are still answered");
    for challenge in &scene.responder.answered {
        assert_eq!(matches!(challenge, Challenge::Http { .. }), kind == ChallengeKind::Http01);
    }
}

#[test]
fn a_certificate_is_obtained_by_http() {
    check_obtained(ChallengeKind::Http01);
}

#[test]
fn a_certificate_is_obtained_by_tls() {
    check_obtained(ChallengeKind::TlsAlpn01);
}

#[test]
fn a_restart_orders_nothing() {
    let mut scene = Scene::new();
    let mut client = scene.client();
    let now = SystemTime::now();
    let next = client.step(&mut scene.responder, now);
    let stored = client.stored_certificate().cloned();
    scene.responder.lines();
    drop(client);

    let mut client = scene.client();
    assert_eq!(client.stored_certificate().cloned(), stored);
    let again = client.step(&mut scene.responder, now + Duration::from_secs(1));
    assert_eq!(scene.responder.lines(), [""; 0]);
    assert_eq!(scene.responder.installed.len(), 1);
    assert!(again.duration_since(next).unwrap_or_default() < Duration::from_secs(2), "{next:?} {again:?}");
}

#[test]
fn the_key_is_for_the_owner_alone() {
    let mut scene = Scene::new();
    scene.client().step(&mut scene.responder, SystemTime::now());
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&scene.state()), 0o700);
    let mut files: Vec<_> = fs::read_dir(scene.state()).expect("it is a folder").flatten().collect();
    files.sort_by_key(fs::DirEntry::file_name);
    let names: Vec<_> = files.iter().map(fs::DirEntry::file_name).collect();
    assert_eq!(names, ["account.json", "certificate.pem", "lock", "renewal.json"]);
    for file in files {
        assert_eq!(mode(&file.path()), 0o600, "{file:?}");
    }
}

#[test]
fn a_certificate_is_renewed_when_the_authority_suggests_it() {
    let mut scene = Scene::new();
    let mut client = scene.client();
    let begun = SystemTime::now();
    let next = client.step(&mut scene.responder, begun);
    let first = client.stored_certificate().expect("there is a certificate").clone();
    scene.suggest_renewal(&first.chain_pem, "2001-01-01T00:00:00Z", "2001-01-02T00:00:00Z");
    scene.responder.lines();
    drop(client);

    let mut client = scene.client();
    client.step(&mut scene.responder, next - MINUTE);
    assert_eq!(scene.responder.lines(), [""; 0], "the authority is asked no earlier");
    client.step(&mut scene.responder, next);
    let reports = mem::take(&mut scene.responder.reports);
    let Report::RenewalMoved { renewal, explanation } = &reports[0] else { panic!("{reports:#?}") };
    assert!(*renewal < begun + DAY, "{renewal:?}");
    assert_eq!(explanation.as_deref(), Some("https://ca.example/why"));
    // Only for a certificate that is older than an hour, the suggestion counts at once.
    client.step(&mut scene.responder, begun + MINUTE * 61);
    let reports = [reports, mem::take(&mut scene.responder.reports)].concat();
    assert!(matches!(reports[1], Report::Ordering { reason: Reason::Due, .. }), "{reports:#?}");
    assert!(matches!(reports[2], Report::Obtained { .. }), "{reports:#?}");
    let second = client.stored_certificate().expect("there is a certificate");
    assert_ne!(first.key_pem, second.key_pem, "each certificate has a key of its own");
    assert_eq!(scene.responder.installed.len(), 2);
}

#[test]
fn a_certificate_is_renewed_by_its_lifetime_when_the_authority_does_not_answer() {
    let mut scene = Scene::new();
    let mut client = scene.client();
    let begun = SystemTime::now();
    client.step(&mut scene.responder, begun);
    let first = client.stored_certificate().expect("there is a certificate").clone();
    scene.suggest_renewal(&first.chain_pem, "2001-01-02T00:00:00Z", "2001-01-01T00:00:00Z");
    scene.responder.lines();
    client.step(&mut scene.responder, begun + DAY * 57);
    assert_eq!(scene.responder.lines(), [""; 0]);
    client.step(&mut scene.responder, begun + DAY * 65);
    let lines = scene.responder.lines();
    assert_eq!(lines[0], "ACME: ordering a certificate for mirror.example: it is time to renew");
    assert_eq!(scene.responder.installed.len(), 2, "{lines:#?}");
}

#[test]
fn other_names_are_another_order() {
    let mut scene = Scene::new();
    scene.client().step(&mut scene.responder, SystemTime::now());
    scene.responder.lines();
    let mut client = scene.client_for(&["mirror.example", "b.example"], &[ChallengeKind::Http01]);
    let names = |client: &thalweg_acme::Client| client.stored_certificate().map(|stored| stored.names.clone());
    assert_eq!(names(&client), Some(vec!["mirror.example".into()]), "the old one is in use until then");
    client.step(&mut scene.responder, SystemTime::now());
    let lines = scene.responder.lines();
    let reason = "the names or the authority have changed";
    assert_eq!(lines[0], format!("ACME: ordering a certificate for b.example, mirror.example: {reason}"));
    assert_eq!(names(&client), Some(vec!["b.example".into(), "mirror.example".into()]));
}

#[test]
fn a_certificate_that_the_server_has_not_taken_is_offered_again() {
    let mut scene = Scene::new();
    let mut client = scene.client();
    scene.responder.refuses_certificates = true;
    let retry = client.step(&mut scene.responder, SystemTime::now());
    let lines = scene.responder.lines();
    let expected = "ACME: the server has not taken a certificate: a server that is out of order; next attempt at ";
    assert!(lines.last().is_some_and(|line| line.starts_with(expected)), "{lines:#?}");
    assert!(client.stored_certificate().is_some());
    scene.responder.refuses_certificates = false;
    client.step(&mut scene.responder, retry);
    assert_eq!(scene.responder.installed.len(), 1);
    assert_eq!(scene.responder.lines(), [""; 0], "no other order");
}
