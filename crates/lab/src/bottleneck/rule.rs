//! The rule that combines findings: the strongest name the culprit, and a contradiction between
//! equally strong ones names none.

use super::collected::Evidence;
use thalweg_measure::search::EndReason;

use thalweg_report::document::{Finding, LimitedBy};

/// The bottleneck and the evidence for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Bottleneck {
    /// The part that kept the rate from rising.
    pub limit: LimitedBy,
    /// The more precise cause, if it is known.
    pub cause: Option<String>,
    /// All findings, those for the culprit first.
    pub findings: Vec<Finding>,
    /// The findings in words, and the reason why none is named if that is so.
    pub sentences: Vec<String>,
}

/// Combines the findings of a search.
pub(super) fn combine(seen: &Evidence<'_>, mut findings: Vec<Finding>) -> Bottleneck {
    let (limit, reason) = match unfinished(seen) {
        Some(reason) => (LimitedBy::Undetermined, Some(reason)),
        None => culprit(seen, &findings),
    };
    // Stable, so that findings of one strength keep the order of their modules, which is that from
    // the most precise cause to the least.
    findings.sort_by_key(|finding| {
        let for_culprit = finding.culprit == limit && finding.names();
        (!for_culprit, std::cmp::Reverse(finding.strength))
    });
    let cause = findings.iter().find(|finding| finding.culprit == limit && finding.names());
    let cause = cause.and_then(|finding| finding.cause.clone());
    let sentences = reason.into_iter().chain(findings.iter().map(|finding| finding.sentence.clone())).collect();
    Bottleneck { limit, cause, findings, sentences }
}

/// A search that was cut short before anything limited it has no bottleneck.
fn unfinished(seen: &Evidence<'_>) -> Option<String> {
    match seen.result.ended {
        EndReason::Interrupted => Some("the search was interrupted before the bottleneck was known".to_owned()),
        EndReason::BudgetSpent | EndReason::TrialsSpent
            if seen.result.upper_bound.is_none() && !seen.result.limited_by_client =>
        {
            Some("the search ended before a rate failed".to_owned())
        }
        _ => None,
    }
}

fn culprit(seen: &Evidence<'_>, findings: &[Finding]) -> (LimitedBy, Option<String>) {
    let strongest = |culprit: LimitedBy| {
        let of_culprit = findings.iter().filter(|finding| finding.culprit == culprit && finding.names());
        of_culprit.map(|finding| finding.strength).max()
    };
    let named = [LimitedBy::Server, LimitedBy::Client, LimitedBy::Network].map(|part| (part, strongest(part)));
    let Some(most) = named.iter().filter_map(|(_, strength)| *strength).max() else {
        return (LimitedBy::Undetermined, Some(missing(seen)));
    };
    let equal: Vec<LimitedBy> = named.iter().filter(|(_, s)| *s == Some(most)).map(|(part, _)| *part).collect();
    match equal[..] {
        [culprit] => (culprit, None),
        _ => {
            let names: Vec<&str> = equal.iter().map(|part| part.name()).collect();
            let reason = format!("the evidence points at {} at the same time", names.join(" and "));
            (LimitedBy::Undetermined, Some(reason))
        }
    }
}

/// The reason why nothing is named, with the measurement that would help.
fn missing(seen: &Evidence<'_>) -> String {
    if seen.result.ended == EndReason::Disturbed {
        return "this host was too busy with other programs to find the bottleneck".to_owned();
    }
    if seen.shared_host {
        return "no part shows the signs of a bottleneck".to_owned();
    }
    "no part shows the signs of a bottleneck; `thalweg observe` on the server's host, given to --observe, would show \
     whether it is the server"
        .to_owned()
}
