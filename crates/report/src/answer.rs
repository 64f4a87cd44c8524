//! The answer of a result in one sentence.
//!
//! A sentence claims no more than the document does: what passed is named, what was not reached is
//! "at least", and where the client fell short, the sentence makes no claim about the target.

use thalweg_measure::Verdict;
use thalweg_measure::limit::Statistic;
use thalweg_measure::outcome::Outcome;
use thalweg_measure::search::EndReason;
use thalweg_units::display;

use super::curve::Curve;
use super::headline::headline_trial;
use super::words;
use crate::document::{Document, Find, Kind, LimitedBy, Measured, Trial};

/// The answer, for the top of the page.
pub(super) fn sentence(document: &Document) -> String {
    match (document.kind, &document.find) {
        (Kind::Find, Some(find)) => find_sentence(document, find),
        (Kind::Find, None) => format!("The search on {} ended without a result.", subject(document)),
        (Kind::Sweep, _) => Curve::all_of(document).iter().map(Curve::sentence).collect::<Vec<_>>().join(" "),
        (Kind::Compare, _) => match &document.compare {
            Some(compare) => words::as_sentence(&compare.sentence),
            None => format!("The comparison on {} ended without a result.", subject(document)),
        },
        (Kind::Suite, _) => document.suite.as_ref().map_or_else(String::new, Measured::sentence),
        (Kind::Run | Kind::Replay, _) => match headline_trial(document) {
            Some(trial) => run_sentence(document, trial),
            None => format!("Nothing was run against {}.", subject(document)),
        },
    }
}

/// The answer in a few words, for the title of the window.
pub(super) fn title(document: &Document) -> String {
    let target = &document.plan.target;
    if let Some((compare, effect)) = document.compare.as_ref().and_then(|compare| Some((compare, compare.effect?))) {
        let [a, b] = compare.names();
        return format!("{b} / {a} = {effect:.3} – {target} – Thalweg");
    }
    let find = document.find.as_ref();
    match find.and_then(|find| find.lower_bound) {
        Some(_) if find.is_some_and(|find| find.collapsed().is_some()) => format!("collapsed – {target} – Thalweg"),
        Some(rate) if find.is_some_and(Find::is_lower_bound) => {
            format!("at least {} – {target} – Thalweg", words::per_second(rate))
        }
        Some(_) if find.is_some_and(Find::is_too_wide) => format!("not determinable in this time – {target} – Thalweg"),
        Some(rate) => {
            let capacity = find.and_then(|find| find.interval95.and(find.threshold)).unwrap_or(rate);
            format!("{} – {target} – Thalweg", words::per_second(capacity))
        }
        None => format!("{} – {target} – Thalweg", document.verdict.title()),
    }
}

/// The process that responds, if it was found, and its host.
fn subject(document: &Document) -> String {
    let target = &document.plan.target;
    let seen = document.trials.iter().rev().find_map(|trial| trial.server.as_ref());
    match seen {
        Some(server) if !server.process.is_empty() => format!("{} at {target}", server.process),
        _ => target.clone(),
    }
}

fn find_sentence(document: &Document, find: &Find) -> String {
    let subject = subject(document);
    let limits = words::limits(&document.plan.limits);
    let with_limits = if limits.is_empty() { String::new() } else { format!(" with {limits}") };
    let requests = |rate: f64| format!("{} requests/s", words::rate(rate));
    let client_fell_short = document.verdict == Verdict::Invalid;
    if find.ended.is_none()
        && find.lower_bound.is_none()
        && !document.reasons.is_empty()
        && find.client_ceiling.is_none()
    {
        return format!("No rate was tried with {subject}: no response of the first trial was good.");
    }
    if let Some(overload) = find.collapsed() {
        return format!("{subject} {}.", overload.predicate());
    }
    // Other effects of an overload are among the notes.
    let collapsed = match &find.overload {
        Some(overload) if overload.has_collapsed() => format!("{subject} {}. ", overload.predicate()),
        _ => String::new(),
    };
    let cut_short = client_fell_short && find.ended == Some(EndReason::Interrupted);
    let answer = match (find.lower_bound, find.upper_bound) {
        (Some(lower), _) if cut_short => format!(
            "The search on {subject} was interrupted, so that its capacity is unknown. The highest rate that passed \
             until then was {}.",
            requests(lower)
        ),
        (None, _) if cut_short => {
            format!("The search on {subject} was interrupted before a rate passed, so that its capacity is unknown.")
        }
        (Some(lower), Some(_)) if client_fell_short => format!(
            "The capacity of {subject} is unknown: the client fell short. The highest rate that passed was {}.",
            requests(lower)
        ),
        (Some(lower), Some(_)) => bounded(find, lower, &subject, &with_limits),
        (Some(lower), None) => {
            let why = match find.limit {
                _ if find.ended == Some(EndReason::Interrupted) => "the search was interrupted",
                LimitedBy::Client => "the client could not offer more",
                _ => "no higher rate was confirmed to fail",
            };
            format!("{subject} handles at least {}{with_limits}; {why}.", requests(lower))
        }
        (None, _) if client_fell_short => {
            format!("The capacity of {subject} is unknown: the client, not the target, fell short.")
        }
        (None, Some(upper)) => {
            let missed = if limits.is_empty() { "passed".to_owned() } else { format!("met {limits}") };
            format!("{subject} {missed} at none of the rates tried, down to {}.", requests(upper))
        }
        (None, None) => format!("No rate was confirmed to pass or to fail for {subject}."),
    };
    collapsed + &answer
}

