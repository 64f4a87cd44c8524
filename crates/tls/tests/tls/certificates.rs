//! Certificates that are refused, by name.

use thalweg_tls::{
    Certificate, CertificateFault, ClientCertificateMode, ClientCertificates, ClientOptions, FailureKind, Handshake,
    Roots, Selection, ServerOptions, Version, self_signed,
};

use crate::authority::{Authority, Issued, Validity};
use crate::pair::{Pair, ROOT, certificate, client, server};

fn fault_of(issued: &Issued, name: &str) -> Option<FailureKind> {
    let settings = server(issued, ServerOptions::default());
    let refused = Pair::settled(&client(ClientOptions::default()), &settings, name);
    let insecure =
        Pair::settled(&client(ClientOptions { insecure: true, ..ClientOptions::default() }), &settings, name);
    assert!(insecure.client.failure.is_none(), "{:?}", insecure.client.failure);
    assert!(!insecure.client.engine.facts().unwrap().is_peer_verified);
    refused.client.failure.map(|failure| failure.kind)
}

#[test]
fn the_faults_of_servers_are_named() {
    let check = |issued: &Issued, fault: CertificateFault| {
        assert_eq!(fault_of(issued, "a.test"), Some(FailureKind::Certificate(fault)));
    };
    check(&ROOT.server_valid(&["a.test"], Validity::Past), CertificateFault::Expired);
    check(&ROOT.server_valid(&["a.test"], Validity::Future), CertificateFault::NotYetValid);
    check(&ROOT.server(&["b.test"]), CertificateFault::WrongName);
    check(&ROOT.client("a.test", Validity::Present), CertificateFault::WrongPurpose);

    let between = ROOT.intermediate("between");
    let leaf = between.server(&["a.test"]);
    check(&leaf, CertificateFault::TruncatedChain);
    let whole = Issued { pem: format!("{}{}", leaf.pem, between.pem), key: leaf.key };
    let settings = server(&whole, ServerOptions::default());
    assert!(Pair::settled(&client(ClientOptions::default()), &settings, "a.test").client.failure.is_none());

    let other = Authority::root("another");
    let leaf = other.server(&["a.test"]);
    check(&leaf, CertificateFault::TruncatedChain);
    check(&Issued { pem: format!("{}{}", leaf.pem, other.pem), key: leaf.key }, CertificateFault::UnknownIssuer);
}

#[test]
fn a_self_signed_certificate_is_named_and_can_be_trusted() {
    let own = self_signed(&["a.test".into(), "127.0.0.1".into()]).unwrap();
    assert_eq!(own.names(), ["a.test"]);
    let store = std::sync::Arc::new(thalweg_tls::CertificateStore::default());
    store.set(&[(Vec::new(), own.clone())]);
    let settings = thalweg_tls::ServerSettings::new(ServerOptions::default(), &store).unwrap();
    let refused = Pair::settled(&client(ClientOptions::default()), &settings, "a.test");
    let failure = refused.client.failure.unwrap();
    assert_eq!(failure.kind, FailureKind::Certificate(CertificateFault::SelfSigned));
    assert!(
        failure.to_string().contains("self-signed") && failure.to_string().contains("alert unknown_ca"),
        "{failure}"
    );
    assert_eq!(refused.server.failure.unwrap().alert.unwrap().name(), "unknown_ca");

    let der = own.chain().next().unwrap().to_vec();
    let trusting = client(ClientOptions { roots: Roots::Pem(pem_of(&der)), ..ClientOptions::default() });
    for name in ["a.test", "127.0.0.1"] {
        assert!(Pair::settled(&trusting, &settings, name).client.failure.is_none(), "{name}");
    }
}

fn pem_of(der: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = b"-----BEGIN CERTIFICATE-----\n".to_vec();
    for three in der.chunks(3) {
        let bits = three.iter().chain([&0, &0]).take(3).fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        let digits = (0..4).map(|digit| DIGITS[bits >> (18 - 6 * digit) & 63]);
        text.extend(digits.take(three.len() + 1).chain(std::iter::repeat_n(b'=', 3 - three.len())));
    }
    text.extend_from_slice(b"\n-----END CERTIFICATE-----\n");
    text
}

