//! The result document as a script reads it: by the names and types of the contract.

use serde_json::Value;

use crate::process::ExitedProcess;

/// Type of a field.
#[derive(Clone, Copy)]
enum Is {
    Text,
    Number,
    Count,
    List,
    Map,
    NumberOrNull,
    ListOrNull,
}

const DOCUMENT: [(&str, Is); 11] = [
    ("/schema", Is::Text),
    ("/kind", Is::Text),
    ("/id", Is::Text),
    ("/started", Is::Text),
    ("/plan", Is::Map),
    ("/plan_sha256", Is::Text),
    ("/seed", Is::Count),
    ("/version", Is::Text),
    ("/host", Is::Map),
    ("/verdict", Is::Text),
    ("/reasons", Is::List),
];

const TRIAL: [(&str, Is); 40] = [
    ("/loop", Is::Text),
    ("/offered_rate", Is::NumberOrNull),
    ("/seconds", Is::Number),
    ("/span_s", Is::Number),
    ("/interval_s", Is::Number),
    ("/verdict", Is::Text),
    ("/reasons", Is::List),
    ("/rates/sent", Is::Number),
    ("/rates/completed", Is::Number),
    ("/rates/good", Is::Number),
    ("/rates/connections", Is::Number),
    ("/bytes/in", Is::Count),
    ("/bytes/out", Is::Count),
    ("/bytes/body_in", Is::Count),
    ("/bytes/head_in", Is::Count),
    ("/bytes/framing_in", Is::Count),
    ("/bytes/head_out", Is::Count),
    ("/bytes/body_out", Is::Count),
    ("/causes/socket_timeout", Is::Count),
    ("/causes/file_table_full", Is::Count),
    ("/causes/unknown", Is::Count),
    ("/connections/attempted", Is::Count),
    ("/connections/opened", Is::Count),
    ("/connections/failed", Is::Count),
    ("/connections/closed", Is::Count),
    ("/connections/replies", Is::Count),
    ("/connections/kept", Is::Count),
    ("/connections/peak", Is::Count),
    ("/connections/burst", Is::Count),
    ("/connections/conforming", Is::Count),
    ("/connections/held", Is::Count),
    ("/connections/progressing", Is::Count),
    ("/client/driver", Is::Text),
    ("/client/cores", Is::Count),
    ("/client/cpu_user_s", Is::Number),
    ("/client/cpu_sys_s", Is::Number),
    ("/intervals", Is::List),
    ("/counts", Is::Map),
    ("/outcomes", Is::Map),
    ("/status", Is::Map),
];

const COUNTS: [&str; 4] = ["offered", "sent", "completed", "good"];

const OUTCOMES: [&str; 14] = [
    "good",
    "bad_status",
    "failed_check",
    "truncated",
    "timeout",
    "refused",
    "reset",
    "unreachable",
    "no_descriptor",
    "no_address",
    "tls_failure",
    "protocol_error",
    "not_sent",
    "not_processed",
];

const STATUS: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

const TIMES: [&str; 9] = [
    "response_time_us",
    "service_time_us",
    "lag_us",
    "without_lag_us",
    "queue_us",
    "connect_us",
    "first_byte_us",
    "transfer_us",
    "connection_lifetime_us",
];

const TIME: [&str; 11] = ["min", "mean", "stddev", "p50", "p75", "p90", "p95", "p99", "p999", "p9999", "max"];

const INTERVAL: [&str; 9] =
    ["t", "offered", "good", "errors", "in_flight", "p50_us", "p99_us", "completed", "sessions"];

const FIND: [(&str, Is); 5] = [
    ("/lower_bound", Is::NumberOrNull),
    ("/upper_bound", Is::NumberOrNull),
    ("/interval95", Is::ListOrNull),
    ("/limit", Is::Text),
    ("/evidence", Is::List),
];

const COMPARE: [(&str, Is); 9] = [
    ("/metric", Is::Text),
    ("/a", Is::NumberOrNull),
    ("/b", Is::NumberOrNull),
    ("/effect", Is::NumberOrNull),
    ("/interval95", Is::ListOrNull),
    ("/smallest_detectable", Is::NumberOrNull),
    ("/sentence", Is::Text),
    ("/metrics", Is::List),
    ("/rounds", Is::List),
];

