//! The summary of a diagnosis: its figures, of all samples.

use std::time::Duration;

use thalweg_observe::Sample;
use thalweg_report::document::Trial;

use super::figures::{Diagnosis, HandshakeTimes, PathFigures, ServerFigures, TaskFigures};
use super::observed;
use super::sampler::{PathSamples, Samples, ServerSamples};

impl Diagnosis {
    pub(super) fn of(trial: Trial, idle: HandshakeTimes, samples: Samples) -> Self {
        Self {
            trial,
            path: samples.path.map(|path| path.figures(idle)),
            server: samples.server.and_then(server),
            interface: None,
            path_capacity: None,
            on_more_connections: None,
        }
    }
}

impl Diagnosis {
    /// Adds the server as an observer on its host has seen it during the trial. What is known of a
    /// server on this host stays: it was sampled more often.
    pub fn observe(&mut self, sample: &Sample) {
        if self.server.is_none() {
            self.server = observed::server(sample);
        }
    }
}

impl PathSamples {
    fn figures(self, idle: HandshakeTimes) -> PathFigures {
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let counted = self.counted.unwrap_or_default();
        PathFigures {
            idle,
            loaded: HandshakeTimes::of(self.times_ns, self.unanswered),
            out_of_order: share(counted.out_of_order, counted.segments_in),
            retransmitted: share(counted.retransmitted, counted.segments_out),
        }
    }
}

/// The figures of the server between the first sample and the last.
fn server(samples: ServerSamples) -> Option<ServerFigures> {
    let ServerSamples { name, cpus_allowed, rounds, throttled_ns } = samples;
    let [first, .., last] = &rounds[..] else { return None };
    let elapsed = (last.at - first.at).max(Duration::from_millis(1)).as_nanos() as f64;
    let mut tasks: Vec<TaskFigures> = last
        .tasks
        .iter()
        .map(|task| {
            // A thread that was started in between has used everything since.
            let before = first.tasks.iter().find(|before| before.id == task.id);
            let since = |now: u64, then: Option<u64>| now.saturating_sub(then.unwrap_or(0)) as f64 / elapsed;
            TaskFigures {
                name: task.name.clone(),
                cpu: since(task.cpu_ns, before.map(|before| before.cpu_ns)),
                wait: since(task.wait_ns, before.map(|before| before.wait_ns)),
            }
        })
        .collect();
    tasks.sort_by(|a, b| (b.cpu + b.wait).total_cmp(&(a.cpu + a.wait)));
    let mean = |count: fn(&super::sampler::Round) -> usize| {
        rounds.iter().map(|round| count(round) as f64).sum::<f64>() / rounds.len() as f64
    };
    let nearest = rounds.iter().filter_map(|round| round.descriptors);
    let descriptors = nearest.max_by(|a, b| (a.0 as f64 / a.1 as f64).total_cmp(&(b.0 as f64 / b.1 as f64)));
    Some(ServerFigures {
        name,
        cpus_allowed,
        tasks,
        descriptors,
        storage: mean(|round| round.in_state(thalweg_sys::tasks::TaskState::Storage)),
        runnable: mean(|round| round.in_state(thalweg_sys::tasks::TaskState::Runnable)),
        throttled: throttled_ns as f64 / elapsed,
    })
}
