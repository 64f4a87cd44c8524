//! Results as a table: one line of column names and one line per trial, separated by tabs.
//!
//! The first ten columns are those of autobench, so that scripts for its tables draw ours; their
//! definitions are httperf's. Columns are added at the end, never renamed or moved. No field is
//! empty, since tools that split at white space would take the next one for it: a dash says that
//! there is no value.

use thalweg_measure::{LoopKind, Summary};
use thalweg_report::document::{Document, Trial};

use super::httperf::Errors;
use super::quantities::{BYTES_PER_KB, US_PER_MS, connections, ratio, span_s};
use super::samples::Samples;

/// autobench's percentage of errors for a trial without a reply: more than all.
const NO_REPLY_PERCENT: f64 = 101.0;

/// The table with `separator` between fields.
pub(super) fn table(document: &Document, separator: char) -> String {
    let mut text = String::new();
    for (position, trial) in document.trials.iter().enumerate() {
        let row = row(trial);
        if position == 0 {
            line(&mut text, separator, row.iter().map(|(name, _)| name.as_str()));
        }
        line(&mut text, separator, row.iter().map(|(_, value)| value.as_str()));
    }
    text
}

fn line<'a>(out: &mut String, separator: char, fields: impl Iterator<Item = &'a str>) {
    out.push_str(&fields.collect::<Vec<_>>().join(&separator.to_string()));
    out.push('\n');
}

/// Names and values of one trial.
pub(super) type Row = Vec<(String, String)>;

fn row(trial: &Trial) -> Row {
    let mut row = autobench(trial);
    let mut put = |name: &str, value: String| row.push((name.to_owned(), value));
    put("phase", trial.phase.clone());
    put("at_s", format!("{:.3}", trial.at_s));
    put("loop", if trial.loop_kind == LoopKind::Open { "open" } else { "closed" }.to_owned());
    put("seconds", format!("{:.3}", trial.seconds));
    put("span_s", format!("{:.3}", span_s(trial)));
    // Calibration and probe are held against nothing.
    put("verdict", if trial.is_judged() { trial.verdict.name().to_owned() } else { none() });
    let counts = &trial.counts;
    put("offered", counts.offered.to_string());
    put("sent", counts.sent.to_string());
    put("completed", counts.completed.to_string());
    for (outcome, count) in trial.outcomes.iter() {
        put(outcome.name(), count.to_string());
    }
    put("sent_rate", format!("{:.3}", trial.rates.sent));
    put("completed_rate", format!("{:.3}", trial.rates.completed));
    put("good_rate", format!("{:.3}", trial.rates.good));
    let bytes = &trial.bytes;
    for (name, count) in [
        ("bytes_in", bytes.received),
        ("head_in", bytes.head_received),
        ("body_in", bytes.body_received),
        ("framing_in", bytes.framing_received),
        ("bytes_out", bytes.sent),
        ("head_out", bytes.head_sent),
        ("body_out", bytes.body_sent),
        ("attempted", trial.connections.attempted),
        ("opened", trial.connections.opened),
        ("peak", trial.connections.peak),
        ("held", trial.connections.held),
        ("progressing", trial.connections.progressing),
        ("conforming", trial.connections.conforming),
    ] {
        put(name, count.to_string());
    }
    put("cpu_user_s", format!("{:.3}", trial.client.cpu_user_s));
    put("cpu_sys_s", format!("{:.3}", trial.client.cpu_sys_s));
    for (name, summary) in [
        ("response", &trial.response_time_us),
        ("service", &trial.service_time_us),
        ("first_byte", &trial.first_byte_us),
        ("transfer", &trial.transfer_us),
        ("lag", &trial.lag_us),
        ("queue", &trial.queue_us),
        ("connect", &trial.connect_us),
        ("lifetime", &trial.connection_lifetime_us),
        ("without_lag", &trial.without_lag_us),
    ] {
        times(&mut row, name, summary);
    }
    row
}

