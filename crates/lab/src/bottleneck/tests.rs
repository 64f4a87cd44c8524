//! Each kind of evidence with its figures, and their combinations.

use thalweg_measure::search::{Collapse, EndReason, PhaseCounts, SearchResult};
use thalweg_measure::{Counts, LoopKind, Outcome, Outcomes, Verdict};

use super::*;
use crate::document::LimitedBy::{self, Client, Network, Server, Undetermined};
use crate::report::sample;

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
            width: Some(0.02),
            limited_by_client: false,
            ended: EndReason::WidthReached,
            collapse: None,
            contradicted: None,
            trials: PhaseCounts::default(),
            loads: Vec::new(),
            spent_s: 30.0,
        };
        let trials = vec![
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

    fn name(&self) -> Bottleneck {
        let Self { result, ceiling, trials, shared_host } = self;
        name_bottleneck(&Evidence { result, ceiling: *ceiling, trials, shared_host: *shared_host })
    }

    #[track_caller]
    fn check(&self, limit: LimitedBy, cause: Option<&str>, said: &str) {
        let named = self.name();
        assert_eq!((named.limit, named.cause.as_deref()), (limit, cause), "{:#?}", named.sentences);
        assert!(named.sentences.iter().any(|sentence| sentence.contains(said)), "{said}: {:#?}", named.sentences);
        let sorted = named.findings.iter().map(|finding| finding.sentence.clone());
        assert!(sorted.eq(named.sentences.iter().skip(named.sentences.len() - named.findings.len()).cloned()));
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

#[test]
fn a_client_at_its_ceiling_is_the_limit() {
    let mut case = Case::new();
    (case.result.upper_bound, case.result.ended) = (None, EndReason::ClientCeiling);
    (case.result.limited_by_client, case.ceiling) = (true, 1000.0);
    case.trials.truncate(2);
    case.check(Client, Some("client CPU"), "no rate that the client could offer failed");
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
    let evidence = |case: &Case, findings: &[Finding]| {
        let Case { result, ceiling, trials, shared_host } = case;
        let seen = Evidence { result, ceiling: *ceiling, trials, shared_host: *shared_host };
        rule::combine(&seen, findings.to_vec())
    };
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
