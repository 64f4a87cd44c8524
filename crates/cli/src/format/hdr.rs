//! A result as a log of histograms, which HdrHistogram's tools draw and merge.
//!
//! Response times come interval by interval, service times once for each trial with the tag
//! `service`. Trials that do not measure the target have their phase as a tag, since tools read the
//! lines without a tag together.

use std::time::Duration;

use thalweg_measure::Histogram;
use thalweg_measure::hdr_log::{Entry, write};
use thalweg_report::document::{Document, Trial};

use super::quantities::{measures_target, span_s};

const SERVICE_TAG: &str = "service";

/// The log. Times are in nanoseconds, as these logs have them.
pub(crate) fn hdr_log(document: &Document) -> String {
    let comments = [
        format!("thalweg {} {}", document.version, document.id),
        format!("target: {}", document.plan.target),
        format!("load: {}", document.plan.load),
        "without a tag: response times in ns, from the intended time to the last byte".to_owned(),
        format!("tag {SERVICE_TAG}: service times in ns, from sending to the last byte"),
    ];
    let started: Option<jiff::Timestamp> = document.started.parse().ok();
    let started_s = started.map_or(0.0, |started| started.as_millisecond() as f64 / 1e3);
    let entries: Vec<Entry<'_>> = document.trials.iter().flat_map(entries).collect();
    write(&comments, started_s, &entries)
}

fn entries(trial: &Trial) -> Vec<Entry<'_>> {
    let tag = (!measures_target(trial)).then_some(trial.phase.as_str());
    let at = seconds(trial.at_s);
    let width = seconds(trial.interval_s);
    let mut entries: Vec<Entry<'_>> = trial
        .intervals
        .iter()
        .map(|interval| Entry { tag, start: at + seconds(interval.t), length: width, histogram: read(&interval.hdr) })
        .collect();
    if tag.is_none() {
        let histogram = read(&trial.service_time_us.hdr);
        entries.push(Entry { tag: Some(SERVICE_TAG), start: at, length: seconds(span_s(trial)), histogram });
    }
    entries
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// The document's distribution; empty where it has none.
fn read(base64: &str) -> Histogram {
    Histogram::from_hdr_base64_us(base64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    /// The lines of a log that are no comments, as tag, start, length and maximum.
    fn lines(document: &Document) -> Vec<String> {
        let text = hdr_log(document);
        let data = text.lines().filter(|line| !line.starts_with(['#', '"']));
        data.map(|line| line.rsplit_once(',').expect("a histogram comes last").0.to_owned()).collect()
    }

    #[test]
    fn intervals_are_untagged_and_service_times_are_not() {
        let mut trial = fixture::trial();
        trial.intervals.truncate(2);
        trial.intervals[1].hdr.clear();
        let calibration = Trial { phase: "calibrate".into(), at_s: 20.0, ..trial.clone() };
        let expected = [
            "0.500,1.000,0.300",
            "1.500,1.000,0.000",
            "Tag=service,0.500,10.250,0.350",
            "Tag=calibrate,20.500,1.000,0.300",
            "Tag=calibrate,21.500,1.000,0.000",
        ];
        let calibration = Trial { at_s: 20.5, ..calibration };
        assert_eq!(lines(&fixture::document(vec![trial, calibration])), expected);
    }

    #[test]
    fn the_head_says_what_it_is() {
        let text = hdr_log(&fixture::document(Vec::new()));
        let expected = "\
#thalweg 0.1.0 20260314T150926535Z-7c1e
#target: http://127.0.0.1:8080/a.txt?b=1
#load: open loop
#without a tag: response times in ns, from the intended time to the last byte
#tag service: service times in ns, from sending to the last byte
#[Histogram log format version 1.3]
#[StartTime: 1773500966.535 (seconds since epoch)]
#[BaseTime: 1773500966.535 (seconds since epoch)]
\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"
#[MaxValueDivisor: 1000000.000]
";
        assert_eq!(text, expected);
    }
}
