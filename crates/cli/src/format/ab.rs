//! The output of ApacheBench 2.3 below its banner.

use std::fmt::Write;

use thalweg_measure::{Histogram, LoopKind, Outcome, Summary};
use thalweg_report::document::{Document, Trial};

use super::quantities::{Address, BYTES_PER_KB, US_PER_MS, measures_target, ratio, sample_stddev, span_s};

/// The percentages of its last table.
const PERCENTAGES: [u32; 8] = [50, 66, 75, 80, 90, 95, 98, 99];

const NS_PER_MS: f64 = 1e6;

/// The output of one run of ab for each trial of the target.
pub(crate) fn ab(document: &Document) -> String {
    let mut text = String::new();
    for trial in document.trials.iter().filter(|trial| measures_target(trial)) {
        // Writing to a string cannot fail.
        let _ = block(&mut text, document, trial);
    }
    text
}

fn block(out: &mut String, document: &Document, trial: &Trial) -> std::fmt::Result {
    head(out, document, trial)?;
    counts(out, document, trial)?;
    if trial.counts.completed > 0 {
        rates(out, trial)?;
    }
    if trial.response_time_us.count > 0 {
        connection_times(out, trial)?;
        percentages(out, &trial.response_time_us)?;
    }
    Ok(())
}

fn head(out: &mut String, document: &Document, trial: &Trial) -> std::fmt::Result {
    let Address { host, port, path } = Address::of(document);
    let (server, length) = trial.sample.as_ref().map_or(("", 0), |sample| (&*sample.server, sample.body_bytes));
    writeln!(out, "\n\nServer Software:        {server}")?;
    writeln!(out, "Server Hostname:        {host}")?;
    writeln!(out, "Server Port:            {port}")?;
    writeln!(out, "\nDocument Path:          {path}")?;
    writeln!(out, "Document Length:        {length} bytes\n")
}

fn counts(out: &mut String, document: &Document, trial: &Trial) -> std::fmt::Result {
    writeln!(out, "Concurrency Level:      {}", trial.connections.peak)?;
    writeln!(out, "Time taken for tests:   {:.3} seconds", span_s(trial))?;
    writeln!(out, "Complete requests:      {}", trial.counts.completed)?;
    let failed = Failed::of(trial);
    writeln!(out, "Failed requests:        {}", failed.total())?;
    if failed.total() > 0 {
        writeln!(
            out,
            "   (Connect: {}, Receive: {}, Length: {}, Exceptions: {})",
            failed.connect, failed.receive, failed.length, failed.exceptions
        )?;
    }
    let status = &trial.status;
    let not_2xx = status.redirection + status.client_error + status.server_error;
    if not_2xx > 0 {
        writeln!(out, "Non-2xx responses:      {not_2xx}")?;
    }
    if document.plan.settings.get("calls").is_none_or(|calls| calls != "1") {
        writeln!(out, "Keep-Alive requests:    {}", trial.connections.kept)?;
    }
    writeln!(out, "Total transferred:      {} bytes", trial.bytes.received)?;
    if trial.bytes.body_sent > 0 {
        writeln!(out, "Total body sent:        {}", trial.bytes.sent)?;
    }
    writeln!(out, "HTML transferred:       {} bytes", trial.bytes.body_received)
}

/// Requests that failed, by ab's names for it.
struct Failed {
    connect: u64,
    receive: u64,
    length: u64,
    exceptions: u64,
}

impl Failed {
    fn of(trial: &Trial) -> Self {
        let mut failed = Failed { connect: 0, receive: 0, length: 0, exceptions: 0 };
        for (outcome, count) in trial.outcomes.iter() {
            match outcome {
                // ab counts no status as a failure, and requests that were not sent were not tried.
                Outcome::Good | Outcome::BadStatus | Outcome::NotSent => {}
                Outcome::Refused
                | Outcome::Unreachable
                | Outcome::NoDescriptor
                | Outcome::NoAddress
                | Outcome::TlsFailure => failed.connect += count,
                Outcome::Reset => failed.receive += count,
                Outcome::Truncated | Outcome::FailedCheck => failed.length += count,
                Outcome::Timeout | Outcome::ProtocolError | Outcome::NotProcessed => failed.exceptions += count,
            }
        }
        failed
    }

    fn total(&self) -> u64 {
        self.connect + self.receive + self.length + self.exceptions
    }
}

fn rates(out: &mut String, trial: &Trial) -> std::fmt::Result {
    let (completed, span) = (trial.counts.completed as f64, span_s(trial));
    // ab divides by the number of its workers, which has no meaning where requests do not wait for
    // each other's responses.
    let per_request = match trial.loop_kind {
        LoopKind::Closed => trial.connections.peak as f64 * span * 1e3 / completed,
        LoopKind::Open => trial.response_time_us.mean / US_PER_MS,
    };
    writeln!(out, "Requests per second:    {:.2} [#/sec] (mean)", ratio(completed, span))?;
    writeln!(out, "Time per request:       {per_request:.3} [ms] (mean)")?;
    writeln!(out, "Time per request:       {:.3} [ms] (mean, across all concurrent requests)", span * 1e3 / completed)?;
    let kb_per_s = |bytes: u64| ratio(bytes as f64 / BYTES_PER_KB, span);
    writeln!(out, "Transfer rate:          {:.2} [Kbytes/sec] received", kb_per_s(trial.bytes.received))?;
    if trial.bytes.body_sent > 0 {
        writeln!(out, "                        {:.2} kb/s sent", kb_per_s(trial.bytes.sent))?;
        writeln!(out, "                        {:.2} kb/s total", kb_per_s(trial.bytes.received + trial.bytes.sent))?;
    }
    Ok(())
}

