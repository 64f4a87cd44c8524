//! Verdicts on trials made up for the purpose, and on simulated queues.

use super::*;
use crate::interval::IntervalSeries;
use crate::limit::Limit;
use crate::outcome::{Causes, Counts, Outcome};
use crate::simulation::Random;
use std::time::Duration;

mod limits;

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn empty(loop_kind: LoopKind) -> TrialFigures {
    let intervals = IntervalSeries::new(SECOND / 2, 600);
    TrialFigures::new(loop_kind, Some(1000.0), Duration::from_secs(10), intervals)
}

/// Ten seconds at 1000/s whose requests end as in `outcomes`, each in the half second in which it
/// was offered, and whose responses take 10 ms.
fn trial(outcomes: &[(Outcome, u64)]) -> TrialFigures {
    let mut figures = empty(LoopKind::Open);
    let ends: Vec<Outcome> = outcomes.iter().flat_map(|(end, n)| std::iter::repeat_n(*end, *n as usize)).collect();
    for (at, end) in ends.iter().enumerate() {
        figures.intervals.advance_to(at as u64 * 10 * SECOND / ends.len() as u64);
        figures.intervals.record_offered();
        let responds = end.is_completed() || *end == Outcome::Timeout;
        figures.intervals.record_end(*end, responds.then_some(10 * MS));
        figures.outcomes.record(*end);
    }
    figures.intervals.advance_to(10 * SECOND);
    figures.counts = Counts::of(&figures.outcomes, figures.outcomes.completed());
    let Counts { sent, completed, good, .. } = figures.counts;
    figures.in_window = WindowCounts { sent, completed, good, connections: 0 };
    figures.lag.record_n(50_000, sent);
    figures
}

fn good_trial() -> TrialFigures {
    trial(&[(Outcome::Good, 10_000)])
}

#[track_caller]
fn check(figures: &TrialFigures, limits: &[&str], expected: Verdict, reasons: &[&str]) {
    let limits: Vec<Limit> = limits.iter().map(|limit| limit.parse().unwrap()).collect();
    let judgement = verdict(figures, &limits);
    let said: Vec<String> = judgement.reasons.iter().map(Reason::to_string).collect();
    assert_eq!(judgement.verdict, expected, "{said:?}");
    assert_eq!(said, reasons);
}

#[test]
fn a_trial_that_completed_nothing_does_not_pass() {
    let none = "no response was complete by the end of the measured 10.0 s, of 3 requests sent";
    // Downloads that are under way when the trial is cut off are in no other count.
    let mut cut = empty(LoopKind::Closed);
    (cut.under_way, cut.in_window.sent) = (3, 3);
    let longer = format!("{none}; use a longer --duration if responses take that long");
    check(&cut, &[], Verdict::Fail, &[&longer]);
    cut.in_window.sent = 0;
    check(&cut, &[], Verdict::Invalid, &["no request was sent in the measured time"]);

    // Responses that come after the end make no rate.
    let mut late = empty(LoopKind::Closed);
    late.outcomes.record_n(Outcome::Good, 3);
    late.counts = Counts::of(&late.outcomes, 3);
    late.ends_by_time = true;
    let later = format!("{none}; 3 came later: use a longer --duration, so that rates can be measured");
    check(&late, &[], Verdict::Fail, &[&later]);
    // A number of requests is over when they are.
    late.ends_by_time = false;
    check(&late, &[], Verdict::Pass, &[]);
}

