//! Each kind of evidence with its figures, and their combinations.

use std::time::Duration;

use thalweg_measure::search::{Collapse, EndReason, PhaseCounts, SearchResult};
use thalweg_measure::{Counts, LoopKind, Outcome, Outcomes, Verdict};
use thalweg_report::document::LimitedBy::{self, Client, Network, Server, Undetermined};
use thalweg_report::document::{Finding, Strength, Trial};
use thalweg_report::sample;

use super::*;
use crate::client_process::TwoClients;
use crate::environment::{HandshakeTimes, InterfaceFigures, PathFigures, ServerFigures, TaskFigures};
use crate::evidence::{Diagnosis, SecondClient};

/// A search that found 1000/s to 1020/s with a client that carries 5000/s, on two hosts.
struct Case {
    result: SearchResult,
    ceiling: f64,
    trials: Vec<Trial>,
    shared_host: bool,
}

impl Case {
    fn new() -> Self {
        let result = SearchResult {
            lower_bound: Some(1000.0),
            lower_confirmed: true,
            goodput: Some(1000.0),
            upper_bound: Some(1020.0),
            upper_confirmed: true,
            estimate: None,
            drift: None,
            overload: Vec::new(),
            recovered: None,
            estimate_trial: Duration::from_secs(10),
            samples_wanted: None,
            to_usual_width_s: None,
            limited_by_client: false,
            ended: EndReason::WidthReached,
            collapse: None,
            contradicted: None,
            trials: PhaseCounts::default(),
            loads: Vec::new(),
            spent_s: 30.0,
        };
        let mut calibration = trial(5000.0, Verdict::Invalid);
        (calibration.phase, calibration.offered_rate) = ("calibrate".to_owned(), None);
        calibration.client.busiest_core = 0.95;
        let trials = vec![
            calibration,
            trial(400.0, Verdict::Pass),
            trial(1000.0, Verdict::Pass),
            trial(1020.0, Verdict::Fail),
            trial(1400.0, Verdict::Fail),
        ];
        Self { result, ceiling: 5000.0, trials, shared_host: false }
    }

    /// A client that fell short at every rate from 400/s on.
    fn short() -> Self {
        let mut case = Self::new();
        case.result.upper_bound = None;
        case.result.lower_bound = Some(300.0);
        case.result.ended = EndReason::Disturbed;
        case.trials = vec![trial(300.0, Verdict::Pass), trial(400.0, Verdict::Invalid)];
        case
    }

    fn at(&mut self, rate: f64) -> &mut Trial {
        self.trials.iter_mut().find(|trial| trial.offered_rate == Some(rate)).expect("a trial at that rate")
    }

    fn evidence(&self) -> Evidence<'_> {
        let Self { result, ceiling, trials, shared_host } = self;
        Evidence {
            result,
            ceiling: *ceiling,
            trials,
            shared_host: *shared_host,
            diagnosis: None,
            second_client: &SecondClient::NotNeeded,
        }
    }

    #[track_caller]
    fn check(&self, limit: LimitedBy, cause: Option<&str>, said: &str) {
        self.checked(name_bottleneck(&self.evidence()), limit, cause, said);
    }

    #[track_caller]
    fn checked(&self, named: Bottleneck, limit: LimitedBy, cause: Option<&str>, said: &str) {
        assert_eq!((named.limit, named.cause.as_deref()), (limit, cause), "{:#?}", named.sentences);
        assert!(named.sentences.iter().any(|sentence| sentence.contains(said)), "{said}: {:#?}", named.sentences);
        let told = |finding: &Finding| named.sentences.contains(&finding.sentence);
        assert!(named.findings.iter().all(told), "every finding is said: {:#?}", named.sentences);
    }
}

/// A trial of 2 s in which nothing is remarkable: responses after 5 ms, a client at ease.
fn trial(rate: f64, verdict: Verdict) -> Trial {
    let mut trial = sample::trial("confirm", 1.0, rate, 2.0);
    assert_eq!(trial.loop_kind, LoopKind::Open);
    let offered = (rate * 2.0) as u64;
    let mut outcomes = Outcomes::default();
    outcomes.record_n(Outcome::Good, offered);
    trial.counts = Counts::of(&outcomes, offered);
    (trial.outcomes, trial.verdict, trial.server) = (outcomes, verdict, None);
    trial.client.busiest_core = rate / 5000.0;
    (trial.client.run_queue_wait_s, trial.client.throttled_s) = (0.0, 0.0);
    trial
}

