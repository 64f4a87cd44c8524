//! The threads of the server: all of them if they are few, else the busiest.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use thalweg_sys::proc::clock_tick_ms;
use thalweg_sys::tracepoint::{PassCounter, Tracepoint};

use super::process::Process;
use crate::kernel_file::KernelFile;
use crate::pace::Pace;
use crate::parse;
use crate::sample::{BUSIEST_MAX, Scheduling, ServerFigures, Thread};

/// Threads that are followed at most, and at least however much that costs.
const FOLLOWED_MAX: usize = 48;
const FOLLOWED_MIN: usize = 8;
/// Threads that are looked at to find the busiest.
const LISTED_MAX: usize = 2048;
/// The time between two choices of the threads to follow.
const CHOICE: Duration = Duration::from_secs(2);

/// The call by which a thread waits for a lock, and its operations that wait (linux/futex.h): WAIT,
/// LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI and LOCK_PI2, each also private (128) and by the wall
/// clock (256).
const FUTEX: &str = "syscalls/sys_enter_futex";
const FUTEX_WAITS: [u32; 5] = [0, 6, 9, 11, 13];
const FUTEX_FLAGS: [u32; 4] = [0, 128, 256, 384];

/// The followed threads.
#[derive(Debug)]
pub(super) struct Threads {
    followed: Vec<Followed>,
    followed_max: usize,
    /// The processes, each with its number of threads, when the followed ones were chosen.
    chosen_of: Vec<(u32, u64)>,
    lost_one: bool,
    choice: Pace,
    /// CPU time of all threads at the last choice.
    ticks: HashMap<u32, u64>,
    futex: Futex,
}

/// Whether waits for locks can be counted.
#[derive(Debug)]
enum Futex {
    Untried,
    Counted { point: Tracepoint, filter: String },
    Refused(String),
}

#[derive(Debug)]
struct Followed {
    pid: u32,
    tid: u32,
    stat: KernelFile,
    schedstat: Option<KernelFile>,
    status: Option<KernelFile>,
    futex: Option<PassCounter>,
    last: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    cpu_ns: u64,
    wait_ns: u64,
    voluntary: u64,
    involuntary: u64,
    futex_waits: u64,
}

/// The figures of the followed threads.
#[derive(Default)]
pub(super) struct ThreadsReading {
    pub(super) scheduling: Option<Scheduling>,
    pub(super) busiest: Vec<Thread>,
}

impl Threads {
    pub(super) fn new() -> Self {
        Self {
            followed: Vec::new(),
            followed_max: FOLLOWED_MAX,
            chosen_of: Vec::new(),
            lost_one: false,
            choice: Pace::at_most_every(CHOICE),
            ticks: HashMap::new(),
            futex: Futex::Untried,
        }
    }

    pub(super) fn follow_less(&mut self) {
        self.followed_max = (self.followed_max / 2).max(FOLLOWED_MIN);
        self.followed.truncate(self.followed_max);
    }

    pub(super) fn futex_refusal(&self) -> Option<&str> {
        if let Futex::Refused(reason) = &self.futex { Some(reason) } else { None }
    }

    /// Reads the followed threads since their last reading, and counts their states in `figures`.
    pub(super) fn read(
        &mut self,
        processes: &[Process],
        figures: &mut ServerFigures,
        buffer: &mut Vec<u8>,
    ) -> ThreadsReading {
        let counts = || processes.iter().map(|process| (process.pid(), process.threads()));
        let all: u64 = counts().map(|(_, threads)| threads).sum();
        let changed = self.lost_one || !counts().eq(self.chosen_of.iter().copied());
        if (changed || all as usize > self.followed_max) && self.choice.is_due() {
            let mut choice = self.choice;
            choice.run(|| self.choose(processes, buffer));
            self.choice = choice;
            self.chosen_of = counts().collect();
            self.lost_one = false;
        }
        let mut sum = Scheduling::default();
        let mut threads = Vec::with_capacity(self.followed.len());
        let before = self.followed.len();
        self.followed.retain_mut(|followed| match followed.read(&mut sum, buffer) {
            Some(thread) => {
                threads.push(thread);
                true
            }
            None => false,
        });
        self.lost_one |= self.followed.len() < before;
        sum.followed = threads.len() as u64;
        let in_state = |state: &str| threads.iter().filter(|thread| thread.state == state).count() as f64;
        (figures.runnable, figures.uninterruptible) = (in_state("R"), in_state("D"));
        threads.sort_by_key(|thread| std::cmp::Reverse(thread.cpu_us));
        threads.truncate(BUSIEST_MAX);
        ThreadsReading { scheduling: (sum.followed > 0).then_some(sum), busiest: threads }
    }

