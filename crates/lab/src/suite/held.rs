//! The most connections that a server holds at once, each receiving at a pace: ACME's modems,
//! HEAnet's concurrent downloads, SPECweb99's connections.
//!
//! A step opens so many connections, has each request one file after the other at the pace, and
//! judges them over a window. `connections` says which number comes next.

use std::time::Duration;

use thalweg_doctor::needs::{DESCRIPTORS_BESIDE, Sources, Threads, counted_on, share_out, spread};
use thalweg_load::{Extent, LoopPlan, Pace, Plan};
use thalweg_measure::{Limit, Verdict};
use thalweg_sys::resource_limits::{descriptors, ip_local_port_range, raise_descriptors};
use thalweg_sys::{PeerAddr, PortRange, proc};
use thalweg_units::display;
use thalweg_wire::Version;

use super::connections::{ConnectionSearch, Held, MostHeld};
use super::settings::SuiteError;
use super::stage::{Stage, Stop, error_share};
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
/// A window holds several reads of each connection: those of a paced one are up to
/// [`READ_CYCLE_MAX`] apart, less with few connections.
const WINDOW_MIN: Duration = Duration::from_secs(2);
const READ_CYCLE_MAX: Duration = Duration::from_secs(4);
/// The connections of a CPU from which on reads are that far apart.
const READ_CYCLE_PER_CONNECTION: Duration = Duration::from_micros(120);
const CYCLES_MIN: u32 = 4;

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
    let mut last_miss = String::new();
    let mut last_client = String::new();
    while let Some(connections) = search.step() {
        let plan = plan(stage, connections, rules)?;
        let errors = format!("errors<{}%", rules.errors_below * 100.0);
        let limits: Vec<Limit> =
            (rules.errors_below > 0.0).then(|| errors.parse().expect("a valid limit")).into_iter().collect();
        let result = stage.trial("hold", plan, &limits)?;
        let (held, why) = judge(&result, connections, rules);
        match held {
            Held::Met => {}
            Held::Missed => last_miss = why,
            Held::ClientFellShort => last_client = why,
        }
        search.record(connections, held);
        note(stage, name, search.result(), max, &last_miss, &last_client);
    }
    let found = search.result();
    if found.met == 0 {
        let (verdict, why) = if found.limited_by_client {
            (Verdict::Invalid, format!("the client fell short at every number of connections: {last_client}"))
        } else {
            (Verdict::Fail, format!("the server held no connection at the pace: {last_miss}"))
        };
        stage.worsen(verdict, why);
    }
    Ok(())
}

/// The outcome of one step, and why it was not met.
fn judge(result: &TrialResult, connections: usize, rules: HoldRules) -> (Held, String) {
    let counts = &result.figures.trial.connections;
    let measured = result.figures.trial.bits_per_connection.count();
    let errors = error_share(result);
    if result.judgement.verdict == Verdict::Invalid {
        return (Held::ClientFellShort, result.trial.reasons.join("; "));
    }
    let wanted = connections as u64;
    let too_many_errors = if rules.errors_below > 0.0 { errors >= rules.errors_below } else { errors > 0.0 };
    let why = if counts.held < wanted {
        format!("{} of {} connections were open at the end", display::count(counts.held), display::count(wanted))
    } else if too_many_errors {
        let ends = result.trial.outcomes.iter().filter(|(outcome, count)| outcome.is_error() && *count > 0);
        let ends: Vec<String> = ends
            .map(|(outcome, count)| format!("{} {}", display::count(count), outcome.name().replace('_', " ")))
            .collect();
        format!("with {} connections there were {}", display::count(wanted), ends.join(", "))
    } else if counts.conforming < measured.max(wanted) {
        let short = measured.max(wanted) - counts.conforming;
        let pace = display::link_rate(rules.conforming_bits_per_s);
        format!("{} of {} connections made less than {pace}", display::count(short), display::count(wanted))
    } else {
        return (Held::Met, String::new());
    };
    (Held::Missed, why)
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
    let per_cpu = (connections / settings.cpus.len()) as u32;
    let cycle = (READ_CYCLE_PER_CONNECTION * per_cpu).min(READ_CYCLE_MAX);
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
        return Ok(max.max(cpus));
    }
    let by_memory = usize::try_from(proc::host().memory_bytes / 2 / BYTES_PER_CONNECTION).unwrap_or(usize::MAX);
    let addresses = stage.settings.sources.len().max(1);
    let by_ports = match sources(stage, by_memory) {
        Ok(_) => by_memory,
        Err(_) => {
            thalweg_doctor::needs::UNPRIVILEGED.map_or(0, PortRange::count).min(counted_on(usize::from(u16::MAX)))
                * addresses
        }
    };
    let max = by_memory.min(by_ports).max(FIRST);
    stage.choose(format!(
        "at most {} connections are tried: half of this host's memory at {} each, and the ports of its addresses",
        display::count(max as u64),
        display::bytes(BYTES_PER_CONNECTION)
    ));
    Ok(max)
}
