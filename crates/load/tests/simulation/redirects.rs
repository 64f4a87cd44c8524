//! Redirects that are followed: a request stays one, whatever its way to the last response is, and
//! all of that way is in its times.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_load::{Check, Extent, LoopPlan, Plan};
use thalweg_measure::Outcome;
use thalweg_measure::trial::Redirects;
use thalweg_reactor::sim::SimConfig;

use crate::script::{RedirectForm, Response, random_of, whole_check};
use crate::world::{Run, World, log_plan, plan, request};
use crate::{MS, SECOND, US, with_seeds};

/// Requests with numbers below this redirect to those that are higher by it.
const FAR: u64 = 1000;

const RUNS: u64 = 300;

/// So many requests, each of which is to lead to the content of the number that is higher by `by`.
fn leading(arrivals: LoopPlan, requests: u64, by: u64) -> Plan {
    let plan = plan(arrivals, Extent::Requests(requests), requests);
    let templates = (0..requests).map(|number| {
        let template = request("GET", number, b"");
        thalweg_load::RequestTemplate { check: Some(whole_check(number + by)), ..template }
    });
    Plan { requests: templates.collect(), redirects_max: 5, ..plan }
}

/// Redirects in this form, and responses a little later.
fn once(form: RedirectForm) -> impl Fn(u64) -> Response {
    move |number| if number < FAR { Response::Redirect(301, number + FAR, form) } else { Response::Late(3 * MS) }
}

#[track_caller]
fn check_all_good(run: &Run, requests: u64, followed: u64) {
    let trial = &run.figures.trial;
    assert_eq!((trial.counts.offered, trial.counts.good), (requests, requests), "{:?}", trial.outcomes);
    assert_eq!((trial.counts.sent, trial.counts.completed), (requests, requests));
    assert_eq!(trial.redirects, Some(Redirects { followed, ..Redirects::default() }));
    let codes: Vec<(u16, u64)> = trial.status_codes.iter().collect();
    assert_eq!(codes, [(200, requests), (301, followed)]);
    assert_eq!(run.records.len() as u64, requests + followed);
    assert_eq!(trial.service_time.count(), requests);
}

#[test]
fn a_followed_redirect_is_part_of_one_request_and_of_its_time() {
    with_seeds(0..6, |seed| {
        let fragment_probability = if seed % 2 == 0 { 0.7 } else { 0.0 };
        let network = SimConfig { fragment_probability, ..SimConfig::calm(seed) };
        let form = [RedirectForm::Path, RedirectForm::Url, RedirectForm::Dribbled(10 * US)][seed as usize % 3];
        let run = World { network, ..World::calm(leading(LoopPlan::at_rate(200.0), 50, FAR)) }.run(once(form));
        check_all_good(&run, 50, 50);
        let trial = &run.figures.trial;
        // Both responses are in the times, and the second one alone in the transfer.
        for (name, times) in [("response", &trial.response_time()), ("service", &trial.service_time)] {
            assert!(times.min() >= 3 * MS + 200 * US, "{name} time: {} ns", times.min());
        }
        assert!(trial.first_byte.min() >= 3 * MS, "{} ns", trial.first_byte.min());
        assert!(trial.transfer.max() < MS, "{} ns", trial.transfer.max());
        assert!(trial.lag.max() < MS && trial.queue.max() == 0, "{} ns of lag", trial.lag.max());
        // The second request goes over the connection of the first.
        for record in run.records.iter().filter(|record| record.number < FAR) {
            let next = run.records.iter().find(|other| other.number == record.number + FAR).expect("it was followed");
            assert_eq!(next.connection, record.connection);
        }
    });
}

#[test]
fn a_connection_that_closes_between_two_hops_is_followed_by_another() {
    for form in [RedirectForm::Closing, RedirectForm::UntilClose] {
        let arrivals = LoopPlan::of_workers(1, Duration::ZERO);
        let plan = Plan { connections: 1, ..leading(arrivals, 10, FAR) };
        let run = World::calm(plan).run(once(form));
        check_all_good(&run, 10, 10);
        assert_eq!(run.figures.trial.connections.opened, 11, "{form:?}");
    }
}

