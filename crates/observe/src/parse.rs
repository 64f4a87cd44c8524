//! The text forms of the kernel's accounts.
//!
//! Kernels differ: fields are looked up by name where the form has names, further ones at the end
//! of a line are ignored, and a text in an unknown form gives `None` or an empty list. The parsers
//! read only what a sample holds and allocate only names, since they run every second on a host
//! that is measured.

use crate::sample::{
    Cpu, CpuTimes, DiskFigures, GroupFigures, InterfaceFigures, Memory, Named, Scheduler, Sockets, Stall, Tcp,
};

/// The bytes of a sector in `/proc/diskstats`, whatever the disk's own are.
const SECTOR_BYTES: u64 = 512;

fn numbers(text: &str) -> impl Iterator<Item = u64> {
    text.split_ascii_whitespace().map_while(|field| field.parse().ok())
}

/// The first `N` numbers; `None` if there are fewer.
fn leading<const N: usize>(text: &str) -> Option<[u64; N]> {
    let mut found = [0; N];
    let mut numbers = numbers(text);
    for slot in &mut found {
        *slot = numbers.next()?;
    }
    Some(found)
}

/// The number behind `name` in a text of lines `name number`, `name: number` or `name number kB`.
fn named(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?;
        let value = rest.strip_prefix(':').unwrap_or(rest);
        value.starts_with([' ', '\t']).then(|| numbers(value).next()).flatten()
    })
}

/// The CPUs of `/proc/stat`, whose unit is a tick of `tick_ms`.
pub fn cpus(stat: &str, tick_ms: u64) -> Vec<Cpu> {
    let cpu = |line: &str| {
        let (name, times) = line.split_once(' ')?;
        let cpu = name.strip_prefix("cpu")?.parse().ok()?;
        // Guest time, which follows, is part of user time already.
        let [user, nice, system, idle, iowait, irq, softirq, steal] =
            leading::<8>(times)?.map(|ticks| ticks.saturating_mul(tick_ms));
        let times = CpuTimes {
            user_ms: user,
            nice_ms: nice,
            system_ms: system,
            irq_ms: irq,
            softirq_ms: softirq,
            steal_ms: steal,
            iowait_ms: iowait,
            idle_ms: idle,
            ..CpuTimes::default()
        };
        Some(Cpu { cpu, times })
    };
    stat.lines().take_while(|line| line.starts_with("cpu")).filter_map(cpu).collect()
}

/// The rest of `/proc/stat`.
pub fn scheduler(stat: &str) -> Option<Scheduler> {
    Some(Scheduler {
        running: named(stat, "procs_running")? as f64,
        blocked: named(stat, "procs_blocked").unwrap_or(0) as f64,
        context_switches: named(stat, "ctxt")?,
        forks: named(stat, "processes").unwrap_or(0),
        interrupts: named(stat, "intr").unwrap_or(0),
        softirqs: named(stat, "softirq").unwrap_or(0),
    })
}

/// Adds the rows `NET_RX` and `NET_TX` of `/proc/softirqs` to the CPUs.
pub fn add_softirqs(softirqs: &str, cpus: &mut [Cpu]) {
    let mut lines = softirqs.lines();
    let Some(header) = lines.next() else { return };
    for line in lines {
        let Some((name, counts)) = line.split_once(':') else { continue };
        let field: fn(&mut CpuTimes) -> &mut u64 = match name.trim() {
            "NET_RX" => |times| &mut times.net_rx,
            "NET_TX" => |times| &mut times.net_tx,
            _ => continue,
        };
        add_columns(header, counts, cpus, field);
    }
}

/// Adds up the columns of `/proc/interrupts`.
pub fn add_interrupts(interrupts: &str, cpus: &mut [Cpu]) {
    let mut lines = interrupts.lines();
    let Some(header) = lines.next() else { return };
    for line in lines {
        if let Some((_, counts)) = line.split_once(':') {
            add_columns(header, counts, cpus, |times| &mut times.interrupts);
        }
    }
}

