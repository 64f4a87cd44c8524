//! Which CPUs there are, and staying on one.

use std::io;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs that this thread may run on, in ascending order.
///
/// # Errors
/// The kernel has more CPUs than the mask holds.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None::<Pid>)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Keeps the calling thread on these CPUs. Threads that it starts inherit that.
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
