//! Simulation of a model in virtual time, for those without a closed form.

use rand::SeedableRng;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;
use thalweg_measure::Histogram;

use crate::model::Model;
use crate::station::Station;

/// How requests arrive at the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Evenly spaced.
    Constant,
    /// Independent of one another.
    Poisson,
}

/// The figures of a simulated run.
#[derive(Debug)]
pub(super) struct SimulatedRun {
    /// Sojourn times of served requests.
    pub(super) sojourns: Histogram,
    /// Shares of arrivals.
    pub(super) refused: f64,
}

/// Offers `requests` at `rate` and leaves the first tenth out of the figures. One seed gives the
/// same sequences at each rate, so that figures of two rates differ by the rate alone.
pub(super) fn simulate(model: &Model, arrivals: Arrivals, rate: f64, requests: u64) -> SimulatedRun {
    let mut station = Station::new(model);
    let mut intervals = Pcg64Mcg::seed_from_u64(model.seed.rotate_left(16) ^ 2);
    let (mut sojourns, mut refused) = (Histogram::new(), 0);
    let unmeasured = requests / 10;
    let mut now = 0.0;
    let mut served = |(number, arrival): (u64, u64), departure: u64| {
        if number >= unmeasured {
            sojourns.record(departure - arrival);
        }
    };
    for number in 0..requests {
        let unit: f64 = match arrivals {
            Arrivals::Constant => 1.0,
            Arrivals::Poisson => Exp1.sample(&mut intervals),
        };
        now += unit * 1e9 / rate;
        let arrival = now as u64;
        while let Some((request, departure)) = station.depart(arrival, |_| true) {
            served(request, departure);
        }
        if station.arrive(arrival, (number, arrival)).is_err() && number >= unmeasured {
            refused += 1;
        }
    }
    while let Some((request, departure)) = station.depart(u64::MAX, |_| true) {
        served(request, departure);
    }
    SimulatedRun { sojourns, refused: refused as f64 / (requests - unmeasured) as f64 }
}
