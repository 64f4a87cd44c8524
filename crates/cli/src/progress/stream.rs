//! The progress as JSON on stdout, a line for each event: for programs that follow a measurement.
//!
//! docs/formats.md describes the lines. Each is an object with a `type`; the last one is the
//! result, with all fields of its document.

use std::io::{self, Write};

use serde::Serialize;
use thalweg_lab::trial::describe_load;
use thalweg_load::Plan;
use thalweg_measure::{Interval, IntervalSummary, Verdict};
use thalweg_report::document::{Document, Trial};

/// A line of the stream. Trials are counted from 0 in the order in which they are made.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event<'a> {
    /// A trial begins.
    Trial { trial: u64, phase: &'a str, load: String, offered_rate: Option<f64>, seconds: f64 },
    /// An interval of it has ended.
    Interval {
        trial: u64,
        interval_s: f64,
        #[serde(flatten)]
        interval: IntervalSummary,
    },
    /// The trial has ended.
    Judged {
        trial: u64,
        phase: &'a str,
        /// Calibration and first estimate have none.
        verdict: Option<Verdict>,
        reasons: &'a [String],
        offered_rate: Option<f64>,
        good_rate: f64,
        p99_us: f64,
    },
    /// A search knows the interval of the capacity so far.
    Estimate { interval95: [f64; 2] },
    /// The command has ended.
    Result {
        #[serde(flatten)]
        document: &'a Document,
    },
}

/// The lines of a command.
#[derive(Debug, Default)]
pub(super) struct Stream {
    trials: u64,
}

impl Stream {
    /// A trial begins.
    pub(super) fn begin_trial(&mut self, phase: &str, plan: &Plan) {
        let (load, seconds) = (describe_load(plan), plan.schedule_length().as_secs_f64());
        print(&Event::Trial { trial: self.trials, phase, load, offered_rate: plan.offered_rate(), seconds });
    }

    /// An interval of the trial has ended.
    pub(super) fn add_interval(&self, interval: &Interval) {
        let interval_s = interval.width_ns as f64 / 1e9;
        print(&Event::Interval { trial: self.trials, interval_s, interval: interval.summary() });
    }

    /// The trial has ended.
    pub(super) fn end_trial(&mut self, trial: &Trial) {
        print(&Event::Judged {
            trial: self.trials,
            phase: &trial.phase,
            verdict: trial.is_judged().then_some(trial.verdict),
            reasons: &trial.reasons,
            offered_rate: trial.offered_rate,
            good_rate: trial.rates.good,
            p99_us: trial.response_time_us.p99,
        });
        self.trials += 1;
    }

    /// The search knows the interval of the capacity so far.
    pub(super) fn show_estimate(&self, interval95: [f64; 2]) {
        print(&Event::Estimate { interval95 });
    }
}

/// The line of a result.
pub(crate) fn result_line(document: &Document) -> String {
    line(&Event::Result { document })
}

fn line(event: &Event<'_>) -> String {
    serde_json::to_string(event).expect("documents have nothing that JSON lacks") + "\n"
}

/// A stdout that takes nothing any more does not stop a measurement; printing the result says so.
fn print(event: &Event<'_>) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(line(event).as_bytes()).and_then(|()| stdout.flush());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::fixture;

    #[test]
    fn the_last_line_is_the_document() {
        let document = fixture::document(vec![fixture::trial()]);
        let line = result_line(&document);
        assert_eq!(line.trim_end().lines().count(), 1);
        let mut value: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let kind = value.as_object_mut().and_then(|object| object.remove("type"));
        assert_eq!(kind, Some("result".into()));
        assert_eq!(value, serde_json::to_value(&document).expect("JSON"));
        // It can be read again as it is, for example by `report`.
        assert_eq!(serde_json::from_str::<Document>(&line).expect("a document").id, document.id);
    }

    #[test]
    fn an_interval_has_the_fields_of_the_document() {
        let event = |interval| Event::Interval { trial: 2, interval_s: 0.2, interval };
        let interval = crate::progress::history::tests::interval(200, 10, 1, 3).summary();
        let mut value = serde_json::to_value(event(interval.clone())).expect("JSON");
        let object = value.as_object_mut().expect("an object");
        for (name, expected) in [("type", "interval".into()), ("trial", 2.into()), ("interval_s", 0.2.into())] {
            assert_eq!(object.remove(name), Some(expected), "{name}");
        }
        assert_eq!(value, serde_json::to_value(interval).expect("JSON"));
    }
}
