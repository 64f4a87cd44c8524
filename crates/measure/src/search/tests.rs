//! Searches against simulated targets whose capacity is known.

use super::load::Load;
use super::*;
use crate::simulation::Random;
use proptest::prelude::*;

/// Runs a search to its end; `target` gives the verdict on a rate and a length.
fn run(plan: SearchPlan, mut target: impl FnMut(f64, Duration) -> Verdict) -> SearchResult {
    run_in_time(plan, |_, rate, length| target(rate, length))
}

/// The same with a target that knows the time: how many seconds the search has spent when a trial
/// begins.
fn run_in_time(plan: SearchPlan, mut target: impl FnMut(f64, f64, Duration) -> Verdict) -> SearchResult {
    let (trials_max, ceiling, lowest) = (plan.trials_max, plan.client_ceiling, plan.lowest_rate);
    let mut search = Search::new(plan).unwrap();
    let mut now = 0.0;
    // At most one pause before each trial.
    for _ in 0..=2 * trials_max {
        let step = search.step();
        assert_eq!(step, search.step(), "asking twice changes nothing");
        match step {
            Step::Done(result) => return result,
            Step::Pause(pause) => {
                now += pause.as_secs_f64();
                search.record_pause(pause);
            }
            Step::Trial { rate, duration, .. } => {
                assert!((lowest..=ceiling).contains(&rate), "{rate} is out of bounds");
                let verdict = target(now, rate, duration);
                now += duration.as_secs_f64();
                search.record(TrialSummary {
                    rate,
                    duration,
                    cost: duration,
                    verdict,
                    goodput: rate,
                    completed: rate,
                    ..TrialSummary::EXAMPLE
                });
            }
        }
    }
    panic!("more than {trials_max} trials");
}

fn knee(capacity: f64) -> impl FnMut(f64, Duration) -> Verdict {
    move |rate, _| if rate <= capacity { Verdict::Pass } else { Verdict::Fail }
}

/// Flips a share of the verdicts of another target.
fn noisy(
    mut target: impl FnMut(f64, Duration) -> Verdict,
    wrong: f64,
    seed: u64,
) -> impl FnMut(f64, Duration) -> Verdict {
    let mut random = Random(seed);
    move |rate, length| match (target(rate, length), random.uniform() < wrong) {
        (Verdict::Pass, true) => Verdict::Fail,
        (Verdict::Fail, true) => Verdict::Pass,
        (verdict, _) => verdict,
    }
}

#[track_caller]
fn assert_found(result: &SearchResult, capacity: f64) {
    let (lower, upper) = (result.lower_bound.unwrap(), result.upper_bound.unwrap());
    assert!(lower <= capacity && capacity < upper, "{capacity} is not in {lower}..{upper}");
    let estimate = result.estimate.unwrap();
    let [low, high] = estimate.interval95;
    assert!(low <= capacity && capacity <= high, "{capacity} is not in {low}..{high}");
    assert!(estimate.width() <= 0.03, "{result:?}");
    assert!(result.lower_confirmed && result.upper_confirmed && !result.limited_by_client);
    assert_eq!((result.ended, result.collapse), (EndReason::WidthReached, None));
    let goodput = result.goodput.unwrap();
    assert!((goodput / lower - 1.0).abs() < 1e-12, "{goodput} at {lower}");
}

#[test]
fn a_hard_knee_is_found() {
    for capacity in [11.0, 100.0, 987.6, 4321.0, 99_999.0] {
        assert_found(&run(SearchPlan::new(10.0, 1e6), knee(capacity)), capacity);
    }
}

#[test]
fn a_hint_saves_trials_and_may_be_wrong() {
    let with_hint = |hint| run(SearchPlan { hint, ..SearchPlan::new(10.0, 1e6) }, knee(40_000.0));
    let (plain, hinted) = (with_hint(None), with_hint(Some(43_000.0)));
    assert!(hinted.trials.total() < plain.trials.total());
    for hint in [1.0, 43_000.0, 900_000.0, 1e9, f64::NAN] {
        assert_found(&with_hint(Some(hint)), 40_000.0);
    }
}