/// The document that a program has printed, which must be all that it printed. Its counts add up.
pub(crate) fn of(ended: &ExitedProcess) -> Value {
    let document: Value = serde_json::from_str(&ended.stdout)
        .unwrap_or_else(|error| panic!("stdout is not one JSON document: {error}\n{ended:?}"));
    for trial in document["trials"].as_array().expect("trials are a list") {
        adds_up(trial);
    }
    document
}

/// Holds all of a document against the contract: the names and types of its fields.
pub(crate) fn keeps_the_contract(document: &Value) {
    fields("", document, &DOCUMENT);
    assert_eq!(document["schema"], "thalweg.result/1");
    let trials = document["trials"].as_array().expect("trials are a list");
    assert!(!trials.is_empty());
    trials.iter().for_each(check_trial);
    if document["kind"] == "find" {
        fields("/find", &document["find"], &FIND);
    }
    if document["kind"] == "compare" {
        fields("/compare", &document["compare"], &COMPARE);
    }
}

/// The only trial of a run or a replay.
pub(crate) fn trial(ended: &ExitedProcess) -> Value {
    let document = of(ended);
    assert!(document["kind"] == "run" || document["kind"] == "replay", "{}", document["kind"]);
    let trials = document["trials"].as_array().expect("trials are a list");
    assert_eq!(trials.len(), 1, "a run is one trial");
    trials[0].clone()
}

/// The result of a search.
pub(crate) fn find(document: &Value) -> &Value {
    assert_eq!(document["kind"], "find");
    &document["find"]
}

/// A count among the outcomes.
pub(crate) fn outcome(trial: &Value, name: &str) -> u64 {
    trial["outcomes"][name].as_u64().unwrap_or_else(|| panic!("no outcome {name}"))
}

/// The number at a path such as `/counts/good`.
pub(crate) fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number at {path} in {value:#}"))
}

fn check_trial(trial: &Value) {
    fields("/trials", trial, &TRIAL);
    counts(trial, "/counts", &COUNTS);
    counts(trial, "/outcomes", &OUTCOMES);
    counts(trial, "/status", &STATUS);
    let codes = trial["status_codes"].as_object().expect("statuses by code are a map");
    assert!(codes.iter().all(|(code, count)| code.len() == 3 && count.is_u64()), "{codes:?}");
    for time in TIMES {
        let summary = &trial[time];
        for statistic in TIME {
            assert!(summary[statistic].is_number(), "no number {time}.{statistic} in {summary}");
        }
        assert!(summary["count"].is_u64() && summary["hdr"].is_string(), "{time}: {summary}");
    }
    for interval in trial["intervals"].as_array().expect("intervals are a list") {
        for field in INTERVAL {
            assert!(interval[field].is_number(), "no number {field} in {interval}");
        }
        assert!(interval["hdr"].is_string(), "no histogram in {interval}");
    }
}

/// Nothing is lost: each offered request has exactly one outcome.
fn adds_up(trial: &Value) {
    let total: u64 = OUTCOMES.iter().map(|name| outcome(trial, name)).sum();
    let [offered, sent, completed, good] = COUNTS.map(|name| trial["counts"][name].as_u64().expect("a count"));
    let (outcomes, counts) = (&trial["outcomes"], &trial["counts"]);
    assert_eq!(total, offered, "outcomes add up to offered: {outcomes} {counts}");
    assert_eq!(outcome(trial, "good"), good, "{outcomes} {counts}");
    assert!(good <= completed && completed <= sent && sent <= offered, "{counts}");
    assert!(sent + outcome(trial, "not_sent") <= offered, "{outcomes} {counts}");
}

fn counts(trial: &Value, at: &str, names: &[&str]) {
    for name in names {
        let path = format!("{at}/{name}");
        assert!(trial.pointer(&path).is_some_and(Value::is_u64), "no count {path} in a trial");
    }
}

fn fields(of: &str, value: &Value, expected: &[(&str, Is)]) {
    for (path, is) in expected {
        let field = value.pointer(path).unwrap_or_else(|| panic!("no field {of}{path}"));
        let right = match is {
            Is::Text => field.as_str().is_some_and(|text| !text.is_empty()),
            Is::Number => field.is_number(),
            Is::Count => field.is_u64(),
            Is::List => field.is_array(),
            Is::Map => field.is_object(),
            Is::NumberOrNull => field.is_number() || field.is_null(),
            Is::ListOrNull => field.is_array() || field.is_null(),
        };
        assert!(right, "{of}{path} is {field}");
    }
}
