//! Documents as real measurements leave them, for tests of the report: times follow a server that
//! queues as its load nears what it can do. Nothing is random.

use std::collections::BTreeMap;

use thalweg_measure::histogram::Histogram;
use thalweg_measure::outcome::Outcome;
use thalweg_measure::search::EndReason;
use thalweg_measure::{
    Causes, Counts, IntervalSummary, LoopKind, Outcomes, StatusClasses, StatusCodes, Summary, Verdict,
};

use crate::document::{
    Bytes, Client, Connections, Disclosure, Document, Find, HostDocument, Kind, LimitedBy, PlanDocument, Rates, SCHEMA,
    ServerObservation, Trial,
};

/// Requests per second at which the pictured server is busy all the time.
const CAPACITY: f64 = 43_000.0;
/// The capacity of the pictured client.
const CEILING: f64 = 96_400.0;

/// A search that found a capacity, with trials of every phase and verdict.
pub fn search() -> Document {
    let mut trials = vec![calibration(), probe()];
    let mut at_s = 9.0;
    let mut push = |phase: &str, rate: f64, seconds: f64| {
        trials.push(trial(phase, at_s, rate, seconds));
        at_s += seconds + 1.5;
    };
    for doubling in 0..7 {
        push("bracket", 1000.0 * f64::from(1 << doubling), 2.0);
    }
    for rate in [45_254.0, 38_054.0, 41_500.0] {
        push("narrow", rate, 5.0);
    }
    push("narrow", 40_600.0, 5.0);
    push("confirm", 42_070.0, 30.0);
    push("confirm", 41_237.0, 30.0);
    push("confirm", 41_237.0, 30.0);
    let starved = trials.iter_mut().find(|trial| trial.phase == "narrow" && trial.offered_rate == Some(40_600.0));
    make_invalid(starved.expect("the search narrowed there"));
    let mut document = document(Kind::Find, trials);
    document.find = Some(Find {
        lower_bound: Some(41_237.0),
        upper_bound: Some(42_070.0),
        lower_confirmed: true,
        upper_confirmed: true,
        threshold: Some(41_600.0),
        interval95: None,
        spread: None,
        drift: None,
        restarts: Vec::new(),
        lost_s: 0.0,
        ended: Some(EndReason::WidthReached),
        overload: None,
        limit: LimitedBy::Server,
        cause: Some("server CPU".into()),
        findings: Vec::new(),
        evidence: vec![
            "CPU 1 was busy 99 % of the time at 42,070/s, and nginx used 0.97 CPUs of it.".into(),
            "The client's ceiling of 96,400/s is 2.3 times the rate that passed.".into(),
            "p99 lag of the client stayed at 56 us.".into(),
            "No segment was sent again, and no connection was dropped from the listen queue.".into(),
        ],
        client_ceiling: Some(CEILING),
        notes: vec!["The bracket is 2.0 % wide, as asked for.".into()],
    });
    document
}

/// A run in which everything went well.
pub fn run() -> Document {
    let mut trial = trial("run", 0.2, 5000.0, 10.0);
    trial.reasons.clear();
    document(Kind::Run, vec![trial])
}

/// A document around `trials`, without the answer of a search.
pub fn document(kind: Kind, trials: Vec<Trial>) -> Document {
    let words = |text: &str| text.split(' ').map(String::from).collect();
    let pairs = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    };
    Document {
        schema: SCHEMA.into(),
        kind,
        id: "2026-03-14T15-09-26-7c1e".into(),
        started: "2026-03-14T15:09:26.535Z".into(),
        plan: PlanDocument {
            command: words("thalweg find http://127.0.0.1:8080/ --limit p99<50ms --connections 256 --out nginx.html"),
            target: "http://127.0.0.1:8080/".into(),
            address: "127.0.0.1:8080".into(),
            addresses: Vec::new(),
            load: "open loop, constant arrivals, 256 connections, keep-alive".into(),
            limits: vec!["p99<50ms".into()],
            settings: pairs(&[("arrivals", "constant"), ("connections", "256"), ("timeout", "5s"), ("warmup", "1s")]),
        },
        plan_sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".into(),
        seed: 11_400_714_819_323_198_485,
        version: "0.1.0".into(),
        host: HostDocument {
            name: "test_bed-3".into(),
            kernel: "Linux 6.12.48".into(),
            machine: "x86_64".into(),
            cpu_model: "AMD EPYC 7443P 24-Core Processor".into(),
            cpus: 4,
            load_cpus: vec![2, 3],
            memory_bytes: 24_000_000_000,
            clock_source: "tsc".into(),
            descriptors: 1_048_576,
            sysctls: pairs(&[
                ("net.core.somaxconn", "4096"),
                ("net.ipv4.ip_local_port_range", "32768 60999"),
                ("net.ipv4.tcp_tw_reuse", "2"),
            ]),
            shared_with_target: true,
            disclosure: Disclosure::default(),
            findings: Vec::new(),
        },
        verdict: Verdict::Pass,
        reasons: vec![],
        trials,
        find: None,
        compare: None,
        sweep: None,
        suite: None,
        observation: None,
        log: None,
    }
}

