//! The output of httperf 0.9, line for line: scripts such as autobench read it by its words and
//! digits.

mod errors;

use std::fmt::Write;

use thalweg_report::document::{Document, SessionsSummary, Trial};
use thalweg_units::{parse_rate, parse_time};

pub(crate) use errors::Errors;

use super::quantities::{Address, BYTES_PER_KB, US_PER_MS, connections, measures_target, ratio, sample_stddev, span_s};
use super::samples::Samples;

/// httperf's default sizes of socket buffers, which are on its first line always.
const BUFFERS: (u32, u32) = (4096, 16384);

/// httperf's defaults of connections in a session and of calls under way on each.
const SESSION_DEFAULTS: (&str, &str) = ("4", "32");

/// The output of one run of httperf for each trial of the target.
pub(crate) fn httperf(document: &Document) -> String {
    let mut text = String::new();
    for trial in document.trials.iter().filter(|trial| measures_target(trial)) {
        // Writing to a string cannot fail.
        let _ = block(&mut text, document, trial);
    }
    text
}

fn block(out: &mut String, document: &Document, trial: &Trial) -> std::fmt::Result {
    writeln!(out, "{}", command(document, trial))?;
    writeln!(out, "Maximum connect burst length: {}", trial.connections.burst)?;
    let (connections, requests, replies) = (connections(trial), trial.counts.sent, trial.counts.completed);
    let span = span_s(trial);
    writeln!(
        out,
        "\nTotal: connections {connections} requests {requests} replies {replies} test-duration {span:.3} s\n"
    )?;
    connection_lines(out, trial, span)?;
    request_and_reply_lines(out, trial, span)?;

    // The CPU time is of the measured part alone, and so are the shares.
    let (user, system) = (trial.client.cpu_user_s, trial.client.cpu_sys_s);
    let share = |seconds: f64| 100.0 * ratio(seconds, trial.seconds);
    let shares = [share(user), share(system), share(user + system)];
    writeln!(
        out,
        "CPU time [s]: user {user:.2} system {system:.2} (user {:.1}% system {:.1}% total {:.1}%)",
        shares[0], shares[1], shares[2]
    )?;
    let bytes_per_s = ratio((trial.bytes.received + trial.bytes.sent) as f64, span);
    writeln!(out, "Net I/O: {:.1} KB/s ({:.1}*10^6 bps)\n", bytes_per_s / BYTES_PER_KB, 8e-6 * bytes_per_s)?;

    let errors = Errors::of(&trial.outcomes, &trial.causes);
    writeln!(
        out,
        "Errors: total {} client-timo {} socket-timo {} connrefused {} connreset {}",
        errors.total(),
        errors.client_timeout,
        errors.socket_timeout,
        errors.refused,
        errors.reset
    )?;
    writeln!(
        out,
        "Errors: fd-unavail {} addrunavail {} ftab-full {} other {}",
        errors.no_descriptor, errors.no_address, errors.file_table_full, errors.other
    )?;
    match sessions_of(document, trial) {
        Some(sessions) => session_lines(out, trial, sessions, span),
        None => Ok(()),
    }
}

fn connection_lines(out: &mut String, trial: &Trial, span: f64) -> std::fmt::Result {
    let connections = connections(trial) as f64;
    writeln!(
        out,
        "Connection rate: {:.1} conn/s ({:.1} ms/conn, <={} concurrent connections)",
        ratio(connections, span),
        1e3 * ratio(span, connections),
        trial.connections.peak
    )?;
    let lifetime = &trial.connection_lifetime_us;
    let ms = |us: f64| us / US_PER_MS;
    writeln!(
        out,
        "Connection time [ms]: min {:.1} avg {:.1} max {:.1} median {:.1} stddev {:.1}",
        ms(lifetime.min),
        ms(lifetime.mean),
        ms(lifetime.max),
        ms(lifetime.p50),
        ms(sample_stddev(lifetime))
    )?;
    writeln!(out, "Connection time [ms]: connect {:.1}", ms(trial.connect_us.mean))?;
    let length = ratio(trial.connections.replies as f64, lifetime.count as f64);
    writeln!(out, "Connection length [replies/conn]: {length:.3}\n")
}