#[test]
fn clients_are_verified_as_the_server_wants() {
    let theirs = Authority::root("clients");
    let issued = ROOT.server(&["a.test"]);
    let check = |clients: ClientCertificates,
                 own: Option<Issued>,
                 expected: Option<CertificateFault>,
                 verified: bool| {
        let settings = server(&issued, ServerOptions { clients, ..ServerOptions::default() });
        let own = own.map(|own| certificate(&own));
        let pair =
            Pair::settled(&client(ClientOptions { certificate: own, ..ClientOptions::default() }), &settings, "a.test");
        let failure = pair.server.failure.map(|failure| failure.kind);
        assert_eq!(failure, expected.map(FailureKind::Certificate));
        assert_eq!(pair.client.failure.is_some(), expected.is_some());
        assert_eq!(pair.server.engine.facts().is_some_and(|facts| facts.is_peer_verified), verified);
    };
    let required = || ClientCertificates::of_all(ClientCertificateMode::Required, theirs.pem.clone());
    let optional = || ClientCertificates::of_all(ClientCertificateMode::Optional, theirs.pem.clone());
    let valid = || Some(theirs.client("c", Validity::Present));
    check(ClientCertificates::default(), valid(), None, false);
    check(required(), valid(), None, true);
    check(optional(), valid(), None, true);
    check(optional(), None, None, false);
    check(required(), None, Some(CertificateFault::Missing), false);
    check(required(), Some(theirs.client("c", Validity::Past)), Some(CertificateFault::Expired), false);
    check(optional(), Some(ROOT.client("c", Validity::Present)), Some(CertificateFault::TruncatedChain), false);
}

#[test]
fn a_name_decides_whether_a_certificate_is_asked_for() {
    use ClientCertificateMode::{None, Optional, Required};
    let theirs = Authority::root("clients");
    let issued = ROOT.server(&["open.test", "may.test", "must.test"]);
    let by_name = [("may.test", Optional), ("must.test", Required)].map(|(name, mode)| (name.into(), mode)).into();
    let clients = ClientCertificates { by_name, ..ClientCertificates::of_all(None, theirs.pem.clone()) };
    for version in [Version::Tls12, Version::Tls13] {
        let selection = Selection { version_max: version, ..Selection::default() };
        let tickets = Some(thalweg_tls::TicketKeys::new().unwrap());
        let settings =
            server(&issued, ServerOptions { clients: clients.clone(), selection, tickets, ..ServerOptions::default() });
        let own = certificate(&theirs.client("c", Validity::Present));
        let resume = thalweg_tls::Resume::Tickets;
        let with = client(ClientOptions { certificate: Some(own), resume, ..ClientOptions::default() });
        let without = client(ClientOptions { resume, ..ClientOptions::default() });
        for (name, mode) in [("open.test", None), ("may.test", Optional), ("must.test", Required)] {
            // The session of the first handshake is resumed by the second one.
            for handshake in [Handshake::Full, Handshake::Resumed] {
                let pair = Pair::settled(&with, &settings, name);
                let engine = &pair.server.engine;
                let facts = engine.facts().unwrap();
                assert_eq!((facts.handshake, facts.is_peer_verified), (handshake, mode != None), "{name} {version}");
                assert_eq!(engine.client_certificate_mode(), mode, "{name} {version}");
                assert_eq!(engine.peer_fingerprint().is_some(), mode != None, "{name} {version}");
            }
            let pair = Pair::settled(&without, &settings, name);
            assert_eq!(pair.server.failure.is_some(), mode == Required, "{name} {version}");
        }
    }
}

#[test]
fn a_session_without_a_certificate_is_not_resumed_where_one_is_required() {
    let issued = ROOT.server(&["a.test"]);
    let tickets = thalweg_tls::TicketKeys::new().unwrap();
    let theirs = Authority::root("clients");
    let with = |clients: ClientCertificates| {
        server(&issued, ServerOptions { clients, tickets: Some(tickets.clone()), ..ServerOptions::default() })
    };
    let ours = client(ClientOptions { resume: thalweg_tls::Resume::Tickets, ..ClientOptions::default() });
    let required = ClientCertificates::of_all(ClientCertificateMode::Required, theirs.pem);
    let (open, closed) = (with(ClientCertificates::default()), with(required));
    assert!(Pair::settled(&ours, &open, "a.test").server.failure.is_none());
    assert!(Pair::settled(&ours, &closed, "a.test").server.failure.is_some());
}

#[test]
fn files_that_do_not_fit_are_explained() {
    let (one, other) = (ROOT.server(&["a.test"]), ROOT.server(&["a.test"]));
    let check = |pem: &str, key: &str, text: &str| {
        let error = Certificate::of_pem(pem.as_bytes(), key.as_bytes()).expect_err(text).to_string();
        assert!(error.contains(text), "{error}");
    };
    check("", &one.key, "there is no certificate in it");
    check(&one.pem, "", "there is no private key in it");
    check(&one.pem, &other.key, "is not that of the certificate");
    check(&one.pem.replace("\nM", "\n!"), &one.key, "malformed");
    check(&one.pem, &one.key.replace("\nM", "\n!"), "malformed");
    assert_eq!(certificate(&one).names(), ["a.test"]);
    // Chain and key in one file.
    assert!(
        Certificate::of_pem(format!("{}{}", one.key, one.pem).as_bytes(), format!("{}{}", one.pem, one.key).as_bytes())
            .is_ok()
    );
}
