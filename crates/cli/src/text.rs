//! A result as text for people.
//!
//! Lines are as long as their statements; `page` breaks those that are longer than a terminal is
//! wide. Verdicts have styles, which printing removes where they do not belong.

use std::fmt::Write;

use thalweg_measure::limit::Statistic;
use thalweg_measure::search::EndReason;
use thalweg_measure::{Summary, Verdict};
use thalweg_report as report;
use thalweg_report::document::{Document, Find, LimitedBy, LogDocument, Trial};
use thalweg_units::display;

use crate::compare_text;
use crate::page;
use crate::progress::trial_line;
use crate::style;
use crate::suite_text;

/// The text of a result, for a terminal of so many columns, or with whole lines.
pub(crate) fn of(document: &Document, columns: Option<usize>) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = match (&document.compare, &document.find) {
        (None, None) if let Some(measured) = &document.suite => {
            suite_text::write(&mut text, document, measured, columns)
        }
        (Some(compare), _) => compare_text::write(&mut text, document, compare, columns)
            .and_then(|()| statuses(&mut text, "  ", &document.trials)),
        (None, Some(find)) => search(&mut text, document, find),
        (None, None) if document.sweep.is_some() => swept(&mut text, document),
        (None, None) if document.lacks_result() => without_result(&mut text, document),
        (None, None) => document.trials.iter().try_for_each(|trial| run(&mut text, document, trial)),
    };
    page::fitted(&text, columns)
}

fn verdict(verdict: Verdict) -> String {
    style::styled(verdict.title(), style::of(verdict))
}

/// The line on a trial, with the style of its verdict.
fn styled_trial_line(trial: &Trial, document: &Document) -> String {
    let line = trial_line(trial, document.plan.bound_on(Statistic::Percentile(99.0)));
    if trial.is_judged() { style_word(&line, trial.verdict) } else { line }
}

/// The line with its verdict in the verdict's style.
fn style_word(line: &str, verdict: Verdict) -> String {
    let word = verdict.name();
    line.split_once(&format!("  {word}")).map_or_else(
        || line.to_owned(),
        |(before, after)| format!("{before}  {}{after}", style::styled(word, style::of(verdict))),
    )
}

/// The requests of a document in a line: method and target, or the file that they come from.
pub(crate) fn requested(document: &Document) -> String {
    let setting = |name: &str| document.plan.settings.get(name);
    let method = setting("method").map_or_else(String::new, |method| format!("{method} "));
    let file = [("urls", "URLs of"), ("session", "sessions of"), ("log", "requests of")];
    let file = file.into_iter().find_map(|(name, what)| Some(format!(", {what} {}", setting(name)?)));
    format!("{method}{}{}", document.plan.target, file.unwrap_or_default())
}

fn us(value: f64) -> String {
    display::time((value * 1e3).round() as u64)
}

fn run(out: &mut String, document: &Document, trial: &Trial) -> std::fmt::Result {
    let client = &trial.client;
    writeln!(out, "{}  {}", verdict(trial.verdict), requested(document))?;
    statuses(out, "  ", std::slice::from_ref(trial))?;
    measured_address(out, document)?;
    for reason in &trial.reasons {
        writeln!(out, "  {reason}")?;
    }
    let cpus: Vec<String> = client.cpus.iter().map(ToString::to_string).collect();
    let cpus = cpus.join(",");
    writeln!(out, "  {}, {:.2} s, {} from CPU {cpus}", document.plan.load, trial.seconds, client.driver)?;
    if let Some(log) = &document.log {
        replayed(out, log)?;
    }
    writeln!(out)?;

    let counts = &trial.counts;
    let row = |out: &mut String, name: &str, count: u64, rate: Option<f64>| {
        let rate = rate.map_or_else(String::new, |rate| format!("{:>14}", display::rate(rate)));
        writeln!(out, "  {name:<10}{:>14}{rate}", display::count(count))
    };
    row(out, "offered", counts.offered, trial.offered_rate)?;
    // The rate includes requests of downloads that did not end, which no count includes.
    row(out, "sent", counts.sent, Some(trial.rates.sent).filter(|_| counts.sent > 0))?;
    row(out, "completed", counts.completed, Some(trial.rates.completed))?;
    row(out, "good", counts.good, Some(trial.rates.good))?;
    for (outcome, count) in trial.outcomes.iter().filter(|(_, count)| *count > 0).skip(usize::from(counts.good > 0)) {
        let name = outcome.name().replace('_', " ");
        let share = count as f64 / counts.offered.max(1) as f64;
        writeln!(out, "    {name:<16}{:>6}  {}", display::count(count), display::percent(share))?;
    }
    for error in &trial.protocol_errors {
        writeln!(out, "    {error}")?;
    }
    for to in &trial.by_address {
        writeln!(out, "  {to}")?;
    }
    times(out, document, trial)?;
    transfer(out, document, trial)
}

