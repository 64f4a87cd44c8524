//! The engine's memory is bounded by the plan and not by the length of the run.

use std::cell::Cell;
use std::time::Duration;

use thalweg_load::{Extent, LoopPlan, Pace, Plan, Reuse, UserPlan};
use thalweg_reactor::sim::SimConfig;

use crate::script::{Response, random_of};
use crate::world::{World, plan, session_plan};

/// Verifies that a run that is a hundred times as long needs no more entries in queues and timers
/// than a short one, but for chance.
fn check(name: &str, make: impl Fn(Extent) -> Plan) {
    let entries_max = |ms: u64| {
        let timeout = Duration::from_millis(20);
        let plan = Plan { timeout, connections: 40, ..make(Extent::Duration(Duration::from_millis(ms))) };
        let network = SimConfig { jitter_ns: 2_000_000, ..SimConfig::calm(1) };
        let asked = Cell::new(0);
        // All causes of stale entries: connections that end while idle, busy or in a pause, with
        // and without an announcement.
        let run = World { network, ..World::calm(plan) }.run(move |number| {
            asked.set(asked.get() + 1);
            Response::any(&mut random_of(number, asked.get()))
        });
        assert!(run.records.len() as u64 > ms / 10, "{name}: there was a load");
        run.entries_max
    };
    let (short, long) = (entries_max(200), entries_max(20_000));
    assert!(long <= 2 * short, "{name}: {short} entries in a short run, {long} in a long one");
}

#[test]
fn queues_and_timers_do_not_grow_with_the_run() {
    let rate = || LoopPlan::at_rate(400.0);
    let workers = || LoopPlan::of_workers(10, Duration::from_millis(10));
    check("open loop", |extent| plan(rate(), extent, 20));
    check("latest first", |extent| Plan { reuse: Reuse::Latest, ..plan(rate(), extent, 20) });
    check("closed loop", |extent| plan(workers(), extent, 20));
    check("few calls each", |extent| Plan { calls: Some(3), ..plan(rate(), extent, 20) });
    check("pipelined", |extent| Plan { pipeline: 4, ..plan(rate(), extent, 20) });
    check("pipelined, latest first", |extent| Plan { pipeline: 4, reuse: Reuse::Latest, ..plan(rate(), extent, 20) });
    check("calls", |extent| Plan { user: Some(UserPlan::Calls(5)), ..plan(LoopPlan::at_rate(100.0), extent, 20) });
    let pace = Some(Pace::new(Some(1_000_000), Duration::ZERO));
    check("paced", |extent| Plan { pace, ..plan(rate(), extent, 20) });
    let text = "/1 think=0.01\n /2\n /3\n/4 think=0.03\n/5\n /6\n";
    let sessions = |arrivals, extent| session_plan(text, Duration::ZERO, arrivals, extent);
    check("sessions", |extent| sessions(LoopPlan::at_rate(100.0), extent));
    check("sessions of workers, pipelined", |extent| Plan { pipeline: 8, ..sessions(workers(), extent) });
}
