//! The lines that h2load 1.52 prints at its end.

use std::fmt::Write;

use thalweg_measure::{Histogram, Outcome, Summary};
use thalweg_report::document::{Document, Trial};

use super::quantities::{BYTES_PER_KB, measures_target, ratio, sample_stddev, span_s};

const NS_PER_US: f64 = 1e3;
const US_PER_MS: f64 = 1e3;
const US_PER_S: f64 = 1e6;

/// The end of the output of one run of h2load for each trial of the target.
pub(crate) fn h2load(document: &Document) -> String {
    let mut text = String::new();
    for trial in document.trials.iter().filter(|trial| measures_target(trial)) {
        // Writing to a string cannot fail.
        let _ = block(&mut text, trial);
    }
    text
}

fn block(out: &mut String, trial: &Trial) -> std::fmt::Result {
    let span = span_s(trial);
    let (rate, bytes_per_s) = (ratio(trial.counts.completed as f64, span), ratio(trial.bytes.received as f64, span));
    writeln!(out, "\nfinished in {}, {rate:.2} req/s, {}/s", time(span * US_PER_S), size(bytes_per_s))?;
    requests(out, trial)?;
    let status = &trial.status;
    writeln!(
        out,
        "status codes: {} 2xx, {} 3xx, {} 4xx, {} 5xx",
        status.success, status.redirection, status.client_error, status.server_error
    )?;
    let bytes = |count: u64| format!("{} ({count})", size(count as f64));
    writeln!(
        out,
        "traffic: {} total, {} headers, {} data",
        bytes(trial.bytes.received),
        bytes(head_bytes(trial)),
        bytes(trial.bytes.body_received)
    )?;
    writeln!(out, "{:<20}{:>4}         max         mean         sd        +/- sd", "", "min")?;
    let rows = [
        ("time for request: ", &trial.service_time_us),
        ("time for connect: ", trial.tls.as_ref().map_or(&trial.connect_us, |tls| &tls.ready_us)),
        ("time to 1st byte: ", &trial.first_byte_us),
    ];
    rows.iter().try_for_each(|(name, times)| row(out, name, times))
}

/// Bytes of heads. Over HTTP/2 h2load counts those of header blocks, without the heads of their
/// frames.
fn head_bytes(trial: &Trial) -> u64 {
    const FRAME_HEAD_BYTES: u64 = 9;
    let blocks: u64 = trial.streams.as_ref().map_or(0, |_| trial.status_codes.iter().map(|(_, count)| count).sum());
    trial.bytes.head_received.saturating_sub(blocks * FRAME_HEAD_BYTES)
}

/// h2load counts every complete response with a status below 400 as a success.
fn requests(out: &mut String, trial: &Trial) -> std::fmt::Result {
    let timeouts = trial.outcomes.count(Outcome::Timeout);
    let done = trial.outcomes.total() - trial.outcomes.count(Outcome::NotSent);
    let errored = done - trial.counts.completed - timeouts;
    let not_successful = trial.status.client_error + trial.status.server_error;
    let succeeded = trial.counts.completed.saturating_sub(not_successful);
    writeln!(
        out,
        "requests: {} total, {} started, {done} done, {succeeded} succeeded, {} failed, {errored} errored, \
         {timeouts} timeout",
        trial.counts.offered,
        trial.counts.sent,
        done - succeeded
    )
}

fn row(out: &mut String, name: &str, times: &Summary) -> std::fmt::Result {
    let (mean, stddev) = (times.mean, sample_stddev(times));
    let share = within(times, mean - stddev, mean + stddev) * 100.0;
    let [min, max, mean, stddev] = [times.min, times.max, mean, stddev].map(time);
    writeln!(out, "{name}{min:>10}  {max:>10}  {mean:>10}  {stddev:>10}{share:>9.2}%")
}

/// The share of the times from `low` to `high`, microseconds.
fn within(times: &Summary, low: f64, high: f64) -> f64 {
    let Ok(histogram) = Histogram::from_hdr_base64_us(&times.hdr) else { return 0.0 };
    let above = |us: f64| histogram.count_above((us.max(0.0) * NS_PER_US) as u64);
    let below_low = if low <= 0.0 { histogram.count() } else { above(low) };
    ratio((below_low - above(high)) as f64, histogram.count() as f64)
}

/// A time in microseconds, as h2load writes it.
fn time(us: f64) -> String {
    match us {
        us if us >= US_PER_S => format!("{:.2}s", us / US_PER_S),
        us if us >= US_PER_MS => format!("{:.2}ms", us / US_PER_MS),
        us => format!("{us:.0}us"),
    }
}

/// A number of bytes, as h2load writes it.
fn size(bytes: f64) -> String {
    let mut value = bytes;
    for unit in ["B", "KB", "MB"] {
        if value < BYTES_PER_KB {
            return if unit == "B" { format!("{value:.0}{unit}") } else { format!("{value:.2}{unit}") };
        }
        value /= BYTES_PER_KB;
    }
    format!("{value:.2}GB")
}

#[cfg(test)]
mod tests {
    use thalweg_measure::trial::{StreamFigures, TlsFigures};

    use super::super::fixture;
    use super::*;

    #[test]
    fn a_run_is_printed_as_h2load_prints_it() {
        let text = h2load(&fixture::document(vec![fixture::trial()]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "finished in 10.25s, 194.15 req/s, 142.77KB/s", "{text}");
        assert_eq!(
            lines[2], "requests: 2000 total, 2000 started, 2000 done, 1985 succeeded, 15 failed, 6 errored, 4 timeout",
            "{text}"
        );
        assert_eq!(lines[3], "status codes: 1985 2xx, 0 3xx, 5 4xx, 0 5xx", "{text}");
        let traffic = "traffic: 1.43MB (1498470) total, 464.46KB (475610) headers, 995.00KB (1018880) data";
        assert_eq!(lines[4], traffic, "{text}");
        let heading = "                     min         max         mean         sd        +/- sd";
        assert_eq!(lines[5], heading, "{text}");
        assert!(lines[6].starts_with("time for request: ") && lines[6].ends_with('%'), "{text}");
        assert_eq!(lines.len(), 9, "{text}");
    }

    /// h2load counts TLS's handshake as a part of connecting, and header blocks without their
    /// frames.
    #[test]
    fn connecting_includes_tls_and_heads_of_frames_are_left_out() {
        let mut tls = TlsFigures::default();
        tls.ready.record(2_000_000);
        let plain = fixture::trial();
        let (streams, tls) = (Some(StreamFigures::default().summary()), Some(tls.summary()));
        let responses: u64 = plain.status_codes.iter().map(|(_, count)| count).sum();
        let blocks = plain.bytes.head_received - 9 * responses;
        let text = h2load(&fixture::document(vec![Trial { streams, tls, ..plain }]));
        assert!(text.contains(&format!("({blocks}) headers")), "{text}");
        assert!(text.contains("\ntime for connect:     2.00ms      2.00ms      2.00ms "), "{text}");
    }

    #[test]
    fn quantities_have_the_units_of_h2load() {
        let times = [446_940.0, 38.0, 2_430.0, 12_000_000.0].map(time);
        assert_eq!(times, ["446.94ms", "38us", "2.43ms", "12.00s"]);
        let sizes = [512.0, 600_292.0, 32_400_388.0, 5_368_709_120.0].map(size);
        assert_eq!(sizes, ["512B", "586.22KB", "30.90MB", "5.00GB"]);
    }
}
