//! The process of a run, told from a later one with the same number by its start and the host's.

use std::fmt;
use std::fs;

/// A process of this host since its boot, or of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    boot: String,
    pid: u32,
    started: u64,
}

impl Process {
    /// This process; `None` where the kernel shows no `/proc`.
    pub(crate) fn current() -> Option<Self> {
        let pid = std::process::id();
        Some(Self { boot: boot()?, pid, started: started(pid)? })
    }

    /// Reads what [`Display`](fmt::Display) writes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let (boot, pid, started) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self { boot: boot.to_owned(), pid: pid.parse().ok()?, started: started.parse().ok()? })
    }

    pub(crate) fn is_alive(&self) -> bool {
        boot().is_some_and(|boot| boot == self.boot) && started(self.pid) == Some(self.started)
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.boot, self.pid, self.started)
    }
}

fn boot() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

/// Ticks from the host's start to the process's (proc_pid_stat(5), field 22); `None` for one that
/// has ended, even if its parent has not yet taken note of it.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field, a name in parentheses, may have anything in it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let is_dead = matches!(fields.next()?, "Z" | "X" | "x");
    let started = fields.nth(18)?.parse().ok()?;
    (!is_dead).then_some(started)
}
