//! One round: the side is set up, loaded and measured.

use std::any::Any;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use thalweg_load::{Extent, LoopPlan, Plan, RateProfile, Spacing};
use thalweg_measure::limit::Statistic;
use thalweg_measure::search::EstimateEnd;
use thalweg_measure::{Outcome, Verdict};
use thalweg_report::document::{CompareEnd, Trial};
use thalweg_units::display;

use super::metric::{LoadKind, Metric, Tally};
use super::settings::{A, CompareError, CompareSettings, RoundLoad};
use crate::environment::ServerSetUp;
use crate::redirects;
use crate::search::{self, SearchSettings};
use crate::trial::{TestBed, TrialRequest, TrialResult, Watcher};

/// Length of the closed-loop trial that a moderate rate is a share of.
const PROBE: Duration = Duration::from_millis(1_000);
/// Its warm-up.
const PROBE_WARMUP: Duration = Duration::from_millis(250);
/// How long a target that has lost a round's requests is tried.
const REACH_TIMEOUT: Duration = Duration::from_millis(1_000);
/// The share of its CPU that a load thread may use at a moderate rate. Beyond it the client would
/// often fall short.
const CLIENT_SHARE: f64 = 0.5;
/// The time for each search of a capacity, in lengths of a round.
const SEARCH_BUDGET: u32 = 8;
/// The width of the bracket of such a search. Its scatter over the rounds is in the interval.
const SEARCH_WIDTH: f64 = 0.03;

/// A completed round.
#[derive(Debug)]
pub(super) struct MeasuredRound {
    /// The pair, from 0.
    pub pair: usize,
    pub side: usize,
    pub at_s: f64,
    pub counts: bool,
    /// By the position of the metric.
    pub values: Vec<Option<f64>>,
    /// The figures by load, if there were good responses.
    pub tallies: [Option<Tally>; 2],
    /// The first reason of a trial that was not passed.
    pub missed: Option<String>,
    /// Positions of its trials.
    pub trials: Vec<usize>,
}

/// The rounds' conditions: what is set up, and what was measured of it.
#[derive(Debug)]
pub(super) struct Rounds<'a> {
    settings: &'a CompareSettings,
    pub metrics: Vec<Metric>,
    pub trials: Vec<Trial>,
    /// The load of rounds in words.
    pub load: String,
    pub test_beds: Vec<Option<TestBed>>,
    arrivals: Option<LoopPlan>,
    servers: Vec<Option<Box<dyn Any>>>,
    /// The side that the one server was switched to.
    switched_to: Option<usize>,
}

impl<'a> Rounds<'a> {
    /// Sets both sides up, determines the load, and checks that they can be measured.
    ///
    /// # Errors
    /// A side cannot be set up or reached, or gives no good response.
    pub(super) fn prepare(settings: &'a CompareSettings, watcher: &mut dyn Watcher) -> Result<Self, CompareError> {
        let mut rounds = Self {
            settings,
            metrics: settings.metrics.clone(),
            trials: Vec::new(),
            load: String::new(),
            test_beds: settings.sides.iter().map(|_| None).collect(),
            arrivals: None,
            servers: settings.sides.iter().map(|_| None).collect(),
            switched_to: None,
        };
        let all: Vec<usize> = (0..settings.sides.len()).collect();
        let sides = if settings.once { &all[..=A] } else { &all };
        let (mut lowest, mut of_client) = (f64::INFINITY, f64::INFINITY);
        for &side in sides {
            rounds.set_up(side, watcher)?;
            let probed = rounds.probe(side, watcher)?;
            (lowest, of_client) = (lowest.min(probed[0]), of_client.min(probed[1]));
        }
        rounds.choose_metrics(sides)?;
        let (arrivals, load) = rounds.arrivals_for(lowest, of_client);
        rounds.arrivals = Some(arrivals);
        rounds.load = load;
        Ok(rounds)
    }

    /// Without a choice: the server's CPU time if it can be seen, p99 and throughput.
    fn choose_metrics(&mut self, sides: &[usize]) -> Result<(), CompareError> {
        let unseen = sides.iter().copied().find(|&side| self.server_cpu(side).is_empty());
        if self.metrics.is_empty() {
            self.metrics = vec![Metric::ResponseTime(Statistic::Percentile(99.0)), Metric::Throughput];
            if unseen.is_none() {
                self.metrics.insert(0, Metric::ServerCpu);
            }
        }
        match unseen {
            Some(side) if self.metrics.contains(&Metric::ServerCpu) => Err(CompareError::NoServer {
                side: self.name(side),
                target: self.settings.sides[side].target.shown.clone(),
            }),
            _ => Ok(()),
        }
    }

