//! The verdict on a trial, exactly by the measuring method: INVALID first, then PASS, else FAIL.

use super::backlog::{self, Backlog};
use super::figures::{LoopKind, TrialFigures};
use super::reason::{Note, Reason};
use super::{lateness, shortfall};
use crate::histogram::Histogram;
use crate::limit::{Figure, Limit, Statistic};
use crate::outcome::Outcome;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The outcome of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The target carried the load within all limits.
    Pass,
    /// It did not.
    Fail,
    /// The client did not do its part, so nothing is known about the target.
    Invalid,
}

impl Verdict {
    /// All verdicts.
    pub const ALL: [Self; 3] = [Self::Pass, Self::Fail, Self::Invalid];

    /// The name in documents and formats.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Invalid => "invalid",
        }
    }

    /// The name in texts for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::Invalid => "INVALID",
        }
    }
}

/// The verdict on a measurement that the user ended before its planned end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnInterrupt {
    /// INVALID, whatever was measured: nobody takes a part for the whole.
    #[default]
    Invalid,
    /// That on what was measured until then.
    Judge,
}

/// A verdict with all that led to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Why it is not PASS: every condition that was broken, the client's shortfalls first. Empty
    /// for PASS. What the target did under a load that was not the intended one is no evidence
    /// against it, but a reader wants to know of it.
    pub reasons: Vec<Reason>,
    /// Notes for a reader; they change no verdict.
    pub notes: Vec<Note>,
}

impl Judgement {
    /// Whether the client was late: the times are partly its own.
    pub fn is_of_late_client(&self) -> bool {
        self.notes.iter().any(|note| matches!(note, Note::Late { .. })) || self.reasons.iter().any(Reason::is_lateness)
    }

    /// Makes the verdict INVALID: the user ended the trial before its planned end. The reasons of
    /// a FAIL stay behind that.
    pub fn interrupt(&mut self, after: Duration, planned: Option<Duration>) {
        self.verdict = Verdict::Invalid;
        self.reasons.insert(0, Reason::Interrupted { after, planned });
    }

    /// Whether the verdict is INVALID because the user ended the trial.
    pub fn is_interrupted(&self) -> bool {
        self.reasons.iter().any(|reason| matches!(reason, Reason::Interrupted { .. }))
    }

    /// Takes back a FAIL for nothing but that no response was complete: of a trial that the user
    /// has ended before its time.
    pub fn pardon_interruption(&mut self) {
        if matches!(self.reasons[..], [Reason::NothingCompleted { .. }]) {
            self.verdict = Verdict::Invalid;
        }
    }

    /// Whether a client that was kept from its work may have brought this about: it was late, or
    /// what it sent late and all at once overtaxed the target.
    pub fn may_be_disturbed(&self) -> bool {
        let is_overtaxed = |reason: &Reason| {
            matches!(
                reason,
                Reason::ResponseTime { .. }
                    | Reason::Figure { .. }
                    | Reason::Incomplete { .. }
                    | Reason::BacklogGrew { .. }
            )
        };
        self.is_of_late_client() || self.reasons.iter().any(is_overtaxed)
    }
}

/// Share of offered requests that may be missing from the completions.
pub(super) const INCOMPLETE_MAX: f64 = 0.01;
/// Share of the offered requests that a target has to refuse for that to be known of it whatever
/// the client did.
const REFUSED_MIN: f64 = 0.01;

