//! CPU affinity and scheduling priority of threads.

use std::io;

use rustix::process::{Pid, setpriority_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs that this thread may run on, in ascending order.
///
/// # Errors
/// The kernel has more CPUs than the mask holds.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None::<Pid>)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Pins the calling thread to these CPUs. Threads that it starts inherit the affinity.
///
/// # Errors
/// A CPU does not exist or is not granted to this process.
pub fn pin_to(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("there is no CPU {cpu}")));
        }
        set.set(cpu);
    }
    sched_setaffinity(None::<Pid>, &set)?;
    Ok(())
}

/// Gives the calling thread the lowest priority for good: it gets a seventieth of a CPU that
/// another thread keeps busy. Linux changes the thread alone, not its process (setpriority(2)).
///
/// # Errors
/// The system forbids it.
pub fn lower_priority() -> io::Result<()> {
    /// The largest niceness.
    const NICENESS: i32 = 19;
    Ok(setpriority_process(None, NICENESS)?)
}
