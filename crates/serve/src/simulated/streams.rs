//! Bodies that come in later, from remote origins: framing, backpressure, failures, and requests
//! that are collapsed into one.

use std::rc::Rc;
use std::sync::mpsc::{Receiver, sync_channel};

use thalweg_reactor::run;
use thalweg_reactor::sim::{Sim, SimConfig};
use thalweg_sys::Driver;

use super::accounted::{account_for, records};
use super::origins::{
    Delivery, Ending, Observations, ScriptedOrigin, SocketOrigin, UpstreamServer, WINDOW_BYTES, body,
};
use super::{Outcome, SECOND_NS, Step, World, folder, naive, send, world};
use crate::config::{Level, Limits};
use crate::telemetry::log::{ErrorLog, Message};

const MS: u64 = 1_000_000;

fn get(name: &str) -> Step {
    send(&format!("GET /{name} HTTP/1.1\r\nHost: h\r\n\r\n"))
}

/// A delivery in pieces of 1000 bytes.
fn delivery(pieces: usize, every_ns: u64, tells_length: bool, ending: Ending) -> Delivery {
    let pieces = (0..pieces).map(|number| vec![b'a' + (number % 26) as u8; 1000]).collect();
    Delivery { head_after_ns: Some(5 * MS), tells_length, pieces, every_ns, ending }
}

fn whole(delivery: &Delivery) -> Vec<u8> {
    delivery.pieces.concat()
}

