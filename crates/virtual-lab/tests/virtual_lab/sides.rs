//! Several targets: comparisons of two, and sweeps by turns.

use std::rc::Rc;
use std::time::Duration;

use thalweg_lab::compare::metric::Metric;
use thalweg_lab::compare::{CompareSettings, compare};
use thalweg_lab::sweep::{SweepSettings, SweepTarget, sweep};
use thalweg_measure::Verdict;
use thalweg_measure::limit::Statistic;
use thalweg_report::document::SweepEnd;
use thalweg_virtual_lab::{ClientModel, Quiet, VirtualLab, plan};

use crate::stage::{comparison, fixed, test_bed};

/// B needs 1.2 times as long for a request as A, and each is set up anew for its rounds.
#[test]
fn a_comparison_measures_a_known_difference() {
    let model = |side: &str| fixed(if side == "A" { 1200.0 } else { 1000.0 });
    let lab = Rc::new(VirtualLab::without_target(ClientModel::default(), model));
    let settings = CompareSettings {
        metrics: vec![Metric::Throughput, Metric::ResponseTime(Statistic::Percentile(99.0))],
        max_regression: Some(0.1),
        ..comparison(lab, &plan(), Some("restart {side}"))
    };
    let compared = compare(&settings, &mut Quiet).expect("both sides respond");
    let throughput = &compared.compare.metrics[0];
    let effect = throughput.effect.expect("an estimate");
    assert!((effect - 1000.0 / 1200.0).abs() < 0.01, "{throughput:#?}");
    // It is worse by more than a tenth.
    assert_eq!(compared.verdict, Verdict::Fail, "{:?}", compared.reasons);
}

#[test]
fn two_targets_are_swept_by_turns() {
    let swept_target = |name: &str, rate: f64| {
        let lab = Rc::new(VirtualLab::new(fixed(rate), ClientModel::default()));
        SweepTarget { name: name.to_owned(), test_bed: test_bed(&lab), base: plan() }
    };
    let settings = SweepSettings {
        targets: vec![swept_target("quick", 1000.0), swept_target("slow", 300.0)],
        low_rate: 200.0,
        high_rate: 1000.0,
        step: 200.0,
        duration: Duration::from_secs(2),
        warmup: Duration::ZERO,
        failures_max: Some(2),
    };
    let swept = sweep(&settings, &mut Quiet).expect("simulations do not fail");
    let verdicts = |target: usize| -> Vec<(Option<f64>, Verdict)> {
        let trials = swept.sweep.targets[target].trials.iter().map(|place| &swept.trials[*place]);
        trials.map(|trial| (trial.offered_rate, trial.verdict)).collect()
    };
    assert_eq!(verdicts(1), [(Some(200.0), Verdict::Pass), (Some(400.0), Verdict::Fail), (Some(600.0), Verdict::Fail)]);
    assert_eq!(verdicts(0).len(), 5, "{:?}", verdicts(0));
    assert_eq!((swept.sweep.targets[0].passed, swept.sweep.targets[1].passed), (Some(1000.0), Some(200.0)));
    assert_eq!((swept.sweep.ended, swept.verdict), (SweepEnd::Complete, Verdict::Fail));
    // A B, B A, and so on.
    assert_eq!([&swept.sweep.targets[0].trials[..3], &swept.sweep.targets[1].trials[..3]], [[0, 3, 4], [1, 2, 5]]);
}
