//! The conditions that a result was held against, as test cases: what each is called, how it ended,
//! and the sentence that says why.
//!
//! Formats for pipelines are made of them. A result whose verdict is not PASS has at least one case
//! that says so, and one with PASS has none; the exit code and a pipeline's own count of failures
//! therefore agree.

use thalweg_measure::limit::{Figure as LimitFigure, Limit, Statistic};
use thalweg_measure::{LoopKind, Verdict};
use thalweg_report as report;
use thalweg_report::document::{Compare, Document, Figure, Find, Measured, Sweep, Trial};
use thalweg_units::display;

use crate::progress::trial_line;

/// The case that says whether the client did its part.
const MEASUREMENT: &str = "measurement";
/// The case of all that the limits do not name, such as a backlog that grew.
const LOAD: &str = "offered load";

/// One condition of a result.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TestCase {
    /// Its name, such as `p99<50ms`; no other case of the result has the same.
    pub(super) name: String,
    /// How it ended.
    pub(super) end: CaseEnd,
    /// Why, in one sentence; empty where there is nothing to say.
    pub(super) sentence: String,
    /// Figures behind it, in lines.
    pub(super) details: Vec<String>,
    /// Measured time, seconds.
    pub(super) seconds: f64,
}

/// How a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CaseEnd {
    /// The target met the condition.
    Passed,
    /// It did not.
    Failed,
    /// The client fell short, so nothing is known.
    Invalid,
    /// It was not judged, and the verdict does not rest on it.
    Skipped,
}

impl From<Verdict> for CaseEnd {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Pass => Self::Passed,
            Verdict::Fail => Self::Failed,
            Verdict::Invalid => Self::Invalid,
        }
    }
}

impl TestCase {
    fn new(name: impl Into<String>, end: CaseEnd, sentence: impl Into<String>) -> Self {
        Self { name: name.into(), end, sentence: sentence.into(), details: Vec::new(), seconds: 0.0 }
    }
}

/// The cases of a result.
pub(super) fn test_cases(document: &Document) -> Vec<TestCase> {
    let mut cases = match (&document.suite, &document.compare, &document.find, &document.sweep) {
        (Some(measured), ..) => figures(measured),
        (None, Some(compare), ..) => metrics(document, compare),
        (None, None, Some(find), _) => vec![capacity(document, find)],
        (None, None, None, Some(sweep)) => rates(document, sweep),
        (None, None, None, None) => document.trials.last().map_or_else(Vec::new, |trial| limits(document, trial)),
    };
    let end = CaseEnd::from(document.verdict);
    if end != CaseEnd::Passed && cases.iter().all(|case| case.end != end) {
        cases.push(TestCase::new("verdict", end, why(document)));
    }
    cases
}

/// The reasons of the verdict in one line; the answer where there are none.
fn why(document: &Document) -> String {
    if document.reasons.is_empty() { report::sentence(document) } else { document.reasons.join("; ") }
}

/// The cases of a command that makes one trial: one for each limit, one for the client, and one for
/// all that the target has to do beside the limits.
fn limits(document: &Document, trial: &Trial) -> Vec<TestCase> {
    let is_invalid = trial.verdict == Verdict::Invalid;
    let mut unclaimed: Vec<&String> = trial.reasons.iter().filter(|reason| !is_remark(reason)).collect();
    let mut cases = Vec::new();
    for limit in effective_limits(&document.plan.limits) {
        let claimed = unclaimed.iter().position(|reason| concerns(reason, &limit));
        let case = match claimed.map(|position| unclaimed.remove(position)) {
            _ if is_invalid => TestCase::new(limit.to_string(), CaseEnd::Skipped, "not judged: the client fell short"),
            Some(reason) => TestCase::new(limit.to_string(), CaseEnd::Failed, reason),
            None => TestCase::new(limit.to_string(), CaseEnd::Passed, ""),
        };
        cases.push(TestCase { details: observed(trial, &limit), ..case });
    }
    let unclaimed: Vec<&str> = unclaimed.into_iter().map(String::as_str).collect();
    let unclaimed = unclaimed.join("; ");
    if is_invalid {
        cases.insert(0, TestCase::new(MEASUREMENT, CaseEnd::Invalid, trial.reasons.join("; ")));
    } else {
        let end = if unclaimed.is_empty() { CaseEnd::Passed } else { CaseEnd::Failed };
        cases.insert(0, TestCase::new(MEASUREMENT, CaseEnd::Passed, ""));
        cases.push(TestCase { details: vec![counts(trial)], ..TestCase::new(LOAD, end, unclaimed) });
    }
    cases.iter_mut().for_each(|case| case.seconds = trial.seconds);
    cases
}