fn fail_with(trial: &mut Trial, outcome: Outcome, count: u64) {
    let mut outcomes = Outcomes::default();
    outcomes.record_n(outcome, count);
    outcomes.record_n(Outcome::Good, trial.counts.offered - count);
    trial.counts = Counts::of(&outcomes, trial.counts.sent);
    trial.outcomes = outcomes;
}

/// Such a search once named the server, since the client had headroom and the path lost nothing.
#[test]
fn nothing_is_concluded_by_elimination() {
    let mut case = Case::new();
    case.check(Undetermined, None, "thalweg observe");
    case.check(Undetermined, None, "5.00 times the rate found");
    case.shared_host = true;
    case.check(Undetermined, None, "no part shows the signs");
    case.ceiling = 1100.0;
    case.check(Undetermined, None, "1.10 times the rate found");
}

#[test]
fn a_target_that_sheds_load_names_itself() {
    let mut case = Case::new();
    let shed = case.at(1400.0);
    fail_with(shed, Outcome::BadStatus, 700);
    shed.status_codes.record_n(503, 700);
    case.check(Server, Some("server's queue is bounded (503s)"), "25.0 % of the requests with status 503");
    let at_ease = case.at(400.0);
    at_ease.status_codes.record_n(503, 200);
    case.check(Undetermined, None, "");
}

#[test]
fn errors_of_other_kinds_are_no_bounded_queue() {
    let mut case = Case::new();
    let failed = case.at(1400.0);
    fail_with(failed, Outcome::BadStatus, 700);
    failed.status_codes.record_n(500, 700);
    case.check(Undetermined, None, "");
}

#[test]
fn refused_connections_are_the_targets() {
    let mut case = Case::new();
    fail_with(case.at(1020.0), Outcome::Refused, 30);
    case.check(Server, Some("server refuses connections"), "1.47 % of the requests");
}

/// A client at 20 % of its CPU by its control group was once told that its host is too busy.
#[test]
fn a_throttled_client_is_named() {
    let mut case = Case::short();
    case.at(400.0).client.throttled_s = 1.2;
    case.check(Client, Some("client throttled by its control group"), "60.0 % of the time at 400/s");
    case.at(400.0).client.throttled_s = 0.01;
    case.check(Undetermined, None, "too busy");
}

#[test]
fn a_client_that_other_programs_disturb_is_no_limit() {
    let mut case = Case::short();
    case.at(400.0).client.run_queue_wait_s = 0.6;
    case.check(Undetermined, None, "waited for their CPU");
}

#[test]
fn a_shortfall_beside_a_target_with_a_bound_does_not_matter() {
    let mut case = Case::new();
    let mut short = trial(1100.0, Verdict::Invalid);
    short.client.throttled_s = 0.5;
    case.trials.push(short);
    case.check(Undetermined, None, "stopped it for 25.0 %");
}

#[test]
fn missing_resources_are_the_clients() {
    for (outcome, cause) in [(Outcome::NoDescriptor, "client's descriptors"), (Outcome::NoAddress, "client's ports")] {
        let mut case = Case::short();
        fail_with(case.at(400.0), outcome, 5);
        case.check(Client, Some(cause), "left for 5 requests at 400/s");
    }
}

/// Such a search was once ended by the client's descriptors, which the diagnosis had used up.
#[test]
fn a_shortfall_after_the_search_did_not_end_it() {
    let mut case = Case::short();
    let late = case.at(400.0);
    late.phase = "diagnose".to_owned();
    fail_with(late, Outcome::NoDescriptor, 5);
    case.check(Undetermined, None, "");
}

#[test]
fn a_client_at_its_ceiling_is_the_limit() {
    let mut case = Case::new();
    (case.result.upper_bound, case.result.ended) = (None, EndReason::ClientCeiling);
    (case.result.limited_by_client, case.ceiling) = (true, 1000.0);
    case.trials.truncate(3);
    case.check(Client, Some("client CPU"), "no rate that the client could offer failed");
    // The sink itself was out of reach, by a slow loopback for instance.
    case.trials[0].client.busiest_core = 0.1;
    case.check(Undetermined, None, "used 10.0 % of its CPU");
    // Between a target that fails and the ceiling lie trials that were invalid.
    let mut case = Case::new();
    (case.result.limited_by_client, case.ceiling) = (true, 1200.0);
    case.trials.push(trial(1010.0, Verdict::Invalid));
    case.check(Client, Some("client CPU"), "did not keep up");
    case.ceiling = 5000.0;
    case.check(Undetermined, None, "");
}

