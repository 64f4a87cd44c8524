//! Targets that collapse under an overload.

use std::time::Duration;

use thalweg_lab::search::SearchSettings;
use thalweg_load::Plan;
use thalweg_measure::Verdict;
use thalweg_measure::search::{EndReason, OverloadShape};
use thalweg_report::document::LimitedBy;
use thalweg_virtual_lab::{plan, settings};
use thalweg_yardstick::{Collapse, Model, Overload};

use crate::stage::{fixed, searched};

const RATE: f64 = 300.0;
const SECOND_NS: u64 = 1_000_000_000;

/// Loses three quarters of its capacity when requests have waited without a break for longer than
/// in the trial at full speed: at rates just above the capacity, where no FAIL is soon certain.
fn fragile(recovery_ns: Option<u64>) -> Model {
    let collapse = Collapse { above: Overload::BusyForNs(SECOND_NS * 16 / 10), left: 0.25, recovery_ns };
    Model { collapse: Some(collapse), ..fixed(RATE) }
}

fn patient() -> SearchSettings {
    let recovery = Duration::from_secs(20);
    SearchSettings { recovery, ..settings(Plan { connections: 16, ..plan() }) }
}

/// Such a search once ended with PASS and what was left of the server as its capacity.
#[test]
fn a_lasting_collapse_is_the_first_thing_that_a_search_says() {
    let conclusion = searched(fragile(None), &patient());
    let (find, first) = (&conclusion.find, &conclusion.reasons[0]);
    assert_eq!(conclusion.verdict, Verdict::Fail, "{find:#?}");
    assert!(first.contains("the target collapsed") && first.contains("did not recover"), "{first}");
    assert_eq!(&find.evidence[0], first);
    let overload = find.overload.as_ref().expect("an overload");
    assert_eq!((overload.shape, overload.recovered), (OverloadShape::Collapse, false), "{find:#?}");
    // The bound is from before.
    assert!(find.lower_bound.is_some_and(|lower| 0.9 * RATE < lower && lower <= overload.held_rate), "{find:#?}");
    assert_eq!((find.limit, find.ended), (LimitedBy::Server, Some(EndReason::NotRecovered)), "{find:#?}");
    let failed = overload.failed_rate.expect("a rate that fails since then");
    assert!(overload.held_rate > RATE / 4.0 && failed <= overload.held_rate, "{overload:#?}");
}

#[test]
fn a_target_that_recovers_is_searched_on() {
    let conclusion = searched(fragile(Some(3 * SECOND_NS)), &patient());
    let find = &conclusion.find;
    assert_eq!(conclusion.verdict, Verdict::Pass, "{find:#?}");
    assert!(find.overload.as_ref().is_some_and(|overload| overload.recovered), "{find:#?}");
    let [low, high] = find.interval95.expect("an interval");
    assert!(low <= RATE && RATE <= high, "{low} to {high}");
}