fn connection_times(out: &mut String, trial: &Trial) -> std::fmt::Result {
    let connect = connect_per_request(trial);
    writeln!(out, "\nConnection Times (ms)\n              min  mean[+/-sd] median   max")?;
    let rows = [
        ("Connect:", &connect),
        ("Processing:", &trial.service_time_us),
        ("Waiting:", &trial.first_byte_us),
        ("Total:", &trial.response_time_us),
    ];
    for (name, times) in rows {
        let [min, mean, median, max] = [times.min, times.mean, times.p50, times.max].map(|us| (us / US_PER_MS).round());
        let stddev = sample_stddev(times) / US_PER_MS;
        writeln!(out, "{name:<12}{min:>5} {mean:>4} {stddev:>5.1} {median:>6} {max:>7}")?;
    }
    Ok(())
}

/// The time to connect as a part of each request, as in ab: zero for requests on an open
/// connection.
fn connect_per_request(trial: &Trial) -> Summary {
    let connected = &trial.connect_us;
    let Ok(mut histogram) = Histogram::from_hdr_base64_us(&connected.hdr) else { return connected.clone() };
    histogram.record_n(0, trial.counts.completed.saturating_sub(connected.count));
    histogram.summary()
}

fn percentages(out: &mut String, times: &Summary) -> std::fmt::Result {
    let Ok(histogram) = Histogram::from_hdr_base64_us(&times.hdr) else { return Ok(()) };
    writeln!(out, "\nPercentage of the requests served within a certain time (ms)")?;
    for percentage in PERCENTAGES {
        let ms = (histogram.quantile(f64::from(percentage) / 100.0) as f64 / NS_PER_MS).round();
        writeln!(out, "  {percentage}%  {ms:>5}")?;
    }
    writeln!(out, " 100%  {:>5} (longest request)", (times.max / US_PER_MS).round())
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[track_caller]
    fn check(document: &Document, expected: &str) {
        let text = ab(document);
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn a_run_is_printed_line_for_line() {
        check(
            &fixture::document(vec![fixture::trial()]),
            "

Server Software:        nginx/1.22.1
Server Hostname:        127.0.0.1
Server Port:            8080

Document Path:          /a.txt?b=1
Document Length:        512 bytes

Concurrency Level:      7
Time taken for tests:   10.250 seconds
Complete requests:      1990
Failed requests:        15
   (Connect: 5, Receive: 0, Length: 5, Exceptions: 5)
Non-2xx responses:      5
Keep-Alive requests:    1492
Total transferred:      1498470 bytes
HTML transferred:       1018880 bytes
Requests per second:    194.15 [#/sec] (mean)
Time per request:       10.900 [ms] (mean)
Time per request:       5.151 [ms] (mean, across all concurrent requests)
Transfer rate:          142.77 [Kbytes/sec] received

Connection Times (ms)
              min  mean[+/-sd] median   max
Connect:        0    0   0.0      0       0
Processing:     0    0   0.1      0       0
Waiting:        0    0   0.0      0       0
Total:          0   11 224.4      0    5000

Percentage of the requests served within a certain time (ms)
  50%      0
  66%      0
  75%      0
  80%      0
  90%      0
  95%      0
  98%     12
  99%     12
 100%   5000 (longest request)
",
        );
    }

    #[test]
    fn nothing_at_all_is_printed_without_nonsense() {
        let mut document = fixture::document(vec![fixture::nothing()]);
        document.plan.settings.insert("calls".into(), "1".into());
        check(
            &document,
            "

Server Software:        
Server Hostname:        127.0.0.1
Server Port:            8080

Document Path:          /a.txt?b=1
Document Length:        0 bytes

Concurrency Level:      0
Time taken for tests:   0.000 seconds
Complete requests:      0
Failed requests:        0
Total transferred:      0 bytes
HTML transferred:       0 bytes
",
        );
    }

    #[test]
    fn request_bodies_have_lines_of_their_own() {
        let mut trial = fixture::trial();
        trial.bytes.body_sent = 2000;
        trial.loop_kind = LoopKind::Closed;
        let text = ab(&fixture::document(vec![trial]));
        for line in [
            "\nTotal body sent:        134000\nHTML",
            " 142.77 [Kbytes/sec] received\n                        12.77 kb/s sent\n                        155.53 kb/s total\n",
            "Time per request:       36.055 [ms] (mean)\n",
        ] {
            assert!(text.contains(line), "{line:?}: {text}");
        }
    }

    /// Most requests of a kept connection had nothing to connect; their median must not be that of
    /// the few that had.
    #[test]
    fn connecting_is_a_part_of_each_request() {
        let connect = connect_per_request(&fixture::trial());
        assert_eq!((connect.count, connect.min, connect.p50, connect.max), (1990, 0.0, 0.0, 100.0));
    }
}