#[test]
fn a_lasting_collapse_is_the_servers() {
    let mut case = Case::new();
    let collapse = Collapse {
        held: 1000.0,
        overload: 2000.0,
        failed: 400.0,
        failed_probes: 4,
        waited_s: 60.0,
        recovery_s: None,
        times: 1,
    };
    case.result.collapse = Some(collapse);
    case.check(Server, Some("server has not recovered from an overload"), "rates that passed before");
    case.result.collapse = Some(Collapse { recovery_s: Some(3.0), ..collapse });
    case.check(Undetermined, None, "");
}

#[test]
fn a_search_that_was_cut_short_names_nothing() {
    let mut case = Case::new();
    case.result.ended = EndReason::Interrupted;
    fail_with(case.at(1020.0), Outcome::Refused, 300);
    case.check(Undetermined, None, "interrupted");
    case.result.ended = EndReason::BudgetSpent;
    case.result.upper_bound = None;
    case.check(Undetermined, None, "ended before a rate failed");
}

#[test]
fn a_contradiction_names_nothing() {
    let mut case = Case::new();
    let findings = [
        Finding::of(Server, Strength::Shows, "a", "the server waits".to_owned()),
        Finding::of(Network, Strength::Shows, "b", "the path is full".to_owned()),
    ];
    let evidence = |case: &Case, findings: &[Finding]| rule::combine(&case.evidence(), findings.to_vec());
    let both = evidence(&case, &findings);
    assert_eq!((both.limit, both.cause), (Undetermined, None));
    assert_eq!(both.sentences[0], "the evidence points at the server and the network at the same time");
    let proven = Finding::of(Network, Strength::Proves, "c", "all of it is used".to_owned()).caused_by("path full");
    let decided = evidence(&case, &[&findings[..], &[proven]].concat());
    assert_eq!((decided.limit, decided.cause.as_deref()), (Network, Some("path full")));
    assert_eq!(decided.sentences[0], "all of it is used");
    case.result.ended = EndReason::Interrupted;
    assert_eq!(evidence(&case, &findings).limit, Undetermined);
}

/// A diagnosis in which a response's first byte takes 40 ms and its last one 1 ms more, on a path
/// whose handshakes take 0.1 ms.
fn diagnosis() -> Diagnosis {
    let mut trial = trial(1275.0, Verdict::Fail);
    trial.phase = "diagnose".to_owned();
    set(&mut trial.first_byte_us, 40_000.0);
    set(&mut trial.service_time_us, 41_000.0);
    set(&mut trial.lag_us, 50.0);
    set(&mut trial.queue_us, 200_000.0);
    let times = |us: f64| HandshakeTimes { count: 20, unanswered: 0, min_us: us, p50_us: us, p90_us: us * 1.5 };
    let path = PathFigures { idle: times(100.0), loaded: times(120.0), out_of_order: 0.0, retransmitted: 0.0 };
    Diagnosis { trial, path: Some(path), server: None, interface: None, path_capacity: None, on_more_connections: None }
}

fn set(times: &mut thalweg_measure::Summary, us: f64) {
    (times.mean, times.p50, times.p90, times.p99) = (us, us, us, us);
}

/// A server of one thread that is idle on one of two CPUs.
fn server() -> ServerFigures {
    let task = |cpu: f64, wait: f64| TaskFigures { name: "worker".to_owned(), cpu, wait };
    ServerFigures {
        name: "httpd".to_owned(),
        cpus_allowed: 2,
        tasks: vec![task(0.2, 0.01), task(0.01, 0.0), task(0.0, 0.0)],
        descriptors: Some((120, 1024)),
        storage: 0.0,
        runnable: 0.2,
        throttled: 0.0,
    }
}

#[track_caller]
fn diagnosed(change: impl FnOnce(&mut Diagnosis), limit: LimitedBy, cause: Option<&str>, said: &str) {
    let case = Case::new();
    let mut diagnosis = diagnosis();
    change(&mut diagnosis);
    let seen = Evidence { diagnosis: Some(&diagnosis), ..case.evidence() };
    case.checked(name_bottleneck(&seen), limit, cause, said);
}

