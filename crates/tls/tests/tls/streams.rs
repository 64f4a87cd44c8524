//! Bytes of applications, ends, and bytes that are no TLS.

use proptest::prelude::*;
use thalweg_tls::{ClientOptions, FailureKind, Selection, ServerOptions, Version};

use crate::pair::{Pair, ROOT, Side, client, server};

fn pair(version: Version) -> Pair {
    let issued = ROOT.server(&["a.test"]);
    let selection = Selection { version_min: version, version_max: version, ..Selection::default() };
    let settings = server(&issued, ServerOptions::default());
    Pair::settled(&client(ClientOptions { selection, ..ClientOptions::default() }), &settings, "a.test")
}

const VERSIONS: [Version; 2] = [Version::Tls12, Version::Tls13];

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn bytes_arrive_whole_over_any_fragments(
        texts in prop::collection::vec((any::<bool>(), 0_usize..70_000), 1..6),
        fragments in prop::collection::vec(prop_oneof![1_usize..40, 40_usize..20_000], 1..40),
        is_new in any::<bool>(),
    ) {
        let issued = ROOT.server(&["a.test"]);
        let selection = Selection { version_max: VERSIONS[usize::from(is_new)], ..Selection::default() };
        let options = ClientOptions { selection, ..ClientOptions::default() };
        let mut pair = Pair::new(&client(options), &server(&issued, ServerOptions::default()), "a.test");
        let mut fragments = fragments.iter().copied().cycle();
        pair.exchange(|_| fragments.next().unwrap());
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        for (is_client, bytes) in texts {
            let text: Vec<u8> = (0..bytes).map(|at| (at * 7 + bytes) as u8).collect();
            let (from, sent) = match is_client {
                true => (&mut pair.client, &mut to_server),
                false => (&mut pair.server, &mut to_client),
            };
            sent.extend_from_slice(&text);
            from.engine.seal(&text, &mut from.wire).unwrap();
        }
        pair.exchange(|_| fragments.next().unwrap());
        prop_assert!(pair.client.failure.is_none() && pair.server.failure.is_none());
        prop_assert!(pair.server.plain == to_server && pair.client.plain == to_client);
        prop_assert_eq!(pair.client.engine.kept_bytes() + pair.server.engine.kept_bytes(), 0);
    }

    #[test]
    fn arbitrary_bytes_fail_and_do_no_more(bytes in prop::collection::vec(any::<u8>(), 0..4000), at in 1_usize..400) {
        let issued = ROOT.server(&["a.test"]);
        let settings = server(&issued, ServerOptions::default());
        let mut fresh = Pair::new(&client(ClientOptions::default()), &settings, "a.test");
        for part in bytes.chunks(at) {
            fresh.server.receive(part);
            fresh.client.receive(part);
        }
        prop_assert!(fresh.server.plain.is_empty() && fresh.client.plain.is_empty());
        let mut settled = pair(Version::Tls13);
        bytes.chunks(at).for_each(|part| settled.server.receive(part));
        prop_assert!(settled.server.plain.is_empty());
    }
}

#[test]
fn records_hold_16_kib_at_most() {
    for version in VERSIONS {
        let mut pair = pair(version);
        pair.server.wire.clear();
        pair.server.engine.seal(&[7; 40_000], &mut pair.server.wire).unwrap();
        let mut rest = &pair.server.wire[..];
        let mut sizes = Vec::new();
        while let [23, 3, 3, high, low, others @ ..] = rest {
            let size = usize::from(u16::from_be_bytes([*high, *low]));
            sizes.push(size);
            rest = &others[size..];
        }
        assert!(rest.is_empty());
        assert_eq!(sizes.len(), 3, "{sizes:?}");
        assert!(sizes.iter().all(|size| *size <= (16 << 10) + 24), "{sizes:?}");
    }
}

