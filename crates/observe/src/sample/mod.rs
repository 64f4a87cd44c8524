//! One sample: the activity of a host in one interval, and of the named server on it.

mod figures;
mod host;
mod server;

use serde::{Deserialize, Serialize};

pub use figures::Figures;
pub use host::{Cpu, CpuTimes, DiskFigures, InterfaceFigures, Memory, Named, Pressure, Scheduler, Sockets, Stall, Tcp};
pub use server::{
    BUSIEST_MAX, ConnectionFigures, Group, GroupFigures, Listener, Scheduling, Server, ServerFigures, Thread,
};

/// The activity of a host in one interval.
///
/// A group that the kernel does not show is absent; a list of it is empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// Its number, from 1; the observer counts up for as long as it runs.
    pub number: u64,
    /// The end of the interval: seconds since 1970 by the observer's clock, which is not set while
    /// it runs.
    pub unix_s: f64,
    /// The length of the interval.
    pub seconds: f64,
    /// CPU time that the observer used for it, in microseconds.
    pub cost_us: u64,
    /// The CPUs that are online.
    pub cpus: Vec<Cpu>,
    /// The scheduler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Scheduler>,
    /// Pressure on resources.
    pub pressure: Pressure,
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Disks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<Named<DiskFigures>>,
    /// Network interfaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<Named<InterfaceFigures>>,
    /// Sockets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sockets: Option<Sockets>,
    /// TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<Tcp>,
    /// The named server, while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<Server>,
}

impl Sample {
    /// The beginning of the interval, in seconds since 1970 by the observer's clock.
    pub fn begin_s(&self) -> f64 {
        self.unix_s - self.seconds
    }

    /// The times of all CPUs together.
    pub fn all_cpus(&self) -> CpuTimes {
        self.cpus.iter().fold(CpuTimes::default(), |sum, cpu| sum.joined(cpu.times, 0.5))
    }

    /// The CPU that was busy for the largest share of its time.
    pub fn busiest_cpu(&self) -> Option<&Cpu> {
        self.cpus.iter().max_by(|a, b| a.times.busy_share().total_cmp(&b.times.busy_share()))
    }

    /// The activity of consecutive intervals as that of one; `None` if there is no interval.
    pub fn joined_all<'a>(samples: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let mut samples = samples.into_iter();
        let first = samples.next()?.clone();
        Some(samples.fold(first, |sum, sample| sum.joined(sample)))
    }

    /// This interval and a later one as one.
    #[must_use]
    pub fn joined(self, later: &Self) -> Self {
        let seconds = self.seconds + later.seconds;
        let weight = if seconds > 0.0 { later.seconds / seconds } else { 0.5 };
        Self {
            number: later.number,
            unix_s: later.unix_s,
            seconds,
            cost_us: self.cost_us + later.cost_us,
            cpus: joined_cpus(self.cpus, &later.cpus),
            scheduler: joined(self.scheduler, later.scheduler, weight),
            pressure: Pressure {
                cpu: joined(self.pressure.cpu, later.pressure.cpu, weight),
                memory: joined(self.pressure.memory, later.pressure.memory, weight),
                io: joined(self.pressure.io, later.pressure.io, weight),
            },
            memory: joined(self.memory, later.memory, weight),
            disks: joined_named(self.disks, &later.disks, weight),
            interfaces: joined_named(self.interfaces, &later.interfaces, weight),
            sockets: joined(self.sockets, later.sockets, weight),
            tcp: joined(self.tcp, later.tcp, weight),
            server: match (self.server, &later.server) {
                (Some(earlier), Some(later)) => Some(earlier.joined(later, weight)),
                (earlier, later) => later.clone().or(earlier),
            },
        }
    }
}

