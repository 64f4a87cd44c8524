//! A document for the tests of the formats, with figures that can be recognised in the output.

use std::collections::BTreeMap;

use thalweg_measure::trial::Sessions;
use thalweg_measure::{
    Causes, Counts, Histogram, IntervalSummary, LoopKind, Outcome, Outcomes, StatusClasses, StatusCodes, Summary,
    Verdict,
};
use thalweg_report::document::{
    Bytes, Client, Connections, Disclosure, Document, HostDocument, Kind, PlanDocument, Rates, SCHEMA, Sample,
    SessionsSummary, Trial,
};

const US: u64 = 1000;
const MS: u64 = 1000 * US;

/// Ten seconds of 50 connections per second with four calls each, ten of which failed.
pub(crate) fn trial() -> Trial {
    let ends = [
        (Outcome::Good, 1980),
        (Outcome::FailedCheck, 5),
        (Outcome::BadStatus, 5),
        (Outcome::Timeout, 4),
        (Outcome::Refused, 2),
        (Outcome::Unreachable, 2),
        (Outcome::NoAddress, 1),
        (Outcome::ProtocolError, 1),
    ];
    let mut outcomes = Outcomes::default();
    ends.iter().for_each(|(outcome, count)| outcomes.record_n(*outcome, *count));
    let counts = Counts::of(&outcomes, 2000);
    Trial {
        phase: "run".into(),
        at_s: 0.5,
        loop_kind: LoopKind::Open,
        offered_rate: Some(200.0),
        seconds: 10.0,
        span_s: 10.25,
        certain_after_s: None,
        lost_s: 0.0,
        spoiled: Vec::new(),
        verdict: Verdict::Fail,
        reasons: vec!["errors 0.750 % (15 of 2,000) miss the limit errors<=0%".into()],
        counts,
        outcomes,
        causes: Causes { socket_timeout: 1, ..Causes::default() },
        status: StatusClasses { success: 1985, client_error: 5, ..StatusClasses::default() },
        status_codes: status_codes(&[(200, 1980), (206, 5), (404, 5)]),
        rates: Rates { sent: 200.0, completed: 199.0, good: 198.0, connections: 50.0 },
        bytes: Bytes {
            received: 1990 * 753,
            sent: 2000 * 67,
            head_received: 1990 * 239,
            body_received: 1990 * 512,
            framing_received: 1990 * 2,
            head_sent: 2000 * 67,
            body_sent: 0,
        },
        response_time_us: times(&[(300 * US, 1000), (400 * US, 900), (12 * MS, 80), (5000 * MS, 4)]),
        service_time_us: times(&[(250 * US, 1000), (350 * US, 990)]),
        lag_us: times(&[(20 * US, 2000)]),
        without_lag_us: times(&[(280 * US, 1000), (380 * US, 900), (11_980 * US, 80), (4_999_980 * US, 4)]),
        queue_us: times(&[(US, 2000)]),
        connect_us: times(&[(50 * US, 250), (100 * US, 246)]),
        first_byte_us: times(&[(200 * US, 1000), (260 * US, 990)]),
        transfer_us: times(&[(60 * US, 1990)]),
        connection_lifetime_us: times(&[(200 * US, 1), (500 * US, 250), (700 * US, 245), (5900 * US, 1)]),
        kbit_per_connection: Summary::default(),
        connections: Connections {
            attempted: 500,
            lacking: 0,
            opened: 498,
            failed: 3,
            closed: 498,
            replies: 1988,
            kept: 1492,
            met_close: 0,
            sent_again: 0,
            peak: 7,
            burst: 2,
            conforming: 6,
            held: 5,
            progressing: 4,
        },
        sessions: None,
        tls: None,
        streams: None,
        by_address: Vec::new(),
        protocol_errors: Vec::new(),
        redirects: None,
        sample: Some(Sample { server: "nginx/1.22.1".into(), body_bytes: 512 }),
        client: Client {
            driver: "uring".into(),
            cores: 1,
            cpus: vec![1],
            cpu_user_s: 0.25,
            cpu_sys_s: 0.5,
            busiest_core: 0.075,
            wakes_early_us: 30.0,
            run_queue_wait_s: 0.001,
            throttled_s: 0.0,
            cpus_others: BTreeMap::new(),
        },
        interval_s: 1.0,
        intervals: intervals(&[200, 200, 200, 200, 200, 198, 198, 198, 198, 198, 1], 1.0),
        server: None,
    }
}