/// Whether a line of a trial's reasons explains figures and is no reason of its verdict.
fn is_remark(line: &str) -> bool {
    const REMARKS: [&str; 13] = [
        " recommended",
        " too few to detect a growing backlog",
        " are not counted",
        " are left out, because ",
        " were not made, because ",
        " failures of an unknown kind",
        "the trial was ended after ",
        "the observer was lost",
        "connections that failed in TLS",
        "redirect",
        // Lateness of the client that has not decided the verdict.
        "the client was late: ",
        "the client sent late: ",
        " waited for its CPU for ",
    ];
    REMARKS.iter().any(|remark| line.contains(remark))
}

/// The limits of a plan, with that on errors, which holds if no other is given.
fn effective_limits(texts: &[String]) -> Vec<Limit> {
    let mut limits: Vec<Limit> = texts.iter().filter_map(|text| text.parse().ok()).collect();
    if !limits.iter().any(|limit| matches!(limit, Limit::Errors { .. })) {
        limits.push(Limit::NO_ERRORS);
    }
    limits
}

/// Whether a reason of a verdict is about this limit.
fn concerns(reason: &str, limit: &Limit) -> bool {
    match limit {
        Limit::ResponseTime { statistic, bound, .. } => {
            let bound = display::exact_time_spaced(*bound);
            let is_of_statistic = reason.starts_with(&format!("{statistic} "));
            (is_of_statistic && reason.ends_with(&format!("the limit of {bound}")))
                || reason.contains(&limit.to_string())
        }
        Limit::Errors { .. } | Limit::KbitPerConnection { .. } | Limit::Figure { .. } => {
            reason.contains(&limit.to_string())
        }
    }
}

/// The figure that a limit is on, as it was observed.
fn observed(trial: &Trial, limit: &Limit) -> Vec<String> {
    let line = match limit {
        Limit::ResponseTime { statistic, bound, .. } => {
            let times = &trial.response_time_us;
            let us = match statistic {
                Statistic::Percentile(percent) => [
                    (50.0, times.p50),
                    (75.0, times.p75),
                    (90.0, times.p90),
                    (95.0, times.p95),
                    (99.0, times.p99),
                    (99.9, times.p999),
                    (99.99, times.p9999),
                ]
                .into_iter()
                .find(|(known, _)| known == percent)
                .map(|(_, us)| us),
                Statistic::Mean => Some(times.mean),
                Statistic::Max => Some(times.max),
            };
            us.filter(|_| times.count > 0)
                .map(|us| format!("response time {statistic}: {}", display::time_within(us * 1e3, Some(*bound))))
        }
        Limit::Errors { .. } => {
            let (errors, offered) = (trial.outcomes.errors(), trial.counts.offered);
            Some(format!("errors: {} of {}", display::count(errors), display::count(offered)))
        }
        Limit::Figure { figure: LimitFigure::Rate, .. } => {
            Some(format!("good responses: {}", display::rate(trial.rates.good)))
        }
        Limit::Figure { .. } => None,
        Limit::KbitPerConnection { .. } => {
            Some(format!("connections at this rate: {}", display::count(trial.connections.conforming)))
        }
    };
    line.into_iter().collect()
}

fn counts(trial: &Trial) -> String {
    let counts = &trial.counts;
    let [offered, completed, good] = [counts.offered, counts.completed, counts.good].map(display::count);
    let kind = if trial.loop_kind == LoopKind::Open { "open" } else { "closed" };
    format!("{kind} loop: {offered} offered, {completed} completed, {good} good")
}

/// The one case of a search. Rates that fail are how a search finds the capacity, and no failures.
fn capacity(document: &Document, find: &Find) -> TestCase {
    let limits: Vec<String> = effective_limits(&document.plan.limits).iter().map(ToString::to_string).collect();
    let bound = document.plan.bound_on(Statistic::Percentile(99.0));
    let sentence = report::sentence(document);
    let sentence = match document.verdict {
        Verdict::Pass => sentence,
        Verdict::Fail | Verdict::Invalid => with_reasons(sentence, &document.reasons),
    };
    let mut details: Vec<String> = find.capacity().map(|capacity| format!("capacity {capacity}")).into_iter().collect();
    details.push(format!("bottleneck: {}", find.bottleneck()));
    details.extend(document.trials.iter().map(|trial| trial_line(trial, bound)));
    let name = format!("capacity at {}", limits.join(", "));
    let seconds = document.trials.iter().map(|trial| trial.seconds).sum();
    TestCase { details, seconds, ..TestCase::new(name, document.verdict.into(), sentence) }
}