/// An open-loop trial at `rate` against the pictured server.
pub fn trial(phase: &str, at_s: f64, rate: f64, seconds: f64) -> Trial {
    let offered = (rate * seconds).round() as u64;
    let served = rate.min(CAPACITY * 0.985);
    let late = if rate > CAPACITY { ((rate - CAPACITY) / rate * 0.3 * offered as f64) as u64 } else { 0 };
    let unfinished = offered.saturating_sub((served * seconds) as u64).saturating_sub(late);
    let mut outcomes = Outcomes::default();
    outcomes.record_n(Outcome::Timeout, late);
    outcomes.record_n(Outcome::NotSent, unfinished);
    outcomes.record_n(Outcome::Good, offered - late - unfinished);
    let counts = Counts::of(&outcomes, offered - unfinished);
    let scale = queueing(rate, seconds);
    let response = times(180.0, 120.0 * scale, counts.sent);
    let service = times(140.0, 60.0 * scale.min(6.0), counts.sent);
    let p99_us = response.quantile(0.99) as f64 / 1000.0;
    let verdict = if p99_us < 50_000.0 && late + unfinished == 0 { Verdict::Pass } else { Verdict::Fail };
    let mut reasons = Vec::new();
    if p99_us >= 50_000.0 {
        reasons.push(format!("p99 of the response time is {:.0} ms, above the limit of 50 ms.", p99_us / 1000.0));
    }
    if late > 0 {
        reasons.push(format!("{late} requests timed out; no errors are allowed."));
    }
    Trial {
        phase: phase.into(),
        at_s,
        loop_kind: LoopKind::Open,
        offered_rate: Some(rate),
        seconds,
        span_s: seconds,
        certain_after_s: None,
        lost_s: 0.0,
        spoiled: Vec::new(),
        verdict,
        reasons,
        counts,
        outcomes,
        causes: Causes::default(),
        status: StatusClasses { success: counts.completed, ..StatusClasses::default() },
        status_codes: status_codes(200, counts.completed),
        rates: Rates {
            sent: counts.sent as f64 / seconds,
            completed: counts.completed as f64 / seconds,
            good: counts.good as f64 / seconds,
            connections: 256.0 / seconds,
        },
        bytes: Bytes {
            received: counts.good * 850,
            sent: counts.sent * 78,
            head_received: counts.good * 238,
            body_received: counts.good * 612,
            head_sent: counts.sent * 78,
            ..Bytes::default()
        },
        response_time_us: response.summary(),
        service_time_us: service.summary(),
        lag_us: times(2.0, 8.0, counts.sent).summary(),
        without_lag_us: times(178.0, 120.0 * scale, counts.sent).summary(),
        queue_us: times(0.0, 4.0 * scale, counts.sent).summary(),
        connect_us: times(40.0, 20.0, 256).summary(),
        first_byte_us: service.summary(),
        transfer_us: times(1.0, 2.0, counts.completed).summary(),
        connection_lifetime_us: Summary::default(),
        connections: Connections { opened: 256, peak: 256, conforming: 256, ..Connections::default() },
        kbit_per_connection: Summary::default(),
        sessions: None,
        tls: None,
        streams: None,
        by_address: Vec::new(),
        protocol_errors: Vec::new(),
        redirects: None,
        sample: None,
        client: Client {
            driver: "uring".into(),
            cores: 2,
            cpus: vec![2, 3],
            cpu_user_s: rate.min(CEILING) / CEILING * seconds * 0.6,
            cpu_sys_s: rate.min(CEILING) / CEILING * seconds * 1.1,
            busiest_core: (rate / CEILING * 0.93).min(1.0),
            wakes_early_us: 30.0,
            run_queue_wait_s: 0.004 * seconds,
            throttled_s: 0.0,
            cpus_others: BTreeMap::new(),
        },
        interval_s: interval_s(seconds),
        intervals: intervals(rate, seconds, &response),
        server: Some(ServerObservation {
            process: "nginx".into(),
            cpu_cores: (rate / CAPACITY * 0.98).min(0.98),
            cpus_busy: BTreeMap::from([(0, 0.07), (1, (rate / CAPACITY * 0.99).min(0.99))]),
            stolen: 0.001,
            retransmitted: 0.0,
            listen_overflows: 0,
            ..ServerObservation::default()
        }),
    }
}

fn status_codes(code: u16, count: u64) -> StatusCodes {
    let mut codes = StatusCodes::default();
    codes.record_n(code, count);
    codes
}