#[test]
fn phases_come_in_order() {
    let mut search = Search::new(SearchPlan::new(10.0, 1e6)).unwrap();
    let mut target = knee(700.0);
    let mut phases = Vec::new();
    let mut first_rates = Vec::new();
    while let Step::Trial { rate, duration, phase, .. } = search.step() {
        phases.push(phase);
        first_rates.push(rate);
        let verdict = target(rate, duration);
        search.record(TrialSummary {
            rate,
            duration,
            cost: duration,
            verdict,
            goodput: rate,
            completed: rate,
            ..TrialSummary::EXAMPLE
        });
    }
    assert_eq!(first_rates[..8], [10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 1280.0]);
    phases.dedup();
    assert_eq!(phases, [Phase::Bracket, Phase::Narrow, Phase::Confirm, Phase::Overload, Phase::Recover]);
}

/// No single verdict decides, so that a few wrong ones widen the interval and do not move it.
#[test]
fn one_wrong_verdict_in_twenty_is_outvoted() {
    let (capacity, searches) = (5000.0, 40);
    let mut held = 0;
    for seed in 0..searches {
        let result = run(SearchPlan::new(10.0, 1e6), noisy(knee(capacity), 0.05, seed));
        let interval = result.estimate.map(|estimate| estimate.interval95);
        held += u64::from(interval.is_some_and(|[low, high]| low <= capacity && capacity <= high));
    }
    assert!(held * 100 >= searches * 92, "only {held} of {searches} intervals hold the capacity");
}

#[test]
fn a_ceiling_below_the_capacity_is_the_answer() {
    let result = run(SearchPlan::new(10.0, 2500.0), knee(1e9));
    assert_eq!((result.lower_bound, result.upper_bound), (Some(2500.0), None));
    assert_eq!((result.ended, result.limited_by_client), (EndReason::ClientCeiling, true));
    assert!(result.lower_confirmed);
    assert_eq!(result.estimate, None);
}

#[test]
fn rates_that_stay_invalid_are_beyond_the_client() {
    let beyond = |limit: f64, mut target: Box<dyn FnMut(f64, Duration) -> Verdict>| {
        run(
            SearchPlan::new(10.0, 1e6),
            move |rate, length| {
                if rate > limit { Verdict::Invalid } else { target(rate, length) }
            },
        )
    };
    let result = beyond(2500.0, Box::new(knee(1e9)));
    let lower = result.lower_bound.unwrap();
    assert!(lower <= 2500.0 && lower > 2500.0 * 0.97, "{lower}");
    assert_eq!((result.upper_bound, result.limited_by_client, result.ended), (None, true, EndReason::ClientCeiling));
    assert!(result.loads.iter().any(|load| load.class == LoadClass::BeyondClient && load.invalid == 3));
    // Far above the capacity it does not matter.
    assert_found(&beyond(50_000.0, Box::new(knee(3000.0))), 3000.0);
    // At the lowest rate nothing is known.
    let result = beyond(1.0, Box::new(knee(3000.0)));
    assert_eq!((result.lower_bound, result.upper_bound), (None, None));
    assert_eq!((result.limited_by_client, result.ended), (true, EndReason::LowestRate));
}

#[test]
fn a_trial_that_is_invalid_once_is_repeated() {
    let mut calls = 0;
    let mut target = knee(3000.0);
    let result = run(SearchPlan::new(10.0, 1e6), |rate, length| {
        calls += 1;
        if calls % 4 == 0 { Verdict::Invalid } else { target(rate, length) }
    });
    assert_found(&result, 3000.0);
}

#[test]
fn a_target_that_fails_at_once_has_no_lower_bound() {
    let result = run(SearchPlan::new(10.0, 1e6), knee(1.0));
    assert_eq!((result.lower_bound, result.upper_bound), (None, Some(10.0)));
    assert_eq!((result.ended, result.upper_confirmed), (EndReason::LowestRate, true));
}