#[test]
fn a_request_per_connection_is_followed_on_the_next_one() {
    let plan = Plan { calls: Some(1), ..leading(LoopPlan::at_rate(100.0), 20, FAR) };
    let run = World::calm(plan).run(once(RedirectForm::Path));
    check_all_good(&run, 20, 20);
    assert_eq!(run.figures.trial.connections.opened, 40);
}

#[test]
fn a_worker_waits_for_the_last_response_of_its_request() {
    let run = World::calm(leading(LoopPlan::of_workers(3, Duration::ZERO), 60, FAR)).run(once(RedirectForm::Path));
    check_all_good(&run, 60, 60);
    assert!(run.busy_max <= 3, "{} requests at once", run.busy_max);
}

#[test]
fn pipelined_requests_follow_their_own_redirects() {
    with_seeds(0..20, |seed| {
        let plan = leading(LoopPlan::of_workers(16, Duration::ZERO), 200, FAR);
        let plan = Plan { connections: 2, pipeline: 8, timeout: Duration::from_secs(60), ..plan };
        let network = SimConfig { fragment_probability: 0.3, ..SimConfig::calm(seed) };
        let run = World { network, ..World::calm(plan) }.run(move |number| match number {
            far if far >= FAR => Response::Good,
            _ if random_of(seed, number).random() => Response::Redirect(301, number + FAR, RedirectForm::Path),
            _ => Response::Redirect(301, number + FAR, RedirectForm::Closing),
        });
        let trial = &run.figures.trial;
        let lost = trial.outcomes.count(Outcome::Reset);
        assert_eq!(trial.counts.good + lost, 200, "{:?}", trial.outcomes);
        // Those behind the end of a connection are lost, and no other.
        assert!(trial.counts.good > 20, "{:?}", trial.outcomes);
    });
}

#[test]
fn recorded_requests_are_followed() {
    let plan = log_plan((0..300).map(|number| (number, FAR)));
    let run = World::calm(Plan { redirects_max: 1, ..plan }).run(|number| match number {
        FAR => Response::Redirect(308, FAR + 1, RedirectForm::Path),
        _ => Response::Good,
    });
    // The check is that of the target that was logged.
    let trial = &run.figures.trial;
    assert_eq!(trial.outcomes.count(Outcome::FailedCheck), 300, "{:?}", trial.outcomes);
    assert_eq!(trial.redirects.as_ref().map(|redirects| redirects.followed), Some(300));
}

#[track_caller]
fn check_not_followed(response: fn(u64) -> Response, redirects_max: u8, expected: Redirects, location: &str) {
    let plan = Plan { redirects_max, ..leading(LoopPlan::at_rate(100.0), 10, 0) };
    let run = World::calm(plan).run(response);
    let trial = &run.figures.trial;
    assert_eq!(trial.outcomes.count(Outcome::BadStatus), 10, "{:?}", trial.outcomes);
    let mut seen = trial.redirects.clone().expect("there were redirects");
    assert_eq!(run.records.len() as u64, 10 + seen.followed);
    let sample = seen.sample.take().expect("one was not followed");
    assert_eq!((sample.location.as_str(), seen), (location, expected));
}

#[test]
fn a_redirect_that_leads_to_another_host_or_nowhere_or_too_far_is_a_bad_status() {
    let none = Redirects::default();
    let away = |_| Response::Redirect(302, 7, RedirectForm::OtherHost);
    check_not_followed(away, 5, Redirects { other_host: 10, ..none.clone() }, "http://elsewhere/7");
    let nowhere = |_| Response::Redirect(301, 7, RedirectForm::NoLocation);
    check_not_followed(nowhere, 5, Redirects { no_location: 10, ..none.clone() }, "");
    let looping = |_| Response::Redirect(307, 7, RedirectForm::Path);
    check_not_followed(looping, 3, Redirects { followed: 30, too_many: 10, ..none.clone() }, "/7");
    // Without being told to, none is followed.
    check_not_followed(looping, 0, none, "/7");
}