/// Adds the numbers of a row to the CPUs that the header `CPU0 CPU1 ...` names for their columns.
fn add_columns(header: &str, counts: &str, cpus: &mut [Cpu], field: fn(&mut CpuTimes) -> &mut u64) {
    let named = header.split_ascii_whitespace().map(|name| name.strip_prefix("CPU")?.parse::<usize>().ok());
    for (number, count) in named.zip(numbers(counts)) {
        if let Some(cpu) = number.and_then(|number| cpus.iter_mut().find(|cpu| cpu.cpu == number)) {
            let sum = field(&mut cpu.times);
            *sum = sum.saturating_add(count);
        }
    }
}

/// Adds the run queue's wait of `/proc/schedstat` (versions 15 to 17) to the CPUs.
pub fn add_run_queue_waits(schedstat: &str, cpus: &mut [Cpu]) {
    for line in schedstat.lines() {
        let Some((name, figures)) = line.split_once(' ') else { continue };
        let Some(number) = name.strip_prefix("cpu").and_then(|number| number.parse::<usize>().ok()) else { continue };
        // The eighth figure: time that threads waited to run, in nanoseconds.
        let wait_ns = numbers(figures).nth(7);
        if let (Some(wait_ns), Some(cpu)) = (wait_ns, cpus.iter_mut().find(|cpu| cpu.cpu == number)) {
            cpu.times.run_queue_wait_us = wait_ns / 1_000;
        }
    }
}

/// A file of `/proc/pressure`.
pub fn stall(pressure: &str) -> Option<Stall> {
    let total = |kind: &str| {
        let line = pressure.lines().find_map(|line| line.strip_prefix(kind))?;
        line.split_ascii_whitespace().find_map(|field| field.strip_prefix("total="))?.parse().ok()
    };
    // Before Linux 5.13 that of the CPU has no line `full`.
    Some(Stall { some_us: total("some")?, full_us: total("full").unwrap_or(0) })
}

/// `/proc/meminfo`.
pub fn memory(meminfo: &str) -> Option<Memory> {
    let kib = |name: &str| named(meminfo, name).map(|kib| kib as f64);
    Some(Memory {
        total_kib: kib("MemTotal")?,
        available_kib: kib("MemAvailable").or_else(|| kib("MemFree"))?,
        cached_kib: kib("Cached").unwrap_or(0.0),
        dirty_kib: kib("Dirty").unwrap_or(0.0),
        writeback_kib: kib("Writeback").unwrap_or(0.0),
        swap_used_kib: kib("SwapTotal").zip(kib("SwapFree")).map_or(0.0, |(total, free)| (total - free).max(0.0)),
    })
}

/// `/proc/diskstats`: the devices that have ever been used, partitions too.
pub fn disks(diskstats: &str) -> Vec<Named<DiskFigures>> {
    let disk = |line: &str| {
        let mut fields = line.split_ascii_whitespace().skip(2);
        let name = fields.next()?;
        let mut next = || fields.next()?.parse::<u64>().ok();
        let mut figures = [0; 11];
        for slot in &mut figures {
            *slot = next()?;
        }
        let [reads, _, read_sectors, _, writes, _, written_sectors, _, in_flight, busy_ms, request_ms] = figures;
        let figures = DiskFigures {
            reads,
            read_bytes: read_sectors.saturating_mul(SECTOR_BYTES),
            writes,
            written_bytes: written_sectors.saturating_mul(SECTOR_BYTES),
            busy_ms,
            request_ms,
            in_flight: in_flight as f64,
        };
        (reads > 0 || writes > 0).then(|| Named { name: name.to_owned(), figures })
    };
    diskstats.lines().filter_map(disk).collect()
}

/// `/proc/net/dev`: the interfaces that have ever carried a packet.
pub fn interfaces(dev: &str) -> Vec<Named<InterfaceFigures>> {
    let interface = |line: &str| {
        // An alias such as eth0:1 has a colon in its name.
        let (name, figures) = line.rsplit_once(':')?;
        let [rx_bytes, rx_packets, rx_errors, rx_dropped, _, _, _, _, tx_bytes, tx_packets, tx_errors, tx_dropped] =
            leading::<12>(figures)?;
        if rx_packets == 0 && tx_packets == 0 {
            return None;
        }
        let figures = InterfaceFigures {
            rx_bytes,
            rx_packets,
            rx_dropped,
            rx_errors,
            tx_bytes,
            tx_packets,
            tx_dropped,
            tx_errors,
            speed_mbit: 0,
        };
        Some(Named { name: name.trim().to_owned(), figures })
    };
    dev.lines().filter_map(interface).collect()
}

