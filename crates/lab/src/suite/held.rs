//! The most connections that a server holds at once, each receiving at a pace: ACME's modems,
//! HEAnet's concurrent downloads, SPECweb99's connections.
//!
//! A step opens so many connections, has each request one file after the other at the pace, and
//! judges them over a window. `connections` says which number comes next.

use std::collections::BTreeMap;
use std::time::Duration;

use thalweg_doctor::needs::{DESCRIPTORS_BESIDE, Sources, Threads, UNPRIVILEGED, counted_on, share_out, spread};
use thalweg_load::{Extent, LoopPlan, Pace, Plan};
use thalweg_measure::{Limit, Outcome, Verdict};
use thalweg_sys::resource_limits::{descriptors, ip_local_port_range, raise_descriptors};
use thalweg_sys::{PeerAddr, PortRange, proc};
use thalweg_units::display;
use thalweg_wire::Version;

use super::connections::{ConnectionSearch, Held, MostHeld};
use super::settings::SuiteError;
use super::stage::{Stage, Stop};
use crate::trial::TrialResult;

/// The conditions that a step has to meet.
#[derive(Clone, Copy, Debug)]
pub(super) struct HoldRules {
    /// The pace at which each connection reads.
    pub(super) pace_bits_per_s: u64,
    /// The rate from which on it conforms.
    pub(super) conforming_bits_per_s: u64,
    /// The share of requests below which errors have to be; 0 allows none.
    pub(super) errors_below: f64,
    /// The HTTP version.
    pub(super) version: Version,
}

/// For how long all of them are held.
const WINDOW: Duration = Duration::from_secs(30);
/// A window holds several reads of each connection.
const WINDOW_MIN: Duration = Duration::from_secs(2);
const CYCLES_MIN: u32 = 4;

/// The time in which the server can close its ends of a step's connections, or the next step would
/// find its places taken.
const SETTLING: Duration = Duration::from_millis(500);

/// New connections per second. A listen queue of the kernel's default length empties in between.
const OPENING_RATE: f64 = 2_500.0;
/// The first number that is tried.
const FIRST: usize = 64;
/// The relative distance of the bounds at which the search ends.
const WIDTH: f64 = 0.02;
/// Memory that a connection takes, at most, on a host that has both of its ends: what client and
/// server keep of it, and what the kernel keeps of a body between them (bench/README.md, "hold").
const BYTES_PER_CONNECTION: u64 = 256 * 1024;
/// The longest time that a paced connection may be without a byte is at least this: it reads every
/// few seconds.
const TIMEOUT_MIN: Duration = Duration::from_secs(10);

/// Searches the most connections and puts them into the declared figure `name`.
pub(super) fn search(stage: &mut Stage<'_>, name: &str, rules: HoldRules) -> Result<(), Stop> {
    let max = bound(stage)?;
    let mut search = ConnectionSearch::new(FIRST.min(max), max, WIDTH);
    // Of each number, since one that is missed may be met at the next trial.
    let mut misses: BTreeMap<usize, String> = BTreeMap::new();
    let mut last_client = String::new();
    while let Some(connections) = search.step() {
        let plan = plan(stage, connections, rules)?;
        let errors = format!("errors<{}%", rules.errors_below * 100.0);
        let limits: Vec<Limit> =
            (rules.errors_below > 0.0).then(|| errors.parse().expect("a valid limit")).into_iter().collect();
        let result = stage.trial("hold", plan, &limits)?;
        stage.test_bed.environment.pause(SETTLING);
        let (held, why) = StepFigures::of(&result, connections).judge(rules);
        match held {
            Held::Met => {}
            Held::Missed => drop(misses.insert(connections, why)),
            Held::ClientFellShort => last_client = why,
        }
        search.record(connections, held);
        let found = search.result();
        let miss = found.missed.and_then(|missed| misses.get(&missed)).map_or("", String::as_str);
        note(stage, name, found, max, miss, &last_client);
        if search.step().is_some() && found.met > 0 {
            // An interruption or a server that dies may end the search here.
            stage.figure(name).at_least = true;
        }
    }
    let found = search.result();
    if found.met > 0 && found.limited_by_client && found.met < max {
        let met = display::count(found.met as u64);
        stage.worsen(Verdict::Invalid, format!("the client fell short beyond {met} connections: {last_client}"));
    }
    if found.met == 0 {
        let (verdict, why) = if found.limited_by_client {
            (Verdict::Invalid, format!("the client fell short at every number of connections: {last_client}"))
        } else {
            let why = misses.into_values().next().unwrap_or_default();
            (Verdict::Fail, format!("the server held no connection at the pace: {why}"))
        };
        stage.worsen(verdict, why);
    }
    Ok(())
}