/// Between 300 and 400 the target fails, above it passes again up to 5000. Only what lies below the
/// hole counts.
#[test]
fn a_load_that_fails_below_one_that_passes_bounds_from_above() {
    let plan = SearchPlan { hint: Some(540.0), ..SearchPlan::new(10.0, 1e6) };
    let result = run(
        plan,
        |rate, _| {
            if (300.0..400.0).contains(&rate) || rate > 5000.0 { Verdict::Fail } else { Verdict::Pass }
        },
    );
    let (lower, upper) = (result.lower_bound.unwrap(), result.upper_bound.unwrap());
    assert!(lower < 300.0 && (300.0..400.0).contains(&upper), "{lower}..{upper}");
}

#[test]
fn the_lower_bound_lies_below_every_failed_load() {
    let mut search = Search::new(SearchPlan::new(10.0, 1e6)).unwrap();
    for (rate, verdict) in [(100.0, Verdict::Pass), (300.0, Verdict::Fail), (500.0, Verdict::Pass)] {
        let mut load = Load::new(rate, 2);
        let duration = Duration::from_secs(10);
        (0..5).for_each(|_| {
            load.record(&TrialSummary { rate, duration, cost: duration, verdict, ..TrialSummary::EXAMPLE })
        });
        search.loads.push(load);
    }
    let bounds = search.bounds(ESTIMATE);
    assert_eq!((bounds.lower, bounds.upper, bounds.client), (Some(100.0), Some(300.0), None));
}

#[test]
fn a_spent_budget_says_how_far_it_came() {
    let budget = Duration::from_secs(30);
    let result = run(SearchPlan { budget, ..SearchPlan::new(10.0, 1e6) }, knee(3000.0));
    assert_eq!(result.ended, EndReason::BudgetSpent);
    let (lower, upper) = (result.lower_bound.unwrap(), result.upper_bound.unwrap());
    assert!(lower <= 3000.0 && 3000.0 < upper);
    assert!(result.estimate.is_some_and(|estimate| estimate.width() > 0.03), "{result:?}");
    assert!(result.spent_s <= 30.0);

    let nothing = run(SearchPlan { budget: Duration::ZERO, ..SearchPlan::new(10.0, 1e6) }, knee(3000.0));
    assert_eq!((nothing.lower_bound, nothing.upper_bound, nothing.loads.len()), (None, None, 0));
}

#[test]
fn plans_that_cannot_be_searched_are_refused() {
    let plan = SearchPlan::new(10.0, 1000.0);
    let check = |wrong: SearchPlan, part: &str| {
        let message = Search::new(wrong).expect_err(part).to_string();
        assert!(message.contains(part), "{message}");
    };
    check(SearchPlan { lowest_rate: 0.0, ..plan.clone() }, "lowest rate");
    check(SearchPlan { client_ceiling: 9.0, ..plan.clone() }, "ceiling 9/s is below");
    check(SearchPlan { client_ceiling: f64::NAN, ..plan.clone() }, "ceiling");
    check(SearchPlan { end: EstimateEnd::Width(0.0), ..plan.clone() }, "width 0");
    check(SearchPlan { exceed_ratio: 1.0, ..plan.clone() }, "exceed ratio 1");
    check(SearchPlan { initial_trial: Duration::from_secs(11), ..plan.clone() }, "do not grow");
    check(SearchPlan { initial_trial: Duration::ZERO, ..plan }, "do not grow");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_capacity_is_found(capacity in 10.0_f64..500_000.0, width in 0.02_f64..0.2) {
        let plan = SearchPlan { end: EstimateEnd::Width(width), budget: Duration::from_secs(7200), ..SearchPlan::new(10.0, 1e6) };
        let result = run(plan, knee(capacity));
        let estimate = result.estimate.unwrap();
        prop_assert!(estimate.width() <= width, "{:?}", result);
        // One knee in twenty lies beside the interval, but not far.
        let [low, high] = estimate.interval95;
        prop_assert!(low / 1.005 <= capacity && capacity <= high * 1.005, "{:?}", result);
    }

    #[test]
    fn any_target_comes_to_an_end(
        seed: u64,
        invalid in 0.0_f64..1.0,
        passes in 0.0_f64..1.0,
        trials_max in 0_u32..80,
        equal_lengths: bool,
    ) {
        let mut random = Random(seed);
        let mut plan = SearchPlan { trials_max, ..SearchPlan::new(10.0, 5000.0) };
        if equal_lengths {
            plan.initial_trial = plan.final_trial;
        }
        let budget_s = plan.budget.as_secs_f64();
        let result = run(plan, |_, _| {
            if random.uniform() < invalid {
                Verdict::Invalid
            } else if random.uniform() < passes {
                Verdict::Pass
            } else {
                Verdict::Fail
            }
        });
        prop_assert!(result.trials.total() <= trials_max);
        prop_assert!(result.spent_s <= budget_s);
        if let (Some(lower), Some(upper)) = (result.lower_bound, result.upper_bound) {
            prop_assert!(lower < upper);
        }
    }
}

