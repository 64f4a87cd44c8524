//! Bodies of the cache tier: framing, slow readers, failures, and clients that leave.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use thalweg_reactor::run;
use thalweg_reactor::sim::{Sim, SimConfig};
use thalweg_sys::Driver;

use super::accounted::{account_for, records};
use super::tier::{Delivery, Ending, Kind, ScriptedTier, forwarding};
use super::{Outcome, SECOND_NS, Step, World, folder, naive, send, world};
use crate::config::{Level, Limits};
use crate::telemetry::log::{ErrorLog, Message};

const MS: u64 = 1_000_000;

const KNOWN: Kind = Kind::Relay { status: 200, tells_length: true };
const UNKNOWN: Kind = Kind::Relay { status: 200, tells_length: false };

fn get(name: &str) -> Step {
    send(&format!("GET /{name} HTTP/1.1\r\nHost: h\r\n\r\n"))
}

/// Runs clients against a server whose mount has an origin. Returns their outcomes, and the
/// messages for the operator.
fn simulate(config: SimConfig, tier: &Arc<ScriptedTier>, scripts: Vec<Vec<Step>>) -> (Vec<Outcome>, Vec<String>) {
    let folder = folder();
    let mut driver = Sim::new(config);
    let start = driver.now();
    let (mut world, _) = world(&mut driver, &Limits::default(), folder.path(), scripts);
    let reports = report(&mut world);
    world.forward(tier, &forwarding(&["GET", "HEAD"]));
    run(&mut driver, &mut world).unwrap();
    (world.outcomes(start), texts(&reports))
}

/// Has a server report to the operator.
pub(super) fn report(world: &mut World<'_>) -> Receiver<Message> {
    let (to, from) = sync_channel(100);
    world.service.set_error_log(ErrorLog::new(to, Level::Warning));
    from
}

pub(super) fn texts(reports: &Receiver<Message>) -> Vec<String> {
    let text = |message| match message {
        Message::Note(bytes) => String::from_utf8(bytes).unwrap(),
        other => panic!("{other:?}"),
    };
    reports.try_iter().map(text).collect()
}

#[test]
fn pieces_arrive_whole_and_in_order_whatever_the_network_does() {
    let of = |kind, pieces| Delivery::of(kind, pieces, MS, Ending::Complete);
    let (known, unknown, stored) = (of(KNOWN, 150), of(UNKNOWN, 90), of(Kind::Stored, 350));
    let deliveries = [
        ("/known", known.clone()),
        ("/unknown", unknown.clone()),
        ("/empty", of(KNOWN, 0)),
        ("/stored", stored.clone()),
        ("/fragments", of(Kind::Fragments, 20)),
    ];
    let tier = ScriptedTier::new(deliveries);
    for seed in 0..20 {
        let names = ["unknown", "known", "empty", "none", "stored", "fragments", "unknown"];
        let steps: Vec<_> = names.map(get).into_iter().chain([Step::Finish]).collect();
        let (outcomes, _) = simulate(SimConfig::rough(seed), &tier, vec![steps; 4]);
        for outcome in &outcomes {
            assert!(outcome.orderly, "seed {seed}");
            let responses = naive::take_all(&outcome.received, &["GET"]);
            let statuses: Vec<u16> = responses.iter().map(|response| response.status).collect();
            assert_eq!(statuses, [200, 200, 200, 404, 200, 200, 200], "seed {seed}");
            assert_eq!(responses[0].field("transfer-encoding"), Some("chunked"));
            assert_eq!(responses[0].field("x-origin"), Some("1"));
            assert!(responses[0].body == unknown.whole() && responses[6].body == unknown.whole(), "seed {seed}");
            assert_eq!(responses[1].field("content-length"), Some("150000"));
            assert!(responses[1].body == known.whole(), "seed {seed}");
            assert!(responses[2].body.is_empty());
            assert_eq!(responses[3].body, b"nothing");
            assert!(responses[4].body == stored.whole(), "seed {seed}");
            assert_eq!(responses[5].body.len(), 20_000);
        }
    }
}