/// The observations of one step.
#[derive(Clone, Debug, Default)]
struct StepFigures {
    /// Connections that were to be held, attempts to open one, those opened in all, those open at
    /// the end, and those that received something, with the ones of them that conformed.
    wanted: u64,
    attempted: u64,
    opened: u64,
    held: u64,
    measured: u64,
    conforming: u64,
    /// Requests, and those that ended in an error.
    offered: u64,
    errors: Vec<(Outcome, u64)>,
    /// The client's shortfall, in words.
    shortfall: Option<String>,
}

impl StepFigures {
    fn of(result: &TrialResult, connections: usize) -> Self {
        let trial = &result.figures.trial;
        let is_invalid = result.judgement.verdict == Verdict::Invalid;
        Self {
            wanted: connections as u64,
            attempted: trial.connections.attempted,
            opened: trial.connections.opened,
            held: trial.connections.held,
            measured: trial.bits_per_connection.count(),
            conforming: trial.connections.conforming,
            offered: trial.counts.offered,
            errors: trial.outcomes.iter().filter(|(outcome, count)| outcome.is_error() && *count > 0).collect(),
            shortfall: is_invalid.then(|| result.trial.reasons.join("; ")),
        }
    }

    /// The outcome of the step, and why it was not met.
    ///
    /// A client that was late makes no server hold a connection or send at a rate, and it brings
    /// about no refusal: these are known of the server all the same. Slow connections and timeouts
    /// may be the client's.
    fn judge(&self, rules: HoldRules) -> (Held, String) {
        let within = |errors: u64| errors == 0 || (errors as f64) < rules.errors_below * self.offered as f64;
        let all: u64 = self.errors.iter().map(|(_, count)| count).sum();
        let by_server = self.errors.iter().filter(|(outcome, _)| is_by_server(*outcome)).map(|(_, count)| count).sum();
        let short = self.measured.max(self.wanted) - self.conforming;
        let why = if !within(all) {
            let named = |(outcome, count): &(Outcome, u64)| {
                format!("{} {}", display::count(*count), outcome.name().replace('_', " "))
            };
            let named: Vec<String> = self.errors.iter().map(named).collect();
            format!("with {} connections there were {}", display::count(self.wanted), named.join(", "))
        } else if self.held + self.replaced() < self.wanted {
            format!("{} of {} connections were open at the end", display::count(self.held), display::count(self.wanted))
        } else if short > 0 {
            let pace = display::link_rate(rules.conforming_bits_per_s);
            format!("{} of {} connections made less than {pace}", display::count(short), display::count(self.wanted))
        } else {
            return (Held::Met, String::new());
        };
        match &self.shortfall {
            Some(shortfall) if within(by_server) => (Held::ClientFellShort, shortfall.clone()),
            _ => (Held::Missed, why),
        }
    }

    /// Connections that are being opened at the end in the place of others. A server may close a
    /// connection after a response; if it is being replaced, it is not lost.
    fn replaced(&self) -> u64 {
        self.opened.saturating_sub(self.wanted).min(self.attempted.saturating_sub(self.opened))
    }
}

/// Whether an error is one that only the server can have brought about.
fn is_by_server(outcome: Outcome) -> bool {
    use Outcome::{BadStatus, FailedCheck, NotProcessed, ProtocolError, Refused, Reset, Truncated};
    matches!(outcome, BadStatus | FailedCheck | NotProcessed | ProtocolError | Refused | Reset | Truncated)
}

/// Puts the result so far into the figure.
fn note(stage: &mut Stage<'_>, name: &str, found: MostHeld, max: usize, miss: &str, client: &str) {
    let figure = stage.figure(name);
    figure.value = (found.met > 0).then_some(found.met as f64);
    figure.at_least = found.missed.is_none() && found.met > 0;
    figure.words = match (found.missed, found.limited_by_client) {
        (Some(missed), _) => format!("{} were not held: {miss}", display::count(missed as u64)),
        (None, true) if found.met >= max => {
            format!("limited by the client: {} are the most that it was to open or can", display::count(max as u64))
        }
        (None, true) => format!("limited by the client: {client}"),
        (None, false) => "the search was not ended".to_owned(),
    };
}

fn plan(stage: &Stage<'_>, connections: usize, rules: HoldRules) -> Result<Plan, SuiteError> {
    let settings = stage.settings;
    let opening = Duration::from_secs_f64(connections as f64 / OPENING_RATE);
    // Requests begin one after the other, as the connections did.
    let arrivals = LoopPlan::Closed { workers: connections, think: Duration::ZERO, stagger: opening };
    let cycle = Pace::read_cycle(connections / settings.cpus.len());
    let window = settings.time(WINDOW, WINDOW_MIN.max(cycle * CYCLES_MIN));
    let plan = stage.plan(rules.version, arrivals, Extent::Duration(opening + window))?;
    let wanted = connections as u64 + DESCRIPTORS_BESIDE;
    let per_table = raise_descriptors(wanted).unwrap_or(descriptors().soft);
    let Threads { cpus, own_tables } = share_out(connections as u64, per_table, &settings.cpus).ok_or_else(|| {
        SuiteError::Host(format!("{connections} connections need more descriptors than this host has"))
    })?;
    let Sources { addresses, ports } = sources(stage, connections)?;
    Ok(Plan {
        connections,
        hold: Some(connections),
        opening_rate: Some(OPENING_RATE),
        pace: Some(Pace::new(Some(rules.pace_bits_per_s), Duration::ZERO)),
        conforming_bits_per_s: rules.conforming_bits_per_s,
        timeout: settings.timeout.max(TIMEOUT_MIN),
        sources: addresses,
        ports,
        cpus,
        own_tables,
        ..plan
    })
}

