//! The queue and its servers, as a state machine over arrivals and departures in virtual time.
//!
//! Each departure follows from the times of arrivals alone: a service begins when the request is
//! there and a server is free, however late the owner looks. So an owner that is delayed for a
//! moment is late with those departures, and with no later ones.
//!
//! Not here: clocks, connections and responses. A request is a ticket of any kind.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::law::Law;
use crate::model::Model;
use crate::speed::Speed;

/// Requests that may wait where the model sets no bound. The connections of a client bound them
/// before this does.
const WAITING_MAX: usize = 1 << 20;

/// A queue with servers. Times are nanoseconds since its start and never go back.
#[derive(Debug)]
pub struct Station<T> {
    law: Law,
    hot_share: f64,
    waiting_max: usize,
    speed: Speed,
    service_times: Pcg64Mcg,
    choices: Pcg64Mcg,
    /// One, or the hot server's and that of the others.
    lanes: Vec<Lane<T>>,
    in_service: BinaryHeap<Reverse<Service<T>>>,
    waiting: usize,
    begun: u64,
    counts: StationCounts,
}

/// The counts of a station.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct StationCounts {
    /// Requests that came.
    pub arrived: u64,
    /// Requests that were refused because too many waited.
    pub refused: u64,
    /// Requests that were served.
    pub served: u64,
    /// Requests that were dropped while they waited, because nobody wanted the response any more.
    pub abandoned: u64,
    /// Most requests that waited at once.
    pub waiting_peak: usize,
    /// The time that servers were busy, all together, in nanoseconds.
    pub busy_ns: u64,
}

/// The servers that share a queue.
#[derive(Debug)]
struct Lane<T> {
    free: usize,
    waiting: VecDeque<(u64, T)>,
}

/// A request in service, ordered by its departure.
#[derive(Debug)]
struct Service<T> {
    departure: u64,
    number: u64,
    lane: usize,
    ticket: T,
}

impl<T> Station<T> {
    /// An empty station.
    pub fn new(model: &Model) -> Self {
        let lane = |servers| Lane { free: servers, waiting: VecDeque::new() };
        let lanes = match model.hot_share {
            None => vec![lane(model.servers)],
            Some(_) => vec![lane(1), lane(model.servers - 1)],
        };
        Self {
            law: model.law,
            hot_share: model.hot_share.unwrap_or(0.0),
            waiting_max: model.queue_max.unwrap_or(WAITING_MAX),
            speed: Speed::new(model.stall, model.slow_start, model.collapse).drifting(model.drift_per_s),
            service_times: Pcg64Mcg::seed_from_u64(model.seed),
            choices: Pcg64Mcg::seed_from_u64(model.seed.rotate_left(32) ^ 1),
            lanes,
            in_service: BinaryHeap::new(),
            waiting: 0,
            begun: 0,
            counts: StationCounts::default(),
        }
    }

    /// Takes a request in. Departures before `now` have to be taken out first. Gives the ticket
    /// back if too many wait.
    pub fn arrive(&mut self, now: u64, ticket: T) -> Result<(), T> {
        self.counts.arrived += 1;
        self.speed.on_arrival(now, self.waiting);
        let is_hot = self.lanes.len() == 1 || self.choices.random::<f64>() < self.hot_share;
        let lane = usize::from(!is_hot);
        if self.lanes[lane].free > 0 {
            self.lanes[lane].free -= 1;
            self.begin(lane, now, ticket);
        } else if self.waiting < self.waiting_max {
            self.lanes[lane].waiting.push_back((now, ticket));
            self.waiting += 1;
            self.speed.on_waiting(now);
            self.counts.waiting_peak = self.counts.waiting_peak.max(self.waiting);
        } else {
            self.counts.refused += 1;
            return Err(ticket);
        }
        Ok(())
    }

    /// The time of the next departure.
    pub fn next_departure(&self) -> Option<u64> {
        self.in_service.peek().map(|Reverse(service)| service.departure)
    }

    /// Takes out the first departure until `now`, and has the server begin with the next request
    /// that `is_awaited`. Returns the ticket and the time of the departure.
    pub fn depart(&mut self, now: u64, mut is_awaited: impl FnMut(&T) -> bool) -> Option<(T, u64)> {
        if self.next_departure()? > now {
            return None;
        }
        let Reverse(Service { departure, lane, ticket, .. }) = self.in_service.pop()?;
        self.counts.served += 1;
        loop {
            let Some((arrival, next)) = self.lanes[lane].waiting.pop_front() else {
                self.lanes[lane].free += 1;
                break;
            };
            self.waiting -= 1;
            if self.waiting == 0 {
                self.speed.on_empty(departure);
            }
            if is_awaited(&next) {
                self.begin(lane, departure.max(arrival), next);
                break;
            }
            self.counts.abandoned += 1;
        }
        Some((ticket, departure))
    }