#[test]
fn a_side_sends_between_any_two_bytes_that_it_receives() {
    let issued = ROOT.server(&["a.test"]);
    let tickets = Some(thalweg_tls::TicketKeys::new().unwrap());
    let settings = server(&issued, ServerOptions { tickets, ..ServerOptions::default() });
    let mut pair = Pair::new(&client(ClientOptions::default()), &settings, "a.test");
    let mut sent = 0;
    while !(pair.client.wire.is_empty() && pair.server.wire.is_empty()) {
        let to_server = std::mem::take(&mut pair.client.wire);
        pair.server.receive(&to_server);
        for byte in std::mem::take(&mut pair.server.wire) {
            pair.client.receive(&[byte]);
            if pair.client.engine.is_established() {
                pair.client.engine.seal(b"x", &mut pair.client.wire).unwrap();
                sent += 1;
            }
        }
    }
    assert!(sent > 300 && pair.server.plain.len() == sent, "{sent} {}", pair.server.plain.len());
}

#[test]
fn a_close_notify_ends_one_direction() {
    for version in VERSIONS {
        let mut pair = pair(version);
        pair.client.engine.seal(b"the last words", &mut pair.client.wire).unwrap();
        pair.client.engine.close(&mut pair.client.wire);
        pair.exchange(|_| usize::MAX);
        assert!(pair.server.is_peer_closed && !pair.client.is_peer_closed);
        assert_eq!(pair.server.plain, b"the last words");
        pair.server.receive(b"anything");
        assert!(pair.server.failure.is_none());
        pair.server.engine.seal(b"an answer", &mut pair.server.wire).unwrap();
        pair.server.engine.close(&mut pair.server.wire);
        pair.exchange(|_| usize::MAX);
        assert_eq!(pair.client.plain, b"an answer");
        assert!(pair.client.is_peer_closed);
    }
}

#[test]
fn in_a_handshake_nothing_is_sealed_and_nothing_closed() {
    let issued = ROOT.server(&["a.test"]);
    let mut pair = Pair::new(&client(ClientOptions::default()), &server(&issued, ServerOptions::default()), "a.test");
    let Side { engine, wire, .. } = &mut pair.server;
    assert!(engine.seal(b"too early", wire).is_err());
    engine.close(wire);
    assert!(wire.is_empty() && engine.facts().is_none());
}

#[test]
fn plain_http_on_a_tls_port_gets_an_alert() {
    let issued = ROOT.server(&["a.test"]);
    let mut pair = Pair::new(&client(ClientOptions::default()), &server(&issued, ServerOptions::default()), "a.test");
    pair.server.receive(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let failure = pair.server.failure.unwrap();
    assert_eq!(failure.kind, FailureKind::Protocol);
    assert_eq!(pair.server.wire.first(), Some(&21), "{:?}", pair.server.wire);
    assert!(failure.alert.is_some_and(|alert| alert.is_sent), "{failure}");
}

#[test]
fn records_that_are_too_large_are_refused() {
    for version in VERSIONS {
        let mut pair = pair(version);
        let mut record = vec![23, 3, 3, 0x48, 0x01];
        record.resize(5 + 0x4801, 0);
        record.chunks(1000).for_each(|part| pair.server.receive(part));
        assert_eq!(pair.server.failure.unwrap().kind, FailureKind::OversizedRecord, "{version}");
    }
}

#[test]
fn altered_records_are_refused_with_an_alert() {
    for version in VERSIONS {
        let mut pair = pair(version);
        pair.client.engine.seal(b"to be altered", &mut pair.client.wire).unwrap();
        *pair.client.wire.last_mut().unwrap() ^= 1;
        pair.exchange(|_| usize::MAX);
        let failure = pair.server.failure.unwrap();
        assert_eq!(failure.kind, FailureKind::Decryption);
        assert_eq!(failure.alert.unwrap().name(), "bad_record_mac");
        assert_eq!(pair.client.failure.unwrap().alert.unwrap().name(), "bad_record_mac");
        assert!(pair.server.plain.is_empty());
    }
}

#[test]
fn a_handshake_message_without_end_is_not_kept() {
    let issued = ROOT.server(&["a.test"]);
    let mut pair = Pair::new(&client(ClientOptions::default()), &server(&issued, ServerOptions::default()), "a.test");
    // A ClientHello of 16 MB, in records of 16 KB.
    let mut first = vec![22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff];
    first.resize(5 + (16 << 10), 0);
    let mut next = vec![22, 3, 1, 0x40, 0];
    next.resize(5 + (16 << 10), 0);
    pair.server.receive(&first);
    for _ in 0..16 {
        pair.server.receive(&next);
    }
    assert!(pair.server.failure.is_some());
    assert_eq!(pair.server.engine.kept_bytes(), 0);
}
