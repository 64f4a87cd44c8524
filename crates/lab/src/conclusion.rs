//! The conclusion of a search, in the document's form and in words. A sentence claims no more than
//! the trials have shown.

use thalweg_measure::Verdict;
use thalweg_measure::search::{Collapse, EndReason, SearchResult, USUAL_WIDTH, shape_of};
use thalweg_report::document::{Find, LimitedBy, Overload, OverloadShape, Trial};
use thalweg_units::display;

use crate::bottleneck::{Bottleneck, Evidence, name_bottleneck};

/// The conclusion of a search.
#[derive(Debug)]
pub struct Conclusion {
    /// The bounds and their explanation in the document's form.
    pub find: Find,
    /// The verdict on the whole: PASS when a rate was found.
    pub verdict: Verdict,
    /// The reasons of the verdict, one sentence each.
    pub reasons: Vec<String>,
    /// Every trial in order.
    pub trials: Vec<Trial>,
}

/// Draws the conclusion of a search.
pub(crate) fn conclude(evidence: &Evidence<'_>) -> Conclusion {
    let result = evidence.result;
    let overload = overload_of(result);
    let Bottleneck { limit, cause, findings, mut sentences } = name_bottleneck(evidence);
    let (verdict, reason) = verdict_of(result, limit, cause.as_deref());
    // The effect of an overload on the target comes first.
    let collapsed = overload.as_ref().filter(|overload| overload.has_collapsed()).map(Overload::sentence);
    sentences.splice(0..0, collapsed.clone());
    let contradicted = contradiction(result);
    let mut notes = notes(result, limit);
    notes.extend(overload.as_ref().filter(|overload| !overload.has_collapsed()).map(Overload::sentence));
    notes.extend(
        Some(lost_s(evidence.trials)).filter(|lost| *lost > 0.05).map(|lost| {
            format!("{lost:.1} s of the trials were left out, because something else disturbed the client")
        }),
    );
    notes.extend(passed_above(result, evidence.trials));
    notes.splice(0..0, contradicted.clone());
    let reasons = collapsed.into_iter().chain([reason]).chain(contradicted).collect();
    Conclusion {
        find: Find {
            lower_bound: result.lower_bound,
            upper_bound: result.upper_bound,
            lower_confirmed: result.lower_confirmed,
            upper_confirmed: result.upper_confirmed,
            threshold: result.estimate.map(|estimate| estimate.threshold),
            interval95: result.estimate.map(|estimate| estimate.interval95),
            spread: result.estimate.map(|estimate| estimate.spread),
            drift: result.drift,
            restarts: Vec::new(),
            lost_s: lost_s(evidence.trials),
            ended: Some(result.ended),
            overload,
            limit,
            cause,
            evidence: sentences,
            findings,
            client_ceiling: Some(evidence.ceiling),
            notes,
        },
        verdict,
        reasons,
        trials: evidence.trials.to_vec(),
    }
}

/// The conclusion for a target that responds, but whose first trial brought no good response.
pub(crate) fn nothing_good(probe: Trial, ends: &str, redirects: Option<String>) -> Conclusion {
    let codes: Vec<String> = probe.status_codes.iter().map(|(code, count)| format!("{count} x {code}")).collect();
    let codes = if codes.is_empty() { String::new() } else { format!(" (status {})", codes.join(", ")) };
    let reason = format!("the target responds, but no response of the first trial was good: {ends}{codes}");
    let reasons = [reason].into_iter().chain(redirects).collect();
    without_a_rate(probe, Verdict::Fail, reasons, "no rate was tried, because none could have met the limits")
}

/// Concludes from first estimates in which the client did not run, so that they say nothing about
/// the target.
pub(crate) fn nothing_offered(probe: Trial) -> Conclusion {
    let reason = "the client offered no request in the first trial, because it got no CPU time; end what else runs on \
                  this host";
    let reasons = [reason.to_owned()].into_iter().chain(probe.reasons.iter().cloned()).collect();
    without_a_rate(probe, Verdict::Invalid, reasons, "no rate was tried, because the client was stalled")
}

