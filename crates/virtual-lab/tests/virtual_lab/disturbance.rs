//! Other programs on the client's CPU: what they disturb is left out, and it is said.

use std::rc::Rc;
use std::time::Duration;

use thalweg_lab::trial::{TrialRequest, TrialResult};
use thalweg_load::{Extent, LoopPlan, Plan};
use thalweg_measure::Verdict;
use thalweg_virtual_lab::{ClientModel, Quiet, Theft, VirtualLab, plan};

use crate::stage::{fixed, test_bed};

const RATE: f64 = 500.0;

/// Runs 500 requests per second beside a program, and makes up for what it takes.
fn run_beside(theft: Theft, length: Duration) -> TrialResult {
    let client = ClientModel { theft: Some(theft), ..ClientModel::default() };
    let lab = Rc::new(VirtualLab::new(fixed(10.0 * RATE), client));
    let plan = Plan { arrivals: LoopPlan::at_rate(RATE), extent: Extent::Duration(length), ..plan() };
    let request = TrialRequest { make_up: true, ..TrialRequest::new("run", plan) };
    test_bed(&lab).trial(&request, &mut Quiet).expect("a simulation does not fail")
}

#[test]
fn a_run_beside_a_program_with_bursts_is_judged() {
    let theft = Theft { share: 0.5, length: Duration::from_millis(20) };
    let result = run_beside(theft, Duration::from_secs(10));
    let trial = &result.trial;
    assert_eq!(trial.verdict, Verdict::Pass, "{:?}", trial.reasons);
    assert!(trial.lost_s > 0.5 && trial.seconds > 10.5, "{} of {} s", trial.lost_s, trial.seconds);
    let expected = RATE * (trial.seconds - trial.lost_s);
    assert!((trial.counts.good as f64 / expected - 1.0).abs() < 0.01, "{} of {expected}", trial.counts.good);
    assert!(trial.spoiled.iter().all(|second| second.cause.contains("another program used")), "{:?}", trial.spoiled);
    assert!(trial.reasons.iter().any(|reason| reason.contains("are left out, because")), "{:?}", trial.reasons);
}

#[test]
fn a_run_beside_a_program_that_never_rests_is_invalid() {
    let theft = Theft { share: 1.0, length: Duration::from_millis(400) };
    let trial = run_beside(theft, Duration::from_secs(4)).trial;
    assert_eq!(trial.verdict, Verdict::Invalid, "{:?}", trial.reasons);
    let share = trial.client.cpus_others[&0];
    assert!((0.35..0.45).contains(&share), "others used {share}");
}