/// `/proc/net/sockstat`, and `sockstat6` (which may be empty); TCP counts its memory in pages.
pub fn sockets(sockstat: &str, sockstat6: &str, page_kib: u64) -> Option<Sockets> {
    let line = |text: &str, name: &str| text.lines().find_map(|line| Some(line.strip_prefix(name)?.to_owned()));
    let field = |line: &str, name: &str| {
        let mut fields = line.split_ascii_whitespace();
        fields.find(|field| *field == name)?;
        fields.next()?.parse::<u64>().ok().map(|value| value as f64)
    };
    let tcp = line(sockstat, "TCP:")?;
    let tcp6 = line(sockstat6, "TCP6:").unwrap_or_default();
    Some(Sockets {
        used: line(sockstat, "sockets:").and_then(|line| field(&line, "used")).unwrap_or(0.0),
        tcp_in_use: field(&tcp, "inuse")?,
        tcp6_in_use: field(&tcp6, "inuse").unwrap_or(0.0),
        orphaned: field(&tcp, "orphan").unwrap_or(0.0),
        time_wait: field(&tcp, "tw").unwrap_or(0.0),
        allocated: field(&tcp, "alloc").unwrap_or(0.0),
        memory_kib: field(&tcp, "mem").unwrap_or(0.0) * page_kib as f64,
    })
}

/// `/proc/net/snmp` and `netstat`: tables of two lines, names and numbers.
pub fn tcp(snmp: &str, netstat: &str) -> Option<Tcp> {
    let mut tcp = Tcp::default();
    let mut known = 0;
    let tables = [(snmp, "Tcp:"), (netstat, "TcpExt:")];
    for (text, table) in tables {
        let mut rows = text.lines().filter_map(|line| line.strip_prefix(table));
        let (Some(names), Some(values)) = (rows.next(), rows.next()) else { continue };
        for (name, value) in names.split_ascii_whitespace().zip(values.split_ascii_whitespace()) {
            // A value may be negative (`MaxConn`); none of those below is.
            let Ok(value) = value.parse::<u64>() else { continue };
            known += u32::from(set_tcp(&mut tcp, name, value));
        }
    }
    (known > 0).then_some(tcp)
}

fn set_tcp(tcp: &mut Tcp, name: &str, value: u64) -> bool {
    let field = match name {
        "ActiveOpens" => &mut tcp.active_opens,
        "PassiveOpens" => &mut tcp.passive_opens,
        "AttemptFails" => &mut tcp.attempt_fails,
        "EstabResets" => &mut tcp.established_resets,
        "CurrEstab" => {
            tcp.established = value as f64;
            return true;
        }
        "InSegs" => &mut tcp.segments_in,
        "OutSegs" => &mut tcp.segments_out,
        "RetransSegs" => &mut tcp.retransmitted,
        "InErrs" => &mut tcp.errors_in,
        "OutRsts" => &mut tcp.resets_out,
        "ListenOverflows" => &mut tcp.listen_overflows,
        "ListenDrops" => &mut tcp.listen_drops,
        "SyncookiesSent" => &mut tcp.syncookies_sent,
        "TCPReqQFullDrop" => &mut tcp.syn_queue_full_drops,
        "TCPTimeouts" => &mut tcp.timeouts,
        "TCPSynRetrans" => &mut tcp.syn_retransmits,
        "TCPAbortOnMemory" => &mut tcp.aborts_on_memory,
        "TCPAbortOnTimeout" => &mut tcp.aborts_on_timeout,
        "TCPAbortOnData" => &mut tcp.aborts_on_data,
        "TCPAbortOnClose" => &mut tcp.aborts_on_close,
        "TCPMemoryPressures" => &mut tcp.memory_pressures,
        "TCPBacklogDrop" => &mut tcp.backlog_drops,
        "PruneCalled" => &mut tcp.receive_prunes,
        _ => return false,
    };
    *field = value;
    true
}