/// The address that was measured, of a target with several.
fn measured_address(out: &mut String, document: &Document) -> std::fmt::Result {
    let plan = &document.plan;
    if let Some(proxy) = plan.settings.get("proxy") {
        return writeln!(out, "  through the proxy {proxy}, at {}", plan.address);
    }
    match plan.addresses.len() {
        0 | 1 => Ok(()),
        several if plan.settings.contains_key("addresses") => {
            writeln!(out, "  addresses: all {several} that the name has, in turn")
        }
        several => writeln!(out, "  address: {}, one of {several} that the name has", plan.address),
    }
}

/// Responses to the target by status code, and how many redirects were followed among them.
fn statuses(out: &mut String, indent: &str, trials: &[Trial]) -> std::fmt::Result {
    let (codes, followed) = Trial::responses_in(trials);
    if codes.is_empty() {
        return writeln!(out, "{indent}status: no response");
    }
    let counts: Vec<String> = codes.iter().map(|(code, count)| format!("{} x {code}", display::count(count))).collect();
    write!(out, "{indent}status: {}", counts.join(", "))?;
    if followed > 0 {
        write!(out, "; {} redirects followed", display::count(followed))?;
    }
    writeln!(out)
}

/// The parts of the log that were replayed and left out.
fn replayed(out: &mut String, log: &LogDocument) -> std::fmt::Result {
    let count = |count: u64, one: &str, many: &str| {
        format!("{} {}", display::count(count), if count == 1 { one } else { many })
    };
    write!(out, "  log: {}", count(log.requests, "request", "requests"))?;
    let skipped = &log.skipped;
    if skipped.total > 0 {
        let reasons = [
            (skipped.malformed, "with no valid request"),
            (skipped.method, "with a method whose body the log does not contain"),
            (skipped.target, "with an invalid target"),
            (skipped.proxy, "with a request to a proxy"),
            (skipped.format, "of another format"),
        ];
        let reasons = reasons.iter().filter(|(count, _)| *count > 0);
        let reasons: Vec<_> = reasons.map(|(count, reason)| format!("{} {reason}", display::count(*count))).collect();
        write!(out, "; {} skipped: {}", count(skipped.total, "line", "lines"), reasons.join(", "))?;
    }
    if log.pauses_shortened > 0 {
        let shortened = display::time((log.shortened_s * 1e9) as u64);
        write!(out, "; {} shortened, by {shortened} in all", count(log.pauses_shortened, "pause", "pauses"))?;
    }
    if log.displaced > 0 {
        write!(out, "; {} replayed later than logged", count(log.displaced, "request", "requests"))?;
    }
    writeln!(out)?;
    match &log.detected {
        Some(detected) => writeln!(out, "  log format: {detected}"),
        None if log.format.is_empty() => Ok(()),
        None => writeln!(out, "  log format: {}", log.format),
    }
}

/// The times of the trial. A row whose figures are all 0 does not apply to the load: nothing waited
/// for a connection, or every response came in one piece.
fn times(out: &mut String, document: &Document, trial: &Trial) -> std::fmt::Result {
    let rows: [(&str, &Summary); 7] = [
        ("response time", &trial.response_time_us),
        ("service time", &trial.service_time_us),
        ("first byte", &trial.first_byte_us),
        ("transfer", &trial.transfer_us),
        ("lag", &trial.lag_us),
        ("queue", &trial.queue_us),
        ("connect", &trial.connect_us),
    ];
    let rows = rows.into_iter().filter(|(_, summary)| summary.count > 0 && summary.max > 0.0);
    let cells = rows.map(|(name, summary)| {
        // A figure that has a limit is not rounded to it.
        let bound = |figure| if name == "response time" { document.plan.bound_on(figure) } else { None };
        let percentile = |percent| bound(Statistic::Percentile(percent));
        let values = [
            (summary.p50, percentile(50.0)),
            (summary.p90, percentile(90.0)),
            (summary.p99, percentile(99.0)),
            (summary.p999, percentile(99.9)),
            (summary.max, bound(Statistic::Max)),
        ];
        (name, values.map(|(us, bound)| display::time_within(us * 1e3, bound)))
    });
    let heads = ("", ["p50", "p90", "p99", "p99.9", "max"].map(str::to_owned));
    let cells: Vec<(&str, [String; 5])> = std::iter::once(heads).chain(cells).collect();
    // The rows fit 60 columns, unless a bound needs more digits.
    let longest = cells.iter().flat_map(|(_, values)| values).map(|value| value.chars().count()).max().unwrap_or(0);
    let width = if longest <= 7 { 9 } else { longest + 1 };
    writeln!(out)?;
    for (name, [p50, p90, p99, p999, max]) in &cells {
        writeln!(out, "  {name:<13}{p50:>width$}{p90:>width$}{p99:>width$}{p999:>width$}{max:>width$}")?;
    }
    Ok(())
}

