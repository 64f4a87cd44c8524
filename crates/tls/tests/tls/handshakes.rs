//! The outcomes of handshakes: versions, groups, protocols, names, and resumed sessions.

use std::sync::Arc;

use thalweg_tls::{
    Certificate, CertificateStore, ClientCertificateMode, ClientCertificates, ClientOptions, FailureKind, Handshake,
    Resume, Selection, ServerOptions, ServerSettings, TLS_ALPN_CHALLENGE, TicketKeys, Version,
};

use crate::pair::{Pair, ROOT, certificate, client, server, server_of};

fn only(version: Version) -> Selection {
    Selection { version_min: version, version_max: version, ..Selection::default() }
}

fn protocols(names: &[&str]) -> Vec<Vec<u8>> {
    names.iter().map(|name| name.as_bytes().to_vec()).collect()
}

#[test]
fn the_defaults_are_the_newest_version_and_the_hybrid_group() {
    let issued = ROOT.server(&["a.test"]);
    let pair = Pair::settled(&client(ClientOptions::default()), &server(&issued, ServerOptions::default()), "a.test");
    let (ours, theirs) = (pair.server.engine.facts().unwrap(), pair.client.engine.facts().unwrap());
    assert_eq!((ours.version, ours.group), (Version::Tls13, Some("X25519MLKEM768")));
    assert_eq!(ours.suite, "TLS_AES_256_GCM_SHA384");
    assert_eq!(
        (ours.alpn.clone(), ours.handshake, ours.server_name.as_deref()),
        (None, Handshake::Full, Some("a.test"))
    );
    assert_eq!((ours.peer_chain_bytes, ours.is_peer_verified), (0, false));
    assert_eq!((theirs.version, theirs.suite, theirs.group), (ours.version, ours.suite, ours.group));
    assert!(theirs.peer_chain_bytes > 200 && theirs.is_peer_verified);
    assert_eq!(pair.server.engine.kept_bytes() + pair.client.engine.kept_bytes(), 0);
}

