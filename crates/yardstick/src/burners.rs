//! Servers that burn CPU time: the model's queue with threads that are busy for the service time.
//!
//! They are for tests of what a computed yardstick cannot show: a server that uses up its CPUs, and
//! one thread that does while the others idle.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_sys::Waker;
use thalweg_sys::affinity::pin_to;
use thalweg_sys::clock::thread_cpu_ns;

use crate::law::Law;
use crate::model::Model;
use crate::station::StationCounts;

/// Requests that may wait where the model sets no bound.
const WAITING_MAX: usize = 1 << 20;

/// A queue with threads as its servers. Dropping it ends the threads after the services under way.
#[derive(Debug)]
pub(crate) struct Burners<T> {
    law: Law,
    hot_share: f64,
    waiting_max: usize,
    service_times: Pcg64Mcg,
    choices: Pcg64Mcg,
    /// One, or the hot server's and that of the others.
    lanes: Vec<Lane<T>>,
    finished: Arc<Mutex<VecDeque<Job<T>>>>,
    threads: Vec<JoinHandle<()>>,
    counts: StationCounts,
}

/// The threads that share a queue.
#[derive(Debug)]
struct Lane<T> {
    servers: usize,
    /// Requests that wait or are in service.
    present: usize,
    queue: Arc<Queue<T>>,
}

#[derive(Debug)]
struct Queue<T> {
    state: Mutex<QueueState<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct QueueState<T> {
    jobs: VecDeque<Job<T>>,
    ended: bool,
}

#[derive(Debug)]
struct Job<T> {
    ticket: T,
    lane: usize,
    work_ns: u64,
}

impl<T: Send + 'static> Burners<T> {
    /// Starts a thread per server, on `cpus` in turn if there are any; each wakes `waker` when a
    /// service ends.
    pub(crate) fn start(model: &Model, cpus: &[usize], waker: &Waker) -> io::Result<Self> {
        let servers = match model.hot_share {
            None => vec![model.servers],
            Some(_) => vec![1, model.servers - 1],
        };
        let lane = |servers| Lane { servers, present: 0, queue: Arc::new(Queue::default()) };
        let mut burners = Self {
            law: model.law,
            hot_share: model.hot_share.unwrap_or(0.0),
            waiting_max: model.queue_max.unwrap_or(WAITING_MAX),
            service_times: Pcg64Mcg::seed_from_u64(model.seed),
            choices: Pcg64Mcg::seed_from_u64(model.seed.rotate_left(32) ^ 1),
            lanes: servers.into_iter().map(lane).collect(),
            finished: Arc::default(),
            threads: Vec::new(),
            counts: StationCounts::default(),
        };
        let mut cpus = cpus.iter().copied().cycle();
        for lane in &burners.lanes {
            for _ in 0..lane.servers {
                let (queue, finished, waker) = (lane.queue.clone(), burners.finished.clone(), waker.clone());
                if let Some(cpu) = cpus.next() {
                    // The thread inherits the affinity of the one that starts it.
                    pin_to(&[cpu])?;
                }
                let name = format!("burner-{}", burners.threads.len());
                let body = move || serve(&queue, &finished, &waker);
                burners.threads.push(thread::Builder::new().name(name).spawn(body)?);
            }
        }
        Ok(burners)
    }

    /// Takes a request in. Gives the ticket back if too many wait.
    pub(crate) fn arrive(&mut self, ticket: T) -> Result<(), T> {
        self.counts.arrived += 1;
        let is_hot = self.lanes.len() == 1 || self.choices.random::<f64>() < self.hot_share;
        let index = usize::from(!is_hot);
        let waiting = self.waiting();
        let lane = &mut self.lanes[index];
        if lane.present >= lane.servers && waiting >= self.waiting_max {
            self.counts.refused += 1;
            return Err(ticket);
        }
        lane.present += 1;
        let work_ns = self.law.draw_ns(&mut self.service_times) as u64;
        lane.queue.lock().jobs.push_back(Job { ticket, lane: index, work_ns });
        lane.queue.changed.notify_one();
        self.counts.waiting_peak = self.counts.waiting_peak.max(self.waiting());
        Ok(())
    }