fn sources(stage: &Stage<'_>, connections: usize) -> Result<Sources, SuiteError> {
    let PeerAddr::Tcp(peer) = stage.test_bed.target.address else { return Ok(Sources::default()) };
    let usual = ip_local_port_range().map_or(0, PortRange::count);
    spread(connections, peer, usual, stage.settings.sources.clone()).map_err(|too_few| {
        SuiteError::Host(format!(
            "{connections} connections to {peer} need {} local addresses, because one address has at most {} ports; use \
             --from FIRST-LAST or --max-connections",
            too_few.wanted, too_few.ports
        ))
    })
}

/// The most connections that are tried: the setting, or what memory and ports of this host allow.
fn bound(stage: &mut Stage<'_>) -> Result<usize, Stop> {
    let cpus = stage.settings.cpus.len();
    if let Some(max) = stage.settings.connections_max {
        if max < cpus {
            return Err(
                SuiteError::Host(format!("at most {max} connections are fewer than the client's {cpus} CPUs")).into()
            );
        }
        sources(stage, max)?;
        return Ok(max);
    }
    let by_memory = usize::try_from(proc::host().memory_bytes / 2 / BYTES_PER_CONNECTION).unwrap_or(usize::MAX);
    let addresses = stage.settings.sources.len().max(1);
    let by_ports = match sources(stage, by_memory) {
        Ok(_) => by_memory,
        Err(_) => counted_on(UNPRIVILEGED.map_or(0, PortRange::count)) * addresses,
    };
    let max = by_memory.min(by_ports).max(cpus);
    stage.choose(format!(
        "at most {} connections are tried: half of this host's memory at {} each, and the ports of its addresses",
        display::count(max as u64),
        display::bytes(BYTES_PER_CONNECTION)
    ));
    Ok(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: HoldRules = HoldRules {
        pace_bits_per_s: 400_000,
        conforming_bits_per_s: 320_000,
        errors_below: 0.01,
        version: Version::Http11,
    };

    fn check(change: impl FnOnce(&mut StepFigures), expected: Held, part: &str) {
        let mut step = StepFigures {
            wanted: 100,
            attempted: 100,
            opened: 100,
            held: 100,
            measured: 100,
            conforming: 100,
            offered: 1000,
            ..Default::default()
        };
        change(&mut step);
        let (held, why) = step.judge(RULES);
        assert_eq!(held, expected, "{step:?}");
        assert!(why.contains(part), "{why}");
    }

    #[test]
    fn a_step_is_met_missed_or_not_known() {
        let late = || Some("the client sent late".to_owned());
        check(|_| {}, Held::Met, "");
        check(|step| step.held = 99, Held::Missed, "99 of 100 connections were open");
        check(|step| (step.held, step.opened, step.attempted) = (99, 120, 121), Held::Met, "");
        check(
            |step| (step.held, step.opened, step.attempted) = (98, 120, 121),
            Held::Missed,
            "98 of 100 connections were open",
        );
        check(
            |step| (step.held, step.opened, step.attempted) = (70, 70, 100),
            Held::Missed,
            "70 of 100 connections were open",
        );
        check(|step| step.conforming = 98, Held::Missed, "2 of 100 connections made less than 320 kbit/s");
        // A connection that was opened in the place of another one has to conform, too.
        check(|step| step.measured = 101, Held::Missed, "1 of 100 connections");
        check(|step| step.errors = vec![(Outcome::Reset, 9)], Held::Met, "");
        check(|step| step.errors = vec![(Outcome::Reset, 10)], Held::Missed, "there were 10 reset");
        // All that was held was held, however late the client was.
        check(|step| step.shortfall = late(), Held::Met, "");
        let slow_client = |step: &mut StepFigures| (step.conforming, step.shortfall) = (98, late());
        check(slow_client, Held::ClientFellShort, "sent late");
        let timeouts = |step: &mut StepFigures| (step.errors, step.shortfall) = (vec![(Outcome::Timeout, 50)], late());
        check(timeouts, Held::ClientFellShort, "sent late");
        let refusals = |step: &mut StepFigures| (step.errors, step.shortfall) = (vec![(Outcome::Refused, 50)], late());
        check(refusals, Held::Missed, "50 refused");
    }
}
