//! The load CPUs while a trial lasts: what other programs, the hypervisor and the quota of the
//! client's control group take of them, and which program it is.
//!
//! A thread of the lowest priority, off the load CPUs if there is another one, reads the kernel's
//! accounts four times a second. It looks through the processes only while the client is disturbed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use thalweg_load::Progress;
use thalweg_sys::affinity::{allowed_cpus, lower_priority, pin_to};
use thalweg_sys::proc::{cpus_busy, may_run_on, own_thread_cpu_ns, own_threads, processes};

const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);

/// Between two looks at all processes.
const SCAN_INTERVAL: Duration = Duration::from_secs(1);

/// A watch under way.
#[derive(Debug)]
pub(super) struct CpuWatch {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<CpuUseOfOthers>>,
}

/// The CPU time that others took of the load CPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuUseOfOthers {
    /// By second of the measured part and by CPU.
    seconds: BTreeMap<(u64, usize), Taken>,
    /// The process that used most CPU time where it could disturb the load: its number and name.
    pub busiest: Option<(u32, String)>,
}

/// The time that was taken of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Taken {
    /// The time that was looked at, in nanoseconds.
    pub time_ns: f64,
    /// The part of it in which other programs ran.
    pub programs_ns: f64,
    /// The part of it that the hypervisor took.
    pub stolen_ns: f64,
}

impl Taken {
    /// The share that other programs used.
    pub fn programs(self) -> f64 {
        self.programs_ns / self.time_ns.max(1.0)
    }

    /// The share that the hypervisor took.
    pub fn stolen(self) -> f64 {
        self.stolen_ns / self.time_ns.max(1.0)
    }

    fn add(&mut self, other: Self) {
        self.time_ns += other.time_ns;
        self.programs_ns += other.programs_ns;
        self.stolen_ns += other.stolen_ns;
    }
}

impl CpuUseOfOthers {
    /// The time taken of a CPU in a second of the measured part.
    pub fn in_second(&self, second: u64, cpu: usize) -> Taken {
        self.seconds.get(&(second, cpu)).copied().unwrap_or_default()
    }

    /// The time taken of each CPU in all.
    pub fn by_cpu(&self) -> BTreeMap<usize, Taken> {
        let mut cpus: BTreeMap<usize, Taken> = BTreeMap::new();
        for ((_, cpu), taken) in &self.seconds {
            cpus.entry(*cpu).or_default().add(*taken);
        }
        cpus
    }

    /// Adds what was taken of a CPU in a second of the measured part.
    pub fn add(&mut self, second: u64, cpu: usize, taken: Taken) {
        self.seconds.entry((second, cpu)).or_default().add(taken);
    }
}

impl CpuWatch {
    /// Watches those CPUs.
    pub(super) fn start(progress: Arc<Progress>, load_cpus: &[usize]) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let mut sampler = Sampler::new(progress, load_cpus);
        let is_over = ends.clone();
        let body = move || {
            sampler.step_aside();
            while !is_over.load(Ordering::Acquire) {
                thread::park_timeout(SAMPLE_INTERVAL);
                sampler.sample();
            }
            sampler.conclude()
        };
        // Without the thread the causes of a disturbance stay unknown.
        Self { ends, thread: thread::Builder::new().name("watch".to_owned()).spawn(body).ok() }
    }

    /// Ends the watch.
    pub(super) fn end(self) -> CpuUseOfOthers {
        self.ends.store(true, Ordering::Release);
        let Some(thread) = self.thread else { return CpuUseOfOthers::default() };
        thread.thread().unpark();
        thread.join().unwrap_or_default()
    }
}

/// The accounts of one load CPU at one time.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    programs_ns: u64,
    stolen_ns: u64,
    own_ns: u64,
}

#[derive(Debug)]
struct Sampler {
    progress: Arc<Progress>,
    load_cpus: Vec<usize>,
    /// The load threads with their CPUs, once they run.
    threads: Vec<(u32, usize)>,
    sampled: Option<(Instant, BTreeMap<usize, Account>)>,
    /// CPU time of each process at the last look, and since the first one.
    before: BTreeMap<u32, u64>,
    used: BTreeMap<u32, (String, u64)>,
    scanned_at: Instant,
    scanned_lost: Duration,
    others: CpuUseOfOthers,
}

