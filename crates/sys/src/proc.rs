//! The kernel's figures about this host, its processes and its threads.
//!
//! Everything here is read on request and off the hot path. Files of `/proc` that are missing or in
//! an unknown form give `None`: an observation that could not be made is no reason to end a
//! measurement.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use crate::diag;

/// CPU time of a thread or process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuTime {
    /// In user space, in nanoseconds.
    pub user_ns: u64,
    /// In the kernel, in nanoseconds.
    pub system_ns: u64,
}

impl CpuTime {
    /// User and system time together.
    pub const fn total_ns(self) -> u64 {
        self.user_ns + self.system_ns
    }

    /// The time used since `earlier`.
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
        }
    }
}

/// CPU time of the calling thread.
pub fn thread_cpu() -> CpuTime {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to writable memory of the right type; RUSAGE_THREAD with a valid
    // pointer cannot fail, and a zeroed rusage is a valid value in any case.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    CpuTime { user_ns: ns(usage.ru_utime), system_ns: ns(usage.ru_stime) }
}

/// How long the calling thread has been ready to run without being run, in nanoseconds (schedstat).
pub fn thread_run_queue_wait_ns() -> Option<u64> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

/// CPU time of a process, from `/proc/PID/stat` (resolution: one clock tick, 10 ms on most
/// kernels).
pub fn process_cpu(pid: u32) -> Option<CpuTime> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name stands in parentheses and may itself hold spaces and parentheses.
    let fields: Vec<&str> = stat.get(stat.rfind(')')? + 2..)?.split(' ').collect();
    let ns = |field: &str| Some(field.parse::<u64>().ok()? * (1_000_000_000 / rustix::param::clock_ticks_per_second()));
    Some(CpuTime { user_ns: ns(fields.get(11)?)?, system_ns: ns(fields.get(12)?)? })
}

/// The short name of a process.
pub fn process_name(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/comm")).ok().map(|name| name.trim_end().to_owned())
}

/// The use of one CPU since boot, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuBusy {
    /// Which CPU.
    pub cpu: usize,
    /// Doing anything, interrupts and time stolen by the hypervisor included.
    pub busy_ns: u64,
    /// Doing nothing, or waiting for storage.
    pub idle_ns: u64,
    /// Taken by the hypervisor for other guests.
    pub stolen_ns: u64,
}

/// The use of each CPU since boot.
pub fn cpus_busy() -> Vec<CpuBusy> {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    text.lines().filter_map(cpu_busy).collect()
}

fn cpu_busy(line: &str) -> Option<CpuBusy> {
    let mut fields = line.split_whitespace();
    let cpu = fields.next()?.strip_prefix("cpu")?.parse().ok()?;
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
    // user, nice, system, idle, iowait, irq, softirq, steal; guest time is part of user time
    // already (proc_stat(5)).
    let ns: Vec<u64> =
        fields.take(8).filter_map(|field| field.parse::<u64>().ok()).map(|ticks| ticks * tick_ns).collect();
    let [user, nice, system, idle, iowait, irq, softirq, stolen_ns] = ns[..] else { return None };
    let busy_ns = user + nice + system + irq + softirq + stolen_ns;
    Some(CpuBusy { cpu, busy_ns, idle_ns: idle + iowait, stolen_ns })
}

/// Counters of the TCP stack that indicate problems. All are of the whole network namespace, since
/// boot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpCounters {
    /// Segments sent.
    pub segments_out: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Connections dropped because a listener's queue was full.
    pub listen_overflows: u64,
    /// Segments received.
    pub segments_in: u64,
    /// Segments received before one that was sent earlier: that one was lost or overtaken.
    pub out_of_order: u64,
}

/// The TCP stack's counters.
pub fn tcp_counters() -> Option<TcpCounters> {
    let snmp = fs::read_to_string("/proc/net/snmp").ok()?;
    let netstat = fs::read_to_string("/proc/net/netstat").ok()?;
    Some(TcpCounters {
        segments_out: counter(&snmp, "Tcp:", "OutSegs")?,
        retransmitted: counter(&snmp, "Tcp:", "RetransSegs")?,
        listen_overflows: counter(&netstat, "TcpExt:", "ListenOverflows")?,
        segments_in: counter(&snmp, "Tcp:", "InSegs")?,
        out_of_order: counter(&netstat, "TcpExt:", "TCPOFOQueue")?,
    })
}

/// A value of the two-line tables (names, then numbers) of `/proc/net/snmp` and `netstat`.
fn counter(text: &str, table: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with(table));
    let at = lines.next()?.split_whitespace().position(|field| field == name)?;
    lines.next()?.split_whitespace().nth(at)?.parse().ok()
}

/// Nanoseconds during which the control group of this process was kept from running by its CPU
/// quota; `None` where there is no such account.
pub fn cgroup_throttled_ns() -> Option<u64> {
    throttled_ns_of("self")
}

/// The same of another process.
pub fn cgroup_throttled_ns_of(pid: u32) -> Option<u64> {
    throttled_ns_of(&pid.to_string())
}