    /// Chooses the threads to follow: those that have used the most CPU time since the last choice.
    fn choose(&mut self, processes: &[Process], buffer: &mut Vec<u8>) {
        let mut tasks: Vec<(u32, u32)> =
            processes.iter().flat_map(|process| tasks_of(process).map(|tid| (process.pid(), tid))).collect();
        if tasks.len() > self.followed_max {
            tasks.truncate(LISTED_MAX);
            let ticks: HashMap<u32, u64> =
                tasks.iter().filter_map(|(pid, tid)| Some((*tid, ticks_of(*pid, *tid, buffer)?))).collect();
            let growth = |tid: &u32| {
                let now = ticks.get(tid).copied().unwrap_or(0);
                now.saturating_sub(self.ticks.get(tid).copied().unwrap_or(0))
            };
            tasks.sort_by_key(|(_, tid)| std::cmp::Reverse(growth(tid)));
            tasks.truncate(self.followed_max);
            self.ticks = ticks;
        }
        self.followed.retain(|followed| tasks.contains(&(followed.pid, followed.tid)));
        for (pid, tid) in tasks {
            if !self.followed.iter().any(|followed| followed.tid == tid) {
                let futex = self.futex.counter(tid);
                self.followed.extend(Followed::open(pid, tid, futex, buffer));
            }
        }
    }
}

/// The threads of a process.
fn tasks_of(process: &Process) -> impl Iterator<Item = u32> {
    let pid = process.pid();
    let listed = (process.threads() > 1).then(|| fs::read_dir(format!("/proc/{pid}/task")).ok()).flatten();
    let only = listed.is_none().then_some(pid);
    let listed = listed.into_iter().flatten().flatten();
    only.into_iter().chain(listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()))
}

fn ticks_of(pid: u32, tid: u32, buffer: &mut Vec<u8>) -> Option<u64> {
    let stat = KernelFile::open(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    parse::task_stat(&stat.read(buffer)?).map(|stat| stat.user_ticks + stat.system_ticks)
}

impl Futex {
    /// A counter of the thread's waits, if the kernel lets us have one.
    fn counter(&mut self, tid: u32) -> Option<PassCounter> {
        if let Self::Untried = self {
            *self = match Tracepoint::named(FUTEX) {
                Ok(point) => Self::Counted { point, filter: futex_filter() },
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    Self::Refused(format!("tracefs is not mounted, or has no tracepoint {FUTEX}"))
                }
                Err(error) => Self::Refused(format!("the tracepoint {FUTEX} cannot be used: {error}")),
            };
        }
        let Self::Counted { point, filter } = self else { return None };
        match point.count(tid, filter) {
            Ok(counter) => Some(counter),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound || is_gone(&error) => None,
            Err(error) => {
                *self = Self::Refused(format!("the kernel does not let this user count {FUTEX}: {error}"));
                None
            }
        }
    }
}

/// Whether the thread has ended meanwhile (ESRCH).
fn is_gone(error: &std::io::Error) -> bool {
    const ESRCH: i32 = 3;
    error.raw_os_error() == Some(ESRCH)
}

fn futex_filter() -> String {
    let operations = FUTEX_FLAGS.iter().flat_map(|flag| FUTEX_WAITS.iter().map(move |wait| wait | flag));
    operations.map(|operation| format!("op == {operation}")).collect::<Vec<_>>().join(" || ")
}

impl Followed {
    fn open(pid: u32, tid: u32, futex: Option<PassCounter>, buffer: &mut Vec<u8>) -> Option<Self> {
        let file = |name: &str| KernelFile::open(format!("/proc/{pid}/task/{tid}/{name}"));
        let mut followed = Self {
            pid,
            tid,
            stat: file("stat").ok()?,
            schedstat: file("schedstat").ok(),
            status: file("status").ok(),
            futex,
            last: Counts::default(),
        };
        (followed.last, _) = followed.counts(buffer)?;
        Some(followed)
    }

    fn counts(&self, buffer: &mut Vec<u8>) -> Option<(Counts, parse::TaskStat)> {
        let stat = parse::task_stat(&self.stat.read(buffer)?)?;
        let mut counts =
            Counts { cpu_ns: (stat.user_ticks + stat.system_ticks) * clock_tick_ms() * 1_000_000, ..Counts::default() };
        if let Some(file) = &self.schedstat {
            (counts.cpu_ns, counts.wait_ns) = parse::task_schedstat(&file.read(buffer)?)?;
        }
        if let Some(file) = &self.status {
            (counts.voluntary, counts.involuntary) = parse::task_switches(&file.read(buffer)?)?;
        }
        counts.futex_waits = self.futex.as_ref().and_then(|counter| counter.passes().ok()).unwrap_or(0);
        Some((counts, stat))
    }

    /// Reads the thread and adds it to the sum; `None` if it has ended.
    fn read(&mut self, sum: &mut Scheduling, buffer: &mut Vec<u8>) -> Option<Thread> {
        let (now, stat) = self.counts(buffer)?;
        let then = std::mem::replace(&mut self.last, now);
        let thread = Thread {
            pid: self.pid,
            tid: self.tid,
            name: stat.name,
            state: stat.state.to_string(),
            last_cpu: stat.last_cpu,
            cpu_us: now.cpu_ns.saturating_sub(then.cpu_ns) / 1_000,
            run_queue_wait_us: now.wait_ns.saturating_sub(then.wait_ns) / 1_000,
            futex_waits: self.futex.as_ref().map(|_| now.futex_waits.saturating_sub(then.futex_waits)),
        };
        sum.cpu_us += thread.cpu_us;
        sum.run_queue_wait_us += thread.run_queue_wait_us;
        sum.switches_voluntary += now.voluntary.saturating_sub(then.voluntary);
        sum.switches_involuntary += now.involuntary.saturating_sub(then.involuntary);
        Some(thread)
    }
}
