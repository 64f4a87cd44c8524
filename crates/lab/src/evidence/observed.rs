//! The server as an observer on its host has seen it, in the form in which a diagnosis judges it.

use thalweg_observe::Sample;

use crate::environment::{ServerFigures, TaskFigures};

/// The figures of the named server in one interval; `None` if the observer knew none.
pub(super) fn server(sample: &Sample) -> Option<ServerFigures> {
    let server = sample.server.as_ref()?;
    let us = (sample.seconds * 1e6).max(1.0);
    let tasks = server.busiest.iter().map(|thread| TaskFigures {
        name: thread.name.clone(),
        cpu: thread.cpu_us as f64 / us,
        wait: thread.run_queue_wait_us as f64 / us,
    });
    let group = server.group.as_ref();
    // A quota of less than a CPU still allows one at a time.
    let quota = group.and_then(|group| group.cpus).map_or(usize::MAX, |cpus| cpus.ceil() as usize);
    let figures = &server.figures;
    let limit = figures.descriptors_limit;
    // The limit is of one process, and the count of all of them.
    let nearest = (server.descriptor_use * limit as f64).round() as u64;
    Some(ServerFigures {
        name: server.name.clone(),
        cpus_allowed: sample.cpus.len().min(quota),
        tasks: tasks.collect(),
        descriptors: (limit > 0).then_some((nearest, limit)),
        storage: figures.uninterruptible,
        runnable: figures.runnable,
        throttled: group.map_or(0.0, |group| group.figures.throttled_us as f64 / us),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_observe::sample::{Cpu, Group, GroupFigures, Server, ServerFigures as Observed, Thread};

    #[test]
    fn an_observers_sample_is_judged_like_a_local_server() {
        let thread =
            Thread { name: "worker".to_owned(), cpu_us: 1_900_000, run_queue_wait_us: 40_000, ..Thread::default() };
        let throttled = GroupFigures { throttled_us: 500_000, ..GroupFigures::default() };
        let group = Group { cpus: Some(1.5), figures: throttled, ..Group::default() };
        let figures = Observed { descriptors_limit: 1024, uninterruptible: 0.7, runnable: 0.3, ..Observed::default() };
        let server = Server {
            name: "httpd".to_owned(),
            figures,
            descriptor_use: 0.5,
            busiest: vec![thread],
            group: Some(group),
            ..Server::default()
        };
        let cpus = vec![Cpu::default(); 4];
        let sample = Sample { seconds: 2.0, cpus, server: Some(server), ..Sample::default() };
        let seen = super::server(&sample).unwrap();
        assert_eq!((seen.name.as_str(), seen.cpus_allowed, seen.descriptors), ("httpd", 2, Some((512, 1024))));
        assert_eq!(seen.tasks, [TaskFigures { name: "worker".to_owned(), cpu: 0.95, wait: 0.02 }]);
        assert_eq!((seen.storage, seen.runnable, seen.throttled), (0.7, 0.3, 0.25));
        assert!(super::server(&Sample::default()).is_none());
    }
}
