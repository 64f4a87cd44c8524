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
            speed: Speed::new(model.stall, model.slow_start, model.collapse),
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