#[test]
fn a_request_that_waits_longer_than_the_path_takes_waits_in_the_server() {
    let waits = Some("requests wait in the server");
    diagnosed(|_| {}, Server, waits, "half of the requests waited at least 40.0 ms");
    // Nothing is known of the path, or the client itself was late.
    diagnosed(|it| it.path = None, Undetermined, None, "");
    diagnosed(|it| it.path.as_mut().unwrap().loaded.count = 2, Undetermined, None, "");
    diagnosed(|it| set(&mut it.trial.lag_us, 20_000.0), Undetermined, None, "");
    // The path explains too much of it.
    diagnosed(|it| it.path.as_mut().unwrap().loaded.p90_us = 10_000.0, Undetermined, None, "");
    // The body took most of the time, which the server or the path may have held up.
    diagnosed(|it| set(&mut it.trial.service_time_us, 900_000.0), Undetermined, None, "");
}

#[test]
fn slow_requests_wait_in_the_server_where_the_others_do_not() {
    let waits = Some("requests wait in the server");
    let quick = |it: &mut Diagnosis| (it.trial.first_byte_us.p50, it.trial.service_time_us.p50) = (150.0, 160.0);
    diagnosed(quick, Server, waits, "the slowest 1 % of the requests waited at least 40.0 ms");
    let lossy = |it: &mut Diagnosis| {
        quick(it);
        it.path.as_mut().unwrap().out_of_order = 0.005;
    };
    diagnosed(lossy, Undetermined, None, "");
}

/// A path of 100 Mbit/s was once called the server.
#[test]
fn packets_that_queue_show_a_full_path() {
    let full = |it: &mut Diagnosis| {
        let loaded = &mut it.path.as_mut().unwrap().loaded;
        (loaded.min_us, loaded.p50_us, loaded.p90_us) = (30_000.0, 38_000.0, 41_000.0);
    };
    diagnosed(
        full,
        Network,
        Some("path full"),
        "a handshake, which the server's kernel answers by itself, took 38.0 ms",
    );
    // The queue explains little of the wait.
    let elsewhere = |it: &mut Diagnosis| {
        full(it);
        set(&mut it.trial.first_byte_us, 150_000.0);
    };
    diagnosed(elsewhere, Undetermined, None, "packets queued on the path");
    // A long path is not a full one.
    let long = |it: &mut Diagnosis| {
        full(it);
        it.path.as_mut().unwrap().idle.min_us = 37_000.0;
    };
    diagnosed(long, Undetermined, None, "");
}

#[test]
fn loss_names_the_path_where_it_delays_many_responses() {
    let lossy = |share: f64, bytes_each: u64| {
        move |it: &mut Diagnosis| {
            it.path.as_mut().unwrap().out_of_order = share;
            it.trial.bytes.received = it.trial.counts.completed * bytes_each;
        }
    };
    diagnosed(lossy(0.03, 100_000), Network, Some("path lossy"), "3.00 % of the segments from the server");
    diagnosed(lossy(0.03, 1_000), Server, Some("requests wait in the server"), "3.00 % of the segments");
    diagnosed(lossy(0.002, 1_000), Server, Some("requests wait in the server"), "");
}

#[test]
fn a_rate_that_grows_with_the_connections_is_bounded_by_the_client() {
    let with = |more: f64| {
        move |it: &mut Diagnosis| {
            it.trial.rates.good = 1000.0;
            it.on_more_connections = Some(more);
        }
    };
    diagnosed(with(1900.0), Client, Some("client's connections"), "with twice as many the target carried 1,900/s");
    diagnosed(with(1020.0), Server, Some("requests wait in the server"), "");
}

#[test]
fn a_path_that_carries_what_it_can_is_full() {
    let with = |capacity: f64| {
        move |it: &mut Diagnosis| {
            it.path_capacity = Some(Ok(capacity));
            it.trial.rates.completed = 1000.0;
            it.trial.bytes.received = it.trial.counts.completed * 11_750;
        }
    };
    diagnosed(with(95e6), Network, Some("path full"), "94.0 Mbit/s of responses arrived, 98.9 % of the 95.0 Mbit/s");
    diagnosed(with(900e6), Server, Some("requests wait in the server"), "10.4 % of the 900 Mbit/s");
}