#[test]
fn a_redirect_that_the_check_names_is_good_and_not_followed() {
    let plan = leading(LoopPlan::at_rate(100.0), 10, 0);
    let good = Check { status: Some(301.into()), ..Check::default() };
    let templates = (0..10)
        .map(|number| thalweg_load::RequestTemplate { check: Some(good.clone()), ..request("GET", number, b"") });
    let plan = Plan { requests: templates.collect(), ..plan };
    let run = World::calm(plan).run(|_| Response::Redirect(301, 7, RedirectForm::Path));
    assert_eq!((run.figures.trial.counts.good, run.records.len()), (10, 10));
    assert_eq!(run.figures.trial.redirects, None);
}

#[test]
fn the_time_out_is_that_of_the_whole_way() {
    let plan = Plan { timeout: Duration::from_millis(50), ..leading(LoopPlan::at_rate(100.0), 10, FAR) };
    // Each hop takes 20 ms, so that the third one is cut off.
    let run = World::calm(plan).run(|number| Response::Redirect(302, number + 1, RedirectForm::Dribbled(200 * US)));
    let trial = &run.figures.trial;
    assert_eq!(trial.outcomes.count(Outcome::Timeout), 10, "{:?}", trial.outcomes);
    let times = trial.response_time();
    assert!((49 * MS..55 * MS).contains(&times.max()), "{} ns", times.max());
}

/// A redirect in any form and a response of any kind behind it, or that response alone.
fn random_run(seed: u64) {
    let random = &mut Pcg64Mcg::seed_from_u64(seed);
    let requests = random.random_range(1..150);
    let arrivals = match random.random() {
        true => LoopPlan::at_rate(random.random_range(50.0..2000.0)),
        false => LoopPlan::of_workers(random.random_range(1..20), Duration::ZERO),
    };
    let plan = leading(arrivals, requests, FAR);
    let patience = Duration::from_secs(3);
    let calls = random.random_bool(0.3).then(|| random.random_range(1..6));
    let plan = Plan { calls, timeout: patience, drain: patience, ..plan };
    let network = SimConfig { fragment_probability: if random.random() { 0.5 } else { 0.0 }, ..SimConfig::calm(seed) };
    let script = move |number: u64| {
        let random = &mut random_of(seed, number);
        if number >= FAR {
            return Response::independent(random);
        }
        let form = match random.random_range(0..5) {
            0 => RedirectForm::Url,
            1 => RedirectForm::Closing,
            2 => RedirectForm::UntilClose,
            3 => RedirectForm::Dribbled(random.random_range(1..100) * US),
            _ => RedirectForm::Path,
        };
        Response::Redirect([301, 302, 303, 307, 308][random.random_range(0..5)], number + FAR, form)
    };
    let run = World { network, ..World::calm(plan) }.run(script);
    let trial = &run.figures.trial;
    for outcome in Outcome::ALL {
        let expected = (0..requests).filter(|number| script(number + FAR).outcome() == outcome).count() as u64;
        assert_eq!(trial.outcomes.count(outcome), expected, "{outcome}: {:?}", trial.outcomes);
    }
    assert_eq!(trial.redirects.as_ref().map(|redirects| redirects.followed), Some(requests));
    assert_eq!(run.records.len() as u64, 2 * requests, "each is sent once in each place");
    trial.counts.check(&trial.outcomes).expect("the counts are those of the outcomes");
    assert!(trial.lag.max() < 20 * MS, "{} ns of lag", trial.lag.max());
}

#[test]
fn the_outcome_is_that_of_the_last_response() {
    with_seeds(0..RUNS, random_run);
}

#[test]
fn followed_redirects_take_no_more_memory_for_a_longer_run() {
    let entries = |requests| {
        let plan = leading(LoopPlan::of_workers(10, Duration::ZERO), 1, FAR);
        let plan = Plan { extent: Extent::Requests(requests), connections: 10, ..plan };
        let run = World { patience_ns: 1000 * SECOND, ..World::calm(plan) }.run(|number| match number {
            FAR => Response::Good,
            _ => Response::Redirect(301, FAR, RedirectForm::Path),
        });
        assert_eq!(run.figures.trial.counts.good, requests);
        run.entries_max
    };
    let (few, many) = (entries(100), entries(2000));
    assert!(many <= few + 10, "{few} entries for 100 requests, {many} for 2000");
}
