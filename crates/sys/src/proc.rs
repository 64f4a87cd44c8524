//! The kernel's figures about this host, its processes and its threads.
//!
//! Everything here is read on request and off the hot path. Files of `/proc` that are missing or in
//! an unknown form give `None`: an observation that could not be made is no reason to end a
//! measurement.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::clock::Instant;
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

/// The times for which a thread was kept from running, since boot or its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waits {
    /// Ready to run, while something else ran on its CPU or the quota of its control group was used
    /// up, in nanoseconds.
    pub run_queue_ns: u64,
    /// Taken from its CPU by the hypervisor, in nanoseconds (resolution: one clock tick).
    pub stolen_ns: u64,
    /// The part that is due to the quota of its control group, in nanoseconds.
    pub throttled_ns: u64,
}

impl Waits {
    /// The waits that something outside of this process caused since `earlier`.
    pub const fn from_outside_since(self, earlier: Self) -> u64 {
        let run_queue_ns = self.run_queue_ns.saturating_sub(earlier.run_queue_ns);
        let throttled_ns = self.throttled_ns.saturating_sub(earlier.throttled_ns);
        run_queue_ns.saturating_sub(throttled_ns) + self.stolen_ns.saturating_sub(earlier.stolen_ns)
    }
}

/// Reads the waits of the calling thread, which runs on one CPU only.
#[derive(Debug)]
pub struct WaitReader {
    cpu: usize,
    /// There is a hypervisor that takes time.
    is_guest: bool,
    /// The account of the control group, if there is one.
    throttling: Option<PathBuf>,
    read: Waits,
    stolen_read_at: Instant,
}

impl WaitReader {
    /// For a thread on that CPU.
    pub fn new(cpu: usize) -> Self {
        let is_guest = cpus_busy().iter().any(|cpu| cpu.stolen_ns > 0);
        let throttling = cpu_stat_of_cgroup("self");
        Self { cpu, is_guest, throttling, read: Waits::default(), stolen_read_at: Instant::default() }
    }

    /// The waits so far. Takes some microseconds, and in a guest some tens every hundredth of a
    /// second.
    pub fn read(&mut self) -> Waits {
        /// A clock tick, in which the account of a CPU does not change.
        const STOLEN_NS: u64 = 10_000_000;
        /// Throttling shows as a longer wait than this.
        const THROTTLED_NS: u64 = 100_000;
        let run_queue_ns = thread_run_queue_wait_ns().unwrap_or(0);
        if run_queue_ns > self.read.run_queue_ns + THROTTLED_NS
            && let Some(account) = self.throttling.as_ref().and_then(|path| fs::read_to_string(path).ok())
        {
            self.read.throttled_ns = throttled_ns(&account).unwrap_or(0);
        }
        self.read.run_queue_ns = run_queue_ns;
        let now = Instant::now();
        if self.is_guest && now.ns_since(self.stolen_read_at) >= STOLEN_NS {
            let stolen = cpus_busy().into_iter().find(|cpu| cpu.cpu == self.cpu).map(|cpu| cpu.stolen_ns);
            self.read.stolen_ns = stolen.unwrap_or(0);
            self.stolen_read_at = now;
        }
        self.read
    }
}

/// A process of this host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its short name.
    pub name: String,
    /// The CPU time of all its threads (resolution: one clock tick).
    pub used: CpuTime,
    /// The CPU on which its first thread ran last.
    pub cpu: usize,
}

/// The processes of this host that this user may see. Takes about ten microseconds for each.
pub fn processes() -> Vec<Process> {
    process_ids().into_iter().filter_map(process).collect()
}

fn process(pid: u32) -> Option<Process> {
    process_of(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn process_of(pid: u32, stat: &str) -> Option<Process> {
    // The command's name stands in parentheses and may itself hold spaces and parentheses.
    let (begin, end) = (stat.find('(')?, stat.rfind(')')?);
    let fields: Vec<&str> = stat.get(end + 2..)?.split_ascii_whitespace().collect();
    let ns = |field: &str| Some(field.parse::<u64>().ok()? * (1_000_000_000 / rustix::param::clock_ticks_per_second()));
    Some(Process {
        pid,
        name: stat.get(begin + 1..end)?.to_owned(),
        used: CpuTime { user_ns: ns(fields.get(11)?)?, system_ns: ns(fields.get(12)?)? },
        cpu: fields.get(36)?.parse().ok()?,
    })
}

/// Whether a process's affinity allows it to run on that CPU.
pub fn may_run_on(pid: u32, cpu: usize) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.is_some_and(|list| is_in_list(list.trim(), cpu))
}

/// Whether a list such as `0-3,7` has that number.
fn is_in_list(list: &str, number: usize) -> bool {
    list.split(',').any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse().is_ok_and(|first: usize| first <= number) && last.parse().is_ok_and(|last: usize| number <= last)
    })
}