#[test]
fn an_old_client_gets_a_body_of_unknown_length_until_the_end_of_the_connection() {
    let unknown = Delivery::of(UNKNOWN, 3, MS, Ending::Complete);
    let tier = ScriptedTier::new([("/unknown", unknown.clone())]);
    let old = vec![send("GET /unknown HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")];
    let (outcomes, _) = simulate(SimConfig::calm(1), &tier, vec![old]);
    let text = &outcomes[0].received;
    let head_end = text.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    assert!(outcomes[0].orderly && text[head_end..] == unknown.whole());
    let head = String::from_utf8_lossy(&text[..head_end]);
    assert!(head.contains("Connection: close\r\n") && !head.contains("Transfer-Encoding"), "{head}");
}

#[test]
fn ranges_of_fragments_are_read_alone() {
    for kind in [Kind::Stored, Kind::Fragments] {
        let delivery = Delivery::of(kind, 350, 1, Ending::Complete);
        let tier = ScriptedTier::new([("/a", delivery.clone())]);
        let request = |range: &str| send(&format!("GET /a HTTP/1.1\r\nHost: h\r\nRange: bytes={range}\r\n\r\n"));
        let steps =
            vec![request("99990-200009"), request("-5"), request("0-0,99990-200009"), request("400000-"), Step::Finish];
        let (outcomes, _) = simulate(SimConfig::calm(1), &tier, vec![steps]);
        let responses = naive::take_all(&outcomes[0].received, &["GET"]);
        assert_eq!(responses.iter().map(|response| response.status).collect::<Vec<_>>(), [206, 206, 206, 416]);
        assert!(responses[0].body == delivery.whole()[99_990..200_010]);
        assert_eq!(responses[0].field("content-range"), Some("bytes 99990-200009/350000"));
        assert_eq!(responses[1].body, delivery.whole()[349_995..]);
        let whole = delivery.whole();
        let part = |first: usize, last: usize| (format!("bytes {first}-{last}/350000"), whole[first..=last].to_vec());
        assert!(naive::multipart(&responses[2]) == [part(0, 0), part(99_990, 200_009)]);
    }
}

#[test]
fn a_client_that_does_not_read_holds_nobody_up() {
    let large = Delivery::of(Kind::Stored, 3000, 1, Ending::Complete);
    let tier = ScriptedTier::new([("/large", large.clone())]);
    let rest = 20;
    let slow = vec![get("large"), Step::Pause, Step::Rest(rest * SECOND_NS), Step::Resume, Step::Receive(3_000_000)];
    let fast = vec![get("large"), Step::Receive(3_000_000), Step::Finish];
    let scripts = vec![[slow, vec![Step::Finish]].concat(), fast];
    let (outcomes, _) = simulate(SimConfig::calm(1), &tier, scripts);
    for outcome in &outcomes {
        assert!(naive::take_all(&outcome.received, &["GET"])[0].body == large.whole());
    }
    assert!(outcomes[0].lasted.as_secs() >= rest && outcomes[1].lasted.as_secs() < rest);
}

#[test]
fn an_origin_that_fails_half_way_has_the_connection_reset_and_reported() {
    for kind in [KNOWN, UNKNOWN, Kind::Fragments, Kind::Stored] {
        let tier = ScriptedTier::new([("/fails", Delivery::of(kind, 30, MS, Ending::Failure))]);
        for seed in 0..10 {
            let steps = vec![get("fails"), get("fails")];
            let (outcomes, reports) = simulate(SimConfig::rough(seed), &tier, vec![steps]);
            assert!(!outcomes[0].orderly, "seed {seed}: a client would take it for whole");
            let response = naive::take(&mut outcomes[0].received.as_slice(), "GET");
            assert_eq!(response, None, "seed {seed}");
            assert!(reports.iter().any(|text| text.contains("the simulated origin has failed")), "{reports:?}");
        }
    }
}