#[test]
fn limits_decide_between_pass_and_fail() {
    use Outcome::{BadStatus, FailedCheck, Good, Refused, Timeout};
    let good = good_trial();
    check(&good, &[], Verdict::Pass, &[]);
    check(&good, &["p99<50ms", "max<=11ms"], Verdict::Pass, &[]);
    let above = "p99 10.0 ms is above the limit of 9 ms";
    check(&good, &["p99<9ms", "p50<1s"], Verdict::Fail, &[above]);
    check(&good, &["max<=10ms"], Verdict::Pass, &[]);
    check(&good, &["max<10ms"], Verdict::Fail, &["max 10.0 ms is not below the limit of 10 ms"]);

    let some_bad = trial(&[(Good, 9990), (BadStatus, 5), (FailedCheck, 5)]);
    let errors = "errors 0.100 % (10 of 10,000) miss the limit errors<=0%";
    check(&some_bad, &[], Verdict::Fail, &[errors]);
    check(&some_bad, &["p99<50ms"], Verdict::Fail, &[errors]);
    check(&some_bad, &["errors<=0.1%"], Verdict::Pass, &[]);
    let strict = "errors 0.100 % (10 of 10,000) miss the limit errors<0.1%";
    check(&some_bad, &["errors<0.1%"], Verdict::Fail, &[strict]);

    // Errors that a limit allows may be missing from the completions too.
    let slow = trial(&[(Good, 9700), (Timeout, 200), (Refused, 100)]);
    check(&slow, &["errors<5%"], Verdict::Pass, &[]);

    let none = trial(&[(Refused, 10_000)]);
    let refused = "the target refused connections for 10,000 of 10,000 requests";
    let unmeasured = "no response was measured, so p99<50ms cannot be confirmed";
    let incomplete = "completed 0 of 10,000 offered requests; more than 5 % are missing";
    let all = "errors 100 % (10,000 of 10,000) miss the limit errors<=5%";
    check(&none, &["p99<50ms", "errors<=5%"], Verdict::Fail, &[refused, unmeasured, all, incomplete]);
}

#[test]
fn connections_must_all_conform() {
    let mut figures = good_trial();
    figures.connections = Connections { opened: 500, peak: 400, conforming: 400, ..Connections::default() };
    figures.bits_per_connection.record_n(400_000, 400);
    check(&figures, &["kbit_per_conn>=320"], Verdict::Pass, &[]);
    figures.connections.conforming = 388;
    let reason = "only 388 of 400 connections meet kbit_per_conn>=320";
    check(&figures, &["kbit_per_conn>=320"], Verdict::Fail, &[reason]);
    figures.connections = Connections::default();
    check(&figures, &["kbit_per_conn>=320"], Verdict::Fail, &["only 0 of 400 connections meet kbit_per_conn>=320"]);
}

/// Fewer connections may have carried the same requests, so these say nothing about it.
#[test]
fn connections_that_were_to_be_held_are_open_at_the_end() {
    let mut figures = good_trial();
    figures.to_hold = Some(500);
    figures.connections = Connections { held: 500, ..Connections::default() };
    check(&figures, &[], Verdict::Pass, &[]);
    figures.connections.held = 488;
    let reason = "only 488 of 500 connections were open at the end";
    check(&figures, &[], Verdict::Fail, &[reason]);
    let slow = "p99 10.0 ms is above the limit of 9 ms";
    check(&figures, &["p99<9ms"], Verdict::Fail, &[reason, slow]);
    figures.connections.lacking = 12;
    let lacking = "12 connections could not be opened: this host ran out of file descriptors or local ports";
    check(&figures, &[], Verdict::Invalid, &[lacking, reason]);
}

/// The bound on connections is used up by a slow target: 300 requests still wait when the schedule
/// ends.
#[test]
fn requests_held_back_by_the_target_fail_but_stay_valid() {
    let mut figures = trial(&[(Outcome::Good, 9700), (Outcome::NotSent, 300)]);
    figures.held_back = 300;
    let reason = "completed 9,700 of 10,000 offered requests; more than 1 % are missing";
    check(&figures, &[], Verdict::Fail, &[reason]);
    // The same number without the excuse is the client's failure.
    figures.held_back = 0;
    let unsent = "the client did not send 300 of 10,000 requests, more than 0.1 %";
    check(&figures, &[], Verdict::Invalid, &[unsent, reason]);
    // Waiting until the time limit is the target's doing as well.
    let figures = trial(&[(Outcome::Good, 9700), (Outcome::Timeout, 300)]);
    assert_eq!(verdict(&figures, &[]).verdict, Verdict::Fail);
}