/// A sentence with those reasons that it does not say itself.
fn with_reasons(sentence: String, reasons: &[String]) -> String {
    let others: Vec<&String> = reasons.iter().filter(|reason| !sentence.contains(reason.as_str())).collect();
    others.into_iter().fold(sentence, |said, reason| format!("{said} {reason}."))
}

/// A case for each rate and target of a sweep.
fn rates(document: &Document, sweep: &Sweep) -> Vec<TestCase> {
    let bound = document.plan.bound_on(Statistic::Percentile(99.0));
    let mut cases = Vec::new();
    for target in &sweep.targets {
        let of = if sweep.targets.len() > 1 { format!("{} ", target.name) } else { String::new() };
        for trial in target.trials.iter().filter_map(|position| document.trials.get(*position)) {
            let rate = trial.offered_rate.map_or_else(|| "full speed".to_owned(), display::rate);
            let end = match trial.verdict {
                // Some trials were valid, and the verdict rests on those.
                Verdict::Invalid if document.verdict == Verdict::Pass => CaseEnd::Skipped,
                verdict => verdict.into(),
            };
            let case = TestCase::new(format!("{of}at {rate}"), end, trial.reasons.join("; "));
            cases.push(TestCase { details: vec![trial_line(trial, bound)], seconds: trial.seconds, ..case });
        }
    }
    cases
}

/// A case for each metric of a comparison. The verdict rests on the primary one; the others are
/// descriptive.
fn metrics(document: &Document, compare: &Compare) -> Vec<TestCase> {
    let seconds: f64 = document.trials.iter().map(|trial| trial.seconds).sum();
    let case = |metric: &thalweg_report::document::MetricComparison| {
        let end = if metric.primary { document.verdict.into() } else { CaseEnd::Passed };
        let sentence = match end {
            CaseEnd::Passed | CaseEnd::Skipped => metric.sentence.clone(),
            CaseEnd::Failed | CaseEnd::Invalid => why(document),
        };
        let mut details = vec![metric.sentence.clone()];
        details.extend(metric.effect.map(|effect| format!("B / A: {effect:.4}")));
        details.extend(metric.interval95.map(|[low, high]| format!("95 % interval: {low:.4} to {high:.4}")));
        details.push(format!("pairs of rounds: {}", metric.pairs));
        TestCase { details, seconds, ..TestCase::new(metric.metric.clone(), end, sentence) }
    };
    compare.metrics.iter().map(case).collect()
}

