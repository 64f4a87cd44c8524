//! The verdict of each trial with its reasons, as a table.
//!
//! Rows stand in the order in which the trials were run. Cells carry their plain value for the
//! page's script, which makes columns sortable; without it the table is complete all the same.

use maud::{Markup, html};

use std::time::Duration;

use thalweg_measure::limit::Statistic;
use thalweg_measure::{Summary, Verdict};

use super::{answer, words};
use crate::document::{Document, PlanDocument, Trial};

/// The table.
pub(super) fn table(document: &Document) -> Markup {
    let trials = &document.trials;
    let has_codes = trials.iter().any(|trial| trial.status_codes.iter().any(|(code, _)| code != 200));
    html! {
        div.scroll.broad tabindex="0" role="region" aria-label="Trials" {
            table.sortable {
                caption { span {
                    (words::counted(trials.len() as u64, "trial")) " in the order of execution; rates per second"
                } }
                thead { tr {
                    th scope="col" { "phase" }
                    th.number scope="col" { "offered" }
                    th.number scope="col" { "sent" }
                    th.number scope="col" { "good" }
                    th scope="col" { "not good" }
                    @if has_codes { th scope="col" { "status" } }
                    th.number scope="col" { "p50" }
                    th.number scope="col" { "p99" }
                    th.number scope="col" { "max" }
                    th.number scope="col" { "lag p99" }
                    th.number scope="col" { "client CPU" }
                    th scope="col" { "verdict" }
                    th scope="col" { "reasons" }
                } }
                tbody { @for (position, trial) in trials.iter().enumerate() { (row(position, trial, &document.plan, has_codes)) } }
            }
        }
    }
}

fn row(position: usize, trial: &Trial, plan: &PlanDocument, has_codes: bool) -> Markup {
    // The requests of a calibration were not for the target, and a probe is held against nothing.
    let bound = |figure| plan.bound_on(figure).filter(|_| trial.is_judged());
    let not_good: u64 = trial.counts.offered.saturating_sub(trial.counts.good);
    let (response, lag) = (&trial.response_time_us, &trial.lag_us);
    let busiest = format!("{:.0} %", trial.client.busiest_core * 100.0);
    html! {
        tr {
            th scope="row" data-value=(position) { (position + 1) ". " (trial.phase) }
            @match trial.offered_rate {
                Some(rate) => { (number(rate, words::rate(rate))) }
                None => { td.number data-value="-1" { (words::loop_kind(trial.loop_kind)) } }
            }
            (number(trial.rates.sent, words::rate(trial.rates.sent)))
            (number(trial.rates.good, words::rate(trial.rates.good)))
            td data-value=(not_good) {
                @for (n, kind) in answer::others(trial) { span.outcome { (n) " " (kind) } " " }
                @if not_good == 0 { (words::NONE) }
            }
            @if has_codes {
                td { @for (code, n) in trial.status_codes.iter() { span.outcome { (words::count(n)) " × " (code) } " " } }
            }
            (time(response, response.p50, bound(Statistic::Percentile(50.0))))
            (time(response, response.p99, bound(Statistic::Percentile(99.0))))
            (time(response, response.max, bound(Statistic::Max)))
            (time(lag, lag.p99, None))
            (number(trial.client.busiest_core, busiest))
            td data-value=(verdict_rank(trial)) { @if trial.is_judged() { (badge(trial.verdict)) } @else { "not judged" } }
            td.reasons { (sentences(&trial.explanations())) }
        }
    }
}

/// The verdict as a word and a shape in its colour: three ways to recognise it.
pub(super) fn badge(verdict: Verdict) -> Markup {
    let shape = match verdict {
        Verdict::Pass => "●",
        Verdict::Fail => "✕",
        Verdict::Invalid => "◇",
    };
    html! { span class={ "badge " (verdict.name()) } { span aria-hidden="true" { (shape) } " " (verdict.title()) } }
}

/// One sentence as text, several as a list.
pub(super) fn sentences(texts: &[String]) -> Markup {
    html! {
        @match texts {
            [] => {}
            [only] => { (words::unbroken(only)) }
            many => { ul { @for text in many { li { (words::unbroken(text)) } } } }
        }
    }
}

fn verdict_rank(trial: &Trial) -> u8 {
    match trial.verdict {
        _ if !trial.is_judged() => 3,
        Verdict::Pass => 0,
        Verdict::Fail => 1,
        Verdict::Invalid => 2,
    }
}

fn number(value: f64, text: String) -> Markup {
    html! { td.number data-value=(value) { (text) } }
}

fn time(summary: &Summary, us: f64, bound: Option<Duration>) -> Markup {
    if summary.count == 0 {
        return html! { td.number data-value="-1" { (words::NONE) } };
    }
    number(us, words::time_us_within(us, bound))
}
