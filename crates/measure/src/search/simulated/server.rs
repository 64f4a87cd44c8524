//! A server as a queue and a client in front of it, request by request (Kiefer-Wolfowitz
//! recursion), over the whole time of a search.

use std::collections::VecDeque;
use std::time::Duration;

use super::super::SearchPlan;
use crate::simulation::Random;
use crate::statistics::{mann_kendall_score, theil_sen_slope};
use crate::trial::{Verdict, settled_after_ns};

/// The distribution of service times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Law {
    Fixed,
    Exponential,
    /// A share of the requests takes so many times as long as the others.
    TwoPoint {
        share: f64,
        times: f64,
    },
}

/// A loss of speed after all servers have been busy for so long without a break.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Collapse {
    pub(super) busy_s: f64,
    /// The share of the speed that is left.
    pub(super) left: f64,
    /// The time without waiting requests after which the speed is back; `None` is never.
    pub(super) recovery_s: Option<f64>,
}

/// A station of servers with one queue, and the limit that it is measured against.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Station {
    pub(super) servers: usize,
    /// Requests per second that all servers can carry together.
    pub(super) speed: f64,
    pub(super) law: Law,
    pub(super) poisson: bool,
    pub(super) limit_s: f64,
    /// Requests that may be in the station; one more is refused with 503.
    pub(super) room: Option<usize>,
    /// Half the speed for so long.
    pub(super) slow_start_s: f64,
    /// A stall of so long at the end of every 10 s.
    pub(super) stall_s: f64,
    /// Relative movement of the speed per second.
    pub(super) drift: f64,
    pub(super) collapse: Option<Collapse>,
}

/// The distance of stalls.
const STALL_EVERY_S: f64 = 10.0;
/// Time in which connections are opened, and requests of the trial before are dropped.
const BETWEEN_TRIALS_S: f64 = 0.2;

/// A station in operation, and its client.
pub(super) struct Operation {
    station: Station,
    random: Random,
    /// When each server is free.
    free: Vec<f64>,
    /// When the requests leave that are in the station, ascending; only of one with little room.
    inside: VecDeque<f64>,
    /// When its first request came.
    begun: f64,
    pub(super) now: f64,
    /// The share of seconds that are taken from the client.
    stolen: f64,
    steal: Random,
    /// Since when no server was idle.
    busy_since: f64,
    /// When the station collapsed.
    collapsed: Option<f64>,
}

/// The result of a simulated trial.
pub(super) struct Outcome {
    pub(super) verdict: Verdict,
    /// Time that it took in all.
    pub(super) cost_s: f64,
    /// Time that its figures are of.
    pub(super) clean_s: f64,
    pub(super) completed: f64,
    pub(super) good: f64,
    /// Requests that were refused.
    pub(super) failed: u64,
    /// Requests judged and bad ones, by seconds.
    pub(super) seconds: Vec<(u64, u64)>,
}

impl Operation {
    pub(super) fn new(station: Station, stolen: f64, seed: u64) -> Self {
        let free = vec![0.0; station.servers];
        let (mut random, steal) = (Random(seed), Random(seed ^ 0x5743_a1e5));
        // Stalls, and the first second, are anywhere.
        let now = random.uniform() * STALL_EVERY_S;
        let (inside, collapsed) = (VecDeque::new(), None);
        Operation { station, random, free, inside, begun: now, now, stolen, steal, busy_since: now, collapsed }
    }

    /// The time of a service at full speed.
    fn work(&mut self) -> f64 {
        let mean = self.station.servers as f64 / self.station.speed;
        match self.station.law {
            Law::Fixed => mean,
            Law::Exponential => self.random.exponential(1.0 / mean),
            Law::TwoPoint { share, times } => {
                let short = mean / (1.0 - share + share * times);
                if self.random.uniform() < share { short * times } else { short }
            }
        }
    }

    /// When a service ends that begins then.
    fn end_of_service(&mut self, start: f64) -> f64 {
        let mut speed = 1.0 + self.station.drift * start;
        if start < self.begun + self.station.slow_start_s {
            speed *= 0.5;
        }
        if let (Some(collapse), Some(_)) = (self.station.collapse, self.collapsed) {
            speed *= collapse.left;
        }
        let mut end = start + self.work() / speed;
        if self.station.stall_s > 0.0 {
            let stall = (start / STALL_EVERY_S).floor() * STALL_EVERY_S + STALL_EVERY_S - self.station.stall_s;
            if end > stall {
                end += self.station.stall_s.min(stall + self.station.stall_s - start);
            }
        }
        end
    }

    /// When a request that arrives now leaves; `None` if it is refused.
    fn serve(&mut self, arrival: f64) -> Option<f64> {
        if let Some(room) = self.station.room {
            while self.inside.front().is_some_and(|leaves| *leaves <= arrival) {
                self.inside.pop_front();
            }
            if self.inside.len() >= room {
                return None;
            }
        }
        let mut server = 0;
        for other in 1..self.free.len() {
            if self.free[other] < self.free[server] {
                server = other;
            }
        }
        self.note_load(arrival, self.free[server]);
        let departure = self.end_of_service(self.free[server].max(arrival));
        self.free[server] = departure;
        if self.station.room.is_some() {
            self.inside.push_back(departure);
        }
        Some(departure)
    }