/// autobench's columns by its names, without the host's name behind them.
pub(super) fn autobench(trial: &Trial) -> Row {
    let span = span_s(trial);
    let one = |number: f64| format!("{number:.1}");
    let sampled = Samples::of(trial, |interval| interval.completed);
    let io = (trial.bytes.received + trial.bytes.sent) as f64 / BYTES_PER_KB;
    let (errors, replies) = (Errors::of(&trial.outcomes, &trial.causes).total(), trial.counts.completed);
    let percent = if replies == 0 { NO_REPLY_PERCENT } else { 100.0 * errors as f64 / replies as f64 };
    [
        ("dem_req_rate", trial.offered_rate.map_or_else(none, |rate| format!("{rate:.3}"))),
        ("req_rate", one(ratio(trial.counts.sent as f64, span))),
        ("con_rate", one(ratio(connections(trial) as f64, span))),
        ("min_rep_rate", one(sampled.min)),
        ("avg_rep_rate", one(sampled.mean)),
        ("max_rep_rate", one(sampled.max)),
        ("stddev_rep_rate", one(sampled.stddev)),
        ("resp_time", one(trial.first_byte_us.mean / US_PER_MS)),
        ("net_io", one(ratio(io, span))),
        ("errors", format!("{percent:.3}")),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// Columns of a distribution, such as `response_p99_us`. Where nothing was recorded there is no
/// value.
fn times(row: &mut Row, of: &str, summary: &Summary) {
    let known = summary.count > 0;
    for (statistic, us) in [
        ("mean", summary.mean),
        ("p50", summary.p50),
        ("p90", summary.p90),
        ("p99", summary.p99),
        ("p999", summary.p999),
        ("max", summary.max),
    ] {
        row.push((format!("{of}_{statistic}_us"), if known { format!("{us:.3}") } else { none() }));
    }
}

pub(super) fn none() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use thalweg_measure::Outcome;

    use super::super::fixture;
    use super::*;

    fn table(trials: Vec<Trial>) -> Vec<Vec<String>> {
        let text = super::table(&fixture::document(trials), '\t');
        assert!(text.is_empty() || text.ends_with('\n'));
        text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    }

    /// Names and places of columns are a contract with scripts.
    #[test]
    fn the_columns_are_the_documented_ones() {
        let expected = "dem_req_rate req_rate con_rate min_rep_rate avg_rep_rate max_rep_rate stddev_rep_rate resp_time \
            net_io errors phase at_s loop seconds span_s verdict offered sent completed good bad_status failed_check \
            truncated timeout refused reset unreachable no_descriptor no_address tls_failure protocol_error not_sent not_processed \
            sent_rate completed_rate good_rate bytes_in head_in body_in framing_in bytes_out head_out body_out attempted \
            opened peak held progressing conforming cpu_user_s cpu_sys_s response_mean_us response_p50_us \
            response_p90_us response_p99_us response_p999_us response_max_us service_mean_us service_p50_us \
            service_p90_us service_p99_us service_p999_us service_max_us first_byte_mean_us first_byte_p50_us \
            first_byte_p90_us first_byte_p99_us first_byte_p999_us first_byte_max_us transfer_mean_us transfer_p50_us \
            transfer_p90_us transfer_p99_us transfer_p999_us transfer_max_us lag_mean_us lag_p50_us lag_p90_us lag_p99_us \
            lag_p999_us lag_max_us queue_mean_us queue_p50_us queue_p90_us queue_p99_us queue_p999_us queue_max_us \
            connect_mean_us connect_p50_us connect_p90_us connect_p99_us connect_p999_us connect_max_us \
            lifetime_mean_us lifetime_p50_us lifetime_p90_us lifetime_p99_us lifetime_p999_us lifetime_max_us \
            without_lag_mean_us without_lag_p50_us without_lag_p90_us without_lag_p99_us without_lag_p999_us \
            without_lag_max_us";
        let table = table(vec![fixture::trial()]);
        assert_eq!(table[0].join(" "), expected.split_whitespace().collect::<Vec<_>>().join(" "));
        let names: Vec<&str> = Outcome::ALL.iter().map(|outcome| outcome.name()).collect();
        assert!(table[0].join(" ").contains(&names.join(" ")));
    }

    #[test]
    fn each_trial_is_a_line_with_a_value_in_each_column() {
        let table = table(vec![fixture::trial(), fixture::nothing()]);
        let of = |line: usize, name: &str| {
            let column = table[0].iter().position(|column| column == name).unwrap();
            table[line][column].as_str()
        };
        assert_eq!(table[1][..10].join(" "), "200.000 195.1 48.8 198.0 199.0 200.0 1.4 0.2 155.5 0.503");
        assert_eq!(table[2][..10].join(" "), "- 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 101.000");
        assert_eq!((of(1, "verdict"), of(2, "verdict"), of(2, "loop")), ("fail", "invalid", "closed"));
        assert_eq!((of(1, "good"), of(1, "body_in"), of(1, "transfer_p50_us")), ("1980", "1018880", "60.000"));
        assert_eq!(of(2, "response_p99_us"), "-");
        for line in &table {
            assert_eq!(line.len(), table[0].len());
            assert!(line.iter().all(|field| !field.is_empty() && !field.contains(' ')), "{line:?}");
        }
    }

    #[test]
    fn a_search_without_trials_is_an_empty_table() {
        assert!(table(Vec::new()).is_empty());
    }
}