#[test]
fn the_client_is_judged_first() {
    let spoilt = |spoil: fn(&mut TrialFigures)| {
        let mut figures = good_trial();
        spoil(&mut figures);
        figures
    };
    let missed = &["p99<9ms"][..];
    let late = spoilt(|figures| figures.lag.record_n(MS, 200));
    let slow = "p99 10.0 ms is above the limit of 9 ms";
    check(&late, missed, Verdict::Invalid, &["the client sent late: its p99 lag 1.00 ms is above 900 us", slow]);
    check(&late, &["p99<50ms"], Verdict::Pass, &[]);

    let on_cpu = |use_: CpuUse| {
        let mut figures = good_trial();
        figures.cpus = vec![CpuUse { cpu: 2, ..CpuUse::default() }, use_];
        figures
    };
    for (use_, reason) in [
        (
            CpuUse { run_queue_wait_ns: 600 * MS, ..CpuUse::default() },
            "the load thread on CPU 3 waited for its CPU for 6.00 % of the trial, above 5 %",
        ),
        (
            CpuUse { throttled_ns: 200 * MS, busy_ns: 10_000 * MS, ..CpuUse::default() },
            "the load thread on CPU 3 was throttled by its cgroup for 2.00 % of the trial, above 1 %",
        ),
    ] {
        check(&on_cpu(CpuUse { cpu: 3, ..use_ }), missed, Verdict::Invalid, &[reason, slow]);
    }
    let easy =
        CpuUse { cpu: 3, busy_ns: 9_000 * MS, run_queue_wait_ns: 400 * MS, throttled_ns: 50 * MS, ..CpuUse::default() };
    check(&on_cpu(easy), &[], Verdict::Pass, &[]);
    let busy = on_cpu(CpuUse { cpu: 3, busy_ns: 9_600 * MS, ..CpuUse::default() });
    check(&busy, &[], Verdict::Pass, &[]);
    let closed = TrialFigures { loop_kind: LoopKind::Closed, offered_rate: None, ..busy };
    check(&closed, &[], Verdict::Invalid, &["the load thread on CPU 3 was busy for 96.0 % of the trial, above 95 %"]);
    let stopped = on_cpu(CpuUse { cpu: 3, overslept_ns: 600 * MS, ..CpuUse::default() });
    check(&stopped, &[], Verdict::Pass, &[]);
    let closed = TrialFigures { loop_kind: LoopKind::Closed, offered_rate: None, ..stopped };
    check(&closed, &[], Verdict::Invalid, &["the load thread on CPU 3 was stalled for 6.00 % of the trial, above 5 %"]);

    // The thread slept on behind the end of the trial.
    let slept_on = on_cpu(CpuUse { cpu: 3, overslept_ns: 18_800 * MS, ..CpuUse::default() });
    let slept_on = TrialFigures { loop_kind: LoopKind::Closed, offered_rate: None, ..slept_on };
    check(
        &slept_on,
        &[],
        Verdict::Invalid,
        &["the load thread on CPU 3 was stalled for 100 % of the trial, above 5 %"],
    );

    let exhausted = trial(&[(Outcome::Good, 9998), (Outcome::NoDescriptor, 1), (Outcome::NoAddress, 1)]);
    let errors = "errors 0.0200 % (2 of 10,000) miss the limit errors<=0%";
    let reasons =
        ["file descriptors ran out for 1 requests", "local addresses and ports ran out for 1 requests", errors];
    check(&exhausted, &[], Verdict::Invalid, &reasons);
    let lacking = spoilt(|figures| figures.connections.lacking = 300);
    let reason = "300 connections could not be opened: this host ran out of file descriptors or local ports";
    check(&lacking, &[], Verdict::Invalid, &[reason]);
    check(&empty(LoopKind::Open), &[], Verdict::Invalid, &["no request was offered"]);
    let lost = spoilt(|figures| figures.counts.offered += 1);
    let reason = "the client miscounted: 10001 requests were offered but 10000 have an outcome";
    check(&lost, &[], Verdict::Invalid, &[reason]);
}

/// The target's failures were once left out, so that a late client seemed to be the only fault.
#[test]
fn an_invalid_trial_keeps_the_other_reasons_beside_it() {
    let mut figures = trial(&[(Outcome::Good, 9000), (Outcome::Reset, 1000)]);
    figures.lag.record_n(3 * MS, 200);
    let reasons = [
        "the client sent late: its p99 lag 3.00 ms is above 900 us",
        "p99 10.0 ms is above the limit of 9 ms",
        "errors 10.0 % (1,000 of 10,000) miss the limit errors<=0%",
        "completed 9,000 of 10,000 offered requests; more than 1 % are missing",
    ];
    check(&figures, &["p99<9ms"], Verdict::Invalid, &reasons);
}