fn transfer(out: &mut String, document: &Document, trial: &Trial) -> std::fmt::Result {
    let bytes = &trial.bytes;
    let received = display::bytes(bytes.received);
    let bits = display::link_rate((bytes.received as f64 * 8.0 / trial.seconds.max(1e-9)) as u64);
    let parts = [("content", bytes.body_received), ("heads", bytes.head_received), ("framing", bytes.framing_received)];
    let parts = parts.iter().filter(|(_, count)| *count > 0);
    let parts: Vec<String> = parts.map(|(name, count)| format!("{} {name}", display::bytes(*count))).collect();
    let split = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    writeln!(out, "\n  received {received} ({bits}){split}; sent {}", display::bytes(bytes.sent))?;
    connections(out, document, trial)?;
    handshakes(out, trial)?;
    streams(out, trial)?;
    let client = &trial.client;
    // The sum, where it is no request's.
    let (requests, unit) = if trial.counts.sent == 0 { (1, "") } else { (trial.counts.sent, " per request") };
    let [user, system] = [client.cpu_user_s, client.cpu_sys_s].map(|seconds| us(seconds * 1e6 / requests as f64));
    let busiest = display::percent(client.busiest_core);
    writeln!(out, "  client: {busiest} of its busiest CPU, {user} user and {system} system{unit}")?;
    if document.host.shared_with_target {
        writeln!(out, "  client and server shared this host")?;
    }
    Ok(())
}

/// TLS handshakes, and what most of them have negotiated.
fn handshakes(out: &mut String, trial: &Trial) -> std::fmt::Result {
    let Some(tls) = &trial.tls.as_ref().filter(|tls| tls.full + tls.resumed > 0) else { return Ok(()) };
    let (full, resumed) = (display::count(tls.full), display::count(tls.resumed));
    let time = [tls.handshake_us.p50, tls.handshake_us.p99].map(us);
    write!(out, "  TLS: {full} full and {resumed} resumed handshakes, p50 {}, p99 {}", time[0], time[1])?;
    if let Some(most) = tls.negotiated.first().map(|entry| &entry.parameters) {
        let parts = [Some(&most.version), Some(&most.suite), most.group.as_ref(), most.alpn.as_ref()];
        let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        write!(out, "; {}", parts.join(", "))?;
    }
    writeln!(out, "; certificates of {}", display::bytes(tls.chain_bytes))
}

/// HTTP/2 streams, and those that the server has ended without a response.
fn streams(out: &mut String, trial: &Trial) -> std::fmt::Result {
    let Some(streams) = &trial.streams else { return Ok(()) };
    let (opened, most) = (display::count(streams.opened), display::count(streams.concurrent_max));
    write!(out, "  HTTP/2: {opened} streams, at most {most} at the same time on a connection")?;
    for (frame, counts) in [("reset by the server", &streams.resets), ("GOAWAY received", &streams.goaways)] {
        let counts: Vec<String> =
            counts.iter().map(|(code, count)| format!("{} x {code}", display::count(*count))).collect();
        if !counts.is_empty() {
            write!(out, "; {frame}: {}", counts.join(", "))?;
        }
    }
    writeln!(out)?;
    streams.endings().map_or(Ok(()), |endings| writeln!(out, "  {endings}"))
}

fn connections(out: &mut String, document: &Document, trial: &Trial) -> std::fmt::Result {
    let connections = &trial.connections;
    let (opened, peak) = (display::count(connections.opened), display::count(connections.peak));
    write!(out, "  connections: {opened} opened, at most {peak} at the same time")?;
    if connections.failed > 0 {
        write!(out, ", {} failed", display::count(connections.failed))?;
    }
    if connections.met_close > 0 {
        let count = display::count(connections.met_close);
        write!(out, "; {count} requests met the close of a kept one")?;
        match connections.sent_again {
            0 => write!(out, " (--retry-idle sends them again)")?,
            again => write!(out, ", sent again {} times", display::count(again))?,
        }
    }
    // The number of held connections matters only to a load that was to hold some.
    if document.plan.settings.contains_key("hold") {
        let (held, progressing) = (display::count(connections.held), display::count(connections.progressing));
        write!(out, "; {held} open at the end, {progressing} of them with progress")?;
    }
    writeln!(out)?;
    let Some(sessions) = &trial.sessions else { return Ok(()) };
    let (completed, failed) = (display::count(sessions.completed), display::count(sessions.failed));
    write!(out, "  sessions: {completed} completed, {failed} failed")?;
    if sessions.calls_not_offered > 0 {
        write!(out, " ({} of their calls not offered)", display::count(sessions.calls_not_offered))?;
    }
    if sessions.lifetime_us.count > 0 {
        let (median, longest) = (us(sessions.lifetime_us.p50), us(sessions.lifetime_us.max));
        write!(out, "; length {median} median, {longest} maximum")?;
    }
    writeln!(out)
}

