//! The client's CPU: what requests cost it, how late it wakes up, and the time that is stolen.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64Mcg;
use thalweg_reactor::sim::Sim;
use thalweg_sys::Instant;
use thalweg_sys::driver::Driver;

/// The address that the network gives to clients.
pub(crate) const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

const SECOND_NS: u64 = 1_000_000_000;

/// The model of a client with one load thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientModel {
    /// The CPU time of a request with its response. Its inverse is the client's ceiling.
    pub request_cost: Duration,
    /// How late the thread comes back from a sleep, on average; exponentially distributed.
    pub wake_lag: Duration,
    /// The time that others take from its CPU.
    pub theft: Option<Theft>,
    /// Seed of all that is random.
    pub seed: u64,
}

/// Time that others take from the client's CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Theft {
    /// The share of seconds in which they do.
    pub share: f64,
    /// For how long in such a second.
    pub length: Duration,
}

impl Default for ClientModel {
    /// A client for 50,000 requests per second that nobody disturbs.
    fn default() -> Self {
        let (request_cost, wake_lag) = (Duration::from_micros(20), Duration::from_micros(10));
        Self { request_cost, wake_lag, theft: None, seed: 1 }
    }
}

/// The CPU in operation.
#[derive(Debug)]
pub(crate) struct ClientCpu {
    model: ClientModel,
    random: Pcg64Mcg,
    /// The thread is at work until then.
    busy_until: Instant,
    busy_ns: u64,
    /// The next theft, or the one under way.
    stolen: Option<(Instant, Instant)>,
    /// The second in which the next theft may be.
    second: Instant,
    stolen_ns: Rc<Cell<u64>>,
}

impl ClientCpu {
    /// An idle one.
    pub(crate) fn new(model: ClientModel, now: Instant) -> Self {
        let random = Pcg64Mcg::seed_from_u64(model.seed);
        let stolen_ns = Rc::new(Cell::new(0));
        Self { model, random, busy_until: now, busy_ns: 0, stolen: None, second: now, stolen_ns }
    }

    /// The time at which the thread can run next, `now` if it can.
    pub(crate) fn free_at(&mut self, sim: &mut Sim, now: Instant) -> Instant {
        let free_at = self.busy_until.max(now);
        match self.theft_after(sim, free_at) {
            Some((from, until)) if from <= free_at => until,
            _ => free_at,
        }
    }

    /// The theft at this time or the next one after it, so that no completion comes in it.
    fn theft_after(&mut self, sim: &mut Sim, at: Instant) -> Option<(Instant, Instant)> {
        let Theft { share, length } = self.model.theft?;
        let length_ns = (length.as_nanos() as u64).min(SECOND_NS);
        while self.stolen.is_none_or(|(_, until)| until <= at) {
            if let Some((from, until)) = self.stolen.take() {
                self.stolen_ns.set(self.stolen_ns.get() + until.ns_since(from));
            }
            while !self.random.random_bool(share) {
                self.second = self.second.plus_ns(SECOND_NS);
            }
            let from = self.second.plus_ns(self.random.random_range(0..=SECOND_NS - length_ns));
            self.second = self.second.plus_ns(SECOND_NS);
            let until = from.plus_ns(length_ns);
            self.stolen = Some((from, until));
            sim.stall_host(CLIENT, from, until);
        }
        self.stolen
    }

    /// The thread runs again, having meant to wake up at `planned`: what was stolen until now is
    /// in the account, and the driver tells how late it is.
    pub(crate) fn wake(&mut self, sim: &mut Sim, planned: Instant) {
        let now = sim.now();
        self.theft_after(sim, now);
        let due = planned.max(self.busy_until);
        if now > due {
            sim.oversleep(now.ns_since(due));
        }
    }

    /// Charges the CPU time of `requests` to the thread, from now on.
    pub(crate) fn work(&mut self, sim: &mut Sim, requests: u32) {
        let now = sim.now();
        let work_ns = self.model.request_cost.as_nanos() as u64 * u64::from(requests);
        self.busy_ns += work_ns;
        self.busy_until = now.plus_ns(work_ns);
        if work_ns > 0 {
            sim.stall_host(CLIENT, now, self.busy_until);
        }
    }

    /// When the thread comes back from a sleep until `planned`.
    pub(crate) fn woken_at(&mut self, planned: Instant) -> Instant {
        let unit: f64 = Exp1.sample(&mut self.random);
        planned.plus_ns((self.model.wake_lag.as_nanos() as f64 * unit) as u64)
    }

    /// Nanoseconds at work so far.
    pub(crate) fn busy_ns(&self) -> u64 {
        self.busy_ns
    }

    /// Nanoseconds stolen so far, shared with the kernel's account of the thread.
    pub(crate) fn stolen_ns(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.stolen_ns)
    }
}
