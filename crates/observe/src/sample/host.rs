//! The figures of the host as a whole.

use serde::{Deserialize, Serialize};

use super::figures::figures;

figures! {
    /// Time of one CPU by kind, in milliseconds (`/proc/stat`), and what it did for the network.
    CpuTimes {
        /// In user space.
        counter user_ms,
        /// In user space at low priority.
        counter nice_ms,
        /// In the kernel.
        counter system_ms,
        /// In interrupts.
        counter irq_ms,
        /// In deferred interrupts, where the kernel handles packets.
        counter softirq_ms,
        /// Taken by the hypervisor for other guests.
        counter steal_ms,
        /// Idle while storage was waited for.
        counter iowait_ms,
        /// Idle.
        counter idle_ms,
        /// Interrupts (`/proc/interrupts`), on hosts where that file is short.
        counter interrupts,
        /// Deferred interrupts for received packets (`/proc/softirqs`).
        counter net_rx,
        /// Deferred interrupts for sent packets.
        counter net_tx,
        /// Time that threads waited in this CPU's run queue, in microseconds (`/proc/schedstat`).
        counter run_queue_wait_us,
    }
}

impl CpuTimes {
    /// Time in which the CPU did anything, stolen time included.
    pub fn busy_ms(&self) -> u64 {
        let kinds = [self.user_ms, self.nice_ms, self.system_ms, self.irq_ms, self.softirq_ms, self.steal_ms];
        kinds.into_iter().fold(0, u64::saturating_add)
    }

    /// All of its time.
    pub fn total_ms(&self) -> u64 {
        self.busy_ms().saturating_add(self.iowait_ms).saturating_add(self.idle_ms)
    }

    /// The share of its time in which it was busy, 0 to 1.
    pub fn busy_share(&self) -> f64 {
        self.share(self.busy_ms())
    }

    /// `part_ms` as a share of all of its time, 0 to 1.
    pub fn share(&self, part_ms: u64) -> f64 {
        let total = self.total_ms();
        if total == 0 { 0.0 } else { part_ms as f64 / total as f64 }
    }
}

/// One CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Its number.
    pub cpu: usize,
    /// Its time.
    #[serde(flatten)]
    pub times: CpuTimes,
}

figures! {
    /// The scheduler (`/proc/stat`, `/proc/loadavg`).
    Scheduler {
        /// Threads that run or could run.
        gauge running,
        /// Threads that wait for storage.
        gauge blocked,
        /// Switches from one thread to another.
        counter context_switches,
        /// New processes and threads.
        counter forks,
        /// Interrupts.
        counter interrupts,
        /// Deferred interrupts.
        counter softirqs,
    }
}

figures! {
    /// Time that threads lost for want of a resource, in microseconds (`/proc/pressure`).
    Stall {
        /// At least one thread waited.
        counter some_us,
        /// All threads that had work waited.
        counter full_us,
    }
}

/// Pressure on the host's resources; a kernel may account for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pressure {
    /// Waiting for a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Stall>,
    /// Waiting for memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Stall>,
    /// Waiting for storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io: Option<Stall>,
}

figures! {
    /// Memory in KiB (`/proc/meminfo`).
    Memory {
        /// All of it.
        gauge total_kib,
        /// Memory that programs could get without swapping.
        gauge available_kib,
        /// Page cache.
        gauge cached_kib,
        /// Page cache that has yet to be written.
        gauge dirty_kib,
        /// Page cache that is being written.
        gauge writeback_kib,
        /// Swap in use.
        gauge swap_used_kib,
    }
}

figures! {
    /// One disk (`/proc/diskstats`).
    DiskFigures {
        /// Reads completed.
        counter reads,
        /// Bytes read.
        counter read_bytes,
        /// Writes completed.
        counter writes,
        /// Bytes written.
        counter written_bytes,
        /// Time with at least one request, in milliseconds.
        counter busy_ms,
        /// Time of all requests together, in milliseconds.
        counter request_ms,
        /// Requests in flight.
        gauge in_flight,
    }
}

figures! {
    /// One network interface (`/proc/net/dev`).
    InterfaceFigures {
        /// Bytes received.
        counter rx_bytes,
        /// Packets received.
        counter rx_packets,
        /// Received packets that were dropped.
        counter rx_dropped,
        /// Faulty packets received.
        counter rx_errors,
        /// Bytes sent.
        counter tx_bytes,
        /// Packets sent.
        counter tx_packets,
        /// Packets that were dropped instead of sent.
        counter tx_dropped,
        /// Faults in sending.
        counter tx_errors,
        /// Speed in Mbit/s as the driver states it; 0 if it states none.
        peak speed_mbit,
    }
}

/// Figures with the name of what they belong to: a disk, a network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Named<T> {
    /// The kernel's name of it.
    pub name: String,
    /// Its figures.
    #[serde(flatten)]
    pub figures: T,
}

figures! {
    /// Sockets (`/proc/net/sockstat`).
    Sockets {
        /// Sockets of all kinds.
        gauge used,
        /// TCP over IPv4 in use.
        gauge tcp_in_use,
        /// TCP over IPv6 in use.
        gauge tcp6_in_use,
        /// TCP without an owner.
        gauge orphaned,
        /// TCP in TIME_WAIT.
        gauge time_wait,
        /// TCP allocated.
        gauge allocated,
        /// Memory of TCP in KiB.
        gauge memory_kib,
    }
}

figures! {
    /// TCP of this network namespace (`/proc/net/snmp`, `/proc/net/netstat`).
    Tcp {
        /// Connections opened from here.
        counter active_opens,
        /// Connections accepted.
        counter passive_opens,
        /// Attempts to connect that failed.
        counter attempt_fails,
        /// Established connections that were reset.
        counter established_resets,
        /// Established connections.
        gauge established,
        /// Segments received.
        counter segments_in,
        /// Segments sent.
        counter segments_out,
        /// Segments sent again.
        counter retransmitted,
        /// Faulty segments received.
        counter errors_in,
        /// Resets sent.
        counter resets_out,
        /// Connections that a full queue of a listener refused.
        counter listen_overflows,
        /// Connections that a listener dropped for any reason.
        counter listen_drops,
        /// SYN cookies sent.
        counter syncookies_sent,
        /// Connection requests dropped because the SYN backlog was full.
        counter syn_queue_full_drops,
        /// Retransmission timeouts.
        counter timeouts,
        /// SYN and SYN-ACK segments sent again.
        counter syn_retransmits,
        /// Connections aborted for want of memory.
        counter aborts_on_memory,
        /// Connections aborted after a timeout.
        counter aborts_on_timeout,
        /// Connections aborted because data came after the program had closed them.
        counter aborts_on_data,
        /// Connections aborted because the program closed them with data unread.
        counter aborts_on_close,
        /// Times that TCP came under memory pressure.
        counter memory_pressures,
        /// Segments dropped because a socket's backlog was full.
        counter backlog_drops,
        /// Received data that was collapsed or dropped because the buffer was full.
        counter receive_prunes,
    }
}