/// A line per trial, and capacity, peak and shape of each target.
fn swept(out: &mut String, document: &Document) -> std::fmt::Result {
    let method = document.plan.settings.get("method").map_or_else(String::new, |method| format!("{method} "));
    for target in document.sweep.iter().flat_map(|sweep| &sweep.targets) {
        writeln!(out, "{method}{}", target.target)?;
        for trial in target.trials.iter().filter_map(|position| document.trials.get(*position)) {
            writeln!(out, "  {}", styled_trial_line(trial, document))?;
        }
        writeln!(out)?;
    }
    writeln!(out, "{}  {}", verdict(document.verdict), report::sentence(document))?;
    statuses(out, "  ", &document.trials)?;
    document.reasons.iter().try_for_each(|reason| writeln!(out, "  {reason}"))
}

/// A line per trial, and why there is no more.
fn without_result(out: &mut String, document: &Document) -> std::fmt::Result {
    for trial in &document.trials {
        writeln!(out, "  {}", styled_trial_line(trial, document))?;
    }
    writeln!(out, "{}  {}", verdict(document.verdict), requested(document))?;
    document.reasons.iter().try_for_each(|reason| writeln!(out, "  {reason}"))
}

fn search(out: &mut String, document: &Document, find: &Find) -> std::fmt::Result {
    for trial in &document.trials {
        writeln!(out, "  {}", styled_trial_line(trial, document))?;
    }
    let limits = document.plan.limits.join(", ");
    let lower_bound_only =
        if find.is_lower_bound() && document.verdict == Verdict::Pass { ", as a lower bound only" } else { "" };
    writeln!(out, "\n{}{lower_bound_only}  {}", verdict(document.verdict), requested(document))?;
    statuses(out, "", &document.trials)?;
    // The reason of the verdict comes first where it is not the bounds, and where the bounds are
    // not clear without it.
    let first = document
        .reasons
        .first()
        .filter(|_| find.overload.is_some() || matches!(find.ended, None | Some(EndReason::Interrupted)));
    if let Some(reason) = first {
        writeln!(out, "{reason}")?;
    }
    let (target, shown) = (&document.plan.target, display::rate);
    let takes = if find.collapsed().is_some() { "handled, before it collapsed," } else { "handles" };
    if let Some(capacity) = find.capacity() {
        writeln!(out, "capacity {capacity} at {limits}")?;
    }
    for (number, restart) in (1..).zip(&find.restarts) {
        let capacity = restart.threshold.zip(restart.interval95).map_or_else(
            || "no capacity was found".to_owned(),
            |(rate, [low, high])| {
                format!(
                    "{} ({} to {})",
                    shown(rate),
                    shown(low).trim_end_matches("/s"),
                    shown(high).trim_end_matches("/s")
                )
            },
        );
        writeln!(out, "  after restart {number}: {capacity}")?;
    }
    match (find.lower_bound, find.upper_bound) {
        (Some(lower), Some(upper)) if find.capacity().is_some() => {
            writeln!(out, "in the trials {} passed, and {} was the lowest rate to fail", shown(lower), shown(upper))?;
        }
        (Some(lower), Some(upper)) => {
            writeln!(out, "{target} {takes} {} with {limits}, but not {}", shown(lower), shown(upper))?;
        }
        (Some(lower), None) => {
            let client = find.limit == LimitedBy::Client;
            let above = if client { "the client cannot offer more" } else { "no higher rate was judged" };
            writeln!(out, "{target} {takes} at least {} with {limits}; {above}", shown(lower))?;
        }
        (None, None) if find.ended.is_none() => {}
        (None, None) => writeln!(out, "no rate was judged with {limits}")?,
        (None, Some(_)) => writeln!(out, "{target} handled none of the rates tried with {limits}")?,
    }
    measured_address(out, document)?;
    writeln!(out, "bottleneck: {}", find.bottleneck())?;
    let said = |line: &&String| first != Some(*line);
    for line in find.evidence.iter().chain(&find.notes).filter(said) {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use thalweg_measure::trial::StreamFigures;
    use thalweg_report::document::SkippedLines;

    use super::*;
    use crate::format::fixture;

    /// The text behind the table of times.
    #[track_caller]
    fn check(trial: Trial, setting: Option<(&str, &str)>, expected: &str) {
        let mut document = fixture::document(vec![trial]);
        document.plan.settings.extend(setting.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let text = of(&document, None);
        let (_, said) = text.split_once("\n\n  received").expect("it says what was received");
        assert_eq!(format!("received{said}"), expected, "\n{text}");
    }

    const CLIENT: &str = "  client: 7.50 % of its busiest CPU, 125 us user and 250 us system per request
  client and server shared this host
";

    #[test]
    fn a_moved_rule_is_split_up() {
        let received = "received 1.50 MB (1.20 Mbit/s): 1.02 MB content, 476 KB heads, 3.98 KB framing; sent 134 KB\n";
        let opened = "  connections: 498 opened, at most 7 at the same time, 3 failed";
        check(fixture::trial(), None, &format!("{received}{opened}\n{CLIENT}"));
        let held = format!("{received}{opened}; 5 open at the end, 4 of them with progress\n{CLIENT}");
        check(fixture::trial(), Some(("hold", "5")), &held);
        let sessions = "  sessions: 19 completed, 1 failed (1 of their calls not offered); length 2.00 s median, \
            2.00 s maximum";
        let trial = Trial { sessions: Some(fixture::sessions()), ..fixture::trial() };
        check(trial, None, &format!("{received}{opened}\n{sessions}\n{CLIENT}"));
    }

    #[test]
    fn streams_that_the_server_has_ended_are_named_by_error_code() {
        let received = "received 1.50 MB (1.20 Mbit/s): 1.02 MB content, 476 KB heads, 3.98 KB framing; sent 134 KB\n";
        let opened = "  connections: 498 opened, at most 7 at the same time, 3 failed\n";
        let mut figures = StreamFigures::default();
        figures.record_connection(2000, 8);
        let usual = "  HTTP/2: 2,000 streams, at most 8 at the same time on a connection";
        let trial = Trial { streams: Some(figures.summary()), ..fixture::trial() };
        check(trial, None, &format!("{received}{opened}{usual}\n{CLIENT}"));
        figures.resets = [("CANCEL", 2), ("REFUSED_STREAM", 10)].into();
        figures.goaways = [("NO_ERROR", 1)].into();
        (figures.refused, figures.retried) = (12, 11);
        figures.ended_in_order.record(1000);
        let ended = "; reset by the server: 2 x CANCEL, 10 x REFUSED_STREAM; GOAWAY received: 1 x NO_ERROR\n  the target ended \
            1 connection in order (GOAWAY) after 1,000 requests; 12 requests were not processed, and sent again 11 times";
        let trial = Trial { streams: Some(figures.summary()), ..fixture::trial() };
        check(trial, None, &format!("{received}{opened}{usual}{ended}\n{CLIENT}"));
    }

    #[test]
    fn a_replay_says_what_it_has_left_out_and_why() {
        let mut document = fixture::document(vec![fixture::trial()]);
        let skipped = SkippedLines { total: 1203, malformed: 3, method: 1200, target: 0, proxy: 0, format: 0 };
        let log = |requests, skipped, displaced| LogDocument {
            format: String::new(),
            detected: None,
            requests,
            skipped,
            displaced,
            pauses_shortened: 0,
            shortened_s: 0.0,
        };
        document.log = Some(log(1, skipped, 2));
        let expected = "  log: 1 request; 1,203 lines skipped: 3 with no valid request, 1,200 with a method whose body the log does not \
            contain; 2 requests replayed later than logged\n\n  offered";
        assert!(of(&document, None).contains(expected), "{}", of(&document, None));
        let nothing = SkippedLines { total: 0, malformed: 0, method: 0, target: 0, proxy: 0, format: 0 };
        document.log = Some(log(20, nothing, 0));
        assert!(of(&document, None).contains("\n  log: 20 requests\n\n  offered"), "{}", of(&document, None));
    }

    #[test]
    fn nothing_is_said_of_what_did_not_happen() {
        let nothing = "received 0 B (0 bit/s); sent 0 B\n  connections: 0 opened, at most 0 at the same time\n";
        let text = of(&fixture::document(vec![fixture::nothing()]), None);
        assert!(text.contains(nothing), "{text}");
        assert!(!text.contains("response time"), "{text}");
    }
}
