//! One process of the server.

use std::fs;
use std::path::PathBuf;

use thalweg_sys::proc::{clock_tick_ms, page_kib};

use crate::kernel_file::KernelFile;
use crate::parse::{self, TaskStat};
use crate::sample::ServerFigures;

/// Descriptors that are counted one by one, on a kernel that does not count them.
const COUNTED_MAX: usize = 1024;

/// An open process.
#[derive(Debug)]
pub(super) struct Process {
    pid: u32,
    stat: KernelFile,
    last: TaskStat,
    descriptors: PathBuf,
    limit: u64,
}

/// The figures of a process since its last reading.
pub(super) struct ProcessReading {
    now: TaskStat,
    user_ticks: u64,
    system_ticks: u64,
    major_faults: u64,
    descriptors: u64,
    limit: u64,
}

impl ProcessReading {
    /// The share of its descriptors that are open.
    pub(super) fn descriptor_use(&self) -> f64 {
        if self.limit == 0 { 0.0 } else { self.descriptors as f64 / self.limit as f64 }
    }
}

impl Process {
    /// Opens a process; `None` if it is gone.
    pub(super) fn open(pid: u32, buffer: &mut Vec<u8>) -> Option<Self> {
        let stat = KernelFile::open(format!("/proc/{pid}/stat")).ok()?;
        let last = parse::task_stat(&stat.read(buffer)?)?;
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
        let limit = parse::descriptors_limit(&limits).unwrap_or(0);
        Some(Self { pid, stat, last, descriptors: format!("/proc/{pid}/fd").into(), limit })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) fn name(&self) -> &str {
        &self.last.name
    }

    pub(super) fn threads(&self) -> u64 {
        self.last.threads
    }

    /// Reads the process; `None` if it has ended.
    pub(super) fn read(&mut self, buffer: &mut Vec<u8>) -> Option<ProcessReading> {
        let now = parse::task_stat(&self.stat.read(buffer)?)?;
        if now.started_ticks != self.last.started_ticks || matches!(now.state, 'Z' | 'X') {
            return None;
        }
        let reading = ProcessReading {
            user_ticks: now.user_ticks.saturating_sub(self.last.user_ticks),
            system_ticks: now.system_ticks.saturating_sub(self.last.system_ticks),
            major_faults: now.major_faults.saturating_sub(self.last.major_faults),
            descriptors: self.descriptors(),
            limit: self.limit,
            now: now.clone(),
        };
        self.last = now;
        Some(reading)
    }

    fn descriptors(&self) -> u64 {
        // The size of the folder is the number of descriptors, since Linux 6.2.
        match fs::metadata(&self.descriptors).map(|folder| folder.len()) {
            Ok(0) => fs::read_dir(&self.descriptors).map_or(0, |entries| entries.take(COUNTED_MAX).count() as u64),
            Ok(count) => count,
            Err(_) => 0,
        }
    }
}

/// Adds a process to the sum.
pub(super) fn add(sum: &mut ServerFigures, process: &ProcessReading) {
    let tick_ms = clock_tick_ms();
    sum.threads += process.now.threads;
    sum.user_ms += process.user_ticks * tick_ms;
    sum.system_ms += process.system_ticks * tick_ms;
    sum.major_faults += process.major_faults;
    sum.descriptors += process.descriptors;
    if process.limit > 0 {
        let lowest = if sum.descriptors_limit == 0 { u64::MAX } else { sum.descriptors_limit };
        sum.descriptors_limit = lowest.min(process.limit);
    }
    sum.resident_kib += (process.now.resident_pages * page_kib()) as f64;
}