/// Trials of an M/M/1 queue, request by request: whether p99 of the response time is within the
/// limit.
fn queue(service_rate: f64, limit_s: f64, seed: u64) -> impl FnMut(f64, Duration) -> Verdict {
    let mut random = Random(seed);
    move |rate, length| {
        let (mut wait, mut slow) = (0.0_f64, 0_u64);
        let total = (rate * length.as_secs_f64()) as u64;
        for _ in 0..total {
            let response = wait + random.exponential(service_rate);
            slow += u64::from(response > limit_s);
            wait = (response - random.exponential(rate)).max(0.0);
        }
        if slow * 100 <= total { Verdict::Pass } else { Verdict::Fail }
    }
}
/// A server that carries `capacity` until the load exceeds `breaking`, and only `damaged` for
/// `recovery_s` from then on.
fn collapsing(
    capacity: f64,
    breaking: f64,
    damaged: f64,
    recovery_s: f64,
) -> impl FnMut(f64, f64, Duration) -> Verdict {
    let mut suffers_until = f64::NEG_INFINITY;
    move |now, rate, length| {
        let end = now + length.as_secs_f64();
        let collapsed = now < suffers_until;
        if rate > breaking {
            suffers_until = end + recovery_s;
        }
        if rate <= if collapsed { damaged } else { capacity } { Verdict::Pass } else { Verdict::Fail }
    }
}

/// The search once ended with "100/s, PASS", although 640/s had passed before the overload.
#[test]
fn a_lasting_collapse_is_not_taken_for_the_capacity() {
    for damaged in [0.0, 15.0, 100.0] {
        let result = run_in_time(SearchPlan::new(10.0, 1e6), collapsing(660.0, 900.0, damaged, f64::INFINITY));
        let collapse = result.collapse.unwrap_or_else(|| panic!("{damaged}: {result:?}"));
        assert_eq!((result.ended, collapse.recovery_s), (EndReason::NotRecovered, None), "{damaged}");
        assert_eq!((collapse.held, collapse.overload), (640.0, 1280.0), "{damaged}");
        assert_eq!((result.lower_bound, result.upper_bound), (Some(640.0), Some(1280.0)), "{damaged}");
        assert!(!result.lower_confirmed && !result.upper_confirmed, "nothing was confirmed before the overload");
        assert!(collapse.failed <= 640.0 * 0.76 && collapse.failed > damaged, "{collapse:?}");
        assert!((60.0..75.0).contains(&collapse.waited_s), "{collapse:?}");
    }
    // A hint leads to the capacity in small steps. The collapse comes with the last of them, or
    // with the trials after the estimate.
    for breaking in [661.0, 900.0] {
        let plan = SearchPlan { hint: Some(780.0), ..SearchPlan::new(10.0, 1e6) };
        let result = run_in_time(plan, collapsing(660.0, breaking, 100.0, f64::INFINITY));
        assert!(result.collapse.is_some_and(|collapse| collapse.recovery_s.is_none()), "{breaking}: {result:?}");
        let [low, high] = result.estimate.expect("an estimate").interval95;
        assert!(low <= 660.0 && 660.0 <= high, "{breaking}: {result:?}");
    }
}