    fn name(&self, side: usize) -> String {
        self.settings.sides[side].name.clone()
    }

    fn arrivals_for(&self, lowest: f64, of_client: f64) -> (LoopPlan, String) {
        let spacing = match self.settings.sides[0].base.arrivals {
            LoopPlan::Open { spacing, .. } => spacing,
            _ => Spacing::Constant,
        };
        let open = |rate: f64| LoopPlan::Open { rate: Arc::new(RateProfile::constant(rate)), spacing };
        match self.settings.load {
            RoundLoad::Rate(rate) => (open(rate), format!("open loop, {}", display::rate(rate))),
            RoundLoad::Workers(workers) => {
                (LoopPlan::of_workers(workers, Duration::ZERO), format!("closed loop, {workers} workers"))
            }
            RoundLoad::Share(share) => {
                let rate = two_digits((lowest * share).min(of_client)).max(1.0);
                let text = format!(
                    "open loop, {} ({} of the slower side's rate in a closed loop, {})",
                    display::rate(rate),
                    display::percent(rate / lowest),
                    display::rate(lowest)
                );
                (open(rate), text)
            }
        }
    }

    /// Measures one round of `side` and adds it to `measured`; the end of the comparison and its
    /// reason, if it came meanwhile.
    ///
    /// # Errors
    /// The side cannot be set up, or the client has failed.
    pub(super) fn measure(
        &mut self,
        pair: usize,
        side: usize,
        measured: &mut Vec<MeasuredRound>,
        watcher: &mut dyn Watcher,
    ) -> Result<Option<(CompareEnd, Option<String>)>, CompareError> {
        if watcher.wants_stop() {
            return Ok(Some((CompareEnd::Interrupted, None)));
        }
        match self.set_up(side, watcher) {
            Ok(()) => {}
            Err(_) if watcher.wants_stop() => return Ok(Some((CompareEnd::Interrupted, None))),
            // The rounds before the server went, or its command failed, are kept.
            Err(error @ CompareError::Target { .. }) if !measured.is_empty() => {
                return Ok(Some((CompareEnd::TargetLost, Some(error.to_string()))));
            }
            Err(error @ CompareError::Command { .. }) if !measured.is_empty() => {
                return Ok(Some((CompareEnd::CommandFailed, Some(error.to_string()))));
            }
            Err(error) => return Err(error),
        }
        let mut round = MeasuredRound {
            pair,
            side,
            at_s: self.settings.environment.now().as_secs_f64(),
            counts: true,
            values: vec![None; self.metrics.len()],
            tallies: [None, None],
            missed: None,
            trials: Vec::new(),
        };
        let is_load_given = !matches!(self.settings.load, RoundLoad::Share(_));
        let loads: Vec<LoadKind> = self.metrics.iter().map(|metric| metric.load(is_load_given)).collect();
        for load in [LoadKind::Given, LoadKind::FullSpeed, LoadKind::Search] {
            if !loads.contains(&load) {
                continue;
            }
            let capacity = match load {
                LoadKind::Search => self.search(&mut round, watcher)?,
                _ => {
                    self.load(load, &mut round, watcher)?;
                    None
                }
            };
            if watcher.wants_stop() {
                return Ok(Some((CompareEnd::Interrupted, None)));
            }
            let tally = round.tallies.get(load as usize).and_then(Option::as_ref);
            for (position, metric) in self.metrics.iter().enumerate().filter(|(position, _)| loads[*position] == load) {
                round.values[position] = capacity.or_else(|| tally?.value(*metric));
            }
        }
        // A side that has gone away says nothing about its speed.
        let target = &self.settings.sides[side].target;
        if round.missed.is_some()
            && let Err(error) = self.settings.environment.reach(target, REACH_TIMEOUT, &[])
        {
            round.counts = false;
            measured.push(round);
            return Ok(Some((CompareEnd::TargetLost, Some(format!("{}: {error}", self.name(side))))));
        }
        measured.push(round);
        Ok(None)
    }

