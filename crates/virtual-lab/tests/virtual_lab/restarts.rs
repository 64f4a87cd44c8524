//! One search after each restart of the server.

use std::rc::Rc;
use std::time::Duration;

use thalweg_lab::restarts::{Restarts, find_across_restarts};
use thalweg_lab::search::SearchSettings;
use thalweg_measure::Verdict;
use thalweg_measure::search::EstimateEnd;
use thalweg_virtual_lab::{ClientModel, Quiet, VirtualLab};

use crate::stage::{fixed, short, test_bed};

/// The capacity of the server changes by its number: 480/s, then 520/s.
#[test]
fn the_interval_is_across_the_restarts() {
    let model = |number: &str| fixed(440.0 + 40.0 * number.parse::<f64>().expect("a number"));
    let lab = Rc::new(VirtualLab::without_target(ClientModel::default(), model));
    let restarts = Restarts { count: 2, command: "restart {n}".to_owned(), timeout: Duration::from_secs(30) };
    let settings = SearchSettings { overload: false, end: EstimateEnd::Width(0.1), ..short() };
    let conclusion = find_across_restarts(&test_bed(&lab), &settings, &restarts, &mut Quiet).expect("both are made");
    let find = &conclusion.find;
    assert_eq!(conclusion.verdict, Verdict::Pass, "{find:#?}");
    assert_eq!(find.restarts.len(), 2, "{find:#?}");
    assert_eq!(find.restarts.iter().map(|one| one.trials).sum::<usize>(), conclusion.trials.len());
    let thresholds: Vec<f64> = find.restarts.iter().filter_map(|one| one.threshold).collect();
    assert!(thresholds[0] < 500.0 && thresholds[1] > 500.0, "{thresholds:?}");
    let mean = (thresholds[0] * thresholds[1]).sqrt();
    assert!(find.threshold.is_some_and(|threshold| (threshold / mean - 1.0).abs() < 1e-6), "{find:#?}");
    let [low, high] = find.interval95.expect("an interval");
    assert!(low < thresholds[0] && thresholds[1] < high, "{find:#?}");
    assert!(find.notes[0].contains("across 2 restarts"), "{find:#?}");
}