/// The threads of this process with their names.
pub fn own_threads() -> Vec<(u32, String)> {
    let Ok(entries) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    let thread = |entry: fs::DirEntry| {
        let name = fs::read_to_string(entry.path().join("comm")).ok()?;
        Some((entry.file_name().to_str()?.parse().ok()?, name.trim_end().to_owned()))
    };
    entries.flatten().filter_map(thread).collect()
}

/// CPU time of a thread of this process in nanoseconds (schedstat).
pub fn own_thread_cpu_ns(thread: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
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
    /// Running programs, or the kernel for them; interrupts are not in it.
    pub programs_ns: u64,
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
    let programs_ns = user + nice + system;
    Some(CpuBusy { cpu, busy_ns, idle_ns: idle + iowait, stolen_ns, programs_ns })
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
    throttled_ns(&fs::read_to_string(cpu_stat_of_cgroup("self")?).ok()?)
}

/// The same of another process.
pub fn cgroup_throttled_ns_of(pid: u32) -> Option<u64> {
    throttled_ns(&fs::read_to_string(cpu_stat_of_cgroup(&pid.to_string())?).ok()?)
}

/// The file with the account of a process's control group that has its throttling.
fn cpu_stat_of_cgroup(process: &str) -> Option<PathBuf> {
    let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
    let v1 = groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|name| name == "cpu").then(|| format!("/sys/fs/cgroup/cpu{path}/cpu.stat"))
    });
    let v2 = groups.lines().find_map(|line| Some(format!("/sys/fs/cgroup{}/cpu.stat", line.strip_prefix("0::")?)));
    let has_throttling = |path: &PathBuf| fs::read_to_string(path).is_ok_and(|text| throttled_ns(&text).is_some());
    [v1, v2].into_iter().flatten().map(PathBuf::from).find(has_throttling)
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
    let sockets = diag::listening(port).map(|sockets| sockets.iter().map(|socket| socket.inode).collect());
    holders_of_sockets(&sockets.unwrap_or_else(|_| listening_of_tables(port)))
}

/// The processes that hold any of these sockets, by the sockets' inodes.
pub fn holders_of_sockets(inodes: &[u32]) -> Vec<u32> {
    if inodes.is_empty() {
        return Vec::new();
    }
    let inodes: HashSet<u32> = inodes.iter().copied().collect();
    process_ids().into_iter().filter(|pid| sockets_of(*pid).any(|inode| inodes.contains(&inode))).collect()
}

/// The numbers of all processes of this host.
pub fn process_ids() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The inodes of the sockets that a process holds, as far as this user may see them.
pub fn sockets_of(pid: u32) -> impl Iterator<Item = u32> {
    // They are listed by number, and a server listens before it has connections.
    const DESCRIPTORS_MAX: usize = 4096;
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten().take(DESCRIPTORS_MAX);
    descriptors.filter_map(|entry| {
        let target = fs::read_link(entry.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    })
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

/// The unit of times in `/proc/stat` and `/proc/PID/stat`.
pub fn clock_tick_ms() -> u64 {
    1_000 / rustix::param::clock_ticks_per_second()
}

/// The unit of memory in `/proc/PID/stat` and `/proc/net/sockstat`.
pub fn page_kib() -> u64 {
    rustix::param::page_size() as u64 / 1024
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
        assert_eq!(busy.programs_ns, 6 * tick);
        assert_eq!(cpu_busy("cpu  1 2 3 4 5 6 7 8"), None, "the sum over all CPUs is not a CPU");
        assert_eq!(cpu_busy("intr 12"), None);
    }

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let stat =
            "77 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 3 4 0 0 20 0 1 0 50 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 17 5 0 0";
        let process = process_of(77, stat).unwrap();
        let tick = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        assert_eq!((process.name.as_str(), process.used.total_ns(), process.cpu), ("a) b (c", 7 * tick, 5));
        let own = processes().into_iter().find(|process| process.pid == std::process::id()).unwrap();
        assert!(may_run_on(own.pid, own.cpu));
    }

    #[test]
    fn lists_of_cpus_are_read() {
        let within = |list| (0..6).filter(|&cpu| is_in_list(list, cpu)).collect::<Vec<_>>();
        assert_eq!(within("0-2,4"), [0, 1, 2, 4]);
        assert_eq!(within("5"), [5]);
        assert!(within("").is_empty());
    }

    #[test]
    fn a_listener_of_our_own_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(listeners(port), vec![std::process::id()]);
        let by_diagnosis: Vec<u32> = diag::listening(port).unwrap().iter().map(|socket| socket.inode).collect();
        assert_eq!(listening_of_tables(port), by_diagnosis, "both ways find the same");
    }

    #[test]
    fn both_forms_of_the_throttling_account_are_read() {
        assert_eq!(throttled_ns("nr_periods 4\nthrottled_usec 12\n"), Some(12_000));
        assert_eq!(throttled_ns("nr_throttled 1\nthrottled_time 99\n"), Some(99));
        assert_eq!(throttled_ns("usage_usec 1\n"), None);
    }
}