/// A case for each figure of a suite: whether it was measured.
fn figures(measured: &Measured) -> Vec<TestCase> {
    let case = |figure: &Figure| {
        let end = match figure.value {
            Some(_) => CaseEnd::Passed,
            None if measured.verdict == Verdict::Pass => CaseEnd::Skipped,
            None => measured.verdict.into(),
        };
        let details = vec![format!("{}: {}", figure.title, figure.text())];
        TestCase { details, ..TestCase::new(figure.name.clone(), end, figure.words.clone()) }
    };
    measured.figures.iter().map(case).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use thalweg_measure::trial::{Note, Reason};
    use thalweg_report::document::{SuiteName, SweepEnd, SweptTarget, Unit};

    use super::super::fixture;
    use super::*;

    /// Name and end of each case.
    #[track_caller]
    fn check(document: &Document, expected: &[(&str, CaseEnd)]) -> Vec<TestCase> {
        let cases = test_cases(document);
        let found: Vec<(&str, CaseEnd)> = cases.iter().map(|case| (case.name.as_str(), case.end)).collect();
        assert_eq!(found, expected);
        cases
    }

    fn run(verdict: Verdict, limits: &[&str], reasons: Vec<String>) -> Document {
        let trial = Trial { verdict, reasons: reasons.clone(), ..fixture::trial() };
        let mut document = fixture::document(vec![trial]);
        document.plan.limits = limits.iter().map(|limit| (*limit).to_owned()).collect();
        Document { verdict, reasons, ..document }
    }

    /// The words of reasons are those of `measure`, so that a change there is noticed here.
    #[test]
    fn a_missed_limit_fails_its_own_case_with_its_sentence() {
        let bound = Duration::from_millis(50);
        let statistic = Statistic::Percentile(99.0);
        let late = Reason::ResponseTime { statistic, observed_ns: 63.1e6, bound }.to_string();
        let errors = Reason::Errors { limit: "errors<1%".parse().unwrap(), errors: 30, offered: 2000 }.to_string();
        let backlog = Reason::BacklogGrew { rise: 800, duration: Duration::from_secs(10) }.to_string();
        let limits = ["p50<50ms", "p99<50ms", "p99.9<50ms", "errors<1%"];
        use CaseEnd::{Failed, Passed};
        let document = run(Verdict::Fail, &limits, vec![late.clone(), errors.clone(), backlog.clone()]);
        let cases = check(
            &document,
            &[
                (MEASUREMENT, Passed),
                ("p50<50ms", Passed),
                ("p99<50ms", Failed),
                ("p99.9<50ms", Passed),
                ("errors<1%", Failed),
                (LOAD, Failed),
            ],
        );
        assert_eq!([&cases[2].sentence, &cases[4].sentence, &cases[5].sentence], [&late, &errors, &backlog]);
        assert_eq!(cases[1].details, ["response time p50: 300 us"]);
        let none = Reason::NothingMeasured { limit: "p99<50ms".parse().unwrap() }.to_string();
        check(
            &run(Verdict::Fail, &["p99<50ms"], vec![none]),
            &[(MEASUREMENT, Passed), ("p99<50ms", Failed), ("errors<=0%", Passed), (LOAD, Passed)],
        );
    }

    #[test]
    fn an_invalid_run_is_one_error_and_judges_no_limit() {
        use CaseEnd::{Invalid, Skipped};
        let reasons = vec!["the client sent late".to_owned()];
        let cases = check(
            &run(Verdict::Invalid, &["p99<50ms"], reasons),
            &[(MEASUREMENT, Invalid), ("p99<50ms", Skipped), ("errors<=0%", Skipped)],
        );
        assert_eq!(cases[0].sentence, "the client sent late");
    }

    #[test]
    fn a_pass_has_no_failure() {
        use CaseEnd::Passed;
        check(&run(Verdict::Pass, &[], Vec::new()), &[(MEASUREMENT, Passed), ("errors<=0%", Passed), (LOAD, Passed)]);
        let remarks = [
            Note::FewSamples { statistic: Statistic::Percentile(99.0), samples: 100, wanted: 100_000 }.to_string(),
            Note::BacklogUnjudged { intervals: 2 }.to_string(),
            Note::Late { p99_ns: 2_000_000, shares: Vec::new() }.to_string(),
        ];
        check(
            &run(Verdict::Pass, &[], remarks.into()),
            &[(MEASUREMENT, Passed), ("errors<=0%", Passed), (LOAD, Passed)],
        );
    }

    #[test]
    fn rates_of_a_sweep_are_cases_and_invalid_ones_cost_no_pass() {
        let at = |rate: f64, verdict| Trial { offered_rate: Some(rate), verdict, ..fixture::trial() };
        let trials = vec![at(100.0, Verdict::Pass), at(200.0, Verdict::Invalid)];
        let target =
            SweptTarget { target: "http://a/".into(), name: "a".into(), trials: vec![0, 1], passed: Some(100.0) };
        let sweep =
            Sweep { low_rate: 100.0, high_rate: 200.0, step: 100.0, targets: vec![target], ended: SweepEnd::Complete };
        let document = Document { sweep: Some(sweep), ..fixture::document(trials) };
        let named = |verdict| Document { verdict, ..document.clone() };
        use CaseEnd::{Failed, Invalid, Passed, Skipped};
        check(&named(Verdict::Pass), &[("at 100/s", Passed), ("at 200/s", Skipped)]);
        check(&named(Verdict::Invalid), &[("at 100/s", Passed), ("at 200/s", Invalid)]);
        // A verdict that no case explains has a case of its own.
        let with_verdict = [("at 100/s", Passed), ("at 200/s", Invalid), ("verdict", Failed)];
        check(&named(Verdict::Fail), &with_verdict);
    }

    #[test]
    fn a_figure_that_was_not_measured_fails() {
        let known = Figure { value: Some(4870.0), ..Figure::new("operations", "max ops/sec", Unit::PerSecond) };
        let lacking = Figure::new("bits", "max bits/sec", Unit::BitsPerSecond);
        let figures = vec![known, lacking];
        let measured = Measured { figures, verdict: Verdict::Fail, ..Measured::new(SuiteName::Webbench, 1.0) };
        let document = Document { suite: Some(measured), ..fixture::document(Vec::new()) };
        let cases = check(&document, &[("operations", CaseEnd::Passed), ("bits", CaseEnd::Failed)]);
        assert_eq!(cases[0].details, ["max ops/sec: 4,870/s"]);
    }
}