fn throttled_ns_of(process: &str) -> Option<u64> {
    let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
    let v1 = groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|name| name == "cpu").then(|| format!("/sys/fs/cgroup/cpu{path}/cpu.stat"))
    });
    let v2 = groups.lines().find_map(|line| Some(format!("/sys/fs/cgroup{}/cpu.stat", line.strip_prefix("0::")?)));
    [v1, v2].into_iter().flatten().find_map(|path| throttled_ns(&fs::read_to_string(path).ok()?))
}

fn throttled_ns(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| match line.split_once(' ')? {
        ("throttled_usec", value) => value.parse::<u64>().ok().map(|us| us * 1_000),
        ("throttled_time", value) => value.parse().ok(),
        _ => None,
    })
}

/// The processes of this host that listen on a TCP port, found by the sockets that they hold. Those
/// of other users stay hidden from an unprivileged caller.
pub fn listeners(port: u16) -> Vec<u32> {
    let inodes = diag::listening(port).unwrap_or_else(|_| listening_of_tables(port));
    if inodes.is_empty() {
        return Vec::new();
    }
    let sockets: HashSet<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| holds_any(*pid, &sockets)).collect()
}

/// The same for a kernel that has no socket diagnosis or does not let us use it. The tables name
/// every connection of the host, which takes the kernel tens of milliseconds.
fn listening_of_tables(port: u16) -> Vec<u32> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    tables.iter().flat_map(|table| listening_of_table(table, port)).collect()
}

/// The inodes of the listening sockets of a port.
fn listening_of_table(table: &str, port: u16) -> Vec<u32> {
    const LISTEN: &str = "0A";
    let socket = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, local_port) = fields.get(1)?.rsplit_once(':')?;
        let here = u16::from_str_radix(local_port, 16).ok()? == port && *fields.get(3)? == LISTEN;
        if here { fields.get(9)?.parse().ok() } else { None }
    };
    table.lines().skip(1).filter_map(socket).collect()
}

fn holds_any(pid: u32, sockets: &HashSet<String>) -> bool {
    // They are listed by number, and a server listens before it has connections.
    const DESCRIPTORS_MAX: usize = 4096;
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    descriptors
        .flatten()
        .take(DESCRIPTORS_MAX)
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .any(|target| target.to_str().is_some_and(|target| sockets.contains(target)))
}

/// The description of this host for the readers of a result.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Name of the host.
    pub name: String,
    /// Kernel and its release.
    pub kernel: String,
    /// Machine architecture.
    pub machine: String,
    /// Model of the first CPU.
    pub cpu_model: String,
    /// CPUs that are online.
    pub cpus: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The kernel's clock source.
    pub clock_source: String,
}

/// The name of this host, as the kernel has it.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Describes this host.
pub fn host() -> Host {
    let uname = rustix::system::uname();
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total_kb =
        meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse::<u64>().ok());
    Host {
        name: uname.nodename().to_string_lossy().into_owned(),
        kernel: format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy()),
        machine: uname.machine().to_string_lossy().into_owned(),
        cpu_model: model.map_or_else(String::new, |(_, name)| name.trim().to_owned()),
        cpus: cpus_busy().len(),
        memory_bytes: total_kb.unwrap_or(0) * 1024,
        clock_source: sysfs("/sys/devices/system/clocksource/clocksource0/current_clocksource").unwrap_or_default(),
    }
}

/// A kernel setting by its sysctl name (`net.core.somaxconn`).
pub fn sysctl(name: &str) -> Option<String> {
    sysfs(&format!("/proc/sys/{}", name.replace('.', "/")))
}

fn sysfs(path: &str) -> Option<String> {
    fs::read_to_string(Path::new(path)).ok().map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Resident memory of this process in bytes.
pub fn resident_bytes() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    Some(statm.split(' ').nth(1)?.parse::<u64>().ok()? * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name() {
        let text = "TcpExt: SyncookiesSent ListenOverflows\nTcpExt: 3 17\nIpExt: InNoRoutes\nIpExt: 0\n";
        assert_eq!(counter(text, "TcpExt:", "ListenOverflows"), Some(17));
        assert_eq!(counter(text, "TcpExt:", "Nothing"), None);
    }

    #[test]
    fn cpu_lines_are_split_into_busy_and_idle() {
        let busy = cpu_busy("cpu1 1 2 3 4 5 6 7 8 9 10").unwrap();
        let tick = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        assert_eq!((busy.cpu, busy.busy_ns, busy.idle_ns, busy.stolen_ns), (1, 27 * tick, 9 * tick, 8 * tick));
        assert_eq!(cpu_busy("cpu  1 2 3 4 5 6 7 8"), None, "the sum over all CPUs is not a CPU");
        assert_eq!(cpu_busy("intr 12"), None);
    }

    #[test]
    fn a_listener_of_our_own_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(listeners(port), vec![std::process::id()]);
        assert_eq!(listening_of_tables(port), diag::listening(port).unwrap(), "both ways find the same");
    }

    #[test]
    fn both_forms_of_the_throttling_account_are_read() {
        assert_eq!(throttled_ns("nr_periods 4\nthrottled_usec 12\n"), Some(12_000));
        assert_eq!(throttled_ns("nr_throttled 1\nthrottled_time 99\n"), Some(99));
        assert_eq!(throttled_ns("usage_usec 1\n"), None);
    }
}