    fn begin(&mut self, lane: usize, start: u64, ticket: T) {
        let departure = self.speed.end(start, self.law.draw_ns(&mut self.service_times));
        self.counts.busy_ns += departure - start;
        self.begun += 1;
        self.in_service.push(Reverse(Service { departure, number: self.begun, lane, ticket }));
    }

    /// The counts so far.
    pub const fn counts(&self) -> StationCounts {
        self.counts
    }

    /// Requests that wait now.
    pub const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Requests that are in service now.
    pub fn in_service(&self) -> usize {
        self.in_service.len()
    }

    /// How often the capacity has collapsed.
    pub const fn collapses(&self) -> u64 {
        self.speed.collapses()
    }

    /// Whether the capacity is lowered at `now`.
    pub fn is_collapsed(&self, now: u64) -> bool {
        self.speed.is_collapsed(now)
    }
}

impl<T> Ord for Service<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.departure, self.number).cmp(&(other.departure, other.number))
    }
}

impl<T> PartialOrd for Service<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Service<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Service<T> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speed::{Collapse, Overload, Stall};

    const MS: u64 = 1_000_000;
    const S: u64 = 1000 * MS;

    fn fixed(servers: usize, time_ms: u64) -> Model {
        Model::plain(servers, Law::Fixed { time_s: time_ms as f64 / 1e3 })
    }

    /// Offers arrivals at these times (ms). Returns each request's number and departure (ms), and
    /// the numbers of those that were refused.
    fn departures(model: &Model, arrivals_ms: &[u64]) -> (Vec<(usize, u64)>, Vec<usize>) {
        let mut station = Station::new(model);
        let (mut departed, mut refused) = (Vec::new(), Vec::new());
        for (number, &at) in arrivals_ms.iter().enumerate() {
            let now = at * MS;
            while let Some((number, at)) = station.depart(now, |_| true) {
                departed.push((number, at / MS));
            }
            refused.extend(station.arrive(now, number).err());
        }
        while let Some((number, at)) = station.depart(u64::MAX, |_| true) {
            departed.push((number, at / MS));
        }
        (departed, refused)
    }

    #[test]
    fn requests_depart_in_the_order_of_the_servers() {
        let (departed, _) = departures(&fixed(1, 10), &[0, 1, 25]);
        assert_eq!(departed, [(0, 10), (1, 20), (2, 35)]);
        let (departed, _) = departures(&fixed(2, 10), &[0, 1, 2, 3, 30]);
        assert_eq!(departed, [(0, 10), (1, 11), (2, 20), (3, 21), (4, 40)]);
    }

    #[test]
    fn a_late_look_delays_no_later_departure() {
        let mut station = Station::new(&fixed(1, 10));
        for number in 0..3 {
            station.arrive(number * MS, number).unwrap();
        }
        assert_eq!(station.depart(9 * MS, |_| true), None);
        let late: Vec<_> = std::iter::from_fn(|| station.depart(100 * MS, |_| true)).collect();
        assert_eq!(late, [(0, 10 * MS), (1, 20 * MS), (2, 30 * MS)]);
    }

    #[test]
    fn a_full_queue_refuses() {
        let model = Model { queue_max: Some(2), ..fixed(1, 10) };
        let (departed, refused) = departures(&model, &[0, 1, 2, 3, 11, 12]);
        assert_eq!(departed, [(0, 10), (1, 20), (2, 30), (4, 40)]);
        assert_eq!(refused, [3, 5]);
        let none = Model { queue_max: Some(0), ..fixed(1, 10) };
        assert_eq!(departures(&none, &[0, 5, 10]), (vec![(0, 10), (2, 20)], vec![1]));
    }

    #[test]
    fn requests_that_nobody_awaits_take_no_time() {
        let mut station = Station::new(&fixed(1, 10));
        for number in 0..4 {
            station.arrive(0, number).unwrap();
        }
        let is_awaited = |number: &u64| number.is_multiple_of(2);
        let departed: Vec<_> = std::iter::from_fn(|| station.depart(S, is_awaited)).collect();
        assert_eq!(departed, [(0, 10 * MS), (2, 20 * MS)]);
        let counts = station.counts();
        assert_eq!((counts.served, counts.abandoned, counts.waiting_peak), (2, 2, 3));
        assert_eq!((station.waiting(), station.in_service(), counts.busy_ns), (0, 0, 20 * MS));
    }

    #[test]
    fn an_overload_that_lasts_costs_capacity() {
        let above = Overload::BusyForNs(2 * S);
        let collapse = Some(Collapse { above, left: 0.25, recovery_ns: None });
        let mut station = Station::new(&Model { collapse, ..fixed(1, 10) });
        // 200 requests at once keep the server busy for two seconds, of which nobody waits for the
        // last 10 ms.
        (0..200).for_each(|number| station.arrive(0, number).unwrap());
        while station.depart(10 * S, |_| true).is_some() {}
        assert_eq!(station.collapses(), 0);
        (0..300).for_each(|number| station.arrive(10 * S, number).unwrap());
        let all: Vec<u64> = std::iter::from_fn(|| station.depart(12 * S, |_| true)).map(|(_, at)| at).collect();
        assert_eq!((all.len(), station.collapses()), (200, 0));
        station.arrive(12 * S, 0).unwrap();
        assert_eq!(station.collapses(), 1);
        let next: Vec<u64> = std::iter::from_fn(|| station.depart(13 * S, |_| true)).map(|(_, at)| at).collect();
        // One service had begun before.
        assert_eq!(next.len(), 25, "40 ms each");
    }

    /// The rate of departures of a station that always has work.
    fn busiest(model: &Model, seconds: u64) -> f64 {
        let mut station = Station::new(model);
        let interval = (1e9 / (2.0 * model.capacity())) as u64;
        let mut departed = 0;
        for now in (0..seconds * S).step_by(interval as usize) {
            while station.depart(now, |_| true).is_some() {
                departed += 1;
            }
            station.arrive(now, ()).unwrap_or_default();
        }
        f64::from(departed) / seconds as f64
    }

    #[test]
    fn the_capacity_is_the_rate_under_full_load() {
        let exponential = Law::Exponential { mean_s: 0.004 };
        let two_point = Law::TwoPoint { short_s: 0.001, long_s: 0.01, long_share: 0.05 };
        let stall = Some(Stall { length_ns: S, every_ns: 4 * S });
        for (model, seconds, expected) in [
            (fixed(1, 1), 10, 1000.0),
            (Model::plain(4, exponential), 200, 1000.0),
            (Model::plain(1, two_point), 200, 1000.0 / 1.45),
            (Model { stall, ..fixed(1, 1) }, 40, 750.0),
        ] {
            let rate = busiest(&model, seconds);
            assert!((model.capacity() - expected).abs() < 1e-6, "{model:?}: {}", model.capacity());
            assert!((rate / expected - 1.0).abs() < 0.02, "{model:?}: {rate}/s");
        }
    }

    #[test]
    fn a_hot_server_fills_while_the_others_idle() {
        let model = Model { hot_share: Some(0.5), ..fixed(4, 4) };
        assert_eq!(model.capacity(), 500.0);
        let mut station = Station::new(&model);
        for number in 0..6000 {
            while station.depart(number * S / 600, |_| true).is_some() {}
            station.arrive(number * S / 600, ()).unwrap();
        }
        // 300 per second go to the server that serves 250, for ten seconds.
        let (hot, others) = (station.lanes[0].waiting.len(), station.lanes[1].waiting.len());
        assert!((350..650).contains(&hot) && others < 5, "{hot}, {others}");
    }

    #[test]
    fn an_overload_costs_capacity_until_the_recovery() {
        let above = Overload::RatePerS(1200.0);
        let collapse = Some(Collapse { above, left: 0.25, recovery_ns: Some(5 * S) });
        let mut station = Station::new(&Model { collapse, ..fixed(1, 1) });
        let mut offer = |from_s: u64, to_s: u64, rate: u64| {
            let mut served = 0;
            for number in 0..(to_s - from_s) * rate {
                let now = from_s * S + number * S / rate;
                // Clients that have been refused before do not wait any longer.
                while station.depart(now, |&arrival| arrival + S > now).is_some() {
                    served += 1;
                }
                station.arrive(now, now).unwrap();
            }
            served as f64 / (to_s - from_s) as f64
        };
        assert!(offer(0, 5, 900) > 890.0);
        assert!(offer(5, 10, 1500) < 700.0, "it collapses after a second");
        let after = offer(10, 14, 900);
        assert!((240.0..=275.0).contains(&after), "{after}/s are left");
        assert!(offer(17, 20, 900) > 890.0, "it has recovered");
        assert_eq!(station.collapses(), 1);
    }
}
