//! The figures of the named server: its processes, threads, sockets and control group.

use serde::{Deserialize, Serialize};

use super::figures::figures;
use super::host::Stall;

/// The server on the observed host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Server {
    /// The name of its program; several, if it has several.
    pub name: String,
    /// Figures of all its processes together.
    #[serde(flatten)]
    pub figures: ServerFigures,
    /// The share of the descriptors that the process closest to its limit has open, 0 to 1.
    pub descriptor_use: f64,
    /// Figures of the threads that are followed one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// The busiest of these threads, at most [`BUSIEST_MAX`], the busiest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub busiest: Vec<Thread>,
    /// The listening sockets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub listeners: Vec<Listener>,
    /// Established connections, as far as they were examined in this interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<ConnectionFigures>,
    /// The control group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Group>,
}

/// Threads that a sample lists.
pub const BUSIEST_MAX: usize = 8;

figures! {
    /// All processes of the server together (`/proc/PID/stat`).
    ServerFigures {
        /// Processes.
        peak processes,
        /// Threads.
        peak threads,
        /// CPU time in user space, in milliseconds.
        counter user_ms,
        /// CPU time in the kernel, in milliseconds.
        counter system_ms,
        /// Threads that run or could run, of those that were looked at.
        gauge runnable,
        /// Threads that wait without a way to interrupt them, mostly for storage.
        gauge uninterruptible,
        /// Open descriptors.
        peak descriptors,
        /// The lowest of the processes' limits on descriptors.
        peak descriptors_limit,
        /// Resident memory in KiB; memory that processes share counts for each.
        gauge resident_kib,
        /// Faults that waited for storage.
        counter major_faults,
    }
}

impl ServerFigures {
    /// CPU time in user space and in the kernel.
    pub const fn cpu_ms(&self) -> u64 {
        self.user_ms + self.system_ms
    }
}

figures! {
    /// The scheduling of the server's threads (`/proc/PID/task/TID/{schedstat,status}`).
    Scheduling {
        /// Threads that are followed; fewer than all if the server has many.
        peak followed,
        /// CPU time, in microseconds.
        counter cpu_us,
        /// Time in which they could have run and waited for a CPU, in microseconds.
        counter run_queue_wait_us,
        /// Switches because the thread waited for something.
        counter switches_voluntary,
        /// Switches because another thread was to run.
        counter switches_involuntary,
    }
}

/// One thread of the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Thread {
    /// Its process.
    pub pid: u32,
    /// Itself.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Its state at the end of the interval: R, S, D, ... as in proc_pid_stat(5).
    pub state: String,
    /// The CPU that it last ran on.
    pub last_cpu: u32,
    /// CPU time in the interval, in microseconds.
    pub cpu_us: u64,
    /// Time in which it waited for a CPU, in microseconds.
    pub run_queue_wait_us: u64,
    /// Waits for locks; absent where the kernel does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub futex_waits: Option<u64>,
}

/// One listening socket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listener {
    /// Its address.
    pub address: String,
    /// Connections that wait to be accepted.
    pub waiting: u32,
    /// How many may wait.
    pub backlog: u32,
}

figures! {
    /// The server's established connections (`TCP_INFO` by sock_diag). Many are examined by a
    /// sample.
    ConnectionFigures {
        /// Connections examined.
        peak examined,
        /// 1 if there were more.
        peak is_sample,
        /// Round-trip time: median, in microseconds.
        gauge rtt_p50_us,
        /// Its 99th percentile.
        gauge rtt_p99_us,
        /// The lowest round-trip time of any.
        gauge rtt_min_us,
        /// Congestion window: median, in segments.
        gauge cwnd_p50,
        /// Delivery rate: median, in bytes per second.
        gauge delivery_rate_p50,
        /// Delivery rate: sum over those examined.
        gauge delivery_rate_sum,
        /// Connections whose delivery rate was limited by the server's program.
        gauge app_limited,
        /// Bytes in send buffers that have not been sent.
        gauge unsent_bytes,
        /// Bytes received that the program has not read.
        gauge unread_bytes,
        /// Segments sent.
        counter segments_out,
        /// Segments sent again.
        counter retransmitted,
        /// Time in which data was in flight or ready, in microseconds.
        counter busy_us,
        /// The part of it in which the client's receive window was full.
        counter rwnd_limited_us,
        /// The part of it in which the own send buffer was full.
        counter sndbuf_limited_us,
    }
}

/// The control group of the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Group {
    /// Its path.
    pub path: String,
    /// How many CPUs its quota allows; absent without a quota.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Figures.
    #[serde(flatten)]
    pub figures: GroupFigures,
    /// Pressure on its CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_pressure: Option<Stall>,
}

figures! {
    /// The accounts of a control group (`cpu.stat`, `memory.current`).
    GroupFigures {
        /// Periods of its CPU quota.
        counter periods,
        /// Periods in which the quota ran out.
        counter throttled_periods,
        /// Time in which its threads were kept from running, in microseconds.
        counter throttled_us,
        /// Memory in use, in KiB.
        gauge memory_kib,
        /// Limit on its memory, in KiB; 0 without one.
        peak memory_limit_kib,
    }
}