/// A trial without requests.
pub(crate) fn nothing() -> Trial {
    let empty = || times(&[]);
    Trial {
        offered_rate: None,
        loop_kind: LoopKind::Closed,
        seconds: 0.0,
        span_s: 0.0,
        verdict: Verdict::Invalid,
        counts: Counts::default(),
        outcomes: Outcomes::default(),
        causes: Causes::default(),
        status: StatusClasses::default(),
        status_codes: StatusCodes::default(),
        rates: Rates::default(),
        bytes: Bytes::default(),
        response_time_us: empty(),
        service_time_us: empty(),
        lag_us: empty(),
        without_lag_us: empty(),
        queue_us: empty(),
        connect_us: empty(),
        first_byte_us: empty(),
        transfer_us: empty(),
        connection_lifetime_us: empty(),
        connections: Connections::default(),
        sample: None,
        client: Client { cpu_user_s: 0.0, cpu_sys_s: 0.0, ..trial().client },
        intervals: Vec::new(),
        ..trial()
    }
}

/// Intervals in which so many responses were completed, each in 300 us, and two sessions, or one
/// less in the tenth.
pub(crate) fn intervals(completed: &[u64], width_s: f64) -> Vec<IntervalSummary> {
    let one = |(position, completed): (usize, &u64)| IntervalSummary {
        t: position as f64 * width_s,
        offered: *completed,
        good: *completed,
        errors: 0,
        in_flight: 0,
        p50_us: 300.0,
        p99_us: 300.0,
        completed: *completed,
        sessions: if position == 9 { 1 } else { 2 },
        hdr: times(&[(300 * US, *completed)]).hdr,
    };
    completed.iter().enumerate().map(one).collect()
}

/// Twenty sessions of three calls, of which one failed after its first.
pub(crate) fn sessions() -> SessionsSummary {
    let mut sessions = Sessions::default();
    (0..19).for_each(|number| sessions.record_completed(2000 * MS, 3, if number == 0 { 2 } else { 1 }));
    sessions.record_failed(500 * MS, 1, 1);
    sessions.summary()
}

/// A document of those trials.
pub(crate) fn document(trials: Vec<Trial>) -> Document {
    let settings = [("timeout", "5s"), ("http", "1.1"), ("method", "GET"), ("calls", "4"), ("conn-rate", "50/s")];
    Document {
        schema: SCHEMA.into(),
        kind: Kind::Run,
        id: "20260314T150926535Z-7c1e".into(),
        started: "2026-03-14T15:09:26.535Z".into(),
        plan: PlanDocument {
            command: vec!["thalweg".into(), "run".into()],
            target: "http://127.0.0.1:8080/a.txt?b=1".into(),
            address: "127.0.0.1:8080".into(),
            addresses: Vec::new(),
            load: "open loop".into(),
            limits: Vec::new(),
            settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        },
        plan_sha256: "00".repeat(32),
        seed: 1,
        version: "0.1.0".into(),
        host: HostDocument {
            name: "measurer".into(),
            kernel: "Linux 6.18".into(),
            machine: "x86_64".into(),
            cpu_model: "a CPU".into(),
            cpus: 2,
            load_cpus: vec![1],
            memory_bytes: 1 << 30,
            clock_source: "tsc".into(),
            descriptors: 1024,
            sysctls: [].into(),
            shared_with_target: true,
            disclosure: Disclosure::default(),
            findings: Vec::new(),
        },
        verdict: Verdict::Fail,
        reasons: Vec::new(),
        trials,
        find: None,
        compare: None,
        sweep: None,
        suite: None,
        observation: None,
        log: None,
    }
}

fn status_codes(counted: &[(u16, u64)]) -> StatusCodes {
    let mut codes = StatusCodes::default();
    counted.iter().for_each(|(code, n)| codes.record_n(*code, *n));
    codes
}

fn times(recorded: &[(u64, u64)]) -> Summary {
    let mut histogram = Histogram::new();
    recorded.iter().for_each(|(ns, n)| histogram.record_n(*ns, *n));
    histogram.summary()
}