/// Makes every request of `trial` end with `outcome`, as against a target that is not there.
pub fn make_all_end(trial: &mut Trial, outcome: Outcome) {
    let nothing = Histogram::new().summary();
    trial.outcomes = Outcomes::default();
    trial.outcomes.record_n(outcome, trial.counts.offered);
    trial.counts = Counts::of(&trial.outcomes, 0);
    trial.rates = Rates { sent: 0.0, completed: 0.0, good: 0.0, connections: 0.0 };
    trial.response_time_us = nothing.clone();
    trial.service_time_us = nothing;
    trial.verdict = Verdict::Fail;
    for interval in &mut trial.intervals {
        (interval.errors, interval.good) = (interval.offered, 0);
        (interval.p50_us, interval.p99_us) = (0.0, 0.0);
    }
    trial.server = None;
}

/// Makes the client of `trial` late.
pub fn make_invalid(trial: &mut Trial) {
    trial.verdict = Verdict::Invalid;
    trial.lag_us = times(40.0, 700.0, trial.counts.sent).summary();
    trial.client.run_queue_wait_s = 1.31;
    trial.reasons = vec![
        format!("p99 lag of the client is {:.2} ms, above 1 ms.", trial.lag_us.p99 / 1000.0),
        "The load thread on CPU 3 waited 1.31 s to be run.".into(),
    ];
}

/// A closed-loop trial.
pub fn closed(phase: &str, rate: f64, seconds: f64) -> Trial {
    let mut trial = trial(phase, 3.5, rate, seconds);
    trial.loop_kind = LoopKind::Closed;
    trial.offered_rate = None;
    trial
}

fn calibration() -> Trial {
    let mut trial = closed("calibrate", 20_000.0, 2.0);
    trial.at_s = 0.3;
    for rate in [&mut trial.rates.sent, &mut trial.rates.completed, &mut trial.rates.good] {
        *rate = CEILING;
    }
    let n = (CEILING * trial.seconds) as u64;
    trial.outcomes = Outcomes::default();
    trial.outcomes.record_n(Outcome::Good, n);
    trial.counts = Counts::of(&trial.outcomes, n);
    trial.client.busiest_core = 1.0;
    trial.server = None;
    trial
}

fn probe() -> Trial {
    closed("probe", 40_900.0, 2.0)
}

/// How much longer than idle a request takes near capacity; above it, the queue grows with the
/// length of the trial.
fn queueing(rate: f64, seconds: f64) -> f64 {
    let load = rate / CAPACITY;
    if load < 0.975 {
        return 1.0 + 0.6 * load / (1.0 - load);
    }
    (1.0 + 0.6 * 39.0) * (1.0 + 30.0 * (load - 0.96) * seconds.min(20.0))
}

/// `n` times in microseconds: `least`, and above it an exponential tail of mean `tail` that gets
/// heavier at its end.
fn times(least: f64, tail: f64, n: u64) -> Histogram {
    /// Requests are taken from the fastest on, each time this share of those that are left: smooth
    /// up to the slowest.
    const SHARE: u64 = 500;
    let mut histogram = Histogram::new();
    let mut left = n;
    while left > 0 {
        let taken = (left / SHARE).max(1);
        let survivors = (left as f64 - taken as f64 / 2.0) / n as f64;
        let us = least + tail * (-survivors.ln()).powf(1.25);
        histogram.record_n((us * 1000.0) as u64, taken);
        left -= taken;
    }
    histogram
}

fn interval_s(seconds: f64) -> f64 {
    if seconds > 20.0 { 0.5 } else { 0.1 }
}

/// Intervals of a tenth of a second or more, with a ripple.
fn intervals(rate: f64, seconds: f64, response: &Histogram) -> Vec<IntervalSummary> {
    let width = interval_s(seconds);
    let us = |q| response.quantile(q) as f64 / 1000.0;
    let (p50, p99) = (us(0.5), us(0.99));
    let count = (seconds / width).round() as u32;
    (0..count)
        .map(|position| {
            let ripple = 1.0 + 0.18 * (f64::from(position) * 0.9).sin() + 0.12 * (f64::from(position) * 2.3).cos();
            let offered = (rate * width).round();
            let good = rate.min(CAPACITY * 0.985) * width * (1.0 + 0.004 * (ripple - 1.0));
            let behind = (rate - CAPACITY).max(0.0) * width * f64::from(position);
            IntervalSummary {
                t: f64::from(position) * width,
                offered: offered as u64,
                good: good.min(offered) as u64,
                errors: if rate > CAPACITY { ((rate - CAPACITY) * width * 0.3) as u64 } else { 0 },
                in_flight: (rate * p50 / 1e6 * ripple + behind) as u64 + 1,
                p50_us: p50 * (0.95 + 0.05 * ripple),
                p99_us: p99 * ripple,
                completed: good.min(offered) as u64,
                sessions: 0,
                hdr: String::new(),
            }
        })
        .collect()
}