/// The capacity of a target that failed above it: the estimate, or the highest rate that passed.
fn bounded(find: &Find, lower: f64, subject: &str, with_limits: &str) -> String {
    let requests = |rate: f64| format!("{} requests/s", words::rate(rate));
    let at_least = if find.limit == LimitedBy::Client { "at least " } else { "" };
    let limited_by = limited_by(find.limit);
    match find.interval95.zip(find.threshold) {
        Some(([low, high], _)) if find.is_too_wide() => format!(
            "The capacity of {subject} is not determinable in this time: {at_least}{} to {}{with_limits} (95 % interval); \
             {limited_by}.",
            words::rate(low),
            requests(high)
        ),
        Some(([low, high], capacity)) => format!(
            "{subject} handles {at_least}{} (95 % interval {} to {}){with_limits}; {limited_by}.",
            requests(capacity),
            words::rate(low),
            requests(high)
        ),
        None => format!("{subject} handles {at_least}{}{with_limits}; {limited_by}.", requests(lower)),
    }
}

fn limited_by(limit: LimitedBy) -> &'static str {
    match limit {
        LimitedBy::Server => "the bottleneck is the server",
        LimitedBy::Client => "the bottleneck is the client",
        LimitedBy::Network => "the bottleneck is the network",
        LimitedBy::Undetermined => "the bottleneck is undetermined",
    }
}

fn run_sentence(document: &Document, trial: &Trial) -> String {
    let length = words::seconds(trial.seconds);
    let load = match trial.offered_rate {
        Some(rate) => format!("{} offered for {length}", words::per_second(rate)),
        None => format!("Closed loop for {length}, {} good", words::per_second(trial.rates.good)),
    };
    if document.verdict == Verdict::Invalid && document.was_interrupted() && trial.counts.offered > 0 {
        let so_far = how_it_ended(document, trial);
        return format!("{load}, until it was interrupted before its planned end: {so_far}. It is not judged.");
    }
    if document.verdict == Verdict::Invalid {
        return format!("{load}: the client fell short, so the trial says nothing about {}.", subject(document));
    }
    if trial.counts.offered == 0 {
        return format!("{load}: no request was due.");
    }
    format!("{load}: {}.", how_it_ended(document, trial))
}

/// `all 50,000 requests good, p99 310 µs`.
fn how_it_ended(document: &Document, trial: &Trial) -> String {
    let (offered, good) = (trial.counts.offered, trial.counts.good);
    let requests = words::counted(offered, "request");
    let others: Vec<String> = others(trial).into_iter().map(|(n, kind)| format!("{n} {kind}")).collect();
    let others = words::enumerated(&others);
    let p99 = match trial.response_time_us.count {
        0 => String::new(),
        _ => {
            let bound = document.plan.bound_on(Statistic::Percentile(99.0));
            format!(", p99 {}", words::time_us_within(trial.response_time_us.p99, bound))
        }
    };
    match good {
        0 => format!("none of {requests} good ({others})"),
        _ if good == offered => format!("all {requests} good{p99}"),
        _ => format!("{} of {requests} good ({others}){p99}", display::count(good)),
    }
}

/// Each way other than good in which requests of the trial ended: how many, and its name.
pub(super) fn others(trial: &Trial) -> Vec<(String, String)> {
    let not_good = |(outcome, n): &(Outcome, u64)| *outcome != Outcome::Good && *n > 0;
    trial.outcomes.iter().filter(not_good).map(|(outcome, n)| (display::count(n), outcome.to_string())).collect()
}
