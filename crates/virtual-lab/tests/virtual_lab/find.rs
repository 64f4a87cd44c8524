//! Whole searches with the settings that `thalweg find` has by default.

use std::time::Duration;

use thalweg_measure::Verdict;
use thalweg_measure::search::EndReason;
use thalweg_virtual_lab::{ClientModel, Found, Quiet, SearchCase, Theft, search};
use thalweg_yardstick::{Arrivals, Model};

use crate::stage::{self, fixed, short};

/// The capacity of these tests' servers.
const RATE: f64 = 300.0;

fn found(model: Model, client: ClientModel) -> Found {
    let limits = ["p99<50ms".parse().expect("a limit")];
    search(&SearchCase { model, client, arrivals: Arrivals::Constant, limits: &limits, seed: 1 })
        .expect("the target responds")
}

fn holds(found: &Found, truth: f64) -> bool {
    found.interval95.is_some_and(|[low, high]| low <= truth && truth <= high)
}

#[test]
fn a_search_finds_the_capacity_of_a_yardstick() {
    let found = found(fixed(RATE), ClientModel::default());
    assert_eq!((found.verdict, found.ended, found.invalid), (Verdict::Pass, Some(EndReason::TimeOver), 0));
    assert!(holds(&found, RATE), "{found:?}");
    assert!(found.client_ceiling.is_some_and(|ceiling| (45_000.0..=50_000.0).contains(&ceiling)), "{found:?}");
}

#[test]
fn one_seed_gives_one_result() {
    let client = ClientModel { theft: Some(THEFT), ..ClientModel::default() };
    let of_seed = |seed| format!("{:?}", found(fixed(RATE), ClientModel { seed, ..client }));
    let [one, again, other] = [1, 1, 2].map(of_seed);
    assert_eq!(one, again);
    assert!(one != other, "the thefts are at other times");
}

const THEFT: Theft = Theft { share: 0.1, length: Duration::from_millis(50) };

/// The time that others take from the client is left out: the result is the same without it.
#[test]
fn a_disturbed_client_finds_the_same_capacity() {
    let found = found(fixed(RATE), ClientModel { theft: Some(THEFT), ..ClientModel::default() });
    assert!(found.lost_s > 0.3 && found.invalid == 0, "{found:?}");
    assert!(holds(&found, RATE), "{found:?}");
}

/// A target that is faster than the client is shown to carry what the client can offer.
#[test]
fn a_slow_client_finds_its_own_ceiling() {
    let client = ClientModel { request_cost: Duration::from_micros(200), ..ClientModel::default() };
    let conclusion = stage::search(fixed(100_000.0), client, &short(), &mut Quiet);
    let find = &conclusion.find;
    assert_eq!((conclusion.verdict, find.ended), (Verdict::Pass, Some(EndReason::ClientCeiling)), "{find:#?}");
    assert!(find.lower_bound.is_some_and(|lower| (2500.0..=5000.0).contains(&lower)), "{find:#?}");
    assert!(find.upper_bound.is_none() && find.interval95.is_none(), "{find:#?}");
}