#[test]
fn versions_suites_and_groups_are_selected_by_name() {
    let issued = ROOT.server(&["a.test"]);
    let check = |theirs: Selection, ours: Selection, expected: (Version, &str, Option<&str>)| {
        let pair = Pair::settled(
            &client(ClientOptions { selection: theirs, ..ClientOptions::default() }),
            &server(&issued, ServerOptions { selection: ours, ..ServerOptions::default() }),
            "a.test",
        );
        let facts = pair.client.engine.facts().expect("the handshake is complete");
        assert_eq!((facts.version, facts.suite, facts.group), expected);
    };
    let default = Selection::default;
    let named = |suite: &str, group: &str| Selection {
        suites: vec![suite.into()],
        groups: vec![group.into()],
        ..Selection::default()
    };
    check(only(Version::Tls12), default(), (Version::Tls12, "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", Some("X25519")));
    check(
        default(),
        named("TLS_CHACHA20_POLY1305_SHA256", "P-256"),
        (Version::Tls13, "TLS_CHACHA20_POLY1305_SHA256", Some("secp256r1")),
    );
    check(
        named("tls_ecdhe_ecdsa_with_aes_128_gcm_sha256", "x25519"),
        default(),
        (Version::Tls12, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", Some("X25519")),
    );
}

#[test]
fn without_a_common_version_both_sides_say_so() {
    let issued = ROOT.server(&["a.test"]);
    let pair = Pair::settled(
        &client(ClientOptions { selection: only(Version::Tls12), ..ClientOptions::default() }),
        &server(&issued, ServerOptions { selection: only(Version::Tls13), ..ServerOptions::default() }),
        "a.test",
    );
    let (ours, theirs) = (pair.server.failure.unwrap(), pair.client.failure.unwrap());
    assert_eq!(ours.kind, FailureKind::NothingInCommon);
    assert_eq!(theirs.kind, FailureKind::AlertReceived);
    assert_eq!(theirs.alert.map(|alert| (alert.name(), alert.is_sent)), Some(("protocol_version", false)));
    assert_eq!(ours.alert.map(|alert| (alert.name(), alert.is_sent)), Some(("protocol_version", true)));
}

#[test]
fn the_application_protocol_is_the_servers_choice() {
    let issued = ROOT.server(&["a.test"]);
    let check = |theirs: &[&str], ours: &[&str], expected: Option<&str>| {
        let pair = Pair::settled(
            &client(ClientOptions { alpn: protocols(theirs), ..ClientOptions::default() }),
            &server(&issued, ServerOptions { alpn: protocols(ours), ..ServerOptions::default() }),
            "a.test",
        );
        assert_eq!(pair.server.engine.alpn(), expected.map(str::as_bytes), "{theirs:?} {ours:?}");
        assert_eq!(pair.client.engine.alpn(), expected.map(str::as_bytes), "{theirs:?} {ours:?}");
        pair
    };
    check(&["http/1.1", "h2"], &["h2", "http/1.1"], Some("h2"));
    check(&["http/1.1"], &["h2", "http/1.1"], Some("http/1.1"));
    check(&[], &["h2", "http/1.1"], None);
    let pair = check(&["spdy/3"], &["http/1.1"], None);
    assert_eq!(pair.server.failure.unwrap().kind, FailureKind::NoApplicationProtocol);
    assert!(pair.client.failure.unwrap().to_string().contains("no application protocol that this side offers"));
}

#[test]
fn a_name_selects_its_certificate() {
    let (first, second) = (ROOT.server(&["a.test", "b.test"]), ROOT.server(&["*.wild.test", "exact.wild.test"]));
    let exact = ROOT.server(&["one.wild.test"]);
    let settings = server_of(&[&first, &second, &exact], ServerOptions::default());
    let check = |name: &str, fault: Option<FailureKind>| {
        let pair = Pair::settled(&client(ClientOptions::default()), &settings, name);
        assert_eq!(pair.client.failure.as_ref().map(|failure| failure.kind), fault, "{name}");
        pair.client.engine.facts().map(|facts| facts.peer_chain_bytes)
    };
    check("a.test", None);
    check("B.test", None);
    check("x.wild.test", None);
    check("one.wild.test", None);
    let wrong = Some(FailureKind::Certificate(thalweg_tls::CertificateFault::WrongName));
    check("x.y.wild.test", wrong);
    check("wild.test", wrong);
    check("127.0.0.1", wrong);
}

#[test]
fn a_client_gets_a_key_of_a_kind_that_it_knows() {
    let (ed25519, p256) = (ROOT.server_ed25519(&["a.test"]), ROOT.server(&["a.test"]));
    let settings = server_of(&[&ed25519, &p256], ServerOptions::default());
    let sizes = |suites: &[&str]| {
        let selection =
            Selection { suites: suites.iter().map(|&suite| suite.into()).collect(), ..Selection::default() };
        let pair = Pair::settled(&client(ClientOptions { selection, ..ClientOptions::default() }), &settings, "a.test");
        assert!(pair.client.failure.is_none(), "{:?}", pair.client.failure);
    };
    sizes(&[]);
    sizes(&["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"]);
}

#[test]
fn sessions_are_resumed_by_tickets_only_if_wanted() {
    let issued = ROOT.server(&["a.test"]);
    for version in [Version::Tls12, Version::Tls13] {
        let check = |resume: Resume, tickets: Option<TicketKeys>, expected: Handshake| {
            let settings = server(&issued, ServerOptions { tickets, ..ServerOptions::default() });
            let ours = client(ClientOptions { selection: only(version), resume, ..ClientOptions::default() });
            let first = Pair::settled(&ours, &settings, "a.test");
            assert_eq!(first.client.engine.facts().unwrap().handshake, Handshake::Full);
            let second = Pair::settled(&ours, &settings, "a.test");
            let (theirs, ours) = (second.client.engine.facts().unwrap(), second.server.engine.facts().unwrap());
            assert_eq!((theirs.handshake, ours.handshake), (expected, expected), "{version} {resume:?}");
            assert!(theirs.is_peer_verified && theirs.peer_chain_bytes > 0);
        };
        let keys = || Some(TicketKeys::new().unwrap());
        check(Resume::Tickets, keys(), Handshake::Resumed);
        check(Resume::Never, keys(), Handshake::Full);
        check(Resume::Tickets, None, Handshake::Full);
    }
}

#[test]
fn the_server_s_preference_among_suites_counts() {
    let suites = ["TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"];
    let issued = ROOT.server(&["a.test"]);
    let of = |suites: &[&str]| Selection {
        suites: suites.iter().map(|&suite| suite.into()).collect(),
        ..Selection::default()
    };
    for theirs in [[suites[0], suites[1]], [suites[1], suites[0]]] {
        let theirs_settings = server(&issued, ServerOptions { selection: of(&theirs), ..ServerOptions::default() });
        let ours = client(ClientOptions { selection: of(&suites), ..ClientOptions::default() });
        let pair = Pair::settled(&ours, &theirs_settings, "a.test");
        assert_eq!(pair.client.engine.facts().unwrap().suite, theirs[0]);
    }
}

#[test]
fn each_of_many_connections_at_once_resumes_a_session_of_its_own() {
    let keys = Some(TicketKeys::new().unwrap());
    let theirs = server(&ROOT.server(&["a.test"]), ServerOptions { tickets: keys, ..ServerOptions::default() });
    let ours = client(ClientOptions { resume: Resume::Tickets, ..ClientOptions::default() });
    for expected in [Handshake::Full, Handshake::Resumed, Handshake::Resumed] {
        // All have begun before the first one gets a ticket.
        let pairs: Vec<Pair> = (0..100).map(|_| Pair::new(&ours, &theirs, "a.test")).collect();
        for mut pair in pairs {
            pair.exchange(|_| usize::MAX);
            assert_eq!(pair.client.engine.facts().unwrap().handshake, expected);
        }
    }
}

#[test]
fn a_session_is_resumed_by_another_process_that_has_the_keys() {
    let issued = ROOT.server(&["a.test"]);
    let (keys, successors) = (TicketKeys::new().unwrap(), TicketKeys::new().unwrap());
    let with =
        |keys: &TicketKeys| server(&issued, ServerOptions { tickets: Some(keys.clone()), ..ServerOptions::default() });
    let ours = client(ClientOptions { resume: Resume::Tickets, ..ClientOptions::default() });
    Pair::settled(&ours, &with(&keys), "a.test");
    assert!(successors.import(&keys.export()));
    let second = Pair::settled(&ours, &with(&successors), "a.test");
    assert_eq!(second.client.engine.facts().unwrap().handshake, Handshake::Resumed);
    let stranger = Pair::settled(&ours, &with(&TicketKeys::new().unwrap()), "a.test");
    assert_eq!(stranger.client.engine.facts().unwrap().handshake, Handshake::Full);
}

#[test]
fn certificates_are_exchanged_and_challenges_answered_while_the_server_runs() {
    let store = Arc::new(CertificateStore::default());
    store.set(&[(Vec::new(), certificate(&ROOT.server(&["a.test"])))]);
    let settings =
        ServerSettings::new(ServerOptions { alpn: protocols(&["http/1.1"]), ..ServerOptions::default() }, &store)
            .unwrap();
    let plain = || client(ClientOptions { alpn: protocols(&["http/1.1"]), ..ClientOptions::default() });
    let validator = || client(ClientOptions { alpn: vec![TLS_ALPN_CHALLENGE.to_vec()], ..ClientOptions::default() });
    assert!(Pair::settled(&plain(), &settings, "b.test").client.failure.is_some());
    store.set(&[(Vec::new(), certificate(&ROOT.server(&["b.test"])))]);
    assert!(Pair::settled(&plain(), &settings, "b.test").client.failure.is_none());

    assert!(Pair::settled(&validator(), &settings, "c.test").client.failure.is_some());
    store.set_challenge("C.test", Some(&certificate(&ROOT.server(&["c.test"]))));
    let answered = Pair::settled(&validator(), &settings, "c.test");
    assert_eq!(answered.server.engine.alpn(), Some(TLS_ALPN_CHALLENGE));
    assert!(Pair::settled(&plain(), &settings, "c.test").client.failure.is_some());
    let successor = CertificateStore::default();
    successor.adopt_challenges(&store);
    store.set_challenge("c.test", None);
    assert!(Pair::settled(&validator(), &settings, "c.test").client.failure.is_some());
    // An authority that validates a challenge has no certificate to show, though clients need one.
    let clients = ClientCertificates::of_all(ClientCertificateMode::Required, ROOT.pem.clone());
    let options = ServerOptions { clients, ..ServerOptions::default() };
    let adopting = ServerSettings::new(options, &Arc::new(successor)).unwrap();
    assert!(Pair::settled(&validator(), &adopting, "c.test").client.failure.is_none());
}

/// The certificate of a challenge has a critical extension that makes it invalid for everything
/// else, and no authority has signed it (RFC 8737, 3).
#[test]
fn the_certificate_of_a_challenge_is_presented_as_it_is() {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["c.test".to_owned()]).unwrap();
    params.custom_extensions = vec![rcgen::CustomExtension::new_acme_identifier(&[7; 32])];
    let made = params.self_signed(&key).unwrap();
    let (chain, key) = (made.pem(), key.serialize_pem());
    assert!(Certificate::of_pem(chain.as_bytes(), key.as_bytes()).is_err());
    let certificate = Certificate::of_challenge(chain.as_bytes(), key.as_bytes()).unwrap();
    assert_eq!(certificate.chain().next(), Some(&**made.der()));
    assert!(certificate.names().is_empty());
    for (chain, key) in [("", key.as_str()), (chain.as_str(), ""), (chain.as_str(), chain.as_str())] {
        assert!(Certificate::of_challenge(chain.as_bytes(), key.as_bytes()).is_err());
    }
    let store = Arc::new(CertificateStore::default());
    store.set_challenge("c.test", Some(&certificate));
    let settings = ServerSettings::new(ServerOptions::default(), &store).unwrap();
    let alpn = vec![TLS_ALPN_CHALLENGE.to_vec()];
    let validator = client(ClientOptions { alpn, insecure: true, ..ClientOptions::default() });
    // This client does not take the certificate, as none but a validator does; it has received it.
    let failure = Pair::settled(&validator, &settings, "c.test").client.failure.unwrap();
    assert!(matches!(failure.kind, FailureKind::Certificate(_)), "{failure:?}");
}