#[test]
fn an_origin_that_delivers_nothing_is_waited_for_as_long_as_a_client_may_stall() {
    let stall_s = Limits::default().stall_time.as_secs();
    let never = Delivery { answer_after_ns: None, ..Delivery::of(KNOWN, 1, MS, Ending::Complete) };
    let silent = Delivery::of(KNOWN, 10, MS, Ending::Silence);
    let tier = ScriptedTier::new([("/never", never), ("/silent", silent)]);
    let (outcomes, _) = simulate(SimConfig::calm(1), &tier, vec![vec![get("never")]]);
    let responses = naive::take_all(&outcomes[0].received, &["GET"]);
    assert_eq!((responses[0].status, outcomes[0].lasted.as_secs()), (503, stall_s));
    let (outcomes, reports) = simulate(SimConfig::calm(1), &tier, vec![vec![get("silent")]]);
    // The bytes that it has taken give the client some more time; they are looked at every few
    // seconds.
    let lasted_s = outcomes[0].lasted.as_secs();
    assert!(!outcomes[0].orderly && (stall_s..=stall_s + 5).contains(&lasted_s), "{lasted_s}");
    assert!(reports.iter().any(|text| text.contains("in time")), "{reports:?}");
}

#[test]
fn a_slow_origin_has_all_the_time_that_it_uses() {
    let slow = Delivery::of(UNKNOWN, 10, 50 * SECOND_NS, Ending::Complete);
    let tier = ScriptedTier::new([("/slow", slow.clone())]);
    let steps = vec![get("slow"), Step::Receive(10_000), Step::Finish];
    let (outcomes, _) = simulate(SimConfig::calm(1), &tier, vec![steps]);
    assert!(outcomes[0].orderly && outcomes[0].lasted.as_secs() >= 450);
    assert!(naive::take_all(&outcomes[0].received, &["GET"])[0].body == slow.whole());
}

#[test]
fn clients_that_leave_leave_nothing_behind() {
    let tier = ScriptedTier::new([
        ("/object", Delivery::of(KNOWN, 200, MS, Ending::Complete)),
        ("/stored", Delivery::of(Kind::Stored, 200, MS, Ending::Complete)),
    ]);
    for seed in 0..30 {
        let folder = folder();
        let mut config = SimConfig::hostile(seed);
        config.connect_failure_probability = 0.0;
        let mut driver = Sim::new(config);
        let scripts = vec![vec![get("object"), get("stored"), Step::Finish]; 20];
        let (mut world, published) = world(&mut driver, &Limits::default(), folder.path(), scripts);
        world.forward(&tier, &forwarding(&["GET"]));
        world.end = Some(driver.now().plus_ns(600 * SECOND_NS));
        run(&mut driver, &mut world).unwrap();
        assert_eq!(published[0].totals().open, 0, "seed {seed}");
    }
}

#[test]
fn a_streamed_response_is_accounted_with_what_was_sent_of_it() {
    let tier = ScriptedTier::new([
        ("/whole", Delivery::of(UNKNOWN, 100, MS, Ending::Complete)),
        ("/stored", Delivery::of(Kind::Stored, 150, MS, Ending::Complete)),
        ("/fails", Delivery::of(KNOWN, 30, MS, Ending::Failure)),
    ]);
    let folder = folder();
    let mut driver = Sim::new(SimConfig::calm(1));
    let scripts = vec![vec![get("whole"), get("stored"), Step::Finish], vec![get("fails")]];
    let (mut world, _) = world(&mut driver, &Limits::default(), folder.path(), scripts);
    let (registry, pages) = account_for(&mut world, folder.path());
    world.forward(&tier, &forwarding(&["GET"]));
    run(&mut driver, &mut world).unwrap();
    drop(world);
    let mut lines = records(&pages);
    lines.sort();
    assert_eq!(lines[1..], ["/stored 200 150000#", "/whole 200 100000#"]);
    let sent: u64 =
        lines[0].strip_prefix("/fails 200 ").and_then(|text| text.strip_suffix('!')).unwrap().parse().unwrap();
    assert!(sent <= 30_000, "{lines:?}");
    let totals = registry.mounts()[0].totals();
    assert_eq!((totals.requests, totals.downloads, totals.under_way), (3, 2, 0));
}