/// A server that was killed in the middle of a run once made it INVALID: workers that meet nothing
/// but refusals are busy, and the lag rests on the few requests that were sent before.
#[test]
fn a_killed_server_is_a_failure_whatever_that_made_of_the_client() {
    let killed = || trial(&[(Outcome::Good, 5000), (Outcome::Reset, 10), (Outcome::Refused, 4990)]);
    let reasons = [
        "the target refused connections for 4,990 of 10,000 requests",
        "errors 50.0 % (5,000 of 10,000) miss the limit errors<=0%",
    ];
    let incomplete = "completed 5,000 of 10,000 offered requests; more than 1 % are missing";
    let with = |further: &[&'static str]| [&reasons[..], further].concat();
    check(&killed(), &[], Verdict::Fail, &with(&[incomplete]));
    let mut late = killed();
    late.lag.record_n(3 * MS, 200);
    let lag = "the client sent late: its p99 lag 3.00 ms is above 1 ms";
    check(&late, &[], Verdict::Fail, &with(&[incomplete, lag]));
    let busy = CpuUse { cpu: 3, busy_ns: 9_900 * MS, ..CpuUse::default() };
    let workers = TrialFigures { loop_kind: LoopKind::Closed, offered_rate: None, cpus: vec![busy], ..killed() };
    check(
        &workers,
        &[],
        Verdict::Fail,
        &with(&["the load thread on CPU 3 was busy for 99.0 % of the trial, above 95 %"]),
    );
}

#[test]
fn refusals_do_not_excuse_a_late_client_as_long_as_they_are_few_or_allowed() {
    let late = |outcomes: &[(Outcome, u64)], limit: &str| {
        let mut figures = trial(outcomes);
        figures.lag.record_n(3 * MS, 2000);
        verdict(&figures, &[limit.parse().unwrap()]).verdict
    };
    let refused = |n| [(Outcome::Good, 10_000 - n), (Outcome::Refused, n)];
    assert_eq!(late(&refused(50), "errors<=0%"), Verdict::Invalid, "few");
    assert_eq!(late(&refused(300), "errors<5%"), Verdict::Invalid, "allowed");
    assert_eq!(late(&refused(0), "errors<=0%"), Verdict::Invalid, "none");
    assert_eq!(late(&refused(600), "errors<5%"), Verdict::Fail);
    // A lack of resources on this host is another matter: then the load was not the intended one at
    // all.
    let lacking = [(Outcome::Good, 5000), (Outcome::Refused, 4999), (Outcome::NoAddress, 1)];
    assert_eq!(late(&lacking, "errors<=0%"), Verdict::Invalid);
}

#[test]
fn a_limit_that_is_missed_by_a_hair_is_not_said_to_be_what_was_measured() {
    let figures = good_trial();
    let limit: Limit = "max<9.999ms".parse().unwrap();
    assert_eq!(verdict(&figures, &[limit]).reasons[0].to_string(), "max 10.0 ms is above the limit of 9.999 ms");
    let reason = Reason::ResponseTime {
        statistic: crate::limit::Statistic::Percentile(99.0),
        observed_ns: 50_040_000.0,
        bound: Duration::from_millis(50),
    };
    assert_eq!(reason.to_string(), "p99 50.04 ms is above the limit of 50 ms");
    let limit: Limit = "errors<0.1%".parse().unwrap();
    let reason = Reason::Errors { limit, errors: 100_049, offered: 100_000_000 };
    assert_eq!(reason.to_string(), "errors 0.10005 % (100,049 of 100,000,000) miss the limit errors<0.1%");
}

#[test]
fn a_tail_of_late_requests_is_not_the_target_s() {
    let with_tail = |lag_ns| {
        let mut figures = good_trial();
        figures.intervals.record_offered();
        figures.intervals.record_end(Outcome::Good, Some(600 * MS));
        figures.lag.record_n(lag_ns, 10);
        figures
    };
    let reason = "the client was late: max 600 ms misses 100 ms, but max of the client's lag is 590 ms";
    check(&with_tail(590 * MS), &["max<100ms"], Verdict::Invalid, &[reason]);
    check(&with_tail(20 * MS), &["max<100ms"], Verdict::Fail, &["max 600 ms is above the limit of 100 ms"]);
    check(&with_tail(9 * MS), &["max<599ms"], Verdict::Fail, &["max 600 ms is above the limit of 599 ms"]);
    check(&with_tail(590 * MS), &["max<700ms"], Verdict::Pass, &[]);
}

/// Ten seconds of good requests, given by number, response time and the lag that is in it.
fn with_lags(requests: &[(u64, u64, u64)]) -> TrialFigures {
    let mut figures = empty(LoopKind::Open);
    for &(n, response_ns, lag_ns) in requests {
        for _ in 0..n {
            figures.intervals.record_offered();
            figures.intervals.record_end(Outcome::Good, Some(response_ns));
            figures.record_response(response_ns, lag_ns);
        }
        figures.outcomes.record_n(Outcome::Good, n);
        figures.lag.record_n(lag_ns, n);
    }
    figures.counts = Counts::of(&figures.outcomes, figures.outcomes.completed());
    figures
}

/// Runs of a low rate beside a compiler were once INVALID one time and PASS the next: p99 of the
/// lag was a little below or above 1 ms, with response times far below their limit.
#[test]
fn lateness_turns_no_pass_into_invalid() {
    let late = with_lags(&[(9800, 10 * MS, 50_000), (200, 13 * MS, 3 * MS)]);
    check(&late, &[], Verdict::Pass, &[]);
    check(&late, &["p99<50ms"], Verdict::Pass, &[]);
    check(&late, &["p99<=13.1ms", "mean<11ms"], Verdict::Pass, &[]);
    let lag = "the client sent late: its p99 lag 3.00 ms is above 1 ms";
    check(&late, &["p99<12ms"], Verdict::Invalid, &[lag, "p99 13.0 ms is above the limit of 12 ms"]);
    // Late workers offer less load.
    let closed = TrialFigures { loop_kind: LoopKind::Closed, offered_rate: None, ..late.clone() };
    check(&closed, &["p99<50ms"], Verdict::Invalid, &[lag]);
    let waiting = CpuUse { cpu: 3, run_queue_wait_ns: 600 * MS, ..CpuUse::default() };
    let waited = TrialFigures { cpus: vec![waiting], ..good_trial() };
    check(&waited, &["p99<50ms"], Verdict::Pass, &[]);
    let closed = TrialFigures { loop_kind: LoopKind::Closed, offered_rate: None, ..waited };
    let reason = "the load thread on CPU 3 waited for its CPU for 6.00 % of the trial, above 5 %";
    check(&closed, &["p99<50ms"], Verdict::Invalid, &[reason]);
}

#[test]
fn a_late_client_fails_only_what_a_punctual_one_would() {
    let lag = "the client sent late: its p99 lag 3.00 ms is above 1 ms";
    let slow = with_lags(&[(9800, 200 * MS, 50_000), (200, 203 * MS, 3 * MS)]);
    let missed = "p99 203 ms is above the limit of 50 ms";
    check(&slow, &["p99<50ms"], Verdict::Fail, &[missed, lag]);
    // A burst of late requests may have been behind by the longest lag, and noticed as late again.
    let close = with_lags(&[(9800, 52 * MS, 50_000), (200, 55 * MS, 3 * MS)]);
    check(&close, &["p99<50ms"], Verdict::Invalid, &[lag, "p99 55.0 ms is above the limit of 50 ms"]);
    let stalled = with_lags(&[(9880, 200 * MS, 50_000), (120, 400 * MS, 200 * MS)]);
    assert_eq!(verdict(&stalled, &["p99<50ms".parse().unwrap()]).verdict, Verdict::Invalid);
    // A thread without time to spare may take responses in late.
    let busy = CpuUse { cpu: 3, busy_ns: 9_000 * MS, ..CpuUse::default() };
    let busy = TrialFigures { cpus: vec![busy], ..slow };
    check(&busy, &["p99<50ms"], Verdict::Invalid, &[lag, missed]);

    let with_status = |status| {
        let mut figures = trial(&[(Outcome::Good, 9800), (Outcome::BadStatus, 200)]);
        figures.status_codes.record_n(status, 200);
        figures.lag.record_n(3 * MS, 200);
        figures
    };
    let errors = "errors 2.00 % (200 of 10,000) miss the limit errors<=0%";
    check(&with_status(404), &[], Verdict::Fail, &[errors, lag]);
    check(&with_status(503), &[], Verdict::Invalid, &[lag, errors]);
    check(&with_status(429), &[], Verdict::Invalid, &[lag, errors]);
}

#[test]
fn bursts_are_not_the_load_that_was_asked_for() {
    let bunched = |late, after, arrivals| {
        format!(
            "the load was not the one asked for: the client sent {late} requests more than {after} late, above 5 % of \
             {arrivals} arrivals"
        )
    };
    let thousand = |late, lag_ns| with_lags(&[(10_000 - late, 10 * MS, 50_000), (late, 20 * MS, lag_ns)]);
    let lag = |ms| format!("the client sent late: its p99 lag {ms}.00 ms is above 1 ms");
    check(&thousand(600, 8 * MS), &[], Verdict::Invalid, &[&bunched("600", "1.00 ms", "10,000"), &lag(8)]);
    check(&thousand(400, 8 * MS), &[], Verdict::Pass, &[]);
    check(&thousand(600, 900_000), &["p99<50ms"], Verdict::Pass, &[]);
    // At 200/s the next request is due after 5 ms.
    let low = |lag_ns| with_lags(&[(1800, 2 * MS, 50_000), (200, 2 * MS + lag_ns, lag_ns)]);
    check(&low(4 * MS), &[], Verdict::Pass, &[]);
    check(&low(6 * MS), &[], Verdict::Invalid, &[&bunched("200", "5.00 ms", "2,000"), &lag(6)]);
    // A user that arrives late makes all its calls late.
    let users = TrialFigures { calls_per_arrival: 5.0, ..thousand(200, 8 * MS) };
    check(&users, &[], Verdict::Invalid, &[&bunched("200", "5.00 ms", "2,000"), &lag(8)]);
    // Workers have no schedule, but they are late as well.
    let closed = TrialFigures { loop_kind: LoopKind::Closed, offered_rate: None, ..thousand(600, 8 * MS) };
    check(&closed, &[], Verdict::Invalid, &[&lag(8)]);
}

#[test]
fn the_part_of_the_lag_in_each_figure_is_said() {
    let note = |figures: &TrialFigures, limits: &[&str]| {
        let limits: Vec<Limit> = limits.iter().map(|limit| limit.parse().unwrap()).collect();
        let judgement = verdict(figures, &limits);
        let notes = judgement.notes.iter().find(|note| matches!(note, Note::Late { .. })).map(Note::to_string);
        assert_eq!(notes.is_some(), judgement.is_of_late_client());
        notes
    };
    let late = with_lags(&[(9800, 10 * MS, 0), (200, 13 * MS, 3 * MS)]);
    let said =
        "the client was late: p99 of its lag is 3.00 ms; lag adds 0 ns to p50 (10.0 ms) and 3.00 ms to p99 (13.0 ms)";
    assert_eq!(note(&late, &["p50<1s"]).as_deref(), Some(said));
    let with_max = "the client was late: p99 of its lag is 3.00 ms; lag adds 0 ns to p50 (10.0 ms), 3.00 ms to p99 (13.0 ms) \
        and 3.00 ms to max (13.0 ms)";
    assert_eq!(note(&late, &["max<1s"]).as_deref(), Some(with_max));
    assert_eq!(note(&good_trial(), &["max<1s"]), None);
    // The slow responses are not those of the late requests.
    let apart = with_lags(&[(9600, 10 * MS, 0), (200, 90 * MS, 0), (200, 13 * MS, 3 * MS)]);
    let said =
        "the client was late: p99 of its lag is 3.00 ms; lag adds 0 ns to p50 (10.0 ms) and 0 ns to p99 (90.0 ms)";
    assert_eq!(note(&apart, &[]).as_deref(), Some(said));
}

#[test]
fn few_samples_are_labelled_and_change_nothing() {
    let limits = ["p99<50ms".parse().unwrap(), "p50<50ms".parse().unwrap()];
    let judgement = verdict(&good_trial(), &limits);
    assert_eq!(judgement.verdict, Verdict::Pass);
    let document = serde_json::to_value(&judgement).unwrap();
    let note = "p99 from 10,000 samples; 100,000 recommended";
    assert_eq!(document, serde_json::json!({"verdict": "pass", "reasons": [], "notes": [note]}));
}

/// A trial whose requests in flight are `levels` at the ends of its intervals, with 500 requests
/// offered in each.
fn with_levels(levels: &[u64]) -> TrialFigures {
    let width = 10 * SECOND / levels.len() as u64;
    let mut figures = empty(LoopKind::Open);
    figures.intervals = IntervalSeries::new(width, 600);
    for (level, number) in levels.iter().zip(1..) {
        (0..500).for_each(|_| figures.intervals.record_offered());
        while figures.intervals.in_flight() > *level {
            figures.intervals.record_end(Outcome::Good, Some(MS));
        }
        while figures.intervals.in_flight() < *level {
            figures.intervals.record_offered();
        }
        figures.intervals.advance_to(number * width);
    }
    let offered = figures.intervals.intervals().map(|interval| interval.offered).sum();
    figures.outcomes.record_n(Outcome::Good, offered);
    figures.counts = Counts::of(&figures.outcomes, offered);
    figures
}

#[test]
fn a_backlog_that_grows_is_no_pass() {
    let steady = [4, 7, 3, 9, 5, 5, 8, 2, 6, 4, 7, 3, 9, 5, 5, 8, 2, 6, 4, 7];
    let with = |change: &dyn Fn(usize, u64) -> u64| {
        let levels: Vec<u64> = steady.iter().enumerate().map(|(at, level)| change(at, *level)).collect();
        with_levels(&levels)
    };
    check(&with(&|_, level| level), &[], Verdict::Pass, &[]);
    let rising = with(&|at, level| level + 20 * at as u64);
    check(&rising, &[], Verdict::Fail, &["requests in flight rose by 380 over 10.0 s"]);
    let late_collapse = with(&|at, level| level + 100 * at.saturating_sub(10) as u64);
    assert_eq!(verdict(&late_collapse, &[]).verdict, Verdict::Fail);
    // A stall of one second that drains, in the middle or just before the end.
    for stall in [8, 17] {
        let burst = with(&|at, level| level + [500, 1000, 500].get(at.wrapping_sub(stall)).copied().unwrap_or(0));
        check(&burst, &[], Verdict::Pass, &[]);
    }
    // A rise within the tolerance of completions, and one that ends.
    check(&with(&|at, level| level + at as u64), &[], Verdict::Pass, &[]);
    check(&with(&|at, level| level + 100 * (at.min(2) as u64)), &[], Verdict::Pass, &[]);
    // In a closed loop the workers bound what is in flight.
    let closed = TrialFigures { loop_kind: LoopKind::Closed, ..rising };
    check(&closed, &[], Verdict::Pass, &[]);
}

/// Eight levels whose fitted rise is large but whose order is not rare enough: up, down and up
/// again.
#[test]
fn a_large_swing_over_few_intervals_is_no_trend() {
    check(&with_levels(&[0, 300, 600, 0, 300, 600, 300, 600]), &[], Verdict::Pass, &[]);
    let trend = with_levels(&[0, 100, 200, 300, 400, 500, 600, 700]);
    assert_eq!(verdict(&trend, &[]).verdict, Verdict::Fail);
}

/// 400 more requests in flight are a backlog of 10 000 offered, but within the tolerance of
/// completions of 50 000.
#[test]
fn a_rise_is_held_against_what_was_offered() {
    let levels: Vec<u64> = (0..20).map(|at| 400 * at / 19).collect();
    let mut figures = with_levels(&levels);
    figures.counts.offered = 50_000;
    assert_eq!(backlog::judge(&figures), backlog::Backlog::Steady);
    figures.counts.offered = 10_000;
    assert!(matches!(backlog::judge(&figures), backlog::Backlog::Growing { .. }));
}

#[test]
fn a_trial_with_few_intervals_says_so() {
    let judgement = verdict(&with_levels(&[5, 50, 500, 5000]), &[]);
    assert_eq!(judgement.verdict, Verdict::Pass);
    assert_eq!(judgement.notes, [Note::BacklogUnjudged { intervals: 4 }]);
}

/// Queues in simulated time, ten seconds each: busy ones below their capacity must not look like a
/// backlog, overloaded ones must. At a low rate the memory of a busy queue is longer than the
/// trial, so its random walk sometimes looks like a trend, and the test can only require few such
/// alarms.
#[test]
fn the_trend_tells_a_busy_queue_from_an_overloaded_one() {
    let growing = |services: f64, arrivals: f64, seed: u64| {
        let mut random = Random(seed);
        let (mut now, mut level, mut levels) = (0.0, 0_u64, Vec::new());
        while levels.len() < 40 {
            let total = arrivals + if level > 0 { services } else { 0.0 };
            now += random.exponential(total);
            while levels.len() < 40 && now > 0.25 * (levels.len() + 1) as f64 {
                levels.push(level);
            }
            if random.uniform() * total < arrivals { level += 1 } else { level -= 1 }
        }
        let mut figures = with_levels(&levels);
        figures.counts.offered = (arrivals * 10.0) as u64;
        matches!(backlog::judge(&figures), backlog::Backlog::Growing { .. })
    };
    for (services, use_, fewest, most) in [
        (1000.0, 0.9, 0, 0),
        (1000.0, 0.95, 0, 0),
        (100.0, 0.95, 0, 10),
        (1000.0, 1.1, 100, 100),
        (100.0, 1.2, 95, 100),
    ] {
        let alarms = (0..100).filter(|seed| growing(services, services * use_, *seed)).count();
        assert!((fewest..=most).contains(&alarms), "{alarms} alarms of 100 at {services}/s and use {use_}");
    }
}

#[test]
fn threads_merge_into_one_trial() {
    let mut merged = good_trial();
    merged.cpus.push(CpuUse { cpu: 0, ..CpuUse::default() });
    let mut other = trial(&[(Outcome::Good, 4000), (Outcome::Reset, 10)]);
    other.cpus.push(CpuUse { cpu: 1, ..CpuUse::default() });
    other.connections = Connections { opened: 20, peak: 10, conforming: 10, ..Connections::default() };
    other.in_window.connections = 20;
    other.transfer.record(MS);
    other.record_close(3 * MS, 5, false);
    other.record_close(4 * MS, 0, true);
    other.last_end = Duration::from_secs(11);
    other.causes = Causes { socket_timeout: 1, file_table_full: 2, unknown: 3, unknown_errno: Some(5) };
    other.sample = Some(Sample::of(Some(b"nginx"), 512));
    let mut sessions = Sessions::default();
    sessions.record_completed(MS, 5, 1);
    other.sessions = Some(sessions.clone());
    merged.merge(&other);
    assert_eq!(merged.counts.check(&merged.outcomes), Ok(()));
    assert_eq!((merged.counts.offered, merged.cpus.len()), (14_010, 2));
    assert_eq!(merged.response_time().count(), 14_000);
    assert_eq!(merged.rates(), Rates { sent: 1400.0, completed: 1400.0, good: 1400.0, connections: 2.0 });
    assert_eq!((merged.transfer.count(), merged.connection_lifetime.max()), (1, 3 * MS));
    assert_eq!((merged.connections.closed, merged.connections.failed), (2, 1));
    assert_eq!((merged.span(), merged.causes.file_table_full), (Duration::from_secs(11), 2));
    assert_eq!((merged.causes.unknown, merged.causes.unknown_errno), (3, Some(5)));
    // A value that only one thread has is kept, whichever thread it is.
    assert_eq!(merged.sessions.as_ref(), Some(&sessions));
    other.merge(&good_trial());
    assert_eq!((other.sample.as_ref(), other.sessions), (merged.sample.as_ref(), merged.sessions));
    assert_eq!(good_trial().span(), Duration::from_secs(10));
}

#[test]
fn the_result_document_names_its_fields_so() {
    let bytes = Bytes {
        received: 21,
        sent: 9,
        head_received: 8,
        body_received: 7,
        framing_received: 6,
        head_sent: 5,
        body_sent: 4,
    };
    let json = serde_json::to_string(&bytes).unwrap();
    assert_eq!(json, r#"{"in":21,"out":9,"head_in":8,"body_in":7,"framing_in":6,"head_out":5,"body_out":4}"#);
    assert_eq!(serde_json::to_string(&LoopKind::Open).unwrap(), r#""open""#);
    assert_eq!(serde_json::to_string(&Verdict::Invalid).unwrap(), r#""invalid""#);
}