    /// One trial of a round.
    fn load(
        &mut self,
        load: LoadKind,
        round: &mut MeasuredRound,
        watcher: &mut dyn Watcher,
    ) -> Result<(), CompareError> {
        let side = &self.settings.sides[round.side];
        let (phase, plan) = match load {
            LoadKind::Given => ("compare", self.given_plan(&side.base)),
            _ => ("saturate", closed_loop(&side.base, self.settings.duration / 2, self.settings.warmup)),
        };
        let phase = format!("{phase}-{}", self.name(round.side).to_lowercase());
        let warmup = plan.warmup;
        let before = self.server_cpu(round.side);
        let result = self.trial(round.side, &phase, plan, watcher)?;
        let cpu = cpu_since(&before, &self.server_cpu(round.side));
        round.trials.push(self.trials.len());
        if result.judgement.verdict != Verdict::Pass && round.missed.is_none() {
            round.missed = result.trial.reasons.first().cloned();
        }
        if result.figures.trial.outcomes.count(Outcome::Good) > 0 {
            round.tallies[load as usize] = Some(Tally::of(&result, cpu, warmup));
        }
        self.trials.push(result.trial);
        Ok(())
    }

    /// The CPU time of each process that serves the side, if it can be seen from here.
    fn server_cpu(&self, side: usize) -> BTreeMap<u32, u64> {
        let server = self.settings.environment.server_of(&self.settings.sides[side].target);
        server.map_or_else(BTreeMap::new, |server| server.cpu_ns())
    }

    fn given_plan(&self, base: &Plan) -> Plan {
        Plan {
            arrivals: self.arrivals.clone().expect("the load was determined before the first round"),
            extent: Extent::Duration(self.settings.duration),
            warmup: self.settings.warmup,
            ..base.clone()
        }
    }

    /// A short capacity search; the middle of its bracket.
    fn search(&mut self, round: &mut MeasuredRound, watcher: &mut dyn Watcher) -> Result<Option<f64>, CompareError> {
        let duration = self.settings.duration;
        let settings = SearchSettings {
            base: self.settings.sides[round.side].base.clone(),
            lowest_rate: 10.0,
            initial_trial: duration / 4,
            final_trial: duration,
            end: EstimateEnd::Width(SEARCH_WIDTH),
            budget: duration * SEARCH_BUDGET,
            recovery: duration * SEARCH_BUDGET,
            overload: false,
            bottleneck: false,
        };
        let test_bed = self.test_beds[round.side].as_ref().expect("the side was set up");
        let found = match search::find(test_bed, &settings, watcher) {
            Err(search::SearchError::Interrupted) => return Ok(None),
            found => found.map_err(|source| CompareError::Search { side: self.name(round.side), source })?,
        };
        round.trials.extend(self.trials.len()..self.trials.len() + found.trials.len());
        self.trials.extend(found.trials);
        if found.verdict != Verdict::Pass {
            round.missed = found.reasons.first().cloned();
        }
        let bracket = found.find.lower_bound.zip(found.find.upper_bound);
        Ok(found.find.threshold.or_else(|| bracket.map(|(lower, upper)| (lower * upper).sqrt())))
    }

    /// The rates of a closed loop at full speed and of a client with half of its CPU; shows that
    /// the side gives good responses.
    fn probe(&mut self, side: usize, watcher: &mut dyn Watcher) -> Result<[f64; 2], CompareError> {
        let plan = closed_loop(&self.settings.sides[side].base, PROBE, PROBE_WARMUP);
        let result = self.trial(side, "probe", plan, watcher)?;
        if watcher.wants_stop() {
            self.trials.push(result.trial);
            return Err(self.interrupted());
        }
        let figures = &result.figures.trial;
        if figures.outcomes.count(Outcome::Good) == 0 {
            let target = &self.settings.sides[side].target;
            let ends = figures.outcomes.iter().filter(|(_, count)| *count > 0);
            let ends = ends.map(|(end, count)| format!("{} {end}", display::count(count)));
            let codes = figures.status_codes.iter().map(|(code, count)| format!("{} x {code}", display::count(count)));
            let outcomes: Vec<String> = ends.chain(codes).collect();
            let redirects = figures.redirects.as_ref().and_then(|some| redirects::sentence(some, &target.url));
            return Err(CompareError::NothingGood {
                side: self.name(side),
                target: target.shown.clone(),
                outcomes: outcomes.join(", "),
                responds: figures.outcomes.completed() > 0,
                advice: redirects.unwrap_or_else(|| "check the address and the requests".to_owned()),
            });
        }
        let rate = figures.rates().good;
        let mut trial = result.trial;
        let of_client = rate * CLIENT_SHARE / trial.client.busiest_core.max(0.01);
        trial.verdict = Verdict::Invalid;
        trial.reasons = vec![format!("not judged: the rate of side {} at full speed", self.name(side))];
        self.trials.push(trial);
        Ok([rate, of_client])
    }