impl Sample {
    /// The host's activity since an earlier reading, of two that hold counters since boot.
    pub(crate) fn host_since(self, earlier: &Self) -> Self {
        Self {
            cpus: since(self.cpus, &earlier.cpus, |cpu| cpu.cpu, |cpu| &mut cpu.times),
            scheduler: since_one(self.scheduler, earlier.scheduler),
            pressure: Pressure {
                cpu: since_one(self.pressure.cpu, earlier.pressure.cpu),
                memory: since_one(self.pressure.memory, earlier.pressure.memory),
                io: since_one(self.pressure.io, earlier.pressure.io),
            },
            disks: since(self.disks, &earlier.disks, |disk| disk.name.clone(), |disk| &mut disk.figures),
            interfaces: since(self.interfaces, &earlier.interfaces, |one| one.name.clone(), |one| &mut one.figures),
            tcp: since_one(self.tcp, earlier.tcp),
            ..self
        }
    }
}

fn since_one<T: Figures>(now: Option<T>, earlier: Option<T>) -> Option<T> {
    Some(now?.since(earlier?))
}

/// The growth of the items that both readings have: one that has just come has no difference yet.
fn since<I: Clone, K: PartialEq, T: Figures>(
    now: Vec<I>,
    earlier: &[I],
    key: fn(&I) -> K,
    figures: fn(&mut I) -> &mut T,
) -> Vec<I> {
    let grown = |mut item: I| {
        let mut then = earlier.iter().find(|then| key(then) == key(&item))?.clone();
        let growth = (*figures(&mut item)).since(*figures(&mut then));
        *figures(&mut item) = growth;
        Some(item)
    };
    now.into_iter().filter_map(grown).collect()
}

fn joined<T: Figures>(earlier: Option<T>, later: Option<T>, weight: f64) -> Option<T> {
    match (earlier, later) {
        (Some(earlier), Some(later)) => Some(earlier.joined(later, weight)),
        (earlier, later) => later.or(earlier),
    }
}

fn joined_cpus(mut earlier: Vec<Cpu>, later: &[Cpu]) -> Vec<Cpu> {
    for cpu in later {
        match earlier.iter_mut().find(|known| known.cpu == cpu.cpu) {
            Some(known) => known.times = known.times.joined(cpu.times, 0.5),
            None => earlier.push(*cpu),
        }
    }
    earlier
}

fn joined_named<T: Figures>(mut earlier: Vec<Named<T>>, later: &[Named<T>], weight: f64) -> Vec<Named<T>> {
    for named in later {
        match earlier.iter_mut().find(|known| known.name == named.name) {
            Some(known) => known.figures = known.figures.joined(named.figures, weight),
            None => earlier.push(named.clone()),
        }
    }
    earlier
}

impl Server {
    fn joined(mut self, later: &Self, weight: f64) -> Self {
        for thread in &later.busiest {
            match self.busiest.iter_mut().find(|known| known.tid == thread.tid) {
                Some(known) => *known = known.clone().joined(thread),
                None => self.busiest.push(thread.clone()),
            }
        }
        self.busiest.sort_by_key(|thread| std::cmp::Reverse(thread.cpu_us));
        self.busiest.truncate(BUSIEST_MAX);
        for listener in &later.listeners {
            match self.listeners.iter_mut().find(|known| known.address == listener.address) {
                Some(known) => {
                    known.waiting = known.waiting.max(listener.waiting);
                    known.backlog = listener.backlog;
                }
                None => self.listeners.push(listener.clone()),
            }
        }
        Self {
            name: later.name.clone(),
            figures: self.figures.joined(later.figures, weight),
            descriptor_use: self.descriptor_use.max(later.descriptor_use),
            scheduling: joined(self.scheduling, later.scheduling, weight),
            connections: joined(self.connections, later.connections, weight),
            group: match (self.group, &later.group) {
                (Some(earlier), Some(later)) => Some(Group {
                    figures: earlier.figures.joined(later.figures, weight),
                    cpu_pressure: joined(earlier.cpu_pressure, later.cpu_pressure, weight),
                    ..later.clone()
                }),
                (earlier, later) => later.clone().or(earlier),
            },
            busiest: self.busiest,
            listeners: self.listeners,
        }
    }
}

impl Thread {
    fn joined(self, later: &Self) -> Self {
        Self {
            cpu_us: self.cpu_us + later.cpu_us,
            run_queue_wait_us: self.run_queue_wait_us + later.run_queue_wait_us,
            futex_waits: self.futex_waits.zip(later.futex_waits).map(|(a, b)| a + b),
            ..later.clone()
        }
    }
}
