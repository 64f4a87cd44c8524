//! The conclusion of a search: from its answer to the document's, in words. A sentence claims what the trials have shown.

use thalweg_measure::Verdict;
use thalweg_measure::search::{Answer, Collapse, Ended};
use thalweg_units::display;

use crate::document::{Find, LimitedBy, Overload, OverloadShape, Trial};
use crate::limit::{Evidence, name_limit};
use crate::search::{DISTURBED_MAX, Found};

/// What a search found, with the verdict on the whole and why.
pub(crate) fn conclude(seen: &Evidence<'_>, trials: Vec<Trial>) -> Found {
    let answer = seen.answer;
    let overload = answer.collapse.as_ref().map(overload_of);
    let (limit, mut evidence) = name_limit(seen);
    let (verdict, reason) = verdict_of(answer, limit);
    // What an overload has done to the target comes before all else.
    let collapsed = overload.as_ref().map(Overload::sentence);
    evidence.splice(0..0, collapsed.clone());
    let contradicted = contradiction(answer);
    let mut notes = notes(answer);
    notes.splice(0..0, contradicted.clone());
    let reasons = collapsed.into_iter().chain([reason]).chain(contradicted).collect();
    Found {
        find: Find {
            lower_bound: answer.lower_bound,
            upper_bound: answer.upper_bound,
            lower_confirmed: answer.lower_confirmed,
            upper_confirmed: answer.upper_confirmed,
            interval95: None,
            ended: Some(answer.ended),
            overload,
            limit,
            evidence,
            client_ceiling: Some(seen.ceiling),
            notes,
        },
        verdict,
        reasons,
        trials,
    }
}

/// A search of a target that answers, but to whose probe no response was good.
pub(crate) fn nothing_good(probe: Trial, ends: &str) -> Found {
    let codes: Vec<String> = probe.status_codes.iter().map(|(code, count)| format!("{count} x {code}")).collect();
    let codes = if codes.is_empty() { String::new() } else { format!(" (status {})", codes.join(", ")) };
    let reason = format!("the target answers, but not one response of the probe was good: {ends}{codes}");
    Found {
        find: Find {
            lower_bound: None,
            upper_bound: None,
            lower_confirmed: false,
            upper_confirmed: false,
            interval95: None,
            ended: None,
            overload: None,
            limit: LimitedBy::Undetermined,
            evidence: vec!["no rate was tried, since none could have met the limits".to_owned()],
            client_ceiling: None,
            notes: Vec::new(),
        },
        verdict: Verdict::Fail,
        reasons: vec![reason],
        trials: vec![probe],
    }
}

fn overload_of(collapse: &Collapse) -> Overload {
    Overload {
        shape: OverloadShape::Collapse,
        recovered: collapse.recovery_s.is_some(),
        recovery_s: collapse.recovery_s,
        held_rate: collapse.held,
        overload_rate: collapse.overload,
        failed_rate: collapse.failed,
        waited_s: collapse.waited_s,
        failed_looks: collapse.looks,
        times: collapse.times,
    }
}

impl Overload {
    /// What happened, as a clause without a full stop.
    pub fn sentence(&self) -> String {
        format!("the target {}", self.predicate())
    }

    /// The same, for a subject that is named before it.
    pub fn predicate(&self) -> String {
        let [held, overload, failed] = [self.held_rate, self.overload_rate, self.failed_rate].map(display::rate);
        let times = if self.times > 1 { format!(" {} times", self.times) } else { String::new() };
        let what =
            format!("collapsed{times}: it held {held} before the overload at {overload}; after it, not even {failed}");
        match self.recovery_s {
            Some(seconds) => format!("{what}, and it recovered after {seconds:.0} s"),
            None => format!("{what}: it has not recovered within {:.0} s", self.waited_s),
        }
    }
}

fn verdict_of(answer: &Answer, limit: LimitedBy) -> (Verdict, String) {
    if answer.ended == Ended::Disturbed {
        return (Verdict::Invalid, "this host was too busy with other things to measure".to_owned());
    }
    if answer.collapse.is_some_and(|collapse| collapse.recovery_s.is_none()) {
        return (Verdict::Fail, "the bounds are those from before the collapse".to_owned());
    }
    let interrupted = answer.ended == Ended::Interrupted;
    match answer.lower_bound.map(display::rate) {
        Some(rate) if interrupted => {
            (Verdict::Pass, format!("{rate} met all limits before the search was interrupted"))
        }
        Some(rate) if answer.ended == Ended::ClientCeiling => {
            (Verdict::Pass, format!("{rate} meets all limits; the client can offer no more, so this is a lower bound"))
        }
        Some(rate) => (Verdict::Pass, format!("{rate} meets all limits")),
        None if limit == LimitedBy::Client => (Verdict::Invalid, "the client fell short at every rate".to_owned()),
        None if interrupted && answer.upper_bound.is_none() => {
            (Verdict::Invalid, "the search was interrupted before any rate was judged".to_owned())
        }
        None if interrupted => (Verdict::Fail, "no rate had met all limits when the search was interrupted".to_owned()),
        None => (Verdict::Fail, "no rate met all limits".to_owned()),
    }
}

fn notes(answer: &Answer) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |text: &str| notes.push(text.to_owned());
    if answer.width.is_some() {
        note("the bounds are the bracket of one search, no interval over repeated searches");
    }
    match answer.ended {
        Ended::WidthReached => {}
        Ended::ClientCeiling => note("the client's own ceiling came before the target's limit"),
        Ended::LowestRate => note("already the lowest rate misses the limits"),
        Ended::BudgetSpent => note("the time budget was spent before the bracket was as narrow as asked"),
        Ended::TrialsSpent => note("all allowed trials were made before the bracket was as narrow as asked"),
        Ended::NotRecovered => {
            note("the search ended with the collapse; restart the target before it is searched again")
        }
        Ended::Interrupted => note("the search was interrupted; this is what was known by then"),
        Ended::Disturbed => note(&format!(
            "the search was given up: {} trials in a row were invalid at a rate that the client reaches with ease, so \
             something else is using its CPUs: another program, or another guest of the same hypervisor",
            DISTURBED_MAX + 1
        )),
    }
    notes
}

/// Says that the history contradicts the answer, where that may be luck or an overload that has changed the target.
fn contradiction(answer: &Answer) -> Option<String> {
    let (passed, upper) = (display::rate(answer.contradicted?), display::rate(answer.upper_bound?));
    Some(format!(
        "{passed} had passed once, and after higher rates not even {upper} did: either that was luck, or an overload has \
         changed the target"
    ))
}
