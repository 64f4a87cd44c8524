//! The target's own words: responses and refusals by which it turns load away.

use thalweg_measure::Outcome;
use thalweg_report::document::{Finding, LimitedBy, Strength, Trial};
use thalweg_units::display;

use super::trials::{Selection, highest, rate_of};

const KIND: &str = "refusals";

/// The share of responses above which the target is taken to shed load.
const SHED: f64 = 0.001;
/// The share of requests whose connection was refused or reset that is more than an accident.
const REFUSED: f64 = 0.001;

pub(super) fn findings(selection: &Selection<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let shed_share = |trial: &Trial| shed(trial) as f64 / trial.counts.completed.max(1) as f64;
    // A target that sheds load at ease does it for another reason: it is in maintenance, or this
    // client is not wanted.
    let at_ease = highest(&selection.relaxed, shed_share).map_or(0.0, |(_, share)| share);
    if let Some((trial, share)) = highest(&selection.overloads, shed_share)
        && share > SHED.max(2.0 * at_ease)
    {
        let codes: Vec<String> =
            SHEDDING.iter().filter(|code| of_status(trial, **code) > 0).map(ToString::to_string).collect();
        let codes = codes.join(" and ");
        let sentence = format!(
            "the server answered {} of the requests with status {codes} at {}: its queue is bounded",
            display::percent(share),
            display::rate(rate_of(trial))
        );
        let finding = Finding::of(LimitedBy::Server, Strength::Proves, KIND, sentence);
        findings.push(finding.caused_by(&format!("server's queue is bounded ({codes}s)")).figure("shed", share));
    }
    let refused = |trial: &Trial| {
        let count = trial.outcomes.count(Outcome::Refused) + trial.outcomes.count(Outcome::Reset);
        count as f64 / trial.counts.offered.max(1) as f64
    };
    if let Some((trial, share)) = highest(&selection.overloads, refused)
        && share > REFUSED
    {
        let sentence = format!(
            "the target refused or reset the connections of {} of the requests at {}",
            display::percent(share),
            display::rate(rate_of(trial))
        );
        let finding = Finding::of(LimitedBy::Server, Strength::Shows, KIND, sentence);
        findings.push(finding.caused_by("server refuses connections").figure("refused", share));
    }
    findings
}

/// Too Many Requests (RFC 6585) and Service Unavailable (RFC 9110).
const SHEDDING: [u16; 2] = [429, 503];

fn shed(trial: &Trial) -> u64 {
    SHEDDING.iter().map(|code| of_status(trial, *code)).sum()
}

fn of_status(trial: &Trial, code: u16) -> u64 {
    trial.status_codes.iter().find(|(status, _)| *status == code).map_or(0, |(_, count)| count)
}
