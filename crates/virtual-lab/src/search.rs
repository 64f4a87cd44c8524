//! One whole search in virtual time, with the settings that `thalweg find` has by default.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use thalweg_lab::environment::Environment;
use thalweg_lab::search::{SearchError, SearchSettings, find};
use thalweg_lab::trial::TestBed;
use thalweg_load::{LoopPlan, Plan, RateProfile, Spacing};
use thalweg_measure::search::{EndReason, EstimateEnd};
use thalweg_measure::{Limit, Verdict};
use thalweg_yardstick::{Arrivals, Model};

use crate::client::ClientModel;
use crate::environment::VirtualLab;
use crate::load::{plan, target};
use crate::watcher::Quiet;

/// The defaults of `thalweg find`.
const TRIAL: Duration = Duration::from_secs(10);
const SHORT_TRIAL: Duration = Duration::from_millis(500);
const BUDGET: Duration = Duration::from_secs(600);
const RECOVERY: Duration = Duration::from_secs(60);
const LOWEST_RATE: f64 = 10.0;

/// A search to be made.
#[derive(Clone, Copy, Debug)]
pub struct SearchCase<'a> {
    /// The target, with the seed of its service times.
    pub model: Model,
    /// The client, with the seed of its disturbances.
    pub client: ClientModel,
    /// The arrivals of requests.
    pub arrivals: Arrivals,
    /// The limits that a rate has to meet.
    pub limits: &'a [Limit],
    /// Seed of the arrivals.
    pub seed: u64,
}

/// The result of a search.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// The verdict.
    pub verdict: Verdict,
    /// Why it ended; `None` if no rate was tried.
    pub ended: Option<EndReason>,
    /// The estimate of the threshold, in requests per second.
    pub threshold: Option<f64>,
    /// Its interval.
    pub interval95: Option<[f64; 2]>,
    /// The highest rate that was shown to be met.
    pub lower_bound: Option<f64>,
    /// The lowest rate that was shown to be missed.
    pub upper_bound: Option<f64>,
    /// The client's ceiling.
    pub client_ceiling: Option<f64>,
    /// Virtual seconds from the first trial to the result.
    pub seconds: f64,
    /// Trials in all, and those of them that were INVALID although they were to be judged.
    pub trials: usize,
    /// See `trials`.
    pub invalid: usize,
    /// Seconds of trials that were left out.
    pub lost_s: f64,
    /// Whether the target was seen to collapse, and whether it came back.
    pub collapsed: bool,
    /// See `collapsed`.
    pub recovered: bool,
    /// Whether the threshold was seen to move.
    pub drifted: bool,
}

/// Makes one search.
///
/// # Errors
/// No rate was tried: see [`SearchError`].
pub fn search(case: &SearchCase<'_>) -> Result<Found, SearchError> {
    let lab = Rc::new(VirtualLab::new(case.model, case.client));
    let test_bed = TestBed::within(lab.clone(), target(), case.limits.to_vec());
    let spacing = match case.arrivals {
        Arrivals::Constant => Spacing::Constant,
        Arrivals::Poisson => Spacing::Poisson,
    };
    let arrivals = LoopPlan::Open { rate: Arc::new(RateProfile::constant(LOWEST_RATE)), spacing };
    let settings = settings(Plan { arrivals, seed: case.seed, ..plan() });
    let conclusion = find(&test_bed, &settings, &mut Quiet)?;
    let find = &conclusion.find;
    let is_judged = |phase: &str| !matches!(phase, "probe" | "calibrate" | "diagnose");
    let judged = conclusion.trials.iter().filter(|trial| is_judged(&trial.phase));
    Ok(Found {
        verdict: conclusion.verdict,
        ended: find.ended,
        threshold: find.threshold,
        interval95: find.interval95,
        lower_bound: find.lower_bound,
        upper_bound: find.upper_bound,
        client_ceiling: find.client_ceiling,
        seconds: lab.now().as_secs_f64(),
        trials: conclusion.trials.len(),
        invalid: judged.filter(|trial| trial.verdict == Verdict::Invalid).count(),
        lost_s: find.lost_s,
        collapsed: find.overload.as_ref().is_some_and(|overload| overload.failed_rate.is_some()),
        drifted: find.drift.is_some(),
        recovered: find.overload.as_ref().is_some_and(|overload| overload.recovered),
    })
}

/// The settings of a search with that load.
pub fn settings(base: Plan) -> SearchSettings {
    SearchSettings {
        base,
        lowest_rate: LOWEST_RATE,
        initial_trial: SHORT_TRIAL,
        final_trial: TRIAL,
        end: EstimateEnd::DEFAULT,
        budget: BUDGET,
        recovery: RECOVERY,
        overload: true,
        bottleneck: true,
    }
}