#[test]
fn an_interface_at_its_speed_is_full() {
    let with = |bytes_each: u64| {
        move |it: &mut Diagnosis| {
            it.interface = Some(InterfaceFigures { name: "eth0".to_owned(), bits_per_s: 1_000_000_000 });
            it.trial.rates.completed = 1000.0;
            it.trial.bytes.received = it.trial.counts.completed * bytes_each;
        }
    };
    diagnosed(with(110_000), Network, Some("path full"), "933 Mbit/s passed over eth0");
    diagnosed(with(90_000), Server, Some("requests wait in the server"), "");
}

#[test]
fn requests_that_time_out_beside_quick_handshakes_are_in_the_server() {
    let timed_out = |it: &mut Diagnosis| {
        set(&mut it.trial.first_byte_us, 200.0);
        fail_with(&mut it.trial, Outcome::Timeout, 200);
    };
    diagnosed(timed_out, Server, Some("requests wait in the server"), "7.84 % of the requests timed out");
}

#[test]
fn the_servers_threads_prove_what_it_lacks() {
    let with = |change: fn(&mut ServerFigures)| {
        move |it: &mut Diagnosis| {
            let mut server = server();
            change(&mut server);
            it.server = Some(server);
        }
    };
    diagnosed(with(|_| {}), Server, Some("requests wait in the server"), "");
    diagnosed(with(|it| it.cpus_allowed = 0), Server, Some("requests wait in the server"), "");
    let one_core = "one thread of httpd (worker) used 97.0 % of a CPU, and its other 2 threads 0.01 CPUs together";
    diagnosed(with(|it| it.tasks[0].cpu = 0.97), Server, Some("one core of the server"), one_core);
    let confined: fn(&mut ServerFigures) = |it| (it.tasks[0].cpu, it.cpus_allowed) = (0.97, 1);
    diagnosed(with(confined), Server, Some("server CPU"), "httpd used 0.98 of the 1 CPU that it may run on");
    let both: fn(&mut ServerFigures) = |it| (it.tasks[0].cpu, it.tasks[1].cpu) = (0.97, 0.95);
    diagnosed(with(both), Server, Some("server CPU"), "httpd used 1.92 of the 2 CPUs");
    let shared: fn(&mut ServerFigures) = |it| (it.tasks[0].cpu, it.tasks[0].wait) = (0.6, 0.38);
    diagnosed(with(shared), Server, Some("one core of the server"), "waited for a CPU, which ran something else");
    let disk: fn(&mut ServerFigures) = |it| it.storage = 3.2;
    diagnosed(with(disk), Server, Some("server's disk"), "3.2 threads of httpd waited for storage");
    diagnosed(
        with(|it| it.descriptors = Some((1024, 1024))),
        Server,
        Some("server's descriptors"),
        "1,024 of its 1,024",
    );
    let group = Some("server throttled by its control group");
    diagnosed(with(|it| it.throttled = 0.7), Server, group, "for 70.0 % of the time");
}

/// A part that is proven outweighs one that only shows.
#[test]
fn a_saturated_server_behind_a_queue_is_the_server() {
    let both = |it: &mut Diagnosis| {
        let loaded = &mut it.path.as_mut().unwrap().loaded;
        (loaded.min_us, loaded.p50_us, loaded.p90_us) = (30_000.0, 38_000.0, 41_000.0);
        it.server = Some(ServerFigures { cpus_allowed: 1, ..server() });
        it.server.as_mut().unwrap().tasks[0].cpu = 0.99;
    };
    diagnosed(both, Server, Some("server CPU"), "packets queued on the path");
}

#[test]
fn two_clients_that_carry_more_than_one_show_the_client() {
    let named = |second_client: SecondClient, limit, cause, said| {
        let case = Case::new();
        let seen = Evidence { second_client: &second_client, ..case.evidence() };
        case.checked(name_bottleneck(&seen), limit, cause, said);
    };
    let compared = |two: f64| SecondClient::Compared(TwoClients { offered: 1250.0, one: 1000.0, two });
    named(compared(1200.0), Client, Some("client CPU"), "one client process carried 1,000/s and two of them 1,200/s");
    named(compared(1020.0), Undetermined, None, "a second one does not help");
    named(SecondClient::NoSpareCpu, Undetermined, None, "no idle CPU");
    named(SecondClient::Failed("it ended".to_owned()), Undetermined, None, "it ended");
}
