//! Logs of histograms in the format of HdrHistogram's own tools (version 1.3, V2 histograms,
//! deflated).
//!
//! The caller decides which distributions go into a log, and under which tags.

use crate::histogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use std::fmt::Write;
use std::time::Duration;

/// The tools show a maximum in milliseconds and histograms in nanoseconds.
const NS_PER_MAX_UNIT: f64 = 1e6;

const COLUMNS: &str = "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"";

/// One line of a log.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry<'a> {
    /// Distinguishes series; readers that select no tag see those without one. Neither empty nor
    /// with a comma, a space or a line break, else it is left out.
    pub tag: Option<&'a str>,
    /// The beginning of the interval, from the start of the log.
    pub start: Duration,
    /// Its length.
    pub length: Duration,
    /// The times in it.
    pub histogram: Histogram,
}

/// Writes a log that began `started_s` seconds after the epoch. A line break in a comment begins
/// another comment.
pub fn write(comments: &[String], started_s: f64, entries: &[Entry<'_>]) -> String {
    let mut text = String::new();
    for line in comments.iter().flat_map(|comment| comment.lines()) {
        let _ = writeln!(text, "#{line}");
    }
    // The base is what makes every reader add the start of an interval to it; without it some
    // guess.
    let _ = writeln!(text, "#[Histogram log format version 1.3]");
    let _ = writeln!(text, "#[StartTime: {started_s:.3} (seconds since epoch)]");
    let _ = writeln!(text, "#[BaseTime: {started_s:.3} (seconds since epoch)]");
    let _ = writeln!(text, "{COLUMNS}");
    text.push_str(&lines(entries));
    text
}

fn lines(entries: &[Entry<'_>]) -> String {
    let mut bytes = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .with_max_value_divisor(NS_PER_MAX_UNIT)
        .begin_log_with(&mut bytes, &mut serializer)
        .expect("writing to memory succeeds");
    for entry in entries {
        let tag = entry.tag.filter(|tag| !tag.is_empty()).and_then(Tag::new);
        log.write_histogram(&entry.histogram.to_hdr_ns(), entry.start, entry.length, tag)
            .expect("writing to memory succeeds and 64-bit counts are encodable");
    }
    String::from_utf8(bytes).expect("a log is ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use hdrhistogram::Histogram as Hdr;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    /// A log read back by the crate: start of the log, base, and tag, start, length and histogram
    /// of each line.
    type Read<'a> = (Vec<Duration>, Vec<(Option<String>, Duration, Duration, Hdr<u64>)>);

    fn read(log: &str) -> Read<'_> {
        let (mut times, mut lines) = (Vec::new(), Vec::new());
        for entry in IntervalLogIterator::new(log.as_bytes()) {
            match entry.expect("the log can be read") {
                LogEntry::StartTime(time) | LogEntry::BaseTime(time) => times.push(time),
                LogEntry::Interval(line) => {
                    let bytes = base64::engine::general_purpose::STANDARD.decode(line.encoded_histogram()).unwrap();
                    let histogram = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
                    let tag = line.tag().map(|tag| tag.as_str().to_owned());
                    lines.push((tag, line.start_timestamp(), line.duration(), histogram));
                }
            }
        }
        (times, lines)
    }

    #[test]
    fn a_written_record_can_be_read_back() {
        let mut histogram = Histogram::new();
        histogram.record_n(1_500_000, 7);
        histogram.record(2_000_000_000);
        let second = Duration::from_secs(1);
        let entry =
            |tag, start, histogram: &Histogram| Entry { tag, start, length: second, histogram: histogram.clone() };
        let entries = [
            entry(None, Duration::ZERO, &histogram),
            entry(None, second, &Histogram::new()),
            entry(Some("service"), Duration::from_millis(2500), &histogram),
        ];
        let log = write(&["two\nlines".to_owned()], 1_700_000_000.25, &entries);
        assert!(
            log.starts_with("#two\n#lines\n#[Histogram log format version 1.3]\n#[StartTime: 1700000000.250 "),
            "{log}"
        );
        assert!(log.contains("\n0.000,1.000,2000.683,"), "the maximum is in milliseconds, as its bucket ends: {log}");
        let (times, lines) = read(&log);
        assert_eq!(times, [Duration::from_millis(1_700_000_000_250); 2]);
        assert_eq!(lines.len(), entries.len());
        for ((tag, start, length, hdr), entry) in lines.iter().zip(&entries) {
            assert_eq!((tag.as_deref(), *start, *length), (entry.tag, entry.start, entry.length));
            assert_eq!(*hdr, entry.histogram.to_hdr_ns());
        }
    }

    #[test]
    fn a_tag_cannot_break_a_line() {
        for tag in ["a,b", "a b", "a\nb", "a\rb", ""] {
            let entry =
                Entry { tag: Some(tag), start: Duration::ZERO, length: Duration::ZERO, histogram: Histogram::new() };
            let log = write(&[], 0.0, &[entry]);
            assert_eq!(read(&log).1[0].0, None, "{tag:?}: {log}");
        }
    }
}