    /// Collapses, or recovers, by the time for which requests have waited.
    fn note_load(&mut self, arrival: f64, free: f64) {
        let Some(collapse) = self.station.collapse else { return };
        if free <= arrival {
            self.busy_since = arrival;
        } else if arrival - self.busy_since >= collapse.busy_s {
            self.collapsed = Some(arrival);
        }
        if let (Some(since), Some(recovery_s)) = (self.collapsed, collapse.recovery_s)
            && arrival - since >= recovery_s
        {
            self.collapsed = None;
        }
    }

    /// The times in which the client stands still, up to `end`.
    fn stolen_until(&mut self, start: f64, end: f64) -> Vec<f64> {
        if self.stolen == 0.0 {
            return Vec::new();
        }
        let seconds = start.ceil() as u64..end.floor() as u64;
        seconds.filter(|_| self.steal.uniform() < self.stolen).map(|second| second as f64).collect()
    }

    /// One trial: open-loop arrivals with a warm-up, the share of bad requests, growing backlog.
    /// Time that others took is left out, and made up for up to twice the length.
    pub(super) fn trial(&mut self, rate: f64, length: f64, ends_at: Option<f64>) -> Outcome {
        let warmup = SearchPlan::warmup(Duration::from_secs_f64(length)).as_secs_f64();
        self.now += BETWEEN_TRIALS_S;
        let begun = self.now;
        let begin = begun + warmup;
        let stolen = self.stolen_until(begun, begin + 2.0 * length);
        let settled_s = settled_after_ns(1_000_000_000) as f64 / 1e9 + 1.0;
        let left_out = |time: f64| stolen.iter().any(|from| (*from..*from + settled_s).contains(&time));
        let late =
            |due: f64| stolen.iter().find(|from| (**from..**from + 1.0).contains(&due)).map_or(due, |from| from + 1.0);
        let end = if stolen.is_empty() { begin + length } else { made_up(begin, length, left_out) };
        for free in &mut self.free {
            *free = free.min(begun);
        }
        self.inside.clear();
        let allowed = rate * length * 0.01;
        let (mut bad, mut completed, mut judged, mut due) = (0_u64, 0_u64, 0_u64, begun);
        let mut seconds = vec![(0_u64, 0_u64); (end - begin).ceil() as usize];
        // Arrivals less departures by twentieths of the trial.
        let mut changes = [0.0_f64; 21];
        let part = |time: f64| (((time - begin) / (end - begin) * 20.0).clamp(0.0, 20.0)) as usize;
        let (mut certain, mut failed) = (None, 0_u64);
        loop {
            due += if self.station.poisson { self.random.exponential(rate) } else { 1.0 / rate };
            if due >= end {
                break;
            }
            let arrival = if stolen.is_empty() { due } else { late(due) };
            let departure = self.serve(arrival);
            let ended = departure.unwrap_or(arrival);
            completed += u64::from((begin..end).contains(&ended));
            if due < begin || (!stolen.is_empty() && left_out(ended)) {
                continue;
            }
            let is_bad = departure.is_none_or(|departure| departure - due > self.station.limit_s);
            changes[part(due)] += 1.0;
            changes[part(ended)] -= 1.0;
            judged += 1;
            bad += u64::from(is_bad);
            failed += u64::from(departure.is_none());
            let second = &mut seconds[(due - begin) as usize];
            *second = (second.0 + 1, second.1 + u64::from(is_bad));
            if ends_at.is_some_and(|ends_at| bad as f64 > allowed * ends_at + 2.0) {
                certain = Some(due + self.station.limit_s);
                break;
            }
        }
        self.now = certain.unwrap_or(end);
        let span = (self.now - begin).max(1e-3);
        let clean_s = if certain.is_some() { length } else { (judged as f64 / rate).min(length) };
        let verdict = if certain.is_some() {
            Verdict::Fail
        } else if clean_s < 0.1 * length {
            Verdict::Invalid
        } else if bad as f64 > judged as f64 * 0.01 || (stolen.is_empty() && grows(&changes, rate * length)) {
            Verdict::Fail
        } else {
            Verdict::Pass
        };
        let cost_s = self.now - begun + BETWEEN_TRIALS_S;
        let (completed, good) = (completed as f64 / span, (judged - bad) as f64 / span);
        Outcome { verdict, cost_s, clean_s, completed, good, failed, seconds }
    }
}

/// The end of a trial that goes on for the time that is left out of it.
fn made_up(begin: f64, length: f64, left_out: impl Fn(f64) -> bool) -> f64 {
    let tenths = |until: f64| (0..).map(|at| begin + 0.1 * f64::from(at)).take_while(move |time| *time < until);
    let clean = |until: f64| tenths(until).filter(|time| !left_out(*time)).count() as f64 * 0.1;
    let mut end = begin + length;
    while end < begin + 2.0 * length && clean(end) < length - 0.05 {
        end += 0.1;
    }
    end
}

/// Whether the backlog grows by more than chance explains.
fn grows(changes: &[f64; 21], offered: f64) -> bool {
    let mut level = 0.0;
    let levels: Vec<f64> = changes[..20]
        .iter()
        .map(|change| {
            level += change;
            level
        })
        .collect();
    let points: Vec<(f64, f64)> = levels.iter().enumerate().map(|(at, level)| (at as f64, *level)).collect();
    let rise = theil_sen_slope(&points).unwrap_or(0.0) * 19.0;
    rise > (0.01 * offered).max((2.0 * offered).sqrt()) && mann_kendall_score(&levels) > 2.326
}