/// The conclusion of a search that ends with its first estimate.
fn without_a_rate(probe: Trial, verdict: Verdict, reasons: Vec<String>, evidence: &str) -> Conclusion {
    Conclusion {
        find: Find {
            lower_bound: None,
            upper_bound: None,
            lower_confirmed: false,
            upper_confirmed: false,
            threshold: None,
            interval95: None,
            spread: None,
            drift: None,
            restarts: Vec::new(),
            lost_s: 0.0,
            ended: None,
            overload: None,
            limit: LimitedBy::Undetermined,
            cause: None,
            findings: Vec::new(),
            evidence: vec![evidence.to_owned()],
            client_ceiling: None,
            notes: Vec::new(),
        },
        verdict,
        reasons,
        trials: vec![probe],
    }
}

/// Seconds of all trials that were left out.
fn lost_s(trials: &[Trial]) -> f64 {
    trials.iter().map(|trial| trial.lost_s).sum()
}

/// The effect of the overload: a collapse that the search ran into, or the trials that it ended
/// with.
fn overload_of(result: &SearchResult) -> Option<Overload> {
    let points = result.overload.clone();
    let curve = shape_of(&points, result.goodput.unwrap_or(0.0));
    if let Some(collapse) = &result.collapse {
        return Some(Overload { points, ..overload_by(collapse) });
    }
    let (shape, last) = curve.zip(points.last())?;
    Some(Overload {
        shape,
        recovered: result.recovered.flatten().is_some(),
        recovery_s: result.recovered.flatten(),
        held_rate: result.lower_bound.unwrap_or(0.0),
        overload_rate: last.offered_rate,
        failed_rate: None,
        waited_s: 0.0,
        failed_looks: 0,
        times: 0,
        points,
    })
}

fn overload_by(collapse: &Collapse) -> Overload {
    Overload {
        shape: OverloadShape::Collapse,
        recovered: collapse.recovery_s.is_some(),
        recovery_s: collapse.recovery_s,
        held_rate: collapse.held,
        overload_rate: collapse.overload,
        failed_rate: Some(collapse.failed),
        waited_s: collapse.waited_s,
        failed_looks: collapse.failed_probes,
        times: collapse.times,
        points: Vec::new(),
    }
}

fn verdict_of(result: &SearchResult, limit: LimitedBy, cause: Option<&str>) -> (Verdict, String) {
    if let (EndReason::Disturbed, LimitedBy::Client, Some(cause)) = (result.ended, limit, cause) {
        return (Verdict::Invalid, format!("the client could not measure: {cause}"));
    }
    if result.ended == EndReason::Disturbed {
        return (Verdict::Invalid, "this host was too busy with other programs to measure".to_owned());
    }
    if result.collapse.is_some_and(|collapse| collapse.recovery_s.is_none()) {
        return (Verdict::Fail, "the bounds are from before the collapse".to_owned());
    }
    let interrupted = result.ended == EndReason::Interrupted;
    match result.lower_bound.map(display::rate) {
        Some(rate) if interrupted => {
            (Verdict::Pass, format!("{rate} met all limits before the search was interrupted"))
        }
        Some(rate) if result.ended == EndReason::ClientCeiling => (
            Verdict::Pass,
            format!(
                "{rate} meets all limits; this is a lower bound, because the client cannot offer \
                more"
            ),
        ),
        Some(rate) if result.upper_bound.is_none() => (
            Verdict::Pass,
            format!("{rate} meets all limits; this is a lower bound, because no higher rate was shown to fail"),
        ),
        Some(rate) => (Verdict::Pass, format!("{rate} meets all limits")),
        None if limit == LimitedBy::Client => (Verdict::Invalid, "the client fell short at every rate".to_owned()),
        None if interrupted && result.upper_bound.is_none() => {
            (Verdict::Invalid, "the search was interrupted before any rate was judged".to_owned())
        }
        None if interrupted => (Verdict::Fail, "no rate met all limits before the search was interrupted".to_owned()),
        None => (Verdict::Fail, "no rate met all limits".to_owned()),
    }
}