    /// Takes out a request whose service has ended.
    pub(crate) fn finished(&mut self) -> Option<T> {
        let job = lock(&self.finished).pop_front()?;
        self.lanes[job.lane].present -= 1;
        self.counts.served += 1;
        self.counts.busy_ns += job.work_ns;
        Some(job.ticket)
    }

    /// The counts so far.
    pub(crate) const fn counts(&self) -> StationCounts {
        self.counts
    }

    /// Requests that wait now.
    pub(crate) fn waiting(&self) -> usize {
        self.lanes.iter().map(|lane| lane.present.saturating_sub(lane.servers)).sum()
    }

    /// Requests that are in service now.
    pub(crate) fn in_service(&self) -> usize {
        self.lanes.iter().map(|lane| lane.present.min(lane.servers)).sum()
    }
}

impl<T> Drop for Burners<T> {
    fn drop(&mut self) {
        for lane in &self.lanes {
            let mut state = lane.queue.lock();
            state.ended = true;
            state.jobs.clear();
            lane.queue.changed.notify_all();
        }
        for thread in self.threads.drain(..) {
            // A panic has been printed.
            let _ = thread.join();
        }
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { state: Mutex::new(QueueState { jobs: VecDeque::new(), ended: false }), changed: Condvar::new() }
    }
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, QueueState<T>> {
        lock(&self.state)
    }
}

/// No thread panics while it holds a lock: nothing that can fail is done then.
fn lock<S>(mutex: &Mutex<S>) -> MutexGuard<'_, S> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The body of a burner: serves one request after the other.
fn serve<T>(queue: &Queue<T>, finished: &Mutex<VecDeque<Job<T>>>, waker: &Waker) {
    // The CPU time of this thread at which the present service ends. While it has work, one service
    // begins where the last one ended, so that the time for handing over is part of a service.
    let mut until = 0;
    loop {
        let mut state = queue.lock();
        let job = loop {
            if state.ended {
                return;
            }
            match state.jobs.pop_front() {
                Some(job) => break job,
                None => {
                    state = queue.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                    until = thread_cpu_ns();
                }
            }
        };
        drop(state);
        until += job.work_ns;
        while thread_cpu_ns() < until {
            std::hint::spin_loop();
        }
        lock(finished).push_back(job);
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;

    fn serve_all(model: &Model, requests: u32) -> (BTreeMap<u32, usize>, StationCounts) {
        let waker = Waker::new().unwrap();
        let mut burners = Burners::start(model, &[], &waker).unwrap();
        let mut served = BTreeMap::new();
        let refused = (0..requests).filter(|&number| burners.arrive(number).is_err()).count();
        while served.len() < requests as usize - refused {
            waker.wait(Duration::from_millis(10));
            while let Some(number) = burners.finished() {
                assert_eq!(served.insert(number, served.len()), None, "each is served once");
            }
        }
        assert_eq!((burners.waiting(), burners.in_service()), (0, 0));
        (served, burners.counts())
    }

    #[test]
    fn each_request_is_served_once() {
        let law = Law::Fixed { time_s: 20e-6 };
        let (served, counts) = serve_all(&Model::plain(1, law), 200);
        assert!(served.iter().all(|(number, place)| *number as usize == *place), "one server keeps the order");
        assert_eq!((counts.served, counts.busy_ns), (200, 200 * 20_000));
        let hot = Model { hot_share: Some(0.5), ..Model::plain(3, law) };
        assert_eq!(serve_all(&hot, 200).1.served, 200);
    }

    #[test]
    fn a_full_queue_refuses() {
        let model = Model { queue_max: Some(5), ..Model::plain(2, Law::Fixed { time_s: 0.02 }) };
        let (_, counts) = serve_all(&model, 20);
        assert_eq!((counts.served, counts.refused, counts.waiting_peak), (7, 13, 5));
    }

    #[test]
    fn an_end_drops_the_requests_that_wait() {
        let model = Model::plain(1, Law::Fixed { time_s: 0.001 });
        let mut burners = Burners::start(&model, &[], &Waker::new().unwrap()).unwrap();
        (0..1_000_000).for_each(|number| burners.arrive(number).unwrap());
        drop(burners);
    }
}
