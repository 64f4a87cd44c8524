//! Many requests on one connection, and the network in between.

use std::sync::Arc;

use thalweg_reactor::sim::{Sim, SimConfig};
use thalweg_reactor::{App, LoopControl, run};
use thalweg_sys::{Completion, Driver, Instant};

use super::{PIPELINE, SECOND_NS, Step, World, check_pipeline, folder, large, naive, one, send, simulate, world};
use crate::config::Limits;
use crate::telemetry::counters::Published;

#[test]
fn a_pipeline_is_answered_in_order_wherever_it_is_cut() {
    let folder = folder();
    let scripts = (0..=PIPELINE.len()).map(|cut| {
        let (first, second) = PIPELINE.split_at(cut);
        let parts = [first, second].into_iter().filter(|part| !part.is_empty());
        parts.flat_map(|part| [send(part), Step::Rest(5_000_000)]).chain([Step::Finish]).collect()
    });
    let (outcomes, _) = simulate(SimConfig::calm(1), &Limits::default(), folder.path(), scripts.collect());
    for (cut, outcome) in outcomes.iter().enumerate() {
        check_pipeline(outcome, &format!("cut at {cut}"));
    }
}

#[test]
fn a_pipeline_survives_a_rough_network() {
    let folder = folder();
    for seed in 0..40 {
        let scripts = vec![vec![send(PIPELINE), Step::Finish]; 20];
        let (outcomes, totals) = simulate(SimConfig::rough(seed), &Limits::default(), folder.path(), scripts);
        for outcome in &outcomes {
            check_pipeline(outcome, &format!("seed {seed}"));
        }
        assert_eq!((totals.accepted, totals.requests, totals.responses), (20, 100, [80, 0, 20, 0]), "seed {seed}");
        let received: usize = outcomes.iter().map(|outcome| outcome.received.len()).sum();
        assert_eq!(totals.bytes, received as u64, "seed {seed}");
    }
}

#[test]
fn many_requests_ahead_of_their_responses_are_all_answered() {
    let folder = folder();
    const REQUESTS: usize = 3000;
    for config in [SimConfig::calm(1), SimConfig::rough(2)] {
        let request = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n".repeat(REQUESTS);
        let outcome = one(config, folder.path(), vec![send(&request), Step::Finish]);
        let responses = naive::take_all(&outcome.received, &["GET"]);
        assert_eq!(responses.len(), REQUESTS);
        assert!(responses.iter().all(|response| response.body == b"the letter a\n"));
    }
}

#[test]
fn large_files_arrive_whole_over_a_rough_network() {
    let folder = folder();
    for seed in 0..5 {
        let request = "GET /large HTTP/1.1\r\nHost: h\r\n\r\nGET /large HTTP/1.0\r\nRange: bytes=-700000\r\n\r\n";
        let outcome = one(SimConfig::rough(seed), folder.path(), vec![send(request)]);
        let responses = naive::take_all(&outcome.received, &["GET"]);
        assert!(outcome.orderly);
        assert!(responses[0].body == large(), "seed {seed}");
        assert!(responses[1].body == large()[800_000..], "seed {seed}");
    }
}

#[test]
fn a_hostile_network_breaks_connections_and_not_the_server() {
    let folder = folder();
    let steps = vec![send(PIPELINE), send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n"), Step::Finish];
    let mut orderly = 0;
    for seed in 0..40 {
        let mut config = SimConfig::hostile(seed);
        config.connect_failure_probability = 0.0;
        let mut driver = Sim::new(config);
        let scripts = vec![steps.clone(); 20];
        let (mut world, published) = world(&mut driver, &Limits::default(), folder.path(), scripts);
        // Some clients receive nothing any more and would wait for ever; the server closes their
        // connections before that.
        world.end = Some(driver.now().plus_ns(600 * SECOND_NS));
        run(&mut driver, &mut world).unwrap();
        assert_eq!(published[0].totals().open, 0, "seed {seed}");
        orderly += world.clients.iter().filter(|client| client.over.is_some_and(|over| over.orderly)).count();
    }
    // A quarter of the connections survives such a network, and the server goes on for them.
    assert!(orderly > 150, "{orderly} of 800");
}

#[test]
fn a_refused_client_that_is_still_sending_gets_the_response() {
    let folder = folder();
    for seed in 0..20 {
        let body = "x".repeat(600_000);
        let steps = vec![send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 600000\r\n\r\n"), send(&body)];
        let outcome = one(SimConfig::rough(seed), folder.path(), steps);
        let responses = naive::take_all(&outcome.received, &["POST"]);
        assert_eq!(responses[0].status, 405, "seed {seed}");
        assert_eq!(responses[0].field("connection"), Some("close"));
        assert_eq!(responses.len(), 1);
        assert!(outcome.orderly, "seed {seed}: reset");
    }
}

#[test]
fn after_a_malformed_request_nothing_is_answered() {
    let folder = folder();
    let request =
        "GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /a HTTP/1.1\nHost: h\r\n\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n";
    let outcome = one(SimConfig::calm(1), folder.path(), vec![send(request), Step::Rest(1000), send(request)]);
    let statuses: Vec<u16> =
        naive::take_all(&outcome.received, &["GET"]).iter().map(|response| response.status).collect();
    assert_eq!(statuses, [200, 400]);
}

/// A world that records the most requests that are processed from one iteration to the next.
struct Watched<'w> {
    world: World<'w>,
    published: Arc<[Published]>,
    answered: u64,
    most: u64,
}

impl App<Sim> for Watched<'_> {
    fn on_completion(&mut self, driver: &mut Sim, completion: Completion) {
        self.world.on_completion(driver, completion);
    }

    fn on_iteration(&mut self, driver: &mut Sim, now: Instant) -> LoopControl {
        let turn = self.world.on_iteration(driver, now);
        let answered = self.published[0].totals().requests;
        self.most = self.most.max(answered - self.answered);
        self.answered = answered;
        turn
    }
}

#[test]
fn pipelines_of_some_clients_do_not_hold_up_another() {
    const CLIENTS: usize = 10;
    let ranges: Vec<String> = (0..6).map(|number| format!("{}-{0}", 2 * number)).collect();
    let of_ranges = |name| format!("GET /{name} HTTP/1.1\r\nHost: h\r\nRange: bytes={}\r\n\r\n", ranges.join(","));
    // In one iteration the shared work budget may be spent twice, for connections that waited and
    // for new input, besides one request of each connection.
    for (request, count, most) in [
        ("HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(), 20_000, 2 * 256 + CLIENTS as u64),
        (of_ranges("a"), 1000, 2 * 256 + CLIENTS as u64),
        (of_ranges("large"), 200, 2 * CLIENTS as u64),
    ] {
        let folder = folder();
        let mut driver = Sim::new(SimConfig::calm(1));
        let pipelines = vec![vec![send(&request.repeat(count)), Step::Finish]; CLIENTS];
        let (world, published) = world(&mut driver, &Limits::default(), folder.path(), pipelines);
        let mut watched = Watched { world, published, answered: 0, most: 0 };
        run(&mut driver, &mut watched).unwrap();
        assert_eq!(watched.answered, (CLIENTS * count) as u64, "{request}");
        assert!(watched.most <= most, "{} in one turn: {request}", watched.most);
        // Each connection gets its part of every iteration: when the first is finished, the others
        // nearly are.
        let outcomes = watched.world.clients.iter().map(|client| client.over.unwrap().at.as_ns());
        let (first, last) = (outcomes.clone().min().unwrap(), outcomes.max().unwrap());
        assert!(last - first <= 20_000_000, "{} us apart: {request}", (last - first) / 1000);
    }
}