/// Judges a trial against `limits`.
///
/// If none of the limits is on errors, no errors at all are allowed, so a run without limits passes
/// exactly if it had no errors and kept up.
///
/// **INVALID** if the client fell short:
/// * More than 0.1 % of the offered requests did not leave through the client's doing. Not every
///   unsent request is: with a bound on connections, a slow target uses the bound up and further
///   requests wait, some until they time out or the schedule ends. They waited for the target, so
///   they count against it (as response time, as timeouts, as missing completions), and the trial
///   fails but stays valid. The same holds for a refused connection. The client is to blame for
///   requests that lacked a descriptor or an address, and for those that it did not get to although
///   nothing kept it ([`TrialFigures::unsent_by_client`]).
/// * An open loop sent requests later than the next arrival was due and later than 1 ms, more than
///   5 % as many as there were arrivals: the target has met bursts instead of the schedule.
/// * In a closed loop, p99 lag above 1 ms or above a tenth of the tightest response-time limit:
///   late workers offer less load.
/// * Descriptors or addresses ran out, even once: from then on connections did not follow the plan.
/// * A load thread starved: throttled for 1 % of the time, or in a closed loop over 5 % of it
///   runnable without running, busy for over 95 % or standing still for over 5 %. In an open loop
///   the lag says whether such a thread was too slow.
/// * Less than half of the wanted time is left, because the rest was disturbed from outside
///   ([`LeftOut`](super::LeftOut)).
/// * Nothing was offered or sent, or the counts contradict each other.
///
/// **PASS** if a response was complete within the measured time (or at all, where a number of
/// requests ends it), all limits are met, the connections that were to be held are open at the end,
/// completions are within 1 % of offered in an open loop (or within the share of errors that a
/// limit allows, if that is more), and requests in flight show no upward trend in an open loop. An
/// open loop's lag is part of its response times, so it does not stand in the way of a PASS; a note
/// says how much of the response times it is.
///
/// **FAIL** if something of that is not so. Where the client was late, a punctual one would have to
/// have seen the same, or the trial is **INVALID**. Late is a client whose p99 lag is above the
/// bound named above, one that waited for its CPU for over 5 % of the time, and one whose lag is
/// enough to explain that a limit on the mean or a thin tail was missed. In spite of that these are
/// the target's:
/// * More than 1 % of the requests were refused, and more than the limit on errors allows. No
///   client can bring refusals about, while one that meets nothing but refusals is busy with them;
///   so this is a FAIL even if the load was not the one that was asked for.
/// * A response-time limit is missed by more than twice the longest lag.
/// * Errors that no lateness brings about miss the limit on errors.
pub fn verdict(figures: &TrialFigures, limits: &[Limit]) -> Judgement {
    let effective = effective_limits(limits);
    let response_time = figures.response_time();
    let mut notes: Vec<Note> = effective.iter().filter_map(|limit| few_samples(limit, response_time.count())).collect();
    let mut shortfalls = client_shortfalls(figures, &effective);
    let late = lateness::may_explain_failure(figures, &effective, &response_time);
    if !late.is_empty() || lateness::lag(figures, &effective).is_some() {
        notes.push(lateness::influence(figures, &effective, &response_time));
    }
    if shortfalls.contains(&Reason::NothingOffered) {
        // There is nothing that a limit could be held against.
        return Judgement { verdict: Verdict::Invalid, reasons: shortfalls, notes };
    }
    let failures = failures(figures, &effective, &response_time, &mut notes);
    if failures.is_empty() && shortfalls.is_empty() && late.is_empty() && figures.completed_nothing() {
        return nothing_completed(figures, notes);
    }
    let refused = refusals(figures, &effective).filter(|_| shortfalls.iter().all(Reason::is_lateness));
    let stands = failures.iter().any(|failure| lateness::stands_in_spite_of_it(failure, figures));
    let verdict = match () {
        () if refused.is_some() => Verdict::Fail,
        () if !shortfalls.is_empty() => Verdict::Invalid,
        () if failures.is_empty() => Verdict::Pass,
        () if stands || late.is_empty() => Verdict::Fail,
        () => Verdict::Invalid,
    };
    // A limit that was missed through the client's lag has been reported already.
    let is_explained = |failure: &Reason| late.iter().any(|reason| reason.explains(failure));
    let failures: Vec<Reason> = failures.into_iter().filter(|failure| !is_explained(failure)).collect();
    shortfalls.extend(late);
    let reasons = match verdict {
        Verdict::Pass => Vec::new(),
        Verdict::Fail => refused.into_iter().chain(failures).chain(shortfalls).collect(),
        Verdict::Invalid => shortfalls.into_iter().chain(failures).collect(),
    };
    Judgement { verdict, reasons, notes }
}

/// Everything in which the client did not do its part, whatever the figures are.
fn client_shortfalls(figures: &TrialFigures, limits: &[Limit]) -> Vec<Reason> {
    let mut reasons = shortfall::of(figures);
    reasons.extend(lateness::bunched(figures));
    if figures.loop_kind == LoopKind::Closed {
        reasons.extend(lateness::lag(figures, limits));
    }
    reasons
}

/// Everything in which the trial fell short of its limits, whoever is to blame.
fn failures(figures: &TrialFigures, limits: &[Limit], response_time: &Histogram, notes: &mut Vec<Note>) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = not_held(figures).into_iter().collect();
    reasons.extend(limits.iter().filter_map(|limit| miss_of(limit, figures, response_time)));
    if reasons.iter().any(|reason| matches!(reason, Reason::Errors { .. })) {
        reasons.extend(not_processed(figures));
    }
    if figures.loop_kind == LoopKind::Open {
        reasons.extend(missing_completions(figures, limits));
        match backlog::judge(figures) {
            Backlog::Steady => {}
            Backlog::Growing { rise } => {
                reasons.push(Reason::BacklogGrew { rise: rise.round() as u64, duration: figures.duration });
            }
            Backlog::Unjudged { intervals } => notes.push(Note::BacklogUnjudged { intervals }),
        }
    }
    reasons
}

/// The judgement of a trial in which nothing went wrong because nothing came to its end.
fn nothing_completed(figures: &TrialFigures, notes: Vec<Note>) -> Judgement {
    let sent = figures.in_window.sent.max(figures.counts.sent);
    let (verdict, reason) = match sent {
        0 => (Verdict::Invalid, Reason::NothingSent),
        _ => {
            let (later, duration) = (figures.outcomes.completed(), figures.duration);
            (Verdict::Fail, Reason::NothingCompleted { sent, later, duration })
        }
    };
    Judgement { verdict, reasons: vec![reason], notes }
}

