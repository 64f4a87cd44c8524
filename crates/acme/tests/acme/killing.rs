//! The process is killed, and its files are damaged.

use std::fs;
use std::io;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::time::SystemTime;

use thalweg_acme::{Challenge, ChallengeKind, Client, Host, Problem, Reason, Report};

use crate::responder::Responder;
use crate::scene::Scene;

/// A host in whose n-th call the client ends, as if it had been killed there.
struct Deadly<'r> {
    responder: &'r mut Responder,
    calls_left: usize,
}

impl Deadly<'_> {
    fn survive(&mut self) {
        // No panic message: this is no fault.
        match self.calls_left.checked_sub(1) {
            Some(left) => self.calls_left = left,
            None => panic::resume_unwind(Box::new("killed")),
        }
    }
}

impl Host for Deadly<'_> {
    fn http_challenge(&mut self, token: &str, key_authorization: &str) -> io::Result<()> {
        self.survive();
        self.responder.http_challenge(token, key_authorization)
    }

    fn alpn_challenge(&mut self, name: &str, chain_pem: &[u8], key_pem: &[u8]) -> io::Result<()> {
        self.survive();
        self.responder.alpn_challenge(name, chain_pem, key_pem)
    }

    fn withdraw(&mut self, challenge: &Challenge) -> io::Result<()> {
        self.survive();
        self.responder.withdraw(challenge)
    }

    fn install(&mut self, names: &[String], chain_pem: &[u8], key_pem: &[u8]) -> io::Result<()> {
        self.survive();
        self.responder.install(names, chain_pem, key_pem)
    }

    fn report(&mut self, report: &Report) {
        self.survive();
        self.responder.report(report);
    }
}

#[test]
fn the_next_process_continues_wherever_one_was_killed() {
    let mut scene = Scene::new();
    // An account; an order; its challenge is answered, and withdrawn after it was verified; the
    // certificate is installed, and reported.
    let orders = [&[Reason::First][..], &[Reason::First], &[Reason::Continued], &[Reason::Continued], &[], &[]];
    for (survived, expected) in orders.into_iter().enumerate() {
        let mut settings = scene.settings(&["mirror.example"], &[ChallengeKind::Http01]);
        settings.state.push(survived.to_string());
        let mut client = Client::open(settings.clone()).expect("the settings make sense");
        let mut host = Deadly { responder: &mut scene.responder, calls_left: survived };
        let step = AssertUnwindSafe(|| client.step(&mut host, SystemTime::now()));
        assert!(panic::catch_unwind(step).is_err(), "the client lives after {survived} calls");
        drop(client);
        scene.responder.lines();

        let mut client = Client::open(settings.clone()).expect("the state directory makes sense");
        client.step(&mut scene.responder, SystemTime::now());
        let reports = mem::take(&mut scene.responder.reports);
        assert!(client.stored_certificate().is_some(), "after {survived} calls: {reports:#?}");
        let reasons = reports.iter().filter_map(|report| match report {
            Report::Ordering { reason, .. } => Some(*reason),
            _ => None,
        });
        assert_eq!(reasons.collect::<Vec<_>>(), expected, "after {survived} calls: {reports:#?}");
        let is_new = |report: &&Report| matches!(report, Report::AccountCreated { .. });
        assert_eq!(reports.iter().find(is_new), None, "after {survived} calls");
        assert!(!settings.state.join("order.json").exists());
    }
}

#[test]
fn damaged_files_are_said_and_replaced() {
    let mut scene = Scene::new();
    scene.client().step(&mut scene.responder, SystemTime::now());
    scene.responder.lines();
    for name in ["account.json", "certificate.pem", "renewal.json"] {
        let path = scene.state().join(name);
        let content = fs::read(&path).expect("it is there");
        fs::write(&path, &content[..content.len() / 2]).expect("it can be written");
    }
    let mut client = scene.client();
    assert_eq!(client.stored_certificate(), None);
    client.step(&mut scene.responder, SystemTime::now());
    client.step(&mut scene.responder, SystemTime::now());
    let lines = scene.responder.lines();
    let said = |name: &str| lines.iter().any(|line| line.contains(&format!("{name}: ")));
    assert!(said("account.json") && said("certificate.pem") && said("renewal.json"), "{lines:#?}");
    let stored = client.stored_certificate().cloned();
    drop(client);
    assert!(stored.is_some(), "{lines:#?}");
    assert_eq!(scene.client().stored_certificate().cloned(), stored);
}

#[test]
fn a_state_directory_belongs_to_one_process() {
    let scene = Scene::new();
    let client = scene.client();
    let settings = scene.settings(&["mirror.example"], &[ChallengeKind::Http01]);
    let problem = Client::open(settings.clone()).expect_err("it is in use");
    assert_eq!(problem, Problem::Locked { path: scene.state() });
    drop(client);
    assert!(Client::open(settings).is_ok());
}