/// A process or a thread at one time, from its `stat`; times in ticks since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskStat {
    /// Its name.
    pub name: String,
    /// Its state, one letter.
    pub state: char,
    /// CPU time in user space.
    pub user_ticks: u64,
    /// CPU time in the kernel.
    pub system_ticks: u64,
    /// Faults that waited for storage.
    pub major_faults: u64,
    /// Threads of the process.
    pub threads: u64,
    /// When it started; with the number it identifies a process.
    pub started_ticks: u64,
    /// Resident memory in pages.
    pub resident_pages: u64,
    /// The CPU that it last ran on.
    pub last_cpu: u32,
}

/// `/proc/PID/stat` and `/proc/PID/task/TID/stat`.
pub fn task_stat(stat: &str) -> Option<TaskStat> {
    // The name stands in parentheses and may itself hold spaces and parentheses.
    let (name, rest) = (stat.find('(')?, stat.rfind(')')?);
    let fields: Vec<&str> = stat.get(rest + 1..)?.split_ascii_whitespace().collect();
    // Fields are numbered as in proc_pid_stat(5); the state is the third.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(TaskStat {
        name: stat.get(name + 1..rest)?.to_owned(),
        state: fields.first()?.chars().next()?,
        user_ticks: number(14)?,
        system_ticks: number(15)?,
        major_faults: number(12)?,
        threads: number(20)?,
        started_ticks: number(22)?,
        resident_pages: number(24).unwrap_or(0),
        last_cpu: number(39).and_then(|cpu| cpu.try_into().ok()).unwrap_or(0),
    })
}

/// A thread's `schedstat`: its CPU time and its wait for a CPU, in nanoseconds.
pub fn task_schedstat(schedstat: &str) -> Option<(u64, u64)> {
    leading::<2>(schedstat).map(|[cpu, wait]| (cpu, wait))
}

/// The voluntary and involuntary context switches in a thread's `status`.
pub fn task_switches(status: &str) -> Option<(u64, u64)> {
    named(status, "voluntary_ctxt_switches").zip(named(status, "nonvoluntary_ctxt_switches"))
}

/// The soft limit on open files in `/proc/PID/limits`; `None` without one.
pub fn descriptors_limit(limits: &str) -> Option<u64> {
    limits.lines().find_map(|line| line.strip_prefix("Max open files"))?.split_ascii_whitespace().next()?.parse().ok()
}

/// The group of the CPU controller in `/proc/PID/cgroup`: whether it is of version 2, and its path.
pub fn cpu_group(cgroup: &str) -> Option<(bool, &str)> {
    let mut version_2 = None;
    for line in cgroup.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        if controllers.split(',').any(|name| name == "cpu") {
            return Some((false, path));
        }
        if controllers.is_empty() {
            version_2 = Some((true, path));
        }
    }
    version_2
}

/// The CPUs that a quota allows: `cpu.max`, or `cpu.cfs_quota_us` and the period beside it.
pub fn quota_cpus(quota: &str, period: Option<&str>) -> Option<f64> {
    let mut fields = quota.split_ascii_whitespace();
    // `max`, or -1 in version 1, is no quota.
    let quota: u64 = fields.next()?.parse().ok()?;
    let period: u64 = period.or(fields.next())?.trim().parse().ok()?;
    (period > 0).then(|| quota as f64 / period as f64)
}

/// The accounts in `cpu.stat` of either version.
pub fn group_cpu(stat: &str) -> Option<GroupFigures> {
    let throttled_ns = || named(stat, "throttled_time").map(|ns| ns / 1_000);
    Some(GroupFigures {
        periods: named(stat, "nr_periods")?,
        throttled_periods: named(stat, "nr_throttled").unwrap_or(0),
        throttled_us: named(stat, "throttled_usec").or_else(throttled_ns)?,
        ..GroupFigures::default()
    })
}