fn request_and_reply_lines(out: &mut String, trial: &Trial, span: f64) -> std::fmt::Result {
    let (requests, replies) = (trial.counts.sent as f64, trial.counts.completed as f64);
    let (rate, period) = (ratio(requests, span), 1e3 * ratio(span, requests));
    writeln!(out, "Request rate: {rate:.1} req/s ({period:.1} ms/req)")?;
    writeln!(out, "Request size [B]: {:.1}\n", ratio(trial.bytes.sent as f64, requests))?;

    let sampled = Samples::of(trial, |interval| interval.completed);
    writeln!(
        out,
        "Reply rate [replies/s]: min {:.1} avg {:.1} max {:.1} stddev {:.1} ({} samples)",
        sampled.min, sampled.mean, sampled.max, sampled.stddev, sampled.count
    )?;
    let (response, transfer) = (trial.first_byte_us.mean / US_PER_MS, trial.transfer_us.mean / US_PER_MS);
    writeln!(out, "Reply time [ms]: response {response:.1} transfer {transfer:.1}")?;
    let bytes = &trial.bytes;
    let [header, content, footer] =
        [bytes.head_received, bytes.body_received, bytes.framing_received].map(|bytes| ratio(bytes as f64, replies));
    let total = header + content + footer;
    writeln!(out, "Reply size [B]: header {header:.1} content {content:.1} footer {footer:.1} (total {total:.1})")?;
    let status = &trial.status;
    writeln!(
        out,
        "Reply status: 1xx={} 2xx={} 3xx={} 4xx={} 5xx={}\n",
        status.informational, status.success, status.redirection, status.client_error, status.server_error
    )
}

fn session_lines(out: &mut String, trial: &Trial, sessions: &SessionsSummary, span: f64) -> std::fmt::Result {
    let sampled = Samples::of(trial, |interval| interval.sessions);
    let (completed, all) = (sessions.completed, sessions.completed + sessions.failed);
    writeln!(
        out,
        "\nSession rate [sess/s]: min {:.2} avg {:.2} max {:.2} stddev {:.2} ({completed}/{all})",
        sampled.min,
        ratio(completed as f64, span),
        sampled.max,
        sampled.stddev
    )?;
    let connections = ratio(sessions.connections as f64, completed as f64);
    writeln!(out, "Session: avg {connections:.2} connections/session")?;
    writeln!(out, "Session lifetime [s]: {:.1}", sessions.lifetime_us.mean / 1e6)?;
    writeln!(out, "Session failtime [s]: {:.1}", sessions.fail_time_us.mean / 1e6)?;
    write!(out, "Session length histogram:")?;
    if sessions.lengths.is_empty() {
        // No session has ended.
        write!(out, " 0")?;
    }
    sessions.lengths.iter().try_for_each(|count| write!(out, " {count}"))?;
    writeln!(out)
}

/// The sessions of a trial in httperf's sense: connections at a rate with a number of calls each
/// are none.
fn sessions_of<'a>(document: &Document, trial: &'a Trial) -> Option<&'a SessionsSummary> {
    let settings = &document.plan.settings;
    let only_connections = settings.contains_key("conn-rate") && !settings.contains_key("session");
    trial.sessions.as_ref().filter(|_| !only_connections)
}

/// The httperf command for the same load, or the nearest one; httperf prints its own command in
/// this place.
fn command(document: &Document, trial: &Trial) -> String {
    let setting = |name: &str| document.plan.settings.get(name).map(String::as_str);
    let mut words = vec!["httperf".to_owned()];
    if let Some(timeout) = setting("timeout").and_then(|text| parse_time(text).ok()) {
        words.push(format!("--timeout={}", shortest(timeout.as_secs_f64())));
    }
    words.push("--client=0/1".to_owned());
    let Address { host, port, path } = Address::of(document);
    words.extend([format!("--server={host}"), format!("--port={port}"), format!("--uri={path}")]);
    if setting("http") == Some("1.0") {
        words.push("--http-version=1.0".to_owned());
    }
    let session = setting("session").zip(sessions_of(document, trial));
    if session.is_some() {
        let (connections, pipeline) = (setting("session-connections"), setting("pipeline").unwrap_or("1"));
        let connections = connections.filter(|number| *number != SESSION_DEFAULTS.0);
        words.extend(connections.map(|number| format!("--max-connections={number}")));
        // httperf does not pipeline HTTP/1.0.
        if pipeline != SESSION_DEFAULTS.1 && setting("http") != Some("1.0") {
            words.push(format!("--max-piped-calls={pipeline}"));
        }
    }
    let load = ConnectionLoad::of(trial, &setting);
    if let Some(rate) = load.rate {
        words.push(format!("--rate={}", shortest(rate)));
    }
    words.push(format!("--send-buffer={}", BUFFERS.0));
    words.push(format!("--recv-buffer={}", BUFFERS.1));
    let fields = document.plan.settings.iter();
    let fields = fields.filter_map(|(key, value)| Some(format!("{}: {value}\\n", key.strip_prefix("header ")?)));
    let fields: String = fields.collect();
    if !fields.is_empty() {
        words.push(format!("--add-header='{}'", fields.replace('\'', r"'\''")));
    }
    if let Some(method) = setting("method").filter(|method| *method != "GET") {
        words.push(format!("--method={method}"));
    }
    match session {
        Some((file, sessions)) => {
            let think = setting("think").and_then(|text| parse_time(text).ok()).unwrap_or_default();
            let total = sessions.completed + sessions.failed;
            words.push(format!("--wsesslog={total},{:.3},{file}", think.as_secs_f64()));
        }
        None => {
            words.push(format!("--num-conns={}", load.connections));
            words.push(format!("--num-calls={}", load.calls));
        }
    }
    words.join(" ")
}