/// Runs clients against a server whose mount has a scripted origin. Returns their outcomes, the
/// observations of the origin, and the messages for the operator.
fn simulate(
    config: SimConfig,
    deliveries: &[(&'static str, Delivery)],
    scripts: Vec<Vec<Step>>,
) -> (Vec<Outcome>, Rc<Observations>, Vec<String>) {
    let folder = folder();
    let mut driver = Sim::new(config);
    let start = driver.now();
    let (mut world, _) = world(&mut driver, &Limits::default(), folder.path(), scripts);
    let reports = report(&mut world);
    let observations = Rc::new(Observations::default());
    let (deliveries, seen) = (deliveries.to_vec(), Rc::clone(&observations));
    world.service.add_origin(0, |wakes| Box::new(ScriptedOrigin::new(deliveries, wakes, seen)));
    run(&mut driver, &mut world).unwrap();
    (world.outcomes(start), observations, texts(&reports))
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
    let (known, unknown) = (delivery(150, MS, true, Ending::Complete), delivery(90, MS, false, Ending::Complete));
    let empty = delivery(0, MS, true, Ending::Complete);
    let deliveries = [("known", known.clone()), ("unknown", unknown.clone()), ("empty", empty)];
    for seed in 0..20 {
        let steps = vec![get("unknown"), get("known"), get("empty"), get("none"), get("unknown"), Step::Finish];
        let (outcomes, ..) = simulate(SimConfig::rough(seed), &deliveries, vec![steps; 4]);
        for outcome in &outcomes {
            assert!(outcome.orderly, "seed {seed}");
            let responses = naive::take_all(&outcome.received, &["GET"]);
            let statuses: Vec<u16> = responses.iter().map(|response| response.status).collect();
            assert_eq!(statuses, [200, 200, 200, 404, 200], "seed {seed}");
            assert_eq!(responses[0].field("transfer-encoding"), Some("chunked"));
            assert_eq!(responses[0].field("accept-ranges"), None);
            assert!(responses[0].body == whole(&unknown) && responses[4].body == whole(&unknown), "seed {seed}");
            assert_eq!(responses[1].field("content-length"), Some("150000"));
            assert!(responses[1].body == whole(&known), "seed {seed}");
            assert!(responses[2].body.is_empty());
        }
    }
}

#[test]
fn a_head_a_condition_and_an_old_client_get_what_is_theirs() {
    let unknown = delivery(3, MS, false, Ending::Complete);
    let deliveries = [("unknown", unknown.clone()), ("known", delivery(3, MS, true, Ending::Complete))];
    let steps = vec![
        send("HEAD /known HTTP/1.1\r\nHost: h\r\n\r\nGET /known HTTP/1.1\r\nHost: h\r\nIf-None-Match: \"tag\"\r\n\r\n"),
        send("GET /known HTTP/1.1\r\nHost: h\r\nRange: bytes=0-9\r\n\r\n"),
        Step::Finish,
    ];
    let (outcomes, ..) = simulate(SimConfig::calm(1), &deliveries, vec![steps]);
    let responses = naive::take_all(&outcomes[0].received, &["HEAD", "GET", "GET"]);
    assert_eq!(responses.iter().map(|response| response.status).collect::<Vec<_>>(), [200, 304, 200]);
    assert_eq!((responses[0].field("content-length"), responses[2].body.len()), (Some("3000"), 3000));
    // Without the chunked coding, the end of the connection is that of the body.
    let old = vec![send("GET /unknown HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")];
    let (outcomes, ..) = simulate(SimConfig::calm(1), &deliveries, vec![old]);
    let text = &outcomes[0].received;
    let head_end = text.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    assert!(outcomes[0].orderly && text[head_end..] == whole(&unknown));
    let head = String::from_utf8_lossy(&text[..head_end]);
    assert!(head.contains("Connection: close\r\n") && !head.contains("Transfer-Encoding"), "{head}");
}

#[test]
fn a_client_that_does_not_read_holds_its_origin_back() {
    let large = delivery(3000, 1, true, Ending::Complete);
    let steps = vec![
        get("large"),
        Step::Pause,
        Step::Rest(20 * SECOND_NS),
        Step::Resume,
        Step::Receive(3_000_000),
        Step::Finish,
    ];
    let (outcomes, observations, _) = simulate(SimConfig::calm(1), &[("large", large.clone())], vec![steps]);
    let responses = naive::take_all(&outcomes[0].received, &["GET"]);
    assert!(responses[0].body == whole(&large));
    assert!(outcomes[0].lasted.as_secs() >= 20);
    let kept = observations.kept_bytes_max.get();
    assert!((WINDOW_BYTES / 2..=WINDOW_BYTES).contains(&kept), "{kept}");
}

#[test]
fn an_origin_that_fails_half_way_has_the_connection_reset_and_reported() {
    for tells_length in [true, false] {
        let fails = delivery(30, MS, tells_length, Ending::Failure);
        for seed in 0..10 {
            let steps = vec![get("fails"), get("fails")];
            let (outcomes, _, reports) = simulate(SimConfig::rough(seed), &[("fails", fails.clone())], vec![steps]);
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
    let never = Delivery { head_after_ns: None, ..delivery(1, MS, true, Ending::Complete) };
    let (outcomes, ..) = simulate(SimConfig::calm(1), &[("never", never)], vec![vec![get("never")]]);
    let responses = naive::take_all(&outcomes[0].received, &["GET"]);
    assert_eq!((responses[0].status, outcomes[0].lasted.as_secs()), (503, stall_s));
    let silent = delivery(10, MS, true, Ending::Silence);
    let (outcomes, _, reports) = simulate(SimConfig::calm(1), &[("silent", silent)], vec![vec![get("silent")]]);
    // The bytes that it has taken give the client some more time; they are looked at every few
    // seconds.
    let lasted_s = outcomes[0].lasted.as_secs();
    assert!(!outcomes[0].orderly && (stall_s..=stall_s + 5).contains(&lasted_s), "{lasted_s}");
    assert!(reports.iter().any(|text| text.contains("in time")), "{reports:?}");
}

#[test]
fn a_slow_origin_has_all_the_time_that_it_uses() {
    let slow = delivery(10, 50 * SECOND_NS, false, Ending::Complete);
    let steps = vec![get("slow"), Step::Receive(10_000), Step::Finish];
    let (outcomes, ..) = simulate(SimConfig::calm(1), &[("slow", slow.clone())], vec![steps]);
    assert!(outcomes[0].orderly && outcomes[0].lasted.as_secs() >= 450);
    assert!(naive::take_all(&outcomes[0].received, &["GET"])[0].body == whole(&slow));
}

#[test]
fn requests_for_the_same_object_are_collapsed_into_one_fetch() {
    let object = delivery(100, MS, false, Ending::Complete);
    for seed in 0..10 {
        let deliveries = [("object", object.clone())];
        let steps = vec![get("object"), Step::Finish];
        let mut config = SimConfig::calm(seed);
        config.connect_failure_probability = 0.0;
        let (outcomes, observations, _) = simulate(config, &deliveries, vec![steps; 50]);
        assert_eq!(observations.fetches.get(), 1, "seed {seed}");
        for outcome in outcomes {
            assert!(naive::take_all(&outcome.received, &["GET"])[0].body == whole(&object), "seed {seed}");
        }
    }
    let missing = vec![vec![get("missing"), Step::Finish]; 50];
    let (outcomes, observations, _) = simulate(SimConfig::calm(1), &[], missing);
    assert_eq!(observations.fetches.get(), 1);
    let statuses = outcomes.iter().map(|outcome| naive::take_all(&outcome.received, &["GET"])[0].status);
    assert!(statuses.eq([404; 50]));
}

#[test]
fn a_request_that_comes_after_the_beginning_has_a_fetch_of_its_own() {
    let object = delivery(100, MS, true, Ending::Complete);
    let late = vec![Step::Rest(50 * MS), get("object"), Step::Finish];
    let scripts = vec![vec![get("object"), Step::Finish], late];
    let (outcomes, observations, _) = simulate(SimConfig::calm(1), &[("object", object.clone())], scripts);
    assert_eq!(observations.fetches.get(), 2);
    for outcome in outcomes {
        assert!(naive::take_all(&outcome.received, &["GET"])[0].body == whole(&object));
    }
}

#[test]
fn clients_that_leave_leave_nothing_behind() {
    let object = delivery(200, MS, true, Ending::Complete);
    for seed in 0..30 {
        let folder = folder();
        let mut config = SimConfig::hostile(seed);
        config.connect_failure_probability = 0.0;
        let mut driver = Sim::new(config);
        let scripts = vec![vec![get("object"), get("object"), Step::Finish]; 20];
        let (mut world, published) = world(&mut driver, &Limits::default(), folder.path(), scripts);
        let deliveries = vec![("object", object.clone())];
        world.service.add_origin(0, |wakes| Box::new(ScriptedOrigin::new(deliveries, wakes, Rc::default())));
        world.end = Some(driver.now().plus_ns(600 * SECOND_NS));
        run(&mut driver, &mut world).unwrap();
        assert_eq!(published[0].totals().open, 0, "seed {seed}");
    }
}

#[test]
fn a_streamed_response_is_accounted_with_what_was_sent_of_it() {
    let deliveries =
        [("whole", delivery(100, MS, false, Ending::Complete)), ("fails", delivery(30, MS, true, Ending::Failure))];
    let folder = folder();
    let mut driver = Sim::new(SimConfig::calm(1));
    let scripts = vec![vec![get("whole"), Step::Finish], vec![get("fails")]];
    let (mut world, _) = world(&mut driver, &Limits::default(), folder.path(), scripts);
    let (registry, pages) = account_for(&mut world, folder.path());
    world.service.add_origin(0, |wakes| Box::new(ScriptedOrigin::new(deliveries, wakes, Rc::default())));
    run(&mut driver, &mut world).unwrap();
    drop(world);
    let mut lines = records(&pages);
    lines.sort();
    assert_eq!(lines[1], "/whole 200 100000#");
    let sent: u64 =
        lines[0].strip_prefix("/fails 200 ").and_then(|text| text.strip_suffix('!')).unwrap().parse().unwrap();
    assert!(sent <= 30_000, "{lines:?}");
    let totals = registry.mounts()[0].totals();
    assert_eq!((totals.requests, totals.downloads, totals.under_way), (2, 1, 0));
}

#[test]
fn an_origin_behind_a_socket_is_reached_by_the_loop() {
    for seed in 0..10 {
        let folder = folder();
        let mut config = SimConfig::rough(seed);
        config.connect_failure_probability = 0.0;
        let mut driver = Sim::new(config);
        let start = driver.now();
        let steps = vec![get("known"), get("missing"), get("unknown"), Step::Finish];
        let broken = vec![get("breaks")];
        let scripts = vec![steps.clone(), steps, broken];
        let (mut world, _) = world(&mut driver, &Limits::default(), folder.path(), scripts);
        let reports = report(&mut world);
        let upstream = UpstreamServer::new(&mut driver);
        let accepted = Rc::clone(&upstream.accepted);
        world.upstream = Some(upstream);
        world.service.add_origin(0, |wakes| Box::new(SocketOrigin::new(wakes)));
        run(&mut driver, &mut world).unwrap();
        let outcomes = world.outcomes(start);
        for outcome in &outcomes[..2] {
            let responses = naive::take_all(&outcome.received, &["GET"]);
            assert_eq!(responses.iter().map(|response| response.status).collect::<Vec<_>>(), [200, 404, 200]);
            assert!(responses[0].body == body() && responses[2].body == body(), "seed {seed}");
        }
        assert!(!outcomes[2].orderly, "seed {seed}");
        assert!(texts(&reports).iter().any(|text| text.contains("upstream")), "seed {seed}");
        assert!((4..=7).contains(&*accepted.borrow()), "seed {seed}: {}", accepted.borrow());
    }
}

#[test]
fn an_origin_that_cannot_be_reached_is_no_end_of_a_connection() {
    let folder = folder();
    let mut driver = Sim::new(SimConfig::calm(1));
    let start = driver.now();
    let steps = vec![get("known"), get("known"), Step::Finish];
    let (mut world, _) = world(&mut driver, &Limits::default(), folder.path(), vec![steps]);
    world.service.add_origin(0, |wakes| Box::new(SocketOrigin::new(wakes)));
    run(&mut driver, &mut world).unwrap();
    let outcomes = world.outcomes(start);
    let responses = naive::take_all(&outcomes[0].received, &["GET"]);
    assert!(outcomes[0].orderly);
    assert_eq!(responses.iter().map(|response| response.status).collect::<Vec<_>>(), [500, 500]);
}