impl Sampler {
    fn new(progress: Arc<Progress>, load_cpus: &[usize]) -> Self {
        let mut load_cpus = load_cpus.to_vec();
        load_cpus.sort_unstable();
        load_cpus.dedup();
        Self {
            progress,
            load_cpus,
            threads: Vec::new(),
            sampled: None,
            before: BTreeMap::new(),
            used: BTreeMap::new(),
            scanned_at: Instant::now(),
            scanned_lost: Duration::ZERO,
            others: CpuUseOfOthers::default(),
        }
    }

    /// Leaves the load CPUs to the load.
    fn step_aside(&mut self) {
        let spare = allowed_cpus().unwrap_or_default();
        let spare: Vec<usize> = spare.into_iter().filter(|cpu| !self.load_cpus.contains(cpu)).collect();
        // A watch that cannot step aside disturbs a little, and is then seen like anything else.
        if !spare.is_empty() {
            let _ = pin_to(&spare);
        }
        let _ = lower_priority();
        self.scan();
    }

    fn sample(&mut self) {
        if self.threads.is_empty() {
            let named = |(thread, name): (u32, String)| Some((thread, name.strip_prefix("load-")?.parse().ok()?));
            self.threads = own_threads().into_iter().filter_map(named).collect();
        }
        let seen = self.progress.snapshot();
        let (now, accounts) = (Instant::now(), self.accounts());
        if let Some((then, before)) = self.sampled.replace((now, accounts.clone()))
            && !seen.measured.is_zero()
        {
            for (cpu, account) in accounts {
                let before = before.get(&cpu).copied().unwrap_or(account);
                let programs_ns = account.programs_ns.saturating_sub(before.programs_ns);
                let own_ns = account.own_ns.saturating_sub(before.own_ns);
                let taken = Taken {
                    time_ns: (now - then).as_nanos() as f64,
                    programs_ns: programs_ns.saturating_sub(own_ns) as f64,
                    stolen_ns: account.stolen_ns.saturating_sub(before.stolen_ns) as f64,
                };
                self.others.add(seen.measured.as_secs(), cpu, taken);
            }
        }
        if seen.lost > self.scanned_lost && self.scanned_at.elapsed() >= SCAN_INTERVAL {
            self.scanned_lost = seen.lost;
            self.scan();
        }
    }

    fn accounts(&self) -> BTreeMap<usize, Account> {
        let cpus = cpus_busy().into_iter().filter(|cpu| self.load_cpus.contains(&cpu.cpu));
        let own_ns = |cpu: usize| {
            let threads = self.threads.iter().filter(|(_, of)| *of == cpu);
            threads.filter_map(|(thread, _)| own_thread_cpu_ns(*thread)).sum()
        };
        let account = |cpu: thalweg_sys::proc::CpuBusy| {
            let own_ns = own_ns(cpu.cpu);
            (cpu.cpu, Account { programs_ns: cpu.programs_ns, stolen_ns: cpu.stolen_ns, own_ns })
        };
        cpus.map(account).collect()
    }

    /// Notes which processes have used CPU time since the last look. One that ran on a load CPU
    /// last counts twice.
    fn scan(&mut self) {
        let is_first = self.before.is_empty();
        for process in processes().into_iter().filter(|process| process.pid != std::process::id()) {
            let total_ns = process.used.total_ns();
            let before_ns = self.before.insert(process.pid, total_ns).unwrap_or(if is_first { total_ns } else { 0 });
            let used_ns = total_ns.saturating_sub(before_ns);
            if used_ns > 0 {
                let weight = if self.load_cpus.contains(&process.cpu) { 2 } else { 1 };
                self.used.entry(process.pid).or_insert((process.name, 0)).1 += weight * used_ns;
            }
        }
        self.scanned_at = Instant::now();
    }

    fn conclude(mut self) -> CpuUseOfOthers {
        let lost = self.progress.snapshot().lost;
        if lost.is_zero() {
            return self.others;
        }
        self.scan();
        let mut used: Vec<_> = std::mem::take(&mut self.used).into_iter().collect();
        used.sort_by_key(|(_, (_, ns))| std::cmp::Reverse(*ns));
        // One that has ended may have run anywhere.
        let could = |pid: u32| !alive(pid) || self.load_cpus.iter().any(|&cpu| may_run_on(pid, cpu));
        let busiest = used.into_iter().find(|(pid, _)| could(*pid));
        self.others.busiest = busiest.map(|(pid, (name, _))| (pid, name));
        self.others
    }
}

fn alive(pid: u32) -> bool {
    thalweg_sys::proc::process_name(pid).is_some()
}
