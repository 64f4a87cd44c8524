//! The summary of the samples beside a load.

use std::time::Duration;

use super::figures::{Examination, HandshakeTimes, InterfaceFigures, PathFigures, ServerFigures, TaskFigures};
use super::sampler::{PathSamples, Samples, ServerSamples};

impl Samples {
    /// The figures of all samples, beside those of the idle path.
    pub(super) fn figures(self, idle: HandshakeTimes, interface: Option<InterfaceFigures>) -> Examination {
        let path = self.path.map(|path| path.figures(idle));
        Examination { path, server: self.server.and_then(server), interface }
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