/// The limits with that on errors, which holds if no other is given.
pub(super) fn effective_limits(limits: &[Limit]) -> Vec<Limit> {
    let mut effective = limits.to_vec();
    if !limits.iter().any(|limit| matches!(limit, Limit::Errors { .. })) {
        effective.push(Limit::NO_ERRORS);
    }
    effective
}

/// Holds a limit against a trial. `response_time` is [`TrialFigures::response_time`], which is
/// costly enough to be computed once for all limits.
///
/// `None` if the limit is met. A response-time limit without any response is not met: nothing shows
/// that it would have been.
fn miss_of(limit: &Limit, figures: &TrialFigures, response_time: &Histogram) -> Option<Reason> {
    match *limit {
        Limit::ResponseTime { statistic, bound, .. } => {
            if response_time.is_empty() {
                return Some(Reason::NothingMeasured { limit: *limit });
            }
            let observed = statistic.of(response_time);
            (!limit.is_met_by(observed)).then_some(Reason::ResponseTime { statistic, observed_ns: observed, bound })
        }
        Limit::Errors { inclusive, share } => {
            let (errors, offered) = (figures.outcomes.errors(), figures.counts.offered);
            let observed = errors as f64 / offered.max(1) as f64;
            let met = observed < share || (inclusive && observed == share);
            (!met).then_some(Reason::Errors { limit: *limit, errors, offered })
        }
        Limit::KbitPerConnection { .. } => {
            let (conforming, measured) = (figures.connections.conforming, figures.bits_per_connection.count());
            let met = measured > 0 && conforming >= measured;
            (!met).then_some(Reason::Connections { limit: *limit, conforming, measured })
        }
        Limit::Figure { figure, inclusive, bound } => {
            let Some(observed) = observed_of(figure, figures) else {
                return Some(Reason::NothingMeasured { limit: *limit });
            };
            let met = figure.meets(observed, inclusive, bound);
            (!met).then_some(Reason::Figure { limit: *limit, observed: figure.words(observed) })
        }
    }
}

/// The value of a figure, if there is one.
fn observed_of(figure: Figure, figures: &TrialFigures) -> Option<f64> {
    let of = |statistic: Statistic, times: &Histogram| (!times.is_empty()).then(|| statistic.of(times));
    match figure {
        Figure::Rate => Some(figures.rates().good),
        Figure::BytesPerSecond => Some(figures.bytes.received as f64 / figures.duration.as_secs_f64().max(1e-9)),
        Figure::FirstByte(statistic) => of(statistic, &figures.first_byte),
        Figure::Connect(statistic) => of(statistic, &figures.connect),
    }
}

/// Connections that the target refused, where they alone miss the limit on errors.
fn refusals(figures: &TrialFigures, limits: &[Limit]) -> Option<Reason> {
    let (refused, offered) = (figures.outcomes.count(Outcome::Refused), figures.counts.offered);
    let share = refused as f64 / offered.max(1) as f64;
    let missed = limits.iter().any(|limit| matches!(limit, Limit::Errors { share: allowed, .. } if share > *allowed));
    (missed && share > REFUSED_MIN).then_some(Reason::Refused { refused, offered })
}

/// Requests that the target has said not to have processed: an explanation of errors.
fn not_processed(figures: &TrialFigures) -> Option<Reason> {
    let requests = figures.outcomes.count(Outcome::NotProcessed);
    let ended = figures.streams.as_ref().map(|streams| streams.ended_in_order).unwrap_or_default();
    (requests > 0).then_some(Reason::NotProcessed { requests, ended })
}

/// Connections that were to be held and are not are a failure, whatever became of the requests:
/// fewer of them may have carried those.
fn not_held(figures: &TrialFigures) -> Option<Reason> {
    let (held, wanted) = (figures.connections.held, figures.to_hold?);
    (held < wanted).then_some(Reason::NotHeld { held, wanted })
}

/// Share of the offered requests that may be missing from the completions.
pub(super) fn missing_allowed(limits: &[Limit]) -> f64 {
    let errors_allowed = limits.iter().filter_map(|limit| match limit {
        Limit::Errors { share, .. } => Some(*share),
        Limit::ResponseTime { .. } | Limit::KbitPerConnection { .. } | Limit::Figure { .. } => None,
    });
    errors_allowed.fold(1.0, f64::min).max(INCOMPLETE_MAX)
}

fn missing_completions(figures: &TrialFigures, limits: &[Limit]) -> Option<Reason> {
    let allowed = missing_allowed(limits);
    let (completed, offered) = (figures.counts.completed, figures.counts.offered);
    let missing = offered.saturating_sub(completed);
    (missing as f64 > allowed * offered as f64).then_some(Reason::Incomplete { completed, offered, allowed })
}

fn few_samples(limit: &Limit, samples: u64) -> Option<Note> {
    let Limit::ResponseTime { statistic, .. } = limit else { return None };
    let wanted = statistic.samples_wanted()?;
    (samples < wanted).then_some(Note::FewSamples { statistic: *statistic, samples, wanted })
}