fn notes(result: &SearchResult, limit: LimitedBy) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |text: &str| notes.push(text.to_owned());
    match result.ended {
        EndReason::WidthReached => {}
        EndReason::TimeOver => notes.extend(time_wanted(result)),
        EndReason::ClientCeiling => note("the client reached its ceiling before the target"),
        EndReason::LowestRate => note("the lowest rate already misses the limits"),
        EndReason::BudgetSpent => note("the time budget ran out before the interval was narrow enough"),
        EndReason::TrialsSpent => {
            note("the maximum number of trials was reached before the interval was narrow enough")
        }
        EndReason::NotRecovered => {
            note("the search ended with the collapse; restart the target before the next search")
        }
        EndReason::Interrupted => note("the search was interrupted; the result is incomplete"),
        EndReason::Disturbed if limit == LimitedBy::Client => note(
            "the search was stopped: one trial after the other was invalid at a rate that the client reaches easily otherwise",
        ),
        EndReason::Disturbed => note(
            "the search was stopped: one trial after the other was invalid at a rate that the client reaches easily, so \
             something else uses its CPUs (another program, or another guest of the same hypervisor)",
        ),
    }
    notes.extend(few_samples(result));
    if let Some(drift) = result.drift {
        let [before, after] = [drift.before, drift.after]
            .map(|[low, high]| format!("{} to {}", display::rate(low).trim_end_matches("/s"), display::rate(high)));
        notes.push(format!(
            "the capacity moved during the search: {before} by the first {} trials, {after} by the last {}; the interval \
             covers both",
            drift.trials_before, drift.trials_after
        ));
    }
    notes
}

/// How long a narrower interval would take.
fn time_wanted(result: &SearchResult) -> Option<String> {
    let estimate = result.estimate?;
    let seconds = result.to_usual_width_s.filter(|_| estimate.width() > USUAL_WIDTH)?;
    let (width, usual) = (display::percent(estimate.width()), format!("{:.0}%", USUAL_WIDTH * 100.0));
    let time = match seconds {
        seconds if seconds < 90.0 => format!("{:.0} s", (seconds / 10.0).ceil() * 10.0),
        seconds if seconds < 5400.0 => format!("{:.0} min", (seconds / 60.0).ceil()),
        seconds => format!("{:.0} h", (seconds / 3600.0).ceil()),
    };
    Some(format!("the interval is {width} wide; with --width {usual} the search would take about {time}"))
}

/// The highest rate of a trial that passed although it lies above the interval.
fn passed_above(result: &SearchResult, trials: &[Trial]) -> Option<String> {
    let [_, high] = result.estimate?.interval95;
    let offered = |trial: &&Trial| trial.offered_rate.unwrap_or(0.0);
    let passed = trials.iter().filter(|trial| trial.verdict == Verdict::Pass && offered(trial) > high);
    let highest = passed.max_by(|a, b| offered(a).total_cmp(&offered(b)))?;
    let (rate, length) = (display::rate(offered(&highest)), display::time((highest.seconds * 1e9) as u64));
    Some(format!(
        "{rate} passed in a trial of {length}, above the interval: in so short a time a queue may not reach the limit yet; \
         if a longer trial passes as well, the capacity is higher"
    ))
}

/// Trials with few requests see few clusters of slow ones, and more than half of them see fewer
/// than there are on average.
fn few_samples(result: &SearchResult) -> Option<String> {
    let (estimate, wanted) = (result.estimate?, result.samples_wanted?);
    let samples = (estimate.threshold * result.estimate_trial.as_secs_f64()) as u64;
    (samples < wanted).then(|| {
        format!(
            "a trial had about {} requests, and the limit's percentile wants {}: if slow requests come in clusters, the \
             rate that meets the limit in the long run may lie below the interval",
            display::count(samples),
            display::count(wanted)
        )
    })
}

/// A sentence about a contradiction between the history and the result, which is luck or an
/// overload that changed the target.
fn contradiction(result: &SearchResult) -> Option<String> {
    let (passed, upper) = (display::rate(result.contradicted?), display::rate(result.upper_bound?));
    Some(format!(
        "{passed} passed once, but after higher rates even {upper} failed: the pass was luck, or an overload changed \
         the target"
    ))
}