/// A single short trial is not enough to distinguish such a collapse from chance, but the
/// contradiction is reported.
#[test]
fn a_collapse_to_a_good_half_is_a_contradiction_at_least() {
    let plan = SearchPlan::new(10.0, 1e6);
    let result = run_in_time(plan, collapsing(660.0, 900.0, 400.0, f64::INFINITY));
    assert_eq!((result.collapse, result.contradicted), (None, Some(640.0)), "{result:?}");
    assert!(result.lower_bound <= Some(400.0) && result.upper_bound > Some(400.0));
}

#[test]
fn a_target_that_recovers_is_searched_to_the_end() {
    for (recovery_s, breaking) in [(40.0, 500.0), (58.0, 500.0), (40.0, 400.0), (55.0, 400.0)] {
        // Steps from a hint do not show a target that each trial above its capacity breaks.
        for hint in [None, Some(550.0).filter(|_| breaking > 400.0)] {
            let plan = SearchPlan::new(10.0, 1e6);
            let plan = SearchPlan { hint, budget: Duration::from_secs(7200), trials_max: 1000, ..plan };
            let result = run_in_time(plan, collapsing(400.0, breaking, 20.0, recovery_s));
            let case = format!("{hint:?}, {breaking}, {recovery_s} s");
            let collapse = result.collapse.unwrap_or_else(|| panic!("{case}: {result:?}"));
            let seen_s = collapse.recovery_s.unwrap_or_else(|| panic!("{case}: {result:?}"));
            assert!((1.0..recovery_s + 20.0).contains(&seen_s), "{case}: {collapse:?}");
            assert_found(&SearchResult { collapse: None, ..result }, 400.0);
        }
    }
}

#[test]
fn a_search_that_ends_while_it_waits_for_a_recovery_keeps_what_was_known_before_the_collapse() {
    let budget = Duration::from_secs(60);
    let plan = SearchPlan { budget, ..SearchPlan::new(10.0, 1e6) };
    let result = run_in_time(plan, collapsing(660.0, 900.0, 15.0, f64::INFINITY));
    assert_eq!(result.ended, EndReason::BudgetSpent);
    assert_eq!((result.lower_bound, result.upper_bound), (Some(640.0), Some(1280.0)));
    assert!(result.collapse.is_some_and(|collapse| collapse.recovery_s.is_none()), "{result:?}");
    assert!(result.spent_s <= 60.0);
}

/// How many searches a test makes that takes half a second for each: more in `make test-full`.
fn searches(usually: u64, in_full: u64) -> u64 {
    if std::env::var_os("THALWEG_TEST_FULL").is_some() { in_full } else { usually }
}

/// Two trials that disagree at one load, or near the capacity, are noise: of a threshold that moves
/// by 3 % less than one search in a thousand sees a collapse.
#[test]
fn a_noisy_target_is_not_taken_for_one_that_has_collapsed() {
    let (mut called, searches) = (0, searches(40, 100));
    for seed in 0..searches {
        let (mut random, noise) = (Random(seed), if seed % 2 == 0 { 0.03 } else { 0.1 });
        let result = run(SearchPlan::new(10.0, 1e6), |rate, _| {
            let capacity = 5000.0 * (1.0 + noise * (2.0 * random.uniform() - 1.0));
            if rate <= capacity { Verdict::Pass } else { Verdict::Fail }
        });
        called += u32::from(result.collapse.is_some());
    }
    assert_eq!(called, 0, "of {searches} moving thresholds are said to have collapsed");
}

/// Short trials of these queues hold a hundred requests, which is noise as well.
#[test]
fn a_queue_is_not_taken_for_a_target_that_has_collapsed() {
    let (mut called, searches) = (0, searches(24, 60));
    for seed in 0..searches {
        let (rate, limit_s) = [(100.0, 0.2), (200.0, 0.5), (300.0, 0.05)][seed as usize % 3];
        let hint = (seed % 2 == 0).then_some(rate);
        let result = run(SearchPlan { hint, ..SearchPlan::new(10.0, 1e6) }, queue(rate, limit_s, seed));
        called += u32::from(result.collapse.is_some());
    }
    assert_eq!(called, 0, "of {searches} queues are said to have collapsed");
}