    /// The end of a comparison that the user ended before its first pair.
    pub(super) fn interrupted(&mut self) -> CompareError {
        CompareError::Interrupted { trials: std::mem::take(&mut self.trials) }
    }

    fn trial(
        &self,
        side: usize,
        phase: &str,
        plan: Plan,
        watcher: &mut dyn Watcher,
    ) -> Result<TrialResult, CompareError> {
        let test_bed = self.test_beds[side].as_ref().expect("the side was set up");
        let request = TrialRequest { make_up: true, ..TrialRequest::new(phase, plan) };
        Ok(test_bed.trial(&request, watcher)?)
    }

    /// Restarts the side, or switches the server to it, if there is a command for that.
    fn set_up(&mut self, side: usize, watcher: &dyn Watcher) -> Result<(), CompareError> {
        let settings = &self.settings.sides[side];
        let switch = self.settings.switch.as_ref().filter(|_| self.switched_to != Some(side));
        if let Some(command) = settings.restart.as_ref().or(switch) {
            // Only one server can hold an address.
            for (other, running) in self.settings.sides.iter().zip(&mut self.servers) {
                if other.target.address == settings.target.address {
                    *running = None;
                }
            }
            let failed = |source| CompareError::Command { side: self.name(side), source };
            let (parameter, target) = (&settings.parameter, &settings.target);
            let server = ServerSetUp { command, parameter, target, patience: self.settings.restart_timeout };
            let server = self.settings.environment.set_up(&server, &|| watcher.wants_stop()).map_err(failed)?;
            self.servers[side] = Some(server);
            self.switched_to = Some(side);
            self.test_beds[side] = None;
        } else {
            let (timeout, sources) = (settings.base.timeout, &settings.base.sources);
            let reached = self.settings.environment.reach(&settings.target, timeout, sources);
            reached.map_err(|source| CompareError::Target { side: self.name(side), source: Box::new(source) })?;
        }
        if self.test_beds[side].is_none() {
            let environment = Rc::clone(&self.settings.environment);
            let test_bed = TestBed::within(environment, settings.target.clone(), self.settings.limits.clone());
            self.test_beds[side] = Some(test_bed);
        }
        Ok(())
    }
}

/// The plan of a trial at full speed.
fn closed_loop(base: &Plan, duration: Duration, warmup: Duration) -> Plan {
    Plan {
        arrivals: LoopPlan::of_workers(base.connections * base.pipeline as usize, Duration::ZERO),
        extent: Extent::Duration(duration),
        warmup,
        ..base.clone()
    }
}

/// The time used between the two; `None` if no process was seen.
fn cpu_since(before: &BTreeMap<u32, u64>, after: &BTreeMap<u32, u64>) -> Option<u64> {
    let used = after.iter().map(|(process, ns)| ns.saturating_sub(before.get(process).copied().unwrap_or(0)));
    (!after.is_empty()).then(|| used.sum())
}

/// A rate of two digits, which a person remembers and types again.
fn two_digits(rate: f64) -> f64 {
    let digit = 10_f64.powf(rate.log10().floor() - 1.0);
    (rate / digit).round() * digit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_rounded_to_two_digits() {
        for (rate, rounded) in [(12_345.0, 12_000.0), (996.0, 1000.0), (0.5678, 0.57)] {
            assert!((two_digits(rate) - rounded).abs() < 1e-9, "{rate}");
        }
    }

    #[test]
    fn a_process_that_came_meanwhile_counts_as_a_whole() {
        let before = BTreeMap::from([(1, 100), (2, 50)]);
        assert_eq!(cpu_since(&before, &BTreeMap::from([(1, 160), (3, 7)])), Some(67));
        assert_eq!(cpu_since(&before, &BTreeMap::new()), None);
    }
}