/// A load in httperf's terms: connections at a rate, with a number of calls each.
struct ConnectionLoad {
    /// Connections per second; without it httperf opens one after the other.
    rate: Option<f64>,
    connections: u64,
    calls: u64,
}

impl ConnectionLoad {
    /// For requests at a rate on kept connections: the rate of connections that carries the same
    /// requests.
    fn of<'a>(trial: &Trial, setting: &dyn Fn(&str) -> Option<&'a str>) -> Self {
        let number = |name: &str| setting(name).and_then(|text| text.parse::<u64>().ok());
        let made = connections(trial);
        let calls = number("calls").unwrap_or_else(|| trial.counts.offered.div_ceil(made.max(1))).max(1);
        if let Some(text) = setting("conn-rate") {
            let rate = parse_rate(text).ok();
            return Self { rate, connections: number("conns").unwrap_or(made), calls };
        }
        Self { rate: trial.offered_rate.map(|rate| rate / calls as f64), connections: made, calls }
    }
}

/// A number with six significant digits and no more than it needs, as C's `%g` prints it.
fn shortest(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return "0".to_owned();
    }
    let digits_before = number.abs().log10().floor() as i32;
    let text = format!("{number:.*}", (5 - digits_before).clamp(0, 12) as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[track_caller]
    fn check(document: &Document, expected: &str) {
        let text = httperf(document);
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn a_run_is_printed_line_for_line() {
        check(
            &fixture::document(vec![fixture::trial()]),
            "\
httperf --timeout=5 --client=0/1 --server=127.0.0.1 --port=8080 --uri=/a.txt?b=1 --rate=50 --send-buffer=4096 \
--recv-buffer=16384 --num-conns=500 --num-calls=4
Maximum connect burst length: 2

Total: connections 500 requests 2000 replies 1990 test-duration 10.250 s

Connection rate: 48.8 conn/s (20.5 ms/conn, <=7 concurrent connections)
Connection time [ms]: min 0.2 avg 0.6 max 5.9 median 0.5 stddev 0.3
Connection time [ms]: connect 0.1
Connection length [replies/conn]: 4.000

Request rate: 195.1 req/s (5.1 ms/req)
Request size [B]: 67.0

Reply rate [replies/s]: min 198.0 avg 199.0 max 200.0 stddev 1.4 (2 samples)
Reply time [ms]: response 0.2 transfer 0.1
Reply size [B]: header 239.0 content 512.0 footer 2.0 (total 753.0)
Reply status: 1xx=0 2xx=1985 3xx=0 4xx=5 5xx=0

CPU time [s]: user 0.25 system 0.50 (user 2.5% system 5.0% total 7.5%)
Net I/O: 155.5 KB/s (1.3*10^6 bps)

Errors: total 10 client-timo 4 socket-timo 1 connrefused 2 connreset 0
Errors: fd-unavail 0 addrunavail 1 ftab-full 0 other 2
",
        );
    }

    #[test]
    fn nothing_at_all_is_printed_without_nonsense() {
        let mut document = fixture::document(vec![fixture::nothing()]);
        document.plan.settings.clear();
        check(
            &document,
            "\
httperf --client=0/1 --server=127.0.0.1 --port=8080 --uri=/a.txt?b=1 --send-buffer=4096 --recv-buffer=16384 \
--num-conns=0 --num-calls=1
Maximum connect burst length: 0

Total: connections 0 requests 0 replies 0 test-duration 0.000 s

Connection rate: 0.0 conn/s (0.0 ms/conn, <=0 concurrent connections)
Connection time [ms]: min 0.0 avg 0.0 max 0.0 median 0.0 stddev 0.0
Connection time [ms]: connect 0.0
Connection length [replies/conn]: 0.000

Request rate: 0.0 req/s (0.0 ms/req)
Request size [B]: 0.0

Reply rate [replies/s]: min 0.0 avg 0.0 max 0.0 stddev 0.0 (0 samples)
Reply time [ms]: response 0.0 transfer 0.0
Reply size [B]: header 0.0 content 0.0 footer 0.0 (total 0.0)
Reply status: 1xx=0 2xx=0 3xx=0 4xx=0 5xx=0

CPU time [s]: user 0.00 system 0.00 (user 0.0% system 0.0% total 0.0%)
Net I/O: 0.0 KB/s (0.0*10^6 bps)

Errors: total 0 client-timo 0 socket-timo 0 connrefused 0 connreset 0
Errors: fd-unavail 0 addrunavail 0 ftab-full 0 other 0
",
        );
    }

    #[test]
    fn sessions_have_lines_of_their_own() {
        let mut trial = fixture::trial();
        trial.sessions = Some(fixture::sessions());
        let mut document = fixture::document(vec![trial]);
        let lines = |document: &Document| -> Vec<String> {
            httperf(document).lines().filter(|line| line.starts_with("Session")).map(str::to_owned).collect()
        };
        assert_eq!(lines(&document), Vec::<String>::new(), "connections with calls are no sessions");
        document.plan.settings.insert("session".into(), "shop.log".into());
        document.plan.settings.insert("think".into(), "1500ms".into());
        let expected = [
            "Session rate [sess/s]: min 1.80 avg 1.85 max 2.00 stddev 0.14 (19/20)",
            "Session: avg 1.05 connections/session",
            "Session lifetime [s]: 2.0",
            "Session failtime [s]: 0.5",
            "Session length histogram: 0 1 0 19",
        ];
        assert_eq!(lines(&document), expected);
        assert!(httperf(&document).contains(" --wsesslog=20,1.500,shop.log\n"), "{}", httperf(&document));
        let mut connections = |connections: &str, pipeline: &str| {
            for (name, value) in [("session-connections", connections), ("pipeline", pipeline)] {
                document.plan.settings.insert(name.into(), value.into());
            }
            let text = httperf(&document);
            let words = text.split_whitespace().filter(|word| word.starts_with("--max-"));
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(connections("4", "32"), Vec::<String>::new(), "httperf's own");
        assert_eq!(connections("1", "8"), ["--max-connections=1", "--max-piped-calls=8"]);
        assert!(httperf(&document).contains("other 2\n\nSession rate"), "one empty line is between them");
    }

    #[test]
    fn a_search_gives_a_block_for_each_trial_of_the_target() {
        let phase = |phase: &str| Trial { phase: phase.into(), ..fixture::trial() };
        let document = fixture::document(["calibrate", "probe", "bracket", "confirm"].map(phase).into());
        assert_eq!(httperf(&document).matches("httperf --timeout=5").count(), 2);
    }

    #[test]
    fn the_first_line_is_a_command_that_httperf_understands() {
        let mut document = fixture::document(vec![fixture::trial()]);
        document.plan.target = "http://[::1]/".into();
        document.plan.settings = [
            ("timeout", "250ms"),
            ("http", "1.0"),
            ("method", "PUT"),
            ("header X-A", "it's"),
            ("header X-B", "2"),
            ("calls", "1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let text = httperf(&document);
        let expected = r"httperf --timeout=0.25 --client=0/1 --server=[::1] --port=80 --uri=/ --http-version=1.0 --rate=200 --send-buffer=4096 --recv-buffer=16384 --add-header='X-A: it'\''s\nX-B: 2\n' --method=PUT --num-conns=500 --num-calls=1";
        assert_eq!(text.lines().next(), Some(expected));
    }

    #[test]
    fn numbers_are_as_short_as_c_has_them() {
        for (number, expected) in
            [(50.0, "50"), (0.25, "0.25"), (12.3456789, "12.3457"), (100_000.0, "100000"), (0.001, "0.001"), (0.0, "0")]
        {
            assert_eq!(shortest(number), expected);
        }
    }
}
